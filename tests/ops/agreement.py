"""Do the evaluators agree? Each runs all programs of an operator; every result is compared with the
reference.

| evaluator | what runs |
|---|---|
| graph | the graph interpreter on the module |
| loops | the loop interpreter on the legalised loops |
| scheduled | the loop interpreter on the loops with their default schedules, parallel loops backwards |
| machine code | the legalised loops compiled as they are |
| c | the driver's pipeline for target c, compiled by the system's compiler without optimisation; stored,
loaded and run as bytecode |
| machine | the driver's pipeline, verified and round-tripped after each pass; stored, loaded and run, as
bytecode and as machine code, with the same bits |

`python -m tests.ops.agreement` runs all of it and prints a table; tests/ops/test_agreement.py
runs what CI runs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from heddle.codegen.build import build as build_kernels
from heddle.codegen.cache import KernelCache
from heddle.driver.compile import build, with_machine_code
from heddle.ir.instrument import VerifyEach
from heddle.ir.module import IRModule
from heddle.ir.op_def import OpDef
from heddle.ir.transform import PassContext, map_functions
from heddle.lower.default_schedule import ApplyDefaultSchedule
from heddle.lower.legalize_ops import LegalizeOps
from heddle.relax.interpreter import GraphInterpreter
from heddle.runtime.device import cpu
from heddle.runtime.module import load_module
from heddle.runtime.tensor import Tensor, tensor
from heddle.script.round_trip import RoundTripEach
from heddle.target import Target
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import PrimFunc
from heddle.vm.relax.machine import VirtualMachine
from tests.ops.cases import flat, records
from tests.ops.programs import Program, module_of, programs
from tests.ops.tolerances import assert_close

TARGET = Target("llvm")
Functions = Callable[[str], Callable[..., Any]]
"""The functions of an evaluator by name; they take and give numpy arrays."""


def on_graph_interpreter(mod: IRModule) -> Functions:
    return GraphInterpreter(mod).__getitem__


def on_loop_interpreter(mod: IRModule) -> Functions:
    return GraphInterpreter(LegalizeOps()(mod)).__getitem__


def on_scheduled_interpreter(mod: IRModule) -> Functions:
    scheduled = ApplyDefaultSchedule(TARGET)(LegalizeOps()(mod))
    return GraphInterpreter(scheduled, partial(run_primfunc, reverse_parallel=True)).__getitem__


def on_machine_code(mod: IRModule) -> Functions:
    """No cache on disk: what is tested is today's compiler."""
    named = map_functions(
        LegalizeOps()(mod), ("tir",), lambda var, func: func.with_attr("global_symbol", var.name_hint)
    )
    loops = {var: func for var, func in named.functions.items() if isinstance(func, PrimFunc)}
    kernels = build_kernels(named.with_functions(loops), TARGET, KernelCache(None)) if loops else None

    def run(func: PrimFunc, *args: Any) -> None:
        given = [tensor(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
        assert kernels is not None
        kernels[str(func.attrs["global_symbol"])](*given)
        for arg, value in zip(args, given, strict=True):
            if isinstance(arg, np.ndarray):
                arg[...] = value.numpy()

    return GraphInterpreter(named, run).__getitem__


def on_virtual_machine(mod: IRModule) -> Functions:
    with PassContext(instruments=(VerifyEach(), RoundTripEach())), tempfile.TemporaryDirectory() as folder:
        build(mod, TARGET, cache=KernelCache(None)).export_library(Path(folder, "ops.heddle"))
        loaded = load_module(Path(folder, "ops.heddle"))
        machine = VirtualMachine(loaded, cpu())
        native = VirtualMachine(with_machine_code(loaded, TARGET, KernelCache(None)), cpu())

    def function(name: str) -> Callable[..., Any]:
        def run(*arrays: np.ndarray) -> Any:
            copies = [array.copy() for array in arrays]
            one, other = _as_numpy(machine[name](*arrays)), _as_numpy(native[name](*copies))
            same = [mine.tobytes() == its.tobytes() for mine, its in zip(flat(one), flat(other), strict=True)]
            assert all(same), "bytecode and machine code of the program differ"
            return one

        return run

    return function


def on_c(mod: IRModule) -> Functions:
    """The machine on kernels that are C."""
    with tempfile.TemporaryDirectory() as folder:
        build(mod, Target("c -opt-level=0")).export_library(Path(folder, "ops.heddle"))
        return VirtualMachine(load_module(Path(folder, "ops.heddle")), cpu()).__getitem__


def _as_numpy(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.numpy()
    return value if isinstance(value, np.ndarray) else tuple(_as_numpy(item) for item in value)


EVALUATORS: dict[str, Callable[[IRModule], Functions]] = {
    "graph": on_graph_interpreter,
    "loops": on_loop_interpreter,
    "scheduled": on_scheduled_interpreter,
    "machine code": on_machine_code,
    "machine": on_virtual_machine,
    "c": on_c,
}


def without_growth(made: Sequence[Program]) -> list[Program]:
    """The programs without their runs on greater sizes: what the loop interpreter runs in CI."""
    return [
        replace(program, runs=tuple(run for run in program.runs if run.is_no_greater(program.runs[0])))
        for program in made
    ]


def of_first_dtypes(made: Sequence[Program]) -> list[Program]:
    """The static program of each sample's first dtype: what the interpreter of tiled loops runs in CI."""
    return [
        program
        for program in made
        if program.case.dtype == program.case.sample.dtypes[0] and not program.typed.sizes
    ]


def disagreements(record: OpDef, made: Sequence[Program], evaluator: str) -> list[str]:
    """What an evaluator gets wrong, a line each."""
    functions = EVALUATORS[evaluator](module_of(made))
    found = []
    for program in made:
        for run in program.runs:
            try:
                with np.errstate(all="ignore"), warnings.catch_warnings():  # references may divide by zero
                    warnings.simplefilter("ignore", RuntimeWarning)
                    got = flat(_as_numpy(functions(program.name)(*(array.copy() for array in run.arrays))))
                for one, other in zip(got, flat(run.want), strict=True):
                    assert_close(one, other, record.name)
            except Exception as error:  # every failure of every program is of interest, whatever it is
                sizes = ", ".join(f"{var} = {size}" for var, size in run.sizes.items())
                found.append(f"{record.name} {program.name} ({sizes}): {type(error).__name__}: {error}")
    return found


def main(words: Sequence[str]) -> int:
    """Run evaluators on operators, all by default; whether they agree decides the exit code. Lines come as
    operators are done.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.ops.agreement", description=main.__doc__)
    parser.add_argument("operators", nargs="*", help="such as add or nn.conv2d")
    parser.add_argument("--on", nargs="+", choices=EVALUATORS, default=list(EVALUATORS), help="evaluators")
    given = parser.parse_args(words)
    chosen = [record for record in records() if not given.operators or record.name in given.operators]
    table = {evaluator: [0, 0, 0, 0.0] for evaluator in given.on}
    for record in chosen:
        made = programs(record)
        runs = sum(len(program.runs) for program in made)
        for evaluator in given.on:
            start = time.perf_counter()
            try:
                wrong = disagreements(record, made, evaluator)
            except Exception as error:  # one operator that does not compile must not hide the others
                wrong = [f"{record.name}: {type(error).__name__}: {error}"]
            seconds = time.perf_counter() - start
            for k, value in enumerate((len(made), runs, len(wrong), seconds)):
                table[evaluator][k] += value
            line = f"{record.name:<32}{evaluator:<14}{runs:6} runs{len(wrong):6} wrong{seconds:8.1f} s"
            print(line, *wrong, sep="\n", flush=True)
    print(f"{len(chosen)} operators")
    for evaluator, (count, runs, wrong_count, seconds) in table.items():
        print(f"{evaluator:<14}{count:7} programs{runs:8} runs{wrong_count:6} wrong{seconds:8.1f} s")
    return 1 if any(row[2] for row in table.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
