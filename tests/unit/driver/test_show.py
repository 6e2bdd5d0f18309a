"""Reports print names as they are, and nothing that steers a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("typer", reason="the command line needs the extra cli")

from heddle.driver.ceilings import Ceilings
from heddle.driver.cli.show import progress_bar, show_explanation, show_report, show_text, show_variants
from heddle.driver.explain import Advice, Explanation, KernelRow
from heddle.driver.phases import Progress
from heddle.driver.run import RunReport, ValueSummary
from heddle.runtime.needs import Needs
from heddle.runtime.variants import VariantInfo

NAMES = ["[/x]", "bert[quant].onnx", "[bold]", ":smile:", "\x1b[31mred", "a\ud800b", "two\nlines"]
names = pytest.mark.parametrize("name", NAMES)


def shown(name: str) -> str:
    return name.encode("unicode_escape").decode()


def check(name: str, out: str, times: int) -> None:
    assert out.count(shown(name)) == times, out
    assert "\x1b" not in out
    out.encode()


@names
def test_variants(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    row = VariantInfo(name, name, Needs(name, frozenset({name})), (name,), False, 1, 1)
    show_variants([row, replace(row, missing=(), is_chosen=True)])
    check(name, capsys.readouterr().out, 9)


@names
def test_reports(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    value = ValueSummary(name, name, (1,))
    row = {"name": name, "reason": name}
    comparison = {"engine": name, "agrees": False, "outputs": [row], "latency_ms": {}}
    show_report(
        RunReport(
            model=name,
            target=name,
            num_threads=1,
            dims={},
            assumed_dims=(),
            compile_s=0.0,
            phases_s={},
            kernels={name: 1},
            inputs=[value],
            outputs=[value],
            latency_ms={},
            repeat=0,
            peak_memory_bytes=0,
            peak_tensor_bytes=0,
            comparison=comparison,
            variant=name,
        )
    )
    check(name, capsys.readouterr().out, 11)


@names
def test_explanations(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    row = KernelRow(name, ((1,),), 1, 1.0, rule=name, boundaries=(name,))
    ceilings = Ceilings(1, 1.0, ((1 << 16, 1.0),))
    show_explanation(Explanation(name, name, {name: 1}, ceilings, 1.0, [row], [Advice(1.0, name)]))
    check(name, capsys.readouterr().out, 8)


@names
def test_texts(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    show_text(f"first\n{name}")
    out = capsys.readouterr().out
    assert out.startswith("first\n") and "\x1b" not in out
    out.encode()


@names
def test_progress(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar(name) as listener:
        listener(Progress("import", name))
    err = capsys.readouterr().err
    assert shown(name) in err and f"import: {shown(name)}" in err
