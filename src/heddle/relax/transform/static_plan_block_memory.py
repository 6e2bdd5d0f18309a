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

from heddle.graph.nodes import Binding, SeqExpr
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.graph.storage_plan import Storage, StorageSizes, size_bytes
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
from heddle.ir.visitor import walk
from heddle.prim.nodes import PrimExpr, constant
from heddle.relax.transform.lower_alloc_tensor import alloc_storage, alloc_tensor
from heddle.runtime.dtype import DataType


@dataclass(frozen=True)
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
        self._free: list[Storage] = []
        self._lives = _Lives()
        self._ending: dict[int, list[Var]] = {}
        self._held: dict[Var, Storage] = {}
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
        storage = self._take(self._sizes.bounded(size_bytes(shape, DataType(dtype.value))), value)
        self._held[var] = storage
        return alloc_tensor(storage.var, constant(0, "int64"), shape, dtype)

    def _take(self, size: PrimExpr, alloc: Call) -> Storage:
        """A free storage that fits, the tightest first, or a new one."""
        kind = _kind_of(alloc)
        found = self._sizes.take(self._free, size, kind)
        if found is not None:
            return found
        return Storage(self.bind(self.value(alloc_storage(size, alloc)), "storage"), size, kind)


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
