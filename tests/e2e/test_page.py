"""The page of `heddle inspect --html` in Chromium: what is there, what is linked, keys, and hostile names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the command line needs the extra cli")

from heddle.driver.cli.entry import main
from heddle.driver.page.facts import Change, Facts, Graph, GraphNode, PassRun
from heddle.driver.page.levels import code_level, model_level
from heddle.driver.page.render import frame, render
from heddle.driver.page.tables import Tables
from heddle.support.span import ModelSpan
from tests.e2e.browser import MISSING, Browser
from tests.page_models import HOSTILE, hostile_text, write_text

in_chromium = pytest.mark.skipif(bool(MISSING), reason=MISSING)
DOWN, RIGHT, ENTER = "\ue015", "\ue014", "\ue007"


def test_the_command_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = write_text(tmp_path, "empty.py"), tmp_path / "out.html"
    assert main(("inspect", str(model), "--html", str(out), "--no-run")) == 0
    assert "MiB" in capsys.readouterr().out
    assert out.stat().st_size < 1_000_000


@pytest.mark.parametrize(
    "options",
    [
        ("--stage", "fused", "--html", "o.html"),
        ("--sources", "--html", "o.html"),
        ("--dim", "n=2"),
        ("--no-run",),
    ],
)
def test_options_without_meaning_are_refused(
    options: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(("inspect", str(write_text(tmp_path, "empty.py")), *options)) == 1
    assert capsys.readouterr().err.startswith(f"error[D0301]: {options[0]} ")
    assert not (tmp_path / "o.html").exists()


def test_the_model_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_text(tmp_path, "empty.py")
    assert main(("inspect", str(model), "--html", str(model))) == 1
    assert capsys.readouterr().err.startswith("error[D0106]: ")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def attention(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attention")
    model, out = write_text(folder, "attention.py"), folder / "out.html"
    assert main(("inspect", str(model), "--html", str(out), "--dim", "n=6")) == 0
    return out


@in_chromium
def test_views_hold_what_the_model_has(browser: Browser, attention: Path) -> None:
    browser.open(attention)
    assert browser.wait("document.querySelectorAll('.node').length") == 14
    kernels = browser.run("return [...document.querySelectorAll('.group')].map(g => g.dataset.kernel)")
    browser.keys("2")
    passes = browser.run("return document.querySelector('.choice').textContent")
    assert "LegalizeOps" in passes and "FuseOps" in passes
    assert browser.run("return document.querySelectorAll('.code .added').length") > 0
    browser.keys("3")
    assert browser.run("return document.querySelector('.timeline').width") > 300
    browser.keys(RIGHT * 2)
    assert "at " in browser.run("return document.querySelector('.view .status').textContent")
    browser.keys("4")
    assert browser.run("return document.querySelectorAll('.tensor').length") > 3
    assert browser.run("return document.querySelectorAll('.chart canvas').length") == 1
    browser.keys("5")
    rows = browser.run("return [...document.querySelectorAll('tr[data-kernel]')].map(r => r.dataset.kernel)")
    assert kernels and {"softmax", *kernels} <= set(rows)
    browser.keys("6" + RIGHT * 3)
    assert browser.run("return document.querySelector('.view .status').textContent").startswith("step 3 of")
    assert browser.errors() == []


@in_chromium
def test_a_node_lights_up_its_lines_at_all_levels(browser: Browser, attention: Path) -> None:
    browser.open(attention)
    browser.wait("document.querySelectorAll('.node').length")
    for level in ("legalized", "fused", "tir", "llvm", "asm"):
        browser.run(f"document.querySelector('[data-show={level}]').click()")
    browser.keys("/softmax" + ENTER)
    lit = browser.run("return [...document.querySelectorAll('.pane.lit')].map(p => p.dataset.level)")
    assert lit == ["model", "relax", "legalized", "fused", "scheduled", "tir", "llvm", "asm", "bytecode"]
    relax = "[data-level=relax] .line.lit"
    assert "softmax" in browser.run(f"return document.querySelector('{relax}').textContent")
    assert "softmax" in browser.run("return document.querySelector('[data-level=llvm] select').value")
    count = "return document.querySelectorAll(arguments[0]).length"
    for level in ("llvm", "asm"):
        lines_of_level = f"[data-level={level}] .line"
        assert 0 < browser.run(count, f"{lines_of_level}.lit") < browser.run(count, lines_of_level), level
    lines = "[...document.querySelectorAll('[data-level=relax] .line')]"
    browser.run(f"{lines}.find(line => line.textContent.includes('R.add(')).click()")
    assert browser.run("return document.querySelector('.node.lit').textContent").startswith("add")


@in_chromium
def test_light_and_dark(browser: Browser, attention: Path) -> None:
    browser.open(attention)
    before = browser.run("return getComputedStyle(document.body).backgroundColor")
    browser.keys("t")
    assert browser.run("return getComputedStyle(document.body).backgroundColor") != before


def hostile_facts() -> Facts:
    """A page whose every text is one of a model that means harm."""
    facts = Facts(HOSTILE[0])
    tables = Tables(facts)
    sets = [tables.set(ModelSpan(name, name, name)) for name in HOSTILE]
    nodes = [GraphNode("call", name, name, name, found) for name, found in zip(HOSTILE, sets, strict=True)]
    facts.graphs = [Graph(HOSTILE[0], nodes, [], [])]
    facts.levels = [model_level(tables, HOSTILE[0]), code_level(tables, "llvm", hostile_text(), {}, {}, "")]
    facts.passes = [PassRun(HOSTILE[0], 0.0, [Change(HOSTILE[0], None, tables.text(HOSTILE))])]
    facts.notes = list(HOSTILE)
    return facts


@in_chromium
@pytest.mark.parametrize("in_frame", [False, True])
def test_hostile_names_stay_text(in_frame: bool, browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "hostile.html"
    page.write_text(render(hostile_facts()))
    browser.open(page)
    assert browser.wait("document.querySelectorAll('.node').length") == len(HOSTILE)
    assert browser.run("return document.scripts.length") == 3
    assert browser.run("return document.title").startswith("</script><script>")
    assert HOSTILE[0] in browser.run("return document.querySelector('.node').textContent")
    browser.keys("2")
    shown = "return document.querySelector('.view .code').textContent.includes(arguments[0])"
    assert browser.run(shown, HOSTILE[0])
    assert browser.errors() == []
    if in_frame:
        page.write_text(f"<!doctype html><main id=heddle data-ready=yes></main>{frame(hostile_facts())}")
        browser.open(page)
        assert browser.run("return document.scripts.length") == 0
        assert browser.errors() == []


@in_chromium
def test_a_page_of_nothing_says_so(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "nothing.html"
    page.write_text(render(Facts("nothing")))
    browser.open(page)
    assert "no graph" in browser.run("return document.querySelector('.view .status').textContent")
    browser.keys("23456")
    assert browser.errors() == []
