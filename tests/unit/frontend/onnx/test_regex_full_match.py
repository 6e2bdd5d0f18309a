"""RegexFullMatch: against ONNX Runtime, patterns that are none, files of programs with such patterns."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from heddle.driver.backend import HeddleBackend
from heddle.frontend.onnx import from_onnx
from heddle.support.diagnostics import HeddleError, TrapValueError
from heddle.vm.builtins.strings import made_of, string_full_match


def model(pattern: Any, rank: int = 2) -> Any:
    dims = [f"d{axis}" for axis in range(rank)]
    graph = helper.make_graph(
        [helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.STRING, dims)],
        [helper.make_tensor_value_info("y", TensorProto.BOOL, dims)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
@pytest.mark.parametrize("shape", [(2, 4), (0, 3), ()])
@pytest.mark.parametrize("pattern", [r"[a-z]+\d{2,}", r"", r"(?i)ÄB.*", r"\bword\b|(a|b)*c"])
def test_as_in_the_runtime(pattern: str, shape: tuple[int, ...], mode: str) -> None:
    texts = np.array(["ab12", "", "äbx", "word", "words", "ababc", "ÄB\n", "x1"], dtype=object)
    x = np.resize(texts, shape) if shape else np.array("word", dtype=object)
    proto = model(pattern, len(shape))
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    (got,) = HeddleBackend.prepare(proto, exec_mode=mode).run([x])
    assert got.dtype == bool and got.shape == shape
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("pattern", ["(a", r"(a)\1", "a{2000}"])
def test_a_malformed_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(HeddleError, match=r"N0106.*RegexFullMatch.*pattern|N0106.*pattern"):
        from_onnx(model(pattern))
    with pytest.raises(TrapValueError, match=r"V0403.*pattern"):  # from a program that did not come from here
        string_full_match(made_of(np.array(["a"], dtype=object)), pattern)
