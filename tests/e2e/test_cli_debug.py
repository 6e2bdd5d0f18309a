"""`heddle debug` and `heddle run --profile` as processes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.command_line import heddle

pytest.importorskip("typer", reason="the command line needs the extra cli")

MODEL = """
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("n", 6), "float32"), w: R.Tensor((6, 4), "float32")
    ) -> R.Tensor(("n", 4), "float32"):
        with R.dataflow():
            h = R.nn.relu(R.matmul(x, w))
            y = R.log(R.subtract(h, R.const(0.5, "float32")))
            R.output(y)
        return y
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`model.py`, the compiled `model.heddle`, and inputs."""
    path = tmp_path_factory.mktemp("debug")
    (path / "model.py").write_text(MODEL)
    rng = np.random.default_rng()
    np.save(path / "x.npy", np.full((3, 6), -1.0, "float32"))
    np.save(path / "w.npy", np.abs(rng.standard_normal((6, 4))).astype("float32"))
    done = heddle("compile", "model.py", "-o", "model.heddle", cwd=path)
    assert done.code == 0, done.err
    return path


INPUTS = ("--input", "x=x.npy", "--input", "w=w.npy")


@pytest.mark.parametrize("model", ["model.py", "model.heddle"])
def test_finds_the_nan(folder: Path, model: str) -> None:
    commands = "continue; print %0[0]; reverse-continue"
    done = heddle("debug", model, *INPUTS, "--break", "nan", "-c", commands, cwd=folder)
    assert done.code == 0, done.err
    line = next(n for n, text in enumerate(MODEL.splitlines(), 1) if "R.log" in text)
    assert "breakpoint 1: nan in %" in done.out
    assert f"from model.py:{line}:" in done.out
    assert "12 NaN" in done.out
    assert "[-1. -1. -1. -1. -1. -1.]" in done.out


def test_unfused_names_one_node(folder: Path) -> None:
    done = heddle("debug", "model.py", *INPUTS, "--unfused", "--break", "nan", "-c", "c", cwd=folder)
    found = done.out.split("breakpoint 1")[1]
    assert "call  log " in found
    assert "= float32[3, 4] -0.5 .. -0.5, mean -0.5" in found  # what the logarithm was taken of
    refused = heddle("debug", "model.heddle", "--unfused", "-c", "c", cwd=folder)
    refused.failed_with("D0301", "--unfused")


def test_scripts_and_exit_codes(folder: Path) -> None:
    (folder / "commands.txt").write_text("# to the end\nstep 3\ncontinue\n\nback\nwhere\n")
    done = heddle("debug", "model.py", "--dim", "n=2", "--script", "commands.txt", "-c", "info", cwd=folder)
    assert done.code == 0, done.err
    assert "the run is over: 'main' returned float32[2, 4]" in done.out
    assert "recording of 'main'" in done.out
    wrong = heddle("debug", "model.heddle", "-c", "wronk; step", cwd=folder)
    assert wrong.code == 1
    assert "error[V0505]: unknown command 'wronk'" in wrong.out
    heddle("debug", "model.heddle", "--break", "nowhere", "-c", "c", cwd=folder).failed_with(
        "V0506", "nowhere"
    )
    heddle("debug", "model.heddle", "--script", "none.txt", cwd=folder).failed_with("S0102", "none.txt")
    heddle("debug", "model.heddle", "--function", "mian", "-c", "c", cwd=folder).failed_with("D0102", "main")


def test_run_profiles(folder: Path) -> None:
    files = ("--profile-json", "profile.json", "--chrome-trace", "trace.json")
    done = heddle("run", "model.heddle", "--dim", "n=5", "--repeat", 1, "--profile", *files, cwd=folder)
    assert done.code == 0, done.err
    assert "GFLOP/s" in done.out
    profile = json.loads((folder / "profile.json").read_text())
    kernel = next(row for row in profile["calls"] if row["name"].startswith("fused_matmul"))
    assert kernel["operators"] == ["matmul", "nn.relu", "subtract", "log"]
    assert kernel["flops"] == 5 * 4 * (6 * 2 + 2)
    trace = json.loads((folder / "trace.json").read_text())
    assert any(event["ph"] == "X" and event["name"] == "main" for event in trace["traceEvents"])


def test_profile_in_json(folder: Path) -> None:
    done = heddle("run", "model.heddle", "--dim", "n=2", "--repeat", 0, "--profile", "--json", cwd=folder)
    report = json.loads(done.out)
    assert report["profile"]["num_instructions"] > 0
    done = heddle("run", "model.heddle", "--chrome-trace", "no/such/folder/t.json", cwd=folder)
    done.failed_with("S0101", "no/such/folder")


@pytest.mark.parametrize("model", ["model.py", "model.heddle"])
def test_bytecode_with_sources(folder: Path, model: str) -> None:
    plain = heddle("inspect", model, "--stage", "bytecode", "--function", "main", cwd=folder)
    marked = heddle("inspect", model, "--stage", "bytecode", "--function", "main", "--sources", cwd=folder)
    lines = [line for line in marked.out.splitlines() if not line.startswith("  ; model.py:")]
    assert "; model.py:" in marked.out
    assert lines == plain.out.splitlines()
