"""Passes, contexts and instruments."""

import inspect
from dataclasses import dataclass

import pytest

from heddle import ir, relax, relay, tir
from heddle.graph.nodes import SeqExpr
from heddle.graph.types import TensorType
from heddle.ir.expr import Function, Tuple, Var
from heddle.ir.instrument import PassTimingInstrument, PrintAfterAll, VerifyEach
from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext, PassDecorator, Sequential, module_pass
from heddle.support.diagnostics import InternalError, MissingNameError, UsageError
from heddle.tir.nodes import Evaluate, PrimFunc
from heddle.tir.transform.unroll_loop import UnrollLoop


@dataclass(frozen=True)
class Mark(Pass):
    name: str = "mark"

    def transform(self, mod, ctx):
        return mod.with_attr(self.name, True)


@dataclass(frozen=True)
class Break(Pass):
    def transform(self, mod, ctx):
        raise KeyError("nothing here")


@dataclass(frozen=True)
class MakeWrong(Pass):
    """Uses a variable that nothing defines."""

    def transform(self, mod, ctx):
        x, y = (Var(name, TensorType((1,), "float32")) for name in "xy")
        return IRModule({"main": Function((x,), SeqExpr((), y, y.ty), y.ty)})


def test_sequence_runs_in_order_under_instruments():
    seen: list[str] = []
    timing = PassTimingInstrument()
    with PassContext(instruments=[timing, PrintAfterAll(seen.append)]):
        mod = Sequential([Mark("a"), Mark("b")])(IRModule())
    assert list(mod.attrs) == ["a", "b"]
    assert [name for name, _ in timing.times_s] == ["Mark", "Mark"]
    assert len(seen) == 2
    assert "# after Mark" in seen[0]


def test_disabled_passes_are_skipped_and_required_ones_not():
    with PassContext(disabled_pass=["Mark"]):
        assert not Mark()(IRModule()).attrs
    with PassContext(disabled_pass=["Mark"], required_pass=["Mark"]):
        assert "mark" in Mark()(IRModule()).attrs


def test_a_failing_pass_is_our_bug_with_a_bundle(tmp_path, monkeypatch):
    monkeypatch.setenv("HEDDLE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(Break, "__module__", "heddle.relax.transform.break_it")
    code = Break.transform.__code__.replace(co_filename=relax.__file__)
    monkeypatch.setattr(Break.transform, "__code__", code)
    with pytest.raises(InternalError, match="pass Break failed: KeyError") as caught:
        Break()(IRModule({"main": Function((), Tuple(()))}))
    assert caught.value.code == "I0501"
    assert "bundle" in str(caught.value)


def test_verify_each_names_the_pass(monkeypatch):
    monkeypatch.setattr(MakeWrong, "__module__", "heddle.relax.transform.make_wrong")
    with (
        PassContext(instruments=[VerifyEach()]),
        pytest.raises(InternalError, match="pass MakeWrong") as caught,
    ):
        MakeWrong()(IRModule())
    assert "'y' is not defined here" in str(caught.value)


@pytest.mark.parametrize(
    "step",
    [
        MakeWrong(),
        Sequential([Mark(), MakeWrong()]),
        module_pass(lambda mod, ctx: MakeWrong().transform(mod, ctx), name="MakeWrong"),
    ],
    ids=["class", "sequence", "function"],
)
def test_a_users_pass_whose_result_does_not_verify_is_the_users(step):
    with (
        PassContext(instruments=[VerifyEach()]),
        pytest.raises(UsageError, match="your pass 'MakeWrong' made a program") as caught,
    ):
        step(IRModule())
    assert caught.value.code == "I0506"
    assert "'y' is not defined here" in str(caught.value) and "fault of Heddle" not in str(caught.value)


def test_a_program_that_did_not_verify_before_is_no_passs_fault():
    wrong = MakeWrong()(IRModule())
    with (
        PassContext(instruments=[VerifyEach()]),
        pytest.raises(UsageError, match="before pass Mark") as caught,
    ):
        Mark()(wrong)
    assert caught.value.code == "I0507"


def test_unknown_option_is_refused():
    with pytest.raises(UsageError, match="no pass declares"):
        PassContext(config={"no.such.option": 1})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"opt_level": "3"}, "opt_level: expected int, got '3'"),
        ({"required_pass": "FuseOps"}, "required_pass: expected"),
        ({"disabled_pass": [1]}, "disabled_pass: expected"),
        ({"instruments": [3]}, "instruments: expected"),
        ({"config": 3}, "config: expected"),
        ({"config": {"tir.UnrollLoop.auto_max_step": "many"}}, "auto_max_step': expected int, got 'many'"),
        ({"config": {"tir.UnrollLoop.auto_max_step": -1}}, "expected at least 0, got -1"),
        ({"config": {"relay.FuseOps.max_depth": 0}}, "expected at least 1, got 0"),
        ({"config": {"relay.FuseOps.link_params": 1}}, "expected bool, got 1"),
        ({"config": {"relay.ToMixedPrecision.keep_orig_output_dtype": "yes"}}, "expected bool, got 'yes'"),
    ],
)
def test_options_of_a_context_are_checked_when_it_is_made(options, said):
    with pytest.raises(UsageError, match="I0508") as caught:
        PassContext(**options)
    assert said in str(caught.value)


def test_functions_and_classes_become_passes():
    @module_pass(opt_level=0, name="Named")
    def tag(mod, ctx):
        return mod.with_attr("tag", 1)

    @module_pass(opt_level=0)
    class Tagger:
        def __init__(self, value):
            self.value = value

        def transform_module(self, mod, ctx):
            return mod.with_attr("tag", self.value)

    assert tag.info.name == "Named"
    assert tag(IRModule()).attrs.tag == 1
    assert Tagger(5)(IRModule()).attrs.tag == 5


def test_all_decorators_of_passes_have_one_form():
    decorators = [
        ir.transform.module_pass,
        relax.transform.function_pass,
        relax.transform.dataflowblock_pass,
        relay.transform.function_pass,
        tir.transform.prim_func_pass,
    ]
    expected = list(inspect.signature(PassDecorator.__call__).parameters.values())[1:]
    for decorator in decorators:
        assert list(inspect.signature(decorator).parameters.values()) == expected
        assert "Make a pass of `f(" in decorator.__doc__ and "`traceable` does nothing" in decorator.__doc__
        seen = decorator(lambda *args: args[0], 3, "Named", ["FuseOps"], True)
        assert (seen.info.name, seen.info.opt_level, seen.info.required) == ("Named", 3, ("FuseOps",))


def _broken(mod, ctx):
    return mod["no such function"].attrs + 1


class _BrokenClass:
    def transform_module(self, mod, ctx):
        raise ZeroDivisionError("of the user")


@pytest.mark.parametrize(
    ("step", "name", "cause"),
    [
        (module_pass(lambda mod, ctx: 1 / 0, name="mine"), "mine", ZeroDivisionError),
        (module_pass(_BrokenClass, name="klass")(), "klass", ZeroDivisionError),
        (Break(), "Break", KeyError),
    ],
)
def test_an_error_in_a_users_pass_is_the_users(step, name, cause):
    with pytest.raises(UsageError, match=f"your pass '{name}' failed") as caught:
        step(IRModule())
    assert caught.value.code == "I0506"
    assert isinstance(caught.value.__cause__, cause)
    assert "test_transform.py" in str(caught.value) and "fault of Heddle" not in str(caught.value)


def test_coded_errors_go_through_a_users_pass():
    with pytest.raises(MissingNameError, match="I0301"):
        module_pass(_broken)(IRModule())


@pytest.mark.parametrize("result", [None, 3, "module"])
def test_a_users_pass_gives_a_module(result):
    with pytest.raises(UsageError, match="and no module"):
        module_pass(lambda mod, ctx: result, name="mine")(IRModule())


@pytest.mark.parametrize(
    "given", [None, 3, "text", PrimFunc((), Evaluate(0))], ids=lambda it: type(it).__name__
)
@pytest.mark.parametrize("make", [UnrollLoop, lambda: Sequential([UnrollLoop()])], ids=["pass", "sequence"])
def test_what_is_no_module_is_told(make, given):
    with pytest.raises(UsageError, match=f"I0509.*UnrollLoop takes an IRModule, got {type(given).__name__}"):
        make()(given)
