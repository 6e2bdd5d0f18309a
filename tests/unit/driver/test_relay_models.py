"""Relay programs on the command line: run, compile, inspect, and the executors."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs the extra cli")

import heddle
from heddle import relay
from heddle.driver.cli.entry import main
from heddle.vm.isa import FuncKind
from heddle.vm.program import FunctionRow

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
        for executor in ("graph", "aot", "interpreter", *(("vm",) if option != ("--profile",) else ())):
            err = refused(capsys, "D0301", "run", "net.relay", "--executor", executor, *option)
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


@pytest.mark.parametrize("executor", ["vm", "graph", "aot"])
@pytest.mark.parametrize("suffix", ["heddle", "so"])
def test_programs_of_an_executor_in_files(
    folder: Path, capsys: pytest.CaptureFixture[str], executor: str, suffix: str
) -> None:
    """A file runs as the text does, with its outputs in the same tuples, in a fresh process too."""
    (folder / "nested.relay").write_text(
        HEAD + "def @main(%x: Tensor[(3), float32]) { ((tanh(%x), (exp(%x),)), negative(%x)) }\n"
    )
    np.save(folder / "x.npy", np.array([0.5, -1, 2], "float32"))
    name = f"nested.{suffix}"
    assert main(("compile", "nested.relay", "-o", name, "--executor", executor, "--json")) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["executor"], facts["size_bytes"]) == (executor, (folder / name).stat().st_size)
    wanted = report(capsys, "nested.relay", "--input", "x=x.npy")["outputs"]
    found = report(capsys, name, "--input", "x=x.npy")["outputs"]
    assert main(("compile", "nested.relay", "-o", name, "--executor", executor, "--profile")) == 0
    assert "LegalizeOps" in capsys.readouterr().out
    command = [sys.executable, "-m", "heddle", "run", name, "--input", "x=x.npy", "--json"]
    fresh = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)["outputs"]
    for rows in (found, fresh):
        assert [row["mean"] for row in rows] == pytest.approx([row["mean"] for row in wanted], rel=1e-5)


def test_files_of_programs_beyond_a_graph(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for executor in ("vm", "aot"):
        assert main(("compile", "lists.relay", "-o", "lists.heddle", "--executor", executor)) == 0
        capsys.readouterr()
        found = report(capsys, "lists.heddle")
        assert found["outputs"][0]["mean"] == pytest.approx(2 * found["inputs"][0]["mean"])
    refused(capsys, "V0801", "compile", "lists.relay", "-o", "lists.heddle", "--executor", "graph")


def test_what_executors_run_is_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = {"vm": "invoke_packed", "graph": '"heads"', "aot": "call", "interpreter": "nn.dense"}
    for executor, word in words.items():
        assert main(("inspect", "net.relay", "--executor", executor)) == 0
        assert word in capsys.readouterr().out
        if executor != "interpreter":
            assert main(("compile", "net.relay", "-o", "net.heddle", "--executor", executor)) == 0
            assert main(("inspect", "net.heddle", "--stage", "bytecode")) == 0
            assert word in capsys.readouterr().out
    err = refused(capsys, "D0301", "inspect", "net.relay", "--executor", "vm", "--stage", "tir")
    assert "--stage has no meaning with --executor" in err


@pytest.mark.parametrize("executor", ["vm", "aot"])
def test_machines_of_executors_are_looked_into(
    folder: Path, capsys: pytest.CaptureFixture[str], executor: str
) -> None:
    assert main(("compile", "net.relay", "-o", "net.heddle", "--executor", executor)) == 0
    for model in (("net.relay", "--executor", executor), ("net.heddle",)):
        assert main(("debug", *model, "-c", "s; c")) == 0
        assert "the run is over" in capsys.readouterr().out
        assert main(("explain", *model)) == 0
        assert "one call" in capsys.readouterr().out
    assert main(("run", "net.heddle", "--profile")) == 0
    assert "profile of one call" in capsys.readouterr().out
    assert main(("info", "net.heddle")) == 0
    assert "input x" in capsys.readouterr().out
    with heddle.Session("net.heddle") as session:
        given = {"x": np.ones((2, 3), "float32"), "w": np.ones((4, 3), "float32")}
        assert len(session.run(given)) == 2


def test_what_has_no_machine_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("debug", "explain"):
        for executor in ("graph", "interpreter"):
            refused(capsys, "D0301", command, "net.relay", "--executor", executor)
    assert main(("compile", "net.relay", "-o", "net.heddle", "--executor", "graph")) == 0
    capsys.readouterr()
    for args in (("debug",), ("explain",), ("info",), ("run", "--profile")):
        refused(capsys, "D0301", args[0], "net.heddle", *args[1:])
    for wrong in (("-o", "x.c"), ("-o", "x.heddle", "--target", "llvm", "--target", "c")):
        refused(capsys, "D0301", "compile", "net.relay", "--executor", "vm", *wrong)
    for option in (("--arena",), ("--main",), ("--prefix", "a_"), ("--exec-mode", "bytecode")):
        refused(capsys, "D0301", "compile", "net.relay", "-o", "x.so", "--executor", "vm", *option)
    refused(capsys, "D0301", "compile", "net.relay", "-o", "x.heddle", "--executor", "interpreter")


@pytest.mark.parametrize("executor", ["vm", "graph", "aot"])
def test_files_that_call_the_process_are_not_run(
    folder: Path, capsys: pytest.CaptureFixture[str], executor: str
) -> None:
    """Of a program that was altered to call a function that the process registered."""
    mod = relay.parse((folder / "net.relay").read_text())
    if executor == "vm":
        made = relay.vm.compile(mod)
        rows = made.program.functions
        kernel = next(number for number, row in enumerate(rows) if row.name.startswith("fused"))
        changed = (*rows[:kernel], replace(rows[kernel], name="tests.of_the_process"), *rows[kernel + 1 :])
        made.program = replace(made.program, functions=changed)
    else:
        made = relay.build(mod, executor=executor)
        if executor == "graph":
            nodes = tuple(
                node if node.is_input else replace(node, function="tests.of_the_process")
                for node in made.graph.nodes
            )
            made.graph = replace(made.graph, nodes=nodes)
        else:
            rows = made.lib.program.functions
            changed = (*rows, FunctionRow(FuncKind.PACKED, "tests.of_the_process", -2))
            made.lib.program = replace(made.lib.program, functions=changed)
    made.export_library("altered.heddle")
    heddle.register_global_func("tests.of_the_process", lambda *args: None, override=True)
    err = refused(capsys, "S0401", "run", "altered.heddle")
    assert "tests.of_the_process" in err


def test_relays_machine_takes_the_options_of_other_machines(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "two.relay").write_text(HEAD + "def @main(%x: Tensor[(3), float32]) { exp(%x) + %x }\n")
    assert main(("debug", "two.relay", "--executor", "vm", "-c", "break fused_exp_add; c")) == 0
    assert "fused_exp_add" in capsys.readouterr().out
    assert main(("debug", "two.relay", "--executor", "vm", "--unfused", "-c", "break exp; c")) == 0
    assert "fused" not in capsys.readouterr().out
    assert main(("explain", "net.relay", "--executor", "vm", "--precision", "bf16")) == 0
    capsys.readouterr()
    refused(capsys, "D0103", "explain", "net.relay", "--executor", "vm", "--precision", "fp8")
