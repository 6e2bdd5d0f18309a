"""MatMulNBits of com.microsoft: weights of 2, 4 or 8 bits, quantised in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.contrib.standard import expect_ranks
from heddle.frontend.onnx.ops.math.linear import product
from heddle.frontend.onnx.proto import numpy_dtype
from heddle.frontend.onnx.registry import MICROSOFT, converts, lacks
from heddle.ir.expr import Expr
from heddle.prim.nodes import IntImm
from heddle.runtime.dtype import DataType

MAX_UNPACKED_BYTES = 1 << 30
"""Of a model's constant weights. Larger models keep the others in few bits and unpack them at each call:
slower, in an eighth of the memory."""

lacks("MatMulNBits", "g_idx, and layouts of other devices (weight_prepacked)", MICROSOFT)


@converts("MatMulNBits", domain=MICROSOFT)
def matmul_few_bits(ctx: NodeContext) -> Result:
    """a @ w' + bias, w (columns, rows of the sum) in blocks along the sum: (q - zero) * scale.

    Constant weights are unpacked once, as long as those of a model are not too many; others when it runs.
    """
    expect_ranks(ctx, b=3, scales=(1, 2), zero_points=(1, 2), bias=1)
    bits, block = ctx.attr("bits", 4), ctx.attr("block_size")
    if bits not in (2, 4, 8):
        ctx.unsupported(f"weights of {bits} bits", "2, 4 and 8 bits are")
    if block < 16 or block & (block - 1):
        ctx.malformed(f"a block size of {block}, and powers of two from 16 on are expected")
    if ctx.flag("weight_prepacked"):
        ctx.unsupported("weights packed for another device", "export the model without weight_prepacked")
    if ctx.has(4):
        ctx.unsupported("g_idx, an order of the rows", "export the model without it")
    known = _known_weights(ctx, bits, block)
    if known is not None:
        made = product(ctx, ctx.tensor(0), ctx.const(known, ctx.dtype(0)))
    else:
        made = _product_by_rows(ctx, _weights(ctx, bits, block))
    return ctx.binary("add", made, ctx.tensor(5)) if ctx.has(5) else made


def _product_by_rows(ctx: NodeContext, weights: Expr) -> Expr:
    """a @ w', w read by its rows: transposing what was just unpacked would cost more than the product."""
    x = ctx.cast_shape(ctx.tensor(0), (*ctx.dims(0)[:-1], ctx.attr("K")))
    front = "abcdefgh"[: ctx.ndim(0) - 1]
    return ctx.call("einsum", (x, weights), subscripts=f"{front}k,nk->{front}n")


def _known_weights(ctx: NodeContext, bits: int, block: int) -> np.ndarray[Any, Any] | None:
    """(K, N) of constants, unpacked now; None where something is not constant, or where the model's unpacked
    weights would take more than MAX_UNPACKED_BYTES."""
    packed, scales = ctx.array(1), ctx.array(2)
    zeros = ctx.array(3) if ctx.has(3) else None
    if packed is None or scales is None or (ctx.has(3) and zeros is None):
        return None
    columns, depth = ctx.attr("N"), ctx.attr("K")
    size = columns * depth * DataType(ctx.dtype(0)).bits // 8
    if ctx.importer.params is not None or ctx.importer.unpacked_bytes + size > MAX_UNPACKED_BYTES:
        return None
    blocks = -(-depth // block)
    if packed.shape != (columns, blocks, block * bits // 8) or scales.size != columns * blocks:
        ctx.malformed(
            f"weights of {list(packed.shape)} and {scales.size} scales, and {columns} columns of {blocks} "
            "blocks are stated"
        )
    ctx.importer.unpacked_bytes += size
    values = _bits_of(packed, bits).astype(np.float32)
    scale = scales.reshape(columns, blocks, 1).astype(np.float32)
    made = (values - _known_zeros(ctx, zeros, bits, blocks)) * scale
    whole = made.reshape(columns, blocks * block)[:, :depth]
    return np.ascontiguousarray(whole.T).astype(numpy_dtype(ctx.dtype(0)))


def _known_zeros(ctx: NodeContext, zeros: np.ndarray[Any, Any] | None, bits: int, blocks: int) -> Any:
    columns = ctx.attr("N")
    if zeros is None:
        return np.float32(1 << (bits - 1))
    size = -(-blocks * bits // 8) if zeros.dtype == np.uint8 else blocks
    if zeros.size != columns * size:
        ctx.malformed(f"{zeros.size} zero points for {columns} columns of {blocks} blocks")
    if zeros.dtype != np.uint8:
        return zeros.reshape(columns, blocks, 1).astype(np.float32)
    return (
        _bits_of(zeros.reshape(columns, size), bits)[:, :blocks]
        .reshape(columns, blocks, 1)
        .astype(np.float32)
    )


def _bits_of(packed: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    """Bytes (.., n) as numbers (.., n * 8 / bits), the first in the low bits."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return parts.reshape(*packed.shape[:-1], -1)


def _weights(ctx: NodeContext, bits: int, block: int) -> Expr:
    """(N, K) in the type of a, unpacked when the model runs."""
    columns, depth, dtype = ctx.attr("N"), ctx.attr("K"), ctx.dtype(0)
    blocks = -(-depth // block)
    size = block * bits // 8
    for dim, want in zip(ctx.dims(1), (columns, blocks, size), strict=True):
        if isinstance(dim, IntImm) and int(dim) != want:
            ctx.malformed(
                f"weights of {list(map(str, ctx.dims(1)))}, and {columns} columns of {blocks} blocks of "
                f"{size} bytes are stated"
            )
    packed = ctx.cast_shape(ctx.tensor(1), (columns, blocks, size))
    values = _unpacked(ctx, packed, bits)  # (N, blocks, block)
    scales = ctx.reshape(ctx.tensor(2), (columns, blocks, 1))
    made = ctx.call("subtract", ctx.astype(values, dtype), _zeros(ctx, bits, blocks))
    whole = ctx.reshape(ctx.call("multiply", made, scales), (columns, blocks * block))
    if blocks * block == depth:
        return whole
    return ctx.call(
        "strided_slice", whole, axes=(1,), begin=(0,), end=(depth,), strides=(1,), assume_inbound=True
    )


def _zeros(ctx: NodeContext, bits: int, blocks: int) -> Expr:
    """(N, blocks, 1): given as they are, or packed like the weights; half of the range where none are."""
    columns, dtype = ctx.attr("N"), ctx.dtype(0)
    if not ctx.has(3):
        return ctx.const(1 << (bits - 1), dtype)
    if ctx.dtype(3) != "uint8":
        return ctx.reshape(ctx.astype(ctx.tensor(3), dtype), (columns, blocks, 1))
    size = -(-blocks * bits // 8)
    values = _unpacked(ctx, ctx.reshape(ctx.tensor(3), (columns, size)), bits)
    if size * 8 // bits != blocks:
        values = ctx.call(
            "strided_slice", values, axes=(1,), begin=(0,), end=(blocks,), strides=(1,), assume_inbound=True
        )
    return ctx.reshape(ctx.astype(values, dtype), (columns, blocks, 1))


def _unpacked(ctx: NodeContext, packed: Expr, bits: int) -> Expr:
    """Bytes (.., n) as numbers (.., n * 8 / bits), the first in the low bits."""
    if bits == 8:
        return packed
    *front, last = ctx.dims_of(packed)
    per_byte = 8 // bits
    shifts = ctx.const(np.arange(per_byte, dtype=np.uint8) * bits, "uint8")
    parts = ctx.call("right_shift", ctx.call("expand_dims", packed, axis=(len(front) + 1,)), shifts)
    values = ctx.call("bitwise_and", parts, ctx.const((1 << bits) - 1, "uint8"))
    return ctx.reshape(values, (*front, last * per_byte))
