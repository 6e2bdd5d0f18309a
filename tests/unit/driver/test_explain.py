"""Explanations: work, counts, reasons and advice of small models; ceilings are positive."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import heddle
from heddle.driver.ceilings import Ceilings, compile_probes, measure_ceilings, rate_at
from heddle.driver.compile import compile
from heddle.driver.explain import ExplainOptions, KernelRow, Roofline, advice_on, explain, roofline
from heddle.driver.models import find_model
from heddle.driver.run import Compiled, CompileOptions, load_or_compile
from heddle.lower.fusion_graph import FusionNode, find_groups
from heddle.runtime.native.library import native_library, set_num_threads
from heddle.runtime.tensor import tensor
from heddle.script.parser import DEFAULT_NAMES, parse_source
from heddle.support.span import Source
from heddle.target import Target
from heddle.tir.analysis.op_pattern import OpPattern
from heddle.vm.insight.kernel_cost import KernelCost
from heddle.vm.relax import VMExecutable

MODEL = """
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("n", 16), "float32"), w: R.Tensor((16, 16), "float32")
    ) -> R.Tensor((16, "n"), "float32"):
        with R.dataflow():
            a = R.nn.relu(R.matmul(x, w))
            b = R.nn.relu(R.matmul(a, w))
            c = R.nn.softmax(b)
            y = R.permute_dims(c)
            R.output(y)
        return y
"""


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("explain") / "model.py"
    path.write_text(MODEL)
    model = find_model(str(path))
    compiled = load_or_compile(model, CompileOptions(exec_mode="bytecode"))
    return explain(model.name, compiled, ExplainOptions(dims={"n": 37}, num_threads=1))


def test_rows_count_calls_and_work(explained) -> None:
    rows = {row.name: row for row in explained.rows}
    matmul = next(row for row in explained.rows if "matmul" in row.name)
    assert matmul.count == 2
    assert matmul.flops == 2 * 37 * 16 * 16 + 37 * 16  # and the maxima of relu
    assert matmul.rule == "Contraction"
    assert matmul.shapes == ((37, 16), (16, 16), (37, 16))
    assert rows["softmax"].rule == "RowPass"
    assert rows["permute_dims"].size_bytes == 2 * 37 * 16 * 4
    assert rows["permute_dims"].written_bytes == 37 * 16 * 4
    assert matmul.size_bytes == (37 * 16 + 16 * 16 + 37 * 16) * 4  # sums begin in the kernel
    assert matmul.written_bytes == 37 * 16 * 4
    assert rows["permute_dims"].is_memory_bound
    assert all(row.least_us >= row.memory_us for row in explained.rows)
    assert all(row.time_us > 0 and row.least_us > 0 for row in explained.rows)


ROWS_OF_TWO = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "m", 8), "float32"), w: R.Tensor((8, 4), "float32")) -> R.Any:
        n, m = T.int64(), T.int64()
        with R.dataflow():
            y = R.matmul(R.reshape(x, (n * m, 8)), w)
            R.output(y)
        return y
"""


def test_kernels_that_take_sizes_count_too(tmp_path) -> None:
    path = tmp_path / "rows.py"
    path.write_text(ROWS_OF_TWO)
    model = find_model(str(path))
    compiled = load_or_compile(model, CompileOptions(exec_mode="bytecode"))
    (row,) = explain(model.name, compiled, ExplainOptions(dims={"n": 3, "m": 5}, num_threads=1)).rows
    assert (row.name, row.count, row.flops) == ("matmul", 1, 2 * 15 * 8 * 4)


IN_PLACE = """
@I.ir_module
class Module:
    @T.prim_func
    def bump(x: T.Buffer((4,), "int64")):
        T.func_attr({"tir.noalias": True})
        for i in range(4):
            x[i] = x[i] + T.int64(1)

    @R.function
    def main(x: R.Tensor((4,), "int64")) -> R.Tensor((4,), "int64"):
        y = R.call_tir_inplace(Module.bump, (x,), inplace_indices=[0], out_ty=R.Tensor((4,), "int64"))
        return y
"""


@pytest.mark.parametrize("is_work_known", [True, False])
def test_kernels_that_overwrite_operands_are_timed_on_copies(is_work_known: bool) -> None:
    executable = compile(parse_source(Source("m.py", IN_PLACE), DEFAULT_NAMES), exec_mode="bytecode")
    if not is_work_known:
        cost = KernelCost(("relax.add",), (("4",),)).to_json()
        metadata = {**executable.metadata, "kernel.bump": cost}
        executable = VMExecutable(replace(executable.program, metadata=metadata), executable.imports)
    x = np.zeros(4, np.int64)
    (row,) = explain("m", Compiled(executable, {}), ExplainOptions(given={"x": x}, num_threads=1)).rows
    assert (row.name, row.count) == ("bump", 1) and row.time_us > 0
    np.testing.assert_array_equal(x, 1)  # one call, of a program that writes to its argument


def test_every_boundary_has_a_reason(explained) -> None:
    reasons = {row.name: row.boundaries for row in explained.rows}
    assert reasons["permute_dims"] == ("its result is needed outside its dataflow block",)
    assert all(part for found in reasons.values() for part in found)
    matmul = next(name for name in reasons if "matmul" in name)
    assert reasons[matmul] == ("what follows has a contraction or several passes of its own",)


def test_advice_is_sorted_and_bounded_by_the_call() -> None:
    rows = [
        KernelRow("map", ((4,),), 3, 10.0, 0, 64, least_us=1.0, rule="Elementwise", boundaries=("it ends",)),
        KernelRow(
            "product",
            ((4,),),
            1,
            100.0,
            64,
            64,
            least_us=40.0,
            memory_us=40.0,
            rule="Contraction",
            boundaries=("it ends",),
        ),
    ]
    found = advice_on(rows, 135.0)
    assert [round(item.gain_us) for item in found] == [60, 30, 5]
    assert "product" in found[0].text and "40% of the bandwidth" in found[0].text
    assert "map" in found[1].text and "it ends" in found[1].text
    assert "outside" in found[2].text


def test_advice_on_kernels_without_work() -> None:
    texts = {
        size: advice_on([KernelRow("idle", (), 2, 5.0, size_bytes=size, rule="RowPass")], 10.0)[0].text
        for size in (0, None)
    }
    assert texts[0] == "fewer calls of idle (RowPass): there is nothing for it to do"
    assert texts[None] == "fewer calls of idle (RowPass): its work is not known"


def test_roofline_takes_the_greater_time() -> None:
    ceilings = Ceilings(1, 100.0, ((1000, 10.0), (100_000, 1.0)))
    assert ceilings.least_s(10**6, 1000) == pytest.approx(1e-5)
    assert ceilings.least_s(0, 1000) == pytest.approx(1e-7)
    assert ceilings.least_s(None, 10**6) == pytest.approx(1e-3)
    assert ceilings.least_s(None, None) == 0.0


def test_rates_lie_between_those_of_measured_working_sets() -> None:
    rates = ((1 << 10, 10.0), (1 << 14, 2.0))
    assert [rate_at(rates, size) for size in (1 << 10, 1 << 12, 1 << 14)] == [10.0, 6.0, 2.0]
    assert [rate_at(rates, size) for size in (0, 1, 1 << 20)] == [10.0, 10.0, 2.0]


def test_reads_and_writes_have_their_own_rates() -> None:
    ceilings = Ceilings(1, 1.0, ((1, 10.0),), reading=((1, 20.0),), filling=((1, 5.0),))
    assert ceilings.memory_s(1000, 500) == pytest.approx(1e-7)
    assert ceilings.memory_s(1000) == pytest.approx(1e-7)
    assert ceilings.memory_s(1000, 0) == pytest.approx(5e-8)
    assert ceilings.memory_s(1000, 1000) == pytest.approx(2e-7)
    assert ceilings.memory_s(1000, 100) == pytest.approx(200 / 10e9 + 800 / 20e9)


OPERATORS = """
@I.ir_module
class Module:
    @R.function
    def main(
        table: R.Tensor((100, 8), "float32"), at: R.Tensor((5,), "int64"), x: R.Tensor((6, 8), "float32")
    ) -> R.Tuple(R.Tensor((5, 8), "float32"), R.Tensor((6,), "float32"), R.Tensor((8, 6), "float32")):
        with R.dataflow():
            rows = R.take(table, at, axis=0)
            sums = R.sum(x, axis=1)
            turned = R.permute_dims(x)
            y = (rows, sums, turned)
            R.output(y)
        return y
"""


def test_rooflines_count_what_is_accessed_once() -> None:
    """Rows that are taken, not the table; sums as they end; bytes of kernels that memory bounds."""
    executable = compile(parse_source(Source("m.py", OPERATORS), DEFAULT_NAMES), exec_mode="bytecode")
    arrays = [np.zeros((100, 8), np.float32), np.arange(5), np.zeros((6, 8), np.float32)]
    taken, summed, turned = (5 * 8 * 4 * 2 + 5 * 8, 6 * 8 * 4 + 6 * 4, 6 * 8 * 4 * 2)
    slow_memory = roofline(executable, arrays, Ceilings(1, 1e9, ((1, 1.0),)))
    assert slow_memory.size_bytes == taken + summed + turned
    assert slow_memory.memory_us == pytest.approx(slow_memory.size_bytes / 1e3)
    assert slow_memory.least_us == slow_memory.memory_us
    slow_arithmetic = roofline(executable, arrays, Ceilings(1, 1e-9, ((1, 1.0),)))
    assert slow_arithmetic.size_bytes == taken + turned
    assert slow_arithmetic.least_us > slow_arithmetic.memory_us


def test_rooflines_of_requests_add_up() -> None:
    assert Roofline(2.0, 1.0, 10) + Roofline(3.0, 0.5, 5) == Roofline(5.0, 1.5, 15)


@pytest.mark.parametrize("threads", [1, 2])
def test_measured_ceilings(threads: int) -> None:
    """They are this machine's, whatever target is current."""
    before = native_library().num_threads
    try:
        with Target("llvm -mtriple=riscv64-unknown-linux-gnu"):
            ceilings = measure_ceilings(num_threads=threads)
    finally:
        set_num_threads(before)
    assert ceilings.num_threads == threads
    assert ceilings.gflops > 0.5
    for rates in (ceilings.copying, ceilings.reading, ceilings.filling):
        assert all(rate > 0 for _, rate in rates)
        assert [size for size, _ in rates] == sorted(size for size, _ in ceilings.copying)


def test_probes_touch_their_whole_working_set() -> None:
    """Every part of each thread, in every round: rates of less would be too high."""
    kernels = compile_probes(Target("llvm"), threads=3)
    source, result = (tensor(np.ones((7, 1024), np.float32)) for _ in range(2))
    kernels["copying"](source, result, 2)
    np.testing.assert_array_equal(result.numpy(), 2.0)
    sums = tensor(np.zeros((3, 128), np.float32))
    kernels["reading"](source, sums, 5)
    assert sums.numpy().sum() == 5 * 7 * 1024
    kernels["filling"](tensor(np.zeros(1, np.float32)), result, 4)
    np.testing.assert_array_equal(result.numpy(), 3.0)


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ((OpPattern.COMM_REDUCE, OpPattern.ELEMENTWISE), "after its last element"),
        ((OpPattern.OUT_EWISE_FUSABLE, OpPattern.OUT_EWISE_FUSABLE), "of its own"),
        ((OpPattern.OUT_EWISE_FUSABLE, OpPattern.INJECTIVE), "another order"),
        ((OpPattern.INJECTIVE, OpPattern.OUT_EWISE_FUSABLE), "from memory"),
        ((OpPattern.OPAQUE, OpPattern.ELEMENTWISE), "it is no loop nest"),
        ((OpPattern.ELEMENTWISE, OpPattern.OPAQUE), "what follows is no loop nest"),
    ],
)
def test_reasons_by_pattern(patterns: tuple[OpPattern, OpPattern], expected: str) -> None:
    first, second = (FusionNode(index, index, pattern) for index, pattern in enumerate(patterns))
    first.users.append(second)
    first.user_patterns.append(second.pattern)
    second.escapes = True
    groups = find_groups([first, second])
    assert len(groups) == 2
    assert expected in groups[0].boundary
    assert "outside its dataflow block" in groups[1].boundary


def test_results_stay_the_same_when_reasons_are_recorded() -> None:
    machine = heddle.relax.VirtualMachine(
        heddle.compile(parse_source(Source("model.py", MODEL), DEFAULT_NAMES), target="llvm"), heddle.cpu()
    )
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, 16), (16, 16)))
    b = np.maximum(np.maximum(x @ w, 0) @ w, 0)
    e = np.exp(b - b.max(axis=1, keepdims=True))
    expected = (e / e.sum(axis=1, keepdims=True)).T
    np.testing.assert_allclose(machine["main"](x, w).numpy(), expected, rtol=2e-5, atol=1e-6)
