"""StaticPlanBlockMemory: let tensors that are not alive at the same time share a storage.

    a = alloc_tensor((n, 4)); f(x, a)                    s = alloc_storage(n * 16)
    b = alloc_tensor((n, 4)); g(a, b)                    t = alloc_storage(n * 16)
    c = alloc_tensor((n, 4)); h(b, c)         →          a = tensor of s; f(x, a)
    d = alloc_tensor((n, 4)); k(c, d)                    b = tensor of t; g(a, b)
    return d                                             c = tensor of s; h(b, c)
                                                         d = alloc_tensor((n, 4)); k(c, d)

Sizes are byte formulas in the symbolic dimensions. A free storage is taken where it is large enough, or can
be made so: its size becomes the larger one of two formulas, where the dimensions of both are known when it is
allocated. Which one is nearest in size is judged at a sample of the dimensions; one that is far too large or
too small there is left. Where the function states upper bounds of dimensions (attribute
`tir_var_upper_bound`), sizes are bounded by them and become constants. What leaves the function, or may be
kept by an external function, has its own storage.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from heddle.graph.infer import type_of
from heddle.graph.nodes import Binding, MatchCast, SeqExpr
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.graph.storage_plan import Storage, StorageSizes, size_bytes
from heddle.graph.type_relations import symbolic_vars
from heddle.graph.types import ShapeExpr
from heddle.ir.expr import (
    Call,
    DataTypeImm,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import walk_distinct
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.nodes import constant
from heddle.relax.transform.lower_alloc_tensor import alloc_storage, alloc_tensor
from heddle.runtime.dtype import DataType


class StaticPlanBlockMemory(FunctionPass):
    """Requires: no dataflow blocks, explicit allocations (CallTIRRewrite)."""

    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)
    requires: ClassVar[tuple[str, ...]] = ("no dataflow",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        bounds = dict(func.attrs.get("tir_var_upper_bound", {}))
        return _Planner(mod, {str(name): int(value) for name, value in bounds.items()}).run(func)


@dataclass(slots=True)
class _Lives:
    """Where the tensors allocated in one sequence are last used; those that escape are left out."""

    last_use: dict[Var, int] = field(default_factory=dict)
    aliases: dict[Var, Var] = field(default_factory=dict)


class _Planner(BindingRewriter):
    def __init__(self, mod: Any, bounds: dict[str, int]) -> None:
        super().__init__(mod)
        self._sizes = StorageSizes(bounds)
        self._plan: dict[Var, Storage] = {}
        self._known: frozenset[PrimVar] = frozenset()

    def run(self, func: Function) -> Function:
        self._known = frozenset(var for param in func.params for var in symbolic_vars(type_of(param)))
        return super().run(func)

    def rewrite_sequence(self, expr: Any) -> SeqExpr:
        """Each sequence plans its own tensors; a branch cannot use up storages of what surrounds it."""
        outer = self._known
        self._plan_sequence(expr)
        result = super().rewrite_sequence(expr)
        self._known = outer
        return result

    def binding(self, binding: Binding) -> None:
        """What a branch inside knows is what is known where it stands."""
        super().binding(binding)
        if isinstance(binding, MatchCast):
            self._known |= frozenset(symbolic_vars(binding.ty))

    def _plan_sequence(self, expr: SeqExpr) -> None:
        known = self._known
        last_use = lives_of(expr, self.mod).last_use
        ending: dict[int, list[Var]] = {}
        for var, position in last_use.items():
            ending.setdefault(position, []).append(var)
        free: list[Storage] = []
        for position, binding in enumerate(expr.bindings()):
            alloc = _known_alloc(binding.value) if binding.var in last_use else None
            if alloc is not None:
                size = self._sizes.bounded(size_bytes(*alloc))
                self._plan[binding.var] = self._sizes.take(free, size, _kind_of(binding.value), known)
            if isinstance(binding, MatchCast):
                known |= frozenset(symbolic_vars(binding.ty))
            free += [self._plan[var] for var in ending.get(position, ()) if var in self._plan]

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        storage = self._plan.get(var)
        if storage is None:
            return value
        assert isinstance(value, Call)
        if storage.var is None:
            storage.var = self.bind(self.value(alloc_storage(storage.size(), value)), "storage")
        return alloc_tensor(storage.var, constant(0, "int64"), value.args[0], value.args[1])


def _known_alloc(value: Expr) -> tuple[ShapeExpr, DataType] | None:
    """The shape and dtype of an allocation that names both."""
    if not is_call(value, "relax.builtin.alloc_tensor"):
        return None
    assert isinstance(value, Call)
    shape, dtype = value.args[0], value.args[1]
    if not isinstance(shape, ShapeExpr) or not isinstance(dtype, DataTypeImm):
        return None
    return shape, DataType(dtype.value)


def _kind_of(alloc: Expr) -> tuple[str, str]:
    assert isinstance(alloc, Call)
    device = str(alloc.args[2]) if len(alloc.args) > 2 else "0"
    scope = alloc.args[3].value if len(alloc.args) > 3 and isinstance(alloc.args[3], StringImm) else "global"
    return device, scope


def lives_of(expr: SeqExpr, mod: Any) -> _Lives:
    """The tensors that a sequence allocates and does not give away, with their last uses."""
    lives = _Lives()
    allocated: set[Var] = set()
    escaped: set[Var] = set()
    for position, binding in enumerate(expr.bindings()):
        value, var = binding.value, binding.var
        if is_call(value, "relax.builtin.alloc_tensor"):
            allocated.add(var)
            lives.last_use[var] = position
            continue
        used = [lives.aliases.get(v, v) for v in _variables(value)]
        for source in used:
            if source in allocated:
                lives.last_use[source] = position
        if isinstance(value, Var) or is_call(value, "relax.memory.view_reshape"):
            lives.aliases[var] = used[0] if used else var
        elif not _only_computes(value):
            escaped.update(used)
    escaped |= {lives.aliases.get(v, v) for v in _variables(expr.body)}
    lives.last_use = {
        var: at for var, at in lives.last_use.items() if var in allocated and var not in escaped
    }
    return lives


def _variables(expr: Expr) -> list[Var]:
    return [node for node in walk_distinct(expr) if isinstance(node, Var)]


def _only_computes(value: Expr) -> bool:
    """Whether a value's tensors are read or written, and not kept: calls of loop functions and shape
    queries."""
    if not isinstance(value, Call):
        return not isinstance(value, (Tuple, TupleGetItem, If, Function))
    if isinstance(value.op, GlobalVar):
        params = getattr(value.op.ty, "params", ())
        return params is None
    if isinstance(value.op, ExternFunc):
        return False
    return any(
        is_call(value, name) for name in ("relax.vm.call_tir_dyn", "relax.shape_of", "relax.tensor_to_shape")
    )
