"""Profiles: what is counted agrees with what ran, and traces keep to the documented format."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

import heddle
from heddle.runtime import allocator_for, cpu, remove_global_func, tensor
from heddle.runtime.native.library import native_library, set_num_threads
from heddle.runtime.storage import Storage
from heddle.script.parser import DEFAULT_NAMES, parse_source
from heddle.support.diagnostics import FormatError, Trap, UsageError
from heddle.support.span import Source
from heddle.vm.insight.kernel_cost import KernelCost, KernelCosts, cost_from_json

from .programs import builder, countdown, run_machine

MODEL = """
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("n", 16), "float32"), w: R.Tensor((16, 8), "float32")
    ) -> R.Tensor(("n", 8), "float32"):
        with R.dataflow():
            h = R.nn.relu(R.matmul(x, w))
            y = R.nn.softmax(h)
            R.output(y)
        return y
"""


@pytest.fixture(scope="module")
def machine():
    return new_machine()


def new_machine():
    executable = heddle.compile(parse_source(Source("model.py", MODEL), DEFAULT_NAMES), target="llvm")
    return heddle.relax.VirtualMachine(executable, cpu())


def arguments(n: int):
    rng = np.random.default_rng()
    return rng.standard_normal((n, 16)).astype("float32"), rng.standard_normal((16, 8)).astype("float32")


@pytest.fixture
def globals_of():
    """Registers global functions for one test."""
    names = []

    def register(**functions):
        for name, function in functions.items():
            heddle.register_global_func(name, function)
            names.append(name)

    yield register
    for name in names:
        remove_global_func(name)


def row_of(report, name: str):
    return next(row for row in report.calls if row.name == name)


def test_work_follows_the_shapes(machine):
    for n in (1, 7, 31):
        report = machine.profile("main", *arguments(n))
        row = row_of(report, "fused_matmul_relu")
        assert row.operators == ("matmul", "nn.relu")
        assert row.flops == n * 8 * 16 * 2 + n * 8
        assert row.moved_bytes == 4 * (n * 16 + 16 * 8 + n * 8)
        assert row.shapes == ((n, 16), (16, 8), (n, 8))
        assert row.gflops == row.flops / row.duration_ns
        assert len(row.sources) == 1
        assert row.sources[0].count("model.py:") == 2


def test_the_parts_make_the_whole(machine):
    report = machine.profile("main", *arguments(5))
    assert report.duration_ns > 0
    assert report.calls_ns + report.dispatch_ns == report.duration_ns
    assert report.num_instructions == len(machine.executable.program.offsets)
    assert sum(row.count for row in report.calls) == report.num_instructions - 1  # but for the return


def test_allocations_are_those_of_the_allocator(machine):
    books = allocator_for(cpu()).books
    before = books.num_allocations
    x, w = arguments(9)
    report = machine.profile("main", x, w)
    assert report.num_allocations == books.num_allocations - before > 0
    row = row_of(report, "vm.builtin.alloc_storage")
    assert row.num_allocations == report.num_allocations
    assert row.allocated_bytes == report.allocated_bytes >= 9 * 8 * 4
    assert report.peak_bytes >= report.allocated_bytes > 0


def test_nothing_is_watched_afterwards(machine):
    machine.profile("main", *arguments(2))
    assert "_run" not in vars(machine)
    assert "alloc" not in vars(allocator_for(cpu()))


def test_watching_allocations_of_several():
    allocator, seen = allocator_for(cpu()), []
    with allocator.watched(lambda _who, storage: seen.append(("outer", storage.size_bytes))):
        with allocator.watched(lambda _who, storage: seen.append(("inner", storage.size_bytes))):
            assert isinstance(allocator.alloc(17), Storage)
        allocator.alloc(18)
    allocator.alloc(19)
    assert seen == [("outer", 17), ("inner", 17), ("outer", 18)]


def test_recursion_and_branches_count():
    report = run_machine(countdown()).profile("main", 5)
    counts = {row.name: row.count for row in report.calls}
    assert counts == {"is_zero": 6, "vm.builtin.copy": 1, "minus_one": 5, "plus": 5}
    assert row_of(report, "is_zero").sources == ["loop.py:3"]
    functions = [event for event in report.events if event.is_function]
    assert sorted(event.depth for event in functions) == [1, 2, 3, 4, 5, 6]


def test_time_in_calls_back_is_counted_once(globals_of):
    made = builder()
    with made.function("main", num_inputs=1):
        made.emit_call("again", [made.r(0)], dst=made.r(1))
        made.emit_ret(made.r(1))
    with made.function("inner", num_inputs=1):
        made.emit_call("slow", [made.r(0)], dst=made.r(1))
        made.emit_ret(made.r(1))
    machine = None

    def slow(x):
        total = 0
        for k in range(200_000):
            total += k
        return x + (total > 0)

    globals_of(again=lambda x: machine["inner"](x), slow=slow)
    machine = run_machine(made)
    report = machine.profile("main", 3)
    assert row_of(report, "slow").count == 1
    assert row_of(report, "again").duration_ns < row_of(report, "slow").duration_ns
    assert report.calls_ns <= report.duration_ns


def test_errors_leave_the_machine_as_it_was():
    made = builder()
    with made.function("main", num_inputs=1):
        made.emit_call("vm.builtin.tuple_getitem", [made.r(0), made.imm(9)], dst=made.r(1), place="net.py:4")
        made.emit_ret(made.r(1))
    machine = run_machine(made)
    with pytest.raises(Trap, match="V0404") as caught:
        machine.profile("main", (1, 2))
    assert "--> net.py:4" in str(caught.value)
    assert "_run" not in vars(machine)
    with pytest.raises(Trap, match="V0302"):
        machine.profile("main")
    with pytest.raises(AttributeError, match="V0301"):
        machine.profile("mian")


def test_one_watcher_at_a_time():
    machine = run_machine(countdown())
    with machine.running_with(lambda function, args: None):
        with pytest.raises(UsageError, match="V0501"):
            machine.profile("main", 1)
        others = []
        thread = threading.Thread(target=lambda: others.append(machine["main"](4)))
        thread.start()
        thread.join()
    assert others == [4]  # another thread runs the machine's own loop
    assert machine["main"](3) == 3


def test_machine_code_is_not_watched(globals_of):
    made = builder()
    made.define_vmtir_function("main", 1, 3)
    globals_of(__vmtir__main=lambda *args: None)
    with pytest.raises(UsageError, match="V0502"):
        run_machine(made).profile("main", 1)


def test_parts_of_loops_lie_in_their_calls():
    """The pool shares the first loop of a body that it does not know."""
    before = native_library().num_threads
    set_num_threads(2)
    try:
        report = new_machine().profile("main", *arguments(4000))
    finally:
        set_num_threads(before)
    assert report.parts and report.num_dropped_parts == 0 and report.num_threads == 2
    calls = {event.place: event for event in report.events if not event.is_function}
    for part in report.parts:
        call = calls[part.place]
        assert (part.name, part.source) == (call.name, call.source)
    assert {part.name for part in report.parts} == {"fused_matmul_relu", "softmax"}
    trace = report.chrome_trace()["traceEvents"]
    assert sum(event.get("cat") == "part" for event in trace) == len(report.parts)
    rows = {event["tid"]: event["args"]["name"] for event in trace if event["name"] == "thread_name"}
    assert [rows[number] for number in (1, 2, 3)] == ["virtual machine", "calling thread", "worker 1"]
    assert {event["tid"] for event in trace if event.get("cat") == "part"} <= set(rows) - {1}


def test_chrome_trace_keeps_to_the_format(machine):
    report = machine.profile("main", *arguments(3))
    trace = json.loads(json.dumps(report.chrome_trace()))
    assert set(trace) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    last = 0.0
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event["ph"] in "XMC"
        if event["ph"] == "X":
            assert set(event) == {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"}
            assert event["dur"] >= 0
            assert event["ts"] >= last >= 0
            last = event["ts"]
        elif event["ph"] == "C":
            assert all(isinstance(value, (int, float)) for value in event["args"].values())
        else:
            assert event["name"] in ("process_name", "thread_name")
            assert set(event["args"]) == {"name"}
    main = next(event for event in trace["traceEvents"] if event.get("cat") == "function")
    for event in trace["traceEvents"]:
        if event.get("cat") == "call":
            assert main["ts"] <= event["ts"]
            assert event["ts"] + event["dur"] <= main["ts"] + main["dur"] + 1e-3


def test_the_time_line_is_bounded():
    report = run_machine(countdown()).profile("main", 20, max_events=7)
    assert len(report.events) == 7
    assert report.num_dropped_events == 21 + 1 + 20 + 20 + 21 - 7
    assert row_of(report, "minus_one").count == 20


def test_forms_of_a_report(machine):
    report = machine.profile("main", *arguments(4))
    data = json.loads(report.json())
    assert data["calls"] == sorted(data["calls"], key=lambda row: -row["duration_us"])
    assert sum(row["share"] for row in data["calls"]) + data["dispatch_share"] == pytest.approx(1)
    text = str(report)
    assert [row.name in text for row in report.calls] == [True] * len(report.calls)
    assert "(dispatch)" in text
    assert "more rows" in report.table(max_rows=2)
    assert len(report.csv().splitlines()) == 1 + len(report.calls)


def test_an_empty_program_has_an_empty_report():
    made = builder()
    with made.function("main", num_inputs=1):
        made.emit_ret(made.r(0))
    report = run_machine(made).profile("main", tensor(np.zeros(0, "float32")))
    assert (report.calls, report.num_instructions) == ([], 1)
    assert "total" in str(report)


EMPTY_ENTRY = KernelCost().to_json()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"operators": [1]}', "[" * 100_000]
    + [EMPTY_ENTRY.replace('"outputs": []', f'"outputs": {outputs}') for outputs in ("[1e999]", "[-1]", "{}")]
    + [EMPTY_ENTRY.replace('"operators": []', '"operators": "add"')]
    + [KernelCost(flops="9" * 400).to_json(), KernelCost(flops="*".join(["n"] * 200)).to_json()]
    + [KernelCost(flops="n ** 2").to_json(), KernelCost(flops="__import__('os')").to_json()[:-9]],
)
def test_malformed_kernel_entries_are_refused(text):
    with pytest.raises(FormatError, match=r"V0504|F0108"):
        KernelCosts({"kernel.k": text}).of("k").flops_of({"n": 2})


def test_kernel_entries_survive_json():
    cost = KernelCost(
        ("add",), (("n", "4"), ("m",)), ("k",), (1,), "n * k + min(m, 3)", None, written_bytes="n * 4"
    )
    assert cost_from_json(cost.to_json()) == cost
    sizes = cost.sizes([(5, 4), (7,)], [2])
    assert sizes == {"n": 5, "m": 7, "k": 2}
    assert (cost.flops_of(sizes), cost.bytes_of(sizes), cost.written_bytes_of(sizes)) == (13, None, 20)
