"""Requests that a command refuses before it works, in this process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the command line needs the extra cli")

from heddle.driver.cli.entry import main
from heddle.runtime import KernelModule, Variant, VariantsModule, load_module
from heddle.runtime.needs import Needs
from heddle.runtime.processor import this_processor
from tests.e2e.command_line import DENSE


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`m.py`, and `v.heddle` with two variants, which is never run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_text(DENSE)
    platforms = (this_processor().platform, "no-such")
    variants = [Variant(name, "llvm", Needs(name), KernelModule([], [], "llvm")) for name in platforms]
    VariantsModule(variants).export_library(tmp_path / "v.heddle")
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], code: str, *args: str) -> str:
    assert main(args) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"error[{code}]: "), err
    return err


def test_a_model_is_not_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.link(folder / "m.py", folder / "linked.heddle")
    (folder / "pointing.heddle").symlink_to("m.py")
    for name in ("m.py", "./m.py", "linked.heddle", "pointing.heddle"):
        assert "is the model itself" in refused(capsys, "D0106", "compile", "m.py", "-o", name)
    for option in ("--profile-json", "--chrome-trace"):
        refused(capsys, "D0106", "run", "m.py", option, "m.py")
        refused(capsys, "D0106", "run", "v.heddle", option, "v.heddle")
    assert (folder / "m.py").read_text() == DENSE


@pytest.mark.parametrize("name", ["new.onnx", "new.ONNX", "new.py"])
def test_a_compiled_model_is_not_called_as_one_that_is_not(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    err = refused(capsys, "D0106", "compile", "m.py", "-o", name)
    assert "taken for a model that is not compiled" in err and ".heddle" in err
    assert not (folder / name).exists()


@pytest.mark.parametrize("command", ["run", "inspect", "debug", "explain"])
def test_options_of_the_compiler_are_not_for_compiled_models(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    err = refused(capsys, "D0301", command, "v.heddle", "--target", "llvm")
    assert "--target is for models that are not compiled" in err
    if command == "run":
        err = refused(capsys, "D0301", command, "v.heddle", "--exec-mode", "foo", "--precision", "fp32")
        assert "--exec-mode and --precision are for models that are not compiled" in err


def test_variants_are_all_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    err = refused(capsys, "D0301", "inspect", "v.heddle", "--stage", "variants", "--variant", "no-such")
    assert "--variant no-such" in err
    assert main(["inspect", "v.heddle", "--stage", "variants"]) == 0
    assert "no-such: lacks no-such" in capsys.readouterr().out


def test_a_library_for_several_targets(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    targets = ("--target", "llvm", "--target", "llvm -mcpu=x86-64")
    for name in ("m.so", "m.SO", "m.a"):
        err = refused(capsys, "U0509", "compile", "m.py", "-o", name, *targets)
        assert "for 2" in err and "one target for each library" in err and "m.heddle" in err
        assert "select" not in err and not (folder / name).exists()


@pytest.mark.parametrize(
    "args", [("run", "m.py"), ("inspect", "m.py", "--stage", "tir"), ("compile", "m.py", "-o", "o.heddle")]
)
def test_an_empty_target(folder: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...]) -> None:
    refused(capsys, "H0101", *args, "--target", "")
    if args[0] == "compile":
        refused(capsys, "H0101", *args, "--target", "llvm", "--target", "")


def test_what_is_no_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "dir.heddle").mkdir()
    os.mkfifo(folder / "pipe.heddle")
    for name, kind in (("dir.heddle", "a folder"), ("pipe.heddle", "no ordinary file")):
        err = refused(capsys, "D0101", "run", name)
        assert f"no model at '{name}': expected a file, and it is {kind}" in err and "did you mean" not in err
    assert "did you mean 'v.heddle'" in refused(capsys, "D0101", "run", "vv.heddle")
    (folder / "v.heddle").unlink()
    assert "did you mean" not in refused(capsys, "D0101", "run", "pipes.heddle")


def test_case_of_a_suffix_does_not_matter(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "M.PY").write_text(DENSE)
    assert main(["inspect", "M.PY"]) == 0
    assert "R.matmul" in capsys.readouterr().out
    (folder / "v.heddle").rename("V.HEDDLE")
    assert load_module("V.HEDDLE", "no-such").kind == "llvm"
    assert main(["inspect", "V.HEDDLE", "--stage", "variants"]) == 0


def test_messages_do_not_steer_the_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    err = refused(capsys, "U0508", "inspect", "v.heddle", "--stage", "bytecode", "--variant", "x")
    assert "no-such" in err
    err = refused(capsys, "D0201", "run", "v.heddle", "--dim", "\x1b[31m=\x1b[32m", "--variant", "x")
    assert "\x1b" not in err and "\\x1b[31m" in err
