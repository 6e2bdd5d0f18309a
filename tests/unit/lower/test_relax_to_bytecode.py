"""From graph functions to bytecode: what programs observe of it, in both execution modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle.driver.pipeline import finalize_passes, legalize_passes
from heddle.ir.transform import Sequential
from heddle.lower.vm_shape_lower import VMShapeLower
from heddle.runtime import Shape, register_global_func, remove_global_func
from heddle.runtime.kernel_module import KernelModule
from heddle.script import ir as I
from heddle.script import relax as R
from heddle.script import tir as T
from heddle.support.diagnostics import Trap, TrapTypeError, TrapValueError, UsageError, VerifyError
from heddle.target import Target
from heddle.vm.relax import VirtualMachine
from tests.unit.relax.running import MODES, assert_same, machine

RNG = np.random.default_rng(13)
TARGET = Target("llvm")


def array(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


def instructions(executable: Any, name: str = "main") -> list[str]:
    """A function's lines of the listing, single-spaced."""
    _, _, rest = executable.as_text().partition(f"@{name}:\n")
    return [" ".join(line.split()) for line in rest.split("\n\n")[0].splitlines()]


@pytest.fixture
def calls():
    """A packed function that notes its arguments and gives the first."""
    seen: list[tuple[Any, ...]] = []

    def note(*args: Any) -> Any:
        seen.append(args)
        return args[0]

    register_global_func("test.note", note, override=True)
    yield seen
    remove_global_func("test.note")


@pytest.mark.fact("11.1")
def test_a_function_needs_a_global_symbol():

    @I.ir_module
    class Private:
        @R.function(private=True)
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            return x

    with pytest.raises(VerifyError, match=r"L0201.*main"):
        heddle.relax.build(Private, target="llvm", relax_pipeline=None)


@I.ir_module
class Constants:
    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")) -> R.Any:
        _ = R.call_packed(
            "test.note",
            x,
            R.const([1.0, 2.0], "float32"),
            R.shape([3, 4]),
            R.str("text"),
            R.dtype("float16"),
            R.prim_value(2.5),
            R.prim_value(-7),
            ty_args=[R.Any],
        )
        return R.const([1.0, 2.0], "float32")


@pytest.mark.fact("11.2")
@pytest.mark.parametrize("mode", MODES)
def test_constants_go_to_the_pool_and_integers_into_the_code(mode: str, calls: list[Any]):
    vm = machine(Constants, mode)
    out = vm["main"](array(2))
    assert_same(out, np.array([1, 2], "float32"))
    _, tensor, shape, text, dtype, number, integer = calls[0]
    assert_same(tensor, np.array([1, 2], "float32"))
    assert (shape, text, dtype, number, integer) == ((3, 4), "text", "float16", 2.5, -7)
    assert isinstance(shape, Shape)
    if mode == "bytecode":
        lines = instructions(vm.executable)
        call = next(line for line in lines if "test.note" in line)
        assert "i-7" in call and call.count("c[") == 5
        assert lines[-2].startswith("call vm.builtin.copy in: c[")  # a result is copied to a register
        assert lines[-1].startswith("ret %")


@I.ir_module
class Branch:
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        if c:
            y = x
        else:
            y = R.const([1.0, 2.0], "float32")
        return y


@pytest.mark.fact("11.3")
def test_branches_merge_in_one_register():
    lines = instructions(machine(Branch, "bytecode").executable)
    start = next(k for k, line in enumerate(lines) if "read_if_cond" in line)
    condition = lines[start].rsplit(" ", 1)[1]
    taken, jump, other = lines[start + 1 : start + 2], lines[start + 3], lines[start + 4]
    merge = lines[start + 2].rsplit(" ", 1)[1]
    assert taken == [f"If {condition}, 3"]
    assert lines[start + 2] == f"call vm.builtin.copy in: %1 dst: {merge}"
    assert jump == "goto 2"
    assert other.startswith("call vm.builtin.copy in: c[") and other.endswith(f"dst: {merge}")
    assert lines[start + 5] == f"ret {merge}"


@pytest.mark.fact("11.3")
@pytest.mark.parametrize("mode", MODES)
def test_branches_run(mode: str):
    vm, x = machine(Branch, mode), array(2)
    assert_same(vm["main"](np.array(True), x), x)
    assert_same(vm["main"](np.array(False), x), np.array([1, 2], "float32"))


@I.ir_module
class Callees:
    @R.function
    def twice(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return x

    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32"), f: R.Callable) -> R.Any:
        cls = Callees
        a = cls.twice(x)
        b = R.call_packed("test.note", a, ty_args=[R.Any])
        c = f(b)
        s = R.call_builtin_with_ctx(
            R.ExternFunc("vm.builtin.alloc_storage"),
            (R.shape([8]), R.prim_value(0), R.dtype("uint8"), R.str("global")),
            ty_args=[R.Any],
        )
        _ = R.call_packed("test.note", c, R.null_value(), ty_args=[R.Tuple()])
        _1 = R.vm.kill_object(s)
        return c


@pytest.mark.fact("11.4")
def test_callees_by_kind(calls: list[Any]):
    executable = heddle.relax.build(Callees, target="llvm", relax_pipeline=None)
    lines = instructions(executable)
    assert lines[0].startswith("call twice in: %0 dst: %")
    assert lines[1].startswith("call test.note in: %2 dst: %")
    assert lines[2].startswith("call vm.builtin.invoke_closure in: %vm, %1, %3 dst: %")
    assert lines[3].startswith("call vm.builtin.alloc_storage in: %vm, c[")
    assert lines[4] == "call test.note in: %4, %void dst: %void"
    assert lines[5] == "call vm.builtin.null_value in: dst: %5"
    x = array(2)
    vm = VirtualMachine(executable, heddle.cpu())
    assert_same(vm["main"](heddle.runtime.tensor(x), lambda t: heddle.runtime.tensor(t.numpy() + 1)), x + 1)
    assert calls[1][1] is None


@pytest.mark.fact("11.5")
def test_an_operator_that_was_not_lowered_is_an_error():

    @I.ir_module
    class Raw:
        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            y = R.exp(x)
            return y

    with pytest.raises(VerifyError, match=r"L0101.*relax\.exp"):
        heddle.relax.build(Raw, target="llvm", relax_pipeline=None)


@pytest.mark.fact("11.7")
def test_compiled_functions_are_kernels_of_their_own_name():
    executable = machine(Branch, "compiled").executable
    assert "@main num_inputs=2 vm_tir_func;" in executable.as_text()
    kernels = [module for module in executable.imports if isinstance(module, KernelModule)]
    assert "__vmtir__main" in kernels[0].names
    with pytest.raises(ValueError, match="D0103"):
        heddle.relax.build(Branch, exec_mode="jit")


@pytest.mark.fact("11.8")
def test_options_of_build_are_checked():
    with pytest.raises(UsageError, match=r"D0103.*relax_pipeline 'fast'"):
        heddle.relax.build(Branch, relax_pipeline="fast")
    with pytest.raises(ValueError, match=r"D0103.*tir_pipeline 'fast'"):
        heddle.compile(Branch, tir_pipeline="fast")
    seen = []

    def watch(mod: Any) -> Any:
        seen.append(len(mod))
        return mod

    heddle.compile(Shapes, target="llvm", tir_pipeline=watch)
    assert seen == [1]  # the shape function


@pytest.mark.fact("11.8")
def test_order_of_the_default_pipeline():
    """Those of TVM's default passes that we have come in its order."""
    names = [type(step).__name__ for step in (*legalize_passes(TARGET), *finalize_passes(TARGET))]
    expected = [
        "LegalizeOps",
        "RewriteDataflowReshape",
        "ToNonDataflow",
        "RemovePurityChecking",
        "CallTIRRewrite",
        "StaticPlanBlockMemory",
        "LowerAllocTensor",
        "KillAfterLastUse",
        "LowerRuntimeBuiltin",
        "VMShapeLower",
        "AttachGlobalSymbol",
    ]
    assert [name for name in names if name in expected] == expected


@pytest.mark.fact("11.8")
@pytest.mark.parametrize("mode", MODES)
def test_an_unused_packed_call_runs(mode: str, calls: list[Any]):
    """`call_pure_packed` whose result nothing uses is still run."""

    @I.ir_module
    class Unused:
        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            with R.dataflow():
                y = R.call_pure_packed("test.note", x, ty_args=[R.Tensor((2,), "float32")])
                dead = R.exp(x)
                z = x
                R.output(z)
            return z

    machine(Unused, mode)["main"](array(2))
    assert len(calls) == 1


# ---- shapes


@I.ir_module
class Shapes:
    @R.function(pure=False)
    def main(x: R.Tensor(("n * 2", "k"), "float32"), y: R.Tensor(("n", "n + k"), "float32")) -> R.Tensor(
        ("n", 3), "float32"
    ):
        n = T.int64()
        z = R.call_packed("test.note", y, ty_args=[R.Any])
        m = R.match_cast(z, R.Tensor((n, 3), "float32"))
        return m


def shape_checks(executable: Any) -> int:
    return sum("match_shape" in line or "check_" in line for line in instructions(executable))


@pytest.mark.fact("11.9")
@pytest.mark.parametrize("mode", MODES)
def test_expressions_of_later_dimensions_are_compared_too(mode: str, calls: list[Any]):
    """What parameters further on define is computed by `shape_func` and compared then."""
    made = heddle.IRModule({"main": Shapes["main"]})
    made["main"] = heddle.relax.transform.RemovePurityChecking()(made)["main"]
    vm = machine(made, mode)
    assert "shape_func" in vm.executable.as_text()
    assert vm["main"](array(4, 1), array(2, 3)).shape == (2, 3)
    with pytest.raises(Trap, match=r"param\[0\], param=x, annotation=(.|\n)*expected 4, got 6"):
        vm["main"](array(6, 1), array(2, 3))
    with pytest.raises(Trap, match=r"param\[1\], param=y(.|\n)*expected 7, got 3"):
        vm["main"](array(4, 5), array(2, 3))
    with pytest.raises(Trap, match=r"loc=match_cast, annotation=(.|\n)*expected 3, got 4"):
        vm["main"](array(4, 2), array(2, 4))
    with pytest.raises(TrapValueError, match=r"param\[1\](.|\n)*ndim"):
        vm["main"](array(4, 1), array(2))
    with pytest.raises(TrapValueError, match=r"param\[0\](.|\n)*dtype"):
        vm["main"](array(4, 1).astype("float64"), array(2, 3))


@pytest.mark.fact("11.9")
@pytest.mark.parametrize("mode", MODES)
def test_results_are_checked_where_types_do_not_imply_it(mode: str, calls: list[Any]):
    """The context of a result contains `loc=return`."""

    @I.ir_module
    class Result:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), s: R.Shape(["m"])) -> R.Tensor(("m",), "float32"):
            y = R.call_pure_packed("test.note", x, ty_args=[R.Any])
            return y

    vm = machine(Result, mode)
    x = array(3)
    assert_same(vm["main"](x, Shape([3])), x)
    with pytest.raises(Trap, match=r"loc=return(.|\n)*match_cast error(.|\n)*expected 4, got 3"):
        vm["main"](x, Shape([4]))


@pytest.mark.fact("11.9")
def test_static_weights_are_not_checked():
    """With `num_input`, what follows the inputs is checked only where it is dynamic."""

    @I.ir_module
    class Weights:
        @R.function
        def main(
            x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32"), v: R.Tensor(("n", 4), "float32")
        ) -> R.Tensor((2, 3), "float32"):
            R.func_attr({"num_input": 1})
            return x

    checked = machine(Weights, "bytecode").executable
    everything = machine(heddle.IRModule({"main": Weights["main"].without_attr("num_input")}), "bytecode")
    assert (shape_checks(checked), shape_checks(everything.executable)) == (4, 6)
    assert "param=w" not in checked.stats() and "param=v" in checked.stats()
    for mode in MODES:
        vm = machine(Weights, mode)
        x = array(2, 3)
        assert_same(vm["main"](x, array(1), array(5, 4)), x)
        with pytest.raises(Trap, match=r"param\[2\], param=v"):
            vm["main"](x, array(1), array(5, 3))


@pytest.mark.fact("11.10")
@pytest.mark.parametrize("mode", MODES)
def test_shape_parameters_are_matched(mode: str):

    @I.ir_module
    class Sizes:
        @R.function
        def main(s: R.Shape(["m", "n"]), x: R.Tensor(("n",), "float32")) -> R.Shape(ndim=2):
            m, n = T.int64(), T.int64()
            return R.shape([m * n, m])

    vm, x = machine(Sizes, mode), array(3)
    assert vm["main"](Shape([5, 3]), x) == (15, 5)
    with pytest.raises(TrapValueError, match=r"param\[0\], param=s(.|\n)*ndim"):
        vm["main"](Shape([5, 3, 1]), x)
    with pytest.raises(TrapTypeError, match=r"param\[0\]"):
        vm["main"](x, x)
    with pytest.raises(Trap, match=r"param\[1\](.|\n)*expected 4, got 3"):
        vm["main"](Shape([5, 4]), x)


@pytest.mark.fact("11.10")
@pytest.mark.parametrize("mode", MODES)
def test_scalar_parameters_are_matched(mode: str):
    """Like sizes, defined at first sight or compared."""

    @I.ir_module
    class Scalars:
        @R.function
        def main(
            double: R.Prim("int64", value="2 * n"), x: R.Tensor(("n",), "float32"), size: R.Prim(value="m")
        ) -> R.Shape(ndim=2):
            n, m = T.int64(), T.int64()
            return R.shape([n + 1, m * n])

    vm, x = machine(Scalars, mode), array(3)
    assert vm["main"](6, x, 10) == (4, 30)
    with pytest.raises(Trap, match=r"param\[0\], param=double(.|\n)*expected 6, got 7"):
        vm["main"](7, x, 10)
    with pytest.raises(TrapTypeError, match=r"param\[2\]"):
        vm["main"](6, x, 1.5)


@pytest.mark.parametrize("mode", MODES)
def test_scalars_are_computed(mode: str):
    """Scalar results of every kind, and a scalar condition, from symbolic sizes."""

    @I.ir_module
    class Scalars:
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Any:
            n = T.int64()
            if R.prim_value(n % 4 == 0):
                a = R.prim_value(n * 2 + 1)
            else:
                a = R.prim_value(n)
            return (a, R.prim_value(n > 3), R.prim_value(T.Cast("float64", n) / T.float64(2)))

    vm = machine(Scalars, mode)
    for n in (0, 3, 4):
        whole, is_large, half = vm["main"](array(n))
        assert (whole, is_large, half) == (2 * n + 1 if n % 4 == 0 else n, n > 3, n / 2)
        assert (type(whole), type(is_large), type(half)) == (int, bool, float)


@pytest.mark.fact("11.11")
def test_contexts_can_be_left_out():

    def texts(emit_err_ctx: bool) -> str:
        steps = [
            VMShapeLower(emit_err_ctx) if type(s) is VMShapeLower else s for s in finalize_passes(TARGET)
        ]
        executable = heddle.relax.build(Shapes, target="llvm", relax_pipeline=Sequential(steps))
        return executable.stats()

    assert "loc=param[0]" in texts(True) and "match_cast" in texts(True)
    assert "loc=" not in texts(False) and '""' in texts(False)
