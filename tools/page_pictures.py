"""Pictures of the page of `heddle inspect --html`, by Chromium: those of docs/inspect-html.md.

    python tools/page_pictures.py docs/images cnn=onnx:light_squeezenet bert=bert.onnx lstm=lstm.onnx

writes `inspect-NAME-VIEW.png` for every view of every model. Needs `chromium` and `chromedriver`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.e2e.browser import Browser  # noqa: E402  (tests lie beside the package)

from heddle.driver.models import find_model  # noqa: E402
from heddle.driver.page import PageOptions, collect, render  # noqa: E402

VIEWS = ("graph", "passes", "time", "memory", "roofline", "replay")
_DOWN = "\ue015"


def pictures(folder: Path, name: str, model: str, browser: Browser, page: Path) -> None:
    """Write the pictures of one model."""
    page.write_text(render(collect(find_model(model), PageOptions())))
    browser.open(page)
    browser.wait("document.querySelectorAll('.node').length")
    browser.keys(_DOWN * 3)
    for number, view in enumerate(VIEWS, 1):
        browser.keys(str(number))
        time.sleep(0.5)  # plots draw in a frame of their own
        browser.picture(folder / f"inspect-{name}-{view}.png")


def main(folder: str, *models: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        browser = Browser(Path(scratch) / "profile")
        try:
            for item in models:
                name, _, model = item.partition("=")
                pictures(Path(folder), name, model, browser, Path(scratch) / "page.html")
        finally:
            browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
