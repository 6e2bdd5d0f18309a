"""Networks of many layers that differ in sizes alone: `python -m tests.fuzz.layers --seed 0 --count 100`.

There loop functions of one form share their code (ShareKernels), sizes that are formulas get names
(NameSizes), and tiles are cut to the rows that are left (FitTiles). Each network runs with and without one
of these passes, as bytecode and compiled, with sizes that its tiles do not divide, and against ONNX Runtime.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from heddle.driver.compile import build, with_machine_code
from heddle.frontend.onnx import from_onnx
from heddle.ir.transform import PassContext
from heddle.runtime import cpu
from heddle.runtime.native.library import set_num_threads
from heddle.vm.relax import VirtualMachine
from tests.fuzz.seeds import run_seeds

WITHOUT = ((), ("ShareKernels",), ("NameSizes",), ("FitTiles",))
CHANNELS, WIDTHS = (1, 3, 4, 8, 12, 16, 17, 24, 40), (1, 5, 8, 16, 24, 31, 64)

IMAGES, ROWS = ((1, 2, 3), (1, 2, 7, 16, 21, 33), (1, 5, 13, 32)), ((1, 2, 3), (1, 4, 6, 17, 33))
"""Values of the sizes of x."""


class Network:
    """A chain of layers, made node by node; `channels` are those of the value made last."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.is_image = self.rng.random() < 0.6
        self.channels = self.rng.choice(CHANNELS if self.is_image else WIDTHS)
        self.first = self.channels
        self.last = "x"
        self.outputs: list[str] = []

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        array = (self.numbers.standard_normal(shape) / max(1, np.prod(shape[1:])) ** 0.5).astype("float32")
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def whole(self, *items: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(items, np.int64), name))
        return name

    def add(self, op: str, *inputs: str, **attrs: Any) -> str:
        self.last = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [self.last], **attrs))
        return self.last

    def model(self, sizes: list[Any]) -> onnx.ModelProto:
        shape = [sizes[0], self.first, *sizes[1:]] if self.is_image else [*sizes, self.first]
        graph = helper.make_graph(
            self.nodes,
            "layers",
            [helper.make_tensor_value_info("x", 1, shape)],
            [onnx.ValueInfoProto(name=name) for name in dict.fromkeys((*self.outputs, self.last))],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def convolution(net: Network, kernel: int, stride: int, ending: str) -> None:
    out = net.rng.choice(CHANNELS)
    pads = [kernel // 2] * 4
    weight = net.weight(out, net.channels, kernel, kernel)
    net.add("Conv", net.last, weight, net.weight(out), pads=pads, strides=[stride, stride])
    net.channels = out
    end(net, ending)


def depthwise(net: Network, stride: int, ending: str) -> None:
    weight = net.weight(net.channels, 1, 3, 3)
    net.add("Conv", net.last, weight, pads=[1] * 4, strides=[stride, stride], group=net.channels)
    end(net, ending)


def squeezed(net: Network) -> None:
    x, inner = net.last, net.rng.choice((2, 4, 6))
    net.add("GlobalAveragePool", x)
    net.add("Conv", net.last, net.weight(inner, net.channels, 1, 1))
    net.add("Relu", net.last)
    net.add("Conv", net.last, net.weight(net.channels, inner, 1, 1))
    net.add("Mul", x, net.add("Sigmoid", net.last))


def dense(net: Network, ending: str) -> None:
    out = net.rng.choice(WIDTHS)
    net.add("MatMul", net.last, net.weight(net.channels, out))
    net.add("Add", net.last, net.weight(out))
    net.channels = out
    end(net, ending)


def normalised(net: Network) -> None:
    net.add("LayerNormalization", net.last, net.weight(net.channels), net.weight(net.channels), axis=-1)


def products(net: Network) -> None:
    """Rows by rows, as attention has them."""
    x = net.last
    net.add("MatMul", x, net.add("Transpose", x, perm=[0, 2, 1]))
    net.add("MatMul", net.add("Softmax", net.last, axis=-1), x)


def end(net: Network, ending: str) -> None:
    if ending == "swish":
        x = net.last
        net.add("Mul", x, net.add("Sigmoid", x))
    elif ending == "residual":
        net.add("Add", net.add("Relu", net.last), net.last)
    elif ending:
        net.add(ending, net.last)


def grow(net: Network) -> None:
    """Blocks of few kinds, each several times."""
    rng = net.rng
    kernel, ending = rng.choice((1, 3)), rng.choice(("", "Relu", "swish", "residual"))
    images: list[Callable[[], None]] = [
        lambda: convolution(net, kernel, rng.choice((1, 1, 1, 2)), ending),
        lambda: depthwise(net, rng.choice((1, 1, 2)), ending),
        lambda: squeezed(net),
        lambda: end(net, rng.choice(("Relu", "residual", "Tanh"))),
    ]
    rows: list[Callable[[], None]] = [
        lambda: dense(net, ending),
        lambda: normalised(net),
        lambda: products(net),
        lambda: net.outputs.append(net.last),
    ]
    kinds = images if net.is_image else rows
    chosen = rng.sample(kinds, rng.choice((1, 2, 2, 3)))
    if kinds[0] not in chosen:
        chosen.append(kinds[0])
    for _ in range(rng.randint(4, 10)):
        rng.choice(chosen)()


def try_seed(seed: int) -> str:
    """What is wrong with the network of a seed; nothing where all agree."""
    net = Network(seed)
    grow(net)
    rng = net.rng
    free: list[Any] = ["b", "h", "w"] if net.is_image else ["b", "s"]
    choices = (
        [(1, 2, 3), (1, 2, 7, 16, 21, 33), (1, 5, 13, 32)] if net.is_image else [(1, 2, 3), (1, 4, 6, 17, 33)]
    )
    fixed = [rng.choice(options) for options in choices]
    mask = rng.choice(("none", "all", "some"))
    sizes = [
        name if mask == "all" or (mask == "some" and rng.random() < 0.5) else size
        for name, size in zip(free, fixed, strict=True)
    ]
    model = net.model(sizes)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    engines = {}
    target = rng.choice(("llvm", "llvm -opt-level=0", "llvm -opt-level=0 -mcpu=x86-64-v2"))
    for without in (WITHOUT[0], rng.choice(WITHOUT[1:])):
        with PassContext(disabled_pass=list(without)):
            program = build(from_onnx(model), target)
        engines[f"bytecode without {without}"] = VirtualMachine(program, cpu())["main"]
        if rng.random() < 0.2:
            compiled = with_machine_code(program, target)
            engines[f"compiled without {without}"] = VirtualMachine(compiled, cpu())["main"]
    for _ in range(3):
        chosen = [
            size if isinstance(size, int) else rng.choice(options)
            for size, options in zip(sizes, choices, strict=True)
        ]
        shape = (chosen[0], net.first, *chosen[1:]) if net.is_image else (*chosen, net.first)
        x = net.numbers.standard_normal(shape).astype("float32")
        wanted = session.run(None, {"x": x})
        for name, call in engines.items():
            set_num_threads(rng.choice((1, 2)))
            got = call(x)
            parts = [np.asarray(item.numpy()) for item in (got if isinstance(got, (tuple, list)) else [got])]
            for mine, theirs in zip(parts, wanted, strict=True):
                top = np.abs(theirs).max(initial=1)
                if mine.shape != theirs.shape or not np.allclose(mine, theirs, rtol=1e-3, atol=2e-4 * top):
                    return f"{name}, {target!r}, sizes {sizes}, x {shape}: {_apart(mine, theirs)}"
    return ""


def _apart(mine: Any, theirs: Any) -> str:
    if mine.shape != theirs.shape:
        return f"shape {mine.shape}, expected {theirs.shape}"
    return f"differs by {np.abs(mine - theirs).max()} of {np.abs(theirs).max()}"


if __name__ == "__main__":
    sys.exit(run_seeds(__doc__, "networks", try_seed))
