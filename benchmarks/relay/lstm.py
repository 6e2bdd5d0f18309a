"""LSTM as recursion over a list of inputs, one and two layers, beside ONNX Runtime's operator.

Inputs of 300, states of 512, batch 1, 10 to 60 steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import heddle
from benchmarks.measure import least_in_turn
from heddle import relay
from heddle.runtime.data import ConstructorValue
from heddle.vm.relax import VirtualMachine

INPUT, HIDDEN, LENGTHS = 300, 512, (10, 30, 60)
ROW, STATE = f"Tensor[(1, {INPUT}), float32]", f"Tensor[(1, {HIDDEN}), float32]"


def _gates(width: int) -> str:
    return ", ".join(
        (
            f"%w{{0}}: Tensor[({4 * HIDDEN}, {width}), float32]",
            f"%r{{0}}: Tensor[({4 * HIDDEN}, {HIDDEN}), float32]",
            f"%b{{0}}: Tensor[({4 * HIDDEN}), float32]",
        )
    )


CELL = """
      let %g{0} = split(nn.dense(%x{0}, %w{0}) + nn.dense(%h{0}, %r{0}) + %b{0}, indices_or_sections=4, axis=1);
      let %d{0} = sigmoid(%g{0}.2) * %c{0} + sigmoid(%g{0}.0) * tanh(%g{0}.3);
      let %k{0} = sigmoid(%g{0}.1) * tanh(%d{0});"""  # noqa: E501


def program(layers: int) -> str:
    """A list of inputs to the last layer's state."""
    places = range(layers)
    weights = ", ".join(_gates(HIDDEN if k else INPUT).format(k) for k in places)
    names = ", ".join(f"%w{k}, %r{k}, %b{k}" for k in places)
    states = ", ".join(f"%h{k}: {STATE}, %c{k}: {STATE}" for k in places)
    cells = "".join((f"\n      let %x{k} = %k{k - 1};" if k else "") + CELL.format(k) for k in places)
    zeros = ", ".join([f'zeros(shape=[1, {HIDDEN}], dtype="float32")'] * (2 * layers))
    new = ", ".join(f"%k{k}, %d{k}" for k in places)
    return f"""#[version = "0.0.5"]
type Steps {{ End, Step({ROW}, Steps) }}
def @lstm(%xs: Steps, {states}, {weights}) -> {STATE} {{
  match (%xs) {{
    End => %h{layers - 1},
    Step(%x0, %rest) => {{{cells}
      @lstm(%rest, {new}, {names})
    }},
  }}
}}
def @main(%xs: Steps, {weights}) {{ @lstm(%xs, {zeros}, {names}) }}
"""


def weights_of(layers: int) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    made = {}
    for k in range(layers):
        shapes = {"w": (4 * HIDDEN, HIDDEN if k else INPUT), "r": (4 * HIDDEN, HIDDEN), "b": (4 * HIDDEN,)}
        for name, shape in shapes.items():
            made[f"{name}{k}"] = (rng.standard_normal(shape) * 0.05).astype("float32")
    return made


def peer(layers: int, weights: dict[str, Any], threads: int) -> Any:
    """ONNX Runtime's session of as many LSTM nodes."""
    nodes, held, x = [], [], "x"
    for k in range(layers):
        bias = np.concatenate([weights[f"b{k}"], np.zeros(4 * HIDDEN, "float32")])
        for name, array in (("w", weights[f"w{k}"]), ("r", weights[f"r{k}"]), ("b", bias)):
            held.append(numpy_helper.from_array(array[None], f"{name}{k}"))
        last = k == layers - 1
        outs = ["", "y"] if last else [f"a{k}"]
        nodes.append(helper.make_node("LSTM", [x, f"w{k}", f"r{k}", f"b{k}"], outs, hidden_size=HIDDEN))
        if not last:
            nodes.append(helper.make_node("Squeeze", [f"a{k}", "axis"], [f"x{k}"]))
            x = f"x{k}"
    held.append(numpy_helper.from_array(np.array([1]), "axis"))
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, INPUT])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, HIDDEN])
    graph = helper.make_graph(nodes, "lstm", [given], [out], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def rows(threads: int) -> Iterator[str]:
    """A line for each number of layers and of steps."""
    for layers in (1, 2):
        weights = weights_of(layers)
        mod = relay.parse(program(layers))
        end, step = (made.tag for made in mod.get_type("Steps")[1:])
        vm = VirtualMachine(heddle.compile(mod, params=weights, exec_mode="compiled"), heddle.cpu())
        session = peer(layers, weights, threads)
        for length in LENGTHS:
            x = np.random.default_rng(length).standard_normal((length, 1, INPUT)).astype("float32")
            items: Any = ConstructorValue(end, ())
            for item in reversed(x):
                items = ConstructorValue(step, (heddle.tensor(item), items))
            np.testing.assert_allclose(
                vm["main"](items).numpy(), session.run(None, {"x": x})[0][0], 1e-4, 1e-5
            )
            ours, theirs = least_in_turn(partial(vm["main"], items), partial(session.run, None, {"x": x}))
            yield (
                f"{layers} layers {length} steps: {1e6 * ours:.0f} us, ONNX Runtime {1e6 * theirs:.0f} us, "
                f"ratio {ours / theirs:.3f}"
            )
