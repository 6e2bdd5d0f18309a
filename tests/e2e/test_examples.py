"""The examples run, each in a process of its own, and print what they promise."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
LIMIT_S = 300
PRINTED = {
    "deploy_model": ("type of main: R.Tensor((batch, 4)", "batch 1 -> (1, 4)", "batch 100 -> (100, 4)"),
    "serve_from_threads": ("40 requests answered by 3 threads",),
    "serve_http": ("200 requests answered in fewer calls",),
    "write_an_operator": ("R.call_tir(cls.running_mean, (lv,)", "1 rows agree", "5 rows agree with numpy"),
    "write_a_pass": ("R.add(x, x)", "after:", "R.multiply(x, R.const(2.0", "both compute the same"),
    "schedule_a_matmul": ("in T.parallel(12)", "in T.vectorized(16)", "sch.reorder(", "all agree with numpy"),
}
"""What each prints, in this order."""


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    if name == "deploy_model":
        pytest.importorskip("onnx", reason="the example makes an ONNX file")
    if name == "serve_http":
        pytest.importorskip("fastapi", reason="the example needs the extra serve")
        pytest.importorskip("uvicorn", reason="the example needs the extra serve")
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    at = 0
    for expected in PRINTED[name]:
        assert expected in done.stdout[at:], done.stdout
        at = done.stdout.index(expected, at) + len(expected)
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind"


def test_every_example_is_tested_and_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    files = {path.stem for path in EXAMPLES.glob("*.py")}
    assert files == PRINTED.keys()
    assert not [name for name in files if f"examples/{name}.py" not in readme]


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_is_short_and_says_what_it_shows(name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text()
    assert text.count("\n") <= 80
    assert f"python examples/{name}.py" in (ast.get_docstring(ast.parse(text)) or "")
