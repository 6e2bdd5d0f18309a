"""Programs whose code is replaced while they run.

A program begins with code that is compiled in a fraction of the time, runs on bytecode and takes every size,
or with what `heddle.compile` left in the cache. Behind it another process compiles what `heddle.compile`
gives, and then, for sizes that calls really have, programs for these sizes alone. Between two calls the
faster code takes the slower one's place; a call that runs keeps its code.

    program = heddle.jit("model.onnx")
    y = program["main"](x)          # after a part of the time that compiling takes
    program.wait()                  # (for what was asked for so far)
    y = program["main"](x)          # the same, by faster code
    print(program.statistics(), *program.swaps, sep="\\n")

Which code ran a call depends on when it came: results may differ by what `docs/semantics.md` says of the
order of sums, so a JIT is for those who ask for one.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from heddle.driver.codes import D0103
from heddle.driver.compile import EXEC_MODES
from heddle.driver.dialects import in_relax
from heddle.driver.jit.background import Answer, BackgroundCompiler
from heddle.driver.jit.compilers import first_program
from heddle.driver.jit.guards import Code, Dispatch, Key
from heddle.driver.jit.log import JitStatistics, Swap
from heddle.driver.jit.request import Request, Setup, setup_for
from heddle.driver.pipeline import OptionError, precision_passes
from heddle.driver.signature import METADATA_PREFIX, Signature, signature_from_json
from heddle.driver.sources import module_of
from heddle.driver.targets import as_target
from heddle.ir.expr import is_relay
from heddle.ir.module import IRModule
from heddle.ops.load import load as load_operators
from heddle.runtime.device import Device, cpu
from heddle.runtime.function import Function
from heddle.support.forks import ForkLock, Rank
from heddle.vm.executable import Executable
from heddle.vm.machine import MACHINES, Machine

DEFAULT_SPECIALISATIONS, DEFAULT_HOT_CALLS = 4, 8


def jit(
    model: Any,
    target: Any = None,
    *,
    machine: str | None = None,
    exec_mode: str | None = None,
    precision: str = "fp32",
    specialisations: int = DEFAULT_SPECIALISATIONS,
    hot_calls: int = DEFAULT_HOT_CALLS,
    device: Device | Sequence[Device] | None = None,
    example_inputs: Any = None,
    dynamic_shapes: Any = None,
) -> JitProgram:
    """A program that starts at once, and gets faster while it runs.

    `model`, `target`, `example_inputs` and `dynamic_shapes` are those of `heddle.compile`. A Relay module
    runs on Relay's machine, others on Relax's, unless `machine` ("relax" or "relay") says which. `exec_mode`
    ("compiled" on Relax's machine, always "bytecode" on Relay's) and `precision` are those of the code that
    comes.

    `hot_calls`: after so many calls with the same sizes a program for them is compiled. `specialisations`: so
    many of those are kept, each with code of its own and with weights that lie in another order in files of
    their own; 0 for none.

    Raises: as `heddle.compile`; OptionError D0103 (a ValueError) for other values of these options;
    UsageError D0901 for a PassContext with options that cannot be told to another process.
    """
    for name, value, least in (("specialisations", specialisations, 0), ("hot_calls", hot_calls, 1)):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise OptionError(D0103, f"{name} must be an integer of at least {least}, got {value!r}")
    load_operators()
    found = module_of(model, example_inputs, dynamic_shapes)
    mod = found if isinstance(found, IRModule) else IRModule.from_expr(found)
    kind = _machine_for(mod, machine)
    mode = _mode_for(kind, exec_mode)
    precision_passes(precision)
    graph = in_relax(mod)
    setup = setup_for(kind, as_target(target), mode, precision)
    return JitProgram(graph, setup, specialisations, hot_calls, cpu() if device is None else device)


def _machine_for(mod: IRModule, wanted: str | None) -> str:
    is_from_relay = any(map(is_relay, mod.functions.values()))
    if wanted not in (None, "relax", "relay"):
        raise OptionError(D0103, f"unknown machine {wanted!r}: expected relax or relay")
    if wanted == "relay" and not is_from_relay:
        raise OptionError(D0103, "machine 'relay' is for Relay modules, and this is none")
    return wanted or ("relay" if is_from_relay else "relax")


def _mode_for(machine: str, wanted: str | None) -> str:
    known = EXEC_MODES if machine == "relax" else ("bytecode",)
    if wanted is not None and wanted not in known:
        raise OptionError(
            D0103,
            f"unknown exec_mode {wanted!r} of the {machine} machine: expected {' or '.join(known)}",
        )
    return wanted or known[-1]


class JitProgram:
    """What `heddle.jit` gives. `program[name]` is a function of it, as of a machine; a context manager.

    `begin_s` is when it began, by `time.perf_counter`: swaps count from there.

    One thread calls it at a time, as with a machine; code comes in whenever it is ready. After `close`, and
    in a forked child, it stays as it is. It ends its own process when it is collected, or Python ends.
    """

    def __init__(
        self,
        graph: IRModule,
        setup: Setup,
        specialisations: int,
        hot_calls: int,
        device: Device | Sequence[Device],
    ) -> None:
        self.begin_s = time.perf_counter()
        self._specialisations, self._hot_calls, self._device = specialisations, hot_calls, device
        self._swaps: list[Swap] = []
        lock = threading.RLock()
        self._changed, self._over_forks = threading.Condition(lock), ForkLock(Rank.LEAF, lock)
        self._asked = 0
        self._waiting: dict[int, Request] = {}
        this = weakref.ref(self)

        def done(answer: Answer) -> None:
            program = this()
            if program is not None:
                program._receive(answer)

        self._compiler = BackgroundCompiler(setup, graph, done)
        weakref.finalize(self, self._compiler.end).atexit = False  # then the compilers themselves end
        with ExitStack() as failed:
            failed.callback(self._compiler.close)
            first = first_program(graph, setup)
            self._machine = self._machine_of(first)
            failed.pop_all()
        self._functions: dict[str, Dispatch] = {}
        for name in first.function_names():
            text = first.metadata.get(METADATA_PREFIX + name)
            if text is not None:
                signature = signature_from_json(text)
                code = Code(self._machine[name].call)
                self._functions[name] = Dispatch(name, signature, code, hot_calls, self._is_hot)
        self._ask("", {})

    def __getitem__(self, name: str) -> Function:
        """A function of the program. Raises: UnknownFunctionError V0301 (an AttributeError)."""
        if name not in self._functions:
            return self._machine[name]
        return self._functions[name].function

    @property
    def signatures(self) -> dict[str, Signature]:
        """Parameters and results of the functions, by name."""
        return {name: dispatch.signature for name, dispatch in self._functions.items()}

    @property
    def swaps(self) -> tuple[Swap, ...]:
        """What was put in place, or failed, in order."""
        return tuple(self._swaps)

    def statistics(self) -> JitStatistics:
        """Counts so far."""
        found = JitStatistics(waiting=len(self._waiting))
        for dispatch in self._functions.values():
            dispatch.add_to(found)
        found.swaps = sum(swap.error is None for swap in self._swaps)
        found.failed = len(self._swaps) - found.swaps
        found.dropped = sum(swap.dropped is not None for swap in self._swaps)
        return found

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until everything that was asked for is there; whether it is. A forked child does not wait."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting or not self._compiler.is_here, timeout_s)

    def close(self) -> None:
        """End the process that compiles. The program runs on with the code that it has."""
        self._compiler.close()
        with self._changed:
            self._waiting.clear()
            self._changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Swapping

    def _is_hot(self, function: str, sizes: dict[str, int], calls: int) -> bool:
        """A function was called often with some sizes: whether code for these will come. Where there is as
        much as is kept, it takes the place of code that is called less than half as often."""
        if not self._compiler.is_here:
            return False
        with self._changed:
            kept = [code for code, _, _ in self._kept()]
            coming = sum(bool(request.sizes) for request in self._waiting.values())
        if len(kept) + coming >= self._specialisations and (
            coming or not kept or 2 * min(code.recent_calls for code in kept) >= calls
        ):
            return False
        self._ask(function, sizes)
        return True

    def _ask(self, function: str, sizes: dict[str, int]) -> None:
        with self._changed:
            self._asked += 1
            request = Request(self._asked, function, sizes)
            self._waiting[request.number] = request
        self._compiler.ask(request)

    def _kept(self) -> list[tuple[Code, Dispatch, Key | None]]:
        """The codes for sizes of their own, with the function and the sizes that each is for."""
        return [
            (code, dispatch, key)
            for dispatch in self._functions.values()
            for key, code in list(dispatch.sized.items())
        ]

    def _receive(self, answer: Answer) -> None:
        """In the compiler's thread: put a program in place."""
        request, dropped = answer.request, None
        if answer.made is not None:
            machine = self._machine_of(answer.made)
            if request.sizes:
                dropped = self._put_sized(request, machine)
            else:
                self._put_full(machine)
        now = time.perf_counter()
        swap = Swap(
            request.function or "all functions",
            request.sizes,
            now - self.begin_s,
            answer.compile_s,
            now - answer.begin_s,
            answer.error,
            dropped,
        )
        with self._changed:
            self._swaps.append(swap)
            self._waiting.pop(request.number, None)
            self._changed.notify_all()

    def _machine_of(self, executable: Executable) -> Machine:
        return MACHINES[type(executable)](executable, self._device)

    def _put_full(self, machine: Machine) -> None:
        self._machine = machine
        for name, dispatch in self._functions.items():
            dispatch.full = Code(machine[name].call)

    def _put_sized(self, request: Request, machine: Machine) -> dict[str, int] | None:
        """Put code for some sizes in place; the sizes that had to go for it."""
        kept, dropped = self._kept(), None
        if len(kept) >= self._specialisations:
            _, dispatch, key = min(kept, key=lambda each: each[0].recent_calls)
            dropped = dispatch.guard.sizes(key or ())
            dispatch.drop(key)
        for code, _, _ in kept:
            code.calls_seen = code.calls
        code = Code(machine[request.function].call)
        self._functions[request.function].put(dict(request.sizes), code)
        return dropped
