"""The documentation site: every page is in its contents, and links lead somewhere."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest
from tools.site import api, diagrams
from tools.site.__main__ import ROOT, build, write_sources


def test_sources_have_all_pages_and_links_lead_to_files(tmp_path: Path) -> None:
    write_sources(tmp_path / "source")
    index = (tmp_path / "source" / "index.md").read_text().split("\n")
    for page in (ROOT / "docs").rglob("*.md"):
        assert str(page.relative_to(ROOT / "docs").with_suffix("")) in index
    for module in (
        "heddle",
        "heddle.relax",
        "heddle.tir",
        "heddle.te",
        "heddle.topi",
        "heddle.runtime",
        "heddle.vm",
    ):
        assert f"api/{module}" in index


def test_each_public_function_is_on_its_page() -> None:
    module = importlib.import_module("heddle.relax")
    text = api.page("heddle.relax")
    functions = [name for name in dir(module) if inspect.isfunction(getattr(module, name))]
    assert len(functions) > 10
    for name in functions:
        assert f"heddle.relax.{name}(" in text and f"## {name}\n" in text


def test_docstrings_are_no_markup() -> None:
    assert api._text("a < b, *args and `x < y`\n    code *here*") == (
        "a &lt; b, \\*args and `x < y`\n    code *here*"
    )


def test_the_house_is_that_of_the_contract() -> None:
    house = diagrams.house(ROOT)
    rooms = [room for row in house.rows for room in row]
    assert rooms.index("driver") < rooms.index("lower") < rooms.index("tir") < rooms.index("support")
    assert set(rooms) <= {path.name for path in (ROOT / "src" / "heddle").iterdir()}
    for diagram in (house, *diagrams.FIXED.values()):
        picture = diagrams.svg(diagram)
        assert picture.count("<rect") == sum(map(len, diagram.rows))
        assert picture.count("marker-end") == len(diagram.arrows)


def test_sphinx_builds_it_without_a_warning(tmp_path: Path) -> None:
    for package in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(package)
    index = build(tmp_path)
    assert "heddle.relax.transform" in index.read_text()
    assert (tmp_path / "html" / "searchindex.js").stat().st_size > 100_000
