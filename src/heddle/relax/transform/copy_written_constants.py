"""CopyWrittenConstants: copy constants before a call overwrites them in place.

s = R.reshape(const, (2, 2))                       s = R.reshape(const, (2, 2))
y = R.call_tir_inplace(cls.f, (s, x),              c = R.call_tir(cls.copied, (s,), out_ty=...)
        inplace_indices=[0], out_ty=...)     →     y = R.call_tir_inplace(cls.f, (c, x),
                                                           inplace_indices=[0], out_ty=...)

Constants belong to the program: all its calls on all machines read them. An operand may also become a
constant during compilation, by constant folding. The analysis follows calls: a function of the module may
return a constant, and a function that overwrites its parameter gets a copy of a constant. The result of an
unknown function value may be a constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from heddle.graph.nodes import SeqExpr, VarBinding
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.ir.expr import Call, Constant, Expr, ExternFunc, Function, GlobalVar, If, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.op import Op, is_op
from heddle.ir.transform import Pass, PassContext
from heddle.ir.visitor import walk_distinct
from heddle.te import Tensor, compute

_VIEWS = ("relax.reshape", "relax.memory.view", "relax.call_pure_packed", "relax.flatten", "relax.squeeze")
"""What may give a part of its operand's memory."""
_INPLACE = "relax.call_tir_inplace"
_CLOSURES = ("relax.invoke_closure", "relax.invoke_pure_closure")


class CopyWrittenConstants(Pass):
    """Requires: the normal form. Its place is after the last pass that folds or fuses."""

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        functions = {var: func for var, func in mod.functions.items() if func.dialect == "relax"}
        if not any(is_call(node, _INPLACE) for func in functions.values() for node in walk_distinct(func)):
            return mod
        rewriter = _Rewriter(mod, functions)
        for var, func in functions.items():
            rewriter.update_func(var, rewriter.run(func))
        return rewriter.get() if rewriter.changed else mod


class _Rewriter(BindingRewriter):
    def __init__(self, mod: IRModule, functions: Mapping[GlobalVar, Any]) -> None:
        super().__init__(mod)
        self.functions = functions
        nodes = [node for func in functions.values() for node in walk_distinct(func)]
        self.values = {node.var: node.value for node in nodes if isinstance(node, VarBinding)}
        self.written = self._written_params([node for node in nodes if isinstance(node, Call)])
        self.changed = False

    def _written_params(self, calls: Sequence[Call]) -> set[Expr]:
        """The parameters that a call writes over, here or in a function that they are given to."""
        written: set[Expr] = set()
        for call in calls:
            if is_call(call, _INPLACE):
                for index in _inplace_indices(call):
                    written |= self._sources(call.args[1].fields[index])  # type: ignore[attr-defined]
        while True:
            more = {
                source
                for call in calls
                for param, arg in self._given(call)
                if param in written
                for source in self._sources(arg)
            }
            if more <= written:
                return written
            written |= more

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if not isinstance(value, Call):
            return value
        if is_call(value, _INPLACE):
            assert isinstance(value.args[1], Tuple)
            fields = self._copied(value.args[1].fields, _inplace_indices(value))
            return (
                value
                if fields is None
                else replace(value, args=(value.args[0], Tuple(fields), *value.args[2:]))
            )
        places = [index for index, (param, _) in enumerate(self._given(value)) if param in self.written]
        args = self._copied(value.args, places)
        return value if args is None else replace(value, args=args)

    def _copied(self, operands: Sequence[Expr], places: Iterable[int]) -> tuple[Expr, ...] | None:
        """Operands, of which those at places are copies if they may be constants; None if none may."""
        made = list(operands)
        for index in places:
            if any(isinstance(source, (Constant, Call)) for source in self._sources(made[index])):
                made[index] = self.emit(self.call_te(copied, made[index]))
                self.changed = True
        return None if all(new is old for new, old in zip(made, operands, strict=True)) else tuple(made)

    def _resolved(self, expr: Expr) -> Expr:
        """What a variable stands for, where that is known."""
        while isinstance(expr, Var) and expr in self.values:
            expr = self.values[expr]
        return expr

    def _called(self, call: Call) -> Function | None:
        """The function of the module, or of the program's own text, that is called."""
        op = self._resolved(call.op)
        found = self.functions.get(op) if isinstance(op, GlobalVar) else op
        return found if isinstance(found, Function) else None

    def _given(self, call: Call) -> list[tuple[Var, Expr]]:
        called = self._called(call)
        return [] if called is None else list(zip(called.params, call.args, strict=False))

    def _sources(self, expr: Expr) -> set[Expr]:
        """Constants, parameters and calls of unknown functions, of whose memory a value may be."""
        pending, seen, found = [expr], set[Expr](), set[Expr]()
        while pending:
            one = pending.pop()
            if one in seen:
                continue
            seen.add(one)
            if isinstance(one, Constant) or (isinstance(one, Var) and one not in self.values):
                found.add(one)
            elif isinstance(one, Call):
                called = self._called(one)
                if any(is_call(one, name) for name in _VIEWS):
                    pending += one.args
                elif called is not None:
                    pending += [called.body, *one.args]
                elif _is_unknown(self._resolved(one.op)):
                    found.add(one)
            else:
                pending += self._parts(one)
        return found

    def _parts(self, expr: Expr) -> Sequence[Expr]:
        if isinstance(expr, Var):
            return (self.values[expr],)
        if isinstance(expr, TupleGetItem):
            return (expr.tuple_value,)
        if isinstance(expr, Tuple):
            return expr.fields
        if isinstance(expr, If):
            return (expr.true_branch, expr.false_branch)
        return (expr.body,) if isinstance(expr, SeqExpr) else ()


def _inplace_indices(call: Call) -> set[int]:
    return {index for index in call.attrs.inplace_indices if index >= 0}


def _is_unknown(op: Expr) -> bool:
    """Whether what is called is a function value of which only the type is known."""
    return not isinstance(op, (Op, GlobalVar, ExternFunc)) or any(is_op(op, name) for name in _CLOSURES)


def copied(x: Tensor) -> Any:
    """The same elements in memory of their own."""
    return compute(x.shape, lambda *index: x[index], name="copy")
