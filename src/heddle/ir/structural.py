"""Structural equality and hashing: two nodes are equal if their fields are equal after mapping definitions
onto each other.

Names and spans are ignored. When a `defines()` field first mentions a variable or buffer (an identity node),
it is paired with its counterpart until the end of the enclosing function. Anywhere else, it must already be
paired, or be the same object. With `map_free_vars=True`, free variables are paired at their first use too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from heddle.ir.access_path import AccessPath, Step
from heddle.ir.codes import I0101
from heddle.ir.node import ALL, Defining, Map, Node, is_defined
from heddle.ir.open_scopes import OpenScopes
from heddle.ir.value_keys import has_key, value_key
from heddle.support.diagnostics import VerifyError
from heddle.support.frozen import frozen


@frozen
class Mismatch:
    path: AccessPath
    lhs: Any
    rhs: Any
    reason: str


_Path = tuple[Step, Any] | None
"""The last step of an access path, and the path before it."""
_COMPARE, _REPORT, _LEAVE = range(3)


@frozen
class _Difference:
    lhs: Any
    rhs: Any
    reason: str
    path: _Path

    @property
    def steps(self) -> list[Step]:
        """Those of the access path, the first one first."""
        found, path = [], self.path
        while path is not None:
            step, path = path
            found.append(step)
        return found[::-1]


class _Comparison:
    """Compares with a list of what is still to be done, not with Python's stack: programs may be nested to
    any depth."""

    def __init__(self, map_free_vars: bool) -> None:
        self.map_free_vars = map_free_vars
        self.left_to_right: dict[Node, Node] = {}
        self.right_to_left: dict[Node, Node] = {}
        self.equal: dict[tuple[int, int, Defining], int] = {}
        """Pairs found equal under the present mapping, and what they look at: a node is compared once."""
        self._scopes = OpenScopes(self.equal)
        self._masks = [0]
        self._bits: dict[Node, int] = {}
        self._free: set[Node] = set()
        """Variables that stood for themselves."""
        self._tasks: list[tuple[int, Any, Any, Any, Any]] = []

    def compare(self, lhs: Any, rhs: Any) -> _Difference | None:
        tasks = self._tasks = [(_COMPARE, lhs, rhs, False, None)]
        while tasks:
            kind, left, right, flag, path = tasks.pop()
            if kind == _LEAVE:
                self._leave(left, right)
                continue
            reason = flag if kind == _REPORT else self._compare(left, right, flag, path)
            if reason is not None:
                return _Difference(left, right, reason, path)
        return None

    def _compare(self, lhs: Any, rhs: Any, defining: Defining, path: _Path) -> str | None:
        """Why two values differ by themselves; what lies below them is put on the list."""
        if isinstance(lhs, Node):
            return self._nodes(lhs, rhs, defining, path)
        cls = type(lhs)
        if cls is tuple:
            return self._sequences(lhs, rhs, defining, path)
        if cls is Map:
            return self._maps(lhs, rhs, defining, path)
        if lhs is rhs:
            return None
        if cls is not type(rhs) and not (isinstance(lhs, str) and isinstance(rhs, str)):
            return f"{cls.__name__} against {type(rhs).__name__}"
        return None if value_key(lhs) == value_key(rhs) else "values differ"

    def _nodes(self, lhs: Node, rhs: Any, defining: Defining, path: _Path) -> str | None:
        if type(lhs) is not type(rhs):
            return f"{_kind(lhs)} against {_kind(rhs)}"
        if lhs.identity:
            return self._identities(lhs, rhs, defining, path)
        pair = id(lhs), id(rhs), defining
        known = self.equal.get(pair)
        if known is not None:
            self._masks[-1] |= known
            return None
        self._tasks.append((_LEAVE, lhs, pair, None, None))
        self._masks.append(0)
        if lhs.opens_scope:
            self._scopes.open()
        self._fields(lhs, rhs, defining, path)
        return None

    def _leave(self, lhs: Node, pair: tuple[int, int, Defining]) -> None:
        """All below a pair of nodes was found equal."""
        mask = self._masks.pop()
        if lhs.opens_scope:
            mask, ended = self._scopes.close(mask)
            for left in ended:
                del self.right_to_left[self.left_to_right.pop(left)], self._bits[left]
        self.equal[pair] = mask
        if mask:
            self._masks[-1] |= mask
            self._scopes.keep(pair, mask)

    def _fields(self, lhs: Node, rhs: Node, defining: Defining, path: _Path) -> None:
        self._tasks += [
            (
                _COMPARE,
                getattr(lhs, name),
                getattr(rhs, name),
                defines == ALL or defining or defines,
                (name, path),
            )
            for name, defines in reversed(lhs.compared)
        ]

    def _identities(self, lhs: Node, rhs: Node, defining: Defining, path: _Path) -> str | None:
        if lhs in self.left_to_right or rhs in self.right_to_left:
            if self.left_to_right.get(lhs) is not rhs:
                return "different definitions"
            self._masks[-1] |= self._bits[lhs]
            return None
        is_free = not is_defined(lhs, defining)
        if is_free and not self.map_free_vars:
            self._free.add(lhs)
            return None if lhs is rhs else "different free variables"
        if lhs in self._free or rhs in self._free:
            self.equal.clear()
        self.left_to_right[lhs], self.right_to_left[rhs] = rhs, lhs
        self._bits[lhs] = bit = self._scopes.define(lhs, is_free)
        self._masks[-1] |= bit
        self._fields(lhs, rhs, ALL, path)
        return None

    def _sequences(self, lhs: Any, rhs: Any, defining: Defining, path: _Path) -> str | None:
        if type(rhs) is not tuple:
            return f"a sequence against {type(rhs).__name__}"
        if len(lhs) != len(rhs):
            self._tasks.append((_REPORT, lhs, rhs, f"{len(lhs)} items against {len(rhs)}", path))
        pairs = list(zip(lhs, rhs, strict=False))
        self._tasks += [
            (_COMPARE, *pairs[index], defining, (index, path)) for index in range(len(pairs) - 1, -1, -1)
        ]
        return None

    def _maps(self, lhs: Any, rhs: Any, defining: Defining, path: _Path) -> str | None:
        if type(rhs) is not Map:
            return f"a map against {type(rhs).__name__}"
        if lhs and isinstance(next(iter(lhs)), Node) and not _has_names(lhs):
            return self._sequences(tuple(lhs.items()), tuple(rhs.items()), defining, path)
        tasks: list[tuple[int, Any, Any, Any, Any]] = []
        for key in lhs:
            below = (("key", _key_text(key)), path)
            if key not in rhs:
                tasks.append((_REPORT, lhs[key], None, f"key {_key_text(key)!r} only on the left", below))
                break
            tasks.append((_COMPARE, lhs[key], rhs[key], defining, below))
        for key in rhs:
            if key not in lhs:
                below = (("key", _key_text(key)), path)
                tasks.append((_REPORT, None, rhs[key], f"key {_key_text(key)!r} only on the right", below))
                break
        self._tasks += reversed(tasks)
        return None


def _has_names(table: Map) -> bool:
    """Whether the keys are names of a module, whose order does not count."""
    return all(isinstance(key, Node) and not key.identity and hasattr(key, "name_hint") for key in table)


def _key_text(key: Any) -> str:
    return str(getattr(key, "name_hint", key))


def _kind(value: Any) -> str:
    return value.node_kind if isinstance(value, Node) else type(value).__name__


def first_mismatch(lhs: Any, rhs: Any, map_free_vars: bool = False) -> Mismatch | None:
    """Return the first difference between two structures, or None."""
    found = _Comparison(map_free_vars).compare(lhs, rhs)
    if found is None:
        return None
    return Mismatch(AccessPath(tuple(found.steps)), found.lhs, found.rhs, found.reason)


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether two nodes (or tuples, maps, plain values) are equal up to renaming of the variables that they
    define. With `map_free_vars`, free variables may be renamed too, one to one."""
    return lhs is rhs or _Comparison(map_free_vars).compare(lhs, rhs) is None


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Check structural equality. Raises: VerifyError I0101 with both sides and the access path of the first
    difference."""
    found = first_mismatch(lhs, rhs, map_free_vars)
    if found is not None:
        raise VerifyError(
            I0101,
            f"structures differ at {found.path}: {found.reason}",
            notes=(
                f"left:  {found.lhs}",
                f"right: {found.rhs}",
                f"whole left:\n{lhs}",
                f"whole right:\n{rhs}",
            ),
        )


_ADD, _END = range(2)
_BASED = 1
"""In a mask: the text depends on how many variables are bound where the node is, as it binds others."""
_FEW_PARTS = 24
"""With how many parts a node is written out wherever it is used."""
_START_STEPS = 60


class _Keyer:
    """Writes a node as a byte string in which variables are numbered in the order of their definition.

    A bound variable has the number of those around it, so that what is bound elsewhere does not matter. A
    large node is written as the digest of its fields, computed once where it is shared. Whether a node is
    large depends on its fields alone, not on what is shared.
    """

    def __init__(
        self,
        map_free_vars: bool,
        by_identity: Callable[[Any], bool] | None = None,
        with_labels: bool = False,
    ) -> None:
        self._by_identity = by_identity
        self._with_labels = with_labels
        self._parts: list[bytes] = []
        self._numbers: dict[Node, tuple[bytes, int]] = {}
        self._num_bound = 0
        self._has_based = False
        self._free: set[Node] = set()
        """Variables that were written as themselves."""
        self._map_free_vars = map_free_vars
        self._written: dict[tuple[int, Defining, int], tuple[bytes, int]] = {}
        self._scopes = OpenScopes(self._written)
        self._masks = [0]
        self._tasks: list[tuple[int, Any, Defining, int, int]] = []
        self.is_closed = True

    def result(self) -> bytes:
        return b"".join(self._parts)

    def add(self, value: Any, steps: int = -1) -> None:
        """Write a value, with a list of what is still to be written: programs may be nested to any depth. It
        ends after so many steps, where the number is not negative."""
        tasks = self._tasks = [(_ADD, value, False, 0, 0)]
        while tasks and steps:
            steps -= 1
            kind, item, flag, start, known = tasks.pop()
            if kind == _ADD:
                self._add(item, flag)
            else:
                self._end(item, flag, start, known)

    def _add(self, value: Any, defining: Defining) -> None:
        if isinstance(value, Node):
            self._node(value, defining)
        elif type(value) is tuple:
            self._parts.append(b"(%d" % len(value))
            self._tasks += [(_ADD, item, defining, 0, 0) for item in reversed(value)]
        elif type(value) is Map:
            self._parts.append(b"{%d" % len(value))
            pairs = list(value.items())
            if pairs and (not isinstance(pairs[0][0], Node) or _has_names(value)):
                pairs.sort(key=lambda pair: (_key_text(pair[0]), type(pair[0]).__name__))
            self._tasks += [(_ADD, pair, defining, 0, 0) for pair in reversed(pairs)]
        elif self._by_identity is not None and self._by_identity(value):
            self.is_closed = False
            self._parts.append(b"@%d;" % id(value))
        else:
            if self._with_labels and not has_key(value):
                self.is_closed = False
            key = value_key(value)
            self._parts.append(b"=%d:%b" % (len(key), key))

    def _node(self, value: Node, defining: Defining) -> None:
        if value.is_plain and not self._with_labels and self._by_identity is None:
            parts = self._parts  # what the general way writes, without tasks
            parts.append(b"<" + value.node_kind.encode())
            for name, _ in value.compared:
                key = value_key(getattr(value, name))
                parts.append(b"=%d:%b" % (len(key), key))
        elif value.identity:
            number = self._numbers.get(value)
            if number is not None:
                self._parts.append(number[0])
                self._masks[-1] |= number[1]
                return
            is_free = not is_defined(value, defining)
            if is_free and not self._map_free_vars:
                self.is_closed = False
                self._free.add(value)
                self._parts.append(b"@%d;" % id(value))
                return
            if value in self._free:
                self._written.clear()
            kind, count = (b"?", len(self._numbers) - self._num_bound) if is_free else (b"#", self._num_bound)
            bit = self._scopes.define(value, is_free)
            self._numbers[value] = b"%b%d;" % (kind, count), bit
            self._num_bound += not is_free
            self._masks[-1] |= bit
            self._fields(value, ALL)
        else:
            known = self._written.get((id(value), defining, -1))
            if known is None and self._has_based:
                known = self._written.get((id(value), defining, self._num_bound))
            if known is not None:
                self._parts.append(known[0])
                self._masks[-1] |= known[1]
                return
            self._tasks.append((_END, value, defining, len(self._parts), len(self._numbers)))
            self._masks.append(0)
            if value.opens_scope:
                self._scopes.open()
            self._fields(value, defining)

    def _end(self, value: Node, defining: Defining, start: int, known: int) -> None:
        """All of a node is written. A variable that goes on behind it is written otherwise the next time."""
        mask = self._masks.pop()
        if value.opens_scope:
            mask, ended = self._scopes.close(mask | _BASED)
            for var in ended:
                del self._numbers[var]
            self._num_bound -= len(ended)
            self._has_based = True
        if mask:
            self._masks[-1] |= mask
        digest = self._shorten(start)
        if digest is not None and len(self._numbers) == known:
            key = (id(value), defining, self._num_bound if mask & _BASED else -1)
            self._written[key] = digest, mask
            if mask > _BASED:
                self._scopes.keep(key, mask)

    def _fields(self, value: Node, defining: Defining) -> None:
        self._parts.append(b"<" + value.node_kind.encode())
        if self._with_labels and value.span is not None:
            self._parts.append(b"@" + value.span.place().encode() + b"\0")
        specs = value.stored if self._with_labels else value.compared
        self._tasks += [
            (_ADD, getattr(value, name), defines == ALL or defining or defines, 0, 0)
            for name, defines in reversed(specs)
        ]

    def _shorten(self, start: int) -> bytes | None:
        """The fields of a node stay if they are few; else its digest, which is given, takes their place."""
        parts = self._parts
        if len(parts) - start <= _FEW_PARTS:
            return None
        digest = b"~" + hashlib.blake2b(b"".join(parts[start:]), digest_size=16).digest()
        parts[start:] = [digest]
        return digest


def structural_bytes(value: Any) -> bytes | None:
    """Return bytes that are equal exactly for structurally equal values, also across processes. None for a
    value with free variables, which equal only themselves."""
    keyer = _Keyer(False)
    keyer.add(value)
    return keyer.result() if keyer.is_closed else None


def labelled_digest(value: Any) -> bytes | None:
    """32 bytes that are equal where labels (names, inferred types) and places are too, also those of another
    process; None for a value with free variables."""
    keyer = _Keyer(False, with_labels=True)
    keyer.add(value)
    return hashlib.blake2b(keyer.result(), digest_size=32).digest() if keyer.is_closed else None


def structural_digest(
    value: Any, map_free_vars: bool = False, by_identity: Callable[[Any], bool] | None = None
) -> bytes:
    """Return 16 bytes that are equal for structurally equal values; they are stable across processes if there
    are no free variables.

    Values for which `by_identity` holds (such as large tensors) are compared by object identity, so they need
    not be read. The digest is then valid only while these objects live.
    """
    keyer = _Keyer(map_free_vars, by_identity)
    keyer.add(value)
    return hashlib.blake2b(keyer.result(), digest_size=16).digest()


class _Start(_Keyer):
    """Writes all nodes out, so that the steps do not depend on what is shared."""

    def _shorten(self, start: int) -> bytes | None:
        return None


def structural_start(value: Any) -> bytes:
    """Return 16 bytes that depend on the beginning of a value: equal for structurally equal values, and often
    different for others. Unlike `structural_digest`, it takes constant time."""
    keyer = _Start(False)
    keyer.add(value, _START_STEPS)
    return hashlib.blake2b(keyer.result(), digest_size=16).digest()


def structural_hash(value: Any, map_free_vars: bool = False) -> int:
    """Return a 64-bit number that is equal for values for which `structural_equal` with the same
    `map_free_vars` holds."""
    return int.from_bytes(structural_digest(value, map_free_vars)[:8], "little")
