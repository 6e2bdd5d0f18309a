"""Rows of products of matrices, attention and what is made of them."""

from __future__ import annotations

from benchmarks.onnx_ops.case import Case, Weight, between, on_tokens, uniform

_QKV = "float[b,h,s,e] q, float[b,h,t,e] k, float[b,h,t,e] v"
_STEPS = {"b": 1, "s": 16}
_LONG = {"b": 1, "s": 256}

PRODUCTS: tuple[Case, ...] = (
    on_tokens("MatMul", "MatMul(x, w)", form="weight", weights={"w": Weight(("d", 256))}),
    Case(
        "MatMul",
        "float[b,h,s,e] x, float[b,h,e,t] z",
        "y = MatMul(x, z)",
        {"b": 1, "h": 4, "s": 16, "e": 32, "t": 16},
        {"b": 1, "h": 12, "s": 256, "e": 64, "t": 256},
        form="two inputs",
    ),
    Case(
        "MatMul",
        "float[1,d] x",
        "y = MatMul(x, w)",
        {"d": 256},
        {"d": 2048},
        form="one row",
        weights={"w": Weight(("d", 1024))},
    ),
    Case(
        "Gemm",
        "float[n,d] x",
        "y = Gemm<transB=1>(x, w, b)",
        {"n": 1, "d": 256},
        {"n": 256, "d": 1024},
        weights={"w": Weight((512, "d")), "b": Weight((512,))},
    ),
    Case(
        "Einsum",
        "float[b,h,s,e] q, float[b,h,t,e] k",
        'y = Einsum<equation="bhse,bhte->bhst">(q, k)',
        {"b": 1, "h": 4, "s": 16, "e": 32, "t": 16},
        {"b": 1, "h": 12, "s": 256, "e": 64, "t": 256},
        opset=27,
    ),
    Case(
        "Einsum",
        "float[b,i,j] x, float[b,j] z",
        'y = Einsum<equation="bij,bj->bi">(x, z)',
        {"b": 4, "i": 32, "j": 32},
        {"b": 8, "i": 512, "j": 256},
        form="matrix by vector",
        opset=27,
    ),
    Case("Det", "float[b,n,n] x", "y = Det(x)", {"b": 16, "n": 3}, {"b": 32, "n": 48}),
    Case(
        "Attention",
        _QKV,
        "y = Attention(q, k, v)",
        {"b": 1, "h": 4, "s": 16, "t": 16, "e": 32},
        {"b": 1, "h": 12, "s": 256, "t": 256, "e": 64},
    ),
    Case(
        "Attention",
        _QKV,
        "y = Attention<is_causal=1>(q, k, v)",
        {"b": 1, "h": 4, "s": 16, "t": 16, "e": 32},
        {"b": 1, "h": 12, "s": 256, "t": 256, "e": 64},
        form="causal",
    ),
    Case(
        "RotaryEmbedding",
        "float[b,h,s,64] x, int64[b,s] i",
        "y = RotaryEmbedding(x, cos, sin, i)",
        {"b": 1, "h": 4, "s": 16},
        {"b": 1, "h": 16, "s": 512},
        fills={"i": between(0, 512)},
        weights={
            "cos": Weight((512, 32), fill=uniform(-1, 1)),
            "sin": Weight((512, 32), fill=uniform(-1, 1)),
        },
    ),
    Case(
        "LinearAttention",
        "float[b,s,256] q, float[b,s,256] k, float[b,s,256] v",
        'y, state = LinearAttention<q_num_heads=4, kv_num_heads=4, update_rule="linear">(q, k, v)',
        _STEPS,
        _LONG,
        outputs="y, state",
    ),
    Case(
        "CausalConvWithState",
        "float[b,64,s] x",
        "y, state = CausalConvWithState(x, w)",
        _STEPS,
        {"b": 4, "s": 2048},
        outputs="y, state",
        weights={"w": Weight((64, 1, 4))},
    ),
)
