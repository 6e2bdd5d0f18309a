"""The debugger: where it stops, both ways, live and on recordings; and its console."""

from __future__ import annotations

import io

import numpy as np
import pytest

from heddle.runtime import FunctionModule, cpu, tensor
from heddle.support.diagnostics import UsageError
from heddle.vm.insight.console import DebugConsole, split_commands
from heddle.vm.insight.debugger import Debugger
from heddle.vm.relax import VirtualMachine

from .programs import HELPERS, builder, countdown, run_machine


def log_chain() -> VirtualMachine:
    """main(x): y = shift(x); z = log(y); w = log(z); growing shapes in `twice`."""
    made = builder()
    with made.function("twice", num_inputs=1):
        made.emit_call("join", [made.r(0), made.r(0)], dst=made.r(1), place='net.onnx node "cat" (Concat)')
        made.emit_ret(made.r(1))
    with made.function("main", num_inputs=1):
        made.emit_call("shift", [made.r(0)], dst=made.r(1), place='net.onnx node "sub" (Sub)')
        made.emit_call("log", [made.r(1)], dst=made.r(2), place='net.onnx node "log" (Log)')
        made.emit_call("twice", [made.r(2)], dst=made.r(3))
        made.emit_call("twice", [made.r(3)], dst=made.r(4))
        made.emit_call("log", [made.r(4)], dst=made.r(5), place='net.onnx node "log2" (Log)')
        made.emit_ret(made.r(5))

    def log(x):
        with np.errstate(all="ignore"):
            return tensor(np.log(x.numpy()))

    functions = {
        **HELPERS,
        "shift": lambda x: tensor(x.numpy() - np.float32(2)),
        "log": log,
        "join": lambda a, b: tensor(np.concatenate([a.numpy(), b.numpy()])),
    }
    return VirtualMachine(made.get(imports=[FunctionModule(functions)]), cpu())


X = np.array([1.0, 2.0, 3.0], "float32")


@pytest.fixture(params=["live", "recorded"])
def debugger(request) -> Debugger:
    machine = log_chain()
    if request.param == "live":
        return Debugger.of_call(machine, "main", X)
    return Debugger.of_recording(machine, machine.record("main", X))


def test_the_first_nan_and_its_cause(debugger):
    number = debugger.add_breakpoint("nan")
    stop = debugger.resume()
    assert (stop.breakpoint, stop.step.site.place) == (number, "main:1")
    assert stop.step.site.source == 'net.onnx node "log" (Log)'
    register, summary = stop.step.reads[0]
    assert (register, summary.num_nan) == (1, 0)
    assert debugger.recording.value(summary).tolist() == [-1.0, 0.0, 1.0]
    assert np.isnan(debugger.value(2)[0])
    debugger.step_back()
    assert debugger.next_site.place == "main:1"
    assert 2 not in debugger.registers()
    with pytest.raises(UsageError, match="V0506"):
        debugger.value(2)
    assert debugger.resume().breakpoint == number  # the same NaN again
    assert debugger.resume().reason == "end"  # a NaN from a NaN is no news
    assert debugger.resume_back().breakpoint == number
    assert debugger.resume_back().reason == "start"


def test_infinities(debugger):
    debugger.add_breakpoint("inf")
    assert debugger.resume().step.site.place == "main:1"  # log(0)
    assert debugger.resume().reason == "end"


def test_function_and_instruction_breakpoints(debugger):
    by_name, by_place = debugger.add_breakpoint("log"), debugger.add_breakpoint("twice:1")
    found = []
    while (stop := debugger.resume()).reason != "end":
        found.append((stop.breakpoint, stop.next_site.place))
    there = [(by_name, "main:1"), (by_place, "twice:1"), (by_place, "twice:1"), (by_name, "main:4")]
    assert found == there
    back = []
    while (stop := debugger.resume_back()).reason != "start":
        back.append((stop.breakpoint, stop.next_site.place))
    assert back == there[::-1]
    debugger.remove_breakpoint(by_name)
    assert debugger.resume().breakpoint == by_place
    with pytest.raises(UsageError, match="V0506"):
        debugger.remove_breakpoint(by_name)


def test_a_function_of_the_program_stops_at_its_call_and_start(debugger):
    debugger.add_breakpoint("twice")
    assert [debugger.resume().next_site.place for _ in range(2)] == ["main:2", "twice:0"]


def test_shape_changes(debugger):
    debugger.add_breakpoint("shape twice:%1")
    stop = debugger.resume()
    assert "from (6,) to (12,)" in stop.reason
    assert debugger.frame().registers[1].shape == (12,)
    assert debugger.resume().reason == "end"


def test_stepping_in_over_and_out(debugger):
    debugger.go_to(2)
    assert debugger.step().next_site.place == "twice:0"
    assert [frame.function for frame in debugger.stack()] == ["twice", "main"]
    assert debugger.finish().next_site.place == "main:3"
    assert debugger.next().next_site.place == "main:4"
    assert debugger.next_back().next_site.place == "main:3"
    assert debugger.step_back().next_site.place == "twice:1"
    assert debugger.frame(1).function == "main"
    with pytest.raises(UsageError, match="V0506"):
        debugger.frame(2)


def test_the_ends(debugger):
    with pytest.raises(UsageError, match="V0507"):
        debugger.step_back()
    assert debugger.resume().reason == "end"
    assert debugger.next_site is None
    for move in (debugger.step, debugger.next, debugger.resume, lambda: debugger.go_to(99)):
        with pytest.raises(UsageError, match="V0507"):
            move()


def test_origin_and_history(debugger):
    debugger.go_to(9)
    assert [step.site.place for step in debugger.history(3)] == ["twice:1"]
    assert debugger.origin(3).next_site.place == "twice:1"
    debugger.go_to(9)
    assert debugger.origin(2).next_site.place == "main:1"
    with pytest.raises(UsageError, match="V0506"):
        debugger.origin(5)


def test_live_runs_nothing_twice():
    calls = []
    made = builder()
    with made.function("main", num_inputs=1):
        for k in range(3):
            made.emit_call("note", [made.r(k)], dst=made.r(k + 1))
        made.emit_ret(made.r(3))
    functions = {"note": lambda x: calls.append(x) or x + 1}
    machine = VirtualMachine(made.get(imports=[FunctionModule(functions)]), cpu())
    debugger = Debugger.of_call(machine, "main", 0)
    debugger.step()
    assert calls == [0]
    debugger.step()
    debugger.go_to(0)
    debugger.resume()
    assert calls == [0, 1, 2]
    assert debugger.recording.result == 3


def test_allocations_and_errors():
    made = builder()
    with made.function("main", num_inputs=1):
        for k, size in enumerate((100, 5000)):
            args = [made.vm_state(), made.convert_constant((size,)), made.imm(0)]
            dtype, scope = made.convert_constant(tensor(np.zeros(1)).dtype), made.convert_constant("global")
            made.emit_call("vm.builtin.alloc_storage", [*args, dtype, scope], dst=made.r(k + 1))
        made.emit_call("vm.builtin.tuple_getitem", [made.r(0), made.imm(3)], dst=made.r(3))
        made.emit_ret(made.r(3))
    debugger = Debugger.of_call(run_machine(made), "main", (1,))
    debugger.add_breakpoint("alloc 4K")
    assert debugger.resume().reason == "allocation of 40000 bytes"
    stop = debugger.resume()
    assert stop.reason == "error"
    assert "V0404" in stop.step.error
    assert debugger.next_site is None
    assert debugger.registers()[2].text == "storage of 40000 bytes"  # post mortem


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("mian", "V0506"),
        ("main:99", "V0506"),
        ("join:0", "V0506"),
        ("nowhere:0", "V0506"),
        ("alloc", "V0505"),
        ("alloc x", "V0505"),
        ("shape 3", "V0505"),
        ("shape join:%3", "V0506"),
    ],
)
def test_malformed_breakpoints(debugger, text, code):
    with pytest.raises(UsageError, match=code):
        debugger.add_breakpoint(text)


# The console


def said(commands: str, debugger: Debugger | None = None) -> str:
    out = io.StringIO()
    console = DebugConsole(debugger or Debugger.of_call(log_chain(), "main", X), stdout=out)
    console.run_script(split_commands(commands))
    return out.getvalue()


def test_console_shows_the_cause_of_a_nan():
    text = said("break nan; continue; print %2; back; print %1[1:]; last")
    for part in (
        "breakpoint 1: nan in %2",
        'from net.onnx node "log" (Log)',
        "in  %1 = float32[3] -1 .. 1, mean 0",
        "[ nan -inf   0.]",
        "[0. 1.]",
        "ran #0 main:0",
    ):
        assert part in text


def test_console_looks_around():
    text = said(
        "goto 3; where; frame 1; registers; list; list main; history %2; info; break main; break; delete 1"
    )
    assert "*0  twice:0" in text
    assert " 1  main:2" in text
    assert "1  main:2" in text
    assert "%2    float32[3]" in text
    assert "> twice:0" in text
    assert "main:5       ret   %5" in text
    assert "#1 main:1  float32[3]" in text
    assert "recording of 'main': 3 steps" in text
    assert "calls of main" in text


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("stepp", "V0505"),
        ("print 5x", "V0505"),
        ("print %0[1,2]", "V0505"),
        ("print %0[a]", "V0505"),
        ("print %0[1", "V0505"),
        ("print %77", "V0506"),
        ("goto", "V0505"),
        ("goto 1000", "V0507"),
        ("delete 4", "V0506"),
        ("list nothing", "V0505"),
        ("help nothing", "V0505"),
        ("frame 7", "V0506"),
        ("back", "V0507"),
    ],
)
def test_console_survives_mistakes(command, code):
    out = io.StringIO()
    console = DebugConsole(Debugger.of_call(log_chain(), "main", X), stdout=out)
    console.run_script([command, "info"])
    assert f"error[{code}]" in out.getvalue()
    assert console.failures == 1
    assert "recording of 'main'" in out.getvalue().splitlines()[-1]


def test_console_reads_a_terminal():
    out = io.StringIO()
    typed = io.StringIO("step 2\n\n# a remark is no command\nreverse-continue\nquit\nstep\n")
    console = DebugConsole(Debugger.of_call(log_chain(), "main", X), stdin=typed, stdout=out)
    console.cmdloop()
    assert console.debugger.position == 0
    assert console.debugger.recording.num_steps == 3  # the empty line stepped once more


def test_help_lists_every_command():
    text = said("help")
    for name in ("step", "next", "back", "reverse-continue", "origin", "print", "break", "quit"):
        assert f"  {name}" in text
    assert "break NAME" in said("help b")


def test_recursion_in_the_debugger():
    debugger = Debugger.of_call(run_machine(countdown()), "main", 4)
    debugger.add_breakpoint("vm.builtin.copy")
    debugger.resume()
    assert [frame.registers[0].value for frame in debugger.stack()] == [0, 1, 2, 3, 4]
    assert debugger.finish().next_site.place == "main:6"
    assert debugger.resume().reason == "end"
    assert debugger.recording.result == 4
