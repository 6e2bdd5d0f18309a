"""How programs in normal form write gradients: calls of records, bound one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heddle.arith.sizes import as_dim
from heddle.graph.block_builder import BlockBuilder
from heddle.graph.gradient import known_dims
from heddle.graph.op_builder import call_op
from heddle.graph.types import ShapeExpr
from heddle.ir.expr import Expr
from heddle.ir.types import Type

_SHAPED = {"reshape": "reshape", "broadcast": "broadcast_to", "sum": "collapse_sum_to"}


class GraphWords:
    """The words of `graph.gradient`, as bindings of a builder."""

    def __init__(self, builder: BlockBuilder) -> None:
        self._builder = builder

    def call(self, name: str, args: Sequence[Any], attrs: Mapping[str, Any]) -> Expr:
        """A call of a record, bound to a variable."""
        return self._builder.emit(call_op(name, *args, **attrs))

    def matmul(self, a: Expr, b: Expr, ranks: tuple[int, int]) -> Expr:
        """The product of matrices, or of stacks of them."""
        return self.call("matmul", (a, b), {})

    def shaped(self, kind: str, x: Expr, like: Expr, like_type: Type) -> Expr:
        """`x` in the shape of `like`, by its sizes, symbolic ones too."""
        return self.call(_SHAPED[kind], (x, ShapeExpr(known_dims(like_type, kind))), {})

    def cut(self, x: Expr, like: Expr, like_type: Type) -> Expr:
        """The first elements along each axis, as many as `like` has."""
        dims = known_dims(like_type, "a slice")
        count = len(dims)
        return self.call("strided_slice", (x, list(range(count)), [0] * count, list(dims), [1] * count), {})

    def split_axis(self, x: Expr, dims: Sequence[Any], axis: int, first: int, second: int) -> Expr:
        """An axis as two, by a reshape."""
        size = dims[axis]
        pair = [
            size // second if first < 0 else as_dim(first),
            size // first if second < 0 else as_dim(second),
        ]
        return self.call("reshape", (x, ShapeExpr((*dims[:axis], *pair, *dims[axis + 1 :]))), {})

    def join_axes(self, x: Expr, dims: Sequence[Any], axis: int) -> Expr:
        """An axis and the next as one, by a reshape."""
        joined = dims[axis] * dims[axis + 1]
        return self.call("reshape", (x, ShapeExpr((*dims[:axis], joined, *dims[axis + 2 :]))), {})
