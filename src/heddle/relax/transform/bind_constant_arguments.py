"""BindConstantArguments: replace a parameter by a constant if every call passes that constant.

    cls.loop(x, w0)                               cls.loop(x)
    def loop(h, w):                        →      def loop(h):
        return cls.loop(R.matmul(h, w), w)            return cls.loop(R.matmul(h, metadata[0]))

Loop bodies then contain their weights and trip counts as constants, so later passes can pack weights and fold
constants in them.
"""

from __future__ import annotations

from collections.abc import Sequence

from heddle.graph.binding import bind_params
from heddle.graph.rewriter import BindingRewriter
from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Constant, Expr, Function, GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.ir.transform import Pass, PassContext
from heddle.ir.visitor import walk
from heddle.relax.private_functions import CallRewrite, changeable_functions, with_new_signatures


class BindConstantArguments(Pass):
    """Applies to functions that are called only inside this module (also by themselves)."""

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        functions: dict[GlobalVar, Function] = {}
        rules: dict[GlobalVar, CallRewrite] = {}
        calls = _calls(mod)
        for var, func in changeable_functions(mod).items():
            known = _constants(var, func, calls.get(var, []))
            if known:
                params = {func.params[index]: value.data for index, value in known.items()}
                functions[var] = replace(bind_params(func, params), ty=None)
                rules[var] = _without(tuple(known))
        return with_new_signatures(mod, functions, rules) if functions else mod


def _calls(mod: IRModule) -> dict[GlobalVar, list[tuple[GlobalVar, Call]]]:
    """Return the calls of each function of the module, with the functions that contain them."""
    found: dict[GlobalVar, list[tuple[GlobalVar, Call]]] = {}
    for caller, func in mod.functions.items():
        for node in walk(func) if isinstance(func, Function) else ():
            if isinstance(node, Call) and isinstance(node.op, GlobalVar):
                found.setdefault(node.op, []).append((caller, node))
    return found


def _constants(
    var: GlobalVar, func: Function, calls: Sequence[tuple[GlobalVar, Call]]
) -> dict[int, Constant]:
    """Return the parameters for which every call passes one constant, or the parameter itself."""
    found: dict[int, Constant] = {}
    unknown = {k for k, param in enumerate(func.params) if not isinstance(param.ty, TensorType)}
    for caller, call in calls:
        for index, arg in enumerate(call.args):
            handed_on = caller == var and arg is func.params[index]
            if not handed_on and not _is_same(arg, found.setdefault(index, arg)):  # type: ignore[arg-type]
                unknown.add(index)
    return {index: value for index, value in found.items() if index not in unknown}


def _is_same(arg: Expr, known: Expr) -> bool:
    if not isinstance(arg, Constant) or not isinstance(known, Constant):
        return False
    return arg.data is known.data or structural_equal(arg, known)


def _without(dropped: tuple[int, ...]) -> CallRewrite:
    def call_site(rewriter: BindingRewriter, call: Call) -> Expr:
        args = tuple(arg for index, arg in enumerate(call.args) if index not in dropped)
        return replace(call, op=replace(call.op, ty=None), args=args, ty=None)

    return call_site
