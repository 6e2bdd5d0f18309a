"""Memory that the system refuses: `python -m tests.fuzz.scarcity [--most N] [NAME ...]`.

A scenario views a tensor, or imports, compiles or runs a model. A child does it for a number n, and its n-th
request for memory is refused: one of Python's and numpy's (every object is a request of its own,
PYTHONMALLOC=malloc), or one of native code that was linked in memory, which is the support library and
kernels. The error is coded and the system's, nothing is lost, and the same child does it again with the right
result.

LLVM is spared: it ends its process where it gets no memory. So does protobuf's fast form; its Python form is
used. So does nanobind, by which the package onnx calls its checker; it says so.
"""

from __future__ import annotations

import argparse
import errno
import gc
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from heddle.codegen.cache import KernelCache
from heddle.driver.cli.guard import ExitCode, guarded
from heddle.driver.compile import build
from heddle.frontend.onnx import from_onnx
from heddle.runtime import allocator_for, cpu, tensor
from heddle.vm.relax import VirtualMachine
from tests.fuzz import recursive
from tests.fuzz.interposed import Action, Calls, Ended, Fault, Interposer, is_interposed, numbers, start

_X = np.linspace(-1, 1, 40 * 300, dtype=np.float32).reshape(40, 300)
_ENVIRONMENT = {
    "PYTHONMALLOC": "malloc",
    "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python",
    "HEDDLE_CACHE": "0",
}
_PYTHONS_OWN = (
    "SystemError: error return without exception set",
    "returned NULL without setting an exception",
)
"""What CPython says where it has lost a MemoryError of its own."""
_NANOBINDS_END = "Critical nanobind error"
_PYTHONS_LOSSES = ("_PyTuple_Resize", "PyCell_New")
"""Functions of CPython 3.11 that, where they get no memory, lose count of objects: of the items of a tuple
that is cut to its length, and of the arguments of a function that has a cell."""
_BY_PYTHON = " by Python"
_WRONG, _LOST, _AGAIN = 10, 11, 12


@dataclass(frozen=True)
class Scenario:
    """`act` gives an array, or None; `fault` is what its calls meet, `wanted` gives the array."""

    name: str
    act: Callable[[], Any]
    fault: Fault
    wanted: Callable[[], Any]


@cache
def _model() -> tuple[ModelProto, Any]:
    """A model with constants, a kernel with scratch, one over threads, and a tuple; and its result."""
    rng, info = np.random.default_rng(0), helper.make_tensor_value_info
    w = rng.standard_normal((300, 600)).astype(np.float32) / 20
    stored = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.asarray([1], np.int64), "axes")]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Softmax", ["p"], ["s"]),
        helper.make_node("ReduceSum", ["s", "axes"], ["t"], keepdims=1),
        helper.make_node("Add", ["s", "t"], ["y"]),
    ]
    inputs, outputs = [info("x", TensorProto.FLOAT, ["n", 300])], [info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    e = np.exp(_X @ w - (_X @ w).max(axis=1, keepdims=True))
    return proto, e / e.sum(axis=1, keepdims=True) + 1


@cache
def _imported() -> Any:
    return from_onnx(_model()[0])


_CACHE = KernelCache(None)


def _compile(mode: str, cache: KernelCache | None = None) -> Any:
    return build(_imported(), "llvm", exec_mode=mode, cache=cache or _CACHE)


@cache
def _executable(mode: str) -> Any:
    return _compile(mode)


def _run(executable: Any) -> Any:
    return VirtualMachine(executable, cpu())["main"](_X).numpy()


def _import_again() -> None:
    from_onnx(_model()[0])


@cache
def _arrays() -> list[Any]:
    """Inputs of the recursive program, with some steps."""
    rows, weight, _ = recursive.inputs(np.random.default_rng(3))
    return [rows[:3], weight, np.asarray(5, "int32")]


@cache
def _recursive(engine: str) -> Any:
    return recursive.ENGINES[engine]()


def _run_recursive(run: Callable[..., Any]) -> Any:
    return recursive.call(run, _arrays())[0]


_PROGRAMS: tuple[tuple[str, Callable[[], Any], Callable[[], Any]], ...] = (
    ("view", lambda: tensor(_X).numpy(), lambda: _X),
    ("import", _import_again, lambda: _model()[1]),
    ("compile", lambda: _run(_compile("compiled", KernelCache(None))), lambda: _model()[1]),
    ("link", lambda: _run(_compile("bytecode")), lambda: _model()[1]),
    ("run-compiled", lambda: _run(_executable("compiled")), lambda: _model()[1]),
    ("run-bytecode", lambda: _run(_executable("bytecode")), lambda: _model()[1]),
    *(
        (f"{name}-{engine}", act, lambda: recursive.wanted(*_arrays())[0])
        for engine in recursive.ENGINES
        for name, act in (
            ("compile-recursive", partial(lambda made: _run_recursive(made()), recursive.ENGINES[engine])),
            ("run-recursive", partial(lambda made: _run_recursive(_recursive(made)), engine)),
        )
    ),
)

SCENARIOS: Mapping[str, Scenario] = {
    f"{name}-{calls.name}".lower(): Scenario(name, act, Fault(calls, Action.FAIL, errno.ENOMEM), wanted)
    for calls in (Calls.PYTHON, Calls.NATIVE)
    for name, act, wanted in _PROGRAMS
}


def _checked(scenario: Scenario) -> int:
    got = scenario.act()
    if got is None or np.allclose(got, scenario.wanted(), rtol=1e-4, atol=1e-5):
        return 0
    return _WRONG


def _try(interposer: Interposer, scenario: Scenario, number: int) -> int:
    """What a child does: the scenario under the fault, and again."""
    books = allocator_for(cpu()).books
    gc.collect()
    before = books.bytes_in_use
    results: list[int] = []
    code = guarded(lambda: interposer.met(scenario.fault, number, lambda: results.append(_checked(scenario))))
    code = code or results[0]
    gc.collect()
    if code in (0, 1) and books.bytes_in_use != before:
        is_pythons = any(map(interposer.went_through, _PYTHONS_LOSSES))
        print(f"{books.bytes_in_use - before} bytes are lost{_BY_PYTHON * is_pythons}", file=sys.stderr)
        if not is_pythons:
            return _LOST
    if code in (0, 1) and _checked(scenario):
        return _AGAIN
    return code


def _wrong(ended: Ended) -> str | None:
    """What is wrong with an outcome, if anything is."""
    if any(text in ended.err for text in _PYTHONS_OWN) and ended.code == ExitCode.INTERNAL & 63:
        return None
    if ended.code == -signal.SIGABRT and _NANOBINDS_END in ended.err:
        return None
    if ended.code not in (0, 1):
        return f"ended with {ended.code}"
    first = next((line for line in ended.err.splitlines() if line.startswith("error[")), "")
    if ended.code == 1 and not first.startswith(("error[S0701]", "error[U0601]")):
        return "an error that does not speak of memory"
    return "a fault of Heddle" if "fault of Heddle" in ended.err else None


def try_all(interposer: Interposer, scenario: Scenario, most: int, tried: list[Ended]) -> Iterator[str]:
    """Findings: a child for each of `most` requests for memory. `tried` gets those that met their fault."""
    _checked(scenario)
    total = interposer.count(scenario.fault.calls, lambda: _checked(scenario))
    gc.freeze()  # what stands already: children need not look through it
    for number in (*numbers(total, most), 2 * total + 1000):
        ended = interposer.fork(number, partial(_try, interposer, scenario, number))
        tried += [ended] * ended.is_struck
        wrong = _wrong(ended)
        if wrong is not None:
            yield f"{scenario.name} {scenario.fault.calls.name} at {number} of {total}: {wrong}\n{ended.err}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=", ".join(SCENARIOS))
    parser.add_argument("--most", type=int, default=500, help="requests of a scenario that are tried")
    args = parser.parse_args()
    if not is_interposed():
        done = start("tests.fuzz.scarcity", *sys.argv[1:], **_ENVIRONMENT)
        print(done.stdout, end="")
        return done.returncode
    interposer, found = Interposer(), 0
    for name in args.names or SCENARIOS:
        tried: list[Ended] = []
        for finding in try_all(interposer, SCENARIOS[name], args.most, tried):
            found += 1
            print(finding, flush=True)
        pythons = sum(_BY_PYTHON in ended.err for ended in tried)
        print(f"{name}: {len(tried)} refusals; after {pythons} of them Python lost memory", flush=True)
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
