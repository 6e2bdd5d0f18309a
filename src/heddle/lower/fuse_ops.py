"""FuseOps: group calls of loop functions into functions of their own, which FuseTIR merges.

y = R.call_tir(cls.exp, (x,), ...)
z = R.call_tir(cls.add, (y, c), ...)     →     z = cls.fused_exp_add(x, c)
return z
"""

from __future__ import annotations

from typing import ClassVar

from heddle.graph.nodes import Binding, BindingBlock, VarBinding
from heddle.graph.rewriter import is_call, loop_call
from heddle.graph.types import TensorType
from heddle.ir.expr import BaseFunc, Call, Expr, GlobalVar, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.ir.transform import Pass, PassContext
from heddle.ir.visitor import walk, walk_distinct
from heddle.lower.fusion_graph import FusionGroup, FusionNode, find_groups
from heddle.lower.normal_form import GRAPHS
from heddle.lower.primitive_function import BlockFuser, outlined
from heddle.prim.intrinsics import intrinsic_of
from heddle.prim.nodes import Call as PrimCall
from heddle.prim.nodes import PrimExpr, constant, is_const_int
from heddle.support.frozen import frozen
from heddle.tir.analysis.op_pattern import OpPattern, op_pattern
from heddle.tir.nodes import PrimFunc
from heddle.tir.schedule.rules.along_rows import reads_along_rows

FUSION_BOUNDARY = "fusion_boundary"
"""Attribute of functions that become loop functions: why fusion ended there, at each of their calls."""


@frozen(slots=False)
class FuseOps(Pass):
    """Requires: calls of loop functions (LegalizeOps). Works on dataflow blocks. Establishes: functions with
    the attribute `Primitive`. With `record_boundaries`, why groups end where they do stays as the attribute
    `fusion_boundary`."""

    dialects: ClassVar[tuple[str, ...] | None] = GRAPHS

    record_boundaries: bool = False

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        fuser = _Fuser(mod)
        for var, func in self.functions(mod):
            if not func.attrs.get("Primitive"):
                fuser.update_func(var, fuser.run(func))
        if self.record_boundaries:
            fuser.note_boundaries()
        return fuser.get()


class _Fuser(BlockFuser):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._patterns: dict[GlobalVar, OpPattern] = {}
        self._costly: dict[GlobalVar, bool] = {}
        self._boundaries: dict[GlobalVar, dict[str, None]] = {}

    def note_boundaries(self) -> None:
        """Put the reasons on the functions: only now, as equal functions are shared while they are made."""
        for var, reasons in self._boundaries.items():
            self.update_func(var, self.module[var].with_attr(FUSION_BOUNDARY, tuple(reasons)))

    def _note(self, var: GlobalVar, group: FusionGroup) -> None:
        self._boundaries.setdefault(var, {})[group.boundary] = None

    def _pattern(self, var: GlobalVar) -> OpPattern:
        if var not in self._patterns:
            func = self.module[var]
            self._patterns[var] = op_pattern(func) if isinstance(func, PrimFunc) else OpPattern.OPAQUE
        return self._patterns[var]

    # ---- the graph

    def fuse(self, block: BindingBlock, used_later: set[Var]) -> BindingBlock:
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
        made_by: dict[Var, Expr] = {}
        for index, binding in enumerate(block.bindings):
            var, value = binding.var, binding.value
            escapes = not var.is_dataflow or var in used_later
            node = FusionNode(var, index, self._value_pattern(binding), escapes, self._is_costly(value))
            for source in dict.fromkeys(n for n in walk_distinct(value) if isinstance(n, Var)):
                if source in nodes:
                    nodes[source].users.append(node)
                    nodes[source].user_patterns.append(edge_pattern(source, var, node.pattern))
                    nodes[source].repeats.append(repeats(source, var))
                    if self._reads_along_rows(source, made_by.get(source), value):
                        nodes[source].turns_for = node
            nodes[var], made_by[var] = node, value
        return nodes

    def _reads_along_rows(self, source: Var, made_by: Expr | None, user: Expr) -> bool:
        """Whether a call is of a product that is better off without the transposition that makes a factor."""
        call, move = loop_call(user), None if made_by is None else loop_call(made_by)
        if call is None or move is None or self._pattern(call[0]) is not OpPattern.OUT_EWISE_FUSABLE:
            return False
        func, moves, args = self.module[call[0]], self.module[move[0]], call[1].fields
        if self._pattern(move[0]) is not OpPattern.INJECTIVE or args.count(source) != 1:
            return False
        assert isinstance(func, PrimFunc) and isinstance(moves, PrimFunc)
        return reads_along_rows(func, args.index(source), moves)

    def _is_costly(self, value: Expr) -> bool:
        called = loop_call(value)
        if called is None:
            return False
        callee, _ = called
        if callee not in self._costly:
            self._costly[callee] = has_costly_work(self.module[callee])
        return self._costly[callee]

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

    def _fused_call(self, group: FusionGroup, by_var: dict[Var, Binding]) -> Binding:
        """A private function of the group's bindings, and the call that replaces them."""
        bindings = [by_var[member.key] for member in group.members]  # type: ignore[index]
        root = by_var[group.root.key]  # type: ignore[index]
        global_var, call = outlined(self, bindings, root, "FuseOps")
        self._note(global_var, group)
        return call


def edge_pattern(source: Expr, user: Expr, pattern: OpPattern) -> OpPattern:
    """The pattern by which a user takes a source. A broadcast is elementwise for an operand of the shape of
    the result. One that has fewer elements is read more than once an element."""
    ty, made = source.ty, user.ty
    if (
        pattern is not OpPattern.BROADCAST
        or not isinstance(ty, TensorType)
        or not isinstance(made, TensorType)
    ):
        return pattern
    if ty.shape is None or made.shape is None:
        return pattern
    same = structural_equal(_without_units(ty), _without_units(made))
    return OpPattern.ELEMENTWISE if same else OpPattern.INJECTIVE


def has_costly_work(func: BaseFunc) -> bool:
    """Whether a loop function calls what takes much longer than to read its result."""
    return isinstance(func, PrimFunc) and any(
        isinstance(node, PrimCall) and intrinsic_of(node).is_costly for node in walk(func.body)
    )


def repeats(source: Expr, user: Expr) -> bool:
    """Whether a user makes several elements of one, along other axes than the last ones: what is the same for
    all elements of a row is computed once for the row."""
    if not isinstance(source.ty, TensorType) or not isinstance(user.ty, TensorType):
        return False
    if source.ty.dims is None or user.ty.dims is None:
        return False
    own = [*(constant(1, "int64"),) * (user.ty.ndim - source.ty.ndim), *source.ty.dims]
    if len(own) != user.ty.ndim:
        return False
    while own and is_const_int(own[-1], 1):
        own.pop()
    wider = [axis for axis, dim in enumerate(own) if is_const_int(dim, 1)]
    return any(not is_const_int(user.ty.dims[axis], 1) for axis in wider)


def _without_units(ty: TensorType) -> tuple[PrimExpr, ...]:
    """The dimensions but for those of extent 1, which add no elements."""
    return tuple(dim for dim in ty.dims or () if not is_const_int(dim, 1))
