"""Explanations: work, counts, reasons and advice of small models; ceilings are positive."""

from __future__ import annotations

import numpy as np
import pytest

from heddle.driver.ceilings import Ceilings, measure_ceilings
from heddle.driver.explain import ExplainOptions, KernelRow, advice_on, explain
from heddle.driver.models import find_model
from heddle.driver.run import CompileOptions, load_or_compile
from heddle.lower.fusion_graph import FusionNode, find_groups
from heddle.tir.analysis.op_pattern import OpPattern

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
    assert all(row.time_us > 0 and row.least_us > 0 for row in explained.rows)


def test_every_boundary_has_a_reason(explained) -> None:
    reasons = {row.name: row.boundaries for row in explained.rows}
    assert reasons["permute_dims"] == ("its result is needed outside its dataflow block",)
    assert all(part for found in reasons.values() for part in found)
    matmul = next(name for name in reasons if "matmul" in name)
    assert reasons[matmul] == ("what follows has a contraction or several passes of its own",)


def test_advice_is_sorted_and_bounded_by_the_call() -> None:
    rows = [
        KernelRow("map", ((4,),), 3, 10.0, 0, 64, 1.0, "Elementwise", (), ("it ends",)),
        KernelRow("product", ((4,),), 1, 100.0, 64, 64, 40.0, "Contraction", (), ("it ends",)),
    ]
    found = advice_on(rows, 135.0)
    assert [round(item.gain_us) for item in found] == [60, 30, 5]
    assert "product" in found[0].text
    assert "map" in found[1].text and "it ends" in found[1].text
    assert "outside" in found[2].text


def test_roofline_takes_the_greater_time_and_the_fitting_working_set() -> None:
    ceilings = Ceilings(1, 100.0, ((1000, 10.0), (100_000, 1.0)))
    assert ceilings.least_s(10**6, 1000) == pytest.approx(1e-5)
    assert ceilings.least_s(0, 2000) == pytest.approx(2e-6)
    assert ceilings.least_s(None, 10**6) == pytest.approx(1e-3)


def test_measured_ceilings() -> None:
    ceilings = measure_ceilings(num_threads=1)
    assert ceilings.num_threads == 1
    assert ceilings.gflops > 0.5
    assert all(rate > 0 for _, rate in ceilings.traffic)
    assert list(ceilings.traffic) == sorted(ceilings.traffic)


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
    import heddle
    from heddle.script.parser import DEFAULT_NAMES, parse_source
    from heddle.support.span import Source

    machine = heddle.relax.VirtualMachine(
        heddle.compile(parse_source(Source("model.py", MODEL), DEFAULT_NAMES), target="llvm"), heddle.cpu()
    )
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, 16), (16, 16)))
    b = np.maximum(np.maximum(x @ w, 0) @ w, 0)
    e = np.exp(b - b.max(axis=1, keepdims=True))
    expected = (e / e.sum(axis=1, keepdims=True)).T
    np.testing.assert_allclose(machine["main"](x, w).numpy(), expected, rtol=2e-5, atol=1e-6)
