"""LambdaLift, and closures on the machine in both execution modes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.ir.expr import Function
from heddle.ir.instrument import verify_module
from heddle.ir.structural import assert_structural_equal
from heddle.ir.transform import Sequential
from heddle.ir.visitor import walk
from heddle.relax.transform.lambda_lift import LambdaLift
from heddle.runtime.function import get_global_func, register_global_func
from heddle.runtime.tensor import tensor
from heddle.script import from_source
from heddle.script import ir as I
from heddle.script import relax as R
from heddle.script import tir as T
from heddle.support.diagnostics import TrapTypeError, VerifyError
from tests.unit.relax.running import MODES, assert_runs, assert_same, machine

RNG = np.random.default_rng(7)


def vector(n: int) -> Any:
    return RNG.standard_normal(n).astype("float32")


def lifted(mod: Any) -> Any:
    """The module after the pass, well formed and without nested functions."""
    made = LambdaLift()(mod)
    assert not verify_module(made)
    assert not [
        node for func in made.functions.values() for node in walk(func.body) if type(node) is Function
    ]
    return made


@I.ir_module
class Captures:
    @R.function
    def main(
        x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32"), z: R.Tensor(("n",), "float32")
    ) -> R.Tensor(("n",), "float32"):
        n = T.int64()

        @R.function
        def inner(a: R.Tensor((n,), "float32"), b: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            @R.function
            def deep(c: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
                d = R.subtract(c, y)
                return d

            e = deep(a)
            f = R.multiply(e, x)
            g = R.subtract(f, b)
            return g

        out = inner(z, x)
        return out


@I.ir_module
class CapturesLifted:
    @R.function
    def main(
        x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32"), z: R.Tensor(("n",), "float32")
    ) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        cls = CapturesLifted
        inner = R.make_closure(cls.main_inner, (y, x))
        out = R.invoke_pure_closure(inner, (z, x), ty_args=[R.Tensor((n,), "float32")])
        return out

    @R.function(private=True)
    def main_inner(
        a: R.Tensor(("n",), "float32"),
        b: R.Tensor(("n",), "float32"),
        y: R.Tensor(("n",), "float32"),
        x: R.Tensor(("n",), "float32"),
    ) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        cls = CapturesLifted
        deep = R.make_closure(cls.main_inner_deep, (y,))
        e = R.invoke_pure_closure(deep, (a,), ty_args=[R.Tensor((n,), "float32")])
        f = R.multiply(e, x)
        g = R.subtract(f, b)
        return g

    @R.function(private=True)
    def main_inner_deep(c: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")) -> R.Tensor(
        ("n",), "float32"
    ):
        d = R.subtract(c, y)
        return d


@pytest.mark.fact("6.8")
def test_captured_variables_become_last_parameters():
    """What a closure binds are the function's last parameters."""
    made = lifted(Captures)
    assert_structural_equal(made, CapturesLifted, map_free_vars=True)
    for n in (1, 7):
        x, y, z = vector(n), vector(n), vector(n)
        result = assert_runs(made, x, y, z, before=Captures)
        np.testing.assert_allclose(result, (z - y) * x - x, rtol=1e-5)
    assert_runs(Captures, vector(3), vector(3), vector(3))


def test_a_function_without_captures_is_called_directly():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            @R.function
            def twice(a: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
                b = R.add(a, a)
                return b

            y = twice(x)
            z = twice(y)
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            cls = Expected
            y = cls.main_twice(x)
            z = cls.main_twice(y)
            return z

        @R.function(private=True)
        def main_twice(a: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            b = R.add(a, a)
            return b

    assert_structural_equal(lifted(Before), Expected, map_free_vars=True)
    x = vector(3)
    np.testing.assert_allclose(assert_runs(Before, x), 4 * x)


def test_a_module_without_local_functions_stays_the_same_object():
    assert LambdaLift()(CapturesLifted) is CapturesLifted


@I.ir_module
class Recursion:
    @R.function
    def main(steps: R.Tensor((), "int32"), step: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        @R.function
        def loop(i: R.Tensor((), "int32"), total: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            more = R.less(i, steps)
            if more:
                j = R.add(i, R.const(1, "int32"))
                larger = R.add(total, step)
                result = loop(j, larger)
            else:
                result = total
            return result

        start = R.const(0, "int32")
        zero = R.zeros(R.shape([2]), "float32")
        out = loop(start, zero)
        return out


def test_recursion_passes_captures_on():
    made = lifted(Recursion)
    text = made["main_loop"].script()
    assert "main_loop(j, larger, steps, step)" in text
    for steps in (0, 1, 9):
        step = vector(2)
        result = assert_runs(made, np.array(steps, "int32"), step, before=Recursion)
        np.testing.assert_allclose(result, steps * step, rtol=1e-4, atol=1e-6)


@pytest.mark.fact("6.6")
@pytest.mark.parametrize("mode", MODES)
def test_deep_recursion_does_not_use_the_stack(mode: str):
    """Recursion works, here far deeper than Python's own stack."""
    out = machine(Recursion, mode)["main"](np.array(20_000, "int32"), np.array([1, 0], "float32"))
    assert_same(out, np.array([20_000, 0], "float32"))


@I.ir_module
class Returned:
    @R.function
    def main(
        x: R.Tensor(("n",), "float32"),
    ) -> R.Callable((R.Tensor(("n",), "float32"),), R.Tensor(("n",), "float32")):
        n = T.int64()

        @R.function
        def minus(a: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            b = R.subtract(a, x)
            return b

        return minus

    @R.function
    def apply(
        f: R.Callable((R.Tensor((3,), "float32"),), R.Tensor((3,), "float32")), x: R.Tensor((3,), "float32")
    ) -> R.Tensor((3,), "float32"):
        once = f(x)
        twice = f(once)
        return twice


@pytest.mark.fact("6.3", "6.7")
@pytest.mark.parametrize("mode", MODES)
def test_closures_are_values(mode: str):
    """A closure is a result that `invoke_closure` takes, and an argument; a plain function
    works in its place.
    """
    vm = machine(Returned, mode)
    x, y = vector(3), vector(3)
    closure = vm["main"](x)
    assert_same(vm.invoke_closure(closure, heddle.runtime.tensor(y)), y - x)
    assert_same(vm["apply"](closure, y), y - x - x)
    assert_same(vm["apply"](lambda t: heddle.runtime.tensor(t.numpy() * 2), y), 4 * y)


def test_a_branch_chooses_a_closure():
    @I.ir_module
    class Chosen:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            @R.function
            def plus(a: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
                b = R.add(a, x)
                return b

            @R.function
            def times(a: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
                b = R.multiply(a, x)
                return b

            if c:
                f = plus
            else:
                f = times
            out = f(x)
            return out

    x = vector(3)
    for choice in (True, False):
        result = assert_runs(Chosen, np.array(choice), x)
        np.testing.assert_allclose(result, x + x if choice else x * x, rtol=1e-5)


def test_a_dimension_that_no_parameter_gives_is_captured():
    @I.ir_module
    class Ones:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("m", "n"), "float32"):
            n, m = T.int64(), T.int64()

            @R.function
            def make() -> R.Tensor((m, n), "float32"):
                ones = R.ones(R.shape([m, n]), "float32")
                return ones

            out = make()
            return out

    made = lifted(Ones)
    assert [str(param.ty) for param in made["main_make"].params] == ["R.Shape([m])", "R.Shape([n])"]
    assert assert_runs(Ones, np.zeros((2, 5), "float32")).shape == (5, 2)


def test_a_recursive_function_used_as_value():
    """The function itself, with what it captured bound, inside its own body."""

    @I.ir_module
    class Passed:
        @R.function
        def main(x: R.Tensor((), "int32"), y: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            @R.function
            def down(i: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
                more = R.greater(i, R.const(0, "int32"))
                if more:
                    again = down
                    j = R.subtract(i, y)
                    result = again(j)
                else:
                    result = i
                return result

            out = down(x)
            return out

    made = lifted(Passed)
    assert "make_closure" in made["main_down"].script()
    result = assert_runs(made, np.array(20, "int32"), np.array(6, "int32"), before=Passed)
    assert int(result) == -4


def test_functions_without_captures_are_first_class():
    @I.ir_module
    class Values:
        @R.function
        def twice(
            f: R.Callable((R.Tensor((2,), "float32"),), R.Tensor((2,), "float32")),
            x: R.Tensor((2,), "float32"),
        ) -> R.Tensor((2,), "float32"):
            y = f(x)
            z = f(y)
            return z

        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            cls = Values

            @R.function
            def square(a: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                b = R.multiply(a, a)
                return b

            out = cls.twice(square, x)
            return out

    x = vector(2)
    np.testing.assert_allclose(assert_runs(Values, x), x**4, rtol=1e-5)


@pytest.mark.fact("11.1")
def test_a_nested_function_is_an_error_of_code_generation():
    """Without LambdaLift, nested functions cannot become bytecode."""
    with pytest.raises(VerifyError, match=r"L0202(.|\n)*LambdaLift"):
        heddle.relax.build(Captures, relax_pipeline=Sequential([]))


@pytest.mark.fact("11.1")
@pytest.mark.parametrize("mode", MODES)
def test_functions_expose_their_parameter_names(mode: str):
    """Each function is known by its name and its parameters'."""
    vm = machine(Captures, mode)
    assert vm.module["get_function_arity"]("main") == 3
    assert [vm.module["get_function_param_name"]("main", k) for k in range(3)] == ["x", "y", "z"]


TAKES_A_FUNCTION = """
@I.ir_module
class Module:
    @R.function
    def main(
        f: R.Callable((R.Tensor((3,), "float32"),), R.Tensor((3,), "float32")), x: R.Tensor((3,), "float32")
    ) -> R.Tensor((3,), "float32"):
        y = f(x)
        return y

    @R.function
    def bound(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        cls = Module
        f = R.make_closure(cls.shifted, (x,))
        y = cls.main(f, x)
        return y

    @R.function(private=True)
    def shifted(y: R.Tensor((3,), "float32"), x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        z = R.add(y, x)
        return z
"""


@pytest.fixture
def asked() -> Iterator[list[Any]]:
    """What the host is asked about: whether it is a function."""
    name, found = "vm.builtin.check_func_info", []
    known = get_global_func(name)

    def check(value: Any, context: str) -> None:
        found.append(value)
        known(value, context)

    register_global_func(name, check, override=True)
    yield found
    register_global_func(name, known, override=True)


@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
def test_a_function_is_checked_where_it_is_a_parameter(mode: str, asked: list[Any]) -> None:
    """Machine code asks the host about what is no closure alone: that took 100 times a closure's call."""
    vm = relax.VirtualMachine(heddle.compile(from_source(TAKES_A_FUNCTION), exec_mode=mode), heddle.cpu())
    x = tensor(np.ones(3, "float32"))
    np.testing.assert_array_equal(vm["bound"](x).numpy(), [2, 2, 2])
    assert len(asked) == (mode == "bytecode")
    np.testing.assert_array_equal(vm["main"](lambda y: tensor(y.numpy() + 4), x).numpy(), [5, 5, 5])
    with pytest.raises(TrapTypeError, match="expected a function"):
        vm["main"](x, x)
    np.testing.assert_array_equal(vm["bound"](x).numpy(), [2, 2, 2])
