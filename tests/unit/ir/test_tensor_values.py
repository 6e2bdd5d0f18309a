"""Constants inside nodes: compared by all of their bits, kept by JSON."""

import base64
import json

import ml_dtypes
import numpy as np
import pytest

from heddle.graph.op_builder import const
from heddle.ir.json_codec import load_json, save_json
from heddle.ir.structural import structural_digest, structural_equal
from heddle.relax.transform.eliminate_common_subexpr import LARGE_BYTES, EliminateCommonSubexpr
from heddle.script import from_source
from heddle.support.diagnostics import FormatError


def test_an_element_in_the_middle_makes_a_difference():
    """Printed forms leave the middle of large arrays out."""
    array = np.zeros(5000, "float32")
    other = array.copy()
    other[2500] = 1
    assert structural_equal(const(array), const(array.copy()))
    assert not structural_equal(const(array), const(other))
    assert structural_digest(const(array)) != structural_digest(const(other))


@pytest.mark.parametrize("size", [3, LARGE_BYTES])
def test_constants_that_differ_are_no_common_subexpression(size):
    first = np.zeros((size, 4), "float32")
    second = first.copy()
    second[size // 2] = 1
    mod = from_source(
        """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32"), a: R.Tensor(None, "float32"), b: R.Tensor(None, "float32")):
        with R.dataflow():
            y = R.add(x, a)
            z = R.add(x, b)
            w = R.add(x, a)
            R.output(y, z, w)
        return (y, z, w)
"""
    )
    from heddle.relax.transform import BindParams

    bound = BindParams("main", {"a": first, "b": second})(mod)
    text = str(EliminateCommonSubexpr()(bound)["main"])
    assert text.count("R.add") == 2


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", ml_dtypes.bfloat16])
def test_json_keeps_constants(dtype):
    for shape in ((), (0, 3), (5, 7)):
        value = np.random.default_rng().integers(0, 2, shape).astype(dtype)
        again = load_json(save_json(const(value)))
        assert structural_equal(again, const(value))
        assert again.data.shape == shape


def test_json_with_too_few_bytes_is_damaged():
    data = json.loads(save_json(const(np.zeros(3, "float32"))))
    text = json.dumps(data)
    short = base64.b64encode(bytes(8)).decode()
    with pytest.raises(FormatError) as caught:
        load_json(text.replace(base64.b64encode(bytes(12)).decode(), short))
    assert caught.value.code == "I0201"
