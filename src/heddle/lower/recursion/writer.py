"""Write functions that recurse over values of data types anew: what lists and trees share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from heddle import te
from heddle.graph.core_ops import CALL_TIR
from heddle.graph.infer import type_of
from heddle.graph.nodes import SeqExpr
from heddle.graph.op_builder import const
from heddle.graph.rewriter import BindingRewriter, loop_call
from heddle.graph.types import TensorType
from heddle.ir.attrs import NO_ATTRS
from heddle.ir.expr import Call, Expr, ExternFunc, If, Tuple, TupleGetItem, Var
from heddle.ir.op import Op
from heddle.ir.types import TupleType, Type
from heddle.lower.recursion.match_of_data import Turn
from heddle.lower.recursion.rows import RowsCall, flat_types
from heddle.prim.nodes import PrimExpr, constant
from heddle.support.span import at


class RecursionWriter(BindingRewriter):
    """Writes functions anew, and adds those that they need."""

    @contextmanager
    def renaming(self) -> Iterator[None]:
        """Inside, variables are renamed as in a function of its own."""
        outer = dict(self.renamed)
        self.renamed.clear()
        yield
        self.renamed.clear()
        self.renamed.update(outer)

    def inlined(self, sequence: Any) -> Expr:
        """The bindings of a sequence here; gives its result."""
        assert isinstance(sequence, SeqExpr)
        for block in sequence.blocks:
            self.scopes[-1].close_block()
            self.scopes[-1].is_dataflow = block.is_dataflow
            for binding in block.bindings:
                with at(binding.span):
                    self.binding(binding)
        self.scopes[-1].close_block()
        return self.leaf(self.substitute(sequence.body))

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        return item_of(value)

    # ---- values of several tensors

    def leaves(self, value: Expr) -> list[Expr]:
        """The tensors of a value, those in tuples one by one."""
        ty = type_of(value)
        if not isinstance(ty, TupleType):
            return [value]
        parts = [item_of(TupleGetItem(value, k)) for k in range(len(ty.fields))]
        return [leaf for part in parts for leaf in self.leaves(self.leaf(part))]

    def rebuilt(self, ty: Any, leaves: Sequence[Expr]) -> Expr:
        """The value of a type from its tensors."""
        if not isinstance(ty, TupleType):
            return leaves[0]
        fields: list[Expr] = []
        for part in ty.fields:
            count = len(flat_types(part) or ())
            fields.append(self.rebuilt(part, leaves[:count]))
            leaves = leaves[count:]
        return self.leaf(Tuple(tuple(fields)))

    def checked(self, value: Expr, place: int, ty: TensorType) -> Expr:
        """A field that a tensor of rows takes, which looks at its bytes alone."""
        found = self.emit(field_of(value, place, TensorType(None, ty.dtype, None, ty.ndim)), "x")
        return self.match_cast(found, ty, "x")

    def stacked(self, chain: Expr, var: Var, count: PrimExpr) -> Expr:
        """The rows of a chain that collects a variable, of which there are `count`, as one tensor."""
        row = tensor_type(var)
        made = TensorType(None, row.dtype, None, row.ndim + 1)
        callee = ExternFunc("vm.builtin.stack_chain")
        tensor = self.emit(Call(Op.get("relax.call_pure_packed"), (callee, chain), NO_ATTRS, (made,)))
        return self.match_cast(tensor, of_rows(row, count), f"{var.name_hint}_rows")

    def at_once(self, turn: Turn, call: RowsCall, rows: Mapping[Any, Expr], count: PrimExpr) -> Expr:
        """What a call gives for `count` elements. `rows` has what elements have of their own."""
        found = loop_call(call.binding.value)
        assert found is not None
        leaves = [turn.leaf(arg) for arg in found[1].fields]
        args = Tuple(tuple(rows[leaf] if leaf in rows else self.substitute(leaf) for leaf in leaves))
        callee = self.add_func(call.func, found[0].name_hint)
        out = of_rows(tensor_type(call.binding.var), count)
        made = Call(Op.get(CALL_TIR), (callee, args), NO_ATTRS, (out,))
        return self.emit(made, call.binding.var.name_hint)

    def branch(self, condition: Expr, yes: Callable[[], Expr], no: Callable[[], Expr]) -> Var:
        """Bind what one of two branches gives."""
        made: list[SeqExpr] = []
        for build in (yes, no):
            with self.scope() as scope:
                result = self.leaf(build())
                scope.close_block()
            made.append(SeqExpr(tuple(scope.blocks), result, type_of(result)))
        return self.emit(If(condition, made[0], made[1]))


# ---- small expressions


def item_of(value: Expr) -> Expr:
    """The field itself where a field of a tuple is asked for."""
    if isinstance(value, TupleGetItem) and isinstance(value.tuple_value, Tuple):
        return value.tuple_value.fields[value.index]
    return value


def tensor_type(value: Expr) -> TensorType:
    """The type of a tensor."""
    ty = type_of(value)
    assert isinstance(ty, TensorType)
    return ty


def of_rows(ty: TensorType, count: PrimExpr) -> TensorType:
    """The type of so many rows of a type."""
    return TensorType((count, *(ty.dims or ())), ty.dtype)


def no_rows(var: Var) -> Expr:
    """What a chain of rows like a variable begins with."""
    ty = tensor_type(var)
    sizes = [dim.value for dim in ty.dims or ()]  # type: ignore[attr-defined]
    return const(np.zeros((0, *sizes), ty.dtype.numpy()), str(ty.dtype))  # type: ignore[union-attr]


def core_call(name: str, *args: Expr) -> Call:
    """A call of a core operator without attributes."""
    return Call(Op.get(f"relax.{name}"), args, NO_ATTRS)


def field_of(value: Expr, place: int, ty: Type) -> Call:
    """A field of a value of a data type."""
    return Call(Op.get("relax.get_field"), (value, constant(place, "int64")), NO_ATTRS, (ty,))


def less(i: te.Tensor, length: te.Tensor) -> Any:
    """Whether a number is less than another: bool ()."""
    return te.compute((), lambda: i() < length(), name="less")


def next_number(i: te.Tensor) -> Any:
    """The next number: int64 ()."""
    return te.compute((), lambda: i() + 1, name="next")
