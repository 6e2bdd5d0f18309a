"""What the script words of the loop IR stand for while a function is parsed: `T.grid(n, m)` is a
`LoopFrame`, and so on."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from heddle.support.frozen import frozen
from heddle.tir.nodes import ForKind, IterType


@frozen
class LoopFrame:
    """`for i, j in frame:`: one (min, extent) a variable."""

    bounds: tuple[tuple[Any, Any], ...]
    kind: ForKind = ForKind.SERIAL
    thread: str | None = None
    annotations: dict[str, Any] = field(default_factory=dict)


@frozen
class SBlockFrame:
    name: str
    no_realize: bool = False


@frozen
class InitFrame:
    """`with T.init():`"""


@frozen
class AttrFrame:
    node: Any
    key: str
    value: Any


@frozen
class Axis:
    """`v = T.axis.spatial(domain, value)`."""

    iter_type: IterType
    domain: Any
    value: Any


@frozen
class AxisRemap:
    kinds: str
    values: tuple[Any, ...]


@frozen
class Reads:
    regions: tuple[Any, ...]


@frozen
class Writes:
    regions: tuple[Any, ...]


@frozen
class Where:
    predicate: Any


@frozen
class BlockAttrs:
    values: dict[str, Any]


@frozen
class FuncAttrs:
    values: dict[str, Any]


@frozen
class BufferSpec:
    """The arguments of `T.Buffer`, `T.match_buffer`, `T.alloc_buffer`, ...; `role` says which of them."""

    role: str
    shape: Any
    dtype: str
    source: Any = None
    data: Any = None
    strides: Any = ()
    elem_offset: Any = None
    scope: str = "global"
    align: int = 64
    annotations: dict[str, Any] = field(default_factory=dict)


@frozen
class BindValue:
    value: Any


@frozen
class HandleType:
    """`T.handle` as an annotation; with a dtype, a typed pointer."""

    dtype: str | None = None
    scope: str = "global"

    def __call__(self, dtype: str | None = None, scope: str = "global") -> HandleType:
        return HandleType(dtype, scope)
