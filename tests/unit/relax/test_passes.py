"""Graph passes: each keeps what the program computes, shown by running it, and does what it says."""

import numpy as np
import pytest

import heddle
from heddle.driver.pipeline import finalize_passes, legalize_passes, optimize_passes
from heddle.graph.rewriter import is_call
from heddle.ir.expr import Call, Var
from heddle.ir.instrument import VerifyEach
from heddle.ir.transform import PassContext
from heddle.ir.visitor import walk
from heddle.prim.nodes import SizeVar
from heddle.relax import BlockBuilder, GraphInterpreter, TensorType, const, op
from heddle.relax.transform.decompose_ops_for_inference import DecomposeOpsForInference
from heddle.relax.transform.eliminate_common_subexpr import EliminateCommonSubexpr
from heddle.relax.transform.fold_constant import FoldConstant
from heddle.script import RoundTripEach, from_source
from heddle.target import Target
from heddle.vm.relax import VirtualMachine

TARGET = Target("llvm")


def program():
    """A convolution with batch norm, a repeated value, a constant one, an unused one and a reshape."""
    rng = np.random.default_rng(0)
    n = SizeVar("n")
    x = Var("x", TensorType((n, 3, 8, 8), "float32"))
    weight = const(rng.standard_normal((16, 3, 3, 3)).astype("float32"))
    stats = [const(rng.uniform(0.5, 1.5, 16).astype("float32")) for _ in range(4)]
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            conv = builder.emit(op.nn.conv2d(x, weight, padding=(1, 1)))
            norm = builder.emit(op.nn.batch_norm(conv, *stats, axis=1, training=False))
            y = builder.emit(heddle.relax.TupleGetItem(norm, 0))
            a, b = builder.emit(op.tanh(y)), builder.emit(op.tanh(y))
            builder.emit(op.exp(a))
            two = builder.emit(op.add(const(0.5), const(1.5)))
            joined = builder.emit(op.multiply(op.add(a, b), two))
            flat = builder.emit(op.reshape(joined, (n, 16 * 64)))
            out = builder.emit_output(op.nn.softmax(flat, axis=-1))
        builder.emit_func_output(out)
    return builder.get()


def inputs(n: int):
    return np.random.default_rng(n).standard_normal((n, 3, 8, 8)).astype("float32")


def calls(mod, name: str) -> int:
    return sum(isinstance(node, Call) and is_call(node, name) for node in walk(mod["main"]))


@pytest.mark.parametrize("n", [1, 2])
def test_every_graph_pass_keeps_the_result(n):
    mod, x = program(), inputs(n)
    expected = GraphInterpreter(mod)["main"](x)
    for step in optimize_passes(TARGET):
        mod = step(mod)
        np.testing.assert_allclose(GraphInterpreter(mod)["main"](x), expected, rtol=1e-4, atol=1e-6)


def test_passes_do_what_they_say():
    mod = program()
    assert calls(mod, "relax.nn.batch_norm") == 1
    mod = DecomposeOpsForInference()(mod)
    assert calls(mod, "relax.nn.batch_norm") == 0
    before = calls(mod, "relax.tanh")
    mod = EliminateCommonSubexpr()(mod)
    assert (before, calls(mod, "relax.tanh")) == (2, 1)
    assert calls(mod, "relax.rsqrt") == 1
    assert calls(FoldConstant()(mod), "relax.rsqrt") == 0


TWO_BLOCKS = """
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32"), f: R.Callable((), R.Tensor((2,), "float32"), purity=False)):
        with R.dataflow():
            a = R.exp(x)
            b = R.negative(a)
            R.output(b)
        y = f()
        with R.dataflow():
            c = R.exp(x)
            d = R.negative(c)
            e = R.add(d, c)
            R.output(e)
        g = R.negative(R.exp(x))
        return (b, y, e, g)
"""


def test_equal_values_of_two_dataflow_blocks():
    """What a block does not give out is not known after it; what it gives is."""
    mod = from_source(TWO_BLOCKS)
    with PassContext(instruments=[VerifyEach(), RoundTripEach()]):
        made = EliminateCommonSubexpr()(mod)
    assert calls(made, "relax.exp") == 3  # one in each block, and one behind them
    assert calls(made, "relax.negative") == 3
    x, y = np.asarray([1, 2], "float32"), np.asarray([3, 4], "float32")
    for found, wanted in zip(
        GraphInterpreter(made)["main"](x, lambda: y), GraphInterpreter(mod)["main"](x, lambda: y), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


def test_whole_pipeline_verifies_round_trips_and_runs():
    mod = program()
    with PassContext(instruments=[VerifyEach(), RoundTripEach()]):
        executable = heddle.compile(mod, target="llvm")
    machine = VirtualMachine(executable, heddle.cpu())
    for n in (1, 3, 0):
        expected = GraphInterpreter(mod)["main"](inputs(n))
        np.testing.assert_allclose(machine["main"](inputs(n)).numpy(), expected, rtol=1e-4, atol=1e-6)


def test_fusion_and_memory_planning_leave_little():
    mod = program()
    for step in (*optimize_passes(TARGET), *legalize_passes(TARGET)):
        mod = step(mod)
    assert calls(mod, "relax.call_tir") == 2
    assert calls(mod, "relax.memory.view_reshape") == 1
    for step in finalize_passes(TARGET)[:5]:
        mod = step(mod)
    assert calls(mod, "relax.memory.alloc_storage") <= 2


def test_nothing_compiles_at_run_time():
    from heddle.codegen.cache import kernel_cache

    machine = VirtualMachine(heddle.compile(program(), target="llvm"), heddle.cpu())
    before = kernel_cache().counters.compiles
    for n in (1, 2, 5, 7):
        assert machine["main"](inputs(n)).numpy().shape == (n, 1024)
    assert kernel_cache().counters.compiles == before
