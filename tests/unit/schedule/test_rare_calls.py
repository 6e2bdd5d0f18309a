"""Functions that leave some operands to C's: maps of them run in vectors of ours, of any length."""

import numpy as np
import pytest

import heddle
from heddle.ir.expr import Var
from heddle.prim.nodes import SizeVar
from heddle.relax import BlockBuilder, TensorType, op
from heddle.runtime.native.library import native_library, set_num_threads
from heddle.tir.nodes import ForKind
from heddle.tir.transform.run_in_lanes import MAP
from tests.unit.schedule.test_runs_and_periods import loops_of

LENGTHS = (0, 1, 15, 16, 17, 1023, 1024, 1025, 40_009)
FUNCTIONS = {
    "sin": (op.sin, np.sin),
    "cos": (op.cos, np.cos),
    "tan": (op.tan, np.tan),
    "fmod": (op.fmod, np.fmod),
    "floor_mod": (op.floor_mod, np.mod),
    "floor_divide": (op.floor_divide, np.floor_divide),
}
ODD = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -3e38, 1e-44, 7.0, -7.0, 2.0**31], "float32")


@pytest.fixture(autouse=True)
def restored_threads():
    before = native_library().num_threads
    yield
    set_num_threads(before)


def module(build, dims, arity):
    """A program that applies `build` to arguments of these dimensions."""
    args = [Var(f"x{k}", TensorType(dims, "float32")) for k in range(arity)]
    builder = BlockBuilder()
    with builder.function("main", args):
        with builder.dataflow():
            out = builder.emit_output(build(*args))
        builder.emit_func_output(out)
    return builder.get()


def arguments(shape, arity, has_odd):
    rng = np.random.default_rng()
    found = [rng.uniform(-50, 50, shape).astype("float32") for _ in range(arity)]
    for array in found if has_odd else ():
        array.flat[:: max(1, array.size // 37)] = rng.choice(
            ODD, array.flat[:: max(1, array.size // 37)].shape
        )
    return found


def check(name, shape, dims, mode, has_odd, build=None):
    ours, reference = FUNCTIONS[name]
    arity = 1 if reference in (np.sin, np.cos, np.tan) else 2
    args = arguments(shape, arity, has_odd)
    machine = heddle.relax.VirtualMachine(
        heddle.compile(module(build or ours, dims, arity), exec_mode=mode), heddle.cpu()
    )
    results = []
    for threads in (1, 2, 3):
        set_num_threads(threads)
        results.append(machine["main"](*args).numpy())
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    return args, results[0], reference


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
@pytest.mark.parametrize("is_free", [True, False], ids=["free", "fixed"])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("length", LENGTHS)
def test_maps_of_any_length(length, name, is_free, mode):
    """Every second one has operands that C's functions take, in some lanes or all."""
    for has_odd in (False, True):
        dims = (SizeVar("n"),) if is_free else (length,)
        args, got, reference = check(name, (length,), dims, mode, has_odd)
        with np.errstate(all="ignore"):
            want = reference(*(arg.astype("float64") for arg in args)).astype("float32")
            if reference in (np.fmod, np.mod):
                want = reference(*args)
                np.testing.assert_array_equal(got, want)
            elif reference is np.floor_divide:
                np.testing.assert_array_equal(got, reference(*args))
            else:
                np.testing.assert_allclose(got, want, rtol=5e-7, atol=1e-44)


@pytest.mark.parametrize("is_free", [True, False], ids=["free", "fixed"])
@pytest.mark.parametrize("width", [1, 5, 16, 37, 100])
def test_rows_that_are_moved(width, is_free):
    """Not one run of memory: the sine of what was transposed."""
    dims = (SizeVar("n"), SizeVar("m")) if is_free else (9, width)
    build = lambda x: op.sin(op.permute_dims(x))  # noqa: E731
    (x,), got, _ = check("sin", (9, width), dims, "compiled", True, build)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got, np.sin(x.T.astype("float64")), rtol=5e-7, atol=1e-44)


@pytest.mark.parametrize("is_free", [True, False], ids=["free", "fixed"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_loop_is_marked(name, is_free):
    dims = (SizeVar("n"), SizeVar("m")) if is_free else (30, 500)
    build, reference = FUNCTIONS[name]
    arity = 1 if reference in (np.sin, np.cos, np.tan) else 2
    (loop,) = loops_of(module(build, dims, arity))
    assert loop.kind is ForKind.PARALLEL
    assert loop.annotations.get(MAP)
