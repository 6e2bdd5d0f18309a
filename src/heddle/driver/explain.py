"""Report where the time of a call goes, kernel by kernel, relative to the machine's peak rates: `heddle
explain`.

One call runs in the bytecode machine. When a kernel is first called with tensors of certain shapes, it is
timed repeatedly on these arguments before the call continues. Tensors that the kernel writes are copied for
this, because they may be inputs too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from heddle.driver.ceilings import Ceilings, best_s, measure_ceilings
from heddle.driver.inputs import Array, make_arguments
from heddle.driver.machines import machine_for
from heddle.driver.run import Compiled, signature_of, timed
from heddle.runtime.function import Function
from heddle.runtime.native.library import set_num_threads
from heddle.runtime.shape import Shape
from heddle.runtime.tensor import Tensor
from heddle.support.frozen import frozen
from heddle.vm.insight.kernel_cost import KernelCost, KernelCosts
from heddle.vm.insight.sites import CALL_TIR_DYN
from heddle.vm.relax import VMExecutable

NUM_ADVICE = 3
_REPEATS = 5
_MAPS = ("Elementwise", "Transpose")


@frozen
class ExplainOptions:
    """The call to explain, as in `RunOptions`."""

    function: str = "main"
    given: Mapping[str, Array] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    num_threads: int | None = None


@dataclass(slots=True)
class KernelRow:
    """A kernel with tensors of certain shapes. Times are per call in microseconds: `least_us` is the
    roofline's minimum, `memory_us` the minimum for memory traffic alone.

    `flops`, `size_bytes`, and `written_bytes` (a part of it) are None if they depend on data.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]
    count: int = 0
    time_us: float = 0.0
    flops: int | None = None
    size_bytes: int | None = None
    written_bytes: int | None = None
    least_us: float = 0.0
    memory_us: float = 0.0
    rule: str = ""
    operators: tuple[str, ...] = ()
    boundaries: tuple[str, ...] = ()
    failed_rules: tuple[str, ...] = ()

    @property
    def total_us(self) -> float:
        """Microseconds of all its calls in one call of the model."""
        return self.time_us * self.count

    @property
    def gflops(self) -> float | None:
        """10**9 operations in a second; None where the number of operations is not known or 0."""
        return None if not self.flops else self.flops / self.time_us / 1e3

    @property
    def gbytes_per_s(self) -> float | None:
        """10**9 bytes in a second; None where the number of bytes is not known or 0."""
        return None if not self.size_bytes else self.size_bytes / self.time_us / 1e3

    @property
    def is_memory_bound(self) -> bool:
        """Whether its bytes take longer than its arithmetic, at best."""
        return 0.0 < self.least_us <= self.memory_us

    @property
    def roofline(self) -> float:
        """The fraction of the roofline's speed that is reached; 0 if the work is unknown."""
        return self.least_us / self.time_us

    def as_dict(self) -> dict[str, Any]:
        """All fields and what follows from them, for JSON."""
        derived = {"total_us": self.total_us, "gflops": self.gflops, "gbytes_per_s": self.gbytes_per_s}
        bound = {"roofline": self.roofline, "is_memory_bound": self.is_memory_bound}
        return {**asdict(self), **derived, **bound}


@frozen
class Advice:
    """A recommended change, and the maximum gain per call in microseconds."""

    gain_us: float
    text: str


@frozen
class Explanation:
    """The result of `explain`. `call_us` is the median of whole calls; the part of it that is in no row was
    spent in the machine or in builtins."""

    model: str
    function: str
    dims: dict[str, int]
    ceilings: Ceilings
    call_us: float
    rows: list[KernelRow]
    advice: list[Advice]

    @property
    def kernels_us(self) -> float:
        """Microseconds that one call of the model spends in kernels."""
        return sum(row.total_us for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        """The whole explanation, for JSON."""
        return {
            "model": self.model,
            "function": self.function,
            "dims": self.dims,
            "ceilings": asdict(self.ceilings),
            "call_us": self.call_us,
            "kernels_us": self.kernels_us,
            "kernels": [row.as_dict() for row in self.rows],
            "advice": [asdict(item) for item in self.advice],
        }


def explain(name: str, compiled: Compiled, options: ExplainOptions) -> Explanation:
    """Run one call of an executable and time each of its kernels separately.

    Raises: as `heddle.driver.run.run`.
    """
    arguments = make_arguments(
        signature_of(compiled.executable, options.function), options.given, options.dims, options.seed
    )
    if options.num_threads is not None:
        set_num_threads(options.num_threads)
    ceilings = measure_ceilings()
    arrays = list(arguments.arrays.values())
    machine = machine_for(compiled.executable)
    copies = [array.copy() for array in arrays]  # a program may write to its arguments
    _value, seconds = timed(machine[options.function], copies, 2 * _REPEATS + 1)
    watch = _Watch(KernelCosts(compiled.executable.metadata), ceilings)
    machine.set_instrument(watch)
    machine[options.function](*arrays)
    rows = sorted(watch.rows.values(), key=lambda row: -row.total_us)
    call_us = sorted(seconds)[len(seconds) // 2] * 1e6
    return Explanation(
        name, options.function, arguments.dims, ceilings, call_us, rows, advice_on(rows, call_us)
    )


@frozen
class Roofline:
    """What the machine allows at best for the kernels of a call, and what part of that is up to memory: the
    time and the bytes of the kernels whose bytes take longer than their arithmetic.
    """

    least_us: float
    memory_us: float
    size_bytes: int

    def __add__(self, other: Roofline) -> Roofline:
        return Roofline(
            self.least_us + other.least_us,
            self.memory_us + other.memory_us,
            self.size_bytes + other.size_bytes,
        )


def roofline(executable: VMExecutable, arrays: Sequence[Any], ceilings: Ceilings) -> Roofline:
    """The roofline of one call of `main`."""
    machine = machine_for(executable)
    watch = _Watch(KernelCosts(executable.metadata), ceilings, with_times=False)
    machine.set_instrument(watch)
    machine["main"](*arrays)
    total = sum(row.least_us * row.count for row in watch.rows.values())
    bound = [row for row in watch.rows.values() if row.is_memory_bound]
    return Roofline(
        total,
        sum(row.least_us * row.count for row in bound),
        sum((row.size_bytes or 0) * row.count for row in bound),
    )


class _Watch:
    """An instrument that times each kernel at its first call with tensors of some shapes."""

    def __init__(self, costs: KernelCosts, ceilings: Ceilings, with_times: bool = True) -> None:
        self.rows: dict[Any, KernelRow] = {}
        self._costs, self._ceilings, self._with_times = costs, ceilings, with_times

    def __call__(self, func: Any, name: str, before: bool, _result: Any, *args: Any) -> None:
        if not before:
            return
        kernel, operands = name, args
        if name == CALL_TIR_DYN:
            kernel, operands = getattr(args[0], "__name__", ""), args[1:]
        cost = self._costs.of(kernel)
        if cost is None:
            return
        shapes = tuple(tuple(item.shape) for item in operands if isinstance(item, Tensor))
        scalars = _integers(operands)
        key = (kernel, shapes, scalars)
        if key not in self.rows:
            self.rows[key] = self._timed(func, args, KernelRow(kernel, shapes), cost, scalars)
        self.rows[key].count += 1

    def _timed(
        self, func: Function, args: Sequence[Any], row: KernelRow, cost: KernelCost, scalars: tuple[int, ...]
    ) -> KernelRow:
        sizes = cost.sizes(row.shapes, scalars)
        row.flops, row.size_bytes = cost.flops_of(sizes), cost.bytes_of(sizes)
        row.written_bytes = cost.written_bytes_of(sizes)
        row.rule, row.operators, row.boundaries = cost.rule, cost.operators, cost.boundaries
        row.failed_rules = cost.failed_rules
        if self._with_times:
            own = _with_copies(args, cost.outputs)
            row.time_us = best_s(lambda: func(*own), _REPEATS) * 1e6
        row.least_us = self._ceilings.least_s(row.flops, row.size_bytes, row.written_bytes) * 1e6
        row.memory_us = self._ceilings.memory_s(row.size_bytes or 0, row.written_bytes) * 1e6
        return row


def _with_copies(args: Sequence[Any], outputs: Sequence[int]) -> list[Any]:
    """The arguments of a kernel with copies of the tensors that it writes; of all where that is not known."""
    copied, position = list(args), 0
    for index, item in enumerate(args):
        if isinstance(item, Tensor):
            if not outputs or position in outputs:
                copied[index] = item.copyto(item.device)
            position += 1
    return copied


def _integers(operands: Sequence[Any]) -> tuple[int, ...]:
    """The integers that follow a kernel's tensors, one by one or as a shape."""
    found: list[int] = []
    for item in operands:
        if isinstance(item, Shape):
            found.extend(int(size) for size in item)
        elif isinstance(item, int):
            found.append(item)
    return tuple(found)


def advice_on(rows: Sequence[KernelRow], call_us: float) -> list[Advice]:
    """The changes with the largest possible gain, at most one a kernel."""
    found = [advice_of(row) for row in rows]
    outside = call_us - sum(row.total_us for row in rows)
    if outside > 0:
        found.append(
            Advice(outside, "less outside of kernels: dispatch, allocations, shape arithmetic, builtins")
        )
    return sorted((item for item in found if item.gain_us > 0), key=lambda item: -item.gain_us)[:NUM_ADVICE]


def advice_of(row: KernelRow) -> Advice:
    """What would help a kernel. For a map: that it became part of another kernel. For others: that they
    reached the roofline, or, where that allows no time, that they were not called."""
    if row.rule in _MAPS and row.boundaries:
        return Advice(row.total_us, f"fuse {row.name} into what follows; now {'; '.join(row.boundaries)}")
    gain = row.total_us - row.least_us * row.count
    rule = row.rule or "no rule"
    if not row.least_us:
        work = "there is nothing for it to do" if row.size_bytes == 0 else "its work is not known"
        return Advice(gain, f"fewer calls of {row.name} ({rule}): {work}")
    bound = "bandwidth" if row.is_memory_bound else "arithmetic"
    return Advice(
        gain, f"better loops for {row.name} ({rule}): {row.roofline:.0%} of the {bound} that is possible"
    )
