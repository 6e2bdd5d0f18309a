"""The memory plan for a page: when each storage is alive, and which tensors lie in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heddle.driver.page.facts import MemoryPlan, Placed, PlannedStorage
from heddle.driver.page.tables import Tables
from heddle.driver.page.walk import bindings_in, is_allocation
from heddle.graph.nodes import Binding
from heddle.graph.rewriter import is_call
from heddle.graph.types import ShapeExpr, TensorType
from heddle.ir.expr import Call, Expr, Var
from heddle.ir.module import IRModule
from heddle.ir.visitor import walk_distinct
from heddle.lower.estimate_peak_memory import PEAK_MEMORY
from heddle.lower.normal_form import graph_functions
from heddle.prim.nodes import IntImm, PrimExpr
from heddle.prim.size_text import size_text
from heddle.runtime.dtype import DataType
from heddle.runtime.size_text import evaluate_size


def plans_of(tables: Tables, mod: IRModule, dims: Mapping[str, int]) -> list[MemoryPlan]:
    """The plans of all graph functions that allocate. `dims` are values of free sizes, by name."""
    found = []
    for var, func in graph_functions(mod):
        bindings = list(bindings_in(func.body))
        storages = _storages(tables, bindings, dims)
        if storages:
            peak = str(func.attrs.get(PEAK_MEMORY, ""))
            found.append(MemoryPlan(var.name_hint, len(bindings), peak, storages))
    return found


def _storages(tables: Tables, bindings: Sequence[Binding], dims: Mapping[str, int]) -> list[PlannedStorage]:
    last: dict[Var, int] = {}
    for position, binding in enumerate(bindings):
        for node in walk_distinct(binding.value):
            if isinstance(node, Var):
                last[node] = position
    found: dict[Var, PlannedStorage] = {}
    for position, binding in enumerate(bindings):
        value = binding.value
        end = last.get(binding.var, position)
        if is_allocation(value):
            assert isinstance(value, Call)
            size = _size_of(value.args[0])
            row = PlannedStorage(binding.var.name_hint, size, _value(size, dims), position, end, [])
            found[binding.var] = row
        elif is_call(value, "relax.memory.alloc_tensor"):
            assert isinstance(value, Call)
            home = value.args[0]
            storage = found.get(home) if isinstance(home, Var) else None
            if storage is not None:
                tensor = _placed(tables, binding, position, end, dims)
                storage.tensors.append(tensor)
                storage.last = max(storage.last, end)
    return list(found.values())


def _placed(tables: Tables, binding: Binding, first: int, last: int, dims: Mapping[str, int]) -> Placed:
    value = binding.value
    assert isinstance(value, Call)
    offset, ty = _size_of(value.args[1]), binding.var.ty
    size_bytes = None
    if isinstance(ty, TensorType) and ty.dims is not None and ty.dtype is not None:
        sizes = [_value(_size_of(dim), dims) for dim in ty.dims]
        if None not in sizes:
            size_bytes = DataType(ty.dtype).itemsize
            for size in sizes:
                size_bytes *= size or 0
    text = "" if ty is None else str(ty).replace("R.", "")
    return Placed(
        binding.var.name_hint,
        text,
        first,
        last,
        _value(offset, dims),
        size_bytes,
        tables.set(binding.origin),
    )


def _size_of(size: Expr) -> str:
    """A number of bytes or elements as text; "" where it is no sum of products of sizes."""
    value = size.values[0] if isinstance(size, ShapeExpr) else size
    if isinstance(value, IntImm):
        return str(value.value)
    text = size_text(value, lambda var: var.name) if isinstance(value, PrimExpr) else None
    return text or ""


def _value(text: str, dims: Mapping[str, int]) -> int | None:
    return evaluate_size(text, dims) if text else None
