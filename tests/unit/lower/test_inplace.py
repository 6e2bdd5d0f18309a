"""DataflowUseInplaceCalls: which operands are overwritten, and that nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle.driver.pipeline import finalize_passes, legalize_passes, optimize_passes
from heddle.graph.rewriter import is_call
from heddle.ir.instrument import VerifyEach
from heddle.ir.transform import PassContext, Sequential
from heddle.ir.visitor import walk
from heddle.lower.dataflow_use_inplace_calls import DataflowUseInplaceCalls, inplace_form
from heddle.lower.legalize_ops import LegalizeOps
from heddle.relax import GraphInterpreter
from heddle.runtime import allocator_for, register_global_func, remove_global_func
from heddle.script import RoundTripEach, from_source
from heddle.target import Target
from heddle.vm.relax import VirtualMachine
from tests.unit.relax.running import MODES, assert_same

TARGET = Target("llvm")
LOWER = [step for step in legalize_passes(TARGET) if type(step).__name__ not in ("FuseOps", "FuseTIR")]


def pipeline(*before: Any) -> Sequential:
    """The default passes without fusion, so that there is something to overwrite."""
    place = next(k for k, step in enumerate(LOWER) if type(step).__name__ == "EstimateKernelCost")
    steps = [*LOWER[:place], DataflowUseInplaceCalls(), *LOWER[place:]]
    return Sequential([*before, *optimize_passes(TARGET), *steps, *finalize_passes(TARGET)])


def module(body: str, params: str = 'x: R.Tensor(("n", 5), "float32")', outputs: str = "y") -> Any:
    lines = "\n".join(f"            {line.strip()}" for line in body.strip().splitlines())
    return from_source(f"""
@I.ir_module
class Module:
    @R.function
    def main({params}) -> R.Any:
        with R.dataflow():
{lines}
            R.output({outputs})
        return {outputs if "," not in outputs else f"({outputs})"}
""")


def overwritten(mod: Any) -> int:
    """How many calls overwrite an operand, once the module is legalised."""
    made = DataflowUseInplaceCalls()(LegalizeOps()(mod))
    return sum(
        is_call(node, "relax.call_tir_inplace") for func in made.functions.values() for node in walk(func)
    )


def check(mod: Any, *args: Any) -> None:
    """Operators, loops and machine code agree with and without the pass, and arguments stay as they are."""
    before = [np.array(arg) for arg in args]
    expected = GraphInterpreter(mod)["main"](*[arg.copy() for arg in before])
    with PassContext(instruments=[VerifyEach(), RoundTripEach()]):
        from_operators = DataflowUseInplaceCalls()(mod)
        from_loops = DataflowUseInplaceCalls()(LegalizeOps()(mod))
        machines = [
            VirtualMachine(heddle.compile(mod, relax_pipeline=pipeline(), exec_mode=mode), heddle.cpu())
            for mode in MODES
        ]
    for made in (from_operators, from_loops):
        assert_same(GraphInterpreter(made)["main"](*args), expected)
    for vm in machines:
        assert_same(vm["main"](*args), expected)
    for arg, old in zip(args, before, strict=True):
        np.testing.assert_array_equal(arg, old)


X = np.random.default_rng(7).standard_normal((3, 5)).astype("float32")
CASES = {
    "a chain": ("a = R.exp(x)\nb = R.nn.relu(a)\ny = R.sqrt(b)", "y", 2),
    "the parameter stays": ("y = R.exp(x)", "y", 0),
    "an operand that is needed later stays": ("a = R.exp(x)\nb = R.sqrt(a)\ny = R.add(a, b)", "y", 1),
    "an output of the block stays": ("a = R.exp(x)\ny = R.sqrt(a)", "a, y", 0),
    "an operand that occurs twice stays": ("a = R.exp(x)\ny = R.multiply(a, a)", "y", 1),
    "a smaller operand stays": ("a = R.sum(x, axis=[0])\ny = R.add(x, a)", "y", 0),
    "the larger operand goes": ("a = R.exp(x)\nb = R.sum(x, axis=[0])\ny = R.add(a, b)", "y", 1),
    "another dtype stays": ('a = R.exp(x)\ny = R.astype(a, "float64")', "y", 0),
    "another order stays": ("a = R.exp(x)\ny = R.flip(a, axis=1)", "y", 0),
    "a reduction stays": ("a = R.exp(x)\ny = R.cumsum(a, axis=1)", "y", 0),
    "a view is another name": (
        "a = R.exp(x)\nb = R.reshape(a, (5, -1))\nc = R.sqrt(b)\ny = R.sum(a)",
        "c, y",
        0,
    ),
    "a tuple keeps": ("a = R.exp(x)\nt = (a, x)\nb = t[0]\ny = R.sqrt(a)\nz = R.sqrt(b)", "y, z", 0),
    "a second name": ("a = R.exp(x)\nb = a\ny = R.sqrt(a)\nz = R.nn.relu(b)", "y, z", 0),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_overwritten(case: str) -> None:
    body, outputs, count = CASES[case]
    if case == "an operand that occurs twice stays":
        count = 1  # the loop function has it once: one tensor, read twice at one index
    mod = module(body, outputs=outputs)
    assert overwritten(mod) == count
    check(mod, X)
    check(mod, X[:0])


def test_two_operands_that_are_one() -> None:
    """A loop function with two parameters for one tensor may read it elsewhere through the other."""
    mod = from_source("""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def mix(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32"), out: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("out"):
                vi = T.axis.spatial(4, i)
                T.reads(a[vi], b[3 - vi])
                T.writes(out[vi])
                out[vi] = a[vi] + b[3 - vi]

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        with R.dataflow():
            a = R.exp(x)
            b = R.sqrt(x)
            c = R.call_tir(cls.mix, (a, b), out_ty=R.Tensor((4,), "float32"))
            d = R.exp(x)
            e = R.call_tir(cls.mix, (d, d), out_ty=R.Tensor((4,), "float32"))
            y = R.call_tir(cls.mix, (c, e), out_ty=R.Tensor((4,), "float32"))
            R.output(y)
        return y
""")
    assert overwritten(mod) == 2  # c over a, y over c; e reads d from both ends
    assert inplace_form(mod["mix"], 0) is not None
    assert inplace_form(mod["mix"], 1) is None
    check(mod, np.array([0.5, 1, 2, 4], "float32"))


def test_what_packed_functions_keep_stays() -> None:
    kept: list[Any] = []

    def keep(tensor: Any) -> Any:
        kept.append(tensor)
        return tensor

    register_global_func("test.inplace.keep", keep, override=True)
    try:
        mod = module(
            """a = R.exp(x)
            b = R.call_pure_packed("test.inplace.keep", a, ty_args=[R.Tensor(("n", 5), "float32")])
            c = R.sqrt(a)
            y = R.sqrt(b)""",
            outputs="c, y",
        )
        assert overwritten(mod) == 0
        vm = VirtualMachine(heddle.compile(mod, relax_pipeline=pipeline()), heddle.cpu())
        vm["main"](X)
        np.testing.assert_allclose(kept[0].numpy(), np.exp(X), rtol=1e-6)
    finally:
        remove_global_func("test.inplace.keep")


def test_branches_and_other_blocks() -> None:
    mod = from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        a = R.exp(x)
        if c:
            with R.dataflow():
                b = R.sqrt(a)
                d = R.nn.relu(b)
                R.output(d)
            y = d
        else:
            y = R.add(a, a)
        z = R.add(y, a)
        return z
""")
    assert overwritten(mod) == 1  # the second step inside the branch
    for c in (True, False):
        check(mod, X[0], np.array(c))


@pytest.mark.parametrize("mode", MODES)
def test_a_chain_needs_one_storage(mode: str) -> None:
    mod = module(
        "\n".join(f"a{k + 1} = R.exp(R.negative(a{k}))" for k in range(4)).replace("a0", "x"), outputs="a4"
    )
    allocator = allocator_for(heddle.cpu())

    def peak(steps: Any) -> int:
        vm = VirtualMachine(heddle.compile(mod, relax_pipeline=steps, exec_mode=mode), heddle.cpu())
        x = heddle.runtime.tensor(np.zeros((1000, 5), "float32"))
        vm["main"](x)
        allocator.reset_peak()
        start = allocator.books.bytes_in_use
        vm["main"](x)
        return int(allocator.books.peak_bytes - start)

    without = Sequential([*optimize_passes(TARGET), *LOWER, *finalize_passes(TARGET)])
    assert peak(pipeline()) * 2 == peak(without) == 2 * 20480


def test_a_module_without_candidates_stays_the_same_object() -> None:
    mod = LegalizeOps()(module("y = R.exp(x)"))
    assert DataflowUseInplaceCalls()(mod) is mod
