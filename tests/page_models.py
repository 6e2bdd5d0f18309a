"""Small models of each kind that a page shows, as files. Only the LSTM needs the package `onnx`."""

from __future__ import annotations

from pathlib import Path

from heddle.support.text import TextBuilder

_HEAD = "# from heddle.script import ir as I, relax as R, tir as T\n"
CNN = (
    _HEAD
    + """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 3, 16, 16), "float32"), w: R.Tensor((8, 3, 3, 3), "float32"),
             v: R.Tensor((72, 5), "float32")):
        with R.dataflow():
            a = R.nn.conv2d(x, w, padding=[1, 1])
            b = R.nn.relu(a)
            c = R.nn.max_pool2d(b, pool_size=[5, 5], strides=[5, 5])
            d = R.reshape(c, R.shape([1, 72]))
            e = R.matmul(d, v)
            f = R.add(e, R.const([1.0, 2.0, 3.0, 4.0, 5.0], "float32"))
            g = R.nn.softmax(f)
            R.output(g)
        return g
"""
)
ATTENTION = (
    _HEAD
    + """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), q: R.Tensor((8, 8), "float32"),
             k: R.Tensor((8, 8), "float32"), v: R.Tensor((8, 8), "float32")):
        n = T.int64()
        with R.dataflow():
            a = R.matmul(x, q)
            b = R.matmul(x, k)
            c = R.matmul(x, v)
            s = R.matmul(a, R.permute_dims(b))
            p = R.nn.softmax(R.multiply(s, R.const(0.35, "float32")))
            y = R.add(x, R.matmul(p, c))
            R.output(y)
        return y
"""
)
CONTROL = (
    _HEAD
    + """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32"), n: R.Tensor((), "int64")) -> R.Tensor((4,), "float32"):
        cls = Module
        c = R.greater(n, R.const(0, "int64"))
        if c:
            y = R.multiply(x, R.const(2.0, "float32"))
            m = R.subtract(n, R.const(1, "int64"))
            r = cls.main(y, m)
        else:
            r = R.add(x, R.const(1.0, "float32"))
        return r
"""
)
EMPTY = (
    _HEAD
    + """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((0, 3), "float32")) -> R.Tensor((0, 3), "float32"):
        return x
"""
)
LOOPS = (
    _HEAD
    + """
@I.ir_module
class Module:
    @T.prim_func
    def f(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            b[i] = a[i] * T.float32(2)
"""
)
CHAIN = (
    _HEAD
    + """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((64, 33), "float32"), y: R.Tensor((33,), "float32")):
        with R.dataflow():
            a = R.add(x, y)
            b = R.nn.relu(a)
            c = R.multiply(b, x)
            R.output(c)
        return c
"""
)
TWICE = (
    _HEAD
    + """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((64, 33), "float32")):
        with R.dataflow():
            a = R.nn.softmax(x)
            b = R.sqrt(R.add(a, a))
            c = R.nn.softmax(b)
            d = R.sqrt(R.add(c, c))
            e = R.nn.softmax(d)
            f = R.nn.relu(R.add(e, e))
            R.output(f)
        return f
"""
)
RELAY = (
    '#[version = "0.0.5"]\n'
    "def @scale(%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] { %x * 2f }\n"
    "def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]) {\n"
    "  nn.softmax(nn.dense(@scale(%x), %w))\n}\n"
)
TEXTS = {
    "cnn.py": CNN,
    "attention.py": ATTENTION,
    "control.py": CONTROL,
    "chain.py": CHAIN,
    "twice.py": TWICE,
    "empty.py": EMPTY,
    "loops.py": LOOPS,
    "net.relay": RELAY,
}
HOSTILE = (
    "</script><script>document.title='x'</script>",
    "\" onload='x'",
    "nul\0 and \ud800",
    "<!--",
    "\u202eé",
)
"""Names of nodes that would be markup, or break texts, where they are not treated as text."""


def hostile_text() -> TextBuilder:
    """A text whose lines are the hostile names."""
    out = TextBuilder()
    for name in HOSTILE:
        out.line(name)
    return out


def write_text(folder: Path, name: str) -> Path:
    """The path of a model of `TEXTS`."""
    path = folder / name
    path.write_text(TEXTS[name])
    return path


def write_lstm(folder: Path) -> Path:
    """An LSTM as ONNX has it: a loop over steps."""
    from onnx import TensorProto, helper

    def value(name: str, *shape: int | str) -> object:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    node = helper.make_node("LSTM", ["x", "w", "r"], ["y", "h"], name="lstm", hidden_size=4)
    inputs = [value("x", 5, 1, 3), value("w", 1, 16, 3), value("r", 1, 16, 4)]
    graph = helper.make_graph([node], "g", inputs, [value("y", 5, 1, 1, 4), value("h", 1, 1, 4)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    path = folder / "lstm.onnx"
    path.write_bytes(model.SerializeToString())
    return path
