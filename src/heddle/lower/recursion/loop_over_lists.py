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

from collections.abc import Sequence
from typing import Any

import numpy as np

from heddle import te
from heddle.graph.infer import type_of
from heddle.graph.nodes import Binding, SeqExpr
from heddle.graph.op_builder import const
from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Expr, GlobalVar, If, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.transform import Pass, PassContext
from heddle.ir.types import AnyType, FuncType, TupleType
from heddle.lower.normal_form import graph_functions
from heddle.lower.recursion.list_loop import ListLoop, list_loop
from heddle.lower.recursion.rows import flat_types
from heddle.lower.recursion.stages import Stage, stages_of
from heddle.lower.recursion.writer import (
    RecursionWriter,
    core_call,
    field_of,
    item_of,
    less,
    next_number,
    no_rows,
    tensor_type,
)
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


class _Maker(RecursionWriter):
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
        with at(func.span), self.renaming(), self.scope() as scope:
            body = self._whole(loop, stages)
            scope.close_block()
        made = SeqExpr(tuple(scope.blocks), body, type_of(body), span=func.body.span)
        self.update_func(loop.var, replace(func, body=made))

    # ---- the function itself

    def _whole(self, loop: ListLoop, stages: Sequence[Stage]) -> Expr:
        rows, end = self._rows(loop)
        self.renamed[loop.match.param] = end
        if loop.is_backward:
            first = self.leaves(self.inlined(loop.match.func.body))
            return self.rebuilt(loop.match.func.ret_ty, self._turned(loop, stages, rows, first))
        params = [loop.match.func.params[k] for k in loop.carried]
        first = [leaf for param in params for leaf in self.leaves(param)]
        left = self._turned(loop, stages, rows, first)
        self.renamed.update(self._with_leaves(params, left))
        return self.inlined(loop.match.func.body)

    def binding(self, binding: Binding) -> None:
        """As in every rewriter; the test of an element goes, and its branch."""
        if binding.var in self._dropped:
            return
        skipped = self._skipped.pop(binding.var, None)
        if skipped is None:
            super().binding(binding)
        else:
            self.renamed[binding.var] = self.inlined(skipped)

    def _with_leaves(self, params: Sequence[Var], leaves: Sequence[Expr]) -> dict[Var, Expr]:
        """What stands for parameters whose tensors are these."""
        whole = self.rebuilt(TupleType(tuple(type_of(param) for param in params)), leaves)
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
                items = [self.checked(xs, k, tensor_type(var)) for var, k in loop.fields.items()]
                rest = self.emit(field_of(xs, loop.rest, AnyType()), "rest")
                pairs = [Tuple(pair) for pair in zip(chains, items, strict=True)]
                return self.emit(Call(own, (rest, *pairs)))

            test = self.emit(core_call("has_tag", xs, constant(loop.step.tag, "int64")), "fits")
            self.emit_func_output(self.branch(test, more, lambda: Tuple((xs, *chains))))
        made = self.emit(Call(own, (subject, *(no_rows(var) for var in loop.fields))))
        end = self.emit(TupleGetItem(made, 0), "end")
        count = PrimVar("rows", DataType("int64"), None, True)
        rows: dict[Var, Expr] = {}
        for k, var in enumerate(loop.fields, 1):
            rows[var] = self.stacked(self.emit(TupleGetItem(made, k), "chain"), var, count)
        return rows, end

    # ---- the loops

    def _turned(
        self, loop: ListLoop, stages: Sequence[Stage], rows: dict[Var, Expr], first: Sequence[Expr]
    ) -> list[Expr]:
        """What the carried values are at the end, from what they are `first`."""
        count = tensor_type(next(iter(rows.values()))).dims[0]  # type: ignore[index]
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
                many[var] = self.stacked(chain, var, count)
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
            with at(item.binding.value.span):
                value = self.at_once(loop.turn, item, known, count)
            known[item.binding.var] = made[item.binding.var] = value
        return made

    def _looped(
        self, loop: ListLoop, stage: Stage, many: dict[Var, Expr], first: Sequence[Expr], length: Expr
    ) -> list[Expr]:
        """The values at the end of a stage's loop, and the chains that it collects."""
        rows = {var: value for var, value in many.items() if var in stage.reads}
        fixed = [binding.var for binding in loop.fixed]
        kept = [var for var in (*loop.steady, *fixed) if var in stage.reads]
        own = self._loop(loop, stage, rows, kept, [tensor_type(leaf) for leaf in first])
        chains = [no_rows(var) for var in stage.collected]
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
        with self.renaming(), self.function(name, params, private=True):
            self.renamed.update(zip(kept, others, strict=True))

            def again() -> Expr:
                read = _last_row if loop.is_backward else _row
                for var, tensor in rows.items():
                    self.renamed[var] = self.emit_te(
                        read, tensor, i, name_hint=var.name_hint, primfunc_name_hint="row"
                    )
                following = self.emit_te(next_number, i, name_hint="i", primfunc_name_hint="next")
                after = self._turn(loop, stage, states, sizes)
                made = [self.leaf(self.substitute(var)) for var in stage.collected]
                pairs = [Tuple(pair) for pair in zip(chains, made, strict=True)]
                return self.emit(Call(own, (following, length, *after, *pairs, *rows.values(), *others)))

            test = self.emit_te(less, i, length, name_hint="more", primfunc_name_hint="less")
            self.emit_func_output(self.branch(test, again, lambda: Tuple((*states, *chains))))
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
                self.renamed[binding.var] = self.rebuilt(loop.match.func.ret_ty, states)
                continue
            value = item_of(self.substitute(substitute(binding.value, sizes)))
            with at(binding.span):
                self.renamed[binding.var] = (
                    self.emit(value, binding.var.name_hint) if isinstance(value, Call) else self.leaf(value)
                )
        after = [loop.turn.result] if loop.is_backward else [loop.arguments[k] for k in stage.carried]
        return [leaf for value in after for leaf in self.leaves(self.leaf(self.substitute(value)))]


# ---- small expressions


def _number(count: PrimExpr) -> Any:
    return te.compute((), lambda: count, name="number")


def _row(rows: te.Tensor, i: te.Tensor) -> Any:
    return te.compute(rows.shape[1:], lambda *at: rows[(i(), *at)], name="row")


def _last_row(rows: te.Tensor, i: te.Tensor) -> Any:
    """Counted from the end."""
    return te.compute(rows.shape[1:], lambda *at: rows[(rows.shape[0] - 1 - i(), *at)], name="row")
