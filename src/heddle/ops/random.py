"""Numbers by chance, as a function of a key: the same key gives the same numbers on every machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.graph.codes import R0204
from heddle.graph.infer import Inference
from heddle.graph.types import TensorType
from heddle.ir.op_def import ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import Type
from heddle.ops.manipulate import target_shape
from heddle.ops.rules import require_ndim, unknown_dims
from heddle.prim.nodes import constant
from heddle.runtime.dtype import DataType
from heddle.topi import random as topi


def _infer(ctx: Inference) -> Type:
    key, size = ctx.tensor(0), target_shape(ctx, 1)
    require_ndim(ctx, key, 0, "the key")
    if key.dtype is not None and key.dtype != "int64":
        ctx.fail(R0204, f"the key must be int64, got {key.dtype}")
    dtype = DataType("float32")
    return TensorType(size, dtype) if size is not None else unknown_dims(dtype, ctx.type_of(1).ndim)  # type: ignore[attr-defined]


def _words(key: Any, size: Any) -> Any:
    count = int(np.prod(size, dtype=np.int64))
    with np.errstate(over="ignore"):
        at = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(topi.STEP)
        mixed = np.asarray(key, np.int64).view(np.uint64) * np.uint64(topi.FACTORS[1]) + at
        for shift, factor in zip(topi.SHIFTS, topi.FACTORS, strict=False):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        return (mixed ^ (mixed >> np.uint64(topi.SHIFTS[2]))).reshape(size)


def _part(words: Any, first: int) -> Any:
    bits = words >> np.uint64(first) & np.uint64((1 << 24) - 1)
    return bits.astype(np.float32) * np.float32(2.0**-24)


def _np_uniform(_attrs: Any, key: Any, size: Any) -> Any:
    return _part(_words(key, size), 40)


def _np_normal(_attrs: Any, key: Any, size: Any) -> Any:
    words = _words(key, size)
    u, v = (_part(words, first).astype(np.float64) for first in (40, 16))
    return (np.sqrt(-2 * np.log(1 - u)) * np.cos(2 * np.pi * v)).astype(np.float32)


def _sample(size: tuple[int, ...]) -> Sample:
    def make(rng: Any, dtype: str) -> tuple[Any, ...]:
        return np.asarray(rng.integers(-(2**62), 2**62), "int64"), size

    return Sample(((), size), {}, ("int64",), make)


def _infer_threefry(ctx: Inference) -> Type:
    state, size = ctx.tensor(0), target_shape(ctx, 1)
    require_ndim(ctx, state, 1, "the state")
    if state.dtype is not None and state.dtype != "uint64":
        ctx.fail(R0204, f"the state must be uint64, got {state.dtype}")
    if state.dims is not None:
        ctx.require_equal(state.dims[0], constant(8, "int64"), "the words of the state")
    dtype = DataType("uint64")
    return TensorType((*size, constant(4, "int64")), dtype) if size is not None else unknown_dims(dtype, 2)


def _np_threefry(_attrs: Any, state: Any, size: Any) -> Any:
    if len(state) != 8:
        raise ValueError(f"the state has {len(state)} words, not 8")
    with np.errstate(over="ignore"):
        key = [*state[:4], np.bitwise_xor.reduce(state[:4]) ^ np.uint64(topi.PARITY)]
        x = [np.full(size[0], word, np.uint64) for word in state[4:]]
        x[0] = x[0] + np.arange(size[0], dtype=np.uint64)
        x = [word + part for word, part in zip(x, key, strict=False)]
        for step in range(topi.ROUNDS):
            for first, turn in zip((0, 2), topi.TURNS[step % 8], strict=True):
                second = (first + 1) if step % 2 == 0 else (3 - first)
                x[first] = x[first] + x[second]
                turned = (x[second] << np.uint64(turn)) | (x[second] >> np.uint64(64 - turn))
                x[second] = turned ^ x[first]
            if step % 4 == 3:
                turn = step // 4 + 1
                x = [word + key[(turn + k) % 5] for k, word in enumerate(x)]
                x[3] = x[3] + np.uint64(turn)
    return np.stack(x, 1)


def _state(blocks: int) -> Sample:
    def make(rng: Any, dtype: str) -> tuple[Any, ...]:
        return rng.integers(0, 2**64, 8, "uint64"), (blocks,)

    return Sample(((8,), (blocks,)), {}, ("uint64",), make)


def _declare_threefry() -> None:
    declare_op(
        OpDef(
            name="random.threefry",
            inputs=(
                Input("state", meaning="(8,) uint64: the key's words, the counter's, the lowest first"),
                Input("size", "shape", "(blocks,)"),
            ),
            attrs=(),
            doc="(blocks, 4) uint64: what the cipher Threefry-4x64-20 makes of a counter and its successors.",
            infer=_infer_threefry,
            reference=_np_threefry,
            lower=lambda attrs, state, size: topi.threefry(state, size),
            layout=Without("numbers belong to places in row-major order"),
            samples=tuple(_state(blocks) for blocks in (1, 5, 0)),
            errors=(ErrorSample(((8, 2), (1,)), {}, "R0203", "the state must have 1 dimension", "uint64"),),
        )
    )


def declare() -> None:
    """Put the operators of this file into the table."""
    _declare_threefry()
    for name, lower, reference, doc in (
        (
            "uniform",
            topi.uniform,
            _np_uniform,
            "float32 numbers from [0, 1), multiples of 2**-24: the numbers of a counter from the key on, "
            "mixed as SplitMix64 does.",
        ),
        (
            "normal",
            topi.normal,
            _np_normal,
            "float32 numbers of the standard normal distribution, as Box and Muller make them of the mixed "
            "numbers of a counter, one number of one.",
        ),
    ):
        declare_op(
            OpDef(
                name=f"random.{name}",
                inputs=(
                    Input("key", meaning="int64 of rank 0"),
                    Input("size", "shape", "of the result"),
                ),
                attrs=(),
                doc=doc,
                infer=_infer,
                reference=reference,
                lower=lambda attrs, key, size, lower=lower: lower(key, size),
                layout=Without("numbers belong to places in row-major order"),
                samples=tuple(_sample(size) for size in ((3, 7), (), (0, 2), (33,))),
            )
        )
