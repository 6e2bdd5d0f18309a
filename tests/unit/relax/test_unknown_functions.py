"""What is kept because others may see it: calls of functions that are known by type only, public functions;
and programs built by hand: variables without types, te functions that use what is around them, in-place calls
in fused functions."""

from __future__ import annotations

import numpy as np
import pytest

import heddle
from heddle import relax, te
from heddle.graph.types import TensorType
from heddle.ir.module import IRModule
from heddle.prim.nodes import SizeVar
from heddle.relax import BindingBlock, Function, SeqExpr, Var, VarBinding
from heddle.relax.verify import verify_graph_function
from heddle.runtime.tensor import tensor
from heddle.script import from_source

CALLS = """
@I.ir_module
class Module:
    @R.function(private=True)
    def local(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return x

    @R.function
    def main(
        x: R.Tensor((3,), "float32"), f: R.Callable((R.Tensor((3,), "float32"),), R.Tensor((3,), "float32"))
    ):
        a = f(x)
        b = f(x)
        g = f
        c = g(x)
        known = Module.local
        d = known(x)
        y = R.add(x, x)
        z = R.add(x, x)
        w = R.add(y, z)
        return w

    @R.function
    def other(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return x

    @R.function(private=True)
    def unused(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return x
"""


def bound(mod: IRModule) -> list[str]:
    return [binding.var.name_hint for binding in mod["main"].body.bindings()]


@pytest.mark.parametrize("entries", [None, ["main"]])
def test_calls_of_unknown_functions_stay(entries):
    made = relax.transform.DeadCodeElimination(entries)(from_source(CALLS))
    kept = bound(made)
    assert {"a", "b", "c"} <= set(kept)
    assert "d" not in kept
    again = bound(relax.transform.EliminateCommonSubexpr()(from_source(CALLS)))
    assert {"a", "b", "c", "y"} <= set(again)
    assert "z" not in again


@pytest.mark.parametrize(
    ("entries", "names"),
    [
        (None, {"main", "other"}),
        (("main",), {"main", "other"}),
        (("unused",), {"main", "other", "unused"}),
        (("local",), {"main", "other", "local"}),
    ],
)
def test_public_functions_stay(entries, names):
    made = relax.transform.DeadCodeElimination(entries)(from_source(CALLS))
    assert {var.name_hint for var in made.functions} == names


def tensor_type(*shape):
    return TensorType(shape, "float32")


def test_variables_without_types_get_them():
    x, lv, gv = Var("x", tensor_type(3)), Var("lv"), Var("gv")
    bindings = [VarBinding(lv, relax.op.add(x, x)), VarBinding(gv, relax.op.multiply(lv, x))]
    func = Function([x], SeqExpr([BindingBlock(bindings)], gv), None)
    made = relax.transform.Normalize()(IRModule.from_expr(func))
    [found] = made.functions.values()
    assert all(str(binding.var.ty) == str(x.ty) for binding in found.body.bindings())
    assert str(found.ret_ty) == str(x.ty)
    assert verify_graph_function(found, made) == []
    assert lv.ty is None


def run_main(mod: IRModule, *arrays: np.ndarray) -> np.ndarray:
    machine = relax.VirtualMachine(heddle.compile(mod, target="llvm"), heddle.cpu())
    return machine["main"](*map(tensor, arrays)).numpy()


@pytest.mark.parametrize(
    "function",
    [
        lambda n: lambda A: te.compute((4,), lambda i: A[0, i] + n.astype("float32")),
        lambda n: lambda A: te.compute((4,), lambda i: A[n - 1, i] * (n * 2).astype("float32")),
        lambda n: lambda A: te.compute((4,), lambda i: te_sum(A, n, i)),
    ],
)
@pytest.mark.parametrize("rows", [1, 5])
def test_te_functions_use_dimensions_from_around(function, rows):
    n = SizeVar("n")
    builder = relax.BlockBuilder()
    x = Var("x", tensor_type(n, 4))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit_te(function(n), x))
    given = np.arange(rows * 4, dtype="float32").reshape(rows, 4)
    wanted = [given[0] + rows, given[rows - 1] * rows * 2, given.sum(axis=0)]
    got = run_main(builder.get(), given)
    assert any(np.array_equal(got, each) for each in wanted)


def te_sum(A, n, i):
    r = te.reduce_axis((0, n), name="r")
    return te.sum(A[r, i], axis=r)


def test_a_te_function_of_a_dimension_alone():
    n = SizeVar("n")
    builder = relax.BlockBuilder()
    x = Var("x", tensor_type(n))
    with builder.function("main", [x]):
        counted = builder.emit_te(lambda: te.compute((n + 1,), lambda i: (i + n).astype("float32")))
        builder.emit_func_output(counted)
    np.testing.assert_array_equal(run_main(builder.get(), np.zeros(3, "float32")), [3.0, 4.0, 5.0, 6.0])


INPLACE = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def shift({params}):
        for i in range(8):
            with T.sblock("B"):
                vi = T.axis.spatial(8, i)
                A[vi] = A[vi] + {value}

    @R.function(private=True)
    def fused(y: R.Tensor((8,), "float32"), s: R.Tensor((), "float32")) -> R.Tensor((8,), "float32"):
        R.func_attr({{"Primitive": True}})
        cls = Module
        with R.dataflow():
            z = R.call_tir_inplace(
                cls.shift, ({args}), inplace_indices=[{place}]{more}, out_ty=R.Tensor((8,), "float32")
            )
            R.output(z)
        return z

    @R.function
    def main(x: R.Tensor((8,), "float32"), s: R.Tensor((), "float32")) -> R.Tensor((8,), "float32"):
        cls = Module
        with R.dataflow():
            z = cls.fused(x, s)
            w = R.add(z, x)
            R.output(w)
        return w
"""
A = 'A: T.Buffer((8,), "float32")'


@pytest.mark.parametrize(
    ("params", "value", "args", "place", "more"),
    [
        (f'c: T.Buffer((), "float32"), {A}', "c[()]", "s, y", 1, ""),
        (f"c: T.float32, {A}", "c", "R.prim_value(T.float32(3)), y", 1, ""),
        (f"{A}, c: T.int64", 'T.Cast("float32", c)', "y,", 0, ", tir_vars=R.shape([3])"),
        (A, "T.float32(3)", "y,", 0, ""),
    ],
)
def test_calls_in_place_are_fused(params, value, args, place, more):
    """The argument, which the caller still needs, stays as it is."""
    mod = from_source(INPLACE.format(params=params, value=value, args=args, place=place, more=more))
    given = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(run_main(mod, given, np.array(3, "float32")), 2 * given + 3)


SIZES_OF_A_FUNCTION = """
@I.ir_module
class Module:
    @R.function(private=True)
    def places(x: R.Tensor(("n", 3), "float32")) -> R.Tensor((2, "count"), "int64"):
        n, count = T.int64(), T.int64()
        found = R.nonzero(x)
        y = R.match_cast(found, R.Tensor((2, count), "int64"))
        return y

    @R.function
    def main(x: R.Tensor(("n", 3), "float32")):
        n = T.int64()
        y = Module.places(x)
        z = R.permute_dims(y)
        w = R.multiply(z, z)
        return w
"""


def test_sizes_that_a_function_finds_are_its_own() -> None:
    """Its caller does not know them: they were taken for 0 in kernels."""
    mod = from_source(SIZES_OF_A_FUNCTION)
    y = next(binding.var for binding in mod["main"].body.bindings() if binding.var.name_hint == "y")
    assert y.ty.dims is None and y.ty.ndim == 2
    x = np.float32([[0, 1, 2], [3, 0, 0]])
    for mode in ("compiled", "bytecode"):
        vm = relax.VirtualMachine(heddle.compile(mod, exec_mode=mode), heddle.cpu())
        np.testing.assert_array_equal(vm["main"](tensor(x)).numpy(), np.argwhere(x) ** 2)
