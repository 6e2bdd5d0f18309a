"""LoopOverLists: convert recursion over a list to a counted loop over the rows of a tensor.

    def f(xs, h, w):                                        def f(xs, h, w):
        if has_tag(xs, Nil): h                                  end, chain = f_rows(xs, empty)
        elif has_tag(xs, Cons):                                 rows = stack_chain(chain)     # (n, 1, 300)
            x, rest = xs.0, xs.1                                m = matmul'(rows, w)          # all at once
            m = matmul(x, w)                         →          r = f_loop(0, n, h, m)
            f(rest, g(m, h), w)                                 if has_tag(end, Nil): r.0
                                                                else: fatal
        else: fatal
                                                            def f_loop(i, n, h, m):
                                                                if i < n: f_loop(i + 1, n, g(m[i], h), m)
                                                                else: (h,)

What a turn computes from its own element alone is computed for all elements at once, where a product is among
it: its weights are read once, not once an element. A layer behind another one gets a loop of its own, behind
the product of all that the first loop gave (`stages`). FuseLoops makes one kernel of what remains of a loop.

Two forms are taken. In the first the call of itself is what a turn gives, with values that the turn changes.
In the other the turn goes on with what the call gives, and changes nothing; such a loop begins at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from heddle import te
from heddle.graph.core_ops import CALL_TIR
from heddle.graph.infer import type_of
from heddle.graph.nodes import Binding, SeqExpr
from heddle.graph.op_builder import const
from heddle.graph.rewriter import BindingRewriter, loop_call
from heddle.graph.types import TensorType
from heddle.ir.attrs import NO_ATTRS
from heddle.ir.expr import Call, Expr, ExternFunc, GlobalVar, If, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.op import Op
from heddle.ir.transform import Pass, PassContext
from heddle.ir.types import AnyType, FuncType, TupleType, Type
from heddle.lower.normal_form import graph_functions
from heddle.lower.recursion.list_loop import ListLoop, flat_types, list_loop
from heddle.lower.recursion.stages import Stage, stages_of
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import free_vars, substitute
from heddle.relax.transform.convert_to_dataflow import ConvertToDataflow
from heddle.runtime.dtype import DataType
from heddle.support.span import at

_NUMBER = TensorType((), DataType("int64"))
MOST_BARE_ROW_BYTES = 1 << 11
"""What is copied of an element to save the machine's work between kernels, where no product gains."""


class LoopOverLists(Pass):
    """Requires: loop functions (LegalizeOps). A function keeps its name and type."""

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        found = [loop for var, func in graph_functions(mod) if (loop := list_loop(mod, var, func))]
        staged = [(loop, stages_of(mod, loop)) for loop in found]
        loops = [(loop, stages) for loop, stages in staged if _pays(loop, stages)]
        if not loops:
            return mod
        maker = _Maker(mod)
        for loop, stages in loops:
            maker.make(loop, stages)
        return ConvertToDataflow()(maker.get())  # operators fuse in blocks


def _pays(loop: ListLoop, stages: Sequence[Stage]) -> bool:
    """Whether a loop takes less time: it makes products at once, or copies little."""
    return loop.row_bytes <= MOST_BARE_ROW_BYTES or any(stage.ahead for stage in stages)


class _Maker(BindingRewriter):
    """Writes functions anew, and adds those that they need."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._dropped: set[Var] = set()
        self._skipped: dict[Var, Expr] = {}

    def make(self, loop: ListLoop, stages: Sequence[Stage]) -> None:
        """Put a function that loops in the place of one that recurses."""
        func = loop.match.func
        branch = loop.step.branch
        assert isinstance(branch.value, If)
        self._dropped, self._skipped = {loop.step.test.var}, {branch.var: branch.value.false_branch}
        with at(func.span), self._renaming(), self.scope() as scope:
            body = self._whole(loop, stages)
            scope.close_block()
        made = SeqExpr(tuple(scope.blocks), body, type_of(body), span=func.body.span)
        self.update_func(loop.var, replace(func, body=made))

    @contextmanager
    def _renaming(self) -> Iterator[None]:
        """Inside, variables are renamed as in a function of its own."""
        outer = dict(self.renamed)
        self.renamed.clear()
        yield
        self.renamed.clear()
        self.renamed.update(outer)

    # ---- the function itself

    def _whole(self, loop: ListLoop, stages: Sequence[Stage]) -> Expr:
        rows, end = self._rows(loop)
        self.renamed[loop.match.param] = end
        if loop.is_backward:
            first = self._leaves(self._inlined(loop.match.func.body))
            return self._rebuilt(loop.match.func.ret_ty, self._turned(loop, stages, rows, first))
        params = [loop.match.func.params[k] for k in loop.carried]
        first = [leaf for param in params for leaf in self._leaves(param)]
        left = self._turned(loop, stages, rows, first)
        self.renamed.update(self._with_leaves(params, left))
        return self._inlined(loop.match.func.body)

    def _inlined(self, sequence: Any) -> Expr:
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

    def binding(self, binding: Binding) -> None:
        """As in every rewriter; the test of an element goes, and its branch."""
        if binding.var in self._dropped:
            return
        skipped = self._skipped.pop(binding.var, None)
        if skipped is None:
            super().binding(binding)
        else:
            self.renamed[binding.var] = self._inlined(skipped)

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        return _item(value)

    # ---- values of several tensors

    def _leaves(self, value: Expr) -> list[Expr]:
        """The tensors of a value, those in tuples one by one."""
        ty = type_of(value)
        if not isinstance(ty, TupleType):
            return [value]
        parts = [_item(TupleGetItem(value, k)) for k in range(len(ty.fields))]
        return [leaf for part in parts for leaf in self._leaves(self.leaf(part))]

    def _rebuilt(self, ty: Any, leaves: Sequence[Expr]) -> Expr:
        """The value of a type from its tensors."""
        if not isinstance(ty, TupleType):
            return leaves[0]
        fields: list[Expr] = []
        for part in ty.fields:
            count = len(flat_types(part) or ())
            fields.append(self._rebuilt(part, leaves[:count]))
            leaves = leaves[count:]
        return self.leaf(Tuple(tuple(fields)))

    def _with_leaves(self, params: Sequence[Var], leaves: Sequence[Expr]) -> dict[Var, Expr]:
        """What stands for parameters whose tensors are these."""
        whole = self._rebuilt(TupleType(tuple(type_of(param) for param in params)), leaves)
        assert isinstance(whole, Tuple)
        return dict(zip(params, whole.fields, strict=True))

    # ---- the rows

    def _rows(self, loop: ListLoop) -> tuple[dict[Var, Expr], Expr]:
        """For each field of the elements its rows, and what the list ends with."""
        name = self.global_names.fresh(f"{loop.var.name_hint}_rows")
        subject = loop.match.param
        xs, chains = Var(subject.name_hint, AnyType()), [Var("chain", AnyType()) for _ in loop.fields]
        result = TupleType((AnyType(),) * (1 + len(chains)))
        own = GlobalVar(name, FuncType(result.fields, result, True))
        with self.function(name, [xs, *chains], private=True):

            def more() -> Expr:
                items = [self._checked(xs, k, _tensor(var)) for var, k in loop.fields.items()]
                rest = self.emit(_field(xs, loop.rest, AnyType()), "rest")
                pairs = [Tuple(pair) for pair in zip(chains, items, strict=True)]
                return self.emit(Call(own, (rest, *pairs)))

            test = self.emit(_core("has_tag", xs, constant(loop.step.tag, "int64")), "fits")
            self.emit_func_output(self._branch(test, more, lambda: Tuple((xs, *chains))))
        made = self.emit(Call(own, (subject, *(_no_rows(var) for var in loop.fields))))
        end = self.emit(TupleGetItem(made, 0), "end")
        count = PrimVar("rows", DataType("int64"), None, True)
        rows: dict[Var, Expr] = {}
        for k, var in enumerate(loop.fields, 1):
            stacked = self.emit(_stack(self.emit(TupleGetItem(made, k), "chain"), _tensor(var)))
            rows[var] = self.match_cast(stacked, _of_rows(_tensor(var), count), f"{var.name_hint}_rows")
        return rows, end

    def _checked(self, value: Expr, place: int, ty: TensorType) -> Expr:
        """A field that a tensor of rows takes, which looks at its bytes alone."""
        found = self.emit(_field(value, place, TensorType(None, ty.dtype, None, ty.ndim)), "x")
        return self.match_cast(found, ty, "x")

    def _branch(self, condition: Expr, yes: Callable[[], Expr], no: Callable[[], Expr]) -> Var:
        """Bind what one of two branches gives."""
        made: list[SeqExpr] = []
        for build in (yes, no):
            with self.scope() as scope:
                result = self.leaf(build())
                scope.close_block()
            made.append(SeqExpr(tuple(scope.blocks), result, type_of(result)))
        return self.emit(If(condition, made[0], made[1]))

    # ---- the loops

    def _turned(
        self, loop: ListLoop, stages: Sequence[Stage], rows: dict[Var, Expr], first: Sequence[Expr]
    ) -> list[Expr]:
        """What the carried values are at the end, from what they are `first`."""
        count = _tensor(next(iter(rows.values()))).dims[0]  # type: ignore[index]
        for binding in loop.fixed:
            with at(binding.span):
                value = self.substitute(loop.turn.of_leaves(binding.value))
                self.renamed[binding.var] = self.emit(value, binding.var.name_hint)
        length = self.emit_te(_number, count, name_hint="length", primfunc_name_hint="length")
        start: dict[int, list[Expr]] = {}
        for k in loop.carried:
            size = len(flat_types(loop.match.func.params[k].ty) or ())
            start[k], first = list(first[:size]), first[size:]
        many, last = dict(rows), dict[int, list[Expr]]()
        for stage in stages:
            many.update(self._ahead(loop, stage, many, count))
            given = list(first) if loop.is_backward else [leaf for k in stage.carried for leaf in start[k]]
            found = self._looped(loop, stage, many, given, length)
            for var, chain in zip(stage.collected, found[len(given) :], strict=True):
                stacked = self.emit(_stack(chain, _tensor(var)))
                many[var] = self.match_cast(stacked, _of_rows(_tensor(var), count), f"{var.name_hint}_rows")
            if loop.is_backward:
                return found
            for k in stage.carried:
                last[k], found = found[: len(start[k])], found[len(start[k]) :]
        return [leaf for k in loop.carried for leaf in last[k]]

    def _ahead(self, loop: ListLoop, stage: Stage, rows: dict[Var, Expr], count: PrimExpr) -> dict[Var, Expr]:
        """What is computed for all elements at once."""
        known: dict[Any, Expr] = {**rows}
        made: dict[Var, Expr] = {}
        for item in stage.ahead:
            binding, found = item.binding, loop_call(item.binding.value)
            assert found is not None
            leaves = [loop.turn.leaf(arg) for arg in found[1].fields]
            args = Tuple(tuple(known.get(leaf, self.substitute(leaf)) for leaf in leaves))
            out = _of_rows(_tensor(binding.var), count)
            callee = self.add_func(item.func, found[0].name_hint)
            call = Call(Op.get(CALL_TIR), (callee, args), NO_ATTRS, (out,))
            with at(binding.value.span):
                known[binding.var] = made[binding.var] = self.emit(call, binding.var.name_hint)
        return made

    def _looped(
        self, loop: ListLoop, stage: Stage, many: dict[Var, Expr], first: Sequence[Expr], length: Expr
    ) -> list[Expr]:
        """The values at the end of a stage's loop, and the chains that it collects."""
        rows = {var: value for var, value in many.items() if var in stage.reads}
        fixed = [binding.var for binding in loop.fixed]
        kept = [var for var in (*loop.steady, *fixed) if var in stage.reads]
        own = self._loop(loop, stage, rows, kept, [_tensor(leaf) for leaf in first])
        chains = [_no_rows(var) for var in stage.collected]
        steady = [self.substitute(var) for var in kept]
        begin = const(np.asarray(0), "int64")
        made = self.emit(Call(own, (begin, length, *first, *chains, *rows.values(), *steady)))
        return [self.emit(TupleGetItem(made, k)) for k in range(len(first) + len(chains))]

    def _loop(
        self,
        loop: ListLoop,
        stage: Stage,
        many: dict[Var, Expr],
        kept: Sequence[Var],
        state: Sequence[TensorType],
    ) -> GlobalVar:
        """The function of the turns, with sizes of its own."""
        chain_types = [AnyType() for _ in stage.collected]
        types = [_NUMBER, _NUMBER, *state, *chain_types, *map(type_of, many.values()), *map(type_of, kept)]
        sizes = {size: PrimVar(size.name, size.dtype, None, size.is_size) for size in free_vars(*types)}
        names = ["i", "length", *("state" for _ in state), *("collected" for _ in chain_types)]
        names += [*(f"{var.name_hint}_rows" for var in many), *(param.name_hint for param in kept)]
        params = [Var(name, substitute(ty, sizes)) for name, ty in zip(names, types, strict=True)]
        i, length, *others = params
        states, others = others[: len(state)], others[len(state) :]
        chains, others = others[: len(chain_types)], others[len(chain_types) :]
        rows, others = dict(zip(many, others, strict=False)), others[len(many) :]
        name = self.global_names.fresh(f"{loop.var.name_hint}_loop")
        result = TupleType(tuple(type_of(var) for var in (*states, *chains)))
        own = GlobalVar(name, FuncType(tuple(type_of(param) for param in params), result, True))
        with self._renaming(), self.function(name, params, private=True):
            self.renamed.update(zip(kept, others, strict=True))

            def again() -> Expr:
                read = _last_row if loop.is_backward else _row
                for var, tensor in rows.items():
                    self.renamed[var] = self.emit_te(
                        read, tensor, i, name_hint=var.name_hint, primfunc_name_hint="row"
                    )
                following = self.emit_te(_next, i, name_hint="i", primfunc_name_hint="next")
                after = self._turn(loop, stage, states, sizes)
                made = [self.leaf(self.substitute(var)) for var in stage.collected]
                pairs = [Tuple(pair) for pair in zip(chains, made, strict=True)]
                return self.emit(Call(own, (following, length, *after, *pairs, *rows.values(), *others)))

            test = self.emit_te(_less, i, length, name_hint="more", primfunc_name_hint="less")
            self.emit_func_output(self._branch(test, again, lambda: Tuple((*states, *chains))))
        return own

    def _turn(
        self, loop: ListLoop, stage: Stage, states: Sequence[Var], sizes: dict[PrimVar, PrimVar]
    ) -> list[Expr]:
        """What a turn computes; gives what the carried values are after it."""
        if not loop.is_backward:
            params = [loop.match.func.params[k] for k in stage.carried]
            self.renamed.update(self._with_leaves(params, states))
        for binding in stage.bindings:
            if binding is loop.again:
                self.renamed[binding.var] = self._rebuilt(loop.match.func.ret_ty, states)
                continue
            value = _item(self.substitute(substitute(binding.value, sizes)))
            with at(binding.span):
                self.renamed[binding.var] = (
                    self.emit(value, binding.var.name_hint) if isinstance(value, Call) else self.leaf(value)
                )
        after = [loop.turn.result] if loop.is_backward else [loop.arguments[k] for k in stage.carried]
        return [leaf for value in after for leaf in self._leaves(self.leaf(self.substitute(value)))]


# ---- small expressions


def _item(value: Expr) -> Expr:
    """The field itself where a field of a tuple is asked for."""
    if isinstance(value, TupleGetItem) and isinstance(value.tuple_value, Tuple):
        return value.tuple_value.fields[value.index]
    return value


def _tensor(value: Expr) -> TensorType:
    ty = type_of(value)
    assert isinstance(ty, TensorType)
    return ty


def _of_rows(ty: TensorType, count: PrimExpr) -> TensorType:
    """The type of so many rows of a type."""
    return TensorType((count, *(ty.dims or ())), ty.dtype)


def _no_rows(var: Var) -> Expr:
    ty = _tensor(var)
    sizes = [dim.value for dim in ty.dims or ()]  # type: ignore[attr-defined]
    return const(np.zeros((0, *sizes), ty.dtype.numpy()), str(ty.dtype))  # type: ignore[union-attr]


def _stack(chain: Expr, row: TensorType) -> Call:
    made = TensorType(None, row.dtype, None, row.ndim + 1)
    callee = ExternFunc("vm.builtin.stack_chain")
    return Call(Op.get("relax.call_pure_packed"), (callee, chain), NO_ATTRS, (made,))


def _core(name: str, *args: Expr) -> Call:
    return Call(Op.get(f"relax.{name}"), args, NO_ATTRS)


def _field(value: Expr, place: int, ty: Type) -> Call:
    return Call(Op.get("relax.get_field"), (value, constant(place, "int64")), NO_ATTRS, (ty,))


def _number(count: PrimExpr) -> Any:
    return te.compute((), lambda: count, name="number")


def _less(i: te.Tensor, length: te.Tensor) -> Any:
    return te.compute((), lambda: i() < length(), name="less")


def _next(i: te.Tensor) -> Any:
    return te.compute((), lambda: i() + 1, name="next")


def _row(rows: te.Tensor, i: te.Tensor) -> Any:
    return te.compute(rows.shape[1:], lambda *at: rows[(i(), *at)], name="row")


def _last_row(rows: te.Tensor, i: te.Tensor) -> Any:
    """Counted from the end."""
    return te.compute(rows.shape[1:], lambda *at: rows[(rows.shape[0] - 1 - i(), *at)], name="row")
