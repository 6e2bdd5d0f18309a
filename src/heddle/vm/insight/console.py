"""The debugger as a terminal program: commands in, text out.

The commands stand as methods `do_NAME`; the first line of a docstring is what `help` shows. An empty line
repeats the last movement. Commands may come from a person, a file or a program: `run_script`.
"""

from __future__ import annotations

import cmd
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from heddle.support.diagnostics import HeddleError, UsageError, did_you_mean
from heddle.support.printable import printable_lines
from heddle.support.reading import reading
from heddle.vm.codes import V0505
from heddle.vm.insight.debugger import Debugger, Stop
from heddle.vm.insight.recording import Step
from heddle.vm.insight.sites import Site
from heddle.vm.insight.summary import summarize

_LINES_AROUND = 5
_MAX_ELEMENTS = 200


class DebugConsole(cmd.Cmd):
    """Reads commands for a debugger and writes what they show to `stdout`."""

    prompt = "(heddle) "
    aliases: ClassVar[dict[str, str]] = {
        "s": "step",
        "n": "next",
        "c": "continue",
        "b": "break",
        "bs": "back",
        "rs": "back",
        "rn": "reverse-next",
        "rc": "reverse-continue",
        "p": "print",
        "bt": "where",
        "l": "list",
        "r": "registers",
        "regs": "registers",
        "q": "quit",
        "exit": "quit",
    }

    def __init__(
        self, debugger: Debugger, stdin: IO[str] | None = None, stdout: IO[str] | None = None
    ) -> None:
        super().__init__(stdin=stdin, stdout=stdout or sys.stdout)
        self.use_rawinput = stdin is None
        self.debugger = debugger
        self._level = 0
        self._repeat = ""
        self.failures = 0

    # Reading commands

    def write(self, text: str) -> None:
        """Write a line; characters that would steer the terminal are shown as escapes."""
        self.stdout.write(printable_lines(text) + "\n")

    def preloop(self) -> None:
        """Show where the run stands before the first command."""
        self.show_place()

    def onecmd(self, line: str) -> bool:
        """Run a command; an error in it is shown, not raised. True ends the session."""
        try:
            return self._command(line)
        except HeddleError as error:
            self.failures += 1
            self.write(error.render())
            return False

    def _command(self, line: str) -> bool:
        name, _, rest = line.strip().partition(" ")
        if name == "EOF":
            name = "quit"
        if not name:
            if not self._repeat:
                return False
            name, rest = self._repeat, ""
        name = self.aliases.get(name, name)
        method: Callable[[str], Any] | None = getattr(self, "do_" + name.replace("-", "_"), None)
        if method is None:
            known = [*self._commands(), *self.aliases]
            raise UsageError(
                V0505, f"unknown command {name!r}", help=did_you_mean(name, known) or "help lists all"
            )
        self._repeat = name if name in _MOVEMENTS else ""
        return bool(method(rest.strip()))

    def _commands(self) -> list[str]:
        return sorted(name[3:].replace("_", "-") for name in dir(self) if name.startswith("do_"))

    def run_script(self, lines: Iterable[str]) -> bool:
        """Run commands, a line each, `#` begins a remark. Gives False after `quit`."""
        for line in lines:
            text = line.split("#", 1)[0].strip()
            if not text:
                continue
            self.write(f"{self.prompt}{text}")
            if self.onecmd(text):
                return False
        return True

    def do_help(self, arg: str) -> None:
        """help [COMMAND]: what there is"""
        shorter = {full: short for short, full in reversed(self.aliases.items())}
        names = [self.aliases.get(arg, arg)] if arg else self._commands()
        for name in names:
            method = getattr(self, "do_" + name.replace("-", "_"), None)
            if method is None:
                raise UsageError(
                    V0505, f"unknown command {name!r}", help=did_you_mean(name, self._commands())
                )
            text = (method.__doc__ or "").split("\n")[0]
            short = f"  ({shorter[name]})" if name in shorter else ""
            self.write(f"  {text}{short}")

    # Moving

    def do_step(self, arg: str) -> None:
        """step [COUNT]: over one instruction, into functions"""
        self._times(arg, self.debugger.step)

    def do_next(self, arg: str) -> None:
        """next [COUNT]: over one instruction and all that it calls"""
        self._times(arg, self.debugger.next)

    def do_finish(self, arg: str) -> None:
        """finish: on until this call returns"""
        self._arrive(self.debugger.finish())

    def do_continue(self, arg: str) -> None:
        """continue: on to the next breakpoint or the end"""
        self._arrive(self.debugger.resume())

    def do_back(self, arg: str) -> None:
        """back [COUNT]: back over one instruction"""
        self._times(arg, self.debugger.step_back)

    def do_reverse_next(self, arg: str) -> None:
        """reverse-next [COUNT]: back over one instruction and all that it called"""
        self._times(arg, self.debugger.next_back)

    def do_reverse_continue(self, arg: str) -> None:
        """reverse-continue: back to the breakpoint before, or the beginning"""
        self._arrive(self.debugger.resume_back())

    def do_goto(self, arg: str) -> None:
        """goto STEP: to before a step, by number"""
        self._arrive(self.debugger.go_to(_number(arg, "a step number")))

    def do_origin(self, arg: str) -> None:
        """origin %REGISTER: back to before the instruction that last wrote a register"""
        self._arrive(self.debugger.origin(_register(arg), self._level))

    def _times(self, arg: str, move: Callable[[], Stop]) -> None:
        """Move so often, but stay where something was found."""
        stop = move()
        for _ in range(_number(arg, "a count") - 1 if arg else 0):
            if stop.reason != "step":
                break
            stop = move()
        self._arrive(stop)

    def _arrive(self, stop: Stop) -> None:
        self._level = 0
        if stop.breakpoint is not None:
            self.write(f"breakpoint {stop.breakpoint}: {stop.reason}")
        if stop.step is not None:
            self._show_step(stop.step)
        self.show_place()

    # Looking

    def show_place(self) -> None:
        """The instruction that comes next, and the user's node."""
        site = self.debugger.next_site
        if site is None:
            recording = self.debugger.recording
            ending = f"{recording.function!r} returned {summarize(recording.result)}"
            if recording.error is not None:
                ending = f"{recording.function!r} raised {type(recording.error).__name__}"
            self.write(f"#{self.debugger.position} the run is over: {ending}")
            return
        self.write(f"#{self.debugger.position} {site.place}  {site.text}")
        self._show_source(site)

    def _show_source(self, site: Site) -> None:
        for place in site.sources:
            self.write(f"      from {place}")

    def _show_step(self, step: Step) -> None:
        self.write(f"  ran #{step.number} {step.site.place}  {step.site.text}")
        self._show_source(step.site)
        written = {write.register for write in step.outputs if write.frame == step.frame}
        for register, summary in step.reads:
            if register not in written or summary.digest is not None:
                self.write(f"      in  %{register} = {summary}")
        for write in step.writes:
            note = " (its memory was written)" if write.how == "alias" else ""
            self.write(f"      out %{write.register} = {write.after}{note}")
        if step.error is not None:
            self.write("      raised " + step.error.split("\n")[0])

    def do_where(self, arg: str) -> None:
        """where: the calls in progress, the innermost first"""
        for level, frame in enumerate(self.debugger.stack()):
            mark = "*" if level == self._level else " "
            sites = self.debugger.sites.of(frame.function)
            site = sites[frame.pc] if frame.pc < len(sites) else None
            self.write(f"{mark}{level}  {frame.function}:{frame.pc}  {site.text if site else ''}")
            if site is not None and site.source:
                self.write(f"      from {site.source}")

    def do_frame(self, arg: str) -> None:
        """frame LEVEL: look at a call further out"""
        level = _number(arg, "a level")
        frame = self.debugger.frame(level)
        self._level = level
        self.write(f"{level}  {frame.function}:{frame.pc}")

    def do_registers(self, arg: str) -> None:
        """registers: what the registers of this call hold"""
        for number, summary in self.debugger.registers(self._level).items():
            self.write(f"  %{number:<4} {summary}  [{summary.digest or '-'}]")

    def do_print(self, arg: str) -> None:
        """print %REGISTER[INDEX]: a value, such as %5 or %5[0, :4]"""
        name, bracket, index = arg.partition("[")
        number = _register(name)
        self.write(f"  {self.debugger.register(number, self._level)}")
        value = self.debugger.value(number, self._level)
        if bracket:
            value = _indexed(value, index)
        if isinstance(value, (np.ndarray, np.generic)):
            self.write(np.array2string(np.asarray(value), threshold=_MAX_ELEMENTS, precision=6))
        elif isinstance(value, tuple):
            self.write("\n".join(str(part) for part in value))
        else:
            self.write(f"  {value}")

    def do_history(self, arg: str) -> None:
        """history %REGISTER: the steps that wrote a register of this call"""
        number = _register(arg)
        for step in self.debugger.history(number, self._level):
            write = next(write for write in step.writes if write.register == number)
            self.write(f"  #{step.number} {step.site.place}  {write.after}")

    def do_last(self, arg: str) -> None:
        """last: the step before this place, with what it read and wrote"""
        step = self.debugger.last_step
        if step is None:
            self.write("no step before this place is kept")
            return
        self._show_step(step)

    def do_list(self, arg: str) -> None:
        """list [FUNCTION]: instructions around this place, or all of a function"""
        site = self.debugger.next_site
        if arg:
            sites = self.debugger.sites.of(arg)
            if not sites:
                raise UsageError(V0505, f"the program has no function {arg!r} of bytecode")
        elif site is None:
            return
        else:
            sites = self.debugger.sites.of(site.function)
            sites = sites[max(site.pc - _LINES_AROUND, 0) : site.pc + _LINES_AROUND + 1]
        for each in sites:
            mark = ">" if site is not None and each.place == site.place else " "
            self.write(f"{mark} {each.place:<12} {each.text}")

    def do_info(self, arg: str) -> None:
        """info: what was recorded"""
        self.write(f"  {self.debugger.recording}")

    # Breakpoints

    def do_break(self, arg: str) -> None:
        """break NAME | FUNCTION:PC | shape %REG | nan | inf | nonfinite | alloc BYTES | error: stop there"""
        if not arg:
            for number, point in self.debugger.breakpoints.items():
                self.write(f"  {number}  {point}")
            return
        number = self.debugger.add_breakpoint(arg)
        self.write(f"  {number}  {self.debugger.breakpoints[number]}")

    def do_delete(self, arg: str) -> None:
        """delete NUMBER: forget a breakpoint"""
        self.debugger.remove_breakpoint(_number(arg, "a breakpoint's number"))

    def do_quit(self, arg: str) -> bool:
        """quit: leave"""
        return True


_MOVEMENTS = ("step", "next", "back", "reverse-next", "finish", "continue", "reverse-continue")


def read_script(path: Path) -> list[str]:
    """The lines of a file of commands. Raises: UsageError S0102 where it cannot be read."""
    with reading(path):
        return path.read_text().splitlines()


def split_commands(text: str) -> list[str]:
    """`a; b c` as lines."""
    return [part.strip() for part in text.split(";") if part.strip()]


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise UsageError(V0505, f"expected {what}, got {text!r}")
    return int(text)


def _register(text: str) -> int:
    name = text.strip().removeprefix("%")
    if not (name.isascii() and name.isdecimal() and len(name) < 16):
        raise UsageError(V0505, f"expected a register such as %5, got {text!r}")
    return int(name)


def _indexed(value: Any, text: str) -> Any:
    """`0, :4]` applied to a value."""
    if not text.endswith("]"):
        raise UsageError(V0505, f"expected an index in brackets, got [{text}")
    try:
        index = tuple(_index_part(part) for part in text[:-1].split(","))
        return value[index[0]] if isinstance(value, tuple) and len(index) == 1 else value[index]
    except (ValueError, IndexError, TypeError) as error:
        raise UsageError(V0505, f"index [{text} does not fit: {error}") from error


def _index_part(text: str) -> Any:
    parts = [int(part) if part.strip() else None for part in text.split(":")]
    return parts[0] if len(parts) == 1 and parts[0] is not None else slice(*parts)
