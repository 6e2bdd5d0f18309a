"""The page: facts, script and style in one HTML file that asks nothing of the network.

Nothing that a model says becomes markup: its facts are compressed and in base64, and the page's script makes
text nodes of them. A content security policy lets only the page's own script run.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files

from heddle.driver.page.facts import Facts
from heddle.support.frozen import frozen

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main id="heddle"><noscript>This page needs JavaScript.</noscript></main>
<script type="text/plain" id="heddle-layout">{layout}</script>
<script type="text/plain" id="heddle-facts">{facts}</script>
<script>{script}</script>
</body>
</html>
"""
_FRAME = (
    '<iframe title="Heddle" sandbox="allow-scripts" style="width:100%;height:640px;border:0" '
    'srcdoc="{page}"></iframe>'
)


def render(facts: Facts) -> str:
    """The page of some facts, as the text of an HTML file in ASCII."""
    script = bundled("main.js")
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "worker-src blob:; child-src blob:; img-src data: blob:"
    )
    return _PAGE.format(
        policy=policy,
        title=_as_ascii(f"{facts.model} - Heddle"),
        style=bundled("page.css"),
        layout=_layout(),
        facts=_packed(json.dumps(facts.as_dict(), separators=(",", ":")).encode()),
        script=script,
    )


@frozen
class Page:
    """Facts as a page, which notebooks show in a frame of its own."""

    facts: Facts

    def html(self) -> str:
        """The text of an HTML file."""
        return render(self.facts)

    def _repr_html_(self) -> str:
        return frame(self.facts)


def frame(facts: Facts) -> str:
    """The page in a frame of its own, for a cell of a notebook."""
    return _FRAME.format(page=escape(render(facts)))


@cache
def bundled(name: str) -> str:
    """A file of the page, made from the sources in `web/`."""
    return files(__package__).joinpath("bundle", name).read_text("utf-8")


@cache
def _layout() -> str:
    return _packed(bundled("layout.js").encode())


def _packed(data: bytes) -> str:
    return b64encode(gzip.compress(data, 9, mtime=0)).decode()


def _as_ascii(text: str) -> str:
    """Text for HTML: markup, controls and all beyond ASCII as references, what cannot stand there as ?."""
    shown = "".join(c if c.isprintable() and not 0xD800 <= ord(c) < 0xE000 else "?" for c in text)
    return escape(shown).encode("ascii", "xmlcharrefreplace").decode()
