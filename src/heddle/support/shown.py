"""Text shown where the user works: on standard output, or in a notebook's cell, with colours where there are.

Pygments colours it, which the extra `cli` brings; a text of ours reads like Python.
"""

from __future__ import annotations

import sys
import warnings
from importlib.util import find_spec
from typing import Any

from heddle.support.codes import S0706
from heddle.support.diagnostics import UsageError, did_you_mean
from heddle.support.distribution import pip_install
from heddle.support.settings import wants_no_colours

_NAMED = {"light": "default", "dark": "monokai"}
_OF_TERMINAL = "ansi"
_IN_NOTEBOOKS = "default"


def has_colours() -> bool:
    """Whether text on standard output gets colours by itself: a terminal shows it, nobody said NO_COLOR."""
    return bool(sys.stdout is not None and sys.stdout.isatty() and not wants_no_colours())


def coloured(text: str, style: str) -> str:
    """Text with the codes of a terminal. `style` is "light", "dark", "ansi" (the terminal's own 16 colours),
    or one of Pygments' styles. Without Pygments the text stays as it is, and a warning says so.

    Raises: UsageError S0706 for an unknown style.
    """
    if not _has("pygments", "colours need Pygments", pip_install("cli")):
        return text
    pygments = _pygments()
    formatters = pygments.formatters
    made = (
        formatters.TerminalFormatter()
        if style == _OF_TERMINAL
        else formatters.Terminal256Formatter(style=_style(pygments, style))
    )
    return _highlighted(pygments, text, made)


def _highlighted(pygments: Any, text: str, formatter: Any) -> str:
    return str(
        pygments.highlight(text, pygments.lexers.PythonLexer(stripnl=False, ensurenl=False), formatter)
    )


def _style(pygments: Any, name: str) -> str:
    own = _NAMED.get(name, name)
    known = {*pygments.styles.get_all_styles(), *_NAMED, _OF_TERMINAL}
    if own not in known:
        raise UsageError(S0706, f"there is no style {name!r}", help=did_you_mean(name, known))
    return own


def _has(package: str, why: str, command: str) -> bool:
    found = find_spec(package) is not None
    if not found:
        warnings.warn(f"{why}: {command}", stacklevel=4)
    return found


def _pygments() -> Any:
    import pygments  # an optional package
    import pygments.formatters
    import pygments.lexers
    import pygments.styles

    return pygments


def black_formatted(text: str) -> str:
    """Text laid out by Black. Without it the text stays as it is, and a warning says so."""
    if not _has("black", "black_format needs Black", "pip install black"):
        return text
    import black  # an optional package

    return str(black.format_str(text, mode=black.Mode())).rstrip("\n")


def print_text(text: str, style: str | None = None, black_format: bool | None = None) -> None:
    """Print text with a style's colours; without a style in a terminal's own, where one shows it.

    Raises: UsageError S0706 for an unknown style.
    """
    text = black_formatted(text) if black_format else text
    if style is None and has_colours() and find_spec("pygments") is not None:
        style = _OF_TERMINAL
    print(text if style is None else coloured(text, style))


class Shown:
    """Mixed into what has a text: `show()`, and what notebooks ask for."""

    __slots__ = ()

    def show(self, style: str | None = None, black_format: bool | None = None, **options: Any) -> None:
        """Print the text. `options` are those of the text (`show_meta`, ...).

        `style` is "light", "dark", "ansi" or one of Pygments' styles; without one, a terminal gets colours
        and a file gets none. `black_format` lays the text out by Black. Where Pygments or Black is missing, a
        warning says so, and the text comes plain.

        Raises: UsageError S0706 for an unknown style.
        """
        print_text(self._shown_text(**options), style, black_format)

    def _repr_html_(self) -> str:
        text = self._shown_text()
        if find_spec("pygments") is None:
            from html import escape  # its table of 2,200 names is for notebooks alone

            return f"<pre>{escape(text)}</pre>"
        pygments = _pygments()
        made = pygments.formatters.HtmlFormatter(noclasses=True, style=_IN_NOTEBOOKS)
        return _highlighted(pygments, text, made)

    def _shown_text(self, **options: Any) -> str:
        assert not options
        return str(self)
