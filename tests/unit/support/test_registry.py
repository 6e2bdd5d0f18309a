"""Registries that are filled when something is missing."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from functools import partial

import pytest

from heddle.support.diagnostics import MissingNameError
from heddle.support.registry import Registry


def test_source_is_asked_once_and_only_when_needed() -> None:
    table: Registry[int] = Registry("number")
    table.add("one", 1)
    calls = []

    def declare() -> None:
        calls.append("declare")
        table.add("two", 2)

    table.fill_from(declare)
    assert table["one"] == 1
    assert calls == []
    assert table["two"] == 2
    with pytest.raises(MissingNameError, match="S0202"):
        table["three"]
    assert calls == ["declare"]
    assert list(table) == ["one", "two"]


def test_threads_wait_until_all_is_declared() -> None:
    table: Registry[int] = Registry("number")
    started = threading.Event()

    def declare() -> None:
        table.add("one", 1)
        assert table["one"] == 1
        assert table.get("two") is None  # the source sees what it declared so far
        started.set()
        time.sleep(0.05)
        table.add("two", 2)

    table.fill_from(declare)
    first = threading.Thread(target=table.fill)
    first.start()
    started.wait()
    assert table["two"] == 2
    first.join()


def test_a_source_that_fails_is_asked_again() -> None:
    table: Registry[int] = Registry("number")
    outcomes: list[Exception | None] = [ImportError("not yet"), None]

    def declare() -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        table.add("one", 1)

    table.fill_from(declare)
    with pytest.raises(ImportError):
        table.fill()
    assert table["one"] == 1


IMPORT_ALL = """
import importlib, pkgutil, sys
from heddle.support.registry import Registry

fill = Registry.fill

def refuse_imports(self):
    frame = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if self._source is not None and code.co_name == "<module>" and "heddle" in code.co_filename:
            sys.exit(f"{code.co_filename} looks up {self.what}s while it is imported")
        frame = frame.f_back
    fill(self)

Registry.fill = refuse_imports
import heddle
for module in pkgutil.walk_packages(heddle.__path__, "heddle."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def test_imports_look_nothing_up() -> None:
    """A thread that imports a module and one that fills a table would wait for each other."""
    ended = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, check=False, text=True)
    assert ended.returncode == 0, ended.stderr


def test_sources_are_asked_in_order_until_one_has_the_name() -> None:
    table: Registry[int] = Registry("thing")
    asked: list[str] = []

    def source(name: str, number: int) -> None:
        asked.append(name)
        table.add(name, number)

    table.fill_from(*(partial(source, name, number) for number, name in enumerate("abcd")))
    assert table.get("b") == 1 and asked == ["a", "b"]
    assert "a" in table and table["b"] == 1 and asked == ["a", "b"]
    assert list(table) == ["a", "b", "c", "d"] and asked == ["a", "b", "c", "d"]
    assert table.get("e") is None and asked == ["a", "b", "c", "d"]
