"""The default schedule: nests that were split by hand are straightened first, and a rule that fails gives way
with a note."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.driver.cli.show import show_explanation
from heddle.driver.explain import ExplainOptions, explain
from heddle.driver.models import find_model
from heddle.driver.run import CompileOptions, load_or_compile
from heddle.ir.module import IRModule
from heddle.lower.default_schedule import CPU_RULES, FAILED_RULES, ApplyDefaultSchedule
from heddle.script import from_source
from heddle.support.diagnostics import HeddleWarning, InternalError, UsageError
from heddle.support.settings import settings
from heddle.target import Target
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import PrimFunc
from heddle.tir.schedule import Schedule
from heddle.tir.schedule.rules.contraction import Contraction
from heddle.tir.schedule.rules.rule import ScheduleRule
from heddle.tir.schedule.rules.straight_loops import runs_straight, with_straight_loops
from heddle.tir.schedule.tree import find_block
from tests.fuzz.scripts import from_the_end

PRODUCT = """
@I.ir_module
class Module:
    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (16, 16), "float32")
        B = T.match_buffer(b, (16, 16), "float32")
        C = T.match_buffer(c, (16, 16), "float32")
        for {loops} in T.grid({extents}):
            with T.sblock("C"):
                vi = T.axis.spatial(16, {i})
                vj = T.axis.spatial(16, {j})
                vk = T.axis.reduce(16, {k})
                {where}
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

BY_HAND = {
    "rows and depth": ("i0, j, k0, i1, k1", "4, 16, 4, 4, 4", "i0 * 4 + i1", "j", "k0 * 4 + k1", ""),
    "columns": ("i, j0, j1, k", "16, 2, 8, 16", "i", "j0 * 8 + j1", "k", ""),
    "fused": ("f, k", "256, 16", "f // 16", "f % 16", "k", ""),
    "ragged": ("i0, j, k, i1", "4, 16, 16, 5", "i0 * 5 + i1", "j", "k", "T.where(i0 * 5 + i1 < 16)"),
    "in another order": ("k, j, i", "16, 16, 16", "i", "j", "k", ""),
}
NOT_STRAIGHT = {
    "half": ("i, j, k", "8, 16, 16", "i", "j", "k", ""),
    "overlapping": ("i0, j, k, i1", "4, 16, 16, 7", "i0 * 3 + i1", "j", "k", ""),
    "again": ("z, i, j, k", "2, 16, 16, 16", "i", "j", "k", ""),
    "under a condition": ("i0, j, k, i1", "4, 16, 16, 4", "i0 * 4 + i1", "j", "k", "T.where(j < 3)"),
}


def product(form: tuple[str, ...]) -> PrimFunc:
    names = ("loops", "extents", "i", "j", "k", "where")
    return from_source(PRODUCT.format(**dict(zip(names, form, strict=True))))["main"]


def computed(func: PrimFunc) -> np.ndarray:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (16, 16)).astype("float32") for _ in range(2))
    c = np.zeros((16, 16), "float32")
    run_primfunc(func, a, b, c)
    return c


def scheduled(func: PrimFunc, **given) -> PrimFunc:
    mod = ApplyDefaultSchedule(Target("llvm"), **given)(IRModule.from_expr(func))
    [found] = mod.functions.values()
    return found


@pytest.mark.parametrize("name", BY_HAND)
def test_products_that_were_split_by_hand(name):
    func = product(BY_HAND[name])
    assert runs_straight(find_block(with_straight_loops(func), "C"))
    made = scheduled(func)
    assert made.attrs["schedule_rule"] == "Contraction"
    np.testing.assert_array_equal(computed(made), computed(func))


@pytest.mark.parametrize("name", NOT_STRAIGHT)
def test_products_that_stay_as_they_are(name):
    func = product(NOT_STRAIGHT[name])
    straight = with_straight_loops(func)
    assert straight is func
    made = scheduled(func)
    assert made.attrs.get("schedule_rule") != "Contraction"
    if name != "overlapping":
        np.testing.assert_array_equal(computed(made), computed(func))


def test_nests_with_kinds_are_somebodys_schedule():
    sch = Schedule(product(BY_HAND["columns"]))
    sch.parallel(sch.get_loops("C")[0])
    assert with_straight_loops(sch.func) is sch.func


# ---- rules that fail


@dataclass(frozen=True)
class Broken(ScheduleRule):
    """Fails on everything."""

    def apply(self, sch, target):
        raise IndexError("planted")


@dataclass(frozen=True)
class Refused(ScheduleRule):
    """Asks for what cannot be."""

    def apply(self, sch, target):
        sch.split(sch.get_loops("C")[0], [2, 2])


@pytest.fixture
def lenient(monkeypatch):
    monkeypatch.setenv("HEDDLE_STRICT_RULES", "0")
    settings.cache_clear()
    yield
    settings.cache_clear()


def test_a_rule_that_fails_gives_way(lenient):
    func = product(BY_HAND["in another order"])
    with pytest.warns(HeddleWarning) as told:
        made = scheduled(func, rules=(Broken(), Refused(), *CPU_RULES))
    assert made.attrs["schedule_rule"] == "Contraction"
    first, second = made.attrs[FAILED_RULES]
    assert first == "Broken: IndexError: planted"
    assert second.startswith("Refused: factors [2, 2] may leave out iterations")
    (warning,) = told  # one for the function, with all that failed
    message = str(warning.message)
    assert message.startswith(f"warning[L0401]: {func.attrs['global_symbol']} may be slow")
    assert f"note: {first}\n" in message and f"note: {second}\n" in message
    np.testing.assert_array_equal(computed(made), computed(func))


def test_without_a_rule_the_loops_stay(lenient):
    func = product(BY_HAND["in another order"])
    with pytest.warns(HeddleWarning, match="L0401"):
        made = scheduled(func, rules=(Broken(),))
    assert made.attrs[FAILED_RULES] == ("Broken: IndexError: planted",)
    assert "schedule_rule" not in made.attrs
    assert made.body is func.body


def test_tests_see_every_failure():
    with pytest.raises((IndexError, InternalError, UsageError), match="planted"):
        scheduled(product(BY_HAND["columns"]), rules=(Broken(), *CPU_RULES))


def test_an_explanation_shows_which_rules_failed(lenient, monkeypatch, tmp_path, capsys):
    """From the compiler's note through the artefact to what `heddle explain` prints."""

    def fails(self, sch, target):
        raise IndexError("planted")

    monkeypatch.setattr(Contraction, "apply", fails)
    path = tmp_path / "model.py"
    path.write_text(
        "@I.ir_module\nclass Module:\n    @R.function\n"
        '    def main(x: R.Tensor((8, 8), "float32"), w: R.Tensor((8, 8), "float32")):\n'
        "        return R.matmul(x, w)\n"
    )
    model = find_model(str(path))
    with pytest.warns(
        HeddleWarning, match=r"warning\[L0401\]: matmul may be slow(?s:.)*Contraction: IndexError"
    ):
        compiled = load_or_compile(model, CompileOptions(exec_mode="bytecode"))
    found = explain(model.name, compiled, ExplainOptions(num_threads=1))
    assert [row.failed_rules for row in found.rows] == [("Contraction: IndexError: planted",)]
    show_explanation(found)
    shown = capsys.readouterr().out
    assert "schedule rules that failed and gave way" in shown
    assert "matmul: Contraction: IndexError: planted" in shown


@pytest.mark.parametrize(
    "store", ["A[vi + 1, vj] = A[vi, vj]", "A[0, vj] = A[vi, vj]", "A[vi, 0] = A[vi, vj]"]
)
def test_iterations_that_depend_on_each_other_stay_in_order(store):
    source = f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((9, 8), "float32")):
        for i, j in T.grid(8, 8):
            with T.sblock("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                {store}
"""
    func = from_source(source)["main"]
    results = [np.arange(72, dtype="float32").reshape(9, 8) for _ in range(2)]
    marked = scheduled(func)
    for each, array in zip((func, from_the_end(marked)), results, strict=True):
        run_primfunc(each, array)
    np.testing.assert_array_equal(*results)


LOOKED_UP = """
@I.ir_module
class Module:
    @T.prim_func
    def main(x: T.Buffer((3,), "int64"), y: T.Buffer((), "float32")):
        for i, j in T.grid(3, 5):
            with T.sblock("y"):
                vi = T.axis.reduce(3, i)
                vj = T.axis.reduce(5, j)
                with T.init():
                    y[()] = T.float32(-9)
                y[()] = T.max(y[()], T.if_then_else(x[vi] == vj, T.float32(2), T.float32(-1)))
"""


def test_a_reduction_of_more_axes_than_its_operand_has():
    """Every rule looks at it, and none fails."""
    before = from_source(LOOKED_UP)
    after = ApplyDefaultSchedule(Target("llvm"))(before)["main"]
    assert after.attrs.get("schedule_rule")
    for x, wanted in (([7, 8, 9], -1), ([7, 4, 9], 2)):
        y = np.zeros((), np.float32)
        run_primfunc(after, np.asarray(x, np.int64), y)
        assert y == wanted


@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_product_over_one_term_at_most_has_a_rule(length):
    """Its sum is as long as the smaller of a free size and 1; the rows of several axes are merged."""
    mod = from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("b", 1, 1, "d"), "float32"), w: R.Tensor(("d", "d"), "float32")):
        with R.dataflow():
            left = R.strided_slice(x, axes=[3], begin=[0], end=[1])
            right = R.strided_slice(w, axes=[0], begin=[0], end=[1])
            gv = R.matmul(left, right)
            R.output(gv)
        return gv
""")
    x = np.arange(2 * length, dtype="float32").reshape(2, 1, 1, length)
    w = np.arange(length * length, dtype="float32").reshape(length, length)
    machine = relax.VirtualMachine(heddle.compile(mod), heddle.cpu())
    found = machine["main"](heddle.tensor(x), heddle.tensor(w)).numpy()
    np.testing.assert_array_equal(found, x[..., :1] @ w[:1])
