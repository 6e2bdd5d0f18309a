"""Loops that only look like those of an operator: `python -m tests.fuzz.mutated_loops --seed 0 --count 1000`.

Passes recognise convolutions, attention and the like by their loops, which people may also write by hand. So
the loops of operators are changed in one or two places (a factor, a sign, a condition, what padding holds,
what a sum begins with), and compiled with and without the passes that recognise loops: a pass that takes
them for what they were gives other numbers. Reductions stay reductions: their axes say that the order of the
steps does not matter.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from heddle import relax
from heddle.driver.compile import build
from heddle.driver.pipeline import optimize_passes
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.transform import PassContext
from heddle.ir.visitor import Rewriter, walk
from heddle.lower.legalize_ops import LegalizeOps
from heddle.prim import nodes as prim
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import all as all_of
from heddle.prim.ops import maximum, minimum
from heddle.runtime import cpu
from heddle.runtime.tensor import Tensor
from heddle.script import from_source
from heddle.target import Target
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore, PrimFunc, SBlock
from heddle.vm.relax import VirtualMachine
from tests.fuzz.seeds import run_seeds

RECOGNISE = (
    "FuseAttention",
    "FuseOps",
    "FuseTIR",
    "WidenGroups",
    "ConvertToBlockedLayout",
    "ConvertToWinograd",
    "PackWeights",
    "ApplyDefaultSchedule",
    "FuseLoops",
    "ProveIndices",
)
"""Passes that know loops by their form."""
TARGETS = ("llvm", "llvm -opt-level=1 -vector-width=256", "llvm -opt-level=0 -vector-width=128")

Shape = tuple[Any, ...]
Made = tuple[Shape, list[Shape], str]
"""The shape of x, those of the weights w0, w1, … and the statements that give y."""


def _image(rng: random.Random, body: str, weights: list[Shape], channels: int) -> Made:
    """Between two convolutions of single pixels, so that images lie in blocks of channels."""
    side = rng.choice((5, 7, 14, 28)), rng.choice((6, 14, 28))
    shapes = [(channels, 8, 1, 1), *weights, (8, channels, 1, 1)]
    last = len(shapes) - 1
    return (1, 8, *side), shapes, f"a = R.nn.conv2d(x, w0)\n{body}\ny = R.nn.conv2d(b, w{last})"


def _convolution(rng: random.Random) -> Made:
    channels, k = rng.choice((8, 16, 48, 64)), rng.choice((1, 3, 3, 3, 5))
    groups = rng.choice((1, 1, 2, 4, 8, channels))  # of 48 channels 4 groups do not fill vectors
    stride, ending = rng.choice((1, 1, 2)), rng.choice(("", "b = R.nn.relu(b)", "b = R.add(b, a)"))
    ending = "" if stride > 1 and "add" in ending else ending
    attrs = f"padding={k // 2}, strides={stride}, groups={groups}"
    body = f"b = R.nn.conv2d(a, w1, {attrs})\n{ending}"
    return _image(rng, body, [(channels, channels // groups, k, k)], channels)


def _pool(rng: random.Random) -> Made:
    kind = rng.choice(("max_pool2d", "avg_pool2d"))
    stride = rng.choice((1, 2))
    return _image(rng, f"b = R.nn.{kind}(a, pool_size=3, strides={stride}, padding=1)", [], 16)


def _line(rng: random.Random) -> Made:
    k, c = rng.choice((1, 3, 5)), rng.choice((8, 16, 32))
    return (
        (2, c, rng.choice((9, 40))),
        [(c, c, k), (c, c, 1)],
        (f"a = R.nn.conv1d(x, w0, padding={k // 2})\nb = R.nn.relu(a)\ny = R.nn.conv1d(b, w1)"),
    )


def _transposed(rng: random.Random) -> Made:
    c = rng.choice((4, 16))
    body = "b = R.nn.conv2d_transpose(a, w1, strides=2, padding=1)"
    return _image(rng, body, [(c, c, 4, 4)], c)


def _dense(rng: random.Random) -> Made:
    rows, k, n = rng.choice((1, 7, 33)), rng.choice((16, 48)), rng.choice((16, 40))
    ending = rng.choice(("R.nn.gelu(b)", "R.nn.softmax(b)", "R.nn.relu(b)", "R.nn.silu(b)"))
    return (
        (rows, k),
        [(k, n), (n,), (n, 24)],
        (f"a = R.matmul(x, w0)\nb = R.add(a, w1)\nc = {ending}\ny = R.matmul(c, w2)"),
    )


def _attention(rng: random.Random) -> Made:
    n, d, heads = rng.choice((5, 16, 33)), rng.choice((8, 16)), rng.choice((1, 2))
    scale = rng.choice(("R.multiply(s, R.const(0.25, 'float32'))", "s"))
    return (
        (heads, n, d),
        [(d, d), (d, d), (d, d)],
        (
            "q = R.matmul(x, w0)\nk = R.matmul(x, w1)\nv = R.matmul(x, w2)\n"
            f"s = R.matmul(q, R.permute_dims(k, [0, 2, 1]))\nt = {scale}\n"
            "p = R.nn.softmax(t, axis=-1)\ny = R.matmul(p, v)"
        ),
    )


def _normal(rng: random.Random) -> Made:
    n, c = rng.choice((3, 17)), rng.choice((16, 40))
    return (
        (n, c),
        [(c,), (c,), (c, c)],
        (
            "a = R.nn.layer_norm(x, w0, w1, axes=[-1])\nb = R.matmul(a, w2)\n"
            "c = R.nn.softmax(b, axis=-1)\ny = R.add(c, x)"
        ),
    )


def _sums(rng: random.Random) -> Made:
    kind, axis = rng.choice(("sum", "mean", "max")), rng.choice((0, 1, 2))
    return (
        (4, 9, 33),
        [(4, 9, 33)],
        (
            f"a = R.multiply(x, w0)\nb = R.{kind}(a, axis=[{axis}], keepdims=True)\n"
            "c = R.subtract(a, b)\ny = R.permute_dims(c, [0, 2, 1])"
        ),
    )


FAMILIES: tuple[Callable[[random.Random], Made], ...] = (
    _convolution,
    _convolution,
    _pool,
    _line,
    _transposed,
    _dense,
    _attention,
    _normal,
    _sums,
)


def module_of(made: Made, numbers: np.random.Generator) -> IRModule:
    shape, weights, body = made
    names = [f"w{k}" for k in range(len(weights))]
    given = ", ".join(
        f"{name}: R.Tensor({each}, 'float32')"
        for name, each in zip(("x", *names), (shape, *weights), strict=True)
    )
    lines = "\n            ".join(line for line in body.splitlines() if line.strip())
    source = f"""
@I.ir_module
class Module:
    @R.function
    def main({given}):
        with R.dataflow():
            {lines}
            R.output(y)
        return y
"""
    arrays = {
        name: (numbers.standard_normal(each) / max(1, np.prod(each[1:])) ** 0.5).astype("float32")
        for name, each in zip(names, weights, strict=True)
    }
    mod = relax.transform.BindParams("main", arrays)(from_source(source))
    for step in optimize_passes(Target("llvm")):
        mod = step(mod)
    return LegalizeOps()(mod)


# ---- changes


def _changed(node: Any, rng: random.Random) -> Any | None:
    """Another node in its place, of the same type; None where nothing is done to such a node."""
    if isinstance(node, BufferLoad) and node.dtype.is_float:
        return _other_value(node, rng)
    if isinstance(node, prim.FloatImm):
        return constant(rng.choice((node.value + 1.0, node.value * 2.0 + 0.5, -node.value - 1.0)), node.dtype)
    if type(node) in _OTHER_OPERATORS and node.dtype.is_float:
        return rng.choice(_OTHER_OPERATORS[type(node)])(node.a, node.b)
    if isinstance(node, prim.Call) and node.op.name == "tir.if_then_else":
        condition, inside, outside = node.args
        if rng.random() < 0.5:
            return replace(node, args=(condition, inside, constant(rng.choice((1.0, -2.0)), outside.dtype)))
        axes = [each for each in walk(condition) if isinstance(each, prim.Var)]
        if axes:
            more = rng.choice(axes) >= constant(rng.choice((2, 3)), "int64")
            return replace(node, args=(all_of(condition, more), inside, outside))
    return None


def _other_value(node: PrimExpr, rng: random.Random) -> PrimExpr:
    zero, one, two = (constant(value, node.dtype) for value in (0.0, 1.0, 2.0))
    return rng.choice((node * two, node + one, maximum(node, zero), one - node))


_OTHER_OPERATORS: dict[type, tuple[Callable[[Any, Any], Any], ...]] = {
    prim.Add: (lambda a, b: a - b, maximum, lambda a, b: a + b * 2.0),
    prim.Sub: (lambda a, b: a + b, lambda a, b: b - a),
    prim.Mul: (lambda a, b: a + b, lambda a, b: a * b * 2.0, lambda a, b: a * a),
    prim.Max: (minimum, lambda a, b: a + b),
}


class _Change(Rewriter):
    """Changes the value node of a given number in a loop function; None changes nothing, and counts them."""

    def __init__(self, place: int | None, rng: random.Random) -> None:
        self.place, self.rng, self.count, self.done = place, rng, 0, list[str]()
        self.stored: Buffer | None = None

    def visit_SBlock(self, node: SBlock) -> Any:
        body, init = self.visit(node.body), node.init
        if isinstance(init, BufferStore):
            init = self.visit(init)
        return replace(node, body=body, init=init)

    def visit_BufferStore(self, node: BufferStore) -> Any:
        self.stored = node.buffer
        return replace(node, value=self._value(node.value))

    def _value(self, node: Any) -> Any:
        number, self.count = self.count, self.count + 1
        if number == self.place:
            made = self._other_reduction(node) if self._is_the_sum(node) else _changed(node, self.rng)
            if made is not None:
                self.done.append(f"{node}  →  {made}")
                return made
        return self._below(node)

    def _is_the_sum(self, node: Any) -> bool:
        """Whether a node is what the store has summed so far, or adds to it."""
        parts = (node, getattr(node, "a", None), getattr(node, "b", None))
        return any(isinstance(part, BufferLoad) and part.buffer is self.stored for part in parts)

    def _other_reduction(self, node: Any) -> Any | None:
        if isinstance(node, prim.Add) and isinstance(node.a, BufferLoad) and node.dtype.is_float:
            return self.rng.choice((maximum, minimum, lambda a, b: a - b))(node.a, node.b)
        return None

    def _below(self, node: Any) -> Any:
        if isinstance(node, prim.Call) and node.op.name == "tir.if_then_else":
            condition, *values = node.args
            return replace(node, args=(condition, *map(self._value, values)))
        if isinstance(node, prim.Call):
            return replace(node, args=tuple(map(self._value, node.args)))
        if type(node) in _OTHER_OPERATORS or isinstance(node, prim.Div):
            return replace(node, a=self._value(node.a), b=self._value(node.b))
        return node


def mutated(mod: IRModule, rng: random.Random) -> tuple[IRModule, list[str]]:
    """The module with one or two changes in its loops, and what they are."""
    loops = [(var, func) for var, func in mod.functions.items() if isinstance(func, PrimFunc)]
    table, done = dict(mod.functions), list[str]()
    for _ in range(rng.choice((1, 1, 2))):
        var, func = rng.choice(loops)
        counter = _Change(None, rng)
        counter.visit(func.body)
        change = _Change(rng.randrange(max(1, counter.count)), rng)
        current = table[var]
        assert isinstance(current, PrimFunc)
        table[var] = current.with_body(change.visit(current.body))
        done += [f"{var.name_hint}: {each}" for each in change.done]
    return mod.with_functions(table), done


def try_seed(seed: int) -> str:
    """What is wrong with the module of a seed; nothing where all agree."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    made = rng.choice(FAMILIES)(rng)
    mod, changes = mutated(module_of(made, numbers), rng)
    x = numbers.standard_normal(made[0]).astype("float32")
    target = rng.choice(TARGETS)
    with PassContext(disabled_pass=list(RECOGNISE)):
        wanted = _result(build(mod, target), x)
    got = _result(build(mod, target), x)
    finite = np.isfinite(wanted)
    top = np.abs(wanted[finite]).max(initial=1)
    if not finite.all() or top > 1e6:
        return ""  # sums in another order may well differ there
    if np.allclose(got, wanted, rtol=1e-3, atol=2e-4 * top):
        return ""
    return f"{target!r}: {made}\n  {changes}\n  differs by {np.abs(got - wanted).max()} of {top}"


def _result(program: Any, x: Any) -> Any:
    found = VirtualMachine(program, cpu())["main"](x)
    assert isinstance(found, Tensor)
    return found.numpy().astype("float64")


if __name__ == "__main__":
    sys.exit(run_seeds(__doc__, "modules", try_seed))
