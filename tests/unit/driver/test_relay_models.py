"""Relay programs on the command line: run, compile, inspect, and the executors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs the extra cli")

from heddle.driver.cli.entry import main

HEAD = '#[version = "0.0.5"]\n'
NET = HEAD + (
    "def @scale(%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] { %x * 2f }\n"
    "def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]) {\n"
    "  (nn.softmax(nn.dense(@scale(%x), %w)), tanh(%x))\n}\n"
)
LOOP = HEAD + (
    "def @main(%n: int32, %x: float32) -> float32 { if (%n == 0) { %x } else { @main(%n - 1, %x * 2f) } }\n"
)
LISTS = HEAD + (
    "type L { Nil, Cons(float32, L) }\n"
    "def @sum(%l: L) -> float32 { match (%l) { Nil => 0f, Cons(%x, %r) => %x + @sum(%r) } }\n"
    "def @main(%x: float32) { @sum(Cons(%x, Cons(%x, Nil))) }\n"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("net", NET), ("loop", LOOP), ("lists", LISTS)):
        (tmp_path / f"{name}.relay").write_text(text)
    return tmp_path


def report(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    assert main(("run", *args, "--repeat", "1", "--json")) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], code: str, *args: str) -> str:
    assert main(args) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"error[{code}]: "), err
    return err


def test_every_executor_gives_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng().standard_normal((2, 3)).astype("float32")
    np.save(folder / "x.npy", x)
    base = report(capsys, "net.relay", "--input", "x=x.npy")
    assert base["outputs"][1]["max"] == pytest.approx(float(np.tanh(x).max()), rel=1e-5)
    for executor in ("vm", "graph", "aot", "interpreter"):
        found = report(capsys, "net.relay", "--input", "x=x.npy", "--executor", executor)
        for one, other in zip(found["outputs"], base["outputs"], strict=True):
            assert (one["shape"], one["dtype"]) == (other["shape"], other["dtype"])
            for key in ("mean", "std", "min", "max"):
                assert one[key] == pytest.approx(other[key], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("executor", ["vm", "graph", "aot", "interpreter"])
def test_another_function(folder: Path, capsys: pytest.CaptureFixture[str], executor: str) -> None:
    found = report(capsys, "net.relay", "--function", "scale", "--executor", executor)
    assert found["outputs"][0]["max"] == pytest.approx(2 * found["inputs"][0]["max"])
    err = refused(capsys, "D0102", "run", "net.relay", "--function", "scal", "--executor", executor)
    assert "did you mean 'scale'" in err


def test_programs_beyond_a_graph(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("loop.relay", "lists.relay"):
        for executor in ("vm", "aot", "interpreter"):
            found = report(capsys, name, "--executor", executor)
            assert found["outputs"][0]["shape"] == []
        refused(capsys, "V0801", "run", name, "--executor", "graph")
    assert report(capsys, "lists.relay")["outputs"][0]["dtype"] == "float32"


def test_compiled_and_inspected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("compile", "net.relay", "-o", "net.heddle")) == 0
    capsys.readouterr()
    assert len(report(capsys, "net.heddle")["outputs"]) == 2
    for stage, word in (("relax", "R.nn.softmax"), ("bytecode", "softmax"), ("tir", "T.")):
        assert main(("inspect", "net.relay", "--stage", stage)) == 0
        assert word in capsys.readouterr().out
    assert "is the model itself" in refused(capsys, "D0106", "compile", "net.relay", "-o", "net.relay")
    assert "not compiled" in refused(capsys, "D0106", "compile", "net.relay", "-o", "other.relay")


def test_what_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean 'graph'" in refused(capsys, "D0301", "run", "net.relay", "--executor", "grap")
    for option in (("--profile",), ("--sanitize",), ("--exec-mode", "bytecode"), ("--compare", "fp32")):
        err = refused(capsys, "D0301", "run", "net.relay", "--executor", "vm", *option)
        assert option[0] in err
    (folder / "m.py").write_text("x = 1\n")
    assert "PATH.relay" in refused(capsys, "D0301", "run", "m.py", "--executor", "vm")
    (folder / "bad.relay").write_text(HEAD + "def @main(%x: float32) { tanhh(%x) }\n")
    err = refused(capsys, "Q0205", "run", "bad.relay")
    assert "tanh" in err
    (folder / "open.relay").write_text(HEAD + "def @main(%x: float32) { %x")
    assert "open.relay:2" in refused(capsys, "Q0202", "inspect", "open.relay")


def test_nested_tuples_have_the_same_outputs_from_every_executor(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "nested.relay").write_text(
        HEAD + "def @main(%x: Tensor[(3), float32]) { ((tanh(%x), (exp(%x),)), negative(%x)) }\n"
    )
    x = np.array([0.5, -1, 2], "float32")
    np.save(folder / "x.npy", x)
    for executor in ("vm", "graph", "aot", "interpreter"):
        found = report(capsys, "nested.relay", "--input", "x=x.npy", "--executor", executor)["outputs"]
        expected = [float(values.mean()) for values in (np.tanh(x), np.exp(x), -x)]
        assert [row["mean"] for row in found] == pytest.approx(expected, rel=1e-5)
