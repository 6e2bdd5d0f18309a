"""Random Relay programs (`relay_grammar`), each run by the interpreter and in some of the other ways.

    python -m tests.fuzz.relay_programs --seed 0 [--count 200 | --minutes 5] [--jobs 1]

The ways: Relay's own machine, Relax's in bytecode and as machine code, the graph and ahead-of-time executors
where they take the program, behind passes, printed and parsed, saved and loaded. A seed draws one or two of
them, the passes, and how LLVM optimises: to judge each program in all ways would cost many times as much, and
a fault of a way is as likely to show in the programs that drew it. All give the same values, bit by bit:
floats are whole numbers. A program that an engine refuses with the code of a limit that its page tells is no
fault.
"""

from __future__ import annotations

import argparse
import collections
import gc
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import heddle
from heddle import relay
from heddle.driver.passes import pass_classes, read_pass
from heddle.ir.instrument import verify_module
from heddle.ir.json_codec import load_json, save_json
from heddle.ir.structural import structural_equal
from heddle.relay.transform import Defunctionalization, to_cps, un_cps
from heddle.runtime import tensor
from heddle.runtime.data import ConstructorValue
from heddle.support.diagnostics import HeddleError, IRTypeError
from heddle.target import Target
from heddle.vm.relay import Executable, VirtualMachine
from tests.fuzz.artefacts import OutOfTime
from tests.fuzz.relay_grammar import random_text
from tests.fuzz.workers import Count, Watch, run_numbers

LIMITS = {"V0801", "L0304", "L0305", "Q0503"}
"""Refusals of what is known not to go: no graph, cells that lead to themselves, too many branches in each
other, data types of functions in CPS, ..."""
SECONDS = 60.0
LEFT_OUT = (
    "AnnotateTarget", "ChangeBatch", "ConvertLayout", "FastMath", "FirstOrderGradient",
    "InlineCompilerFunctionsBoundTo", "LazyGradientInit", "MergeComposite", "PlanDevices",
    "QuantizeAnnotate", "QuantizePartition", "QuantizeRealize", "SimplifyFCTranspose", "SpanCheck",
    "SplitArgs", "ToMixedPrecision",
)  # fmt: skip
TARGETS = (("llvm -opt-level=0", 0.8), ("llvm -opt-level=1", 0.1), ("llvm", 0.1))
PASSES = [
    name
    for name, cls in pass_classes().items()
    if (cls.__module__.startswith("heddle.relay") or name.startswith("relay.")) and name not in LEFT_OUT
]


def arguments(rng: random.Random) -> dict[str, Any]:
    """Values for the parameters of `main`."""
    made = np.random.default_rng(rng.randrange(1 << 32))
    rows = rng.choice((0, 1, 2, 4))
    return {
        "x": made.integers(-9, 10, (rows, 3)).astype("float32"),
        "y": made.integers(-9, 10, (2, 3)).astype("float32"),
        "i": np.array(rng.randrange(-3, 6), "int32"),
        "k": np.array(rng.choice((0, 1, -7, 1 << 40, (1 << 63) - 1)), "int64"),
        "t": np.array(rng.randrange(-9, 10), "float32"),
        "c": np.array(rng.random() < 0.5),
        "v": made.integers(-9, 10, 4).astype("int32"),
    }


def flat(value: Any) -> Any:
    """Lists of arrays; a value of a data type is its constructor's place and its fields."""
    todo, made = [value], []
    while todo:
        item = todo.pop()
        if isinstance(item, ConstructorValue):
            made.append(("data", item.tag & 0xFF, len(item.fields)))
            todo += reversed(item.fields)
        elif isinstance(item, (tuple, list)):
            made.append(("tuple", len(item)))
            todo += reversed(item)
        else:
            array = item.numpy() if hasattr(item, "numpy") else np.asarray(item)
            made.append((str(array.dtype), array.shape, (array + array.dtype.type(0)).tobytes()))
    return made


def _text(mod: Any) -> str:
    """What a program is but for types that nobody wrote: those of generic calls may be found closer."""
    return str(mod.astext(annotate=lambda _: ""))


class Judge:
    """Runs one program in its ways."""

    def __init__(self, seed: int) -> None:
        self.seed, self.rng = seed, random.Random(f"ways {seed}")
        self.target = Target(self.rng.choices(*zip(*TARGETS, strict=True))[0])
        self.refused: collections.Counter[str] = collections.Counter()

    def fault(self) -> str:
        """What is wrong; empty for nothing."""
        mod = relay.parse(random_text(self.seed), f"seed {self.seed}")
        cases = [arguments(self.rng) for _ in range(2)]
        wanted = [self.interpreted(mod, case) for case in cases]
        for name, make in self.ways(mod):
            try:
                call = make()
                for case, known in zip(cases, wanted, strict=True):
                    found = flat(call(case))
                    if found != known:
                        return f"{name}: other values\n{found}\n{known}"
            except HeddleError as error:
                if error.code not in LIMITS:
                    return f"{name}: {error.code} {str(error)[:400]}"
                self.refused[str(error.code)] += 1
        return ""

    def ways(self, mod: Any) -> list[tuple[str, Callable[[], Callable[[Any], Any]]]]:
        """One or two ways to run it, each by its chance."""
        names = self.rng.sample(PASSES, self.rng.choice((1, 1, 2, 3)))
        both = ["PartialEvaluate", "relay.DeadCodeElimination"]
        known: list[tuple[str, Callable[[], Callable[[Any], Any]], int]] = [
            ("own machine", lambda: self.own(mod), 12),
            ("bytecode", lambda: self.relax(mod, "bytecode"), 8),
            ("machine code", lambda: self.relax(mod, "compiled"), 10),
            ("ahead of time", lambda: self.executor(mod, "aot"), 4),
            ("printed and parsed", lambda: self.printed(mod), 25),
            ("graph", lambda: self.executor(mod, "graph"), 2),
            ("json", lambda: self.interpreter_of(load_json(save_json(mod))), 5),
            (f"behind {names}", lambda: self.behind(mod, names), 30),
            ("evaluated", lambda: self.behind(mod, both), 6),
            ("in CPS", lambda: self.handed_on(mod), 8),
            ("without functions as values", lambda: self.first_order(mod), 8),
        ]
        chosen = self.rng.choices(known, [weight for *_, weight in known], k=self.rng.choice((1, 1, 2)))
        return [(name, make) for name, make, _ in chosen]

    def interpreter_of(self, mod: Any) -> Callable[[Any], Any]:
        run = relay.create_executor("debug", mod).evaluate()
        return lambda case: run(*case.values())

    def interpreted(self, mod: Any, case: Any) -> Any:
        return flat(self.interpreter_of(mod)(case))

    def printed(self, mod: Any) -> Callable[[Any], Any]:
        again = relay.parse(mod.astext())
        assert structural_equal(again, mod), "another program"
        return self.interpreter_of(again)

    def own(self, mod: Any) -> Callable[[Any], Any]:
        made = relay.vm.compile(mod, self.target)
        if self.rng.random() < 0.3:
            code, lib = made.save()
            made = Executable.load_exec(code, lib)
        main = VirtualMachine(made, heddle.cpu())["main"]
        return lambda case: main(*map(tensor, case.values()))

    def relax(self, mod: Any, mode: str) -> Callable[[Any], Any]:
        made = heddle.compile(mod, self.target, exec_mode=mode)
        main = heddle.relax.VirtualMachine(made, heddle.cpu())["main"]
        return lambda case: main(*map(tensor, case.values()))

    def executor(self, mod: Any, kind: str) -> Callable[[Any], Any]:
        run = relay.create_executor(kind, mod, target=self.target).evaluate()
        return lambda case: run(*case.values())

    def behind(self, mod: Any, names: list[str]) -> Callable[[Any], Any]:
        with heddle.transform.PassContext(opt_level=4):
            told = self.rng.choice(names)
            for name in names:
                before, mod = mod, read_pass(name, self.target)(mod)
                found = verify_module(mod)
                assert not found, f"{name}: {found[0].message}"
                if name == told and self.rng.random() < 0.5:
                    self.check_text(name, mod)
                if name == "PartialEvaluate" and mod is not before:
                    again = read_pass(name, self.target)(mod)
                    if again is not mod and not self.is_endless(mod):
                        raise AssertionError("PartialEvaluate changes its own result")
        return self.own(mod) if self.rng.random() < 0.2 else self.interpreter_of(mod)

    def check_text(self, name: str, mod: Any) -> None:
        """What a pass gave is written as a text that reads back."""
        typed = relay.transform.InferType()(mod)
        try:
            again = relay.parse(mod.astext())
        except IRTypeError:  # text does not say the type arguments of calls
            self.refused["no text"] += 1
        else:
            assert _text(again) == _text(typed), f"{name}: text of another program"

    def is_endless(self, mod: Any) -> bool:
        """Whether the pass had more to unfold than it may."""
        more = relay.transform.PartialEvaluate(unfoldings=20000)
        return more(mod) is not mod

    def handed_on(self, mod: Any) -> Callable[[Any], Any]:
        copy = heddle.IRModule(mod.functions, type_definitions=mod.type_definitions)
        copy["main"] = un_cps(to_cps(copy["main"], copy))
        return self.interpreter_of(relay.transform.InferType()(copy))

    def first_order(self, mod: Any) -> Callable[[Any], Any]:
        copy = heddle.IRModule(mod.functions, type_definitions=mod.type_definitions)
        copy["main"] = Defunctionalization(copy["main"], copy)
        copy = relay.transform.RemoveUnusedFunctions()(copy)
        return self.interpreter_of(relay.transform.InferType()(copy))


class Fuzzer:
    """Judges the programs of seeds."""

    def __init__(self) -> None:
        self.count = Count()

    def one(self, number: int) -> None:
        judge = Judge(number)
        signal.setitimer(signal.ITIMER_PROF, SECONDS, SECONDS)  # again: what a finalizer raises is lost
        try:
            found = judge.fault()
        except (Exception, OutOfTime):
            found = traceback.format_exc(limit=-5)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        self.count.outcomes["fault" if found else "fine"] += 1
        self.count.outcomes.update(judge.refused)
        if found:
            print(f"seed {number}: {found[:1500]}", flush=True)
            self.count.fault(f"seed {number}", f"seed {number}: {found[:300]}")


def _ring(*_: object) -> None:
    raise OutOfTime


def _prepare() -> None:
    gc.collect()
    gc.freeze()  # what was imported is not looked through again for each program
    gc.set_threshold(50_000, 20, 50)  # programs are small, and most of what they leave is freed without it
    signal.signal(signal.SIGPROF, _ring)


def fuzz(count: int, seed: int, jobs: int = 1) -> Count:
    """Judge the programs of `count` seeds in `jobs` processes."""
    return run_numbers(Fuzzer(), range(seed, seed + count), jobs, Watch(_prepare, 2 * SECONDS, 1000))


_AT_ONCE = 500
"""So many programs are judged between two looks at the clock."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--minutes", type=float, help="go on so long, whatever the count")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print the program of the seed")
    parser.add_argument("--here", action="store_true", help="judge in this process")
    chosen = parser.parse_args()
    if chosen.show:
        print(random_text(chosen.seed))
    begin = time.perf_counter()
    if chosen.here:
        _prepare()
        fuzzer = Fuzzer()
        for number in range(chosen.seed, chosen.seed + chosen.count):
            fuzzer.one(number)
        total = fuzzer.count
    elif chosen.minutes:
        total, seed = Count(), chosen.seed
        while time.perf_counter() - begin < 60 * chosen.minutes:
            total.add(fuzz(_AT_ONCE, seed, chosen.jobs))
            seed += _AT_ONCE
            print(f"seeds up to {seed - 1}: {dict(total.outcomes)}", flush=True)
    else:
        total = fuzz(chosen.count, chosen.seed, chosen.jobs)
    print(f"{dict(total.outcomes)} in {time.perf_counter() - begin:.0f} s; {total.num_faults} faults")
    return 1 if total.faults else 0


if __name__ == "__main__":
    sys.exit(main())
