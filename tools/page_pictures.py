"""Pictures of the page of `heddle inspect --html`, by Chromium: those of docs/inspect-html.md.

    python -m tools.page_pictures                             those of the documentation, into docs/images
    python -m tools.page_pictures -o FOLDER NAME=MODEL ...    every view of other models

writes `inspect-NAME-VIEW.png`. Needs `chromium` and `chromedriver`, and for the documentation's own models
the extra `test`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.workloads import chosen
from tests.e2e.browser import Browser

from heddle.driver.models import find_model
from heddle.driver.page import PageOptions, collect, render

ROOT = Path(__file__).resolve().parents[1]
VIEWS = ("graph", "passes", "time", "memory", "roofline", "replay")
_DOWN = "\ue015"
_DRAWN_S = 0.5
"""Plots draw in a frame of their own; so long after the key that asks for them they stand."""


@dataclass(frozen=True)
class Pictures:
    """Of one model: its name, the file, the sizes of the call, and the views."""

    name: str
    model: str
    dims: Mapping[str, int] = field(default_factory=dict)
    views: Sequence[str] = VIEWS


def own_pictures() -> Iterator[Pictures]:
    """Those of the documentation. The models are copied here: a page shows the name of its file."""
    yield Pictures("cnn", "onnx:light_squeezenet", views=("passes",))
    for name, workload, dims, views in (
        ("bert", "bert-128", {"batch": 1, "seq": 128}, ("graph", "time", "roofline")),
        ("lstm", "lstm-1", {}, ("graph", "memory")),
    ):
        shutil.copy(chosen([workload])[0].path(), f"{name}.onnx")
        yield Pictures(name, f"{name}.onnx", dims, views)


def take(pictures: Pictures, folder: Path, browser: Browser) -> None:
    """Write the pictures of one model."""
    page = Path("page.html").absolute()
    page.write_text(render(collect(find_model(pictures.model), PageOptions(dims=pictures.dims))))
    browser.open(page)
    browser.wait("document.querySelectorAll('.node').length")
    browser.keys(_DOWN * 3)
    for number, view in enumerate(VIEWS, 1):
        if view in pictures.views:
            browser.keys(str(number))
            time.sleep(_DRAWN_S)
            browser.picture(folder / f"inspect-{pictures.name}-{view}.png")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.page_pictures")
    parser.add_argument("models", nargs="*", metavar="NAME=MODEL")
    parser.add_argument("-o", "--folder", type=Path, default=ROOT / "docs" / "images")
    options = parser.parse_args()
    folder: Path = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    given = [item.partition("=") for item in options.models]
    asked = [Pictures(name, model if ":" in model else os.path.abspath(model)) for name, _, model in given]
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        browser = Browser(Path(scratch) / "profile")
        try:
            for pictures in asked or own_pictures():
                take(pictures, folder, browser)
        finally:
            browser.close()


if __name__ == "__main__":
    main()
