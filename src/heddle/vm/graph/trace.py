"""Convert a Relay VM program without control flow to a graph.

The instructions are interpreted symbolically, with what is known of each register. Allocations become
storages, kernel calls become nodes, and constants become parameters `p0`, `p1`, ... Calls of functions of the
program are inlined.

    alloc_storage $3 ...; alloc_tensor $4 $3 ...; invoke_packed tanh (in: $0, out: $4); ret $4

becomes the node `tanh` with input 0, whose result is in storage 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NoReturn

from heddle.runtime.dtype import DataType, dtype_from_packed
from heddle.runtime.shape import Shape
from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen
from heddle.vm.codes import V0801
from heddle.vm.graph.nodes import RESHAPE, Entry, EntryPlan, Graph, GraphNode
from heddle.vm.isa import VOID, FuncKind, Instruction
from heddle.vm.program import FunctionRow, Program
from heddle.vm.relay import isa

_CHECKS = ("vm.builtin.check_tensor_info", "vm.builtin.match_shape", "vm.builtin.check_tuple_info")
"""Builtins that check arguments. A graph does not need them: the tensors of its inputs exist from the
start.
"""
_MAX_INSTRUCTIONS = 1 << 20


@frozen
class InputPlan:
    """A parameter of the program: name, shape and dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@frozen
class TracedGraph:
    """A graph, and the values of its parameters by name."""

    graph: Graph
    params: dict[str, Tensor]


@frozen
class _Storage:
    number: int
    size_bytes: int


def trace_program(program: Program, inputs: Sequence[InputPlan], func_name: str = "main") -> TracedGraph:
    """Return the graph of a function of a Relay VM program.

    Raises: UsageError V0801 if it cannot be a graph: it has branches, closures, values of data types, sizes
    that are known only at run time, or tensors on other devices.
    """
    rows = {row.name: row for row in program.functions}
    return _Tracer(program).trace(rows[func_name], inputs)


@dataclass(slots=True)
class _Tracer:
    program: Program
    nodes: list[GraphNode] = field(default_factory=list)
    entries: list[EntryPlan] = field(default_factory=list)
    params: dict[str, Tensor] = field(default_factory=dict)
    _num_storages: int = 0
    _plans: dict[Entry, EntryPlan] = field(default_factory=dict)
    _constants: dict[int, Entry] = field(default_factory=dict)
    _names: dict[str, int] = field(default_factory=dict)
    _open: list[FunctionRow] = field(default_factory=list)
    _followed: int = 0

    def trace(self, row: FunctionRow, inputs: Sequence[InputPlan]) -> TracedGraph:
        self._names = dict.fromkeys((each.name for each in inputs), 1)
        given = [self._input(each.name, each.shape, each.dtype) for each in inputs]
        heads = self._flat(self._call(row, given))
        return TracedGraph(Graph(tuple(self.nodes), tuple(self.entries), tuple(heads)), self.params)

    def _flat(self, value: Any) -> list[Entry]:
        if isinstance(value, list):
            return [entry for item in value for entry in self._flat(item)]
        return [self._entry(value)]

    # Nodes

    def _fresh_name(self, name: str) -> str:
        while True:
            count = self._names.get(name, 0)
            self._names[name] = count + 1
            found = name if not count else f"{name}{count}"
            if not count or found not in self._names:
                self._names.setdefault(found, 1)
                return found

    def _add(self, node: GraphNode, plans: Sequence[EntryPlan]) -> int:
        number = len(self.nodes)
        self.nodes.append(node)
        self.entries += plans
        self._plans |= {(number, index): plan for index, plan in enumerate(plans)}
        return number

    def _new_storage(self) -> int:
        self._num_storages += 1
        return self._num_storages - 1

    def _input(self, name: str, shape: tuple[int, ...], dtype: str) -> Entry:
        return self._add(GraphNode(name), [EntryPlan(shape, dtype, self._new_storage())]), 0

    def _constant(self, number: int) -> Any:
        value = self.program.constants[number]
        if not isinstance(value, Tensor):
            return value
        if number not in self._constants:
            name = self._fresh_name(f"p{len(self.params)}")
            self.params[name] = value
            self._constants[number] = self._input(name, tuple(value.shape), str(value.dtype))
        return self._constants[number]

    def _entry(self, value: Any) -> Entry:
        """Return the entry that a register holds. An allocated tensor has an entry once it has been
        written.
        """
        if isinstance(value, _Slot) and value.entry is not None:
            return value.entry
        if isinstance(value, tuple) and not isinstance(value, Shape):
            return value
        self._refuse("uses a value that is no tensor with known sizes")

    def _refuse(self, what: str) -> NoReturn:
        name = self._open[-1].name if self._open else "main"
        raise UsageError(
            V0801, f"function {name!r} {what}: a graph cannot", help="the executor 'vm' runs every program"
        )

    # Instructions

    def _call(self, row: FunctionRow, args: Sequence[Any]) -> Any:
        if row in self._open:
            self._refuse("calls itself")
        self._open.append(row)
        registers: dict[int, Any] = dict(enumerate(args))
        for index in range(row.start, row.end):
            self._followed += 1
            if self._followed > _MAX_INSTRUCTIONS:
                self._refuse(f"runs more than {_MAX_INSTRUCTIONS} instructions")
            step = self.program.instruction(index)
            if step.spec is isa.RET:
                self._open.pop()
                return registers[step.values[0]]
            follow = _FOLLOW.get(step.spec.mnemonic)
            if follow is None:
                self._refuse(f"has the instruction {step.spec.mnemonic!r}")
            follow(self, step, registers)
        raise AssertionError("a verified function returns")

    def _move(self, step: Instruction, registers: dict[int, Any]) -> None:
        registers[step.values[1]] = registers[step.values[0]]

    def _kill(self, step: Instruction, registers: dict[int, Any]) -> None:
        registers[step.values[0]] = None

    def _load_constant(self, step: Instruction, registers: dict[int, Any]) -> None:
        number, device, dst = step.values
        if device:
            self._refuse("has tensors on several devices")
        registers[dst] = self._constant(number)

    def _load_number(self, step: Instruction, registers: dict[int, Any]) -> None:
        registers[step.values[1]] = step.values[0]

    def _alloc_storage(self, step: Instruction, registers: dict[int, Any]) -> None:
        size, _, dtype, device, dst, dims = step.values
        if device > 0:
            self._refuse("has tensors on several devices")
        count = prod(dims) if size == VOID else registers[size]
        if not isinstance(count, int):
            self._refuse("allocates memory whose size is known when it runs alone")
        registers[dst] = _Storage(self._new_storage(), count * _dtype(dtype).itemsize)

    def _alloc_tensor(self, step: Instruction, registers: dict[int, Any]) -> None:
        storage, place, dtype, dst, dims = step.values
        if registers[place] != 0:
            self._refuse("puts several tensors into one storage")
        plan = EntryPlan(tuple(dims), str(_dtype(dtype)), registers[storage].number)
        registers[dst] = _Slot(plan)

    def _alloc_tensor_of(self, step: Instruction, registers: dict[int, Any]) -> None:
        storage, place, shape, dtype, dst = step.values
        if not isinstance(registers[shape], Shape) or registers[place] != 0:
            self._refuse("makes tensors whose sizes are known when it runs alone")
        plan = EntryPlan(tuple(registers[shape]), str(_dtype(dtype)), registers[storage].number)
        registers[dst] = _Slot(plan)

    def _make_tuple(self, step: Instruction, registers: dict[int, Any]) -> None:
        tag, dst, fields = step.values
        if tag:
            self._refuse("makes values of data types")
        registers[dst] = [registers[field] for field in fields]

    def _field(self, step: Instruction, registers: dict[int, Any]) -> None:
        source, index, dst = step.values
        if not isinstance(registers[source], list):
            self._refuse("reads values of data types")
        registers[dst] = registers[source][index]

    def _shape_of(self, step: Instruction, registers: dict[int, Any]) -> None:
        registers[step.values[1]] = Shape(self._plans[self._entry(registers[step.values[0]])].shape)

    def _reshape(self, step: Instruction, registers: dict[int, Any]) -> None:
        source, shape, dst = step.values
        entry = self._entry(registers[source])
        if not isinstance(registers[shape], Shape):
            self._refuse("makes tensors whose sizes are known when it runs alone")
        old = self._plans[entry]
        plan = EntryPlan(tuple(registers[shape]), old.dtype, old.storage)
        node = GraphNode(self._fresh_name("reshape_nop"), (entry,), RESHAPE)
        registers[dst] = self._add(node, [plan]), 0

    def _invoke(self, step: Instruction, registers: dict[int, Any]) -> None:
        row, dst, args = step.values
        registers[dst] = self._call(self.program.functions[row], [registers[arg] for arg in args])

    def _packed(self, step: Instruction, registers: dict[int, Any]) -> None:
        row, inputs, outputs, sizes = step.values
        name = self.program.functions[row].name
        if name in _CHECKS and not outputs:
            return
        if self.program.functions[row].kind is not FuncKind.PACKED or not outputs:
            self._refuse(f"calls {name!r}, which gives no tensor")
        slots = [registers[output] for output in outputs]
        if not all(isinstance(slot, _Slot) for slot in slots) or any(each >= VOID for each in inputs):
            self._refuse(f"calls {name!r} with values that are no tensors")
        items = [item for each in sizes for item in registers[each]]
        if not all(isinstance(item, int) for item in items):
            self._refuse("has sizes that are known when it runs alone")
        node = GraphNode(
            self._fresh_name(name),
            tuple(self._entry(registers[each]) for each in inputs),
            name,
            len(slots),
            tuple(items),
        )
        number = self._add(node, [slot.plan for slot in slots])
        for index, slot in enumerate(slots):
            slot.entry = number, index


@dataclass(slots=True)
class _Slot:
    """An allocated tensor. `entry` is the last entry that was written to it."""

    plan: EntryPlan
    entry: Entry | None = None


def _dtype(given: tuple[int, int, int]) -> DataType:
    code, bits, lanes = given
    return DataType(dtype_from_packed(code | bits << 8 | lanes << 16))


_FOLLOW = {
    "alloc_adt": _Tracer._make_tuple,
    "alloc_storage": _Tracer._alloc_storage,
    "alloc_tensor": _Tracer._alloc_tensor,
    "alloc_tensor_reg": _Tracer._alloc_tensor_of,
    "get_field": _Tracer._field,
    "invoke": _Tracer._invoke,
    "invoke_packed": _Tracer._packed,
    "kill_register": _Tracer._kill,
    "load_const": _Tracer._load_constant,
    "load_consti": _Tracer._load_number,
    "move": _Tracer._move,
    "reshape_tensor": _Tracer._reshape,
    "shape_of": _Tracer._shape_of,
}
