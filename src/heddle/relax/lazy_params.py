"""The rewriter of the lazy passes: fetch parameters before their first use, and hand over results early."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.graph.infer import type_of
from heddle.graph.nodes import Binding, MatchCast, SeqExpr, VarBinding, body_of
from heddle.graph.num_input import NUM_INPUT, num_inputs
from heddle.graph.rewriter import BindingRewriter
from heddle.graph.type_relations import definable_vars, erase_vars, symbolic_vars
from heddle.ir.expr import Expr, Function, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.transform import PassContext
from heddle.ir.types import AnyType, TupleType, Type
from heddle.ir.visitor import walk_distinct
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import free_vars
from heddle.relax.transform.to_non_dataflow import ToNonDataflow

Fetch = Callable[[int, str], Expr]
"""Returns the call that fetches a parameter, from the parameter's number and name."""
Give = Callable[[int, Expr], Expr]
"""Returns the call that hands over a result, from the result's number and value."""


def num_call_inputs(func: Function) -> int:
    """Return the number of parameters that stay parameters (`num_input`); 0 if it is not stated."""
    return num_inputs(func) if NUM_INPUT in func.attrs else 0


class LazyRewriter(BindingRewriter):
    """Rewrites one function. With `fetch` None, parameters stay; with `give` None, results stay."""

    def __init__(self, mod: IRModule, func: Function, fetch: Fetch | None, give: Give | None) -> None:
        super().__init__(mod)
        self._func: Function = ToNonDataflow().transform_function(func, mod, PassContext.current())
        self._fetch, self._give = fetch, give
        for node in walk_distinct(self._func.body):
            if isinstance(node, Binding):
                self.names.reserve(node.var.name_hint)
        self._pending: dict[Var, tuple[int, Type]] = {}
        self._results: dict[Var, list[int]] = {}

    def rewritten(self, added: tuple[Var, ...]) -> Function:
        """Return the function with the parameters `added` after its inputs, instead of the fetched ones."""
        func, count = self._func, num_call_inputs(self._func)
        kept = func.params[:count] if self._fetch is not None else func.params
        params = (*kept[:count], *added, *kept[count:])
        if self._fetch is not None:
            self._expect(func.params[count:])
        with self.scope() as scope:
            result = self._steps(body_of(func))
            scope.close_block()
        ret = TupleType(()) if self._give is not None else func.ret_ty
        if ret is not None:
            lost = {dim for param in func.params for dim in symbolic_vars(type_of(param))}
            ret = erase_vars(ret, lost - {dim for param in params for dim in definable_vars(type_of(param))})
        body = SeqExpr(tuple(scope.blocks), result, type_of(result), span=func.body.span)
        made = replace(func, params=params, body=body, ret_ty=ret, is_pure=False, ty=None)
        return self.normalize_function(made)

    def _steps(self, body: SeqExpr) -> Expr:
        outputs = self._outputs(body)
        if self._give is not None:
            for index, item in enumerate(outputs):
                if isinstance(item, Var):
                    self._results.setdefault(item, []).append(index)
        for param in self._func.params if self._give is not None else ():
            if param not in self._pending:
                self._give_away(param)
        for binding in body.bindings():
            if self._is_part_of_pending(binding):
                continue
            if self._give is not None and binding.var is body.body and isinstance(binding.value, Tuple):
                continue
            self._load_for(binding.value, type_of(binding.var))
            self.binding(binding)
            self._give_away(binding.var)
        if self._give is None:
            self._load_for(body.body, type_of(body.body))
            return self.leaf(self.substitute(body.body))
        for index, item in enumerate(outputs):
            self._load_for(item, type_of(item))
            if not isinstance(item, Var):
                self._do(self._give(index, self.leaf(self.substitute(item))))
        return self.leaf(Tuple(()))

    def _outputs(self, body: SeqExpr) -> tuple[Expr, ...]:
        """Return the fields of the result if it is an explicit tuple, else the result alone."""
        result = body.body
        for binding in body.bindings():
            if binding.var is result and isinstance(binding.value, Tuple):
                result = binding.value
        return result.fields if isinstance(result, Tuple) else (result,)

    # ---- fetching

    def _expect(self, params: tuple[Var, ...]) -> None:
        """Number the parameters and the items of tuple parameters."""
        number = 0
        for param in params:
            ty = type_of(param)
            if not isinstance(ty, TupleType):
                self._pending[param] = number, ty
                number += 1
                continue
            items = [self._item_var(param, index, item) for index, item in enumerate(ty.fields)]
            for item in items:
                self._pending[item] = number, type_of(item)
                number += 1
            self.renamed[param] = Tuple(tuple(items), TupleType(ty.fields))

    def _item_var(self, param: Var, index: int, ty: Type) -> Var:
        """Return the variable to which the function binds a tuple item, or a new variable."""
        for binding in body_of(self._func).bindings():
            value = binding.value
            if isinstance(value, TupleGetItem) and value.tuple_value is param and value.index == index:
                return binding.var
        return Var(f"{param.name_hint}_{index}", ty)

    def _is_part_of_pending(self, binding: Binding) -> bool:
        """Whether a binding has the form `w = params[0]`. The item is fetched when it is first needed."""
        value = binding.value
        if not isinstance(value, TupleGetItem):
            return False
        whole = self.renamed.get(value.tuple_value) if isinstance(value.tuple_value, Var) else None
        if not isinstance(whole, Tuple) or self._fetch is None:
            return False
        item = whole.fields[value.index]
        if item is not binding.var:
            self.renamed[binding.var] = item
        return True

    def _load_for(self, value: Expr, ty: Type) -> None:
        """Fetch the parameters that a value uses, and those that define its symbolic dimensions."""
        while True:
            whole = self.substitute(value)
            needed: set[Any] = {node for node in walk_distinct(whole) if isinstance(node, Var)}
            dims: set[PrimVar] = {*free_vars(whole), *symbolic_vars(ty)}
            for var, (_, own) in self._pending.items():
                if var in needed or any(dim in dims for dim in definable_vars(own)):
                    break
            else:
                return
            self._load(var)

    def _load(self, var: Var) -> None:
        assert self._fetch is not None
        number, ty = self._pending.pop(var)
        untyped = self.bind(self.value(self._fetch(number, var.name_hint)), f"{var.name_hint}_untyped")
        if isinstance(ty, AnyType):
            self.add(VarBinding(var, untyped))
        else:
            self.add(MatchCast(var, untyped, ty))
        self._give_away(var)

    # ---- giving

    def _give_away(self, var: Var) -> None:
        for index in self._results.pop(var, ()):
            assert self._give is not None
            self._do(self._give(index, self.substitute(var)))

    def _do(self, call: Expr) -> None:
        value = self.value(call)
        self.add(VarBinding(Var("_", type_of(value)), value))
