"""From a tensor-expression function to a loop function and the arguments to call it with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heddle import te
from heddle.graph.codes import R0202
from heddle.graph.infer import type_of
from heddle.graph.op_builder import graph_expr
from heddle.graph.types import ShapeExpr, TensorType
from heddle.ir.expr import Constant, Expr, Tuple
from heddle.ir.types import TupleType, Type
from heddle.ir.visitor import walk_distinct
from heddle.prim.nodes import PrimExpr, Var, constant
from heddle.prim.substitute import free_vars, substitute
from heddle.support.diagnostics import IRTypeError
from heddle.support.names import identifier
from heddle.te.create_prim_func import create_prim_func
from heddle.tir.fresh_definitions import defined_by
from heddle.tir.nodes import Buffer, PrimFunc


class _Placeholders:
    """Turns graph arguments into te ones: tensors into placeholders, whose symbolic dimensions get fresh
    variables."""

    def __init__(self, leaf: Callable[[Expr], Expr]) -> None:
        self._leaf = leaf
        self.graph_args: list[Expr] = []
        self.tensors: list[te.Tensor] = []
        self.fresh: dict[Var, PrimExpr] = {}
        self._known: dict[int, te.Tensor] = {}

    def convert(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(self.convert(item) for item in value)
        if isinstance(value, Tuple):
            return tuple(self.convert(item) for item in value.fields)
        if isinstance(value, ShapeExpr):
            return tuple(self.scalar(dim) for dim in value.values)
        if isinstance(value, PrimExpr):
            return self.scalar(value)
        if isinstance(value, Expr) and not hasattr(value, "value"):
            return self._tensor(value)
        return value

    def _tensor(self, value: Expr) -> Any:
        arg = self._leaf(graph_expr(value))
        ty = type_of(arg)
        if isinstance(ty, TupleType) and isinstance(arg, Tuple):
            return tuple(self._tensor(item) for item in arg.fields)
        if not isinstance(ty, TensorType) or ty.dims is None or ty.dtype is None:
            raise IRTypeError(
                R0202,
                f"a tensor expression needs a tensor of known shape and dtype, got {ty}",
                span=value.span,
                help="match_cast the value to a type with named dimensions first",
            )
        if isinstance(arg, Constant) and arg.data.ndim == 0 and ty.dtype.bits >= 8:
            return te.ScalarTensor(constant(arg.data.numpy().item(), ty.dtype))
        if id(arg) in self._known:
            return self._known[id(arg)]
        name = identifier(getattr(arg, "name_hint", "") or "c")
        for dim in ty.dims:
            if isinstance(dim, Var):  # a dimension is never negative, however its variable was made
                self.fresh.setdefault(dim, Var(dim.name, dim.dtype, None, True))
        made = te.placeholder(tuple(self.scalar(dim) for dim in ty.dims), ty.dtype, name)
        self.graph_args.append(arg)
        self.tensors.append(made)
        self._known[id(arg)] = made
        return made

    def scalar(self, expr: PrimExpr) -> PrimExpr:
        """An expression of the caller's symbolic variables in terms of the loop function's own."""
        for var in free_vars(expr):
            if var not in self.fresh:
                self.fresh[var] = Var(var.name, var.dtype, None, var.is_size)
        result: PrimExpr = substitute(expr, self.fresh)
        return result


def te_call(
    leaf: Callable[[Expr], Expr], function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[PrimFunc, list[Expr], Type, list[PrimExpr]]:
    """The loop function, its tensor arguments, the type of its outputs, and the scalar arguments that it
    needs beside."""
    placeholders = _Placeholders(leaf)
    te_args = [placeholders.convert(arg) for arg in args]
    te_kwargs = {key: placeholders.convert(value) for key, value in kwargs.items()}
    result = function(*te_args, **te_kwargs)
    outputs = list(result) if isinstance(result, (list, tuple)) else [result]
    used = _used_inputs(placeholders, outputs)
    tensors = [te_tensor for te_tensor, _ in used]
    scalars = _unbound(placeholders.fresh, tensors, outputs)
    outputs = [_copy_of(out) if isinstance(out.op, te.PlaceholderOp) else out for out in outputs]
    func = create_prim_func([*tensors, *outputs, *scalars])
    captured = _captured(func)
    if captured:
        func = create_prim_func([*tensors, *outputs, *scalars, *captured])
    func = func.without_attr("global_symbol")
    back = {fresh: var for var, fresh in placeholders.fresh.items() if isinstance(fresh, Var)}
    back.update({var: var for var in captured})
    types = [TensorType(tuple(substitute(dim, back) for dim in out.shape), out.dtype) for out in outputs]
    out_type: Type = TupleType(tuple(types)) if isinstance(result, (list, tuple)) else types[0]
    return func, [arg for _, arg in used], out_type, [back[var] for var in (*scalars, *captured)]


def _used_inputs(placeholders: _Placeholders, outputs: list[te.Tensor]) -> list[tuple[te.Tensor, Expr]]:
    """The inputs that outputs depend on, by value or by shape."""
    reached: set[te.Tensor] = set()
    stack = list(outputs)
    while stack:
        top = stack.pop()
        if top not in reached:
            reached.add(top)
            stack.extend(top.op.inputs)
    pairs = list(zip(placeholders.tensors, placeholders.graph_args, strict=True))
    return [(tensor, arg) for tensor, arg in pairs if tensor in reached]


def _unbound(fresh: Mapping[Var, PrimExpr], tensors: list[te.Tensor], outputs: list[te.Tensor]) -> list[Var]:
    """Variables that no dimension of a tensor argument is equal to: they are passed as scalars."""
    bound = {dim for tensor in (*tensors, *outputs) for dim in tensor.shape if isinstance(dim, Var)}
    return [var for var in fresh.values() if isinstance(var, Var) and var not in bound]


def _captured(func: PrimFunc) -> list[Var]:
    """Variables of the graph that the te function took from around it: they are passed as scalars too."""
    nodes = list(walk_distinct(func))
    known = {*func.params, *free_vars(*(d for b in func.buffers for d in b.shape))}
    known.update(name for node in nodes for name in defined_by(node) if isinstance(name, Var))
    pointers = {node.data for node in nodes if isinstance(node, Buffer)}
    used = [node for node in nodes if isinstance(node, Var)]
    shapes = [v for buffer in func.buffers for dim in buffer.shape for v in free_vars(dim)]
    plain = {dim for buffer in func.buffers for dim in buffer.shape}
    hidden = [var for var in dict.fromkeys(shapes) if var not in plain and var not in func.params]
    return [*hidden, *(var for var in used if var not in known | pointers)]


def _copy_of(tensor: te.Tensor) -> te.Tensor:
    """An output must be computed; a te function that returns its input gets a copy."""
    result: te.Tensor = te.compute(tensor.shape, lambda *i: tensor[i], name="copy")
    return result
