"""FuseOps: groups of calls of loop functions become functions of their own, to be merged by FuseTIR.

y = R.call_tir(cls.exp, (x,), ...)
z = R.call_tir(cls.add, (y, c), ...)     →     z = cls.fused_exp_add(x, c)
return z
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, Constant, Expr, Function, GlobalVar, If, Tuple, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.ir.transform import Pass, PassContext
from heddle.ir.visitor import walk
from heddle.lower.fusion_graph import FusionGroup, FusionNode, find_groups
from heddle.relax.block_builder import BlockBuilder
from heddle.relax.infer import type_of
from heddle.relax.nodes import Binding, BindingBlock, SeqExpr, VarBinding
from heddle.relax.rewriter import is_call
from heddle.relax.types import ShapeExpr, TensorType
from heddle.support.span import derive
from heddle.tir.analysis.op_pattern import OpPattern, op_pattern
from heddle.tir.nodes import PrimFunc

FUSION_BOUNDARY = "fusion_boundary"
"""Attribute of functions that become loop functions: why fusion ended there, at each of their calls."""


@dataclass(frozen=True)
class FuseOps(Pass):
    """Requires: calls of loop functions (LegalizeOps). Works on dataflow blocks. Establishes: functions with
    the attribute `Primitive`. With `record_boundaries`, why groups end where they do stays as the attribute
    `fusion_boundary`."""

    record_boundaries: bool = False

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        fuser = _Fuser(mod)
        for var, func in mod.functions.items():
            if isinstance(func, Function) and not func.attrs.get("Primitive"):
                fuser.update_func(var, fuser.run(func))
        if self.record_boundaries:
            fuser.note_boundaries()
        return fuser.get()


class _Fuser(BlockBuilder):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._patterns: dict[GlobalVar, OpPattern] = {}
        self._boundaries: dict[GlobalVar, dict[str, None]] = {}

    def note_boundaries(self) -> None:
        """Put the reasons on the functions: only now, as equal functions are shared while they are made."""
        for var, reasons in self._boundaries.items():
            self.update_func(var, self.module[var].with_attr(FUSION_BOUNDARY, tuple(reasons)))

    def _note(self, var: GlobalVar, group: FusionGroup) -> None:
        self._boundaries.setdefault(var, {})[group.boundary] = None

    def run(self, func: Function) -> Function:
        return replace(func, body=self._sequence(func.body))

    def _sequence(self, body: Expr) -> SeqExpr:
        """Fuse in every dataflow block of a sequence, those in branches included."""
        assert isinstance(body, SeqExpr)
        later = _uses_by_block(body)
        blocks = tuple(
            self._block(block, later[index]) if block.is_dataflow else self._branches(block)
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

    def _pattern(self, var: GlobalVar) -> OpPattern:
        if var not in self._patterns:
            func = self.module[var]
            self._patterns[var] = op_pattern(func) if isinstance(func, PrimFunc) else OpPattern.OPAQUE
        return self._patterns[var]

    # ---- the graph

    def _block(self, block: BindingBlock, used_later: set[Var]) -> BindingBlock:
        nodes = self._graph(block, used_later)
        every = find_groups(list(nodes.values()))
        by_var = {binding.var: binding for binding in block.bindings}
        for group in every:
            if len(group.members) == 1 and group.pattern is not OpPattern.OPAQUE:
                self._note(by_var[group.root.key].value.args[0], group)  # type: ignore[index, attr-defined]
        groups = [group for group in every if len(group.members) > 1]
        if not groups:
            return block
        calls = {group.root.key: group for group in groups}
        inner = {member.key for group in groups for member in group.members}
        made: list[Binding] = []
        for binding in block.bindings:
            if binding.var in calls:
                made.append(self._fused_call(calls[binding.var], by_var))
            elif binding.var not in inner:
                made.append(binding)
        return replace(block, bindings=tuple(made))

    def _graph(self, block: BindingBlock, used_later: set[Var]) -> dict[Var, FusionNode]:
        nodes: dict[Var, FusionNode] = {}
        for index, binding in enumerate(block.bindings):
            var, value = binding.var, binding.value
            node = FusionNode(
                var, index, self._value_pattern(binding), not var.is_dataflow or var in used_later
            )
            for source in dict.fromkeys(n for n in walk(value) if isinstance(n, Var)):
                if source in nodes:
                    nodes[source].users.append(node)
                    nodes[source].user_patterns.append(self._edge_pattern(source, var, node.pattern))
            nodes[var] = node
        return nodes

    def _value_pattern(self, binding: Binding) -> OpPattern:
        value = binding.value
        if (
            isinstance(binding, VarBinding)
            and is_call(value, "relax.call_tir")
            and isinstance(binding.var.ty, TensorType)
        ):
            assert isinstance(value, Call) and isinstance(value.args[0], GlobalVar)
            return self._pattern(value.args[0])
        return OpPattern.OPAQUE

    def _edge_pattern(self, source: Var, user: Var, pattern: OpPattern) -> OpPattern:
        """A broadcast is elementwise for an operand that already has the result's shape."""
        if (
            pattern is OpPattern.BROADCAST
            and isinstance(source.ty, TensorType)
            and isinstance(user.ty, TensorType)
        ):
            if source.ty.shape is not None and structural_equal(source.ty.shape, user.ty.shape):
                return OpPattern.ELEMENTWISE
        return pattern

    # ---- fused functions

    def _fused_call(self, group: FusionGroup, by_var: dict[Var, Binding]) -> Binding:
        """A private function of the group's bindings, and the call that replaces them."""
        bindings = [by_var[member.key] for member in group.members]  # type: ignore[index]
        own = {binding.var for binding in bindings}
        outside: dict[Expr, Var] = {}
        renamed: dict[Var, Var] = {}
        inner: list[Binding] = []
        for binding in bindings:
            call = binding.value
            assert isinstance(call, Call) and isinstance(call.args[1], Tuple)
            args = tuple(self._inner_arg(arg, own, renamed, outside) for arg in call.args[1].fields)
            var = Var(binding.var.name_hint, binding.var.ty, binding.var is not group.root.key)
            renamed[binding.var] = var
            new = replace(call, args=(call.args[0], Tuple(args, call.args[1].ty), *call.args[2:]))
            inner.append(VarBinding(var, new, span=binding.span))
        result = renamed[group.root.key]  # type: ignore[index]
        scalars = _free_scalars(inner, tuple(outside.values()))
        params = (*outside.values(), *((scalars,) if scalars is not None else ()))
        body = SeqExpr((BindingBlock(tuple(inner), True),), result, result.ty)
        span = derive("FuseOps", *(binding.span for binding in bindings))
        func = Function(params, body, result.ty, True, attrs_of({"Primitive": True}), span=span)
        global_var = self.add_func(self.normalize_function(func), self._name(bindings))
        self._note(global_var, group)
        extra = () if scalars is None else (_shape_of(scalars),)
        call = Call(GlobalVar(global_var.name_hint), (*outside, *extra), ty=result.ty, span=span)
        root = by_var[group.root.key]  # type: ignore[index]
        return VarBinding(root.var, call, span=span)

    def _inner_arg(self, arg: Expr, own: set[Var], renamed: dict[Var, Var], outside: dict[Expr, Var]) -> Expr:
        if isinstance(arg, Var) and arg in own:
            return renamed[arg]
        if isinstance(arg, (Var, Constant)):
            if arg not in outside:
                outside[arg] = Var(getattr(arg, "name_hint", f"param_{len(outside)}"), type_of(arg))
            return outside[arg]
        return arg

    def _name(self, bindings: list[Binding]) -> str:
        names = []
        for binding in bindings:
            assert isinstance(binding.value, Call)
            name = binding.value.args[0].name_hint.rstrip("0123456789").rstrip("_")  # type: ignore[attr-defined]
            names.append(name)
        return "_".join(["fused", *names])[:80]


def _uses_by_block(body: SeqExpr) -> list[set[Var]]:
    """For every block, the variables that later blocks or the result use."""
    after = {node for node in walk(body.body) if isinstance(node, Var)}
    result: list[set[Var]] = []
    for block in reversed(body.blocks):
        result.append(set(after))
        after |= {node for binding in block.bindings for node in walk(binding.value) if isinstance(node, Var)}
    return result[::-1]


def _free_scalars(inner: list[Binding], params: tuple[Var, ...]) -> Var | None:
    """A shape parameter for symbolic scalars that no tensor parameter's shape determines; None where there
    are none."""
    from_params = {dim for param in params for dim in _plain_dims(param)}
    used: list[Any] = []
    for binding in inner:
        call = binding.value
        assert isinstance(call, Call)
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
    return [node for node in walk(expr) if node.node_kind == "prim.Var"]


def _shape_of(scalars: Var) -> ShapeExpr:
    return ShapeExpr(scalars.ty.values)  # type: ignore[union-attr]
