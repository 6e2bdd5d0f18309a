"""Integers of 64 bits, of a few, and bool: the numpy reference, with which constants are folded, gives what
kernels give.

A reference that computes in float64 is right for small integers alone; numpy knows no integers of few bits,
and has rules of its own for bool.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import heddle
from heddle.graph.block_builder import BlockBuilder
from heddle.graph.op_builder import call_op, const
from heddle.graph.types import TensorType
from heddle.ir.expr import Var
from heddle.ir.op import OP_RECORDS
from heddle.ir.op_def import OpDef, Without
from heddle.prim.values import kind_of
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import HeddleError
from tests.ops.cases import Case, flat, records, typed
from tests.ops.programs import result_type

MOST_SAMPLES = 4
NAMES = [record.name for record in records() if not isinstance(record.reference, Without)]


RANGES = {
    "int64": (-(1 << 63), (1 << 63) - 1),
    "int4": (-8, 7),
    "uint4": (0, 15),
    "int2": (-2, 1),
    "bool": (0, 1),
}


def of_dtype(value: Any, dtype: str, rng: np.random.Generator) -> Any:
    """An argument with any numbers of a dtype in the place of floats; what is no float stays."""
    if isinstance(value, tuple):
        return tuple(of_dtype(item, dtype, rng) for item in value)
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return value
    numbers = rng.integers(*RANGES[dtype], value.shape, dtype="int64", endpoint=True)
    return numbers.astype(getattr(ml_dtypes, dtype, dtype))


def interpolates(name: str, attrs: Any) -> bool:
    """Whether values are weighted: that is no arithmetic of integers."""
    return name.startswith("image.resize") and attrs.get("method", "linear") != "nearest_neighbor"


@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize("name", NAMES)
def test_reference_is_what_kernels_give(name: str, dtype: str) -> None:
    record = OP_RECORDS[f"relax.{name}"]
    assert isinstance(record, OpDef) and isinstance(record.samples, tuple)
    rng = np.random.default_rng(7)
    for index, sample in enumerate(record.samples[:MOST_SAMPLES]):
        if "float32" not in sample.dtypes or interpolates(name, sample.attrs):
            continue
        case = Case(record, sample, dtype, index)
        given = Case(record, sample, "float32", index).arguments()
        arguments = tuple(of_dtype(argument, dtype, rng) for argument in given)
        try:
            made = typed(case, arguments, False)
            result_type(made)
            if RANGES[dtype][1] < 6 and name == "nn.relu6":
                continue
        except (HeddleError, IndexError, ValueError, AssertionError, OverflowError):
            continue  # the operator takes no such numbers
        wanted = record.reference(made.call.attrs, *arguments)
        builder = BlockBuilder()
        with builder.function("main", made.params):
            builder.emit_func_output(builder.emit(made.call))
        executable = heddle.compile(builder.get(), "llvm -opt-level=0")
        found = heddle.relax.VirtualMachine(executable, heddle.cpu())["main"](
            *map(heddle.tensor, made.arrays)
        )
        for mine, theirs in zip(arrays_of(found), flat(wanted), strict=True):
            if kind_of(mine.dtype) != "f":
                np.testing.assert_array_equal(mine, np.asarray(theirs).astype(mine.dtype))


def arrays_of(value: Any) -> list[np.ndarray[Any, Any]]:
    """The arrays of a machine's result."""
    if isinstance(value, (tuple, list)):
        return [array for item in value for array in arrays_of(item)]
    return [value.numpy()]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_a_constant_that_overshoots_folds_to_what_the_kernel_gives(dtype: str) -> None:
    """Cubic weights reach beyond the ends of a type, where results stay at the end."""
    ends = np.iinfo(dtype)
    pixels = np.random.default_rng(1).choice([ends.min, ends.max], (1, 1, 6, 6)).astype(dtype)
    found = []
    for is_constant in (True, False):
        builder = BlockBuilder()
        x = Var("x", TensorType(pixels.shape, DataType(dtype)))
        with builder.function("main", [] if is_constant else [x]):
            data = const(pixels) if is_constant else x
            builder.emit_func_output(builder.emit(call_op("image.resize2d", data, (9, 11), method="cubic")))
        vm = heddle.relax.VirtualMachine(heddle.compile(builder.get()), heddle.cpu())
        found.append(vm["main"](*([] if is_constant else [heddle.tensor(pixels)])).numpy())
    assert np.abs(found[0].astype("int64") - found[1]).max() <= 1  # weights are rounded


@pytest.mark.parametrize("target", ["int8", "uint8", "uint64", "int4", "uint4", "float32", "bool"])
@pytest.mark.parametrize("source", ["int4", "uint4", "int2", "uint2"])
def test_constants_of_few_bits_fold_as_kernels_cast(source: str, target: str) -> None:
    bits, is_signed = int(source[-1]), source[0] == "i"
    numbers = np.arange(1 << bits) - (1 << bits - 1) * is_signed
    values = numbers.astype(getattr(ml_dtypes, source))
    found = []
    for is_constant in (True, False):
        builder = BlockBuilder()
        x = Var("x", TensorType(values.shape, DataType(source)))
        with builder.function("main", [] if is_constant else [x]):
            data = const(values) if is_constant else x
            builder.emit_func_output(builder.emit(call_op("astype", data, dtype=target)))
        vm = heddle.relax.VirtualMachine(heddle.compile(builder.get()), heddle.cpu())
        found.append(vm["main"](*([] if is_constant else [heddle.tensor(values)])).numpy())
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(
        found[0], numbers.astype("int64").astype(getattr(ml_dtypes, target, target))
    )
