"""Weights stay in the file until they are tensors; whatever the file holds, it is read as the whole message
would be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, numpy_helper

from heddle.frontend.onnx import from_onnx
from heddle.frontend.onnx.proto import read_model, tensor_array
from heddle.frontend.onnx.stored_data import LEAST_BYTES, message_without_data
from heddle.ir.structural import structural_equal
from heddle.support.diagnostics import FormatError

RNG = np.random.default_rng(20)


def stored_arrays() -> dict[str, np.ndarray[Any, Any]]:
    """Around the limit, empty, odd, of several types."""
    limit = LEAST_BYTES // 4
    return {
        "below": RNG.standard_normal(limit - 1).astype(np.float32),
        "at": RNG.standard_normal(limit).astype(np.float32),
        "above": RNG.standard_normal((limit // 3 + 1, 7)).astype(np.float32),
        "empty": np.zeros((0, 5), np.float32),
        "whole": RNG.integers(-(1 << 60), 1 << 60, 1031),
        "bytes": RNG.integers(0, 255, LEAST_BYTES + 1).astype(np.uint8),
        "half": RNG.standard_normal(LEAST_BYTES).astype(np.float16),
        "truth": RNG.integers(0, 2, LEAST_BYTES + 3).astype(bool),
    }


def model_with(*tensors: TensorProto) -> onnx.ModelProto:
    """A model whose outputs are its initializers."""
    outputs = [helper.make_tensor_value_info(f"{t.name}_out", t.data_type, None) for t in tensors]
    nodes = [helper.make_node("Identity", [t.name], [f"{t.name}_out"]) for t in tensors]
    graph = helper.make_graph(nodes, "stored", [], outputs, initializer=list(tensors))
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8, producer_name="x" * 300)


def saved(model: onnx.ModelProto, folder: Path, name: str = "m.onnx") -> Path:
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path


def same_values(path: Path, model: onnx.ModelProto) -> None:
    loaded = read_model(path)
    for stored, plain in zip(loaded.proto.graph.initializer, model.graph.initializer, strict=True):
        found, expected = tensor_array(stored, loaded.folder), numpy_helper.to_array(plain)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(found, expected)


def test_arrays_are_those_of_the_message(tmp_path: Path) -> None:
    model = model_with(*(numpy_helper.from_array(a, name) for name, a in stored_arrays().items()))
    path = saved(model, tmp_path)
    same_values(path, model)
    assert structural_equal(from_onnx(path), from_onnx(model))


def test_large_data_is_not_read_with_the_message(tmp_path: Path) -> None:
    model = model_with(*(numpy_helper.from_array(a, name) for name, a in stored_arrays().items()))
    found = {t.name: len(t.raw_data) for t in read_model(saved(model, tmp_path)).proto.graph.initializer}
    sizes = {name: array.nbytes for name, array in stored_arrays().items()}
    assert found == {name: size if size < LEAST_BYTES else 0 for name, size in sizes.items()}


def test_the_rest_of_the_message_is_the_same(tmp_path: Path) -> None:
    model = model_with(numpy_helper.from_array(np.ones(LEAST_BYTES, np.float32), "w"))
    model.metadata_props.add(key="a", value="b")
    model.graph.doc_string = "text " * 2000
    read = read_model(saved(model, tmp_path)).proto
    assert read.graph.initializer[0].data_location == TensorProto.EXTERNAL
    read.graph.initializer[0].CopyFrom(model.graph.initializer[0])
    assert read == model


def test_data_in_fields_stays(tmp_path: Path) -> None:
    values = RNG.standard_normal(5000).astype(np.float32)
    model = model_with(helper.make_tensor("f", TensorProto.FLOAT, [50, 100], values))
    assert not model.graph.initializer[0].HasField("raw_data")
    same_values(saved(model, tmp_path), model)


def test_four_bit_data(tmp_path: Path) -> None:
    values = RNG.integers(-8, 8, 2 * LEAST_BYTES + 1)
    model = model_with(helper.make_tensor("q", TensorProto.INT4, values.shape, values))
    packed = model.graph.initializer[0].int32_data
    raw = bytes(np.asarray(packed, np.uint8))
    model.graph.initializer[0].ClearField("int32_data")
    model.graph.initializer[0].raw_data = raw
    loaded = read_model(saved(model, tmp_path))
    assert not loaded.proto.graph.initializer[0].raw_data
    np.testing.assert_array_equal(tensor_array(loaded.proto.graph.initializer[0], loaded.folder), values)


def test_the_later_of_two_data_counts(tmp_path: Path) -> None:
    first, second = (RNG.standard_normal(LEAST_BYTES).astype(np.float32) for _ in range(2))
    twice = numpy_helper.from_array(first, "w").SerializeToString()
    twice += TensorProto(raw_data=second.tobytes()).SerializeToString()
    head = model_with()
    graph = head.graph.SerializeToString() + _field(5, twice)
    head.ClearField("graph")
    path = tmp_path / "m.onnx"
    path.write_bytes(head.SerializeToString() + _field(7, graph))
    loaded = read_model(path)
    np.testing.assert_array_equal(tensor_array(loaded.proto.graph.initializer[0], loaded.folder), second)


def test_two_parts_of_a_graph_are_one(tmp_path: Path) -> None:
    a, b = (RNG.standard_normal(LEAST_BYTES).astype(np.float32) for _ in range(2))
    parts = [model_with(numpy_helper.from_array(x, name)).graph for x, name in ((a, "a"), (b, "b"))]
    head = model_with()
    head.ClearField("graph")
    path = tmp_path / "m.onnx"
    fields = b"".join(_field(7, part.SerializeToString()) for part in parts)
    path.write_bytes(head.SerializeToString() + fields)
    whole = onnx.ModelProto.FromString(path.read_bytes())
    assert len(whole.graph.initializer) == 2
    same_values(path, whole)


def test_wrong_size_is_found(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(np.ones(LEAST_BYTES, np.float32), "w")
    tensor.dims[0] += 1
    with pytest.raises(FormatError, match="N0104"):
        from_onnx(saved(model_with(tensor), tmp_path))


def test_truncated_files_are_refused_as_damaged(tmp_path: Path) -> None:
    model = model_with(*(numpy_helper.from_array(a, name) for name, a in stored_arrays().items()))
    whole = model.SerializeToString()
    path = tmp_path / "m.onnx"
    for size in RNG.integers(1, len(whole), 40):
        path.write_bytes(whole[:size])
        try:
            expected = onnx.ModelProto.FromString(whole[:size]).HasField("graph")
        except DecodeError:
            expected = False
        if not expected:
            with pytest.raises(FormatError, match="N0102"):
                read_model(path)


def decoded(data: bytes) -> bytes | None:
    try:
        return onnx.ModelProto.FromString(data).SerializeToString(deterministic=True)
    except DecodeError:
        return None


def test_damaged_bytes_mean_what_protobuf_says(tmp_path: Path) -> None:
    """Bytes of a small message changed at random: nothing is left in the file, so both readings agree."""
    path = tmp_path / "m.onnx"
    whole = bytearray(model_with(numpy_helper.from_array(np.ones(3, np.float32), "w")).SerializeToString())
    for _ in range(300):
        damaged = bytearray(whole)
        for place in RNG.integers(0, len(whole), int(RNG.integers(1, 4))):
            damaged[place] = RNG.integers(0, 256)
        path.write_bytes(damaged)
        data = message_without_data(path)
        assert data is None or decoded(data) == decoded(bytes(damaged))


def test_links_and_names(tmp_path: Path) -> None:
    model = model_with(numpy_helper.from_array(np.arange(LEAST_BYTES, dtype=np.float32), "w"))
    (tmp_path / "elsewhere").mkdir()
    path = saved(model, tmp_path / "elsewhere", "größe ☃.onnx")
    (tmp_path / "link.onnx").symlink_to(path)
    same_values(tmp_path / "link.onnx", model)
    no_text = tmp_path / "b\udcff.onnx"
    no_text.write_bytes(path.read_bytes())
    same_values(no_text, model)


def _field(number: int, content: bytes) -> bytes:
    size, prefix = len(content), bytearray([number << 3 | 2])
    while size > 127:
        prefix.append(size & 127 | 128)
        size >>= 7
    return bytes([*prefix, size]) + content
