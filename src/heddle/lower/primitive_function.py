"""What fusing passes share: a function of its own out of some bindings of a block, for FuseTIR to merge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from heddle.graph.block_builder import BlockBuilder
from heddle.graph.infer import type_of
from heddle.graph.nodes import Binding, BindingBlock, SeqExpr, VarBinding
from heddle.graph.types import ShapeExpr, TensorType
from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, Constant, Expr, Function, GlobalVar, If, Tuple, Var
from heddle.ir.node import replace
from heddle.ir.visitor import walk_distinct
from heddle.support.span import derive


class BlockFuser(BlockBuilder, ABC):
    """Rewrites every dataflow block of functions, those in branches included."""

    @abstractmethod
    def fuse(self, block: BindingBlock, used_later: set[Var]) -> BindingBlock:
        """A dataflow block, of which `used_later` are needed after it, with some of its calls made one."""

    def run(self, func: Function) -> Function:
        """The function with its groups made functions of their own."""
        return replace(func, body=self._sequence(func.body))

    def _sequence(self, body: Expr) -> SeqExpr:
        """Fuse in every dataflow block of a sequence, those in branches included."""
        assert isinstance(body, SeqExpr)
        later = _uses_by_block(body)
        blocks = tuple(
            self.fuse(block, later[index]) if block.is_dataflow else self._branches(block)
            for index, block in enumerate(body.blocks)
        )
        return replace(body, blocks=blocks)

    def _branches(self, block: BindingBlock) -> BindingBlock:
        made: list[Binding] = []
        for binding in block.bindings:
            value = binding.value
            if isinstance(binding, VarBinding) and isinstance(value, If):
                branches = self._sequence(value.true_branch), self._sequence(value.false_branch)
                value = replace(value, true_branch=branches[0], false_branch=branches[1])
                binding = replace(binding, value=value)
            made.append(binding)
        return replace(block, bindings=tuple(made))


def _uses_by_block(body: SeqExpr) -> list[set[Var]]:
    """For every block of a sequence, the variables that later blocks or the result use."""
    after = {node for node in walk_distinct(body.body) if isinstance(node, Var)}
    result: list[set[Var]] = []
    for block in reversed(body.blocks):
        result.append(set(after))
        after |= {
            node
            for binding in block.bindings
            for node in walk_distinct(binding.value)
            if isinstance(node, Var)
        }
    return result[::-1]


def outlined(
    builder: BlockBuilder, bindings: Sequence[Binding], root: Binding, by: str
) -> tuple[GlobalVar, VarBinding]:
    """A private function of calls of loop functions, and the binding of its call that replaces `root`. `by`:
    the pass that asks for it."""
    own = {binding.var for binding in bindings}
    outside: dict[Expr, Var] = {}
    renamed: dict[Var, Var] = {}
    inner: list[Binding] = []
    for binding in bindings:
        call = _call_of(binding)
        assert isinstance(call.args[1], Tuple)
        args = tuple(_inner_arg(arg, own, renamed, outside) for arg in call.args[1].fields)
        var = Var(binding.var.name_hint, binding.var.ty, binding is not root)
        renamed[binding.var] = var
        new = replace(call, args=(call.args[0], Tuple(args, call.args[1].ty), *call.args[2:]))
        inner.append(VarBinding(var, new, span=binding.span))
    scalars = _free_scalars(inner, tuple(outside.values()))
    params = (*outside.values(), *((scalars,) if scalars is not None else ()))
    result = renamed[root.var]
    body = SeqExpr((BindingBlock(tuple(inner), True),), result, result.ty)
    span = derive(by, *(binding.span for binding in bindings))
    func = Function(params, body, result.ty, True, attrs_of({"Primitive": True}), span=span)
    global_var = builder.add_func(builder.normalize_function(func), _name(bindings))
    extra = () if scalars is None else (_shape_of(scalars),)
    made = Call(GlobalVar(global_var.name_hint), (*outside, *extra), ty=result.ty, span=span)
    return global_var, VarBinding(root.var, made, span=span)


def _call_of(binding: Binding) -> Call:
    assert isinstance(binding, VarBinding) and isinstance(binding.value, Call)
    return binding.value


def _inner_arg(arg: Expr, own: set[Var], renamed: dict[Var, Var], outside: dict[Expr, Var]) -> Expr:
    if isinstance(arg, Var) and arg in own:
        return renamed[arg]
    if isinstance(arg, (Var, Constant)):
        if arg not in outside:
            outside[arg] = Var(getattr(arg, "name_hint", f"param_{len(outside)}"), type_of(arg))
        return outside[arg]
    return arg


def _name(bindings: Sequence[Binding]) -> str:
    names = [_callee_of(binding).name_hint.rstrip("0123456789").rstrip("_") for binding in bindings]
    return "_".join(["fused", *names])[:80]


def _callee_of(binding: Binding) -> GlobalVar:
    """The loop function that a binding calls."""
    callee = _call_of(binding).args[0]
    assert isinstance(callee, GlobalVar)
    return callee


def _free_scalars(inner: Sequence[Binding], params: tuple[Var, ...]) -> Var | None:
    """A shape parameter for symbolic scalars that no tensor parameter's shape determines; None where there
    are none."""
    from_params = {dim for param in params for dim in _plain_dims(param)}
    used: list[Any] = []
    for binding in inner:
        call = _call_of(binding)
        if len(call.args) > 2 and isinstance(call.args[2], ShapeExpr):
            used.extend(var for dim in call.args[2].values for var in _vars(dim))
        used.extend(var for ty in call.ty_args for var in _vars(ty))
    missing = [var for var in dict.fromkeys(used) if var not in from_params]
    if not missing:
        return None
    shape = ShapeExpr(tuple(missing))
    return Var("scalars", shape.ty)


def _plain_dims(param: Var) -> list[Any]:
    return list(param.ty.dims or ()) if isinstance(param.ty, TensorType) else []


def _vars(expr: Any) -> list[Any]:
    return [node for node in walk_distinct(expr) if node.node_kind == "prim.Var"]


def _shape_of(scalars: Var) -> ShapeExpr:
    return ShapeExpr(scalars.ty.values)  # type: ignore[union-attr]
