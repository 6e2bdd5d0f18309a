"""Recordings: what they say was in a register is what was in it, whatever happened to its memory since."""

from __future__ import annotations

import random

import numpy as np
import pytest

import heddle
from heddle.driver.pipeline import default_pipeline
from heddle.ir.transform import Sequential
from heddle.runtime import FunctionModule, Shape, Tensor, cpu, tensor
from heddle.script.parser import DEFAULT_NAMES, parse_source
from heddle.support.diagnostics import Trap, UsageError
from heddle.support.span import Source
from heddle.target import Target
from heddle.vm.insight.recording import Cursor, num_nan
from heddle.vm.insight.summary import summarize
from heddle.vm.relax import VirtualMachine
from heddle.vm.relax.isa import RELAX

from .programs import HELPERS, builder, countdown, run_machine

CHAIN = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32")) -> R.Tensor(("n", 8), "float32"):
        a = R.exp(x)
        b = R.nn.softmax(a)
        c = R.negative(b)
        d = R.nn.softmax(c)
        e = R.log(R.negative(d))
        f = R.nn.softmax(e)
        return f
"""


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.fixture(scope="module")
def chain():
    """Every operator is a kernel of its own here, so that all values are written."""
    passes = default_pipeline(Target("llvm")).passes
    unfused = Sequential(tuple(p for p in passes if p.info.name not in ("FuseOps", "FuseTIR")), "unfused")
    mod = parse_source(Source("chain.py", CHAIN), DEFAULT_NAMES)
    return VirtualMachine(heddle.compile(mod, target="llvm", relax_pipeline=unfused), cpu())


def states_of(recording):
    """What every register held before every step, going forward."""
    cursor, found = Cursor(recording), []
    while cursor.position < recording.num_steps:
        found.append([(f.number, f.function, f.pc, dict(f.registers)) for f in cursor.frames])
        cursor.forward()
    return cursor, found


def check_back_is_forward(recording):
    cursor, states = states_of(recording)
    while states:
        cursor.back()
        assert [(f.number, f.function, f.pc, dict(f.registers)) for f in cursor.frames] == states.pop()
    with pytest.raises(UsageError, match="V0507"):
        cursor.back()


def test_values_are_those_of_the_moment(chain):
    """Storages are used again in this program; each kept value is still what was computed then."""
    x = np.random.default_rng().standard_normal((5, 8)).astype("float32")
    recording = chain.record("main", x, keep_values=True)
    assert recording.error is None
    a = np.exp(x)
    b = softmax(a)
    d = softmax(-b)
    with np.errstate(invalid="ignore"):
        e = np.log(-d)
    written = [
        recording.value(write)
        for step in recording
        for write in step.outputs
        if write.how == "memory" and write.after.dtype == "float32"
    ]
    for expected in (softmax(a), d, e):
        assert any(np.allclose(value, expected, rtol=1e-5, equal_nan=True) for value in written)
    addresses = [
        w.after.memory for s in recording for w in s.outputs if w.how == "memory" and w.after.shape == (5, 8)
    ]
    assert len(set(addresses)) < len(addresses), "the program no longer reuses storage: pick another"
    assert np.isnan(recording.result.numpy()).all()
    np.testing.assert_array_equal(recording.value(recording.arguments[0]), x)


def test_the_first_nan(chain):
    x = np.random.default_rng().standard_normal((3, 8)).astype("float32")
    step = chain.record("main", x).first_nan()
    line = next(n for n, text in enumerate(CHAIN.splitlines(), 1) if "R.log" in text)
    assert f"chain.py:{line}:" in step.site.source
    assert [num_nan(summary) for _, summary in step.reads] == [0] * len(step.reads)
    assert step.outputs[0].after.num_nan == 24
    clean = run_machine(countdown()).record("main", 2)
    assert clean.first_nan() is None


def test_back_is_forward_reversed(chain):
    check_back_is_forward(chain.record("main", np.ones((2, 8), "float32")))
    check_back_is_forward(run_machine(countdown()).record("main", 6))


def test_a_recorded_run_gives_the_same(chain):
    x = np.random.default_rng().standard_normal((4, 8)).astype("float32")
    np.testing.assert_array_equal(chain.record("main", x).result.numpy(), chain["main"](x).numpy())
    machine = run_machine(countdown())
    assert machine.record("main", 11).result == machine["main"](11) == 11


def test_steps_tell_the_path():
    recording = run_machine(countdown()).record("main", 1)
    assert [step.site.place for step in recording] == [
        *("main:0", "main:1", "main:4", "main:5"),
        *("main:0", "main:1", "main:2", "main:3", "main:7"),
        *("main:6", "main:7"),
    ]
    assert [step.depth for step in recording] == [0] * 4 + [1] * 5 + [0] * 2
    assert recording.step(3).enters.number == 1
    returned = recording.step(8)
    assert returned.left[0].registers[2].value == 0  # registers are numbered in order of first writes
    assert [(write.register, write.after.value) for write in returned.writes] == [(4, 0)]


def test_python_functions_that_write_in_place():
    made = builder()
    with made.function("main", num_inputs=2):
        made.emit_call("vm.builtin.reshape", [made.r(0), made.convert_constant(Shape((6,)))], dst=made.r(2))
        made.emit_call("fill", [made.r(0), made.r(1)])
        made.emit_call("identity", [made.r(0)], dst=made.r(3))
        made.emit_ret(made.r(2))
    recording = run_machine(made).record("main", tensor(np.zeros((2, 3), "float32")), 7.0)
    wrote = recording.step(1)
    assert [(write.register, write.how) for write in wrote.writes] == [(0, "memory"), (2, "alias")]
    assert recording.value(wrote.writes[1]).tolist() == [7.0] * 6
    assert recording.value(wrote.writes[1].before).tolist() == [0.0] * 6
    assert [write.how for write in recording.step(2).writes] == ["result"]


def test_budget_drops_the_oldest_values():
    made = builder()
    with made.function("main", num_inputs=1):
        for k in range(6):
            made.emit_call("add", [made.r(k), made.r(0)], dst=made.r(k + 1))
        made.emit_ret(made.r(6))
    machine, x = run_machine(made), np.arange(100, dtype="float32")
    recording = machine.record("main", x, budget_bytes=1000)
    assert recording.values.num_bytes == 800
    assert recording.values.num_dropped == 5
    assert recording.value(recording.step(5).outputs[0]).tolist() == (x * 7).tolist()
    with pytest.raises(UsageError, match=r"V0506.*not kept"):
        recording.value(recording.step(0).outputs[0])
    assert recording.step(0).outputs[0].after.digest
    assert machine.record("main", x, budget_bytes=0).values.num_bytes == 0
    assert machine.record("main", x, keep_values=True, budget_bytes=0).values.num_bytes == 2800
    with pytest.raises(UsageError, match="V0503"):
        machine.record("main", x, budget_bytes=-1)


def test_equal_values_are_kept_once():
    made = builder()
    with made.function("main", num_inputs=1):
        for k in range(1, 9):
            made.emit_call("identity", [made.r(0)], dst=made.r(k))
        made.emit_ret(made.r(8))
    assert run_machine(made).record("main", np.ones(10, "float32")).values.num_bytes == 40


def test_a_bounded_recording_forgets_its_beginning():
    whole = run_machine(countdown()).record("main", 9)
    recording = run_machine(countdown()).record("main", 9, max_steps=13)
    assert (recording.num_steps, len(recording)) == (whole.num_steps, 13)
    assert recording.first_step == whole.num_steps - 13
    assert [str(step) for step in recording] == [str(step) for step in list(whole)[-13:]]
    cursor = Cursor(recording)
    full = Cursor(whole)
    while full.position < cursor.position:
        full.forward()
    assert [(f.function, f.pc, f.registers) for f in cursor.frames] == [
        (f.function, f.pc, f.registers) for f in full.frames
    ]
    check_back_is_forward(recording)
    with pytest.raises(UsageError, match="V0506"):
        recording.step(0)
    with pytest.raises(UsageError, match="V0503"):
        run_machine(countdown()).record("main", 9, max_steps=0)


def test_errors_are_kept():
    made = builder()
    with made.function("deep", num_inputs=1):
        made.emit_call("vm.builtin.tuple_getitem", [made.r(0), made.imm(5)], dst=made.r(1), place="net.py:8")
        made.emit_ret(made.r(1))
    with made.function("main", num_inputs=1):
        made.emit_call("deep", [made.r(0)], dst=made.r(1))
        made.emit_ret(made.r(1))
    machine = run_machine(made)
    recording = machine.record("main", (1, 2))
    assert isinstance(recording.error, Trap)
    assert recording.is_finished
    last = recording.steps[-1]
    assert "V0404" in last.error
    assert last.site.source == "net.py:8"
    cursor, _ = states_of(recording)
    assert [frame.function for frame in cursor.frames] == ["main", "deep"]  # the stack stays to be looked at
    check_back_is_forward(recording)
    assert "_run" not in vars(machine)


def test_errors_of_python_functions_are_kept():
    def broken(_):
        raise ZeroDivisionError("nothing over nothing")

    made = builder()
    with made.function("main", num_inputs=1):
        made.emit_call("broken", [made.r(0)], dst=made.r(1))
        made.emit_ret(made.r(1))
    machine = VirtualMachine(made.get(imports=[FunctionModule({"broken": broken})]), cpu())
    recording = machine.record("main", 1)
    assert isinstance(recording.error, ZeroDivisionError)
    assert recording.steps[-1].error == "ZeroDivisionError: nothing over nothing"


def calls_back(inner_fails: bool) -> VirtualMachine:
    """main calls a Python function that calls the machine again and swallows its failure."""
    made = builder()
    with made.function("main", num_inputs=1):
        made.emit_call("again", [made.r(0)], dst=made.r(1))
        made.emit_call("plus", [made.r(1), made.imm(1)], dst=made.r(2))
        made.emit_ret(made.r(2))
    with made.function("inner", num_inputs=1):
        made.emit_call("plus", [made.r(0), made.imm(10)], dst=made.r(1))
        if inner_fails:
            made.emit_call("vm.builtin.tuple_getitem", [made.r(1), made.imm(0)], dst=made.r(1))
        made.emit_ret(made.r(1))

    def again(x):
        try:
            return machine["inner"](x)
        except Trap:
            return -1

    machine = VirtualMachine(made.get(imports=[FunctionModule({**HELPERS, "again": again})]), cpu())
    return machine


@pytest.mark.parametrize("inner_fails", [False, True])
def test_calls_back_are_followed(inner_fails):
    recording = calls_back(inner_fails).record("main", 5)
    assert recording.error is None
    assert recording.result == (0 if inner_fails else 16)
    kinds = [(step.site.mnemonic, step.site.function, step.depth) for step in recording]
    assert kinds[:2] == [("enter", "main", 0), ("call", "inner", 1)]
    assert recording.step(0).enters.function == "inner"
    assert sum(bool(step.error) for step in recording) == inner_fails
    check_back_is_forward(recording)


def test_saved_functions_are_recorded():
    machine = run_machine(countdown())
    machine.save_function("main", "three", 3)
    recording = machine.record("three")
    assert recording.arguments[0].after.shape == ()  # save_function makes tensors of numbers
    with pytest.raises(AttributeError, match="V0301"):
        machine.record("four")


def test_dynamic_calls_name_their_kernel():
    made = builder()
    made.declare_function("identity")
    with made.function("main", num_inputs=1):
        shape = made.convert_constant(Shape(()))
        made.emit_call("vm.builtin.call_tir_dyn", [made.f("identity"), made.r(0), shape], dst=made.r(1))
        made.emit_ret(made.r(0))
    recording = run_machine(made).record("main", tensor(np.ones(3, "float32")))
    assert recording.step(0).site.callee == "identity"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn"])
def test_summaries_count_what_is_not_finite(dtype):
    values = np.array([1.0, np.nan, -2.0, np.nan], "float32")
    value = tensor(values).numpy().astype(heddle.DataType(dtype).numpy())
    summary = summarize(tensor(value))
    assert (summary.num_nan, summary.num_inf, summary.dtype) == (2, 0, dtype)
    assert "-2 .. 1, mean -0.5" in summary.text


def test_summaries_of_odd_values():
    assert summarize(tensor(np.zeros((0, 3), "float32"))).text == "float32[0, 3]"
    assert summarize(tensor(np.array([True, False, True]))).text == "bool[3] 2 of 3 true"
    assert summarize(float("inf")).num_inf == 1
    assert summarize(tensor(np.array([np.inf, -np.inf], "float32"))).num_inf == 2
    one, other = (summarize(tensor(np.array(v, "int32"))).digest for v in (1, 2))
    assert one != other
    assert summarize(tensor(np.array([1], "int32"))).digest != one  # another shape
    assert isinstance(tensor(np.ones(1)), Tensor)


def test_fuel_bounds_a_run():
    """Each instruction costs what the table says; a run that needs more ends with a trap that is kept."""
    made = builder()
    with made.function("main", 1):
        made.emit_call("vm.builtin.copy", [made.r(0)], dst=made.r(1))
        made.emit_goto(-1)
    for_ever = run_machine(made)
    fuel = random.Random().randrange(2, 60)
    recording = for_ever.record("main", 1, fuel=fuel)
    assert isinstance(recording.error, Trap)
    assert recording.error.code == "V0308"
    assert sum(spec.fuel for spec in steps_of(recording)) <= fuel
    assert recording.num_steps == fuel + 1  # the one that it could not pay is there with its error
    with pytest.raises(UsageError, match="V0503"):
        for_ever.record("main", 1, fuel=-1)
    needed = countdown()
    plain = run_machine(needed).record("main", 3)
    assert run_machine(needed).record("main", 3, fuel=plain.num_steps).result == plain.result == 3
    assert run_machine(needed).record("main", 3, fuel=plain.num_steps - 1).error.code == "V0308"


def steps_of(recording):
    """The specs of the steps that were paid."""
    by_mnemonic = {spec.mnemonic: spec for spec in RELAX.instructions}
    return [by_mnemonic[step.site.mnemonic] for step in recording if step.error is None]
