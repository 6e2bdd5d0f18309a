"""Parse the syntax of RE2 to a tree.

    re   = cat { "|" cat }
    cat  = { item [ "*" | "+" | "?" | "{n}" | "{n,}" | "{n,m}" [ "?" ] ] }
    item = char | "." | class | "(" ... ")" | "^" "$" "\\b" "\\B" "\\A" "\\z"

Backreferences and lookaround are not supported: they need memory of what was matched, and matching is one
pass. Group names and numbers, and whether repetitions are lazy, make no difference to a full match; they are
parsed and ignored.

**Source**: https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

import re
from enum import Enum

from heddle.support.frozen import frozen
from heddle.vm.builtins.regex import charsets
from heddle.vm.builtins.regex.charsets import Ranges

MAX_REPEAT = 1000
"""The largest repetition count, and the largest product of nested repetition counts."""
MAX_DEPTH = 100
MAX_PATTERN = 1 << 16


class PatternError(ValueError):
    """A malformed pattern. `args[0]` says what is wrong, and where."""


class Place(Enum):
    """Anchors: conditions on the position of an empty match."""

    TEXT_BEGIN = "\\A"
    TEXT_END = "\\z"
    LINE_BEGIN = "(?m)^"
    LINE_END = "(?m)$"
    WORD_EDGE = "\\b"
    NO_WORD_EDGE = "\\B"


@frozen
class Chars:
    """One character of a set. The empty set matches nothing."""

    ranges: Ranges


@frozen
class At:
    """An empty match at a position that satisfies an anchor."""

    place: Place


@frozen
class Sequence:
    """A concatenation."""

    items: tuple[Node, ...]


@frozen
class Choice:
    """An alternation."""

    items: tuple[Node, ...]


@frozen
class Repeat:
    """A repetition, `least` to `most` times (None: unbounded). `product` is the largest product of nested
    counts in it."""

    item: Node
    least: int
    most: int | None
    product: int


Node = Chars | At | Sequence | Choice | Repeat
_ESCAPED = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_PERL = {"d": charsets.DIGITS, "s": charsets.SPACES, "w": charsets.WORDS}
_PLACES = {"A": Place.TEXT_BEGIN, "z": Place.TEXT_END, "b": Place.WORD_EDGE, "B": Place.NO_WORD_EDGE}
_COUNT = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}", re.ASCII)
_NAME = re.compile(r"P?<(\w+)>")
_FLAGS = re.compile(r"([imsU]*)(?:(-)([imsU]+))?([:)])")
_POSIX = re.compile(r"\[:(\^?)(\w+):\]")


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text, 0, 0
        self._flags = frozenset[str]()

    def parse(self) -> Node:
        if len(self._text) > MAX_PATTERN:
            raise PatternError(f"a pattern of {len(self._text)} characters, expected at most {MAX_PATTERN}")
        made = self._choice()
        if self._at < len(self._text):
            self._fail("no group is open")
        return made

    def _fail(self, message: str, at: int | None = None) -> None:
        raise PatternError(f"{message}, at character {self._at if at is None else at}")

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        char = self._peek()
        if not char:
            self._fail("the pattern ends too early")
        self._at += 1
        return char

    def _takes(self, text: str) -> bool:
        found = self._text.startswith(text, self._at)
        self._at += len(text) * found
        return found

    def _takes_match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return found

    # ---- structure

    def _choice(self) -> Node:
        items = [self._sequence()]
        while self._takes("|"):
            items.append(self._sequence())
        return items[0] if len(items) == 1 else Choice(tuple(items))

    def _sequence(self) -> Node:
        items: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            if self._takes("\\Q"):
                items += self._quoted()
                continue
            item = self._item()
            if item is not None:
                items.append(self._repeated(item))
            elif items:  # flags for what follows; a repetition here belongs to the item before the flags
                items.append(self._repeated(items.pop()))
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _quoted(self) -> list[Node]:
        """Parse the text between \\Q and \\E, or up to the end. A repetition after it applies to the last
        character."""
        end = self._text.find("\\E", self._at)
        literal = self._text[self._at : end if end >= 0 else len(self._text)]
        self._at = end + 2 if end >= 0 else len(self._text)
        items = [self._chars(_single(ord(char))) for char in literal]
        return [*items[:-1], self._repeated(items[-1])] if items else []

    def _count(self) -> tuple[int, int | None] | None:
        """Parse a repetition at the current position, if there is one."""
        for sign, counts in {"*": (0, None), "+": (1, None), "?": (0, 1)}.items():
            if self._takes(sign):
                self._takes("?")
                return counts
        found = self._takes_match(_COUNT)
        if found is None:
            return None
        least, comma, most = found.groups()
        limits = (int(least[:9]), int((most or least)[:9]) if not comma or most else None)
        if limits[0] > MAX_REPEAT or (limits[1] is not None and not limits[0] <= limits[1] <= MAX_REPEAT):
            self._fail(f"counts rise, to {MAX_REPEAT} at most, got {found[0][:40]}", found.start())
        self._takes("?")
        return limits

    def _repeated(self, item: Node) -> Node:
        begin = self._at
        counts = self._count()
        if counts is None:
            return item
        again = self._at
        if self._count() is not None:
            self._fail("a repetition of a repetition needs a group", again)
        product = _product(item) * max(counts[0], counts[1] or 1, 1)
        if product > MAX_REPEAT:
            self._fail(f"repetitions inside each other make {product}, expected at most {MAX_REPEAT}", begin)
        return Repeat(item, *counts, product)

    # ---- items

    def _item(self) -> Node | None:
        begin = self._at
        if self._count() is not None:
            self._fail("nothing to repeat", begin)
        char = self._next()
        if char == "(":
            return self._group(begin)
        if char == "[":
            return self._class(begin)
        if char == ".":
            return Chars(charsets.ALL if "s" in self._flags else charsets.complement(charsets.NEWLINE))
        if char == "^":
            return At(Place.LINE_BEGIN if "m" in self._flags else Place.TEXT_BEGIN)
        if char == "$":
            return At(Place.LINE_END if "m" in self._flags else Place.TEXT_END)
        if char != "\\":
            return self._chars(_single(ord(char)))
        if self._peek() in _PLACES and self._peek():
            return At(_PLACES[self._next()])
        return Chars(self._escaped_class() or self._fold(_single(self._escaped())))

    def _chars(self, ranges: Ranges) -> Chars:
        return Chars(self._fold(ranges))

    def _fold(self, ranges: Ranges) -> Ranges:
        return charsets.folded(ranges) if "i" in self._flags else ranges

    def _group(self, begin: int) -> Node | None:
        outside = self._flags
        if self._takes("?"):
            name = self._takes_match(_NAME)
            flags = None if name else self._takes_match(_FLAGS)
            if flags:
                self._flags = (self._flags | set(flags[1])) - set(flags[3] or "")
                if flags[4] == ")":
                    return None
            elif not name:
                self._fail("a group of a kind that is not supported", begin)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(f"groups are nested deeper than {MAX_DEPTH}", begin)
        made = self._choice()
        if not self._takes(")"):
            self._fail("a group is not closed", begin)
        self._depth -= 1
        self._flags = outside
        return made

    def _escaped(self) -> int:
        """Parse the character after a backslash."""
        begin, char = self._at - 1, self._next()
        if char in _ESCAPED:
            return _ESCAPED[char]
        if char == "0" or (char in "1234567" and self._peek() in tuple("01234567")):
            digits = char
            while len(digits) < 3 and self._peek() in tuple("01234567"):
                digits += self._next()
            return int(digits, 8)
        if char == "x":
            return self._hexadecimal(begin)
        if char.isascii() and not char.isalnum():
            return ord(char)
        self._fail(
            "references to groups are not supported" if char.isdigit() else f"an unknown escape \\{char}",
            begin,
        )
        return 0

    def _hexadecimal(self, begin: int) -> int:
        if self._takes("{"):
            end = self._text.find("}", self._at)
            digits = self._text[self._at : max(end, self._at)]
            self._at = end + 1
        else:
            digits = self._text[self._at : self._at + 2]
            self._at += 2
            digits = digits if len(digits) == 2 else ""
        if not re.fullmatch("[0-9A-Fa-f]{1,8}", digits) or int(digits, 16) > charsets.LAST:
            self._fail("\\x needs two hexadecimal digits, or any in braces", begin)
        return int(digits, 16)

    # ---- classes

    def _escaped_class(self) -> Ranges | None:
        """Parse a class that is written as an escape; None if there is none. The backslash has been read."""
        char = self._peek()
        if char and char.lower() in _PERL:
            self._at += 1
            ranges = self._fold(_PERL[char.lower()])
            return charsets.complement(ranges) if char.isupper() else ranges
        if char not in ("p", "P"):
            return None
        begin = self._at - 1
        self._at += 1
        name, negative = self._next(), char == "P"
        if name == "{":
            end = self._text.find("}", self._at)
            name = self._text[self._at : max(end, self._at)]
            self._at = end + 1
        if name.startswith("^"):
            name, negative = name[1:], not negative
        found = charsets.category(name)
        if found is None:
            self._fail(
                f"{name[:40]!r} is no general category of Unicode, and others are not supported", begin
            )
            return None
        ranges = self._fold(found)
        return charsets.complement(ranges) if negative else ranges

    def _class(self, begin: int) -> Node:
        negative = self._takes("^")
        parts: list[tuple[int, int]] = []
        first = True
        while first or self._peek() != "]":
            if not self._peek():
                self._fail("a class of characters is not closed", begin)
            parts += self._class_part()
            first = False
        self._at += 1
        ranges = charsets.union(parts)
        return Chars(charsets.complement(ranges) if negative else ranges)

    def _class_part(self) -> Ranges:
        begin = self._at
        posix = self._takes_match(_POSIX)
        if posix:
            known = charsets.POSIX.get(posix[2])
            if known is None:
                self._fail(f"an unknown class {posix[0][:40]}", begin)
                return ()
            ranges = self._fold(known)
            return charsets.complement(ranges) if posix[1] else ranges
        if self._text.startswith("[:", self._at) and self._text.find(":]", self._at) > 0:
            self._fail("an unknown class", begin)
        if self._peek() == "\\":
            self._at += 1
            ranges_or_none = self._escaped_class()
            if ranges_or_none is not None:
                return ranges_or_none
            self._at -= 1
        low = high = self._class_char()
        if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
            self._at += 1
            high = self._class_char()
        if high < low:
            self._fail("a range whose end is less than its begin", begin)
        return self._fold(((low, high),))

    def _class_char(self) -> int:
        char = self._next()
        return self._escaped() if char == "\\" else ord(char)


def _single(code: int) -> Ranges:
    return ((code, code),)


def _product(node: Node) -> int:
    if isinstance(node, Repeat):
        return node.product
    if isinstance(node, (Sequence, Choice)):
        return max(map(_product, node.items), default=1)
    return 1


def parse(pattern: str) -> Node:
    """Parse a pattern. Raises: PatternError."""
    return _Parser(pattern).parse()
