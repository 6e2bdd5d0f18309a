"""Every case of `onnx.backend.test`, on the compiled machine, in bytecode and by the graph interpreter.

All inputs of a case are inputs of the compiled program: shapes, axes and scales are read when it runs. Most
of the time goes to LLVM's optimiser. Without it (`QUICK`: bytecode, kernels as they are scheduled and
lowered) a third is left, and all cases are part of every run of the tests.

`python -m tests.e2e.onnx_board [words]` prints the figures and what is refused or wrong; with words only the
cases whose names contain one of them. `--write` writes the list of refusals. The program runs the cases in
two processes of its own and counts a case that takes more than `HANG_SECONDS` as a hang; the test runs them
in the process that it is in.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner
from packaging.version import Version

from heddle.driver.backend import HeddleRep
from heddle.driver.compile import build, with_machine_code
from heddle.frontend.onnx import from_onnx
from heddle.relax.interpreter import GraphInterpreter
from heddle.relax.verify import verify_graph_function
from heddle.support.diagnostics import HeddleError
from heddle.target import Target
from heddle.vm.builtins.strings import made_of, texts_of

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
REFUSALS = Path(__file__).with_name("onnx_refusals.txt")
HANG_SECONDS = 300
SHARDS = 16
STATUSES = ("pass", "refused", "wrong", "hang", "crash")


@dataclass(frozen=True)
class Engines:
    """What runs the cases: `modes` of execution, with kernels for `target`."""

    modes: tuple[str, ...]
    target: str


ALL = Engines(("compiled", "bytecode", "interpreter"), "llvm")
QUICK = Engines(("bytecode", "interpreter"), "llvm -opt-level=0")


@dataclass(frozen=True)
class Outcome:
    """`status` is pass, refused (a finding of the importer, with its code) or wrong."""

    name: str
    kind: str
    op: str
    status: str
    reason: str = ""
    seconds: float = field(default=0.0, compare=False)


@cache
def cases() -> dict[str, Any]:
    """All cases by kind and name. Those of kind `real` are the networks that come with the package."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {f"{kind}/{case.name}": case for kind in KINDS for case in load_model_tests(kind=kind)}


def chosen(words: Iterable[str]) -> list[str]:
    words = list(words)
    return [name for name in cases() if not words or any(word in name for word in words)]


def model_of(case: Any) -> onnx.ModelProto:
    if case.model is not None:
        return case.model
    if case.model_dir is not None:
        return onnx.load(Path(case.model_dir) / "model.onnx")
    return onnx.load(_packaged(case))


def _packaged(case: Any) -> Path:
    return Path(onnx.__file__).parent.parent / case.url


def data_sets(case: Any, model: onnx.ModelProto) -> Iterator[tuple[list[Any], list[Any]]]:
    """Inputs and expected outputs."""
    if case.data_sets is not None:
        for inputs, outputs in case.data_sets:
            yield [_plain(item) for item in inputs], [_plain(item) for item in outputs]
    elif case.model_dir is not None:
        for folder in sorted(Path(case.model_dir).glob("test_data_set*")):
            yield _stored(folder, "input", model.graph.input), _stored(folder, "output", model.graph.output)
    else:
        stored = {item.name for item in model.graph.initializer}
        inputs = [
            Runner.generate_dummy_data(item, seed=0, name=case.model_name, random=False)
            for item in model.graph.input
            if item.name not in stored
        ]
        path = _packaged(case)
        expected = onnx.load_tensor(str(path.with_name(f"{path.stem}_output_0.pb")))
        yield inputs, [numpy_helper.to_array(expected)]


def _stored(folder: Path, what: str, values: Any) -> list[Any]:
    found: list[Any] = []
    loader = Runner._load_proto
    for index in range(len(list(folder.glob(f"{what}_*.pb")))):
        loader(None, str(folder / f"{what}_{index}.pb"), found, values[index].type)  # type: ignore[arg-type]
    return found


def _plain(item: Any) -> Any:
    if isinstance(item, onnx.TensorProto):
        return numpy_helper.to_array(item)
    if isinstance(item, list):
        return [_plain(part) for part in item]
    return item if item is None else np.asarray(item)


def run(name: str, engines: Engines = ALL) -> Outcome:
    """A case by all engines: refused where the importer says so, wrong where anything else differs."""
    kind, case = name.split("/")[0], cases()[name]
    model = model_of(case)
    op = model.graph.node[0].op_type if model.graph.node else ""
    start = time.perf_counter()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        status, reason = _verdict(case, model, engines)
    return Outcome(case.name, kind, op, status, reason, time.perf_counter() - start)


def _verdict(case: Any, model: onnx.ModelProto, engines: Engines) -> tuple[str, str]:
    try:
        mod = from_onnx(model)
    except HeddleError as error:
        return "refused", str(error).splitlines()[0]
    except Exception as error:
        return "wrong", f"import: {_text(error)}"
    broken = [finding for func in mod.functions.values() for finding in verify_graph_function(func, mod)]
    if broken:
        return "wrong", f"verify: {broken[0].render()}"
    try:
        made = {"bytecode": build(mod, engines.target)}
        if "compiled" in engines.modes:
            made["compiled"] = with_machine_code(made["bytecode"], Target(engines.target))
    except Exception as error:
        return "wrong", f"compile: {_text(error)}"
    stored = {item.name for item in model.graph.initializer}
    names = [item.name for item in model.graph.input if item.name not in stored]
    count = len(model.graph.output)
    for inputs, expected in data_sets(case, model):
        for mode in engines.modes:
            try:
                if mode == "interpreter":
                    got = interpreted(mod, inputs, count)
                else:
                    got = list(HeddleRep(made[mode], names, count).run(inputs))
            except Exception as error:
                return "wrong", f"{mode}: {_text(error)}"
            problem = difference_of_all(case, model, got, expected)
            if problem:
                return "wrong", f"{mode}: {problem}"
    return "pass", ""


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}".replace("\n", " | ")


def interpreted(mod: Any, inputs: list[Any], count: int) -> list[Any]:
    got = GraphInterpreter(mod)["main"](*(_stored_form(item) for item in inputs))
    return [_texts(item) for item in (got if count > 1 else [got])]


def _texts(item: Any) -> Any:
    """The interpreter keeps strings as a shape and a tuple."""
    is_text = isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], tuple)
    return texts_of(item) if is_text else item


def _stored_form(item: Any) -> Any:
    """The interpreter keeps 4-bit integers in bytes."""
    if isinstance(item, list):
        return tuple(_stored_form(part) for part in item)
    if item is not None and item.dtype.kind in "OUT":
        return made_of(item.astype(str).astype(object))
    narrow = item is not None and item.dtype.name in ("int2", "uint2", "int4", "uint4")
    wide = np.dtype(item.dtype.name[:-1] + "8") if narrow else None
    return item if wide is None else item.astype(wide)


# ---- comparison

TOLERANCES = {"float16": 2e-3, "bfloat16": 1.6e-2}
"""Two units in the last place of the narrow floats, in which the references round after every operator."""

RANDOM = ("test_bernoulli", "test_training_dropout")
"""Cases whose values depend on numpy's generator: shape and element type are compared."""


def difference_of_all(case: Any, model: onnx.ModelProto, got: list[Any], expected: list[Any]) -> str:
    if len(got) != len(expected):
        return f"{len(got)} outputs, expected {len(expected)}"
    if case.name.startswith(RANDOM) and "zero_ratio" not in case.name:
        expected = [np.asarray(mine).astype(theirs.dtype) for mine, theirs in zip(got, expected, strict=True)]
    for index, (mine, theirs) in enumerate(zip(got, expected, strict=True)):
        problem = difference(mine, theirs, max(case.rtol, 1e-3), max(case.atol, 1e-5))
        if problem:
            return f"output {index}: {problem}"
    return ""


def difference(mine: Any, theirs: Any, rtol: float, atol: float) -> str:
    """What differs, or nothing. Shapes and element types count."""
    if isinstance(theirs, (list, tuple)):
        if not isinstance(mine, (list, tuple)) or len(mine) != len(theirs):
            return "sequences differ"
        return next(
            (text for a, b in zip(mine, theirs, strict=True) if (text := difference(a, b, rtol, atol))), ""
        )
    if theirs is None or mine is None:
        return "" if mine is theirs else "one is an empty optional"
    mine, theirs = np.asarray(mine), np.asarray(theirs)
    if mine.shape != theirs.shape:
        return f"shape {mine.shape}, expected {theirs.shape}"
    if theirs.dtype.kind in "OU":
        return "" if np.array_equal(mine, theirs) else "texts differ"
    if mine.dtype != theirs.dtype and (theirs.dtype.itemsize > 1 or theirs.dtype.kind in "iub"):
        return f"dtype {mine.dtype}, expected {theirs.dtype}"
    if mine.dtype.kind in "iub":
        return "" if np.array_equal(mine, theirs) else "values differ"
    unit = TOLERANCES.get(mine.dtype.name, 0)
    with np.errstate(all="ignore"):
        mine, theirs = (
            item if item.dtype.kind == "c" else item.astype(np.float64) for item in (mine, theirs)
        )
        close = np.allclose(mine, theirs, max(rtol, unit), max(atol, unit), equal_nan=True)
        return "" if close else f"off by {np.nanmax(np.abs(mine - theirs), initial=0):.3g}"


# ---- the list of refusals

_HEAD = (
    "# Cases of onnx.backend.test of onnx {} that are refused, with the finding. The list may only shrink.\n"
)


def has_newer_cases() -> bool:
    """Whether the installed package is of a later release than the one that the list was made with."""
    first = REFUSALS.read_text().splitlines()[0]
    return Version(onnx.__version__) > Version(first.split("of onnx ")[1].split()[0])


def refusals() -> dict[str, str]:
    """Case → reason, from the list that stands."""
    rows = (line.split("  ", 1) for line in REFUSALS.read_text().splitlines() if line and line[0] != "#")
    return dict(rows)  # type: ignore[arg-type]


def write_refusals(outcomes: list[Outcome]) -> None:
    found = sorted((f"{item.kind}/{item.name}", item.reason) for item in outcomes if item.status == "refused")
    REFUSALS.write_text(
        _HEAD.format(onnx.__version__) + "".join(f"{name}  {reason}\n" for name, reason in found)
    )


def shard(number: int) -> list[str]:
    """A part of the cases, each part about as much work as any other."""
    return list(cases())[number::SHARDS]


# ---- the program


def _work(pipe: Any) -> None:
    while (name := pipe.recv()) is not None:
        pipe.send(run(name))


def _run_all(names: list[str]) -> Iterator[Outcome]:
    """In two processes, each watched: one that does not answer is ended and its case counted as a hang."""
    cases()
    waiting = names[::-1]
    workers: list[list[Any]] = []
    context = multiprocessing.get_context("fork")

    def start() -> list[Any]:
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        return [process, ours, None, 0.0]

    workers = [start() for _ in range(2)]
    while waiting or any(worker[2] for worker in workers):
        for worker in workers:
            if worker[2] is None and waiting:
                worker[2], worker[3] = waiting.pop(), time.monotonic()
                worker[1].send(worker[2])
        multiprocessing.connection.wait([worker[1] for worker in workers if worker[2]], timeout=1)
        for at, worker in enumerate(workers):
            if worker[2] is None:
                continue
            late = time.monotonic() - worker[3] > HANG_SECONDS
            if not worker[1].poll() and not late and worker[0].is_alive():
                continue
            kind, _, case = worker[2].partition("/")
            try:
                if late:
                    raise EOFError
                yield worker[1].recv()
                worker[2] = None
            except (EOFError, ConnectionResetError):
                worker[0].kill()
                worker[0].join()
                status = "hang" if late else "crash"
                yield Outcome(case, kind, "", status, f"the process ended with {worker[0].exitcode}")
                workers[at] = start()
    for worker in workers:
        worker[1].send(None)


def report(outcomes: list[Outcome]) -> None:
    slow = sorted(outcomes, key=lambda item: -item.seconds)[:10]
    print("slowest:", ", ".join(f"{item.name} {item.seconds:.1f} s" for item in slow))
    for kind in [*KINDS, ""]:
        own = [item for item in outcomes if kind in (item.kind, "")]
        counts = Counter(item.status for item in own)
        if own:
            print(
                f"{kind or 'all':18} {len(own):5} cases: "
                + ", ".join(f"{counts[status]} {status}" for status in STATUSES)
                + f" ({100 * counts['pass'] / len(own):.1f}%)"
            )


def main(words: list[str]) -> None:
    start = time.monotonic()
    outcomes = []
    for item in _run_all(chosen(word for word in words if word != "--write")):
        outcomes.append(item)
        if item.status != "pass":
            print(f"{item.status:8} {item.kind}/{item.name} ({item.op}): {item.reason}", flush=True)
    report(outcomes)
    if "--write" in words:
        write_refusals(outcomes)
    print(f"{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
