"""Bisection cases: a program, its inputs, and the expected outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from heddle.codegen.cache import KernelCache
from heddle.driver.compare import difference
from heddle.driver.compile import build_for, function_signature
from heddle.driver.inputs import Array
from heddle.driver.machines import machine_for
from heddle.driver.run import named_outputs, signature_of
from heddle.driver.signature import Signature
from heddle.driver.values import as_argument, as_arrays
from heddle.ir.module import IRModule
from heddle.relax.interpreter import GraphInterpreter
from heddle.support.diagnostics import HeddleError
from heddle.support.frozen import frozen
from heddle.target import Target


@frozen
class Setup:
    """How programs are compiled. `exec_mode`: "compiled" or "bytecode"."""

    target: Target
    exec_mode: str = "compiled"
    precision: str = "fp32"
    function: str = "main"


@frozen
class Case:
    """A module, the arguments of one of its functions in order, and the outputs of the reference engine."""

    mod: IRModule
    arrays: tuple[Array, ...]
    expected: tuple[Array, ...]
    setup: Setup

    @property
    def signature(self) -> Signature:
        """Names of inputs and outputs."""
        return function_signature(self.mod[self.setup.function])

    def fault_of(self, run: Callable[[], Sequence[Array]]) -> str:
        """Return a one-line description of a run's fault: an error code, or the difference; "" if there is
        none."""
        outputs, failure = attempt(run)
        if outputs is None:
            return failure
        if len(outputs) != len(self.expected):
            return f"expected {len(self.expected)} outputs, got {len(outputs)}"
        for number, (ours, theirs) in enumerate(zip(outputs, self.expected, strict=True)):
            row = difference(f"output {number}", ours, theirs, self.setup.precision)
            if not row["agrees"]:
                why = row.get("reason") or first_difference(ours, theirs)
                return f"output {number} differs: {why}"
        return ""


def attempt(run: Callable[[], Sequence[Array] | None]) -> tuple[Sequence[Array] | None, str]:
    """Return the result of a run; if it fails, None and a one-line description of the error."""
    try:
        return run(), ""
    except HeddleError as error:
        return None, in_a_line(error)
    except Exception as error:  # a fault of the compiler that nobody gave a code: what is looked for
        return None, f"{type(error).__name__}: {error}"


def in_a_line(error: HeddleError) -> str:
    """The code of an error, and its first message."""
    return f"{error.code}: {error.diagnostics[0].message}"


def first_difference(ours: Array, theirs: Array) -> str:
    """The element that is farthest off, of arrays of one shape."""
    if ours.dtype == object or not ours.size:
        return "texts"
    with np.errstate(all="ignore"):
        error = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
    at = np.unravel_index(int(np.nanargmax(np.where(np.isfinite(error), error, -1))), error.shape)
    place = tuple(map(int, at))
    return f"{ours[place]!s} at {place}, expected {theirs[place]!s}"


def compiled_outputs(case: Case, exec_mode: str | None = None) -> list[Array]:
    """What the compiled program gives. Raises: what compiling and running raise."""
    setup = case.setup
    mode = exec_mode or setup.exec_mode
    cache = KernelCache(None)  # what was kept may be of another state of the compiler
    made = build_for(case.mod, setup.target, exec_mode=mode, cache=cache, precision=setup.precision)
    machine = machine_for(made)
    value = machine[setup.function](*map(as_argument, case.arrays))
    return named_outputs(signature_of(made, setup.function), value)[1]


def interpreted_outputs(case: Case, mod: IRModule, **options: Any) -> list[Array]:
    """What the graph interpreter gives for a form of the module, before the machine's builtins."""
    value = GraphInterpreter(mod, **options)[case.setup.function](*(array.copy() for array in case.arrays))
    return [array for part in case.signature.values(value) for array in as_arrays(part)]


def fault(case: Case, exec_mode: str | None = None) -> str:
    """What is wrong with the compiled program, in a line: a code, or what differs; else nothing."""
    return case.fault_of(lambda: compiled_outputs(case, exec_mode))


def kind_of(text: str) -> str:
    """Return what identifies the same fault in smaller programs: the error code, or the fact that outputs
    differ."""
    return text.split(":")[0] if text[:1].isupper() and ":" in text else "differs" if text else ""
