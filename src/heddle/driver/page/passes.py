"""What each pass changed, function by function."""

from __future__ import annotations

import time

from heddle.driver.page.facts import Change, PassRun
from heddle.driver.page.tables import Tables
from heddle.ir.expr import BaseFunc
from heddle.ir.module import IRModule
from heddle.ir.transform import PassInfo, PassInstrument
from heddle.script.printer import function_lines


class PassLog(PassInstrument):
    """An instrument that writes down the functions that a pass changed. What a pass runs itself belongs to
    it."""

    def __init__(self, tables: Tables) -> None:
        self.runs: list[PassRun] = []
        self.before_schedule: IRModule | None = None
        """The module that schedule rules were given."""
        self._tables = tables
        self._depth = 0
        self._since = 0.0
        self._before: dict[str, BaseFunc] = {}
        self._texts: dict[int, tuple[BaseFunc, int]] = {}

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._depth += 1
        if self._depth > 1:
            return
        if info.name == "ApplyDefaultSchedule":
            self.before_schedule = mod
        self._before = _functions(mod)
        self._since = time.perf_counter()

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._depth -= 1
        if self._depth:
            return
        seconds = time.perf_counter() - self._since
        after, changes = _functions(mod), []
        for name in dict.fromkeys((*self._before, *after)):
            old, new = self._before.get(name), after.get(name)
            if old is new:
                continue
            texts = self._text(name, old), self._text(name, new)
            if texts[0] != texts[1]:
                changes.append(Change(name, *texts))
        self.runs.append(PassRun(info.name, seconds, changes))

    def _text(self, name: str, func: BaseFunc | None) -> int | None:
        if func is None:
            return None
        known = self._texts.get(id(func))
        if known is None:
            lines = function_lines(func, name, []).build().split("\n")
            known = self._texts[id(func)] = func, self._tables.text(lines)
        return known[1]


def _functions(mod: IRModule) -> dict[str, BaseFunc]:
    return {var.name_hint: func for var, func in mod.functions.items()}
