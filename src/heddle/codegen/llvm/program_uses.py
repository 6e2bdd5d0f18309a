"""Where the registers of a program's function are written and read, and which need no object.

Values whose readers are all known lie in the function's frame:

- shape heaps that builtins of shapes and kernels read;
- shapes of which only the sizes are read;
- tensors that only kernels, views and checks read, in storages that hold no other tensors. Such a storage is
  the frame's alone: nobody else counts it.

The bytecode decides: what is passed on, returned, put into a tuple or given to the host is an object.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from heddle.codegen.program_steps import (
    FrameReads,
    Step,
    kernel_of,
    kind_of_operand,
    made_sizes,
    number_of,
    sizes_of,
    step_of,
    storage_asked,
    tensor_asked,
    word_of,
)
from heddle.ir.expr import Expr
from heddle.prim.nodes import Call
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen
from heddle.tir.program_abi import VOID

_PREFIX = "vm.builtin."
_NOTHING = FrameReads()
_MAX_FRAME_SIZES = 4096
_JUMPS = {"tir.vm_goto": 0, "tir.vm_branch": 1}
"""Statements that jump, with the operand that is the label."""


@frozen
class _Read:
    """An operand: of a step, or of a statement that is no call."""

    name: str
    place: int
    step: Step | None = None


@frozen
class FrameTensor:
    """A tensor that lies in the frame. `source` is the register of its storage, or of the tensor it views."""

    dtype: DataType
    rank: int
    source: int
    is_view: bool


@frozen
class ShapeSlot:
    """The memory of sizes that lie in the frame. `known`: those that no run changes."""

    memory: str
    known: tuple[int | None, ...]


@frozen
class TensorSlot:
    """Where a tensor of the frame lies, and the memory of its sizes. `known`: sizes that no run changes."""

    payload: str
    sizes: str
    known: tuple[int | None, ...]


class Uses:
    """`heaps`, `shapes` (with their ranks), `tensors`, `storages`: the registers that need no object.
    `ranks`: those of all shapes that are made here, objects included.

    `frame_reads` says of builtins which operands they take from the frame.
    `handed`: those of storages that one tensor alone takes, once, and which are empty after it.
    `goes_back`: whether the function has loops, so that a step may meet its own result of the last time.
    """

    def __init__(
        self,
        statements: Sequence[Call],
        kernels: Collection[str],
        num_args: int,
        frame_reads: Mapping[str, FrameReads],
    ) -> None:
        self._kernels, self._frame_reads = kernels, frame_reads
        self._writers: dict[int, list[Step]] = {}
        self._reads: dict[int, list[_Read]] = {}
        self.goes_back = _goes_back(statements)
        for call in statements:
            self._note(call)
        made = {
            register: steps[0]
            for register, steps in self._writers.items()
            if len(steps) == 1 and register >= num_args
        }  # nor is it cleared: what reads it would have to see that
        heaps = {register for register, step in made.items() if step.name == f"{_PREFIX}alloc_shape_heap"}
        self.heaps = frozenset(register for register in heaps if self._all_reads(register, self._heap))
        self.shapes = {
            register: len(sizes)
            for register, step in made.items()
            if step.name == f"{_PREFIX}make_shape" and self._all_reads(register, self._shape)
            if (sizes := made_sizes(step)) is not None and len(sizes) <= _MAX_FRAME_SIZES
        }
        self.ranks = {
            register: rank
            for register, steps in self._writers.items()
            if register >= num_args and (rank := _rank_made(steps)) is not None
        }
        self.tensors, self.storages = self._tensors_and_storages(num_args)
        self.handed = frozenset(
            register
            for register, steps in self._writers.items()
            if register >= num_args and register not in self.storages and self._is_handed(register, steps)
        )

    def _note(self, call: Call) -> None:
        name = call.op.name.removeprefix("tir.")
        if name == "vm_branch":
            self._reads.setdefault(word_of(call.args[0]), []).append(_Read(name, 0))
            return
        step = step_of(call) if name == "vm_call" else None
        operands: Sequence[Expr] = call.args if step is None else step.operands
        if step is not None:
            self._writers.setdefault(step.dst, []).append(step)
            name = "kernel" if step.name in self._kernels else step.name.removeprefix(_PREFIX)
        for place, operand in enumerate(operands):
            if kind_of_operand(operand) == "register":
                self._reads.setdefault(number_of(operand), []).append(_Read(name, place, step))

    def _all_reads(self, register: int, accepts: Callable[[_Read], bool]) -> bool:
        return all(map(accepts, self._reads.get(register, ())))

    def _heap(self, read: _Read) -> bool:
        return read.name == "kernel" or self._by_builtin(read).heap == read.place

    def _by_builtin(self, read: _Read) -> FrameReads:
        return _NOTHING if read.step is None else self._frame_reads.get(read.step.name, _NOTHING)

    def _shape(self, read: _Read) -> bool:
        if read.step is None:
            return False
        if read.name == "call_tir_dyn":
            is_last = read.place == len(read.step.operands) - 1
            return is_last and kernel_of(read.step, self._kernels) is not None
        found = self._by_builtin(read).sizes
        return found is not None and found[0] == read.place and found[1](read.step) is not None

    # ---- tensors

    def _tensors_and_storages(self, num_args: int) -> tuple[dict[int, FrameTensor], frozenset[int]]:
        """The largest sets in which every tensor has its source, and every storage only such tensors."""
        tensors: dict[int, FrameTensor] = {}
        storages: set[int] = set()
        makers = {}
        for register, steps in self._writers.items():
            made = [step for step in steps if step.name != f"{_PREFIX}null_value"]
            if register >= num_args and register != VOID and len(made) == 1:
                makers[register] = made[0]
        for register, step in makers.items():
            if step.name == f"{_PREFIX}alloc_storage" and storage_asked(step) is not None:
                storages.add(register)
            elif (tensor := self._allocated(step)) is not None:
                tensors[register] = tensor
        views = {register: step for register, step in makers.items() if step.name == f"{_PREFIX}reshape"}
        for register in sorted(views):  # a view's source has a lower register, or the view stays an object
            if (tensor := self._viewed(views[register], tensors)) is not None:
                tensors[register] = tensor
        while True:
            kept = {
                register: tensor
                for register, tensor in tensors.items()
                if tensor.source in (tensors if tensor.is_view else storages)
                and all(self._reads_tensor(read, tensor, tensors) for read in self._reads.get(register, ()))
            }
            private = {
                register
                for register in storages
                if all(_fills_storage(read, kept) for read in self._reads.get(register, ()))
            }
            if len(kept) == len(tensors) and len(private) == len(storages):
                return tensors, frozenset(storages)
            tensors, storages = kept, private

    def _is_handed(self, register: int, writers: Sequence[Step]) -> bool:
        made = [step for step in writers if step.name != f"{_PREFIX}null_value"]
        reads = self._reads.get(register, ())
        if self.goes_back or len(made) != 1 or len(reads) != 1 or reads[0].step is None:
            return False
        is_storage = made[0].name == f"{_PREFIX}alloc_storage" and storage_asked(made[0]) is not None
        reader, read = reads[0].step, reads[0]
        is_tensor = read.name == "alloc_tensor" and read.place == 0 and tensor_asked(reader) is not None
        return is_storage and is_tensor and reader.dst not in (VOID, register)

    def _allocated(self, step: Step) -> FrameTensor | None:
        asked = tensor_asked(step) if step.name == f"{_PREFIX}alloc_tensor" else None
        rank = None if asked is None or asked.offset < 0 else self._rank(asked.shape)
        if asked is None or rank is None:
            return None
        return FrameTensor(asked.dtype, rank, asked.storage, False)

    def _viewed(self, step: Step, tensors: Mapping[int, FrameTensor]) -> FrameTensor | None:
        tensor, shape = step.operands
        source = number_of(tensor) if kind_of_operand(tensor) == "register" else VOID
        rank = self._rank(shape)
        if source not in tensors or rank is None:
            return None
        return FrameTensor(tensors[source].dtype, rank, source, True)

    def _rank(self, shape: Expr) -> int | None:
        known = sizes_of(shape)
        if known is not None:
            return len(known) if all(size >= 0 for size in known) else None
        return self.shapes.get(number_of(shape)) if kind_of_operand(shape) == "register" else None

    def rank_of(self, shape: Expr) -> int | None:
        """How many sizes a constant shape, or one that is made here, has."""
        known = sizes_of(shape)
        if known is not None:
            return len(known)
        return self.ranks.get(number_of(shape)) if kind_of_operand(shape) == "register" else None

    def _reads_tensor(self, read: _Read, tensor: FrameTensor, tensors: Mapping[int, FrameTensor]) -> bool:
        """Whether a reader takes a tensor of the frame: it must not keep it, nor leave it to the host."""
        step = read.step
        if step is None:
            return False
        if read.name == "kernel":
            return True
        if read.name == "call_tir_dyn":
            is_sizes = read.place == len(step.operands) - 1
            is_written_out = kernel_of(step, self._kernels) is not None
            return is_written_out and not is_sizes and self.rank_of(step.operands[-1]) is not None
        found = self._by_builtin(read).tensor
        if found is not None:
            return found[0] == read.place and bool(found[1](step, tensor.dtype, tensor.rank))
        return read.name == "reshape" and read.place == 0 and step.dst in tensors


def _fills_storage(read: _Read, tensors: Mapping[int, FrameTensor]) -> bool:
    is_storage = read.name == "alloc_tensor" and read.place == 0
    return is_storage and read.step is not None and read.step.dst in tensors


def _rank_made(writers: Sequence[Step]) -> int | None:
    """The rank of the shapes that a register gets, where it gets nothing else and all have the same."""
    made = [step for step in writers if step.name != f"{_PREFIX}null_value"]
    sizes = [made_sizes(step) if step.name == f"{_PREFIX}make_shape" else None for step in made]
    ranks = {None if each is None or len(each) > _MAX_FRAME_SIZES else len(each) for each in sizes}
    return ranks.pop() if len(ranks) == 1 else None


def _goes_back(statements: Sequence[Call]) -> bool:
    """Whether there is a jump to a label before it."""
    seen: set[int] = set()
    for call in statements:
        if call.op.name == "tir.vm_label":
            seen.add(word_of(call.args[0]))
        elif call.op.name in _JUMPS and word_of(call.args[_JUMPS[call.op.name]]) in seen:
            return True
    return False
