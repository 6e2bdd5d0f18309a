"""Outputs of functions: where they lie in a result, their names, and what they are as arrays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import Session
from heddle.driver.compile import function_signature
from heddle.driver.inputs import make_arguments, read_array, write_arrays
from heddle.driver.models import find_model
from heddle.driver.run import CompileOptions, RunOptions, load_or_compile, run
from heddle.driver.signature import Signature, TensorSpec, signature_from_json
from heddle.driver.values import as_array, as_arrays
from heddle.runtime.shape import Array, Shape
from heddle.runtime.tensor import tensor
from heddle.script import from_source
from heddle.support.diagnostics import FormatError, UsageError
from heddle.vm.builtins.strings import made_of

NESTED = """
@I.ir_module
class Nested:
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tuple(
        R.Tuple(R.Tensor(("n",), "float32"), R.Tuple(R.Tensor(("n",), "float32"))), R.Tensor((), "float32")
    ):
        a = R.negative(x)
        b = R.exp(x)
        inner = (a, (b,))
        s = R.sum(x)
        return (inner, s)
"""
ONE_IN_A_TUPLE = """
@I.ir_module
class One:
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tuple(R.Tensor(("n",), "float32")):
        a = R.negative(x)
        return (a,)
"""
X = np.linspace(-1, 1, 5, dtype="float32")


def test_parts_of_nested_tuples_are_outputs_of_their_own(tmp_path: Path) -> None:
    mod = from_source(NESTED)
    signature = function_signature(mod["main"])
    assert [(spec.name, spec.path, spec.kind) for spec in signature.outputs] == [
        ("inner.0", (0, 0), "tensor"),
        ("inner.1.0", (0, 1, 0), "tensor"),
        ("s", (1,), "tensor"),
    ]
    assert signature_from_json(signature.to_json()) == signature
    with Session(heddle.compile(mod)) as session:
        found = session.run(X)
    assert list(found) == ["inner.0", "inner.1.0", "s"]
    for got, expected in zip(found.values(), (-X, np.exp(X), X.sum()), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)
    path = tmp_path / "nested.py"
    path.write_text(NESTED)
    model = find_model(str(path))
    done = run(model, load_or_compile(model, CompileOptions()), RunOptions(given={"x": X}, repeat=1))
    assert [row.name for row in done.report.outputs] == list(found)
    for got, expected in zip(done.results, found.values(), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_the_one_part_of_a_tuple_is_an_output() -> None:
    with Session(heddle.compile(from_source(ONE_IN_A_TUPLE))) as session:
        (found,) = session.run(X).values()
    np.testing.assert_array_equal(found, -X)


@pytest.mark.parametrize(("count", "paths"), [(1, [()]), (3, [(0,), (1,), (2,)])])
def test_signatures_of_older_files_say_no_paths(count: int, paths: list[tuple[int, ...]]) -> None:
    rows = [{"name": f"y{i}", "dtype": "float32", "shape": [1], "kind": "tensor"} for i in range(count)]
    signature = signature_from_json(json.dumps({"inputs": [], "outputs": rows}))
    assert [spec.path for spec in signature.outputs] == paths


@pytest.mark.parametrize("path", ["0", [-1], [0.5], {"0": 1}])
def test_a_malformed_path_is_refused(path: Any) -> None:
    row = {"name": "y", "dtype": "float32", "shape": [1], "kind": "tensor", "path": path}
    with pytest.raises(FormatError) as error:
        signature_from_json(json.dumps({"inputs": [], "outputs": [row]}))
    assert error.value.code == "D0204"


def test_a_result_of_another_form_than_the_signature_is_told() -> None:
    signature = function_signature(from_source(NESTED)["main"])
    with pytest.raises(FormatError) as error:
        signature.values(Array((Array((1,)), 2)))
    assert error.value.code == "D0204"


def test_values_of_machines_as_arrays() -> None:
    texts = np.array([["a", "b"]], object)
    value = Array((tensor(X), Array((Shape((2, 3)), Array())), 7, made_of(texts)))
    found = as_arrays(value)
    assert [array.dtype for array in found] == ["float32", "int64", "int64", object]
    np.testing.assert_array_equal(found[0], X)
    assert found[1].tolist() == [2, 3]
    assert found[2].shape == () and found[2] == 7
    np.testing.assert_array_equal(found[3], texts)
    assert isinstance(as_array(value)[1], list)


@pytest.mark.parametrize("value", [print, "text", Array((None,))])
def test_what_is_no_array_is_told(value: Any) -> None:
    with pytest.raises(UsageError) as error:
        as_arrays(value)
    assert error.value.code == "D0204"


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3)])
@pytest.mark.parametrize(
    "name", ["float32", "bool", "bfloat16", "float8_e5m2", "float8_e4m3fn", "int4", "uint2", "complex64"]
)
def test_written_arrays_have_their_types_when_they_are_read(
    name: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    dtype = np.dtype(name)
    array = np.asarray(np.random.default_rng(0).integers(0, 2, shape[::-1]).T).astype(dtype)
    (path,) = write_arrays(tmp_path, [("y", array)])
    for read in (np.load(path), read_array("y", str(path))):
        assert read.dtype == dtype and read.shape == shape
        assert read.tobytes() == array.tobytes()


def test_bytes_that_numpy_writes_for_types_it_lacks_are_numbers_of_the_input(tmp_path: Path) -> None:
    x = np.arange(-3, 3).astype("bfloat16")
    np.save(tmp_path / "x.npy", x)
    read = read_array("x", str(tmp_path / "x.npy"))
    assert read.dtype == "V2"

    def made(dtype: str) -> Any:
        return make_arguments(Signature((TensorSpec("x", dtype, ("n",)),), ()), {"x": read}, {}).arrays["x"]

    assert made("bfloat16").dtype == x.dtype
    np.testing.assert_array_equal(made("bfloat16"), x)
    for other in ("float16", "int16", "float8_e4m3fn", "float32"):
        with pytest.raises(UsageError) as error:
            made(other)
        assert error.value.code == "D0203"
