"""Models as libraries: for C programs without Python, and for load_module."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from heddle.driver.compile import build
from heddle.driver.models import find_model, import_model
from heddle.runtime import cpu, linker, load_module
from heddle.runtime import native as native_package
from heddle.runtime.linker import archive_command, shared_library_command
from heddle.support.diagnostics import UsageError
from heddle.support.settings import settings
from heddle.vm.relax import VirtualMachine

MODEL = """
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("n", 8), "float32")
    ) -> R.Tuple(R.Tensor(("n", 8), "float32"), R.Tensor((), "float32")):
        with R.dataflow():
            y = R.nn.relu(R.multiply(x, x))
            z = R.sum(R.subtract(y, x))
            R.output(y, z)
        return (y, z)
"""
EXAMPLE = Path(__file__).parents[2] / "examples" / "c" / "run.c"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """model.py, model.so and libmodel.a."""
    try:
        shared_library_command(), archive_command()
    except UsageError as error:
        pytest.skip(str(error))
    path = tmp_path_factory.mktemp("library")
    (path / "model.py").write_text(MODEL)
    executable = build(import_model(find_model(str(path / "model.py"))), exec_mode="compiled")
    executable.export_library(path / "model.so")
    executable.export_library(path / "libmodel.a")
    return path


def expected(rows: int) -> tuple[np.ndarray, np.ndarray]:
    x = (np.arange(rows * 8) % 7 - 3).astype(np.float32).reshape(rows, 8)
    y = np.maximum(x * x, 0)
    return y, (y - x).sum()


@pytest.mark.parametrize("library", ["model.so", "libmodel.a"])
def test_c_program(folder: Path, library: str) -> None:
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler here")
    include = f"-I{Path(str(native_package.__file__)).parent}"
    program = folder / f"run-{library}"
    flags = ["-Wall", "-Werror", include, library, f"-Wl,-rpath,{folder}", "-lpthread", "-lm"]
    subprocess.run([compiler, str(EXAMPLE), *flags, "-o", str(program)], cwd=folder, check=True)
    for rows in (0, 1, 5):
        done = subprocess.run([str(program), str(rows)], capture_output=True, text=True, check=True)
        printed = [np.fromstring(line, sep=" ") for line in done.stdout.split("\n")[:2]]
        for got, wanted in zip(printed, expected(rows), strict=True):
            np.testing.assert_allclose(got, wanted.reshape(-1), rtol=1e-5)
    wrong = subprocess.run([str(program), "2", "9"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "match_cast error: size of dimension 1: expected 8, got 9" in wrong.stderr


@pytest.mark.fact("4.4")
def test_library_loads_again(folder: Path) -> None:
    loaded = load_module(folder / "model.so")
    machine = VirtualMachine(loaded, cpu())
    x = (np.arange(40) % 7 - 3).astype(np.float32).reshape(5, 8)
    for got, wanted in zip(machine["main"](x), expected(5), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-6)
    again = folder / "again.heddle"
    loaded.export_library(again)
    assert load_module(again)["as_text"]() == loaded["as_text"]()


def use_linker(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    changed = replace(settings(), linker=name)
    monkeypatch.setattr(linker, "settings", lambda: changed)


def test_no_linker_and_a_linker_that_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_module(folder / "model.so")
    target = folder / "other.so"
    use_linker(monkeypatch, "no-such-linker")
    with pytest.raises(UsageError, match="U0504"):
        loaded.export_library(target)
    use_linker(monkeypatch, "false")
    with pytest.raises(UsageError, match="U0505"):
        loaded.export_library(target)
    assert not target.exists() and not list(folder.glob(".other*"))


def test_another_library_is_none_of_ours(folder: Path) -> None:
    (folder / "text.so").write_text("no library")
    with pytest.raises(UsageError, match="S0102"):
        load_module(folder / "text.so")
