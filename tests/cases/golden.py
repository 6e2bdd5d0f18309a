"""Golden cases of passes: their files, and what running one does. README.md says how they are written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heddle.driver.inputs import parse_dims
from heddle.driver.opt import OptOptions, run_passes
from heddle.graph.types import TensorType
from heddle.ir.dialect import dialect_of
from heddle.ir.module import IRModule
from heddle.ir.structural import first_mismatch
from heddle.prim.evaluate import evaluate
from heddle.prim.substitute import free_vars
from heddle.script import parse
from heddle.script.round_trip import check_round_trip
from heddle.tir.nodes import PrimFunc
from tests.cases.sections import CaseFile, read_sections

FOLDER = Path(__file__).parent
TARGET = "llvm -mcpu=x86-64-v3"


@dataclass(frozen=True)
class PassCase:
    """A file and what it says. `sizes` are free sizes, None where nothing is run."""

    file: CaseFile
    before: str
    after: str
    passes: tuple[str, ...]
    sizes: dict[str, int] | None


def read_case(path: Path) -> PassCase:
    """Raises: AssertionError for a file of another form."""
    file = read_sections(path, "before", ("after",), ("passes", "run"))
    passes = tuple(file.given("passes")) or (path.parent.name,)
    return PassCase(file, file.sections["before"], file.sections.get("after", ""), passes, sizes_of(file))


def sizes_of(file: CaseFile) -> dict[str, int] | None:
    """The sizes of the option `run`."""
    given = file.given("run")
    return (
        parse_dims(item.strip() for value in given for item in value.split(",") if item.strip())
        if given
        else None
    )


def module_of(text: str) -> IRModule:
    parsed = parse(text)
    return parsed if isinstance(parsed, IRModule) else IRModule.from_expr(parsed)


def run_case(case: PassCase) -> tuple[IRModule, str | None]:
    """The module after the passes, and how it differs from the case's; None where it does not.

    Raises: what the passes and the verifier raise; AssertionError where the result does not print and parse
    alike, or computes something else.
    """
    before = module_of(case.before)
    made = run_passes(before, OptOptions(case.passes, verify_each=True, target=TARGET))
    problem = check_round_trip(made)
    assert problem is None, problem
    if case.sizes is not None:
        assert_same_values(before, made, case.sizes)
    return made, difference_of(made, case.after)


def difference_of(made: IRModule, after: str) -> str | None:
    """How a module differs from a text; None where it does not."""
    if not after.strip():
        return "the case has no program after the passes yet"
    found = first_mismatch(made, module_of(after), map_free_vars=True)
    return found and f"at {found.path}: {found.reason}: got {found.lhs}, the case has {found.rhs}"


def assert_same_values(before: IRModule, after: IRModule, sizes: dict[str, int]) -> None:
    """Run every public function of `before` in both modules, on the same random arguments."""
    public = [var.name_hint for var, func in before.functions.items() if "global_symbol" in func.attrs]
    assert public, "nothing to run: no function is public"
    for name in public:
        args = arguments(before[name], sizes)
        results = []
        for mod in (before, after):
            own = [np.array(arg) for arg in args]
            results.append((dialect_of(mod[name]).run(mod[name], mod, own), own))
        (value, written), (expected, wanted) = results[1], results[0]
        assert_close(value, expected)
        assert_close(tuple(written), tuple(wanted))


def arguments(func: Any, sizes: dict[str, int]) -> list[np.ndarray]:
    """Random arrays for the tensors and buffers that a function takes."""
    rng = np.random.default_rng()
    if isinstance(func, PrimFunc):
        found = [(buffer.shape, buffer.dtype) for buffer in map(func.buffer_map.get, func.params)]
    else:
        assert all(isinstance(param.ty, TensorType) for param in func.params), "only tensors are made up"
        found = [(param.ty.shape.values, param.ty.dtype) for param in func.params]
    made = []
    for shape, dtype in found:
        dims = [evaluate(dim, {var: sizes[var.name] for var in free_vars(dim)}) for dim in shape]
        made.append(rng.uniform(0, 4, dims).astype(str(dtype)))
    return made


def assert_close(actual: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        assert len(actual) == len(expected)
        for left, right in zip(actual, expected, strict=True):
            assert_close(left, right)
    elif expected is not None:
        assert np.asarray(actual).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
