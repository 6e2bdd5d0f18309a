"""The debugger's page, driven by keys without a terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heddle.driver.debug import view_session
from heddle.runtime import FunctionModule, cpu, tensor
from heddle.support.diagnostics import HeddleError, MissingDependencyError, UsageError
from heddle.vm.insight.debugger import Debugger
from heddle.vm.relax import VirtualMachine
from tests.unit.vm.programs import HELPERS, builder

pytest.importorskip("textual", reason="the page needs the extra view")

from textual.widgets import DataTable, Input, RichLog, Static

from heddle.driver.debug_view import DebugView

X = np.array([1.0, 2.0, 3.0], "float32")


def machine(
    wait: Callable[[], None] | None = None, place: str = 'net.onnx node "log" (Log)'
) -> VirtualMachine:
    """main(x): y = x - 2; z = log(y); twice(z)."""
    made = builder()
    with made.function("twice", num_inputs=1):
        made.emit_call("join", [made.r(0), made.r(0)], dst=made.r(1))
        made.emit_ret(made.r(1))
    with made.function("main", num_inputs=1):
        made.emit_call("shift", [made.r(0)], dst=made.r(1), place='net.onnx node "sub" (Sub)')
        made.emit_call("log", [made.r(1)], dst=made.r(2), place=place)
        made.emit_call("twice", [made.r(2)], dst=made.r(3))
        made.emit_ret(made.r(3))

    def log(x: Any) -> Any:
        if wait is not None:
            wait()
        with np.errstate(all="ignore"):
            return tensor(np.log(x.numpy()))

    functions = {
        **HELPERS,
        "shift": lambda x: tensor(x.numpy() - np.float32(2)),
        "log": log,
        "join": lambda a, b: tensor(np.concatenate([a.numpy(), b.numpy()])),
    }
    return VirtualMachine(made.get(imports=[FunctionModule(functions)]), cpu())


def driven(view: DebugView, use: Callable[[Any], Awaitable[None]]) -> int | None:
    """What a user does with the page, and what the page gives."""

    async def main() -> None:
        async with view.run_test(size=(160, 50)) as pilot:
            await settled(view, pilot)
            await use(pilot)

    asyncio.run(main())
    return view.return_value


async def settled(view: DebugView, pilot: Any) -> None:
    await pilot.pause()
    while view._is_busy:
        await pilot.pause(0.01)
    await pilot.pause()


def opened() -> Debugger:
    return Debugger.of_call(machine(), "main", X)


def rows(view: DebugView, name: str) -> list[tuple[str, ...]]:
    table = view.query_one(f"#{name}", DataTable)
    return [tuple(map(str, table.get_row_at(number))) for number in range(table.row_count)]


def said(view: DebugView) -> str:
    return "\n".join(line.text for line in view.query_one("#said", RichLog).lines)


def here(view: DebugView) -> str:
    return next(place for mark, place, _ in rows(view, "code") if ">" in mark)


def test_keys_move_both_ways_and_panes_follow() -> None:
    view = DebugView(opened)

    async def use(pilot: Any) -> None:
        assert here(view) == "main:0"
        assert 'node "sub" (Sub)' in str(view.query_one("#source", Static).content)
        await pilot.press("s")
        await settled(view, pilot)
        assert here(view) == "main:1"
        assert ("=", "%1", "float32[3] -1 .. 1, mean 0") in rows(view, "registers")
        held = {holder for _, holder, _ in rows(view, "memory")}
        assert held == {"%0 (tensor)", "%1 (tensor)"}
        assert "24 bytes" in str(view.query_one("#memory", DataTable).border_title)
        for key, place in (
            ("s", "main:2"),
            ("s", "twice:0"),
            ("f", "main:3"),
            ("N", "main:2"),
            ("b", "main:1"),
        ):
            await pilot.press(key)
            await settled(view, pilot)
            assert here(view) == place
        assert any("of main" in holder for _, holder, _ in rows(view, "memory")) is False
        await pilot.press("c")
        await settled(view, pilot)
        assert "the run is over" in said(view)
        await pilot.press("q")

    assert driven(view, use) in (None, 0)


def test_commands_are_those_of_the_console() -> None:
    view = DebugView(opened, ["nan"])

    async def typed(pilot: Any, line: str) -> None:
        await pilot.press("colon")
        view.query_one("#command", Input).value = line
        await pilot.press("enter")
        await settled(view, pilot)
        await pilot.press("escape")

    async def use(pilot: Any) -> None:
        await typed(pilot, "continue")
        assert "breakpoint 1: nan in %2" in said(view) and here(view) == "main:2"
        await typed(pilot, "wronk")
        assert "error[V0505]: unknown command 'wronk'" in said(view)
        await typed(pilot, "back 2")
        assert here(view) == "main:0"
        await typed(pilot, "break main:2")
        assert [mark for mark, place, _ in rows(view, "code") if place == "main:2"] == ["*"]
        await typed(pilot, "print \x1b[31m")
        assert "\x1b" not in said(view)
        await typed(pilot, "quit")

    assert driven(view, use) == 2


def test_enter_sets_and_drops_a_breakpoint_and_prints_a_register() -> None:
    view = DebugView(opened)

    async def use(pilot: Any) -> None:
        await pilot.press("down", "down", "enter")
        await settled(view, pilot)
        assert ("*", "main:2") in [(mark, place) for mark, place, _ in rows(view, "code")]
        await pilot.press("c")
        await settled(view, pilot)
        assert here(view) == "main:2"
        await pilot.press("enter")
        await settled(view, pilot)
        assert not any("*" in mark for mark, _, _ in rows(view, "code"))
        view.query_one("#registers", DataTable).focus()
        await pilot.press("home", "enter")
        await settled(view, pilot)
        assert "[1. 2. 3.]" in said(view)
        await pilot.press("down", "o")
        await settled(view, pilot)
        assert here(view) == "main:0"

    driven(view, use)


def test_escape_interrupts_what_takes_long_and_the_page_goes_on() -> None:
    begun, is_over = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        while not is_over.wait(0.01):
            pass

    view = DebugView(lambda: Debugger.of_call(machine(wait), "main", X))

    async def use(pilot: Any) -> None:
        await pilot.press("c")
        while not begun.is_set():
            await pilot.pause(0.01)
        await pilot.press("s")  # one thing at a time: not heard
        await pilot.press("escape")
        await settled(view, pilot)
        assert "interrupted" in said(view) and "(heddle) step" not in said(view)
        assert here(view) == "main:1"
        is_over.set()

    driven(view, use)


def test_leaving_ends_what_runs() -> None:
    begun = threading.Event()

    def wait() -> None:
        begun.set()
        while True:
            time.sleep(0.01)

    view = DebugView(lambda: Debugger.of_call(machine(wait), "main", X))

    async def use(pilot: Any) -> None:
        await pilot.press("c")
        while not begun.is_set():
            await pilot.pause(0.01)
        await pilot.press("q")

    driven(view, use)
    view._run.shutdown(wait=True)


def test_lines_of_a_text_are_shown_around_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.py").write_text("".join(f"line {n}\n" for n in range(1, 31)))
    monkeypatch.chdir(tmp_path)
    view = DebugView(lambda: Debugger.of_call(machine(place="model.py:12:5"), "main", X))

    async def use(pilot: Any) -> None:
        await pilot.press("s")
        await settled(view, pilot)
        lines = str(view.query_one("#source", Static).content).split("\n")
        assert lines[0] == "model.py:12:5"
        assert lines[1] == "    8 | line 8".rjust(len(lines[1]))
        assert ">   12 | line 12" in lines and lines[-1].endswith("16 | line 16")

    driven(view, use)


def test_what_goes_wrong_at_first_is_the_pages_error() -> None:
    view = DebugView(opened, ["nowhere"])

    async def use(pilot: Any) -> None:
        await pilot.pause()

    driven(view, use)
    assert isinstance(view.failure, HeddleError) and view.failure.code == "V0506"


def test_without_a_terminal_or_without_textual(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"D0301.*terminal"):
        view_session(opened, ())
    monkeypatch.setitem(sys.modules, "heddle.driver.debug_view", None)
    with pytest.raises(MissingDependencyError, match=r"D0401.*textual"):
        view_session(opened, ())


def test_the_command_opens_the_page(tmp_path: Path) -> None:
    """On a terminal of its own: the page comes up and `q` leaves it."""
    (tmp_path / "model.py").write_text(
        """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            y = R.log(x)
            R.output(y)
        return y
"""
    )
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "heddle", "debug", "model.py", "--view"],
        cwd=tmp_path,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"},
        start_new_session=True,
    )
    os.close(slave)
    shown = b""
    try:
        while b"main:0" not in shown:
            shown += os.read(master, 65536)
        os.write(master, b"q")
        while True:
            shown += os.read(master, 65536)
    except OSError:
        pass  # the other end is closed
    finally:
        os.close(master)
        code = process.wait()
    assert code == 0, shown[-2000:].decode(errors="replace")
    assert b"model.py" in shown and b"bytecode" in shown
