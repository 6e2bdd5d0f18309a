"""Text shown where the user works: on standard output, or in a notebook's cell."""

from __future__ import annotations

import html
from typing import Any


class Shown:
    """Mixed into what has a text: `show()`, and what notebooks ask for."""

    __slots__ = ()

    def show(self, style: str | None = None, black_format: bool | None = None, **options: Any) -> None:
        """Print the text. `options` are those of the text (`show_meta`, ...).

        TVM's `style` names colours and `black_format` a layout; the text has neither a choice of layout nor
        colours, and is the same for all of them.
        """
        print(self._shown_text(**options))

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._shown_text())}</pre>"

    def _shown_text(self, **options: Any) -> str:
        assert not options
        return str(self)
