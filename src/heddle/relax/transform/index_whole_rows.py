"""IndexWholeRows: read an index that is constant along rows once per row.

    j = R.broadcast_to(i, (edges, 64))                i: R.Tensor((edges, 1), "int64")
    y = R.gather_elements(x, j, axis=0)         →     y = R.gather_nd(x, i)
    z = R.scatter_elements(t, j, y, axis=0)     →     z = R.scatter_nd(t, i, y)

Frameworks repeat an index for each element of the row that it names, since their operators ask for that
(`index_add`, `gather` and `scatter` of expanded indices). A row is then read and written as what it is: by
vectors, with one look at its index. A gather may have a batch: axes before the indexed one, along which data
and indices go together. A scatter has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from heddle.graph.infer import tensor_dims
from heddle.graph.nodes import Binding
from heddle.graph.op_builder import call_op
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.graph.types import ShapeExpr
from heddle.ir.expr import Call, Expr, Function, Var
from heddle.ir.transform import FunctionPass, PassContext
from heddle.prim.nodes import PrimExpr, constant, is_const_int

GATHER, SCATTER = "relax.gather_elements", "relax.scatter_elements"


class IndexWholeRows(FunctionPass):
    """Leaves the repeated indices, if nothing uses them any more, to DeadCodeElimination."""

    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        return _Rewriter(mod).run(func)


class _Rewriter(BindingRewriter):
    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self._sources: dict[Expr, Expr] = {}

    def add(self, binding: Binding) -> None:
        super().add(binding)
        source = _repeated(binding.value)
        if source is not None and (binding.var.is_dataflow or not _is_dataflow(source)):
            self._sources[binding.var] = source  # which is seen wherever the result is

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if not isinstance(value, Call) or not (is_call(value, GATHER) or is_call(value, SCATTER)):
            return value
        data, indices = value.args[0], value.args[1]
        axis, source = int(value.attrs["axis"]), self._sources.get(indices)
        dims, into = tensor_dims(indices), tensor_dims(data)
        if source is None or dims is None or into is None:
            return value
        axis %= len(dims)
        others = [(a, b) for k, (a, b) in enumerate(zip(dims, into, strict=True)) if k != axis]
        if not all(self._equal(a, b) for a, b in others) or (axis != 0 and is_call(value, SCATTER)):
            return value
        rows = self._rows(source, dims, axis)
        if rows is None:
            return value
        if is_call(value, GATHER):
            return call_op("gather_nd", data, rows, batch_dims=axis)
        return call_op("scatter_nd", data, rows, value.args[2], reduction=value.attrs["reduction"])

    def _equal(self, a: PrimExpr, b: PrimExpr) -> bool:
        return self.analyzer.can_prove_equal(a, b)

    def _rows(self, source: Expr, dims: Sequence[PrimExpr], axis: int) -> Expr | None:
        """The index of each row, as vectors of one number, if rows have one index each."""
        given, rank = tensor_dims(source), len(dims)
        if given is None or axis == rank - 1:
            return None
        one = constant(1, "int64")
        given = (*[one] * (rank - len(given)), *given)
        if not all(is_const_int(dim, 1) for dim in given[axis + 1 :]):
            return None
        outer, vectors = tuple(dims[: axis + 1]), (*given[: axis + 1], one)
        rows = source if vectors == given else self.emit(call_op("reshape", source, ShapeExpr(vectors)))
        if all(self._equal(a, b) for a, b in zip(vectors, outer, strict=False)):
            return rows
        return self.emit(call_op("broadcast_to", rows, ShapeExpr((*outer, one))))


def _repeated(value: Expr) -> Expr | None:
    """What a value repeats along axes of one element, and new axes before them."""
    if not isinstance(value, Call):
        return None
    if is_call(value, "relax.broadcast_to"):
        return value.args[0]
    if is_call(value, "relax.tile"):
        given, made = tensor_dims(value.args[0]), tensor_dims(value)
        if given is None or made is None:
            return None
        repeats = value.attrs["repeats"]
        counts = [int(count) for count in (repeats if isinstance(repeats, Sequence) else (repeats,))]
        last = list(zip(reversed(given), reversed(counts), strict=False))
        if all(count == 1 or is_const_int(dim, 1) for dim, count in last) and len(counts) >= len(given):
            return value.args[0]
    return None


def _is_dataflow(expr: Expr) -> bool:
    return isinstance(expr, Var) and expr.is_dataflow
