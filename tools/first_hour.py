"""The first hour of three users, played: one deploys a model, one ports a program of TVM, one looks inside.

    python -m tools.first_hour [--fresh] [--journey NAME] [-o docs/first-hour.md]

Each step is a command line, how it must end, and words that its output must have. `--fresh` makes a virtual
environment for each journey and installs what its first lines say; otherwise this environment's commands are
used. The page that is written has every command and what it printed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_MAX_LINES = 24
"""Of a command's output on the page; the middle of a longer one is left out."""
_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class Step:
    """A command, the status that it must end with, and words of its output, in order."""

    command: str
    words: Sequence[str] = ()
    status: int = 0


@dataclass(frozen=True, slots=True)
class Journey:
    """What somebody does in a folder with these files, with the extras that they install first."""

    title: str
    extras: str
    files: Mapping[str, str]
    steps: Sequence[Step]


_MAKE_MODEL = """
import numpy as np, onnx
from onnx import TensorProto, helper, numpy_helper


def value(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


w = np.random.default_rng(0).standard_normal((16, 4)).astype("float32")
dense = helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")
top = helper.make_node("Softmax", ["y"], ["scores"], name="top")
inputs, outputs = [value("x", "batch", 16)], [value("scores", "batch", 4)]
graph = helper.make_graph([dense, top], "classifier", inputs, outputs, [numpy_helper.from_array(w, "w")])
opset = helper.make_opsetid("", 21)
onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=10), "classifier.onnx")
"""
_SERVE = """
import numpy as np
import heddle

with heddle.Session("classifier.heddle") as session:
    print(session.inputs, session.outputs)
    print(session.run({"x": np.ones((3, 16), "float32")})["scores"].shape)
"""
_RUN_ALONE = """
import sys

sys.modules["llvmlite"] = None
import numpy as np
from heddle.runtime import LibraryProgram

(scores,) = LibraryProgram("classifier.heddle").run(np.ones((3, 16), "float32"))
print(scores.shape, "without the compiler")
"""
DEPLOY = Journey(
    "Who deploys a model",
    "onnx,cli,sign",
    {"make_model.py": _MAKE_MODEL, "serve.py": _SERVE, "run_alone.py": _RUN_ALONE},
    [
        Step("heddle --version", ("0.",)),
        Step("heddle --help", ("run", "compile", "inspect")),
        Step("python make_model.py"),
        Step("heddle info classifier.onnx", ("batch", "scores")),
        Step("heddle check classifier.onnx", ("classifier.onnx",)),
        Step("heddle run classifier.onnx --dim batch=3", ("scores",)),
        Step("heddle run classifier.onnx --dim batches=3", ("batches", "batch"), 1),
        Step("heddle run clasifier.onnx", ("clasifier.onnx", "classifier.onnx"), 1),
        Step("heddle compile classifier.onnx -o classifier.heddle", ("classifier.heddle",)),
        Step("heddle run classifier.heddle --dim batch=5", ("scores",)),
        Step("heddle run classifier.heddle --output results", ("scores",)),
        Step("python -c \"import numpy; print(numpy.load('results/scores.npy').shape)\"", ("4)",)),
        Step("heddle compile classifier.onnx -o classifier.txt", (".txt",), 1),
        Step("python serve.py", ("(3, 4)",)),
        Step("python run_alone.py", ("(3, 4) without the compiler",)),
        Step("heddle keygen me", ("me",)),
        Step("heddle run classifier.onnx --target cuda", ("cuda",), 1),
        Step("heddle run classifier.onnx --json", ('"outputs"',)),
        Step("heddle cache info", ("cache",)),
    ],
)
_PORT = """
import numpy as np
import heddle as tvm
from heddle import relax, te
from heddle.script import relax as R

x = relax.Var("x", R.Tensor(("n", 4), "float32"))
bb = relax.BlockBuilder()
with bb.function("main", [x]):
    with bb.dataflow():
        y = bb.emit(relax.op.nn.relu(x))
        twice = lambda t: te.compute(t.shape, lambda i, j: t[i, j] * 2.0, name="twice")
        z = bb.emit_output(bb.emit_te(twice, y))
    bb.emit_func_output(z)
mod = bb.get()
mod.show()
vm = relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())
print(vm["main"](np.array([[-1, 2, 3, -4]], "float32")))
"""
_SCHEDULE = """
from heddle import te, tir

A = te.placeholder((128,), name="A")
sch = tir.Schedule(te.create_prim_func([A, te.compute((128,), lambda i: A[i] * 2.0, name="B")]))
(i,) = sch.get_loops(sch.get_sblock("B"))
outer, inner = sch.split(i, factors=[None, 8])
sch.vectorize(inner)
sch.show()
sch.get_sblock("C")
"""
_TYPO = """
from heddle import relax

relax.op.nn.rellu
"""
_PROGRAM = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        y = R.add(x, x)
        z = R.add(x, x)
        return R.multiply(y, z)
"""
_WRONG = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        return R.matmul(x, x)
"""
PORT = Journey(
    "Who ports a program of TVM",
    "cli",
    {
        "port.py": _PORT,
        "schedule.py": _SCHEDULE,
        "typo.py": _TYPO,
        "program.py": _PROGRAM,
        "wrong.py": _WRONG,
    },
    [
        Step("python port.py", ("R.nn.relu", "[[0., 4., 6., 0.]]")),
        Step("python schedule.py", ("T.vectorized", "sch.split", "T0402"), 1),
        Step("python typo.py", ("rellu", "relu"), 1),
        Step("heddle ops", ("matmul",)),
        Step("heddle opt --pass EliminateCommonSubexpr program.py", ("R.multiply",)),
        Step("heddle opt --pass FuseOp program.py", ("FuseOp", "FuseOps"), 1),
        Step("heddle run program.py --dim n=2", ("(2, 4)", "outputs")),
        Step("heddle run wrong.py", ("wrong.py:5", "R.matmul(x, x)"), 1),
    ],
)
SEE = Journey(
    "Who wants to see inside",
    "onnx,cli",
    {"make_model.py": _MAKE_MODEL},
    [
        Step("python make_model.py"),
        *(
            Step(f"heddle inspect classifier.onnx --stage {stage}", words)
            for stage, words in (
                ("relax", ("R.matmul",)),
                ("legalized", ("T.prim_func",)),
                ("fused", ("R.call_tir",)),
                ("scheduled", ("T.vectorized",)),
                ("tir", ("T.prim_func",)),
                ("llvm", ("define",)),
                ("asm", ("ret",)),
                ("bytecode", ("main",)),
                ("memory", ("main",)),
            )
        ),
        Step("heddle inspect classifier.onnx --stage sheduled", ("sheduled", "scheduled"), 1),
        Step("heddle explain classifier.onnx --dim batch=64", ("Contraction", "would gain most")),
        Step("heddle run classifier.onnx --dim batch=64 --profile", ("dense",)),
        Step("heddle inspect classifier.onnx --html page.html", ("page.html",)),
        Step("heddle debug classifier.onnx --help", ("--break",)),
        Step("heddle bisect classifier.onnx --against interpreter", ("agree",)),
        Step("heddle passes", ("FuseOps",)),
    ],
)
JOURNEYS = {"deploy": DEPLOY, "port": PORT, "see": SEE}


@dataclass(frozen=True, slots=True)
class Played:
    """A step, what it printed, and what is wrong with that ("" for nothing)."""

    step: Step
    output: str
    fault: str


def play(journey: Journey, folder: Path, programs: Path) -> list[Played]:
    """Every step of a journey, in a folder, with the programs of an environment (its `bin`)."""
    for name, text in journey.files.items():
        (folder / name).write_text(text.lstrip("\n"))
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    settings = {**os.environ, "PATH": path, "HEDDLE_CACHE_DIR": str(folder / "cache"), "COLUMNS": "100"}
    places = {str(folder): ".", str(programs.parent): "venv"}
    return [_played(step, folder, settings, places) for step in journey.steps]


def _played(step: Step, folder: Path, settings: Mapping[str, str], places: Mapping[str, str]) -> Played:
    done = subprocess.run(
        ["bash", "-c", step.command],
        cwd=folder,
        env=settings,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    output = done.stdout + done.stderr
    for place, name in places.items():
        output = output.replace(place, name)
    at, faults = 0, []
    if done.returncode != step.status:
        faults.append(f"status {done.returncode}, expected {step.status}")
    for word in step.words:
        found = output.find(word, at)
        if found < 0:
            faults.append(f"{word!r} is not there")
        else:
            at = found + len(word)
    if "Traceback" in output and not step.command.startswith("python"):
        faults.append("a traceback")
    return Played(step, output, "; ".join(faults))


def _environment(folder: Path, extras: str) -> Path:
    """A new virtual environment with the package and extras; gives its `bin`."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", f"{ROOT}[{extras}]"]
    subprocess.run(install, check=True)
    return folder / "bin"


def page(journeys: Mapping[str, Sequence[Played]]) -> str:
    """What was played, as Markdown. Times and sizes are those of the machine that played it."""
    lines = [
        "# The first hour",
        "",
        "Three users' first commands, and what they print. `make first-hour` plays them.",
    ]
    for name, played in journeys.items():
        journey = JOURNEYS[name]
        lines += [
            "",
            f"## {journey.title}",
            "",
            f"After `pip install 'heddle-compiler[{journey.extras}]'`, with these files:",
        ]
        for file, text in journey.files.items():
            lines += ["", f"`{file}`:", "", "```python", text.strip(), "```"]
        for each in played:
            lines += ["", "```text", f"$ {each.step.command}", *_shown(each.output), "```"]
    return "\n".join(lines) + "\n"


def _shown(output: str) -> list[str]:
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in output.rstrip().split("\n")]
    if len(lines) > _MAX_LINES:
        lines = [*lines[: _MAX_LINES // 2], "...", *lines[-_MAX_LINES // 2 :]]
    return [line.replace("```", "` ` `") for line in lines]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--fresh", action="store_true", help="a new virtual environment for each journey")
    parser.add_argument("--journey", choices=JOURNEYS, action="append", help="only this one; may be repeated")
    parser.add_argument("-o", "--output", type=Path, help="where the page is written")
    asked = parser.parse_args()
    told: dict[str, list[Played]] = {}
    for name in asked.journey or JOURNEYS:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            programs = Path(sys.executable).parent
            if asked.fresh:
                programs = _environment(folder / "venv", JOURNEYS[name].extras)
            (folder / "work").mkdir()
            told[name] = play(JOURNEYS[name], folder / "work", programs)
        for each in told[name]:
            print(f"{name}: {each.step.command}: {each.fault or 'as expected'}")
    if asked.output is not None:
        asked.output.write_text(page(told))
    return int(any(each.fault for played in told.values() for each in played))


if __name__ == "__main__":
    raise SystemExit(main())
