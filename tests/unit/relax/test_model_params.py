"""Passes about the model's parameters: bound, lifted, bundled, fetched lazily."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle.graph.binding import BindingError
from heddle.ir.expr import Constant
from heddle.ir.instrument import verify_module
from heddle.ir.structural import assert_structural_equal
from heddle.ir.visitor import walk
from heddle.relax import GraphInterpreter
from heddle.relax.transform.bind_params import BindParams
from heddle.relax.transform.bind_symbolic_vars import BindSymbolicVars
from heddle.relax.transform.bundle_model_params import BundleModelParams
from heddle.relax.transform.lazy_get_input import LazyGetInput
from heddle.relax.transform.lazy_set_output import LazySetOutput
from heddle.relax.transform.lazy_transform_params import LazyTransformParams
from heddle.relax.transform.lift_transform_params import LiftTransformParams
from heddle.runtime import register_global_func, remove_global_func
from heddle.script import ir as I
from heddle.script import relax as R
from heddle.script import tir as T
from heddle.support.diagnostics import Trap, UsageError
from heddle.vm.relax import VirtualMachine
from tests.unit.relax.running import MODES, assert_runs, assert_same, machine

RNG = np.random.default_rng(3)


def array(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


def well_formed(mod: Any) -> Any:
    assert not verify_module(mod), [finding.render() for finding in verify_module(mod)]
    return mod


@I.ir_module
class Dense:
    @R.function
    def main(
        x: R.Tensor(("n", "k"), "float32"), w: R.Tensor(("k", "m"), "float32"), b: R.Tensor(("m",), "float32")
    ) -> R.Tensor(("n", "m"), "float32"):
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.add(y, b)
            R.output(z)
        return z


# ---- BindParams, BindSymbolicVars


def test_bound_parameters_become_constants_and_bind_dimensions():
    w, b = array(3, 5), array(5)
    func = Dense["main"]
    made = well_formed(BindParams("main", {"w": w, func.params[2]: heddle.runtime.tensor(b)})(Dense))
    assert [str(param.ty) for param in made["main"].params] == ['R.Tensor((n, 3), dtype="float32")']
    assert str(made["main"].ret_ty) == 'R.Tensor((n, 5), dtype="float32")'
    assert len([node for node in walk(made["main"]) if isinstance(node, Constant)]) == 2
    x = array(2, 3)
    np.testing.assert_allclose(assert_runs(made, x), x @ w + b, rtol=1e-5)
    assert len(Dense["main"].params) == 3


def test_what_cannot_be_bound_is_refused():
    with pytest.raises(BindingError, match=r"R0208(.|\n)*no parameter 'v'"):
        BindParams("main", {"v": array(2)})(Dense)
    with pytest.raises(BindingError, match=r"R0208.*parameter 'b'"):
        BindParams("main", {"b": array(2, 2)})(Dense)
    with pytest.raises(ValueError, match=r"R0208.*parameter 'b'"):
        BindParams("main", {"w": array(3, 5), "b": array(4)})(Dense)
    assert BindParams("main", {})(Dense) is Dense


@pytest.mark.fact("11.8")
@pytest.mark.parametrize("mode", MODES)
def test_build_binds_params(mode: str):
    """`relax.build(params=...)`."""
    w, b = array(3, 5), array(5)
    built = heddle.relax.build(Dense, target="llvm", params={"w": w, "b": b}, exec_mode=mode)
    x = array(4, 3)
    assert_same(VirtualMachine(built, heddle.cpu())["main"](x), x @ w + b)


def test_symbolic_dimensions_become_numbers():
    dim = Dense["main"].params[0].ty.dims[0]
    made = well_formed(BindSymbolicVars({"k": 3, dim: 2})(Dense))
    types = [str(param.ty) for param in made["main"].params]
    assert types[0] == 'R.Tensor((2, 3), dtype="float32")'
    assert types[1] == 'R.Tensor((3, m), dtype="float32")'
    assert_runs(made, array(2, 3), array(3, 4), array(4))
    with pytest.raises(BindingError, match=r"R0208(.|\n)*'q'"):
        BindSymbolicVars({"q": 3})(Dense)
    with pytest.raises(BindingError, match=r"R0208(.|\n)*'q'"):
        BindSymbolicVars({"q": 3}, "main")(Dense)
    with pytest.raises(Trap, match="expected 2, got 3"):
        machine(made, "bytecode")["main"](array(3, 3), array(3, 4), array(4))


def test_only_functions_that_have_a_dimension_are_changed():
    @I.ir_module
    class Two:
        @R.function
        def f(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            y = R.exp(x)
            return y

        @R.function
        def g(x: R.Tensor(("m",), "float32")) -> R.Tensor(("m",), "float32"):
            y = R.exp(x)
            return y

    made = BindSymbolicVars({"n": 3})(Two)
    assert str(made["f"].params[0].ty) == 'R.Tensor((3,), dtype="float32")'
    assert made["g"] is Two["g"]


# ---- LiftTransformParams


@I.ir_module
class Model:
    @R.function
    def main(
        x: R.Tensor(("n", 4), "float32"), w: R.Tensor((5, 4), "float32"), b: R.Tensor((5,), "float32")
    ) -> R.Tensor(("n", 5), "float32"):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            wt = R.permute_dims(w)
            scaled = R.multiply(wt, R.const(2.0, "float32"))
            y = R.matmul(x, scaled)
            z = R.add(y, b)
            R.output(z)
        return z


@I.ir_module
class ModelLifted:
    @R.function
    def main(
        x: R.Tensor(("n", 4), "float32"), b: R.Tensor((5,), "float32"), scaled: R.Tensor((4, 5), "float32")
    ) -> R.Tensor(("n", 5), "float32"):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            y = R.matmul(x, scaled)
            z = R.add(y, b)
            R.output(z)
        return z

    @R.function
    def main_transform_params(
        params: R.Tuple(R.Tensor((5, 4), "float32"), R.Tensor((5,), "float32")),
    ) -> R.Tuple(R.Tensor((5,), "float32"), R.Tensor((4, 5), "float32")):
        R.func_attr({"num_input": 0})
        with R.dataflow():
            w = params[0]
            b = params[1]
            wt = R.permute_dims(w)
            scaled = R.multiply(wt, R.const(2.0, "float32"))
            gv = (b, scaled)
            R.output(gv)
        return gv


def lifted(mod: Any, **options: Any) -> Any:
    return well_formed(LiftTransformParams(**options)(mod))


def test_what_parameters_alone_decide_is_lifted():
    made = lifted(Model)
    assert_structural_equal(made, ModelLifted, map_free_vars=True)
    x, w, b = array(3, 4), array(5, 4), array(5)
    expected = x @ (2 * w.T) + b
    transformed = GraphInterpreter(made)["main_transform_params"]((w, b))
    np.testing.assert_allclose(GraphInterpreter(made)["main"](x, *transformed), expected, rtol=1e-5)
    for mode in MODES:
        vm = machine(made, mode)
        assert_same(vm["main"](x, *vm["main_transform_params"]((w, b))), expected)


def test_a_module_without_num_input_stays_the_same_object():
    assert LiftTransformParams()(Dense) is Dense
    assert BundleModelParams()(Dense) is Dense


def test_dimensions_that_only_lost_parameters_gave_are_passed_as_a_shape():
    @I.ir_module
    class Sized:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), w: R.Tensor(("m",), "float32")) -> R.Tensor(
            ("n",), "float32"
        ):
            R.func_attr({"num_input": 1})
            m = T.int64()
            with R.dataflow():
                total = R.sum(w)
                size = R.astype(R.shape_to_tensor(R.shape([m])), "float32")
                y = R.multiply(x, total)
                z = R.add(y, size)
                R.output(z)
            return z

    made = lifted(Sized)
    assert str(made["main"].params[-1].ty) == "R.Shape([m])"
    x, w = array(3), array(7)
    for mode in MODES:
        vm = machine(made, mode)
        out = vm["main"](heddle.runtime.tensor(x), *vm["main_transform_params"]((w,)))
        assert_same(out, x * w.sum(dtype="float32") + np.float32(7))


@I.ir_module
class Pair:
    @R.function
    def prefill(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")) -> R.Any:
        R.func_attr({"num_input": 1})
        with R.dataflow():
            a = R.permute_dims(w)
            b = R.exp(a)
            y = R.matmul(x, b)
            R.output(y)
        return y

    @R.function
    def decode(x: R.Tensor((1, 4), "float32"), v: R.Tensor((4, 4), "float32")) -> R.Any:
        R.func_attr({"num_input": 1})
        with R.dataflow():
            other = R.permute_dims(v)
            z = R.matmul(x, other)
            R.output(z)
        return z


def test_functions_can_share_what_both_compute():
    made = lifted(Pair, shared_transform=True)
    names = [var.name_hint for var in made.functions]
    assert names == ["prefill", "decode", "transform_params"]
    assert "R.exp" in made["prefill"].script() and "R.permute_dims" not in made["prefill"].script()
    x, y, w = array(3, 4), array(1, 4), array(4, 4)
    for mode in MODES:
        vm = machine(made, mode)
        params = vm["transform_params"]((w,))
        assert len(params) == 1
        assert_same(vm["prefill"](x, *params), x @ np.exp(w.T))
        assert_same(vm["decode"](y, *params), y @ w.T)


def test_functions_of_other_parameters_cannot_share():
    other = heddle.IRModule({**dict(Pair.functions), "main": Model["main"]})
    with pytest.raises(UsageError, match=r"R0208.*cannot share"):
        LiftTransformParams(shared_transform=True)(other)
    made = lifted(other, shared_transform=["prefill", "decode"])
    assert made["main"] is Model["main"] and "transform_params" in made


# ---- BundleModelParams


def test_parameters_come_as_one_tuple():
    made = well_formed(BundleModelParams("weights")(Model))
    func = made["main"]
    assert [param.name_hint for param in func.params] == ["x", "weights"]
    assert len(func.params[1].ty.fields) == 2
    x, w, b = array(3, 4), array(5, 4), array(5)
    np.testing.assert_allclose(assert_runs(made, x, (w, b)), x @ (2 * w.T) + b, rtol=1e-5)


def test_calls_of_bundled_functions_pass_the_tuple():
    @I.ir_module
    class Calls:
        @R.function(private=True)
        def layer(x: R.Tensor((3,), "float32"), w: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            R.func_attr({"num_input": 1})
            y = R.multiply(x, w)
            return y

        @R.function
        def main(x: R.Tensor((3,), "float32"), w: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            cls = Calls
            y = cls.layer(x, w)
            return y

    made = well_formed(BundleModelParams()(Calls))
    assert "layer(x, (w,))" in made["main"].script()
    x, w = array(3), array(3)
    np.testing.assert_allclose(assert_runs(made, x, w, before=Calls), x * w, rtol=1e-6)


# ---- LazyTransformParams, LazyGetInput, LazySetOutput


class Store:
    """Callbacks over a list of weights, which note who was asked when."""

    def __init__(self, weights: list[Any]) -> None:
        self.weights, self.results, self.log = weights, {}, []

    def get(self, number: int, *_name: str) -> Any:
        self.log.append(("get", number))
        return heddle.runtime.tensor(self.weights[number])

    def set(self, number: int, value: Any) -> None:
        self.log.append(("set", number))
        self.results[number] = value.numpy().copy()


@pytest.fixture
def names():
    yield ("test.get_item", "test.set_item")
    for name in ("test.get_item", "test.set_item"):
        remove_global_func(name)


@pytest.mark.parametrize("mode", MODES)
def test_transformed_parameters_are_fetched_and_stored_one_by_one(mode: str, names: tuple[str, str]):
    store = Store([array(5, 4), array(5)])
    for name, callback in zip(names, (store.get, store.set), strict=True):
        register_global_func(name, callback, override=True)
    made = well_formed(LazyTransformParams(*names)(lifted(Model)))
    assert not made["main_transform_params"].params
    assert not made["main_transform_params"].is_pure
    out = machine(made, mode)["main_transform_params"]()
    assert len(out) == 0
    # each is fetched when it is needed, and stored as soon as it is known
    assert store.log == [("get", 0), ("set", 1), ("get", 1), ("set", 0)]
    np.testing.assert_allclose(store.results[1], 2 * store.weights[0].T)
    np.testing.assert_allclose(store.results[0], store.weights[1])


@pytest.mark.parametrize("mode", MODES)
def test_only_fetching_leaves_the_results(mode: str, names: tuple[str, str]):
    store = Store([array(5, 4), array(5)])
    for name, callback in zip(names, (store.get, store.set), strict=True):
        register_global_func(name, callback, override=True)
    made = well_formed(LazyTransformParams(names[0], None)(lifted(Model)))
    out = machine(made, mode)["main_transform_params"]()
    assert_same(out, (store.weights[1], 2 * store.weights[0].T))
    assert ("set", 0) not in store.log


def test_other_functions_are_left_alone():
    assert LazyTransformParams()(Model) is Model


@pytest.mark.parametrize("mode", MODES)
def test_parameters_come_through_a_callback(mode: str):
    made = well_formed(LazyGetInput()(Model))
    func = made["main"]
    assert [param.name_hint for param in func.params] == ["x", "fget_param"]
    store = Store([array(5, 4), array(5)])
    x = array(2, 4)
    out = machine(made, mode)["main"](x, store.get)
    assert_same(out, x @ (2 * store.weights[0].T) + store.weights[1])
    assert store.log == [("get", 0), ("get", 1)]


@pytest.mark.parametrize("mode", MODES)
def test_a_fetched_parameter_gives_its_dimensions(mode: str):
    made = well_formed(LazyGetInput()(Dense))
    assert [param.name_hint for param in made["main"].params] == ["fget_param"]
    store = Store([array(2, 3), array(3, 5), array(5)])
    x, w, b = store.weights
    vm = machine(made, mode)
    assert_same(vm["main"](store.get), x @ w + b)
    store.weights[2] = array(4)
    with pytest.raises(Trap, match=r"match_cast"):
        vm["main"](store.get)


@I.ir_module
class TwoResults:
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tuple(
        R.Tensor(("n",), "float32"), R.Tensor(("n",), "float32")
    ):
        a = R.exp(x)
        b = R.add(a, x)
        return (b, a)


@pytest.mark.parametrize("mode", MODES)
def test_results_go_to_a_callback_once_known(mode: str):
    made = well_formed(LazySetOutput()(TwoResults))
    assert [param.name_hint for param in made["main"].params] == ["fset_output", "x"]
    store, x = Store([]), array(3)
    assert len(machine(made, mode)["main"](store.set, x)) == 0
    assert store.log == [("set", 1), ("set", 0)]
    assert_same((store.results[0], store.results[1]), (np.exp(x) + x, np.exp(x)))


@pytest.mark.parametrize("mode", MODES)
def test_both_callbacks_together(mode: str):
    made = well_formed(LazySetOutput()(LazyGetInput()(TwoResults)))
    assert [param.name_hint for param in made["main"].params] == ["fset_output", "fget_param"]
    store = Store([array(4)])
    machine(made, mode)["main"](store.set, store.get)
    assert store.log == [("get", 0), ("set", 1), ("set", 0)]
    np.testing.assert_allclose(store.results[1], np.exp(store.weights[0]), rtol=1e-5)


def test_num_input_grows_by_the_callback():
    made = LazySetOutput()(Model)
    assert made["main"].attrs["num_input"] == 2
    assert [param.name_hint for param in made["main"].params] == ["x", "fset_output", "w", "b"]
