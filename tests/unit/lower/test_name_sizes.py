"""NameSizes: functions whose tensors have formulas for sizes take these sizes by themselves."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnx
import pytest

import heddle
from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.frontend.onnx import from_onnx
from heddle.ir.expr import Var
from heddle.ir.transform import PassContext, Sequential
from heddle.lower.name_sizes import NameSizes, with_named_sizes
from heddle.prim.evaluate import Evaluator
from heddle.prim.nodes import SizeVar, constant
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.ops import floordiv
from heddle.prim.substitute import free_vars
from heddle.relax import BlockBuilder, TensorType, const, op
from heddle.target import Target
from heddle.tir.nodes import BufferStore, For, ForKind, PrimFunc, decl_buffer

CHANNELS = 16


def network(layers, dims):
    """Convolutions one after the other: `layers` are strides, or the words of another operator."""
    rng = np.random.default_rng(0)
    x = Var("x", TensorType(dims, "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = x
            for layer in layers:
                if layer == "up":
                    out = builder.emit(op.nn.conv2d_transpose(out, weights(rng, 2), strides=[2, 2]))
                elif layer == "skip":
                    out = builder.emit(op.add(out, op.nn.relu(out)))
                else:
                    made = op.nn.conv2d(out, weights(rng, 3), strides=[layer, layer], padding=[1, 1, 1, 1])
                    out = builder.emit(op.nn.relu(made))
            result = builder.emit_output(out)
        builder.emit_func_output(result)
    return builder.get()


def weights(rng, taps):
    return const(rng.standard_normal((CHANNELS, CHANNELS, taps, taps)).astype("float32") / 12)


def free_images():
    return (SizeVar("n"), CHANNELS, SizeVar("h"), SizeVar("w"))


def onnx_network(count):
    """Convolutions of stride 2, whose images ONNX promises not to be empty."""
    image = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", CHANNELS, "h", "w"])
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    taps = np.random.default_rng(0).standard_normal((CHANNELS, CHANNELS, 3, 3)).astype("float32")
    names = ["x", *(f"t{k}" for k in range(count - 1)), "y"]
    nodes = [
        onnx.helper.make_node("Conv", [a, "taps"], [b], strides=[2, 2], pads=[1, 1, 1, 1])
        for a, b in pairwise(names)
    ]
    weight = onnx.numpy_helper.from_array(taps, "taps")
    graph = onnx.helper.make_graph(nodes, "strided", [image], [result], [weight])
    opsets = [onnx.helper.make_opsetid("", 17)]
    return from_onnx(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9))


def before_and_after(mod):
    target = Target("llvm")
    passes = [*optimize_passes(target), *legalize_passes(target)]
    place = next(k for k, step in enumerate(passes) if isinstance(step, NameSizes))
    before = Sequential(tuple(passes[:place]), "before")(mod)
    return before, NameSizes()(before)


def loops(mod):
    return {var.name_hint: func for var, func in mod.functions.items() if isinstance(func, PrimFunc)}


def formulas(func):
    """Dimensions of the function's tensors that are neither numbers nor sizes."""
    dims = [dim for buffer in func.buffers for dim in buffer.shape]
    return [dim for dim in dims if free_vars(dim) and not isinstance(dim, PrimVar)]


def test_layers_of_one_form_have_one_function():
    """Layers at half, a quarter and an eighth of the height: the second and the third have one function."""
    before, after = before_and_after(network([2, 2, 2, 1, 1], free_images()))
    assert len(loops(after)) < len(loops(before))
    for func in loops(after).values():
        assert not [param for param in func.params if param not in func.buffer_map]


def test_relations_between_sizes_are_kept():
    """A stride of two: the output's rows are a formula of the input's rows, not another size."""
    _, after = before_and_after(onnx_network(3))
    halves = [dim for func in loops(after).values() for dim in formulas(func)]
    assert halves and all(len(free_vars(dim)) == 1 for dim in halves)
    assert any("+ 1) // 2" in str(dim) for dim in halves)


def test_a_choice_of_sizes_has_a_name_too():
    """The length of what broadcasts is a choice: `b if a == 1 else a`."""
    first, second = SizeVar("first"), SizeVar("second")
    x = Var("x", TensorType((4, first, 8), "float32"))
    y = Var("y", TensorType((4, second, 8), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x, y]):
        with builder.dataflow():
            added = builder.emit(op.add(x, y))
            made = builder.emit(op.matmul(added, const(np.ones((8, 24), "float32"))))
            out = builder.emit_output(op.nn.relu(made))
        builder.emit_func_output(out)
    mod = builder.get()
    before, after = before_and_after(mod)
    products = [[f for name, f in loops(m).items() if "matmul" in name] for m in (before, after)]
    assert [any(formulas(func) for func in funcs) for funcs in products] == [True, False]
    machine = heddle.relax.VirtualMachine(heddle.compile(mod), heddle.cpu())
    for a, b in ((3, 1), (1, 5), (4, 4)):
        given = [np.random.default_rng(k).standard_normal((4, k, 8)).astype("float32") for k in (a, b)]
        wanted = np.maximum((given[0] + given[1]) @ np.ones((8, 24), "float32"), 0)
        np.testing.assert_allclose(machine["main"](*given).numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_sizes_that_are_dimensions_stay():
    before, after = before_and_after(network(["skip"], free_images()))
    assert after is before


@pytest.mark.parametrize("exec_mode", ["compiled", "bytecode"])
@pytest.mark.parametrize(
    "layers", [[2, 2, 2], [2, 1, 2, "skip", 1], [2, "up", 1], [2, 2, "up", "up", "skip"]], ids=str
)
def test_results_are_those_without(layers, exec_mode):
    mod = network(layers, free_images())
    machine = heddle.relax.VirtualMachine(heddle.compile(mod, exec_mode=exec_mode), heddle.cpu())
    with PassContext(disabled_pass=["NameSizes"]):
        other = heddle.relax.VirtualMachine(heddle.compile(mod, exec_mode=exec_mode), heddle.cpu())
    rng = np.random.default_rng(3)
    for n, h, w in ((1, 16, 16), (2, 17, 33), (1, 1, 1), (3, 64, 7), (1, 2, 5)):
        x = rng.standard_normal((n, CHANNELS, h, w)).astype("float32")
        got, wanted = machine["main"](x).numpy(), other["main"](x).numpy()
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def shared_formula(levels, size):
    """(2 * (2 * n // 3) // 3) ..., where each half of a sum is the whole formula before it."""
    for _ in range(levels):
        size = floordiv(size + size + 1, constant(3, "int64"))
    return size


def visits_of(levels, monkeypatch):
    """The steps of evaluation that sizes of a kernel take, one of which is a formula with shared parts."""
    n = SizeVar("n")
    h, w = shared_formula(levels - 1, n), shared_formula(levels, n)
    a, b = decl_buffer((h,), "float32", "A"), decl_buffer((w,), "float32", "B")
    i = PrimVar("i", "int64")
    body = For(i, constant(0, "int64"), w, ForKind.SERIAL, BufferStore(b, a[i % h], (i,)))
    func = PrimFunc((a, b, n), body)
    seen = 0
    plain = Evaluator.visit_BinaryExpr

    def counted(self, node):
        nonlocal seen
        seen += 1
        return plain(self, node)

    monkeypatch.setattr(Evaluator, "visit_BinaryExpr", counted)
    for cls in (Evaluator, *Evaluator.__subclasses__()):
        monkeypatch.setattr(cls, "_methods", {})
    with_named_sizes(func, [n])
    return seen


def test_work_grows_with_the_distinct_parts_of_a_formula(monkeypatch):
    counts = []
    for levels in (5, 10, 20):
        with monkeypatch.context() as patch:
            counts.append(visits_of(levels, patch))
    assert 0 < counts[0] < counts[1] < counts[2] < 6 * counts[1]
