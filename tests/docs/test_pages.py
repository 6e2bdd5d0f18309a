"""Generated pages are fresh, codes are documented, and the examples in the hand-written pages are true."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

from heddle.driver.docs import PAGES
from heddle.support import settings
from heddle.support.diagnostics import CODES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_generated_page_is_fresh(name: str) -> None:
    if name == "onnx-support.md":
        onnx = pytest.importorskip("onnx", reason="the page is made of the specifications in onnx")
        newest = importlib.import_module("heddle.frontend.onnx.registry").MAX_OPSET[""]
        if onnx.defs.onnx_opset_version() < newest:
            pytest.skip(f"the page is of operator set {newest}, which the installed onnx lacks")
    made = PAGES[name]()
    assert (DOCS / name).read_text() == made, f"docs/{name} is stale: run `make docs`"


def test_every_setting_is_on_its_page() -> None:
    read = set(re.findall(r'"((?:HEDDLE|OMP|XDG)_[A-Z_]+)"', Path(settings.__file__).read_text()))
    page = PAGES["settings.md"]()
    assert read and not [name for name in read if name not in page]


def test_codes_have_a_meaning() -> None:
    PAGES["diagnostics.md"]()
    assert not [code.name for code in CODES.values() if not (code.title and code.meaning)]


@pytest.mark.whole("a change of any name or text may break a page")
@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("tour.md", None),
        ("vm.md", None),
        ("relay.md", None),
        ("kv_cache.md", None),
        ("jit.md", None),
        ("debugging.md", "onnx"),
        ("guides/deploying.md", "onnx"),
        ("guides/dynamic-shapes.md", None),
        ("guides/extending.md", "onnx"),
        ("guides/from-onnx-runtime.md", "onnxruntime"),
        ("guides/from-tvm.md", None),
        ("guides/memory.md", None),
    ],
)
def test_examples(name: str, package: str | None) -> None:
    if package is not None:
        pytest.importorskip(package, reason=f"docs/{name} needs it")
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testfile(str(DOCS / name), module_relative=False, optionflags=options)
    assert result.attempted > 0
    assert result.failed == 0
