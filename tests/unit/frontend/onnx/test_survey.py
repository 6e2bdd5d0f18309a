"""A survey tells everything that is not supported at once, and the types of what is."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from heddle.driver.cli import ExitCode, main
from heddle.frontend.onnx.registry import limits_of, reason_against
from heddle.frontend.onnx.survey import survey
from tests.unit.frontend.onnx.models import info, node


def broken_model() -> onnx.ModelProto:
    nodes = [
        node("Relu", ["x"], ["a"], "act"),
        helper.make_node("ZipMap", ["file"], ["b"], "picture", domain="ai.onnx.ml"),
        node("Add", ["b", "b"], ["c"], "sum"),
        node("Mystery", ["a"], ["d"], "what"),
        node("Reshape", ["a", "shape"], ["e"], "res"),
        node("Shape", ["a"], ["f"], "size"),
    ]
    inputs = [info("x", ["batch", 3, "h", 7]), info("file", ["r"], "uint8"), info("shape", ["k"], "int64")]
    outputs = [helper.make_empty_tensor_value_info(name) for name in "cdef"]
    graph = helper.make_graph(nodes, "graph", inputs, outputs)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 22), helper.make_opsetid("ai.onnx.ml", 1)]
    )


def test_everything_at_once() -> None:
    found = survey(broken_model())
    codes = {(item.code.name, item.span.node) for item in found.findings}  # type: ignore[union-attr]
    assert codes == {("N0201", "picture"), ("N0201", "what"), ("N0301", "res")}
    assert found.passed_over == ["sum"]
    assert found.free_dims == ["batch", "h", "r", "k"]
    assert found.opsets == {"": 22, "ai.onnx.ml": 1}
    types = dict(found.types)
    assert types["a"] == "float32[batch, 3, h, 7]" and types["f"] == "int64[4]"
    assert "c" not in types
    picture = next(item for item in found.findings if item.code.name == "N0201")
    assert picture.notes == ("operator set 1 of ai.onnx.ml; inputs uint8[r]",)
    assert picture.help is not None and "export without maps" in picture.help


def test_subgraphs_and_kinds() -> None:
    """A node in a branch is found; a sequence, an optional and strings have types."""
    branch = helper.make_graph([node("Mystery", ["x"], ["y"], "inner")], "g", [], [info("y", ["n"])])
    other = helper.make_graph([node("Neg", ["x"], ["z"], "fine")], "h", [], [info("z", ["n"])])
    nodes = [
        node("If", ["c"], ["r"], "choice", then_branch=branch, else_branch=other),
        node("SequenceConstruct", ["x", "x"], ["s"], "pair"),
    ]
    element = helper.make_tensor_type_proto(TensorProto.FLOAT, [None, 2])
    inputs = [
        info("c", [], "bool"),
        info("x", ["n"]),
        helper.make_value_info(
            "o", helper.make_optional_type_proto(helper.make_sequence_type_proto(element))
        ),
        helper.make_tensor_value_info("t", TensorProto.STRING, ["n", 1]),
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in "rs"]
    graph = helper.make_graph(nodes, "graph", inputs, outputs)
    found = survey(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    assert [item.span.node for item in found.findings] == ["inner"]  # type: ignore[union-attr]
    assert found.passed_over == ["choice"]
    assert dict(found.inputs)["o"] == "optional(seq(float32[?, ?]))"
    assert dict(found.inputs)["t"] == "string[?, ?]"
    assert dict(found.types)["s"] == "seq(float32[n])"


def test_command(tmp_path: Path, capsys: object) -> None:
    path = tmp_path / "broken.onnx"
    onnx.save(broken_model(), path)
    assert main(["check", str(path), "--types"]) == ExitCode.BAD_INPUT
    text = capsys.readouterr().out  # type: ignore[attr-defined]
    assert 'node "what" (Mystery)' in text and "3 findings" in text and "a: float32[batch, 3, h, 7]" in text
    del (model := broken_model()).graph.node[1:5]
    del model.graph.output[:3]
    onnx.save(model, path)
    assert main(["check", str(path), "--json", "--memory"]) == ExitCode.DONE
    found = json.loads(capsys.readouterr().out)  # type: ignore[attr-defined]
    assert found["findings"] == [] and found["free_dims"] == ["batch", "h", "r", "k"]
    assert main(["check", str(tmp_path / "none.py")]) != ExitCode.DONE


def test_reasons_are_of_what_is_missing() -> None:
    assert reason_against("ai.onnx.ml", "ZipMap") is not None
    assert reason_against("", "Add") is None
    assert limits_of("", "Resize") and not limits_of("", "Add")
