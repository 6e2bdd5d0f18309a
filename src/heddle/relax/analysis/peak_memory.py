"""The peak memory of a graph function, as a formula over its symbolic dimensions.

    s = alloc_storage(n * 16)        s                       block(16*n)
    a = alloc_tensor(s, ...)         s, held by s and a
    kill s                           s, held by a
    t = alloc_storage(n * 4)         s and t                 block(16*n) + block(4*n)     the peak
    ...

A storage lives while a register leads to it: its own, a tensor's on it, or that of a tuple or view of those.
Registers are those of the machine: what no kill clears, a branch's result or a tuple among operands, lives to
the function's end. After a branch, both ways are followed. A call of a graph function needs what that
function needs beside what is alive. Peaks are sums of blocks, of which the greatest counts; sums that are
provably not greater than another one are left out.

What memory the arguments take, and what a kernel takes for its scratch, is not counted; nor is what functions
of the host do: a function that calls one, or itself, has no bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from heddle.arith import Analyzer
from heddle.graph.infer import type_of
from heddle.graph.nodes import Binding, SeqExpr
from heddle.graph.peak_formula import Sizes, UnboundedError, peak_text, without_parts
from heddle.graph.rewriter import is_call
from heddle.graph.types import ShapeExpr, ShapeType, TensorType
from heddle.ir.expr import Call, DataTypeImm, Expr, Function, GlobalVar, If, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.structural import structural_digest
from heddle.ir.visitor import walk_distinct
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import substitute
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen

_MAX_WAYS = 8
"""The number of paths that are followed separately. Beyond it, paths are merged conservatively."""
_NO_MEMORY = (
    "relax.shape_of",
    "relax.tensor_to_shape",
    "relax.vm.call_tir_dyn",
    "relax.null_value",
    "relax.make_closure",
    "relax.has_tag",
    "relax.fatal",
)
_VIEWS = ("relax.memory.alloc_tensor", "relax.vm.alloc_tensor", "relax.memory.view_reshape")


@frozen
class PeakMemory:
    """Sums whose maximum is the peak. The function's result keeps alive the storages `kept` of the function,
    and those of the parameters `passed`, by number."""

    peaks: tuple[Sizes, ...]
    kept: Sizes
    passed: frozenset[int]


class PeakMemories:
    """The peaks of a module's functions. Each function is looked at once, after those that it calls.

    Requires: explicit storages and kills (KillAfterLastUse). Units: bytes.
    """

    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        self._found: dict[Function, PeakMemory | str] = {}  # a text is the reason why there is no bound

    def text(self, func: Function) -> str:
        """The peak as text over dimension names (`heddle.runtime.size_text`), or `unbounded: reason`."""
        self._look_at(func)
        found = self._found[func]
        if isinstance(found, str):
            return f"unbounded: {found}"
        try:
            return peak_text([sizes for sizes in found.peaks if sizes])
        except UnboundedError as error:
            return f"unbounded: {error}"

    def _look_at(self, func: Function) -> None:
        """Callees come first. One that has begun and has no result yet calls what calls it."""
        pending, begun = [func], set[Function]()
        while pending:
            top = pending[-1]
            if top not in self._found and top not in begun:
                begun.add(top)
                pending += [callee for callee in self._callees(top) if callee not in begun]
                continue
            pending.pop()
            if top not in self._found:
                self._found[top] = self._peak(top)

    def _callees(self, func: Function) -> list[Function]:
        called = [node.op for node in walk_distinct(func) if isinstance(node, Call)]
        functions = [self._mod.get(op) for op in called if isinstance(op, GlobalVar)]
        return [found for found in dict.fromkeys(functions) if isinstance(found, Function)]

    def _peak(self, func: Function) -> PeakMemory | str:
        try:
            return _Walker(self._mod, self._found).run(func)
        except UnboundedError as error:
            return str(error)


@dataclass(slots=True)
class _State:
    """One path through the function: the storages that each register refers to."""

    held: dict[object, frozenset[int]] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(dict(self.held))

    def alive(self) -> frozenset[int]:
        return frozenset().union(*self.held.values())


class _Walker:
    """Finds the peak of one function, given those of the functions that it calls. Each number stands for a
    storage, or for the storages that the result of a call keeps alive."""

    def __init__(self, mod: IRModule, callees: Mapping[Function, PeakMemory | str]) -> None:
        self._mod, self._callees = mod, callees
        self._sizes: list[Sizes] = []
        self._peaks: dict[frozenset[tuple[PrimExpr, int]], Sizes] = {}
        self._analyzer = Analyzer()
        self._same: dict[bytes, PrimExpr] = {}

    def run(self, func: Function) -> PeakMemory:
        assert isinstance(func.body, SeqExpr)
        given = _State({param: frozenset({self._new(Counter())}) for param in func.params})
        _, kept = self._sequence(func.body, [given])
        numbers = frozenset().union(*kept) if kept else frozenset()
        return PeakMemory(
            tuple(without_parts(self._peaks.values())),
            self._together(numbers),
            numbers & frozenset(range(len(func.params))),
        )

    def _sequence(self, body: SeqExpr, states: list[_State]) -> tuple[list[_State], list[frozenset[int]]]:
        """Return the states after a sequence, and the storages that its result refers to in each."""
        for binding in body.bindings():
            states = [after for state in states for after in self._binding(binding, state)]
            if len(states) > _MAX_WAYS:
                states = [_merged(states)]
        return states, [self._leads_to(body.body, state) for state in states]

    def _binding(self, binding: Binding, state: _State) -> list[_State]:
        value = binding.value
        if isinstance(value, If):
            return self._if(binding.var, value, state)
        if isinstance(value, Call):
            state.held[binding.var] = self._call(value, state)
        else:
            state.held[binding.var] = self._leads_to(value, state)
        return [state]

    def _if(self, var: Var, value: If, state: _State) -> list[_State]:
        ways = []
        for branch in (value.true_branch, value.false_branch):
            assert isinstance(branch, SeqExpr)
            for after, result in zip(*self._sequence(branch, [state.copy()]), strict=True):
                after.held[var] = result
                ways.append(after)
        return ways

    def _leads_to(self, value: Expr, state: _State) -> frozenset[int]:
        """Return the storages that a leaf, or a tuple of leaves, refers to."""
        if isinstance(value, Var):
            return state.held.get(value, frozenset())
        if isinstance(value, Tuple):
            return frozenset().union(*(self._leads_to(item, state) for item in value.fields))
        if isinstance(value, TupleGetItem):
            return self._leads_to(value.tuple_value, state)
        if isinstance(value, Function):
            raise UnboundedError("a function inside a function")
        return frozenset()

    def _call(self, call: Call, state: _State) -> frozenset[int]:
        operands = [self._leads_to(arg, state) for arg in call.args]
        for arg, numbers in zip(call.args, operands, strict=True):
            if isinstance(arg, Tuple) and numbers:
                state.held[arg] = numbers  # its register is never cleared
        together = frozenset().union(*operands)
        if isinstance(call.op, GlobalVar):
            callee = self._mod.get(call.op)
            return (
                self._graph_call(call, callee, state, operands)
                if isinstance(callee, Function)
                else frozenset()
            )
        if is_call(call, "relax.vm.kill_object"):
            for target in call.args:
                state.held.pop(target, None)
            return frozenset()
        if is_call(call, "relax.memory.alloc_storage") or is_call(call, "relax.vm.alloc_storage"):
            return self._allocate(call, state)
        if any(is_call(call, name) for name in _VIEWS):
            return operands[0]
        if any(is_call(call, name) for name in _NO_MEMORY):
            return together
        callee = call.args[0] if is_call(call, "relax.call_pure_packed") else call.op
        name = getattr(callee, "global_symbol", None) or getattr(callee, "name", None) or callee
        raise UnboundedError(f"call of {name}")

    def _allocate(self, call: Call, state: _State) -> frozenset[int]:
        shape = call.args[0]
        dtypes = [arg for arg in call.args if isinstance(arg, DataTypeImm)]
        if not isinstance(shape, ShapeExpr) or not dtypes:
            raise UnboundedError("a storage of a size that is known only when it is made")
        size: PrimExpr = constant(DataType(dtypes[0].value).itemsize, "int64")
        for dim in shape.values:
            size = size * dim
        number = self._new(Counter([self._simple(size)]))
        self._note(state.alive() | {number})
        return frozenset({number})

    def _new(self, sizes: Sizes) -> int:
        self._sizes.append(sizes)
        return len(self._sizes) - 1

    def _together(self, numbers: Iterable[int]) -> Sizes:
        total: Sizes = Counter()
        for number in numbers:
            total.update(self._sizes[number])
        return total

    def _note(self, numbers: frozenset[int], others: Mapping[PrimExpr, int] | None = None) -> None:
        sizes = self._together(numbers)
        sizes.update(others or {})
        self._peaks[frozenset(sizes.items())] = sizes

    # Calls of graph functions

    def _graph_call(
        self, call: Call, callee: Function, state: _State, operands: Sequence[frozenset[int]]
    ) -> frozenset[int]:
        name = str(call.op.name_hint) if isinstance(call.op, GlobalVar) else "a function"
        inner = self._callees.get(callee)
        if inner is None:
            raise UnboundedError(f"recursion of {name}")
        if isinstance(inner, str):
            raise UnboundedError(inner)
        dims = _dims_of_call(callee, call)
        for sizes in inner.peaks:
            self._note(state.alive(), self._all_in_caller(sizes, dims, name))
        passed = frozenset().union(*(operands[place] for place in inner.passed))
        return passed | {self._new(self._all_in_caller(inner.kept, dims, name))} if inner.kept else passed

    def _all_in_caller(self, sizes: Sizes, dims: Mapping[PrimVar, PrimExpr], name: str) -> Sizes:
        there: Sizes = Counter()
        for size, count in sizes.items():
            there[self._in_caller(size, dims, name)] += count
        return there

    def _in_caller(self, size: PrimExpr, dims: Mapping[PrimVar, PrimExpr], name: str) -> PrimExpr:
        unknown = [node for node in walk_distinct(size) if isinstance(node, PrimVar) and node not in dims]
        if unknown:
            raise UnboundedError(f"size {unknown[0].name} of {name} is not known where it is called")
        return self._simple(substitute(size, dict(dims)))

    def _simple(self, size: PrimExpr) -> PrimExpr:
        """A size in its simplest form; of equal ones the same object, by which sums are compared."""
        found: PrimExpr = self._analyzer.simplify(size)
        return self._same.setdefault(structural_digest(found), found)


def _merged(states: Sequence[_State]) -> _State:
    """Return a state in which everything is alive that is alive in one of the states."""
    merged = _State()
    for state in states:
        for register, numbers in state.held.items():
            merged.held[register] = merged.held.get(register, frozenset()) | numbers
    return merged


def _dims_of_call(callee: Function, call: Call) -> dict[PrimVar, PrimExpr]:
    """Return the values of the callee's symbolic dimensions in a call."""
    dims: dict[PrimVar, PrimExpr] = {}
    for param, arg in zip(callee.params, call.args, strict=False):
        wanted, given = _dims(param.ty), _dims(type_of(arg))
        if wanted is not None and given is not None and len(wanted) == len(given):
            for inner, outer in zip(wanted, given, strict=True):
                if isinstance(inner, PrimVar):
                    dims.setdefault(inner, outer)
    return dims


def _dims(ty: object) -> Sequence[PrimExpr] | None:
    if isinstance(ty, TensorType):
        return ty.dims
    return ty.values if isinstance(ty, ShapeType) else None
