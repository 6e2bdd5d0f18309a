"""What the environment asks to see of passes, in processes of their own: settings are read once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import heddle
from heddle.script import from_source

heddle.compile(from_source('''
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            y = R.exp(R.negative(x))
            R.output(y)
        return y
'''))
"""


def run(cache: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HEDDLE_CACHE_DIR": str(cache), **variables}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=120
    )


def test_passes_are_shown_and_written(tmp_path: Path) -> None:
    """Also where the program is in the cache already, which runs no pass by itself."""
    assert run(tmp_path / "cache").returncode == 0
    folder = tmp_path / "deep" / "passes"
    done = run(tmp_path / "cache", HEDDLE_PRINT_AFTER="FuseOps, Simplify", HEDDLE_DUMP=str(folder))
    assert done.returncode == 0, done.stderr
    shown = [line for line in done.stderr.splitlines() if line.startswith("# after ")]
    assert set(shown) == {"# after FuseOps", "# after Simplify"}
    assert "fused_negative_exp" in done.stderr
    written = sorted(path.name for path in folder.iterdir())
    assert [name[:3] for name in written] == [f"{number:03d}" for number in range(len(written))]
    (fused,) = (path for path in folder.iterdir() if path.name[4:] == "FuseOps.py")
    assert "fused_negative_exp" in fused.read_text()
    everything = run(tmp_path / "cache", HEDDLE_PRINT_AFTER="all").stderr.count("# after ")
    assert everything == len(written)


def test_mistakes_are_told(tmp_path: Path) -> None:
    wrong = run(tmp_path, HEDDLE_PRINT_AFTER="FuseOp")
    assert wrong.returncode != 0
    assert "D0302" in wrong.stderr
    assert "did you mean 'FuseOps'" in wrong.stderr
    (tmp_path / "file").touch()
    blocked = run(tmp_path, HEDDLE_DUMP=str(tmp_path / "file" / "below"))
    assert "S0101" in blocked.stderr
    unknown = run(tmp_path, HEDDLE_NUM_THREAD="2")
    assert unknown.returncode == 0
    assert "HEDDLE_NUM_THREAD is no setting; did you mean 'HEDDLE_NUM_THREADS'?" in unknown.stderr
