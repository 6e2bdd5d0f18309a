"""Types that a program states: false ones are findings, in text and in modules built by hand; those that
nobody proved are checked when the program runs, in every engine, before anything reads memory by them.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.graph.block_builder import BlockBuilder
from heddle.graph.claims import can_be_checked
from heddle.graph.op_builder import call_op
from heddle.graph.types import ShapeType, TensorType
from heddle.ir.module import IRModule
from heddle.ir.types import FuncType, TupleType
from heddle.prim.nodes import Select, constant
from heddle.prim.nodes import Var as PrimVar
from heddle.relax import BindingBlock, Function, SeqExpr, Var, VarBinding
from heddle.relax.interpreter import GraphInterpreter
from heddle.relax.transform.check_stated_types import CheckStatedTypes
from heddle.runtime.dtype import DataType
from heddle.runtime.function import register_global_func
from heddle.runtime.tensor import tensor
from heddle.script import from_source
from heddle.script.printer import module_script
from heddle.support.diagnostics import HeddleError

X = np.arange(6, dtype="float32").reshape(2, 3) / 6

KERNEL = """
    @T.prim_func(private=True)
    def kernel(a: T.Buffer({a}, "float32"), b: T.Buffer({b}, "float32")):
        for i, j in T.grid(*{b}):
            with T.sblock("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                b[vi, vj] = a[vi, vj] + T.float32(1)
"""


def module(*lines: str, params: str = 'x: R.Tensor((2, 3), "float32")', before: str = "") -> IRModule:
    body = "\n".join(f"        {line}" for line in lines)
    return from_source(
        f"@I.ir_module\nclass Module:\n{before}\n    @R.function\n    def main({params}):\n{body}\n"
    )


FALSE = {
    "size": ['y: R.Tensor((300, 200), "float32") = R.add(x, x)', "return R.exp(y)"],
    "dtype": ['y: R.Tensor((2, 3), "int32") = R.add(x, x)', "return y"],
    "rank": ['y: R.Tensor(ndim=3, dtype="float32") = R.add(x, x)', "return y"],
    "kind": ["y: R.Shape(ndim=2) = R.add(x, x)", "return y"],
    "tuple": ['y: R.Tuple(R.Tensor((300, 200), "float32")) = (x,)', "return y[0]"],
    "tuple's length": ['y: R.Tuple(R.Tensor((2, 3), "float32")) = (x, x)', "return y[0]"],
    "shape": ["s: R.Shape([300, 200]) = R.shape_of(x)", "return s"],
    "cast": ['y: R.Tensor((300, 2), "float32") = R.match_cast(x, R.Tensor((2, 3), "float32"))', "return y"],
    "local function": [
        "@R.function",
        'def f(v: R.Tensor((2, 3), "float32")) -> R.Tensor((300, 200), "float32"):',
        "    w = R.add(v, v)",
        "    return w",
        "y = f(x)",
        "return R.exp(y)",
    ],
}


@pytest.mark.parametrize("case", FALSE)
def test_a_false_type_in_a_text_is_an_error_at_its_place(case):
    with pytest.raises(HeddleError, match=r"R0307(.|\n)*expected R\.(.|\n)*--> ") as caught:
        module(*FALSE[case])
    assert re.search(r"got R\.", str(caught.value))


def test_formulas_of_sizes_are_compared():
    sizes = 'x: R.Tensor(("n", 3), "float32")'
    with pytest.raises(HeddleError, match="R0307"):
        module("n = T.int64()", 'y: R.Tensor((n + 1, 3), "float32") = R.add(x, x)', "return y", params=sizes)
    made = module(
        "n = T.int64()", 'y: R.Tensor((n + n - n, 3), "float32") = R.add(x, x)', "return y", params=sizes
    )
    assert relax.well_formed(made)


def test_the_verifier_finds_false_types_of_modules_built_by_hand():
    x = Var("x", TensorType((2, 3), "float32"))
    y = Var("y", TensorType((300, 200), "float32"))
    add = relax.BlockBuilder().normalize(relax.op.add(x, x))
    body = SeqExpr((BindingBlock((VarBinding(y, add),)),), y, y.ty)
    made = IRModule.from_expr(Function((x,), body, y.ty).with_attr("global_symbol", "main"))
    assert not relax.well_formed(made)
    for mode in ("bytecode", "compiled"):
        with pytest.raises(HeddleError, match=r"R0307(.|\n)*300, 200"):
            heddle.compile(made, exec_mode=mode)


@pytest.mark.parametrize(
    ("kernel", "given", "result", "who"),
    [
        ({"a": "(2, 3)", "b": "(2, 3)"}, "x", "(1, 1)", "result of kernel"),
        ({"a": "(200, 300)", "b": "(200, 300)"}, "x", "(200, 300)", "argument 0 of kernel"),
        ({"a": "(2, 3)", "b": "(2, 3)"}, "x, x", "(2, 3)", "kernel takes 2 arguments"),
        ({"a": "(2, 3)", "b": "(2, 3)"}, "R.astype(x, 'float64')", "(2, 3)", "argument 0 of kernel"),
        ({"a": "(2, 3)", "b": "(2, 3)"}, "R.flatten(x)", "(2, 3)", "argument 0 of kernel"),
    ],
)
def test_calls_of_loop_functions_are_compared_with_them(kernel, given, result, who):
    made = module(
        "cls = Module",
        f'y = R.call_tir(cls.kernel, ({given},), out_ty=R.Tensor({result}, "float32"))',
        "return R.exp(y)",
        before=KERNEL.format(**kernel),
    )
    with pytest.raises(HeddleError, match=who):
        heddle.compile(made)


def run(made: IRModule, mode: str, *args: np.ndarray) -> np.ndarray:
    if mode == "interpreter":
        return GraphInterpreter(CheckStatedTypes()(made))["main"](*args)
    executable = heddle.compile(made, exec_mode=mode)
    return relax.VirtualMachine(executable, heddle.cpu())["main"](*(tensor(arg) for arg in args)).numpy()


OPEN = {
    "binding": (
        [
            "n = T.int64()",
            'u: R.Tensor((n, 3), "float32") = R.call_pure_packed("tests.same", x, ty_args=R.Tensor(ndim=2))',
            "y = R.exp(u)",
            "return y",
        ],
        "",
        'x: R.Tensor((2, 3), "float32"), k: R.Tensor(("n",), "float32")',
    ),
    "argument": (
        [
            "cls = Module",
            'y = R.call_tir(cls.kernel, (R.exp(x),), out_ty=R.Tensor((2, 3), "float32"))',
            "return R.exp(y)",
        ],
        KERNEL.format(a="(2, 3)", b="(2, 3)"),
        'x: R.Tensor(("m", "n"), "float32"), k: R.Tensor(("l",), "float32")',
    ),
    "result": (
        [
            "m = T.int64()",
            "cls = Module",
            'y = R.call_tir(cls.kernel, (x,), out_ty=R.Tensor((m, 3), "float32"))',
            "return R.exp(y)",
        ],
        KERNEL.format(a="(2, 3)", b="(2, 3)"),
        'x: R.Tensor((2, 3), "float32"), k: R.Tensor(("m",), "float32")',
    ),
}


@pytest.fixture(autouse=True)
def same_function():
    register_global_func("tests.same", lambda x: x, override=True)


@pytest.mark.parametrize("mode", ["bytecode", "compiled", "interpreter"])
@pytest.mark.parametrize("case", OPEN)
def test_what_is_not_proved_is_checked_when_it_runs(case, mode):
    lines, before, params = OPEN[case]
    made = module(*lines, before=before, params=params)
    assert relax.well_formed(made)
    expected = np.exp(X if case == "binding" else X + 1 if case == "result" else np.exp(X) + 1)
    np.testing.assert_allclose(run(made, mode, X, np.zeros(2, "float32")), expected, rtol=1e-5)
    bad = (np.zeros((200, 300), "float32") if case == "argument" else X, np.zeros(5, "float32"))
    with pytest.raises(HeddleError, match=r"R0601|V040[13]") as caught:
        run(made, mode, *bad)
    assert re.search(r"expected \d+, got \d+", str(caught.value))


def test_what_is_proved_is_left_alone():
    made = module('y: R.Tensor((2, 3), "float32") = R.add(x, x)', "z: R.Object = y", "return z")
    assert CheckStatedTypes()(made)["main"] is made["main"]


def test_sizes_that_an_open_statement_names_first_are_bound_by_it():
    made = module(
        'y: R.Tensor(("k", 3), "float32") = R.call_pure_packed("tests.same", x, ty_args=R.Tensor(ndim=2))',
        "return R.exp(y)",
        params='x: R.Tensor(ndim=2, dtype="float32")',
    )
    for rows in (0, 1, 7):
        given = np.ones((rows, 3), "float32")
        np.testing.assert_allclose(run(made, "compiled", given), np.exp(given), rtol=1e-5)


def test_types_of_functions_are_believed():
    function = FuncType((TensorType((2,), "float32"),), TensorType((2,), "float32"))
    assert not can_be_checked(TupleType((TensorType((2,), "float32"), function)))
    assert can_be_checked(TupleType((TensorType((2,), "float32"),)))


BRANCH = ["if c:", "    y = R.add(x, x)", "else:", "    y = R.multiply(x, x)", "return y"]


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ('R.Tensor((2, 2), "bool")', "one element"),
        ('R.Tensor((0,), "int32")', "one element"),
        ('R.Tensor((), "float32")', "bool or integer dtype"),
        ("R.Shape(ndim=1)", "tensor or a scalar"),
    ],
)
def test_what_is_no_condition_is_refused(condition, problem):
    with pytest.raises(HeddleError, match=f"R0308(.|\n)*{problem}"):
        module(*BRANCH, params=f'x: R.Tensor((2, 3), "float32"), c: {condition}')


@pytest.mark.parametrize("mode", ["bytecode", "compiled", "interpreter"])
def test_conditions_of_unknown_size_have_one_element(mode):
    made = module(*BRANCH, params='x: R.Tensor((2, 3), "float32"), c: R.Tensor(("n",), "bool")')
    np.testing.assert_array_equal(run(made, mode, X, np.array([True])), X + X)
    np.testing.assert_array_equal(run(made, mode, X, np.array([False])), X * X)
    for bad in ([True, False], []):
        with pytest.raises(HeddleError, match="one element"):
            run(made, mode, X, np.array(bad, "bool"))


SCALAR = 'R.Tensor((), "int32")'


@pytest.mark.parametrize("mode", ["bytecode", "compiled", "interpreter"])
def test_a_local_function_that_changes_inside_still_calls_itself(mode):
    made = module(
        "m = T.int64()",
        "@R.function(private=True)",
        f"def loop(i: {SCALAR}, acc: R.Tensor(('k',), 'float32')) -> R.Tensor(ndim=1, dtype='float32'):",
        "    more = R.less(i, steps)",
        "    if more:",
        '        one: R.Tensor((m,), "float32") = R.nn.relu(acc)',
        "        twice = R.concat((one, acc), axis=0)",
        '        r = loop(R.add(i, R.const(1, "int32")), twice)',
        "    else:",
        "        r = acc",
        "    return r",
        'y = loop(R.const(0, "int32"), x)',
        "return y",
        params=f"x: R.Tensor(('n',), 'float32'), like: R.Tensor(('m',), 'float32'), steps: {SCALAR}",
    )
    given = np.array([1.0, -2.0], "float32")
    once = run(made, mode, given, given, np.array(1, "int32"))
    np.testing.assert_array_equal(once, np.array([1, 0, 1, -2], "float32"))
    with pytest.raises(HeddleError, match=r"V0401|R0601"):
        run(made, mode, given, given, np.array(2, "int32"))


def test_numbers_that_are_no_sizes_stay_such_in_text() -> None:
    """An element of a tensor may be negative: read back as a size, -1 in a new shape was taken as it is."""
    count = PrimVar("count", DataType("int64"))
    builder = BlockBuilder()
    x = Var("x", TensorType((6,), DataType("float32")))
    s = Var("s", TensorType((1,), DataType("int64")))
    with builder.function("main", [x, s]):
        shape = builder.emit(call_op("tensor_to_shape", s))
        builder.match_cast(shape, ShapeType((count,)))
        rows = Select(count < 0, constant(6, "int64"), count)
        builder.emit_func_output(builder.emit(call_op("reshape", x, (rows,))))
    mod = builder.get()
    again = from_source(module_script(mod))
    assert module_script(again) == module_script(mod)
    for each in (mod, again):
        vm = heddle.relax.VirtualMachine(heddle.compile(each), heddle.cpu())
        for number in (-1, 6):
            found = vm["main"](heddle.tensor(np.ones(6, "float32")), heddle.tensor(np.array([number])))
            assert tuple(found.shape) == (6,)
