"""Branches that give tensors of different ranks: what follows is imported for each, as far as it must be."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import heddle
from heddle.frontend.onnx import from_onnx
from heddle.frontend.params import detach_params
from heddle.ir.expr import If
from heddle.ir.visitor import walk
from heddle.relax.interpreter import GraphInterpreter
from heddle.support.diagnostics import HeddleError

HEADER = '<ir_version: 9, opset_import: ["" : 20]>\n'
SQUEEZE = """
    z = If (c) <
      then_branch = squeezed () => (float[n] s) {
        axis = Constant <value_ints = [1]> () s = Squeeze (x, axis) },
      else_branch = kept () => (float[n, m] k) { k = Identity (x) }
    >
"""


def graph(nodes: str, inputs: str = "float[n, m] x, bool c", outputs: str = "float[] y") -> onnx.ModelProto:
    made = parser.parse_model(f"{HEADER}agraph ({inputs}) => ({outputs}) {{ {nodes} }}")
    for output in made.graph.output:
        output.type.tensor_type.ClearField("shape")
    return made


def agree(model: onnx.ModelProto, *arrays: Any) -> None:
    """The interpreter and both modes of the machine give what ONNX Runtime gives."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in model.graph.input]
    wanted = session.run(None, dict(zip(names, map(np.asarray, arrays), strict=True)))
    mod = from_onnx(model)
    engines = [GraphInterpreter(mod)["main"]]
    for mode in ("bytecode", "compiled"):
        engines.append(heddle.relax.VirtualMachine(heddle.compile(mod, exec_mode=mode), heddle.cpu())["main"])
    for engine in engines:
        got = engine(*arrays)
        got = got if isinstance(got, (tuple, list)) or hasattr(got, "fields") else [got]
        for mine, theirs in zip(got, wanted, strict=True):
            mine = mine if isinstance(mine, np.ndarray) else mine.numpy()
            assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def branches(model: onnx.ModelProto) -> list[If]:
    return [item for item in walk(from_onnx(model)["main"].body) if isinstance(item, If)]


COLUMN = np.array([[1], [-2], [3]], np.float32)


@pytest.mark.parametrize("condition", [True, False])
def test_ranks_agree_again_behind_a_reshape(condition: bool) -> None:
    model = graph(
        f"{SQUEEZE} a = Exp (z) shape = Constant <value_ints = [-1]> () b = Reshape (a, shape) y = Neg (b)"
    )
    agree(model, COLUMN, np.array(condition))
    (branch,) = branches(model)
    assert branch.ty.ndim == 1


@pytest.mark.parametrize("condition", [True, False])
def test_ranks_that_differ_to_the_end(condition: bool) -> None:
    agree(graph(f"{SQUEEZE} y = Exp (z)"), COLUMN, np.array(condition))
    agree(graph(f"{SQUEEZE} y = Shape (z)", outputs="int64[] y"), COLUMN, np.array(condition))
    two = f"{SQUEEZE} y = Exp (z) shape = Shape (z) w = Size (shape)"
    agree(graph(two, outputs="float[] y, int64[] w"), COLUMN, np.array(condition))


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("other", [True, False])
def test_one_after_another(condition: bool, other: bool) -> None:
    second = """
        u = If (d) <
          then_branch = deeper () => (float[n, m] s) {
            one = Constant <value_ints = [0]> () s = Unsqueeze (a, one) },
          else_branch = same () => (float[n] k) { k = Neg (a) }
        >
        y = ReduceSum <keepdims = 0> (u)
    """
    model = graph(f"{SQUEEZE} a = Exp (z) {second}", "float[n, m] x, bool c, bool d")
    agree(model, COLUMN, np.array(condition), np.array(other))


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("other", [True, False])
def test_inside_a_branch(condition: bool, other: bool) -> None:
    nodes = """
        z = If (d) <
          then_branch = outer () => (float[n] e) {
            e = If (c) <
              then_branch = squeezed () => (float[n] s) {
                axis = Constant <value_ints = [1]> () s = Squeeze (x, axis) },
              else_branch = kept () => (float[n, m] k) { k = Identity (x) }
            >
          },
          else_branch = same () => (float[n] k2) {
            zero = Constant <value_ints = [0]> () k2 = Unsqueeze (x, zero) }
        >
        a = Exp (z)
        r = Shape (a)
        y = Add (a, x)
        w = Size (r)
    """
    model = graph(nodes, "float[n, m] x, bool c, bool d", "float[] y, int64[] w")
    agree(model, COLUMN, np.array(condition), np.array(other))


@pytest.mark.parametrize("condition", [True, False])
def test_inside_a_function_and_a_loop(condition: bool) -> None:
    nodes = """
        trips = Constant <value_int = 3> ()
        go = Constant <value_int = 1> ()
        yes = Cast <to = 9> (go)
        s = ReduceSum <keepdims = 0> (x)
        y = Loop (trips, yes, s) <body = step (int64 i, bool on, float[] v) => (bool more, float[] t) {
            more = Identity (on)
            z = If (c) <
              then_branch = squeezed () => (float[n] s1) {
                axis = Constant <value_ints = [1]> () s1 = Squeeze (x, axis) },
              else_branch = kept () => (float[n, m] k) { k = Identity (x) }
            >
            e = Exp (z)
            r = ReduceSum <keepdims = 0> (e)
            t = Add (r, v)
        }>
    """
    agree(graph(nodes), COLUMN, np.array(condition))
    text = f"""<ir_version: 9, opset_import: ["" : 20, "own" : 1]>
    agraph (float[n, m] x, bool c) => (float[] y) {{
      q = own.may_squeeze (x, c) e = Exp (q) y = ReduceSum <keepdims = 0> (e) }}
    <domain: "own", opset_import: ["" : 20]>
    may_squeeze (x, c) => (p) {{ {SQUEEZE} p = Neg (z) }}"""
    agree(parser.parse_model(text), COLUMN, np.array(condition))


@pytest.mark.parametrize("condition", [True, False])
def test_inside_a_branch_that_is_known(condition: bool) -> None:
    nodes = f"""
        one = Constant <value_int = 1> ()
        yes = Cast <to = 9> (one)
        p = If (yes) <
          then_branch = outer () => (float[n] p1) {{ {SQUEEZE} p1 = Exp (z) }},
          else_branch = never () => (float[n] p2) {{ p2 = Identity (x) }}
        >
        y = ReduceSum <keepdims = 0> (p)
    """
    agree(graph(nodes), COLUMN, np.array(condition))


def test_a_branch_that_what_follows_cannot_take_is_checked_when_the_model_runs() -> None:
    model = graph(f"{SQUEEZE} y = Transpose <perm = [1, 0]> (z)")
    mod = from_onnx(model)
    assert not branches(model)
    for mode in ("bytecode", "compiled"):
        run = heddle.relax.VirtualMachine(heddle.compile(mod, exec_mode=mode), heddle.cpu())["main"]
        np.testing.assert_array_equal(run(COLUMN, np.array(False)).numpy(), COLUMN.T)
        with pytest.raises(HeddleError, match="V0401"):
            run(COLUMN, np.array(True))


@pytest.mark.parametrize("condition", [True, False])
def test_initializers_as_parameters_are_made_once_and_not_in_bodies_of_loops(condition: bool) -> None:
    nodes = f"""
        {SQUEEZE}
        a = Mul (z, w) b = Sub (z, w) r = Add (a, b)
        trips = Constant <value_int = 2> ()
        go = Constant <value_int = 1> ()
        yes = Cast <to = 9> (go)
        s = ReduceSum <keepdims = 0> (r)
        y = Loop (trips, yes, s) <body = step (int64 i, bool on, float[] v) => (bool more, float[] t)
            <float[1] own = {{2}}> {{
            more = Identity (on)
            p = Mul (v, own)
            f = Constant <value_floats = [0.5]> ()
            h = Add (p, f)
            t = ReduceSum <keepdims = 0> (h)
        }}>
    """
    model = graph(nodes)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([3], np.float32), "w"))
    mod, params = detach_params(from_onnx(model, keep_params_in_input=True))
    assert [value.name_hint for value in mod["main"].params].count("w") == 1
    assert not any(value.name_hint.startswith(("w_", "own", "f")) for value in mod["main"].params)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": COLUMN, "c": np.array(condition)})
    for mode in ("bytecode", "compiled"):
        run = heddle.relax.VirtualMachine(heddle.compile(mod, exec_mode=mode), heddle.cpu())["main"]
        found = run(COLUMN, np.array(condition), *params["main"])
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)


def test_a_branch_is_not_blamed_for_one_inside_what_follows() -> None:
    """Only c and d together are impossible: no check of c alone may stand in the model."""
    model = graph(
        f"""{SQUEEZE}
        u = If (d) <
          then_branch = both () => (float t) {{
            p = Transpose <perm = [0]> (z) t = ReduceSum <keepdims = 0> (p)
          }},
          else_branch = other () => (float r) {{ r = ReduceSum <keepdims = 0> (x) }}
        >
        y = Add (u, z)""",
        "float[n, m] x, bool c, bool d",
    )
    with pytest.raises(HeddleError, match="Transpose"):
        from_onnx(model)


def test_a_hundred_in_a_row_import_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    def visited(count: int) -> int:
        from heddle.frontend.onnx.importer import GraphImporter

        runs = 0
        original = GraphImporter.run_node

        def counted(self: Any, node: Any) -> None:
            nonlocal runs
            runs += 1
            original(self, node)

        steps, name = [], "x"
        for step in range(count):
            steps.append(
                f"""z{step} = If (c) <
                  then_branch = t{step} () => (float[n] s{step}) {{
                    f{step} = Constant <value_ints = [-1]> () s{step} = Reshape ({name}, f{step}) }},
                  else_branch = e{step} () => (float[n, m] k{step}) {{ k{step} = Identity ({name}) }}
                >
                h{step} = Constant <value_ints = [-1, 1]> ()
                r{step} = Reshape (z{step}, h{step})"""
            )
            name = f"r{step}"
        model = graph("\n".join([*steps, f"y = Neg ({name})"]))
        with monkeypatch.context() as patch:
            patch.setattr(GraphImporter, "run_node", counted)
            from_onnx(model)
        return runs

    assert visited(100) <= 2.2 * visited(50)
