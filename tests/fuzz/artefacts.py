"""Hostile files: `python -m tests.fuzz.artefacts --count 1000000 --seed 1 --jobs 2`.

Each mutation of a real artefact must load and verify, or be refused with a HeddleError, within a second of
processor time for a megabyte and within a fixed number of bytes of address space. With `--run`, programs
that load are called too, as bytecode: each call ends in a result or a HeddleError, or is stopped when its
time is up (a loop that jumps back for ever is a legal program). Object code is machine code, which nothing
can verify: programs that run keep the kernels they were made with, so files with variants are loaded only.

Workers are processes; each writes the number of its mutation before it begins, so that a crash names the one
that did it: `--only NUMBER` repeats it.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from heddle.runtime import cpu
from heddle.runtime.artefact import section_table
from heddle.support.diagnostics import HeddleError
from heddle.vm import relax, relay
from heddle.vm.executable import Executable
from tests.fuzz.layout import Layout, entries_of, load_all, put_together, take_apart
from tests.fuzz.models import MODELS, likely_value, random_value, register_helpers, stored
from tests.fuzz.mutate import mutate, mutate_program
from tests.fuzz.workers import Count, Watch, run_numbers

SECONDS_PER_MEGABYTE = 1.0
SECONDS_PER_CALL = 0.25
HANG_S = 60.0
"""Processor time after which a mutation is ended from outside."""
MEGABYTES_BEYOND_START = 512
_ALLOWED_IN_CALLS = ("test.fuzz.", "vm.builtin.")
MACHINES = {relax.VMExecutable: relax.VirtualMachine, relay.Executable: relay.VirtualMachine}


class OutOfTime(BaseException):
    """The time of a load or call is up. No handler for ordinary errors may take it."""


def _raise_out_of_time(*_: object) -> None:
    raise OutOfTime


def _ring_after(seconds: float) -> None:
    """Raise OutOfTime after so much processor time, and again: what is raised in a finalizer is lost."""
    signal.setitimer(signal.ITIMER_PROF, seconds, seconds)


class Fuzzer:
    """Mutates, loads and runs in this process. A mutation is its seed and number."""

    allowed: tuple[type[Exception], ...] = (HeddleError,)
    """How a call may end: what the product raises, and what helpers of programs raise for wrong operands."""

    def __init__(self, seed: int, run: bool = False) -> None:
        register_helpers()
        self._seed, self._run = seed, run
        self._layouts = self.layouts()
        self._donors = [
            item for layout in self._layouts for fields in layout.fields.values() for item in fields
        ]
        self.count = Count()
        for layout in self._layouts:  # warm: tables, imports, caches
            self._load(self.whole(layout), layout)

    # What another kind of file overrides

    def layouts(self) -> list[Layout]:
        """The good files."""
        chosen = [make for name, make in MODELS.items() if not (self._run and name == "variants")]
        return [take_apart(stored(make())) for make in chosen]

    def whole(self, layout: Layout) -> bytes:
        """The file with these sections."""
        return put_together(entries_of(layout.sections))

    def mutated(self, rng: random.Random, layout: Layout) -> bytes:
        """A file that differs from a good one."""
        if self._run:
            return put_together(entries_of(mutate_program(rng, layout, self._donors)))
        return mutate(rng, layout, self._donors)

    def read(self, data: bytes, layout: Layout) -> Any:
        """What is loaded."""
        return load_all(section_table(memoryview(bytearray(data))))

    # ----

    def one(self, number: int) -> None:
        rng = random.Random(f"{self._seed} {number}")
        layout = rng.choice(self._layouts)
        data = self.mutated(rng, layout)
        try:
            module = self._load(data, layout)
        except HeddleError as error:
            self.count.outcomes[error.code] += 1
            return
        except (Exception, OutOfTime):
            self._fault(number, "loading")
            return
        self.count.outcomes["loads"] += 1
        if self._run and isinstance(module, Executable):
            self._call(rng, number, module)

    def _load(self, data: bytes, layout: Layout) -> Any:
        _ring_after(max(1.0, len(data) / 1e6) * SECONDS_PER_MEGABYTE)
        try:
            return self.read(data, layout)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def _call(self, rng: random.Random, number: int, executable: Executable) -> None:
        """Call each function of a program that loads."""
        names = [row.name for row in executable.program.functions]
        if any("debug" in name or not _is_known(name, executable) for name in names):
            self.count.calls["callee left out"] += 1
            return
        try:
            _ring_after(SECONDS_PER_CALL)
            try:
                vm = MACHINES[type(executable)](executable, cpu())
                for row in executable.program.functions:
                    if row.has_bytecode:
                        self._call_function(rng, vm, row)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        except OutOfTime:
            self.count.calls["stopped"] += 1
        except HeddleError as error:
            self.count.calls[f"machine {error.code}"] += 1
        except Exception:
            self._fault(number, "running")

    def _call_function(self, rng: random.Random, vm: Any, row: Any) -> None:
        for _ in range(2):
            if row.num_args > 16:
                return
            try:
                names = row.param_names or ("",) * row.num_args
                vm[row.name](
                    *[random_value(rng) if rng.random() < 0.3 else likely_value(rng, name) for name in names]
                )
                self.count.calls["result"] += 1
            except self.allowed as error:
                self.count.calls[str(getattr(error, "code", "refused"))] += 1

    def _fault(self, number: int, doing: str) -> None:
        frame = traceback.extract_tb(sys.exc_info()[2])[-1]
        where = f"{sys.exc_info()[0]} {frame.filename}:{frame.lineno}"
        text = traceback.format_exc(limit=-6)
        self.count.fault(where, f"mutation {number} of seed {self._seed}, {doing}:\n{text}")


def _is_known(name: str, executable: Executable) -> bool:
    """Whether running the function is within the game: what else the process has registered is not."""
    return (
        name.startswith(_ALLOWED_IN_CALLS)
        or executable.has_function(name)
        or any(name in module.function_names() for module in executable.imports)
    )


def limit_memory(megabytes: int = MEGABYTES_BEYOND_START) -> None:
    """Refuse this process more than so much address space beyond what it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _prepare() -> None:
    signal.signal(signal.SIGPROF, _raise_out_of_time)
    limit_memory()


def fuzz(
    count: int,
    seed: int,
    jobs: int = 1,
    run: bool = False,
    first: int = 0,
    kind: type[Fuzzer] = Fuzzer,
    seconds: float | None = 60.0,
) -> Count:
    """Run mutations `first` up to `first + count` in `jobs` processes. One that takes more than `seconds` of
    processor time where no signal is heard is a fault."""
    signal.signal(signal.SIGPROF, _raise_out_of_time)
    return run_numbers(kind(seed, run), range(first, first + count), jobs, Watch(_prepare, seconds))


def main(kind: type[Fuzzer] = Fuzzer, doc: str | None = __doc__) -> int:
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--run", action="store_true", help="call the programs that load")
    parser.add_argument("--first", type=int, default=0, help="the number of the first mutation")
    parser.add_argument("--only", type=int, help="repeat one mutation in this process")
    chosen = parser.parse_args()
    begin = time.perf_counter()
    if chosen.only is not None:
        signal.signal(signal.SIGPROF, _raise_out_of_time)
        fuzzer = kind(chosen.seed, chosen.run)
        fuzzer.one(chosen.only)
        total = fuzzer.count
    else:
        total = fuzz(chosen.count, chosen.seed, chosen.jobs, chosen.run, chosen.first, kind, HANG_S)
    done = sum(total.outcomes.values()) + total.num_faults
    print(
        f"{done} mutations in {time.perf_counter() - begin:.0f} s;",
        f"outcomes: {dict(total.outcomes.most_common())}",
    )
    if chosen.run:
        print(f"calls: {dict(total.calls.most_common())}")
    print(f"{total.num_faults} faults at {len(total.faults)} places")
    print("\n".join(total.faults.values()))
    return 1 if total.faults else 0


if __name__ == "__main__":
    sys.exit(main())
