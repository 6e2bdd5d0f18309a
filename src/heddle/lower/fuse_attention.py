"""FuseAttention: fuse products with keys, a pass over their rows, and products with values.

    s = R.call_tir(cls.matmul, (q, k), ...)
    t = R.call_tir(cls.add, (s, mask), ...)
    p = R.call_tir(cls.softmax, (t,), ...)      →     o = cls.fused_matmul_add_softmax_matmul(q, k, mask, v)
    o = R.call_tir(cls.matmul, (p, v), ...)

It goes by loops, whatever the operators are called: a product of two computed tensors for each batch; maps of
it; a pass over its last dimension; and a product that sums over that dimension. A row of scores then never
leaves the thread that makes it (see the schedule rule for attention), and no tensor of all scores is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from heddle.graph.infer import type_of
from heddle.graph.nodes import Binding, BindingBlock, VarBinding
from heddle.graph.rewriter import loop_call
from heddle.graph.types import TensorType
from heddle.ir.expr import Expr, GlobalVar, Var
from heddle.ir.module import IRModule
from heddle.ir.structural import structural_equal
from heddle.ir.transform import Pass, PassContext
from heddle.ir.visitor import walk
from heddle.lower.normal_form import GRAPHS
from heddle.lower.primitive_function import BlockFuser, outlined
from heddle.tir.analysis.blocks import plain_nests
from heddle.tir.analysis.op_pattern import OpPattern, op_pattern
from heddle.tir.analysis.row_pass import is_row_pass
from heddle.tir.nodes import BufferLoad, BufferStore, PrimFunc
from heddle.tir.schedule.rules.attention import RowProduct, row_product


class FuseAttention(Pass):
    """Requires: calls of loop functions (LegalizeOps). Works on dataflow blocks, before FuseOps. Establishes:
    functions with the attribute `Primitive`."""

    dialects: ClassVar[tuple[str, ...] | None] = GRAPHS

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        fuser = _Fuser(mod)
        for var, func in self.functions(mod):
            if not func.attrs.get("Primitive"):
                fuser.update_func(var, fuser.run(func))
        return fuser.get()


class _Fuser(BlockFuser):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._products: dict[GlobalVar, RowProduct | None] = {}

    def fuse(self, block: BindingBlock, used_later: set[Var]) -> BindingBlock:
        calls = {b.var: b for b in block.bindings if isinstance(b, VarBinding) and loop_call(b.value)}
        if not any(self._product(binding) for binding in calls.values()):
            return block
        users = _users(block)
        inner = {
            var: binding
            for var, binding in calls.items()
            if len(users[var]) == 1 and var.is_dataflow and var not in used_later
        }
        groups: list[list[VarBinding]] = []
        taken: set[Var] = set()
        for binding in calls.values():
            before = self._before(binding, inner)
            if before is not None and taken.isdisjoint(part.var for part in (*before, binding)):
                groups.append([*before, binding])
                taken.update(part.var for part in groups[-1])
        made: dict[Var, VarBinding] = {}
        gone: set[Var] = set()
        for group in groups:
            after = self._after(group[-1], inner, users, taken)
            taken.update(part.var for part in after)
            group += after
            made[group[-1].var] = outlined(self, group, group[-1], "FuseAttention")[1]
            gone.update(part.var for part in group[:-1])
        bindings = tuple(made.get(b.var, b) for b in block.bindings if b.var not in gone)
        return BindingBlock(bindings, True, span=block.span) if made else block

    def _after(
        self,
        last: VarBinding,
        inner: Mapping[Var, VarBinding],
        users: Mapping[Var, list[Binding]],
        taken: set[Var],
    ) -> list[VarBinding]:
        """The maps and permutations that follow a product with values, but for those that are taken."""
        found: list[VarBinding] = []
        while last.var in inner:
            (user,) = users[last.var]
            if not isinstance(user, VarBinding) or user.var in taken or loop_call(user.value) is None:
                break
            if not _maps_each(self._function(user), _arguments(user).index(last.var)):
                break
            found.append(user)
            last = user
        return found

    def _before(self, last: VarBinding, inner: Mapping[Var, VarBinding]) -> list[VarBinding] | None:
        """The calls before a product with values that belong to it, the product with keys first."""
        values = self._product(last)
        if values is None or not values.takes_rows:
            return None
        row_pass = _made_by(_arguments(last)[values.data], inner)
        if row_pass is None or not is_row_pass(self._function(row_pass)):
            return None
        scores = self._maps(_arguments(row_pass)[0], inner)
        return None if scores is None else [*scores, row_pass]

    def _maps(self, arg: Expr, inner: Mapping[Var, VarBinding]) -> list[VarBinding] | None:
        """The calls from a product to maps of it that make a tensor."""
        binding = _made_by(arg, inner)
        if binding is None:
            return None
        if self._product(binding) is not None:
            return [binding]
        if op_pattern(self._function(binding)) > OpPattern.BROADCAST:
            return None
        for arg in _arguments(binding):
            before = self._maps(arg, inner) if _same_shape(arg, binding.var) else None
            if before is not None:
                return [*before, binding]
        return None

    def _function(self, binding: VarBinding) -> PrimFunc:
        call = loop_call(binding.value)
        assert call is not None
        func = self.module[call[0]]
        assert isinstance(func, PrimFunc)
        return func

    def _product(self, binding: VarBinding) -> RowProduct | None:
        """What a call multiplies, where both factors are computed."""
        call = loop_call(binding.value)
        assert call is not None
        if call[0] not in self._products:
            self._products[call[0]] = row_product(self._function(binding))
        found = self._products[call[0]]
        is_computed = found is not None and isinstance(call[1].fields[found.weights], Var)
        return found if is_computed else None


def _made_by(arg: Expr, inner: Mapping[Var, VarBinding]) -> VarBinding | None:
    return inner.get(arg) if isinstance(arg, Var) else None


def _arguments(binding: VarBinding) -> tuple[Expr, ...]:
    call = loop_call(binding.value)
    assert call is not None
    return call[1].fields


def _same_shape(a: Expr, b: Expr) -> bool:
    types = type_of(a), type_of(b)
    dims = [ty.dims for ty in types if isinstance(ty, TensorType) and ty.dims is not None]
    return len(dims) == 2 and structural_equal(tuple(dims[0]), tuple(dims[1]))


def _maps_each(func: PrimFunc, operand: int) -> bool:
    """Whether a function makes one element of each element of an operand, in its order; or only stores them,
    in any order of dimensions."""
    nests = plain_nests(func)
    if nests is None or len(nests) != 1 or not isinstance(nests[0].body, BufferStore):
        return False
    store = nests[0].body
    axes = {axis.var for axis in nests[0].iter_vars}
    loads = [node for node in walk(store.value) if isinstance(node, BufferLoad)]
    own = [load.indices for load in loads if load.buffer is func.buffers[operand]]
    if not own or any(len(indices) != len(axes) or set(indices) != axes for indices in own):
        return False
    return op_pattern(func) <= OpPattern.BROADCAST or isinstance(store.value, BufferLoad)


def _users(block: BindingBlock) -> dict[Var, list[Binding]]:
    """By variable, the bindings of a block that mention it, once for each time."""
    found: dict[Var, list[Binding]] = {binding.var: [] for binding in block.bindings}
    for binding in block.bindings:
        for node in walk(binding.value):
            if isinstance(node, Var) and node in found:
                found[node].append(binding)
    return found
