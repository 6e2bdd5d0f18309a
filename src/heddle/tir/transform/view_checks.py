"""Views in functions that are compiled with checks: what a view may touch lies in the memory that it views.

    A: (n,) float32                              assert 4.0 * n * 4.0 <= n * 4.0
    B = decl_buffer((4 * n,), data=A.data)   →   B = decl_buffer((4 * n,), data=A.data)

Accesses of the view are then checked against its own shape. Bytes are counted in float64: nothing wraps.
"""

from __future__ import annotations

from functools import reduce

from heddle.prim.intrinsics import as_computed
from heddle.prim.nodes import IntImm, PrimExpr
from heddle.prim.ops import add, cast, const, less_equal, logical_and, multiply
from heddle.support.diagnostics import UsageError
from heddle.tir.allocation import size_bytes
from heddle.tir.codes import T0801
from heddle.tir.nodes import Buffer, DeclBuffer

_FLOAT = "float64"


def fits_in(node: DeclBuffer, source: Buffer | None) -> PrimExpr | None:
    """Whether the view lies in its source; None where that is known.

    Raises: UsageError T0801 for a view of memory whose size is not known (a pointer, a buffer with strides),
    for a view with strides, and for one that is known not to fit."""
    view = node.buffer
    if source is None or source.strides or view.strides:
        raise _refused(node, "of memory whose size is not known" if source is None else "with strides")
    known, room = size_bytes(view), size_bytes(source)
    if view.elem_offset is None and source.elem_offset is None and known is not None and room is not None:
        if known > room:
            raise _refused(node, f"of {known} bytes of a buffer that has {room}")
        return None
    if view.elem_offset is None and source.elem_offset is None and _same_dims(view, source):
        return None
    begin, end = _begin(view), _end(view)
    parts = [less_equal(_begin(source), begin), less_equal(end, _end(source))]
    parts += [less_equal(const(0.0, _FLOAT), _number(dim)) for dim in view.shape]
    return reduce(logical_and, parts)


def _same_dims(view: Buffer, source: Buffer) -> bool:
    """Whether they have the same sizes, and elements that are no larger."""
    fits = view.dtype.itemsize <= source.dtype.itemsize and len(view.shape) == len(source.shape)
    return fits and all(
        a is b or (isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value)
        for a, b in zip(view.shape, source.shape, strict=True)
    )


def _number(expr: PrimExpr) -> PrimExpr:
    return cast(_FLOAT, as_computed(expr))


def _begin(buffer: Buffer) -> PrimExpr:
    """The first byte, from where the pointer points."""
    size = const(float(buffer.dtype.itemsize), _FLOAT)
    return const(0.0, _FLOAT) if buffer.elem_offset is None else multiply(_number(buffer.elem_offset), size)


def _end(buffer: Buffer) -> PrimExpr:
    """The byte after the last one."""
    sizes = [_number(dim) for dim in buffer.shape]
    return add(_begin(buffer), reduce(multiply, sizes, const(float(buffer.dtype.itemsize), _FLOAT)))


def _refused(node: DeclBuffer, what: str) -> UsageError:
    return UsageError(
        T0801,
        f"a view {what} ({node.buffer.name!r}) cannot be checked",
        span=node.span,
        help="declare the view dense, over a parameter or an allocation that is as large",
    )
