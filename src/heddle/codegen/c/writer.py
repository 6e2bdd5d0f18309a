"""The text of a C file under way: functions of indented lines, names that are used once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

_KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long
register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
asm bool true false main errno signgam assert memcpy memset memmove memcmp strlen strcmp strcpy malloc free
acos asin atan atan2 cos sin tan cosh sinh tanh acosh asinh atanh exp frexp ldexp log log10 modf pow sqrt ceil
fabs floor fmod exp2 expm1 log1p log2 logb scalbn hypot cbrt erf erfc lgamma tgamma nearbyint rint lrint round
lround trunc remainder remquo copysign nan nextafter fdim fmax fmin fma j0 j1 jn y0 y1 yn gamma index div abs
isnan isinf isfinite isnormal signbit fpclassify
"""
_RESERVED = frozenset(_KEYWORDS.split())
KEYWORDS = _RESERVED | {f"{name}{end}" for name in _RESERVED for end in "fl"}
"""What a variable may not be called: words of C, functions of its library and of <math.h>."""
INDENT = "  "
_WORD = re.compile(r"[A-Za-z_]\w*")


def identifier(name: str) -> str:
    """A C name like `name`, apart from keywords and from the names of headers."""
    text = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not text or not text[0].isalpha() or text.startswith("heddle") or (text.isupper() and len(text) > 1):
        text = "v_" + text
    return text + "_" if text in KEYWORDS or text.endswith("_t") or not text.isascii() else text


def symbol(name: str) -> str:
    """The C name of a function: `name`, with characters that C does not take spelled by their numbers."""
    return re.sub(r"[^A-Za-z0-9_]", lambda found: f"_{ord(found[0]):x}_", name)


def bare(text: str) -> str:
    """An expression without parentheses around the whole of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return text[1:-1] if position == len(text) - 1 else text
    return text


class Names:
    """Names of one scope, each given once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: Counter[str] = Counter()

    def fresh(self, hint: str) -> str:
        """A name like `hint` that C takes and that was not given before."""
        stem = identifier(hint)
        name = stem
        while name in self._taken or name in KEYWORDS:
            self._next[stem] += 1
            name = f"{stem}_{self._next[stem]}"
        self._taken.add(name)
        return name


class FunctionWriter:
    """The lines of one function's body. Names are unique in the function, whatever their block."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._declared: list[tuple[int, str]] = []
        self.names = Names()
        self._depth = 1

    def line(self, text: str) -> None:
        """Append a line, indented as deep as the blocks around it."""
        self._lines.append(INDENT * self._depth + text)

    def label(self, name: str) -> None:
        """Append a label. An empty statement follows, for a label must stand before one."""
        self._lines.append(f"{name}:;")

    @contextmanager
    def block(self, head: str = "", tail: str = "}") -> Iterator[None]:
        """Lines inside braces; `head` goes before the first."""
        self.line(f"{head} {{".lstrip())
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self.line(tail)

    @contextmanager
    def rest(self) -> Iterator[None]:
        """What follows a block whose tail opened another one."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self.line("}")

    def declare(self, hint: str, text: str) -> str:
        """A new variable; in `text`, {} stands for its name."""
        name = self.names.fresh(hint)
        self.line(text.replace("{}", name, 1))
        self._declared.append((len(self._lines) - 1, name))
        return name

    def value(self, ty: str, text: str, hint: str = "t") -> str:
        """A new constant of the function."""
        return self.declare(
            hint,
            f"{ty} const {{}} = {bare(text)};" if ty.endswith("*") else f"const {ty} {{}} = {bare(text)};",
        )

    def build(self, header: str, params: tuple[str, ...] = ()) -> str:
        """The function. Variables that nobody reads say so, since compilers ask."""
        uses = Counter(word for line in self._lines for word in _WORD.findall(line))
        for position, name in self._declared:
            if uses[name] == 1:
                self._lines[position] += f" (void){name};"
        unread = [f"{INDENT}(void){name};" for name in params if not uses[name]]
        return "\n".join([f"{header} {{", *unread, *self._lines, "}", ""])


class ModuleWriter:
    """The functions of one file, and the declarations before them. `own` are the names of its functions,
    `hosted` what they call that is neither a kernel nor written out here, and `workspaces` the bytes that
    kernels take while they run, None where those depend on sizes.
    """

    def __init__(self) -> None:
        self._declarations: dict[str, str] = {}
        self._functions: list[str] = []
        self.names = Names()
        self.own: set[str] = set()
        self.hosted: set[str] = set()
        self.workspaces: dict[str, list[int | None]] = {}

    def declare(self, text: str) -> None:
        self._declarations.setdefault(text, text)

    def declare_external(self, name: str, text: str) -> None:
        """A function that is called, where it is none of the file's own."""
        if name not in self.own:
            self.declare(text)

    def add(self, text: str) -> None:
        """Append the text of a function."""
        self._functions.append(text)

    def build(self) -> str:
        """The file's text: declarations, each once, then the functions."""
        return "\n".join([*self._declarations, "", *self._functions])
