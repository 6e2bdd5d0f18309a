"""RemoveUnusedOutputs: remove items of private functions' result tuples that no caller uses.

    t = cls.f(x); y = t[1]                 y = cls.f(x)
    def f(a): return (p, q)        →       def f(a): return q

With more than one item left, the result stays a tuple.
"""

from __future__ import annotations

from heddle.graph.infer import type_of
from heddle.graph.nodes import Binding, body_of
from heddle.graph.rewriter import BindingRewriter
from heddle.ir.expr import Call, Expr, Function, GlobalVar, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.transform import Pass, PassContext
from heddle.ir.types import TupleType
from heddle.ir.visitor import walk
from heddle.prim.nodes import constant
from heddle.relax.private_functions import CallRewrite, changeable_functions, with_new_signatures
from heddle.relax.transform.canonicalize_bindings import CanonicalizeBindings


class RemoveUnusedOutputs(Pass):
    """Requires the normal form. Applies where the result is written as a tuple and every caller takes items.
    Bindings are canonicalised afterwards.
    """

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        used = {
            var: set[int]()
            for var, func in changeable_functions(mod).items()
            if isinstance(func.ret_ty, TupleType) and _result_tuple(func) is not None
        }
        for func in mod.functions.values():
            if func.dialect == "relax":
                _note_uses(func, used)
        functions: dict[GlobalVar, Function] = {}
        rules: dict[GlobalVar, CallRewrite] = {}
        for var, indices in used.items():
            fields = mod[var].ret_ty.fields
            if 0 < len(indices) < len(fields):
                functions[var], rules[var] = _reduced(mod[var], sorted(indices))
        if not functions:
            return mod
        return CanonicalizeBindings().transform(with_new_signatures(mod, functions, rules), ctx)


def _result_tuple(func: Function) -> Tuple | None:
    result = body_of(func).body
    for binding in body_of(func).bindings():
        if binding.var is result and isinstance(binding.value, Tuple):
            return binding.value
    return result if isinstance(result, Tuple) else None


def _note_uses(func: Function, used: dict[GlobalVar, set[int]]) -> None:
    """The items that a caller takes of each result; a result used whole needs all."""
    results: dict[Var, GlobalVar] = {}
    for node in walk(func.body):
        if isinstance(node, Binding) and isinstance(node.value, Call) and node.value.op in used:
            results[node.var] = node.value.op  # type: ignore[assignment]
    items = [node for node in walk(func.body) if isinstance(node, TupleGetItem)]
    counts: dict[Var, int] = {}
    for node in walk(func.body):
        if isinstance(node, Var) and node in results:
            counts[node] = counts.get(node, 0) + 1
    for item in items:
        if item.tuple_value in results:
            counts[item.tuple_value] -= 1
            used[results[item.tuple_value]].add(item.index)
    for var, callee in results.items():
        if counts.get(var, 0) > 1:  # beside its definition
            used.pop(callee, None)


def _reduced(func: Function, indices: list[int]) -> tuple[Function, CallRewrite]:
    result = _result_tuple(func)
    assert result is not None and isinstance(func.ret_ty, TupleType)
    count = len(result.fields)
    kept = tuple(result.fields[index] for index in indices)
    types = tuple(func.ret_ty.fields[index] for index in indices)
    body: Expr = Tuple(kept, TupleType(tuple(map(type_of, kept)))) if len(kept) > 1 else kept[0]
    ret = TupleType(types) if len(kept) > 1 else types[0]
    made = replace(func, body=replace(body_of(func), body=body, ty=type_of(body)), ret_ty=ret, ty=None)

    def call_site(rewriter: BindingRewriter, call: Call) -> Expr:
        """The old tuple, with nothing in the places that nobody looks at."""
        smaller = rewriter.value(replace(call, op=replace(call.op, ty=None), ty=None))
        whole = rewriter.bind(smaller, "kept")
        fields: list[Expr] = [constant(0, "int64")] * count
        for position, index in enumerate(indices):
            fields[index] = TupleGetItem(whole, position) if len(indices) > 1 else whole
        return Tuple(tuple(fields))

    return made, call_site
