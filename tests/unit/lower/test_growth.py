"""How the compiler's work grows with a graph: counted in calls of its functions, never in seconds.

Values that are used twice double a program that copies them, as a step of `t = t * sigmoid(t)` would. Twice
the steps must not do more than twice the work, up to what is quadratic inside one kernel of 64 operators.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from heddle.arith import Analyzer
from heddle.codegen.build import generate_text
from heddle.codegen.pipeline import lower
from heddle.driver.pipeline import default_pipeline
from heddle.frontend.onnx import from_onnx
from heddle.ir.module import IRModule
from heddle.ir.structural import structural_equal, structural_hash
from heddle.lower.vm_shape_lower import VMShapeLower
from heddle.prim import ops
from heddle.prim.nodes import PrimExpr, Range, Var
from heddle.prim.substitute import free_vars, substitute
from heddle.script import from_source
from heddle.target import Target
from heddle.tir.nodes import PrimFunc

QUADRATIC = 4.5
"""Work for twice the steps, at most, where they share a kernel: its passes look at it once for each block."""
LINEAR = 2.3

Step = Callable[[str, str, int], list[onnx.NodeProto]]
"""The nodes from one value to the next, and the number of the step."""


def count_calls(action: Callable[[], Any]) -> int:
    """How many functions of the compiler an action calls."""
    count = 0

    def look(frame: Any, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call" and "heddle" in frame.f_code.co_filename

    sys.setprofile(look)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def compile_calls(model: onnx.ModelProto, finish: Callable[[IRModule, Target], Any] = lower) -> int:
    """Calls of import, passes and lowering to machine loops, or to text; LLVM's work is not counted."""
    target = Target("llvm")

    def action() -> None:
        module = default_pipeline(target)(from_onnx(model))
        loops = {var: func for var, func in module.functions.items() if isinstance(func, PrimFunc)}
        finish(IRModule(loops), target)

    return count_calls(action)


def node(kind: str, inputs: str, output: str, **attrs: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), [output], **attrs)


def model_of(
    nodes: list[onnx.NodeProto],
    dims: list[Any],
    stored: dict[str, np.ndarray],
    dtype: int = onnx.TensorProto.FLOAT,
) -> onnx.ModelProto:
    given = helper.make_tensor_value_info("x", dtype, dims)
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    weights = [numpy_helper.from_array(array, name) for name, array in stored.items()]
    graph = helper.make_graph(nodes, "growth", [given], [result], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def chain(step: Step, count: int, dims: list[Any]) -> onnx.ModelProto:
    nodes: list[onnx.NodeProto] = []
    for k in range(count):
        nodes += step("x" if k == 0 else f"t{k}", "y" if k == count - 1 else f"t{k + 1}", k)
    stored = {
        "two": np.float32(2),
        "rows": np.array([8, 32]),
        "back": np.array([16, 16]),
        "one": np.array([1]),
        "none": np.array([0]),
        "end": np.array([1 << 40]),
        "grow": np.array([1, 0, 0, 0]),
    }
    used = {name for item in nodes for name in item.input}
    return model_of(nodes, dims, {name: np.asarray(a) for name, a in stored.items() if name in used})


STEPS: dict[str, Step] = {
    "one operator": lambda a, b, k: [node("Sigmoid" if k % 2 else "Neg", a, b)],
    "t + t": lambda a, b, k: [node("Add", f"{a} {a}", b)],
    "t * sigmoid(t)": lambda a, b, k: [node("Sigmoid", a, f"s{k}"), node("Mul", f"{a} s{k}", b)],
    "where": lambda a, b, k: [
        node("Greater", f"{a} two", f"c{k}"),
        node("Exp", a, f"e{k}"),
        node("Where", f"c{k} e{k} {a}", b),
    ],
    "transposed": lambda a, b, k: [node("Transpose", a, f"p{k}", perm=[1, 0]), node("Mul", f"{a} p{k}", b)],
    "shifted": lambda a, b, k: [
        node("Pad", f"{a} grow", f"p{k}"),
        node("Slice", f"p{k} one end none one", f"u{k}"),
        node("Mul", f"u{k} {a}", b),
    ],
    "reshaped": lambda a, b, k: [
        node("Reshape", f"{a} rows", f"p{k}"),
        node("Reshape", f"p{k} back", f"q{k}"),
        node("Mul", f"q{k} {a}", b),
    ],
    "softmax": lambda a, b, k: [node("Softmax", a, f"p{k}"), node("Add", f"{a} p{k}", b)],
    "mean": lambda a, b, k: [node("ReduceMean", a, f"p{k}", axes=[1]), node("Sub", f"{a} p{k}", b)],
    "ladder": lambda a, b, k: [
        node("Relu", a, f"p{k}"),
        node("Tanh", a, f"q{k}"),
        node("Mul", f"p{k} q{k}", f"r{k}"),
        node("Sub", f"p{k} q{k}", f"s{k}"),
        node("Div", f"r{k} s{k}", b),
    ],
}


@pytest.mark.parametrize("name", STEPS)
def test_chains_grow_with_their_steps(name: str) -> None:
    short, long = (compile_calls(chain(STEPS[name], count, [16, 16])) for count in (5, 10))
    assert long < QUADRATIC * short


INDEX_STEPS: dict[str, tuple[list[Any], Step]] = {
    "gathered": (["n"], lambda a, b, k: [node("Gather", f"{a} x", b)]),
    "gathered elements": (["n"], lambda a, b, k: [node("GatherElements", f"{a} x", b)]),
    "compressed": (["n"], lambda a, b, k: [node("Compress", f"{a} mask", b, axis=0)]),
    "reflected": (["n"], lambda a, b, k: [node("Pad", f"{a} edges", b, mode="reflect")]),
    "wrapped": (["n"], lambda a, b, k: [node("Pad", f"{a} edges", b, mode="wrap")]),
    "resized": (
        ["n"],
        lambda a, b, k: [helper.make_node("Resize", [a, "", "scale"], [b], mode="nearest")],
    ),
    "turned": (
        ["n"],
        lambda a, b, k: [
            node("Reshape", f"{a} rows", f"p{k}"),
            node("Transpose", f"p{k}", f"q{k}", perm=[1, 0]),
            node("Reshape", f"q{k} line", b),
        ],
    ),
    "blocks": (
        [1, 4, "h", "w"],
        lambda a, b, k: [
            node("DepthToSpace", a, f"p{k}", blocksize=2),
            node("SpaceToDepth", f"p{k}", f"q{k}", blocksize=2),
            node("Transpose", f"q{k}", b, perm=[0, 1, 3, 2]),
        ],
    ),
}
"""Maps whose index uses the index of the map before more than once."""


@pytest.mark.parametrize("name", INDEX_STEPS)
def test_indices_of_maps_grow_with_the_maps(name: str) -> None:
    dims, step = INDEX_STEPS[name]

    def model(count: int) -> onnx.ModelProto:
        names = ["x", *(f"t{k}" for k in range(1, count)), "y"]
        nodes = [each for k in range(count) for each in step(names[k], names[k + 1], k)]
        if name == "compressed":
            nodes = [node("Greater", "x few", "mask"), *nodes]
        numbers = {
            "edges": [2, 1],
            "rows": [-1, 6],
            "line": [-1],
            "few": 3,
            "scale": np.array([1.3], np.float32),
        }
        used = {text for item in nodes for text in item.input}
        stored = {text: np.asarray(value) for text, value in numbers.items() if text in used}
        return model_of(nodes, dims, stored, onnx.TensorProto.INT64)

    lengths: list[int] = []

    def write(mod: IRModule, target: Target) -> None:
        lengths.append(len(generate_text(mod, target)[0]))

    short, long = (compile_calls(model(count), write) for count in (3, 6))
    assert long < QUADRATIC * short
    assert lengths[1] < QUADRATIC * lengths[0]


def crossed(count: int) -> onnx.ModelProto:
    """Two values, each made of both before: no node but the last dominates another."""
    nodes = [node("Relu", "x", "a0"), node("Sigmoid", "x", "b0")]
    for k in range(count):
        nodes += [node("Add", f"a{k} b{k}", f"p{k}"), node("Relu", f"p{k}", f"a{k + 1}")]
        nodes += [node("Mul", f"a{k} b{k}", f"q{k}"), node("Sigmoid", f"q{k}", f"b{k + 1}")]
    return model_of([*nodes, node("Add", f"a{count} b{count}", "y")], ["n", 16], {})


def test_long_ladders_grow_with_their_steps() -> None:
    assert compile_calls(crossed(40)) < LINEAR * compile_calls(crossed(20))


def squeeze_and_excite(size: int) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    shapes = {"w0": (16, 1, 3, 3), "w1": (4, 16, 1, 1), "w2": (16, 4, 1, 1)}
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        node("Conv", "x w0", "d", group=16, pads=[1] * 4),
        node("Sigmoid", "d", "ds"),
        node("Mul", "d ds", "e"),
        node("GlobalAveragePool", "e", "p"),
        node("Conv", "p w1", "q"),
        node("Relu", "q", "r"),
        node("Conv", "r w2", "s"),
        node("Sigmoid", "s", "t"),
        node("Mul", "e t", "y"),
    ]
    return model_of(nodes, [1, 16, size, size], weights)


def test_code_does_not_grow_with_the_image() -> None:
    """A gate of one pixel is no epilogue over the image: it would be unrolled and computed for each pixel."""
    small, large = (compile_calls(squeeze_and_excite(size)) for size in (14, 112))
    assert large < 1.5 * small


SIZE_STEPS: dict[str, Step] = {
    "quotient": lambda a, b, k: [node("Div", f"{a} seven", f"q{k}"), node("Add", f"q{k} {a}", b)],
    "rest of a square": lambda a, b, k: [node("Mul", f"{a} {a}", f"q{k}"), node("Mod", f"q{k} seven", b)],
    "extremes": lambda a, b, k: [
        node("Div", f"{a} three", f"q{k}"),
        node("Max", f"q{k} {a}", f"r{k}"),
        node("Sub", f"r{k} q{k}", b),
    ],
    "choices": lambda a, b, k: [
        node("Greater", f"{a} seven", f"c{k}"),
        node("Div", f"{a} three", f"q{k}"),
        node("Where", f"c{k} q{k} {a}", f"w{k}"),
        node("Add", f"w{k} {a}", b),
    ],
}


@pytest.mark.parametrize("name", SIZE_STEPS)
def test_arithmetic_of_sizes_grows_with_its_steps(name: str) -> None:
    def model(count: int) -> onnx.ModelProto:
        nodes = [node("Shape", "x", "s"), node("Gather", "s first", "d0")]
        for k in range(count):
            nodes += SIZE_STEPS[name](f"d{k}", f"d{k + 1}", k)
        nodes += [node("Mod", f"d{count} five", "e"), node("Unsqueeze", "e axes", "u")]
        numbers = {"first": 0, "three": 3, "five": 5, "seven": 7, "axes": [0]}
        used = {text for item in nodes for text in item.input} | {"axes"}
        stored = {text: np.asarray(value) for text, value in numbers.items() if text in used}
        return model_of([*nodes, node("ConstantOfShape", "u", "y")], ["n"], stored)

    short, long = (compile_calls(model(count)) for count in (10, 20))
    assert long < QUADRATIC * short


# ---- scalar expressions with shared parts

Scalar = Callable[[Any], PrimExpr]
X, Y = Var("x", "int64"), Var("y", "int64")
SHARED: dict[str, Scalar] = {
    "sum": lambda e: e + e,
    "product": lambda e: e * e + X,
    "products of sums": lambda e: (e + Y) * (e + X),
    "quotient": lambda e: e // 3 + e,
    "rest": lambda e: (e * e) % 7 + e,
    "extremes": lambda e: ops.maximum(e // 3, e) - e // 5,
    "choice": lambda e: ops.select(e > 7, e // 3, e) + e,
}


def shared(step: Scalar, count: int) -> PrimExpr:
    made: Any = X
    for _ in range(count):
        made = step(made)
    return made


def questions(expr: PrimExpr) -> dict[str, Callable[[], Any]]:
    def told() -> Analyzer:
        analyzer = Analyzer()
        analyzer.bind(X, Range(0, 100))
        analyzer.bind(Y, Range(0, 10))
        return analyzer

    return {
        "simplify": lambda: told().simplify(expr),
        "bound": lambda: told().const_int_bound(expr),
        "set": lambda: told().int_set(expr, {X: Range(0, 10)}),
        "residue": lambda: told().modular_set(expr),
        "proof": lambda: told().can_prove(expr >= 0),
        "variables": lambda: free_vars(expr),
        "substitution": lambda: substitute(expr, {X: Y}),
        "equality": lambda: structural_equal(expr, substitute(expr, {Y: Y})),
        "hash": lambda: structural_hash(expr, True),
    }


@pytest.mark.parametrize("name", SHARED)
def test_shared_parts_are_looked_at_once(name: str) -> None:
    """40 steps are a tree of 2**40 nodes."""
    short, long = (questions(shared(SHARED[name], count)) for count in (20, 40))
    for question, ask in short.items():
        assert count_calls(long[question]) < QUADRATIC * count_calls(ask) + 2000, question


def sizes_in_turn(count: int) -> IRModule:
    """Parameters of a size each, and a sum of each size."""
    numbers = range(count)
    params = ", ".join(f'x{k}: R.Tensor(("n{k}",), "float32")' for k in numbers)
    lines = [f"        n{k} = T.int64()" for k in numbers]
    lines += [f"        s{k}: R.Shape((n{k} + {k + 1},)) = R.shape([n{k} + {k + 1}])" for k in numbers]
    body = "\n".join(lines)
    return from_source(f"""
from heddle.script import ir as I, relax as R, tirx as T

@I.ir_module
class Module:
    @R.function
    def main({params}):
{body}
        return ({", ".join(f"s{k}" for k in numbers)})
""")


def test_sizes_that_become_known_one_by_one_are_looked_at_once() -> None:
    short, long = (sizes_in_turn(count) for count in (50, 150))
    assert count_calls(lambda: VMShapeLower()(long)) < 1.2 * 3 * count_calls(lambda: VMShapeLower()(short))
