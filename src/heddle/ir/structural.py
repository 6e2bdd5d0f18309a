"""Structural equality and hash: two nodes are equal when their fields are, definitions mapped onto each
other.

Names and spans do not count. A variable or buffer (an identity node) met in a `defines()` field for the
first time is
paired with its counterpart, until the end of the function around it; anywhere else it must be paired
already, or be the very same object. With
`map_free_vars=True` free variables are paired at their first use too.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from heddle.ir.access_path import AccessPath
from heddle.ir.codes import I0101
from heddle.ir.node import Map, Mode, Node
from heddle.support.diagnostics import VerifyError

VALUE_KEYS: dict[type, Callable[[Any], bytes]] = {}
"""How values that are not nodes (tensors, say) are keyed; rooms add theirs with `register_value_key`."""


def register_value_key(cls: type, key: Callable[[Any], bytes]) -> None:
    VALUE_KEYS[cls] = key


@dataclass(frozen=True, slots=True)
class Mismatch:
    path: AccessPath
    lhs: Any
    rhs: Any
    reason: str


@dataclass(slots=True)
class _Comparison:
    map_free_vars: bool
    left_to_right: dict[Node, Node] = field(default_factory=dict)
    right_to_left: dict[Node, Node] = field(default_factory=dict)

    def compare(self, lhs: Any, rhs: Any, path: AccessPath, defining: bool) -> Mismatch | None:
        if lhs is rhs and not isinstance(lhs, (Node, tuple, Map)):
            return None
        if isinstance(lhs, Node):
            return self._nodes(lhs, rhs, path, defining)
        if type(lhs) is tuple:
            return self._sequences(lhs, rhs, path, defining)
        if type(lhs) is Map:
            return self._maps(lhs, rhs, path, defining)
        if type(lhs) is not type(rhs) and not (isinstance(lhs, str) and isinstance(rhs, str)):
            return Mismatch(path, lhs, rhs, f"{type(lhs).__name__} against {type(rhs).__name__}")
        return None if _value_key(lhs) == _value_key(rhs) else Mismatch(path, lhs, rhs, "values differ")

    def _nodes(self, lhs: Node, rhs: Any, path: AccessPath, defining: bool) -> Mismatch | None:
        if type(lhs) is not type(rhs):
            return Mismatch(path, lhs, rhs, f"{_kind(lhs)} against {_kind(rhs)}")
        if lhs.identity:
            return self._identities(lhs, rhs, path, defining)
        if not lhs.opens_scope:
            return self._fields(lhs, rhs, path, defining)
        before = len(self.left_to_right)
        found = self._fields(lhs, rhs, path, defining)
        for left in list(self.left_to_right)[before:]:
            del self.right_to_left[self.left_to_right.pop(left)]
        return found

    def _fields(self, lhs: Node, rhs: Node, path: AccessPath, defining: bool) -> Mismatch | None:
        for spec in lhs.specs:
            if spec.mode in (Mode.LABEL, Mode.DERIVED):
                continue
            found = self.compare(
                getattr(lhs, spec.name),
                getattr(rhs, spec.name),
                path.attr(spec.name),
                defining or spec.mode is Mode.DEF,
            )
            if found is not None:
                return found
        return None

    def _identities(self, lhs: Node, rhs: Node, path: AccessPath, defining: bool) -> Mismatch | None:
        if lhs in self.left_to_right or rhs in self.right_to_left:
            if self.left_to_right.get(lhs) is rhs:
                return None
            return Mismatch(path, lhs, rhs, "different definitions")
        if not defining and not self.map_free_vars:
            return None if lhs is rhs else Mismatch(path, lhs, rhs, "different free variables")
        self.left_to_right[lhs], self.right_to_left[rhs] = rhs, lhs
        return self._fields(lhs, rhs, path, True)

    def _sequences(self, lhs: Any, rhs: Any, path: AccessPath, defining: bool) -> Mismatch | None:
        if type(rhs) is not tuple:
            return Mismatch(path, lhs, rhs, f"a sequence against {type(rhs).__name__}")
        for index, (left, right) in enumerate(zip(lhs, rhs, strict=False)):
            found = self.compare(left, right, path.array_item(index), defining)
            if found is not None:
                return found
        if len(lhs) != len(rhs):
            return Mismatch(path, lhs, rhs, f"{len(lhs)} items against {len(rhs)}")
        return None

    def _maps(self, lhs: Any, rhs: Any, path: AccessPath, defining: bool) -> Mismatch | None:
        if type(rhs) is not Map:
            return Mismatch(path, lhs, rhs, f"a map against {type(rhs).__name__}")
        if lhs and isinstance(next(iter(lhs)), Node):
            return self._sequences(tuple(lhs.items()), tuple(rhs.items()), path, defining)
        for key in lhs:
            if key not in rhs:
                return Mismatch(path.map_item(key), lhs[key], None, f"key {key!r} only on the left")
            found = self.compare(lhs[key], rhs[key], path.map_item(key), defining)
            if found is not None:
                return found
        for key in rhs:
            if key not in lhs:
                return Mismatch(path.map_item(key), None, rhs[key], f"key {key!r} only on the right")
        return None


def _kind(value: Any) -> str:
    return value.node_kind if isinstance(value, Node) else type(value).__name__


def _value_key(value: Any) -> bytes:
    """A byte string equal for equal values; floats by bits so that -0.0 and NaN compare as written."""
    for cls, key in VALUE_KEYS.items():
        if isinstance(value, cls):
            return key(value)
    if isinstance(value, bool):
        return b"b1" if value else b"b0"
    if isinstance(value, float):
        return b"f" + (b"nan" if math.isnan(value) else struct.pack("<d", value))
    if isinstance(value, bytes):
        return b"y" + value
    return f"{'s' if isinstance(value, str) else type(value).__name__}:{value}".encode()


def first_mismatch(lhs: Any, rhs: Any, map_free_vars: bool = False) -> Mismatch | None:
    """Where two structures first differ, or None."""
    return _Comparison(map_free_vars).compare(lhs, rhs, AccessPath.root(), map_free_vars)


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    return first_mismatch(lhs, rhs, map_free_vars) is None


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raises: VerifyError I0101 that shows both sides and the access path of the first difference."""
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


class _Keyer:
    """Writes a node as a byte stream in which variables are numbered in the order of their definition."""

    def __init__(self, map_free_vars: bool, by_identity: Callable[[Any], bool] | None = None) -> None:
        self._by_identity = by_identity
        self._digest = hashlib.blake2b(digest_size=16)
        self._numbers: dict[Node, int] = {}
        self._map_free_vars = map_free_vars

    def result(self) -> bytes:
        return self._digest.digest()

    def add(self, value: Any, defining: bool) -> None:
        if isinstance(value, Node):
            self._node(value, defining)
        elif type(value) is tuple:
            self._digest.update(b"(%d" % len(value))
            for item in value:
                self.add(item, defining)
        elif type(value) is Map:
            self._digest.update(b"{%d" % len(value))
            pairs = list(value.items())
            if pairs and not isinstance(pairs[0][0], Node):
                pairs.sort(key=lambda pair: str(pair[0]))
            for pair in pairs:
                self.add(pair, defining)
        else:
            by_identity = self._by_identity is not None and self._by_identity(value)
            key = b"@%d" % id(value) if by_identity else _value_key(value)
            self._digest.update(b"=%d:" % len(key) + key)

    def _node(self, value: Node, defining: bool) -> None:
        if value.identity:
            number = self._numbers.get(value)
            if number is not None:
                self._digest.update(b"#%d;" % number)
                return
            if not defining and not self._map_free_vars:
                self._digest.update(b"@%d;" % id(value))
                return
            self._numbers[value] = len(self._numbers)
            defining = True
        before = len(self._numbers)
        self._digest.update(b"<" + value.node_kind.encode())
        for spec in value.specs:
            if spec.mode in (Mode.USE, Mode.DEF):
                self.add(getattr(value, spec.name), defining or spec.mode is Mode.DEF)
        if value.opens_scope:
            for var in list(self._numbers)[before:]:
                del self._numbers[var]


def structural_digest(
    value: Any, map_free_vars: bool = False, by_identity: Callable[[Any], bool] | None = None
) -> bytes:
    """16 bytes that are equal for structurally equal values, stable across processes when nothing is free.

    Values for which `by_identity` holds (large tensors, say) count as equal only where they are the same
    object: that saves reading them, and holds while they live.
    """
    keyer = _Keyer(map_free_vars, by_identity)
    keyer.add(value, map_free_vars)
    return keyer.result()


def structural_hash(value: Any, map_free_vars: bool = False) -> int:
    return int.from_bytes(structural_digest(value, map_free_vars)[:8], "little")
