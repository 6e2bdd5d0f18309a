"""Passes over the functions of a module: their signatures, names and kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle.ir.expr import GlobalVar
from heddle.ir.instrument import verify_module
from heddle.lower.annotate_tir_op_pattern import AnnotateTIROpPattern
from heddle.lower.legalize_ops import LegalizeOps
from heddle.relax.transform.bind_constant_arguments import BindConstantArguments
from heddle.relax.transform.expand_tuple_arguments import ExpandTupleArguments
from heddle.relax.transform.inline_private_functions import InlinePrivateFunctions
from heddle.relax.transform.normalize_global_var import NormalizeGlobalVar
from heddle.relax.transform.remove_unused_outputs import RemoveUnusedOutputs
from heddle.relax.transform.remove_unused_parameters import RemoveUnusedParameters
from heddle.script import ir as I
from heddle.script import relax as R
from heddle.script import tir as T
from heddle.support.diagnostics import UsageError
from tests.unit.relax.running import assert_runs

RNG = np.random.default_rng(17)


def array(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


def well_formed(mod: Any) -> Any:
    assert not verify_module(mod), [finding.render() for finding in verify_module(mod)]
    return mod


@I.ir_module
class Program:
    @R.function(private=True)
    def f(
        t: R.Tuple(R.Tensor(("n",), "float32"), R.Tuple(R.Tensor(("m",), "float32"))),
        z: R.Tensor(("n",), "float32"),
    ) -> R.Tuple(R.Tensor(("n",), "float32"), R.Tensor(("n",), "float32"), R.Tensor(("m",), "float32")):
        n, m = T.int64(), T.int64()
        with R.dataflow():
            a = t[0]
            b = R.add(a, a)
            c = R.exp(b)
            d = R.ones(R.shape([m]), "float32")
            R.output(b, c, d)
        return (b, c, d)

    @R.function
    def main(x: R.Tensor(("k",), "float32"), y: R.Tensor((4,), "float32")) -> R.Any:
        cls = Program
        with R.dataflow():
            both = (x, (y,))
            r = cls.f(both, x)
            p = r[1]
            q = r[2]
            R.output(p, q)
        return (p, q)


def expected(x: Any, _y: Any) -> tuple[Any, Any]:
    return np.exp(x + x), np.ones(4, "float32")


def check(mod: Any) -> None:
    x, y = array(3), array(4)
    for result, wanted in zip(assert_runs(mod, x, y, before=Program), expected(x, y), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5)


def test_tuples_are_passed_item_by_item():
    made = well_formed(ExpandTupleArguments()(Program))
    assert [param.name_hint for param in made["f"].params] == ["t_0", "t_1_0", "z"]
    check(made)
    assert ExpandTupleArguments()(made) is made


def test_unused_parameters_go():
    made = well_formed(RemoveUnusedParameters()(ExpandTupleArguments()(Program)))
    # every item is used to build the tuple that the body takes apart; canonical bindings show what is not
    tidy = well_formed(RemoveUnusedParameters()(heddle.relax.transform.CanonicalizeBindings()(made)))
    types = [str(param.ty) for param in tidy["f"].params]
    assert types == ['R.Tensor((n,), dtype="float32")', "R.Shape([m])"]
    assert "R.shape([4])" in tidy["main"].script()
    check(tidy)
    assert RemoveUnusedParameters()(tidy) is tidy


def test_unused_results_go():
    made = well_formed(RemoveUnusedOutputs()(Program))
    assert len(made["f"].ret_ty.fields) == 2
    check(made)
    assert RemoveUnusedOutputs()(made) is made


def test_a_single_result_is_no_tuple():
    @I.ir_module
    class Single:
        @R.function(private=True)
        def f(a: R.Tensor((3,), "float32")) -> R.Tuple(R.Tensor((3,), "float32"), R.Tensor((3,), "float32")):
            b = R.exp(a)
            return (a, b)

        @R.function
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            cls = Single
            t = cls.f(x)
            y = t[1]
            return y

    made = well_formed(RemoveUnusedOutputs()(Single))
    assert str(made["f"].ret_ty) == 'R.Tensor((3,), dtype="float32")'
    x = array(3)
    np.testing.assert_allclose(assert_runs(made, x, before=Single), np.exp(x), rtol=1e-5)


def test_results_used_whole_and_public_functions_stay():
    @I.ir_module
    class Whole:
        @R.function(private=True)
        def f(a: R.Tensor((3,), "float32"), b: R.Tensor((3,), "float32")) -> R.Any:
            return (a, b)

        @R.function
        def g(a: R.Tensor((3,), "float32"), b: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            return a

        @R.function
        def main(x: R.Tensor((3,), "float32")) -> R.Any:
            cls = Whole
            t = cls.f(x, x)
            return t

    assert RemoveUnusedOutputs()(Whole) is Whole
    assert RemoveUnusedParameters()(Whole) is Whole


def test_private_functions_are_inlined():
    made = well_formed(InlinePrivateFunctions()(Program))
    assert [var.name_hint for var in made.functions] == ["main"]
    check(made)


def test_recursive_functions_and_functions_as_values_stay():
    @I.ir_module
    class Stays:
        @R.function(private=True)
        def down(i: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            cls = Stays
            more = R.greater(i, R.const(0, "int32"))
            if more:
                j = R.subtract(i, R.const(2, "int32"))
                r = cls.down(j)
            else:
                r = i
            return r

        @R.function(private=True)
        def value(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            return x

        @R.function
        def main(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            cls = Stays
            f = cls.value
            y = cls.down(x)
            z = f(y)
            return z

    assert InlinePrivateFunctions()(Stays) is Stays
    assert int(assert_runs(Stays, np.array(5, "int32"))) == -1


@I.ir_module
class CalledAndGiven:
    @R.function(private=True)
    def f(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        z = R.add(x, x)
        return z

    @R.function(private=True)
    def apply(
        g: R.Callable(
            (R.Tensor((4,), "float32"), R.Tensor((4,), "float32")), R.Tensor((4,), "float32"), True
        ),
        x: R.Tensor((4,), "float32"),
    ) -> R.Tensor((4,), "float32"):
        y = g(x, x)
        return y

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = CalledAndGiven
        a = cls.f(x, R.const(np.ones(4, "float32")))
        b = cls.apply(cls.f, a)
        return b


@pytest.mark.parametrize("step", [RemoveUnusedParameters, BindConstantArguments, InlinePrivateFunctions])
def test_a_function_that_is_called_and_given_away_keeps_its_signature(step: Any) -> None:
    changed = well_formed(step()(CalledAndGiven))
    functions = {var.name_hint: func for var, func in changed.functions.items()}
    assert len(functions["f"].params) == 2
    x = array(4)
    np.testing.assert_allclose(assert_runs(changed, x), 4 * x)


def test_names_follow_global_symbols():
    public = Program["main"].with_attr("global_symbol", "entry")
    mod = heddle.IRModule({"f": Program["f"], "main": public, "entry": Program["f"]})
    made = NormalizeGlobalVar()(mod)
    names = [var.name_hint for var in made.functions]
    assert names[:2] == ["f", "entry"] and names[2] not in ("f", "entry", "main")
    assert NormalizeGlobalVar()(made) is made
    twice = heddle.IRModule({"a": public, "b": public})
    with pytest.raises(UsageError, match="R0302"):
        NormalizeGlobalVar()(twice)


def test_calls_follow_renamed_functions():
    callee = Program["f"].with_attr("global_symbol", "helper")
    made = well_formed(NormalizeGlobalVar()(heddle.IRModule({"f": callee, "main": Program["main"]})))
    assert GlobalVar("helper") in made and "cls.helper(" in made["main"].script()
    check(made)


def test_loop_functions_are_told_by_kind():
    @I.ir_module
    class Kinds:
        @R.function
        def main(x: R.Tensor((3, 4), "float32"), w: R.Tensor((4, 5), "float32")) -> R.Any:
            a = R.exp(x)
            b = R.permute_dims(a)
            c = R.sum(x, axis=1)
            d = R.matmul(x, w)
            e = R.nn.lrn(x, size=3)
            return (b, c, d, e)

    made = AnnotateTIROpPattern()(LegalizeOps()(Kinds))
    kinds = {v.name_hint: f.attrs.op_pattern for v, f in made.functions.items() if v.name_hint != "main"}
    assert list(kinds.values()) == [0, 2, 3, 4, 4]  # a map of neighbours is no mere move of elements
    assert AnnotateTIROpPattern()(made) is made
    opaque = made["main"]
    assert "op_pattern" not in opaque.attrs
