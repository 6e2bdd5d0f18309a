"""The profile of a session's call, with a page that shows it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from heddle.runtime.profiling import Report
from heddle.vm.executable import Executable


@dataclass(slots=True)
class SessionReport(Report):
    """A report that knows the program of which it is."""

    executable: Executable | None = None

    @classmethod
    def of(cls, report: Report, executable: Executable) -> SessionReport:
        """A machine's report of a call."""
        return cls(
            **{each.name: getattr(report, each.name) for each in fields(Report)}, executable=executable
        )

    def page(self) -> Any:
        """The page: bytecode, the time line and memory. `html()` is its text."""
        from heddle.driver.page.profiled import profile_page  # sessions that serve load no page

        return profile_page(self, self.executable)

    def html(self) -> str:
        """The page as the text of an HTML file, which works offline."""
        text: str = self.page().html()
        return text

    def _repr_html_(self) -> str:
        text: str = self.page()._repr_html_()
        return text
