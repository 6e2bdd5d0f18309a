"""Damaged and unsupported models: coded findings at the node, never another exception."""

from __future__ import annotations

import importlib
import random
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from heddle.frontend.onnx import from_onnx
from heddle.support.diagnostics import FormatError, HeddleError, ImportModelError, MissingDependencyError
from tests.e2e.model_zoo import loop_model
from tests.unit.frontend.onnx.models import info, model, node


def codes(error: HeddleError) -> list[str]:
    return [finding.code.name for finding in error.diagnostics]


def test_all_findings_at_once() -> None:
    nodes = [
        node("Floof", ["x"], ["a"], "first"),
        node("Reshap", ["a", "a"], ["b"], "second"),
        node("Mystery", ["b"], ["c"], "third"),
        node("Relu", ["c"], ["d"], "fine"),
    ]
    with pytest.raises(ImportModelError) as caught:
        from_onnx(model(nodes, {"x": [3]}, ["d"], opset=20))
    assert codes(caught.value) == ["N0201", "N0201", "N0201"]
    text = str(caught.value)
    assert 'node "first" (Floof)' in text
    assert "the nearest supported operator is Reshape" in text


def test_findings_inside_of_branches() -> None:
    then = helper.make_graph([node("Floof", ["x"], ["t"], "inner")], "then", [], [info("t", [3])])
    other = helper.make_graph([node("Neg", ["x"], ["e"])], "else", [], [info("e", [3])])
    made = model(
        [node("If", ["c"], ["y"], then_branch=then, else_branch=other)], {"x": [3], "c": ([], "bool")}, ["y"]
    )
    with pytest.raises(ImportModelError, match='node "inner"'):
        from_onnx(made)


@pytest.mark.parametrize(
    ("nodes", "code"),
    [
        ([node("Relu", ["missing"], ["y"])], "N0105"),
        ([node("Relu", ["b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["y"])], "N0105"),
        ([node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])], "N0105"),
        ([node("Add", ["x"], ["y"])], "N0106"),
        ([node("Concat", ["x", "x"], ["y"])], "N0106"),
        ([node("Concat", ["x", "x"], ["y"], axis="no")], "N0106"),
        ([node("Transpose", ["x"], ["y"], perm=[0, 5])], "N0106"),
        ([node("Softmax", ["x"], ["y"], axis=7)], "N0106"),
        ([node("Relu", ["x"], ["other"])], "N0105"),
        ([helper.make_node("Relu", ["x"], ["y"], domain="org.example")], "N0202"),
    ],
)
def test_malformed_graphs(nodes: list[Any], code: str) -> None:
    with pytest.raises(ImportModelError) as caught:
        from_onnx(model(nodes, {"x": [2, 3]}, ["y"]))
    assert code in codes(caught.value)


def test_dimensions_that_contradict() -> None:
    with pytest.raises(ImportModelError) as caught:
        from_onnx(model([node("MatMul", ["a", "b"], ["y"], "product")], {"a": [2, 3], "b": [4, 5]}, ["y"]))
    assert codes(caught.value) == ["R0203"]
    assert 'node "product" (MatMul)' in str(caught.value)


def test_newer_operator_set() -> None:
    made = model([node("Relu", ["x"], ["y"])], {"x": [3]}, ["y"])
    made.opset_import[0].version = 99
    with pytest.raises(ImportModelError, match="N0202"):
        from_onnx(made)


def test_input_without_shape() -> None:
    made = model([node("Relu", ["x"], ["y"])], {"x": None}, ["y"])
    with pytest.raises(ImportModelError, match="N0301"):
        from_onnx(made)
    assert from_onnx(made, {"x": ["n", 2]})["main"].params[0].ty.ndim == 2


def test_wrong_size_of_an_initializer() -> None:
    made = model([node("Add", ["x", "w"], ["y"])], {"x": [3]}, ["y"], {"w": np.ones(3, np.float32)})
    made.graph.initializer[0].dims[0] = 4
    with pytest.raises(FormatError, match="N0104"):
        from_onnx(made)
    made.graph.initializer[0].dims[0] = -4
    with pytest.raises(FormatError, match="N0104"):
        from_onnx(made)


def _external(tmp_path: Path, location: str, **more: str) -> Path:
    made = model([node("Add", ["x", "w"], ["y"])], {"x": [3]}, ["y"], {"w": np.ones(3, np.float32)})
    stored = made.graph.initializer[0]
    stored.ClearField("raw_data")
    stored.data_location = TensorProto.EXTERNAL
    stored.external_data.add(key="location", value=location)
    for key, value in more.items():
        stored.external_data.add(key=key, value=value)
    path = tmp_path / "model" / "m.onnx"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(made.SerializeToString())
    return path


def test_external_data(tmp_path: Path) -> None:
    path = _external(tmp_path, "w.bin")
    with pytest.raises(FormatError, match="N0103"):
        from_onnx(path)
    (path.parent / "w.bin").write_bytes(np.arange(3, dtype=np.float32).tobytes())
    assert from_onnx(str(path))["main"].params[0].name_hint == "x"


def test_external_data_outside_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(np.arange(3, dtype=np.float32).tobytes())
    for location in ("../secret.bin", str(tmp_path / "secret.bin")):
        with pytest.raises(FormatError, match="outside"):
            from_onnx(_external(tmp_path, location))
    with pytest.raises(FormatError, match="names no file"):
        from_onnx(_external(tmp_path, ""))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"offset": "-4"}, "bad offset '-4'"),
        ({"length": "-1"}, "bad length '-1'"),
        ({"offset": "٣"}, "bad offset '٣'"),
        ({"length": ""}, "bad length ''"),
        ({"offset": "1_0"}, "bad offset '1_0'"),
        ({"offset": "4"}, None),
        ({"offset": "13"}, "has only 12 bytes"),
        ({"offset": "4", "length": "9"}, "has only 12 bytes"),
        ({"length": "99999999999999999999999999"}, "has only 12 bytes"),
        ({"offset": "99999999999999999999999999"}, "has only 12 bytes"),
    ],
)
def test_places_in_external_data(more: dict[str, str], words: str | None, tmp_path: Path) -> None:
    path = _external(tmp_path, "w.bin", **more)
    (path.parent / "w.bin").write_bytes(np.arange(3, dtype=np.float32).tobytes())
    with pytest.raises(HeddleError, match=words or "8 bytes"):  # the tensor has 12
        from_onnx(path)


def test_not_a_model(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    with pytest.raises(FormatError, match="N0101"):
        from_onnx(path)
    for data in (b"", b"\xff" * 40, b"hello"):
        path.write_bytes(data)
        with pytest.raises(FormatError, match="N0102"):
            from_onnx(path)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_bytes(tmp_path: Path, seed: int) -> None:
    """Truncated and bit-flipped files import, or fail with a code."""
    rng, path = random.Random(seed), tmp_path / "m.onnx"
    whole = [loop_model().SerializeToString(), _sample().SerializeToString()][seed % 2]
    for _ in range(60):
        data = bytearray(whole)
        if rng.random() < 0.3:
            del data[rng.randrange(len(data)) :]
        for _ in range(rng.randrange(4)):
            if data:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(data))
        with suppress(ImportModelError, FormatError):
            from_onnx(path)


def _sample() -> onnx.ModelProto:
    nodes = [
        node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["a"], ["b"]),
        node("Shape", ["b"], ["s"]),
        node("Slice", ["s", "zero", "one"], ["n"]),
        node("Concat", ["n", "minus"], ["t"], axis=0),
        node("Reshape", ["b", "t"], ["c"]),
        node("Split", ["c"], ["d", "e"], axis=1, num_outputs=2),
        node("Clip", ["d", "lo"], ["f"]),
        node("Softmax", ["f"], ["y"], axis=-1),
    ]
    stored = {
        "w": np.ones((4, 3, 3, 3), np.float32),
        "zero": np.array([0]),
        "one": np.array([1]),
        "minus": np.array([-1]),
        "lo": np.float32(0),
    }
    return model(nodes, {"x": ["n", 3, 8, 8]}, ["y", "e"], stored)


def test_onnx_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("heddle.frontend.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingDependencyError, match="pip install"):
        importlib.import_module("heddle.frontend.onnx")


def test_tensors_of_other_ranks() -> None:
    nodes = [
        node("Conv", ["x", "weight"], ["y"]),
        node("GatherND", ["x", "place"], ["y"]),
        node("ScatterND", ["x", "place", "x"], ["y"]),
    ]
    inputs = {"x": [1, 1, 4, 4], "weight": [3], "place": ([], "int64")}
    for each in nodes:
        used = {name: inputs[name] for name in each.input}
        with pytest.raises(ImportModelError) as caught:
            from_onnx(model([each], used, ["y"]))
        assert not set(codes(caught.value)) - {"N0106", "N0203", "N0301", "N0302"}, each.op_type


@pytest.mark.parametrize("name", ["leaf_weights", "nodes_splits", "nodes_modes", "nodes_falseleafs"])
def test_trees_with_one_value_too_many(name: str) -> None:
    given: dict[str, Any] = {
        "n_targets": 1,
        "tree_roots": [0],
        "nodes_featureids": [0],
        "nodes_splits": np.float32([0.5]),
        "nodes_modes": np.uint8([0]),
        "nodes_truenodeids": [0],
        "nodes_falsenodeids": [1],
        "nodes_trueleafs": [1],
        "nodes_falseleafs": [1],
        "leaf_targetids": [0, 0],
        "leaf_weights": np.float32([1, 2]),
    }

    def made() -> onnx.ModelProto:
        attrs = {
            key: onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
            for key, value in given.items()
        }
        tree = helper.make_node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", **attrs)
        found = model([tree], {"x": [2, 1]}, ["y"])
        found.opset_import.append(helper.make_opsetid("ai.onnx.ml", 5))
        return found

    from_onnx(made())
    value = given[name]
    given[name] = np.append(value, value[:1]) if isinstance(value, np.ndarray) else [*value, value[0]]
    with pytest.raises(ImportModelError, match=f"{name} has .* values, expected"):
        from_onnx(made())


@pytest.mark.parametrize("size", ["many", onnx.SparseTensorProto()], ids=["words", "sparse"])
def test_a_body_takes_an_attribute_of_another_kind(size: Any) -> None:
    constant = helper.make_node("Constant", [], ["y"])
    constant.attribute.add(name="value_int", ref_attr_name="size", type=onnx.AttributeProto.INT)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("org.example", 1)]
    sized = helper.make_function("org.example", "Sized", [], ["y"], [constant], opsets[:1], ["size"])

    def made(given: Any) -> onnx.ModelProto:
        call = helper.make_node("Sized", [], ["s"], domain="org.example", size=given)
        found = model([call, node("Add", ["s", "s"], ["y"])], {}, ["y"])
        found.functions.append(sized)
        del found.opset_import[:]
        found.opset_import.extend(opsets)
        return found

    from_onnx(made(3))
    with pytest.raises(ImportModelError, match="value_int is no number"):
        from_onnx(made(size))
