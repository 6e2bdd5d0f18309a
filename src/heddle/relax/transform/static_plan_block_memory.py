"""StaticPlanBlockMemory: tensors that are not alive together share a storage.

    a = alloc_tensor((n, 4)); f(x, a)                    s = alloc_storage(n * 16)
    b = alloc_tensor((n, 4)); g(a, b)                    t = alloc_storage(n * 16)
    c = alloc_tensor((n, 4)); h(b, c)         →          a = tensor of s; f(x, a)
    d = alloc_tensor((n, 4)); k(c, d)                    b = tensor of t; g(a, b)
    return d                                             c = tensor of s; h(b, c)
                                                         d = alloc_tensor((n, 4)); k(c, d)

Sizes are byte formulas in the symbolic dimensions. A storage is taken again where it is provably large
enough and not far
too large; where the function states upper bounds of dimensions (attribute `tir_var_upper_bound`), sizes are
bounded by
them and become constants. What leaves the function, or may be kept by an external function, has its own
storage.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from heddle.arith import Analyzer
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
from heddle.ir.visitor import walk
from heddle.prim.nodes import IntImm, PrimExpr, constant
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import substitute
from heddle.relax.nodes import Binding, SeqExpr
from heddle.relax.rewriter import BindingRewriter, is_call
from heddle.relax.transform.lower_alloc_tensor import alloc_storage, alloc_tensor, size_bytes
from heddle.relax.types import ShapeExpr
from heddle.runtime.dtype import DataType

MAX_WASTE = 16
"""A storage more than this many times too large is not reused."""
ALIGN_BYTES = 64


@dataclass(frozen=True)
class StaticPlanBlockMemory(FunctionPass):
    """Requires: no dataflow blocks, explicit allocations (CallTIRRewrite)."""

    function_kind: ClassVar[type] = Function
    requires: ClassVar[tuple[str, ...]] = ("no dataflow",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        bounds = dict(func.attrs.get("tir_var_upper_bound", {}))
        return _Planner(mod, {str(name): int(value) for name, value in bounds.items()}).run(func)


@dataclass(eq=False, slots=True)
class _Storage:
    var: Var
    size: PrimExpr
    kind: tuple[str, str]


@dataclass(slots=True)
class _Lives:
    """Where the tensors allocated in one sequence are last used; those that escape are left out."""

    last_use: dict[Var, int] = field(default_factory=dict)
    aliases: dict[Var, Var] = field(default_factory=dict)


class _Planner(BindingRewriter):
    def __init__(self, mod: Any, bounds: dict[str, int]) -> None:
        super().__init__(mod)
        self._bounds = bounds
        self._sizes = Analyzer()
        self._free: list[_Storage] = []
        self._lives = _Lives()
        self._ending: dict[int, list[Var]] = {}
        self._held: dict[Var, _Storage] = {}
        self._position = 0

    def rewrite_sequence(self, expr: Any) -> SeqExpr:
        """Each sequence plans its own tensors; a branch cannot use up storages of what surrounds it."""
        saved = self._free, self._lives, self._ending, self._held, self._position
        self._free, self._held, self._position = [], {}, 0
        self._lives = lives_of(expr, self.mod)
        self._ending = {}
        for var, position in self._lives.last_use.items():
            self._ending.setdefault(position, []).append(var)
        result = super().rewrite_sequence(expr)
        self._free, self._lives, self._ending, self._held, self._position = saved
        return result

    def binding(self, binding: Binding) -> None:
        super().binding(binding)
        for var in self._ending.get(self._position, ()):
            if var in self._held:
                self._free.append(self._held.pop(var))
        self._position += 1

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if not is_call(value, "relax.builtin.alloc_tensor") or var not in self._lives.last_use:
            return value
        assert isinstance(value, Call)
        shape, dtype = value.args[0], value.args[1]
        if not isinstance(shape, ShapeExpr) or not isinstance(dtype, DataTypeImm):
            return value
        storage = self._take(self._bounded(size_bytes(shape, DataType(dtype.value))), value)
        self._held[var] = storage
        return alloc_tensor(storage.var, constant(0, "int64"), shape, dtype)

    def _bounded(self, size: PrimExpr) -> PrimExpr:
        """The size with stated upper bounds put in, rounded up to the alignment where it is constant."""
        if self._bounds:
            known = {
                node: constant(self._bounds[node.name], "int64")
                for node in walk(size)
                if isinstance(node, PrimVar) and node.name in self._bounds
            }
            size = substitute(size, known)
        size = self._sizes.simplify(size)
        if isinstance(size, IntImm):
            return constant(-(-size.value // ALIGN_BYTES) * ALIGN_BYTES, "int64")
        return size

    def _take(self, size: PrimExpr, alloc: Call) -> _Storage:
        """A free storage that fits, the tightest first, or a new one."""
        kind = _kind_of(alloc)
        fitting = [s for s in self._free if s.kind == kind and self._fits(s.size, size)]
        if fitting:
            best = min(fitting, key=lambda s: s.size.value if isinstance(s.size, IntImm) else -1)
            self._free.remove(best)
            return best
        var = self.bind(self.value(alloc_storage(size, alloc)), "storage")
        return _Storage(var, size, kind)

    def _fits(self, have: PrimExpr, need: PrimExpr) -> bool:
        if isinstance(have, IntImm) and isinstance(need, IntImm):
            return need.value <= have.value <= max(need.value * MAX_WASTE, ALIGN_BYTES)
        if isinstance(have, IntImm) or isinstance(need, IntImm):
            return False
        return self._sizes.can_prove_equal(have, need) or self._sizes.can_prove_greater_equal(have - need, 0)


def _kind_of(alloc: Call) -> tuple[str, str]:
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
    return [node for node in walk(expr) if isinstance(node, Var)]


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
