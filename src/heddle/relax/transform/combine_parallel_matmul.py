"""CombineParallelMatmul: combine products with the same left operand, by concatenating the right ones.

    a = R.matmul(x, w0)                    w = R.concat((w0, w1), axis=1)
    b = R.matmul(x, w1)            →       y = R.matmul(x, w)
                                           s = R.split(y, [640], axis=1)
                                           a = s[0]
                                           b = s[1]

Later operators stay unchanged. If the right operands are constant, FoldConstant concatenates them at compile
time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from heddle.graph import op
from heddle.graph.infer import type_of
from heddle.graph.nodes import BindingBlock, body_of
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Expr, Function, TupleGetItem, Var
from heddle.ir.structural import structural_equal
from heddle.ir.transform import FunctionPass, PassContext
from heddle.prim.nodes import IntImm
from heddle.support.frozen import frozen

Check = Callable[[Expr, list[Expr]], bool]


@frozen(slots=False)
class CombineParallelMatmul(FunctionPass):
    """Combines products of one dataflow block where the right sides have the same leading dimensions and
    constant last ones. `check(left, rights)` may refuse a group.

    Requires the normal form.
    """

    check: Check | None = None
    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        found = [group for block in body_of(func).blocks for group in _groups(block)]
        groups = [g for g in found if self.check is None or self.check(g.left, g.rights)]
        return _Combiner(mod, groups).run(func) if groups else func


@dataclass(eq=False, slots=True)
class _Group:
    """Products in order; `parts` is the split result, once the first product was met."""

    start: int
    calls: list[Call] = field(default_factory=list)
    members: list[Var] = field(default_factory=list)
    parts: Expr | None = None

    @property
    def left(self) -> Expr:
        return self.calls[0].args[0]

    @property
    def rights(self) -> list[Expr]:
        return [call.args[1] for call in self.calls]

    def takes(self, call: Call, position_of: dict[Var, int]) -> bool:
        """Whether a product can be computed where the first one is."""
        right, first = call.args[1], self.calls[0]
        if call.args[0] is not self.left or not structural_equal(call.attrs, first.attrs):
            return False
        if isinstance(right, Var) and position_of.get(right, -1) >= self.start:
            return False
        mine, other = type_of(right), type_of(first.args[1])
        assert isinstance(mine, TensorType) and isinstance(other, TensorType)
        if mine.ndim != other.ndim or mine.dtype != other.dtype:
            return False
        return all(map(structural_equal, mine.dims[:-1], other.dims[:-1]))  # type: ignore[index]


def _groups(block: BindingBlock) -> list[_Group]:
    found: list[_Group] = []
    position_of = {binding.var: position for position, binding in enumerate(block.bindings)}
    for position, binding in enumerate(block.bindings if block.is_dataflow else ()):
        value = binding.value
        if not is_call(value, "relax.matmul"):
            continue
        assert isinstance(value, Call)
        if not isinstance(value.args[0], Var) or _width(value.args[1]) is None:
            continue
        group = next((g for g in found if g.takes(value, position_of)), None)
        if group is None:
            group = _Group(position)
            found.append(group)
        group.calls.append(value)
        group.members.append(binding.var)
    return [group for group in found if len(group.members) > 1]


def _width(right: Expr) -> int | None:
    """The columns of a right side of two dimensions or more, where they are known."""
    ty = type_of(right)
    if not isinstance(ty, TensorType) or ty.dims is None or len(ty.dims) < 2:
        return None
    last = ty.dims[-1]
    return last.value if isinstance(last, IntImm) else None


class _Combiner(BindingRewriter):
    def __init__(self, mod: Any, groups: list[_Group]) -> None:
        super().__init__(mod)
        self._group_of = {var: group for group in groups for var in group.members}

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        group = self._group_of.get(var)
        if group is None:
            return value
        if group.parts is None:
            assert isinstance(value, Call)
            group.parts = self._split(group, value)
        return TupleGetItem(group.parts, group.members.index(var))

    def _split(self, group: _Group, first: Call) -> Expr:
        rights = [self.substitute(right) for right in group.rights]
        axis = type_of(rights[0]).ndim - 1  # type: ignore[attr-defined]
        joined = self.bind(self.value(op.concat(rights, axis=axis)))
        product = self.bind(self.value(op.matmul(first.args[0], joined, **dict(first.attrs.items()))))
        ends, total = [], 0
        for right in rights[:-1]:
            total += _width(right) or 0
            ends.append(total)
        ndim = type_of(product).ndim  # type: ignore[attr-defined]
        return self.bind(self.value(op.split(product, ends, axis=ndim - 1)))
