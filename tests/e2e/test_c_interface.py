"""Libraries with their headers: C programs by the line that `heddle compile --main` shows."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from heddle.driver.c_interface import header_text
from heddle.driver.signature import Signature, TensorSpec
from tests.e2e.command_line import heddle

MODEL = """
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("n", 3), "float32"), int: R.Tensor((), "int64"), b: R.Tensor(("n", 1), "bool")
    ) -> R.Tuple(R.Tensor(("n", 3), "float32"), R.Tensor((), "int64")):
        y = R.where(b, x, R.multiply(x, x))
        k = R.add(int, R.const(5, "int64"))
        return (y, k)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.py").write_text(MODEL)
    return tmp_path


def _built(folder: Path, *args: str) -> Path:
    """The program that the shown line makes. Warnings are errors."""
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler here")
    shown = heddle("compile", "m.py", *args, "--main", cwd=folder)
    assert shown.code == 0, shown.err
    line = next(line for line in shown.out.splitlines() if line.strip().startswith("cc "))
    words = [compiler, *shlex.split(line)[1:], "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(words, cwd=folder, check=True)
    return folder / words[words.index("-o") + 1]


@pytest.mark.parametrize(
    "args", [("-o", "m.so"), ("-o", "m.a"), ("-o", "m.so", "--prefix", "my_")], ids=["so", "a", "prefix"]
)
def test_the_line_that_is_shown_builds_a_program(folder: Path, args: tuple[str, ...]) -> None:
    program = _built(folder, *args)
    for rows in (0, 1, 2):
        done = subprocess.run([program, str(rows)], capture_output=True, text=True, check=True, cwd="/")
        lines = done.stdout.splitlines()
        x = (np.arange(rows * 3) % 7 - 3).astype(np.float64)
        assert lines[0] == f"output 0: shape ({rows}, 3), type 2, 32 bits"
        np.testing.assert_array_equal(np.array(lines[1].split(), float), x * x)
        assert lines[2:] == ["output 1: shape (), type 0, 64 bits", "  5"]


def test_the_line_holds_in_other_folders(folder: Path) -> None:
    (folder / "a b").mkdir()
    program = _built(folder, "-o", "a b/m-1.so")
    assert program.parent.name == "a b"
    subprocess.run([program], check=True, capture_output=True, cwd="/")


def test_files_of_others_are_left_alone(folder: Path) -> None:
    (folder / "m.h").write_text("mine")
    heddle("compile", "m.py", "-o", "m.so", cwd=folder).failed_with("D0109", "m.h")
    assert not (folder / "m.so").exists() and (folder / "m.h").read_text() == "mine"
    (folder / "m.h").unlink()
    for _ in range(2):  # our own header is written again
        assert heddle("compile", "m.py", "-o", "m.so", cwd=folder).code == 0
    assert (folder / "m.h").read_text().startswith("/* Made by heddle")
    (folder / "main.c").write_text("mine")
    heddle("compile", "m.py", "-o", "m.so", "--main", cwd=folder).failed_with("D0109", "main.c")
    assert (folder / "main.c").read_text() == "mine"


@pytest.mark.parametrize("option", [("--main",), ("--prefix", "a_")])
def test_options_of_libraries(folder: Path, option: tuple[str, ...]) -> None:
    heddle("compile", "m.py", "-o", "m.heddle", *option, cwd=folder).failed_with("D0301", option[0])


def test_include_dir() -> None:
    assert (Path(heddle("include-dir").out.strip()) / "heddle.h").is_file()


def test_completion() -> None:
    shown = heddle(_HEDDLE_COMPLETE="complete_bash", COMP_WORDS="heddle comp", COMP_CWORD="1")
    assert shown.out.split() == ["compile"]


@pytest.mark.parametrize("model", ["m.py", "m.so", "m.heddle"])
def test_outputs_as_files(folder: Path, model: str) -> None:
    if model != "m.py":
        assert heddle("compile", "m.py", "-o", model, cwd=folder).code == 0
    x = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")
    np.save(folder / "x.npy", x)
    np.save(folder / "b.npy", np.array([[True], [False], [True], [False]]))
    np.save(folder / "k.npy", np.int64(7))
    given = [
        word
        for name, file in (("x", "x"), ("b", "b"), ("int", "k"))
        for word in ("--input", f"{name}={file}.npy")
    ]
    done = heddle("run", model, *given, "--output", "out", "--repeat", "0", "--json", cwd=folder)
    assert done.code == 0, done.err
    is_told = model != "m.py", model == "m.heddle"  # libraries cannot be signed
    assert ("holds machine code" in done.err, "--require-signature" in done.err) == is_told
    names = [each["name"] for each in json.loads(done.out)["outputs"]]
    assert sorted(path.stem for path in (folder / "out").iterdir()) == sorted(names) == ["k", "y"]
    y = np.load(folder / "out" / "y.npy")
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, np.where(np.arange(4)[:, None] % 2 == 0, x, x * x))
    assert np.load(folder / "out" / "k.npy") == 12


def test_outputs_need_a_folder(folder: Path) -> None:
    heddle("run", "m.py", "--output", "m.py", cwd=folder).failed_with("S0101", "m.py")
    heddle("run", "m.py", "--output", "a/b", cwd=folder).failed_with("S0101", "a/b")


def test_headers_of_hostile_signatures(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler here")
    spec = TensorSpec
    odd = Signature(
        (
            spec("*/ int main", "float16", ("n", "n * 2 + 1")),
            spec("é", "int4", ("*/", 2)),
            spec("_", "float8_e4m3fn", ()),
            spec("n", "bool", (0,)),
        ),
        (spec("y", None, None), spec("y", "string", ("n",)), spec('"\\', "float64", ())),
    )
    names = {'ma"\\n*/': odd, "empty": Signature((), ()), "tuple": Signature((spec("t", kind="tuple"),), ())}
    text = header_text("1-é", {name: signature.to_json() for name, signature in names.items()})
    (tmp_path / "m.c").write_text(text + "int main(void) { return 0; }\n")
    include = heddle("include-dir").out.strip()
    for language in ("c", "c++"):
        words = [compiler, "-x", language, f"-I{include}", "-Wall", "-Werror", "-fsyntax-only", "m.c"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        if language == "c++" and "cc1plus" in done.stderr:
            continue  # there is no C++ compiler here
        assert done.returncode == 0, done.stderr
