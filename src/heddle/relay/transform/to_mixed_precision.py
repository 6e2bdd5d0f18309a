"""Products in few bits, and what follows them."""

from __future__ import annotations

import warnings
from typing import Any

from heddle.graph.types import TensorType
from heddle.ir.call_graph import names_in
from heddle.ir.expr import Constant, Function, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.pass_options import option
from heddle.ir.structural import structural_equal
from heddle.ir.transform import Pass, PassContext, declare_config
from heddle.ir.types import TupleType
from heddle.relay.builders import var
from heddle.relay.codes import Q0505
from heddle.relay.nodes import Let
from heddle.relay.placement import post_order
from heddle.relay.transform.copying import map_parts
from heddle.relay.transform.precision_kinds import MixedPrecision, kind_of
from heddle.relay.transform.rewriting import call, is_call, map_relay
from heddle.relay.typed import infer_local, infer_module
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import Diagnostic, HeddleError, HeddleWarning, UsageError
from heddle.support.frozen import frozen

KEEP_OUTPUT = declare_config(
    "relay.ToMixedPrecision.keep_orig_output_dtype",
    "whether ToMixedPrecision gives results of functions the dtypes that they had",
    bool,
)
_WIDE = "float32"


@frozen
class ToMixedPrecision(Pass):
    """Compute float32 operators in `mixed_precision_type`: products always, what moves data or works on
    elements where its operands come so (or are constants), sums and exponentials never.

        exp(nn.relu(nn.dense(%x, %w)))

    becomes

        %0 = nn.dense(cast(%x, dtype="float16"), cast(%w, dtype="float16"), out_dtype="float16");
        exp(cast(nn.relu(%0), dtype="float32"))

    Users register what an operator does (`FTVMMixedPrecisionConversionType`). Operators about which nothing
    is known stay in float32; `missing_op_mode` 0 refuses them, 1 warns, 2 says nothing. What a function gives
    that no other calls may have the new dtype, unless the configuration
    `relay.ToMixedPrecision.keep_orig_output_dtype` is set.
    """

    mixed_precision_type: str = option("float16", one_of=("float16", "bfloat16"))
    missing_op_mode: int = option(1, one_of=(0, 1, 2))

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        typed = infer_module(mod)
        relay = [func for func in typed.functions.values() if isinstance(func, Function)]
        named = names_in(*relay)
        kept = {
            id(func)
            for var, func in typed.functions.items()
            if var in named or (ctx is not None and ctx.config.get(KEEP_OUTPUT))
        }
        unknown: dict[str, Any] = {}

        def change(func: Function) -> Function:
            return _Narrower(self.mixed_precision_type, unknown).run(func, id(func) in kept)

        made = map_relay(typed, change)
        if unknown and self.missing_op_mode < 2:
            what = f"nothing is known about the precision of {', '.join(sorted(unknown))}"
            span, hint = next(iter(unknown.values())), "register FTVMMixedPrecisionConversionType for them"
            if self.missing_op_mode == 0:
                raise UsageError(Q0505, what, span=span, help=hint)
            note = Diagnostic(Q0505, what, span, (), hint, "warning")
            warnings.warn(note.render(), HeddleWarning, stacklevel=2)
        return made


class _Narrower:
    """`_made` has for each expression what stands for it, and its type."""

    def __init__(self, dtype: str, unknown: dict[str, Any]) -> None:
        self._dtype, self._unknown = dtype, unknown
        self._made: dict[int, tuple[Any, Any]] = {}
        self._cast: dict[tuple[int, str], Any] = {}
        self._values: dict[Var, Any] = {}
        self._vars: dict[Var, Var] = {}

    def run(self, func: Function, is_kept: bool) -> Function:
        nodes = post_order(func)
        self._values = {node.var: node.value for node in nodes if isinstance(node, Let)}
        for node in nodes[:-1]:
            self._made[id(node)] = self._node(node)
        body = self._back(func.body) if is_kept else self._made[id(func.body)][0]
        return func if body is func.body else replace(func, body=body, ret_ty=None, ty=None)

    def _node(self, node: Any) -> tuple[Any, Any]:
        if is_call(node):
            return self._call(node)
        if isinstance(node, Tuple):
            made = map_parts(node, lambda item: self._made[id(item)][0] if id(item) in self._made else item)
            types = tuple(self._made[id(item)][1] for item in node.fields)
            return made, node.ty if made is node else TupleType(types)
        if isinstance(node, TupleGetItem):
            value, whole = self._made[id(node.tuple_value)]
            same = value is node.tuple_value
            return (node, node.ty) if same else (TupleGetItem(value, node.index), whole.fields[node.index])
        if isinstance(node, Var):
            return self._var(node)
        if isinstance(node, Let):
            return self._let(node)
        return self._wide(node)

    def _wide(self, node: Any) -> tuple[Any, Any]:
        """An expression of float32 operands."""
        made = map_parts(node, lambda child: self._back(child) if id(child) in self._made else child)
        return made, getattr(node, "ty", None)

    def _var(self, node: Var) -> tuple[Any, Any]:
        """A variable of a let has the type of its value, which was looked at before."""
        value = self._made.get(id(self._values.get(node)))
        if value is None or structural_equal(value[1], node.ty):
            return node, node.ty
        made = self._vars.setdefault(node, replace(node, ty=value[1]))
        return made, value[1]

    def _let(self, node: Let) -> tuple[Any, Any]:
        body, ty = self._made[id(node.body)]
        changed = self._vars.get(node.var)
        value = self._back(node.value) if changed is None else self._made[id(node.value)][0]
        if changed is None and value is node.value and body is node.body:
            return node, node.ty
        return Let(changed or node.var, value, body, span=node.span), ty

    # ---- operators

    def _call(self, node: Any) -> tuple[Any, Any]:
        if is_call(node, "cast"):
            value = self._made[id(node.args[0])][0]
            return (node if value is node.args[0] else replace(node, args=(value,), ty=None)), node.ty
        if any(_leaves(arg.ty, _WIDE) for arg in node.args):
            known = kind_of(node, self._dtype)
            if known is None:
                self._unknown.setdefault(node.op.name, node.span)
            elif known[0] is MixedPrecision.ALWAYS or (
                known[0] is MixedPrecision.FOLLOW and self._comes_narrow(node)
            ):
                made = self._narrow(node, *known[1:])
                if made is not None:
                    return made
        return self._wide(node)

    def _narrow(self, node: Any, total: str, result: str) -> tuple[Any, Any] | None:
        """The call in few bits; None where the operator has no such form."""
        found = [self._as(arg, self._dtype) for arg in node.args]
        attrs = dict(node.attrs.items())
        if "out_dtype" in attrs:
            attrs["out_dtype"] = total
        probes = [var(f"p{k}", _with(arg.ty, self._dtype)) for k, arg in enumerate(node.args)]
        try:
            ty = infer_local(call(node.op.name, *probes, **attrs))
        except HeddleError:
            return None
        made = replace(call(node.op.name, *found, **attrs), span=node.span)
        if isinstance(ty, TensorType) and str(ty.dtype) != result and _leaves(node.ty, _WIDE):
            return call("cast", made, dtype=result), TensorType(ty.dims, DataType(result))
        return made, ty

    def _comes_narrow(self, node: Any) -> bool:
        """Whether all its float operands are in few bits or constants, and one is no constant."""
        leaves = [leaf for arg in node.args for leaf in (arg.fields if isinstance(arg, Tuple) else [arg])]
        leaves = [leaf for leaf in leaves if _leaves(leaf.ty, _WIDE) and not isinstance(leaf, Constant)]
        return bool(leaves) and not any(_leaves(self._made[id(leaf)][1], _WIDE) for leaf in leaves)

    def _back(self, node: Any) -> Any:
        return self._as(node, _WIDE)

    def _as(self, node: Any, dtype: str) -> Any:
        """What stands for an expression, with its float32 tensors in a dtype."""
        key = id(node), dtype
        if key not in self._cast:
            value, ty = self._made[id(node)]
            own = node.ty if isinstance(node.ty, (TensorType, TupleType)) else ty
            self._cast[key] = _converted(value, ty, _with(own, dtype))
        return self._cast[key]


def _leaves(ty: Any, dtype: str) -> bool:
    """Whether a type is, or has, a tensor of a dtype."""
    if isinstance(ty, TupleType):
        return any(_leaves(field, dtype) for field in ty.fields)
    return isinstance(ty, TensorType) and str(ty.dtype) == dtype


def _with(ty: Any, dtype: str) -> Any:
    """A type with its float32 tensors in another dtype."""
    if isinstance(ty, TupleType):
        return TupleType(tuple(_with(field, dtype) for field in ty.fields))
    return TensorType(ty.dims, DataType(dtype)) if _leaves(ty, _WIDE) else ty


def _converted(value: Any, ty: Any, wanted: Any) -> Any:
    if isinstance(ty, TensorType) and isinstance(wanted, TensorType):
        return value if ty.dtype == wanted.dtype else call("cast", value, dtype=str(wanted.dtype))
    if not isinstance(ty, TupleType) or structural_equal(ty, wanted):
        return value
    parts = (
        value.fields if isinstance(value, Tuple) else [TupleGetItem(value, k) for k in range(len(ty.fields))]
    )
    return Tuple(tuple(map(_converted, parts, ty.fields, wanted.fields)))
