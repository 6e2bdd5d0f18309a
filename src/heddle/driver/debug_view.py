"""The debugger on a whole terminal: source and bytecode on the left, registers and memory on the right.

    heddle debug model.onnx --view

Below stand what commands say, and a line for commands: those of the console (`heddle.vm.insight.console`),
which does all the work. Keys stand for the movements. The run has a thread of its own, so that keys are heard
while an instruction takes long: Escape interrupts it.
"""

from __future__ import annotations

import asyncio
import ctypes
import io
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import get_ident
from typing import ClassVar, TypeVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widget import Widget
from textual.widgets import DataTable, Footer, Header, Input, RichLog, Static

from heddle.driver.debug_rows import Row, code_rows, memory_rows, register_rows, source_lines
from heddle.support.diagnostics import HeddleError
from heddle.support.printable import printable_lines
from heddle.vm.insight.console import DebugConsole
from heddle.vm.insight.debugger import Debugger

_W = TypeVar("_W", bound=Widget)
_KEYS: tuple[tuple[str, str, str], ...] = (
    ("s", "step", "Step"),
    ("n", "next", "Next"),
    ("f", "finish", "Finish"),
    ("c", "continue", "Continue"),
    ("b", "back", "Back"),
    ("N", "reverse-next", "Next back"),
    ("C", "reverse-continue", "Continue back"),
)
"""Key, command, and what the foot of the page calls it."""


class DebugView(App[int]):
    """The page. `open_debugger` is called in the run's own thread; `run` gives how many commands failed."""

    TITLE = "heddle debug"
    CSS = """
    #panes { height: 3fr; }
    #left, #right { width: 1fr; }
    #source { height: auto; max-height: 40%; border: round $primary; }
    #code, #registers, #memory { height: 1fr; border: round $primary; }
    #registers { height: 2fr; }
    #said { height: 1fr; border: round $primary; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"move('{command}')", title) for key, command, title in _KEYS),
        Binding("o", "origin", "Origin"),
        Binding("p", "print", "Print"),
        Binding("colon,slash", "ask", "Command"),
        Binding("escape", "stop", "Interrupt", show=False, priority=True),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, open_debugger: Callable[[], Debugger], breaks: Iterable[str] = ()) -> None:
        super().__init__()
        self._open, self._breaks = open_debugger, tuple(breaks)
        self._run = ThreadPoolExecutor(max_workers=1, thread_name_prefix="heddle-debug")
        self._text = io.StringIO()
        self._console: DebugConsole | None = None
        self._busy_thread: int | None = None
        self._is_busy = False
        self.failure: HeddleError | None = None
        """What went wrong before the first command."""

    def compose(self) -> ComposeResult:
        """The panes."""
        yield Header()
        with Horizontal(id="panes"):
            with Vertical(id="left"):
                yield _titled(Static(id="source", markup=False), "source")
                yield _titled(_table("code", "", "place", "instruction"), "bytecode")
            with Vertical(id="right"):
                yield _titled(_table("registers", "", "register", "value"), "registers")
                yield _titled(_table("memory", "bytes", "held by", "address"), "memory")
        yield _titled(RichLog(id="said", markup=False, wrap=True), "said")
        yield Input(
            id="command", placeholder="a command, such as: break nan   (: to come here, help lists all)"
        )
        yield Footer()

    async def on_mount(self) -> None:
        """Open the debugger, set the breakpoints that were asked for."""
        self.query_one("#code", DataTable).focus()
        await self._do(self._begin)

    def _begin(self) -> None:
        try:
            debugger = self._open()
            for text in self._breaks:
                debugger.add_breakpoint(text)
        except HeddleError as error:
            self.failure = error
            return
        self._console = DebugConsole(debugger, stdin=io.StringIO(), stdout=self._text)
        self._console.show_place()

    async def on_unmount(self) -> None:
        """End the thread of the run, and what it does."""
        self._interrupt()
        self._run.shutdown(wait=False, cancel_futures=True)

    # ---- commands

    async def _do(self, work: Callable[[], object]) -> None:
        """Do something in the run's thread, and show what came of it."""
        self._is_busy, self.sub_title = True, "running; Escape interrupts"
        try:
            ends = await asyncio.get_running_loop().run_in_executor(self._run, self._interruptible, work)
        finally:
            self._is_busy = False
        if self.failure is not None or ends is True:
            self.exit(self._console.failures if self._console else 1)
            return
        self._show()

    def _interruptible(self, work: Callable[[], object]) -> object:
        self._busy_thread = get_ident()
        try:
            return work()
        except KeyboardInterrupt:
            self._text.write("interrupted\n")
            return False
        finally:
            self._busy_thread = None

    def command(self, line: str) -> None:
        """Run a command of the console, one at a time."""
        console = self._console
        if console is None or self._is_busy:
            self.bell()
        else:
            self._is_busy = True
            self._text.write(f"{console.prompt}{printable_lines(line)}\n")
            self.run_worker(self._do(lambda: console.onecmd(line)))

    def action_move(self, command: str) -> None:
        """A key of a movement."""
        self.command(command)

    def action_origin(self) -> None:
        """Back to what gave the chosen register its value."""
        self._about_register("origin")

    def action_print(self) -> None:
        """The value of the chosen register."""
        self._about_register("print")

    def _about_register(self, command: str) -> None:
        table = self.query_one("#registers", DataTable)
        if table.row_count:
            self.command(f"{command} {table.get_row_at(table.cursor_row)[1]}")

    def action_ask(self) -> None:
        """To the line for commands."""
        self.query_one("#command", Input).focus()

    def action_stop(self) -> None:
        """Interrupt what runs; else leave the line for commands."""
        if not self._interrupt():
            self.query_one("#code", DataTable).focus()

    def _interrupt(self) -> bool:
        """Raise KeyboardInterrupt in the thread of the run; False where it does nothing."""
        thread = self._busy_thread
        if thread is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt)
            )
        return thread is not None

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """A command was typed."""
        event.input.clear()
        self.command(event.value)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Enter on a register prints it; on an instruction it toggles a breakpoint there."""
        if event.data_table.id == "registers":
            self.action_print()
        elif event.data_table.id == "code" and self._console is not None:
            place = str(event.data_table.get_row_at(event.cursor_row)[1])
            known = {point.text: number for number, point in self._console.debugger.breakpoints.items()}
            self.command(f"delete {known[place]}" if place in known else f"break {place}")

    # ---- showing

    def _show(self) -> None:
        console = self._console
        assert console is not None
        said, self._text = self._text.getvalue(), io.StringIO()
        console.stdout = self._text
        self.query_one("#said", RichLog).write(said.rstrip("\n"))
        debugger = console.debugger
        self.sub_title = f"step {debugger.position}" + (" (over)" if debugger.is_over else "")
        self.query_one("#source", Static).update("\n".join(source_lines(debugger)) or "no place is known")
        rows, here = code_rows(debugger)
        _fill(self.query_one("#code", DataTable), rows, here)
        _fill(self.query_one("#registers", DataTable), register_rows(debugger))
        rows, live = memory_rows(debugger)
        memory = self.query_one("#memory", DataTable)
        _fill(memory, rows)
        memory.border_title = f"memory: {live:,} bytes in registers"


def _titled(widget: _W, title: str) -> _W:
    widget.border_title = title
    return widget


def _table(name: str, *columns: str) -> DataTable[str]:
    table: DataTable[str] = DataTable(id=name, cursor_type="row", zebra_stripes=True)
    for column in columns:
        table.add_column(column)
    return table


def _fill(table: DataTable[str], rows: Iterable[Row], here: int | None = None) -> None:
    """New rows; the cursor stays where it was, or goes to row `here`."""
    before = table.cursor_row
    table.clear()
    for row in rows:
        table.add_row(*(printable_lines(text) for text in row))
    if table.row_count:
        table.move_cursor(row=min(before if here is None else here, table.row_count - 1))
