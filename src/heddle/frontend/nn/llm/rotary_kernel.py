"""The kernel that splits a fused projection into queries, keys and values, and rotates them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heddle.frontend.nn.llm.page_kernels import copy_row
from heddle.frontend.nn.llm.rope import Rope, copy_features
from heddle.frontend.nn.llm.signature import array, checked_heads, scalar, size_var
from heddle.frontend.nn.llm.vectors import store
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import cast, greater, if_then_else
from heddle.tir.builder import StmtBuilder
from heddle.tir.nodes import Buffer, BufferLoad, ForKind, PrimFunc, decl_buffer


def llama_rope_with_position_map(
    theta: float,
    scale: float,
    head_dim: int,
    num_q_heads: int,
    num_kv_heads: int,
    dtype: str,
    rope_scaling: Mapping[str, Any],
    rotary_dim: int | None = None,
) -> PrimFunc:
    """Split fused queries, keys and values, and rotate queries and keys by their positions.

    Parameters: qkv (n, num_q_heads + 2 num_kv_heads, head_dim), position_map (n),
    q (n, num_q_heads, head_dim), k and v (n, num_kv_heads, head_dim), apply_rope (0: only split). For
    rope_type "longrope" the last is ext_factors (head_dim) in float32 instead: the pairs' factors for more
    than original_max_position_embeddings tokens, then those for fewer.
    """
    checked_heads(num_kv_heads, num_q_heads, head_dim, head_dim, dtype)
    rope = Rope(head_dim, head_dim if rotary_dim is None else rotary_dim, rope_scaling)
    b, tokens, fused = StmtBuilder(), size_var("tokens"), num_q_heads + 2 * num_kv_heads
    qkv, position_map = decl_buffer((tokens, fused, head_dim), dtype, "qkv"), array("position_map", tokens)
    q = decl_buffer((tokens, num_q_heads, head_dim), dtype, "q")
    k, v = (decl_buffer((tokens, num_kv_heads, head_dim), dtype, name) for name in ("k", "v"))
    is_long = rope.kind == "longrope"
    last: Any = (
        decl_buffer((head_dim,), "float32", "ext_factors") if is_long else scalar("apply_rope", "int64")
    )
    divisor = None
    if is_long:
        beyond = tokens > int(rope_scaling["original_max_position_embeddings"])
        base = b.let("base", if_then_else(beyond, constant(0, "int64"), constant(head_dim // 2, "int64")))

        def divisor(pair: PrimExpr) -> PrimExpr:
            return BufferLoad(last, (base + pair,))

    table = rope.emit_frequencies(b, constant(theta, "float32"), divisor)
    with b.loop("token", tokens, ForKind.PARALLEL, notes={"grain": 4}) as token:
        position = b.let("position", cast("float32", position_map[token]) * scale)
        rotate = constant(True) if is_long else greater(last, 0)
        for target, first, heads in ((q, 0, num_q_heads), (k, num_q_heads, num_kv_heads)):
            with b.loop("head", heads, notes={"disable_unroll": True}) as head:
                read, write = _rows(b, qkv, (token, head + first), target, (token, head))
                with b.when(rotate):
                    rope.emit_row(b, read, write, position, table)
                with b.otherwise():
                    copy_features(b, read, write, 0, head_dim)
        with b.loop("head", num_kv_heads, notes={"disable_unroll": True}) as head:
            source = (token, head + num_q_heads + num_kv_heads)
            copy_row(b, v, (token, head), qkv, source, head_dim)
    return b.func("llama_rope_with_position_map_cpu", [qkv, position_map, q, k, v, last])


def _rows(b: StmtBuilder, source: Buffer, read_at: Any, target: Buffer, write_at: Any) -> Any:
    """Reading features of one row, and writing them to another."""

    def read(index: PrimExpr) -> PrimExpr:
        return BufferLoad(source, (*read_at, index))

    def write(index: PrimExpr, value: PrimExpr) -> None:
        store(b, target, [*write_at, index], value)

    return read, write
