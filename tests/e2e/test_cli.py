"""The command line on good and bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.command_line import DENSE, environment, heddle

pytest.importorskip("typer", reason="the command line needs the extra cli")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`dense.py` and the compiled `dense.heddle`."""
    path = tmp_path_factory.mktemp("cli")
    (path / "dense.py").write_text(DENSE)
    done = heddle("compile", "dense.py", "-o", "dense.heddle", cwd=path)
    assert done.code == 0, done.err
    return path


def test_run_shows_values_and_times(folder: Path) -> None:
    done = heddle("run", "dense.py", "--dim", "n=3", "--repeat", 2, cwd=folder)
    assert done.code == 0, done.err
    for word in (
        "inputs",
        "outputs",
        "(3, 8)",
        "(3, 4)",
        "float32",
        "compile time",
        "latency",
        "peak memory",
    ):
        assert word in done.out


@pytest.mark.parametrize("model", ["dense.py", "dense.heddle"])
def test_json_has_all_of_it(folder: Path, model: str) -> None:
    done = heddle("run", model, "--dim", "n=5", "--json", "--seed", 3, "--threads", 1, cwd=folder)
    report = json.loads(done.out)
    assert (report["dims"], report["num_threads"]) == ({"n": 5}, 1)
    assert [row["shape"] for row in report["inputs"]] == [[5, 8], [8, 4], [5]]
    assert report["outputs"][0]["shape"] == [5, 4]
    assert report["latency_ms"]["median"] > 0
    assert report["peak_memory_bytes"] > 0
    assert sum(report["phases_s"].values()) == pytest.approx(report["compile_s"])


def test_saved_model_gives_the_same(folder: Path) -> None:
    runs = [
        json.loads(heddle("run", model, "--dim", "n=4", "--json", cwd=folder).out)
        for model in ("dense.py", "dense.heddle")
    ]
    assert runs[0]["outputs"] == runs[1]["outputs"]


def test_a_terminal_without_a_name_s_letters(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "modèle.heddle").write_bytes((folder / "dense.heddle").read_bytes())
    done = heddle("run", "modèle.heddle", "--repeat", 1, cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert done.code == 0, done.err
    assert done.out.startswith("mod\\xe8le.heddle on ")


def test_a_dimension_nobody_gave_is_one_and_noted(folder: Path) -> None:
    done = heddle("run", "dense.heddle", cwd=folder)
    assert done.code == 0
    assert "'n' was not given; it is 1" in done.out


def test_input_from_file(folder: Path) -> None:
    np.save(folder / "x.npy", np.full((2, 8), 0.5, "float32"))
    done = heddle("run", "dense.heddle", "--input", "x=x.npy", "--json", cwd=folder)
    report = json.loads(done.out)
    assert report["dims"] == {"n": 2}
    assert report["inputs"][0]["mean"] == 0.5


@pytest.mark.parametrize(
    "stage", ["relax", "legalized", "fused", "scheduled", "tir", "llvm", "asm", "bytecode", "memory"]
)
def test_inspect_every_stage(folder: Path, stage: str) -> None:
    done = heddle("inspect", "dense.py", "--stage", stage, cwd=folder)
    assert done.code == 0, done.err
    sign = {"llvm": "define", "asm": ".text", "bytecode": "@main:", "memory": "bytes"}.get(
        stage, "I.ir_module"
    )
    assert sign in done.out


def test_explain(folder: Path) -> None:
    done = heddle("explain", "dense.py", "--dim", "n=3", "--threads", "1", "--json", cwd=folder)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["ceilings"]["num_threads"] == 1
    assert found["dims"] == {"n": 3}
    assert sum(row["total_us"] for row in found["kernels"]) == pytest.approx(found["kernels_us"])
    shown = heddle("explain", "dense.heddle", cwd=folder)
    assert shown.code == 0, shown.err
    assert found["kernels"][0]["name"] in shown.out
    assert "why not fused further" in shown.out


BAD = [
    (("run", "no.onnx"), "D0101", "no.onnx"),
    (("run", "dense.txt"), "D0101", ".heddle"),
    (("run", "onnx:light_resnet"), "D0101", "did you mean 'light_resnet50'"),
    (("run", "dense.heddle", "--dim", "k=3"), "D0201", "'k'"),
    (("run", "dense.heddle", "--dim", "n=x"), "D0201", "n=x"),
    (("run", "dense.heddle", "--dim", "n"), "D0201", "NAME=VALUE"),
    (("run", "dense.heddle", "--input", "y=x.npy"), "D0203", "'y'"),
    (("run", "dense.heddle", "--input", "x=missing.npy"), "D0203", "missing.npy"),
    (("run", "dense.heddle", "--input", "x=dense.py"), "D0203", "dense.py"),
    (("run", "dense.heddle", "--input", "x=double.npy"), "D0203", "expected dtype float32, got float64"),
    (("run", "dense.heddle", "--input", "x=vector.npy"), "D0203", "expected 2 dimensions"),
    (("run", "dense.heddle", "--input", "x=wide.npy"), "D0202", "expected 8 at axis 1"),
    (("run", "dense.heddle", "--input", "x=two.npy", "--dim", "n=3"), "D0202", "--dim n=3"),
    (("run", "dense.heddle", "--input", "x=two.npy", "--input", "s=three.npy"), "D0202", "'s'"),
    (("run", "dense.heddle", "--function", "mian"), "D0102", "did you mean 'main'"),
    (("run", "dense.heddle", "--compare", "onnxruntime"), "D0402", "ONNX"),
    (("inspect", "dense.py", "--stage", "tyr"), "D0301", "did you mean 'tir'"),
    (("inspect", "dense.heddle", "--stage", "relax"), "D0301", "bytecode"),
    (("inspect", "dense.py", "--stage", "fused", "--function", "f"), "D0102", "'f'"),
    (("compile", "dense.py", "-o", "nowhere/dense.heddle"), "S0101", "nowhere"),
    (("compile", "dense.py", "-o", "."), "S0101", "ordinary file"),
    (("compile", "dense.py", "-o", "/dev/null"), "S0101", "ordinary file"),
    (("run", "dense.py", "--target", "lvm"), "H0102", "lvm"),
    (("run", "broken.py"), "", "broken.py:"),
]


@pytest.fixture(scope="module")
def bad_folder(folder: Path) -> Path:
    arrays = {
        "double": np.zeros((2, 8)),
        "vector": np.zeros(8, "float32"),
        "wide": np.zeros((2, 9), "float32"),
        "two": np.zeros((2, 8), "float32"),
        "three": np.zeros(3, "int64"),
        "x": np.zeros((2, 8), "float32"),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    (folder / "broken.py").write_text(DENSE.replace("R.matmul(x, w)", "R.matmul(x, q)"))
    return folder


@pytest.mark.parametrize(
    ("args", "diagnostic", "words"), BAD, ids=lambda value: "_".join(value) if type(value) is tuple else ""
)
def test_bad_input(bad_folder: Path, args: tuple[str, ...], diagnostic: str, words: str) -> None:
    before = sorted(bad_folder.iterdir())
    done = heddle(*args, cwd=bad_folder)
    done.failed_with(diagnostic or done.err[6:11], words)
    assert sorted(bad_folder.iterdir()) == before


@pytest.mark.parametrize(
    "args", [("run",), ("run", "m.py", "--bogus"), ("walk",), ("run", "m.py", "--repeat", "-1")]
)
def test_malformed_command_line(args: tuple[str, ...]) -> None:
    done = heddle(*args)
    assert done.code == 2
    assert "Traceback" not in done.err


@pytest.mark.parametrize("kept", [0, 7, 40, 500, -1])
def test_truncated_artefact(folder: Path, tmp_path: Path, kept: int) -> None:
    data = (folder / "dense.heddle").read_bytes()
    (tmp_path / "short.heddle").write_bytes(data[:kept])
    done = heddle("run", "short.heddle", cwd=tmp_path)
    done.failed_with(done.err[6:11])
    assert done.err[6] == "F"


@pytest.mark.parametrize("where", [3, 10, 30, 70, 0.3, 0.6, 0.99])
def test_flipped_bit(folder: Path, tmp_path: Path, where: float) -> None:
    data = bytearray((folder / "dense.heddle").read_bytes())
    data[where if isinstance(where, int) else int(where * len(data))] ^= 4
    (tmp_path / "bad.heddle").write_bytes(data)
    done = heddle("run", "bad.heddle", cwd=tmp_path)
    done.failed_with(done.err[6:11])
    assert done.err[6] == "F"


def test_traceback_on_request(folder: Path) -> None:
    done = heddle("run", "no.onnx", cwd=folder, HEDDLE_TRACEBACK="1")
    assert done.code == 1
    assert "Traceback" in done.err


def test_full_disk_for_output(folder: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "heddle", "run", "dense.heddle", "--json"],
            cwd=folder,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            check=False,
            timeout=120,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("error[S0101]")
    assert "Traceback" not in done.stderr


def test_interrupt_during_compile_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from heddle.driver.cli import main\n"
        "from heddle.driver.phases import PhaseClock\n"
        "PhaseClock.run_after_pass = lambda *_: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.exit(main(['compile', 'dense.py', '-o', sys.argv[1]]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "out.heddle")],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
    assert os.listdir(tmp_path) == []


def test_artefact_runs_without_the_compiler(folder: Path) -> None:
    program = (
        "import sys, numpy as np\n"
        "import heddle.runtime\n"
        "ex = heddle.runtime.load_module('dense.heddle')\n"
        "import heddle.vm.relax as vm\n"
        "x, w, s = np.ones((3, 8), 'float32'), np.ones((8, 4), 'float32'), np.arange(3)\n"
        "y = vm.VirtualMachine(ex, heddle.runtime.cpu())['main'](x, w, s).numpy()\n"
        "assert y.tolist() == [[8.0] * 4, [9.0] * 4, [10.0] * 4], y\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    modules = done.stdout.split()
    rooms = {name.split(".")[1] for name in modules if name.startswith("heddle.")}
    assert rooms <= {"facade", "support", "systems", "runtime", "vm"}
    assert {name for name in modules if name.startswith("heddle.systems.")} <= {"heddle.systems.types"}
    assert not {"onnx", "llvmlite.ir", "heddle.graph", "heddle.relax", "heddle.ir", "heddle.codegen"} & set(
        modules
    )


def test_command_line_runs_artefact_without_the_compiler(folder: Path) -> None:
    program = (
        "import sys\nfrom heddle.driver.cli import main\n"
        "assert main(['run', 'dense.heddle', '--json']) == 0\nprint(*sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    modules = set(done.stdout.split("\n")[-2].split())
    compiler = {"heddle.graph", "heddle.relax", "heddle.ir", "heddle.codegen", "heddle.tir", "heddle.lower"}
    assert not ({"onnx", "llvmlite.ir"} | compiler) & modules


def test_missing_command_line_packages_are_named(folder: Path) -> None:
    program = (
        "import sys\nsys.modules['typer'] = None\n"
        "from heddle.driver.cli import main\nsys.exit(main(['run', 'x']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error[D0401]: the command line needs the package 'typer'")
    assert "heddle-compiler[cli]" in done.stderr


def test_packaged_network_agrees_with_onnxruntime() -> None:
    pytest.importorskip("onnx", reason="the model comes with the extra onnx")
    pytest.importorskip("onnxruntime", reason="comparing needs the extra bench")
    done = heddle("run", "onnx:light_squeezenet", "--compare", "onnxruntime", "--repeat", 1, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["comparison"]["agrees"]


def test_a_malformed_dimension_has_a_place(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(DENSE.replace('"n", 8', '"-1n", 8'))
    heddle("run", "odd.py", cwd=tmp_path).failed_with("R0401", "'-1n'", "odd.py:6", "^")


FILES = {
    "of no known kind": ("llvm", "a.txt", "D0106", "ends in .heddle"),
    "without a suffix": ("llvm", "a", "D0106", "ends in .heddle"),
    "C of machine code": ("llvm", "c.c", "D0107", "--target c"),
    "of a kind without such an option": ("c -libs=cublas", "c.heddle", "H0103", "libs"),
    "a Linux name for Windows": ("llvm -mtriple=x86_64-pc-windows-gnu", "x.so", "U0510", "windows"),
    "a Linux name for WebAssembly": ("llvm -mtriple=wasm32-unknown-unknown", "x.so", "U0510", "wasm32"),
    "a static library for macOS": ("llvm -mtriple=arm64-apple-macosx11", "x.a", "U0510", "macos"),
    "a macOS name for Linux": ("llvm -mtriple=aarch64-linux-gnu", "x.dylib", "U0510", "for macOS"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_cannot_be_made_are_not_written(folder: Path, tmp_path: Path, name: str) -> None:
    target, output, code, word = FILES[name]
    done = heddle("compile", folder / "dense.py", "-o", tmp_path / output, "--target", target)
    done.failed_with(code, word)
    assert list(tmp_path.iterdir()) == []


def test_a_file_for_another_machine_says_so_when_it_is_run(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.heddle"
    target = "llvm -mtriple=aarch64-linux-gnu"
    assert heddle("compile", folder / "dense.py", "-o", model, "--target", target).code == 0
    heddle("run", model).failed_with("F0111", "aarch64-linux", "compile for this processor")
