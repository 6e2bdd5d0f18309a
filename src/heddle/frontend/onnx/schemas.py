"""The forms of operators outside of ONNX's own specifications: those of ONNX Runtime in com.microsoft, and
the one that it puts into the default domain.

`onnx.defs` knows none of them, so each is declared here, in the same kind of record: inputs and outputs as
`name:type`, with `?` for one that may be left out and `*` for any number; attributes as `name:kind`, with `!`
for one that must be there.

Source: ONNX Runtime, docs/ContribOperators.md.
"""

from __future__ import annotations

from typing import Any

from onnx.defs import OpSchema

from heddle.frontend.onnx.registry import MICROSOFT

_KINDS = {
    "int": OpSchema.AttrType.INT,
    "float": OpSchema.AttrType.FLOAT,
    "string": OpSchema.AttrType.STRING,
    "ints": OpSchema.AttrType.INTS,
    "floats": OpSchema.AttrType.FLOATS,
    "strings": OpSchema.AttrType.STRINGS,
}
_OPTIONS = {
    "?": OpSchema.FormalParameterOption.Optional,
    "*": OpSchema.FormalParameterOption.Variadic,
}
_REAL = ("float", "float16", "bfloat16")
_REALS = (*_REAL, "double")
_BYTE = ("uint8", "int8")
_QUANTIZED = (*_BYTE, "int16", "uint16", "int4", "uint4")
_WINDOW = "auto_pad:string dilations:ints group:int kernel_shape:ints pads:ints strides:ints"

_SCHEMAS: dict[tuple[str, str], OpSchema] = {}


def schema_of(domain: str, name: str) -> OpSchema | None:
    """The form of an operator that `onnx.defs` does not know."""
    return _SCHEMAS.get((domain, name))


def schemas_of(domain: str) -> dict[str, OpSchema]:
    """All of a domain, by name."""
    return {name: schema for (own, name), schema in sorted(_SCHEMAS.items()) if own == domain}


def _parameters(text: str, types: dict[str, Any]) -> list[OpSchema.FormalParameter]:
    made = []
    for item in text.split():
        name, _, kind = item.partition(":")
        option = _OPTIONS.get(name[-1], OpSchema.FormalParameterOption.Single)
        kind = kind if kind in types else f"tensor({kind})"
        made.append(
            OpSchema.FormalParameter(name.rstrip("?*"), kind, param_option=option, is_homogeneous=False)
        )
    return made


def _form(
    name: str, inputs: str, outputs: str, attrs: str = "", domain: str = MICROSOFT, **types: tuple[str, ...]
) -> None:
    allowed = [(key, [f"tensor({item})" for item in items], "") for key, items in types.items()]
    attributes = []
    for item in attrs.split():
        key, _, kind = item.partition(":")
        attributes.append(OpSchema.Attribute(key, _KINDS[kind.rstrip("!")], "", required=kind.endswith("!")))
    _SCHEMAS[domain, name] = OpSchema(
        name,
        domain,
        1,
        inputs=_parameters(inputs, types),
        outputs=_parameters(outputs, types),
        type_constraints=allowed,
        attributes=attributes,
    )


# ---- activations and products

_form("Gelu", "x:T", "y:T", T=_REALS)
_form("BiasGelu", "a:T b:T", "c:T", T=_REALS)
_form("FastGelu", "x:T bias?:T", "y:T", T=_REALS)
_form("QuickGelu", "x:T", "y:T", "alpha:float", T=_REALS)
_form(
    "FusedMatMul",
    "a:T b:T",
    "y:T",
    "alpha:float transA:int transB:int transBatchA:int transBatchB:int",
    T=_REALS,
)
_form("TransposeMatMul", "a:T b:T", "y:T", "alpha:float transA:int transB:int", T=_REALS)
_form(
    "FusedGemm",
    "a:T b:T c?:T",
    "y:T",
    "alpha:float beta:float transA:int transB:int activation:string activation_alpha:float "
    "activation_beta:float activation_gamma:float",
    T=("float", "float16", "double", "int32", "int64", "uint32", "uint64"),
)
_form(
    "FusedConv",
    "x:T w:T b?:T z?:T",
    "y:T",
    f"{_WINDOW} activation:string activation_params:floats",
    T=("float", "float16", "double"),
)

# ---- normalisations and embeddings

_form(
    "SimplifiedLayerNormalization",
    "x:T scale:V",
    "y:V inv_std_var?:U",
    "axis:int epsilon:float stash_type:int",
    domain="",
    T=_REALS,
    U=("float", "double"),
    V=_REALS,
)
_form(
    "SkipLayerNormalization",
    "input:T skip:T gamma:T beta?:T bias?:T",
    "output:T mean?:float inv_std_var?:float input_skip_bias_sum?:T",
    "epsilon:float",
    T=_REAL,
)
_form(
    "SkipSimplifiedLayerNormalization",
    "input:T skip:T gamma:T bias?:T",
    "output:T mean?:float inv_std_var?:float input_skip_bias_sum?:T",
    "epsilon:float",
    T=_REAL,
)
_form(
    "EmbedLayerNormalization",
    "input_ids:int32 segment_ids?:int32 word_embedding:T position_embedding:T segment_embedding?:T gamma:T "
    "beta:T mask?:int32 position_ids?:int32",
    "output:T mask_index?:int32 embedding_sum?:T",
    "epsilon:float mask_index_type:int",
    T=("float", "float16"),
)
_form(
    "RotaryEmbedding",
    "input:T position_ids:int64 cos_cache:T sin_cache:T",
    "output:T",
    "interleaved:int is_packed_batching:int num_heads:int rotary_embedding_dim:int scale:float",
    T=_REAL,
)

# ---- attention

_form(
    "Attention",
    "input:T weights:T bias?:T mask_index?:int32 past?:T attention_bias?:T past_sequence_length?:int32",
    "output:T present?:T",
    "num_heads:int! do_rotary:int mask_filter_value:float past_present_share_buffer:int "
    "qkv_hidden_sizes:ints rotary_embedding_dim:int scale:float unidirectional:int",
    T=_REAL,
)
_form(
    "MultiHeadAttention",
    "query:T key?:T value?:T bias?:T key_padding_mask?:int32 attention_bias?:T past_key?:T past_value?:T "
    "past_sequence_length?:int32 cache_indirection?:int32",
    "output:T present_key?:T present_value?:T qk?:T",
    "num_heads:int! mask_filter_value:float scale:float unidirectional:int",
    T=_REAL,
)
_form(
    "GroupQueryAttention",
    "query:T key?:T value?:T past_key?:C past_value?:C seqlens_k:int32 total_sequence_length:int32 "
    "cos_cache?:T sin_cache?:T position_ids?:int64 attention_bias?:T head_sink?:T k_scale?:float "
    "v_scale?:float q_norm_weight?:T k_norm_weight?:T query_seqlens?:int32",
    "output:T present_key?:C present_value?:C output_qk?:T",
    "num_heads:int! kv_num_heads:int! causal:int do_rotary:int k_norm_epsilon:float k_quant_type:string "
    "kv_cache_bit_width:int local_window_size:int q_norm_epsilon:float qk_norm_epsilon:float qk_output:int "
    "rotary_interleaved:int scale:float sliding_window_cache:int smooth_softmax:int softcap:float "
    "v_quant_type:string",
    T=_REAL,
    C=(*_REAL, "uint8", "int8", "float8e4m3fn"),
)
_form(
    "QAttention",
    "input:A weight:B bias:T input_scale:T weight_scale:T mask_index?:int32 input_zero_point?:A "
    "weight_zero_point?:B past?:T",
    "output:T present?:T",
    "num_heads:int! do_rotary:int mask_filter_value:float past_present_share_buffer:int scale:float "
    "unidirectional:int",
    T=("float", "float16"),
    A=_BYTE,
    B=_BYTE,
)

# ---- quantised products

_form(
    "MatMulNBits",
    "a:T b:uint8 scales:T zero_points?:Z g_idx?:int32 bias?:T",
    "y:T",
    "K:int! N:int! accuracy_level:int bits:int block_size:int! weight_prepacked:int",
    T=_REAL,
    Z=("uint8", *_REAL),
)
_form("DynamicQuantizeMatMul", "a:float b:Q b_scale:float b_zero_point?:Q bias?:float", "y:float", Q=_BYTE)
_form(
    "MatMulIntegerToFloat",
    "a:A b:B a_scale:T b_scale:T a_zero_point?:A b_zero_point?:B bias?:T",
    "y:T",
    A=_BYTE,
    B=_BYTE,
    T=("float", "float16"),
)
_form(
    "DynamicQuantizeLSTM",
    "x:float w:Q r:Q b?:float sequence_lens?:int32 initial_h?:float initial_c?:float p?:float w_scale:float "
    "w_zero_point:Q r_scale:float r_zero_point:Q",
    "y?:float y_h?:float y_c?:float",
    "activation_alpha:floats activation_beta:floats activations:strings clip:float direction:string "
    "hidden_size:int input_forget:int",
    Q=_BYTE,
)
_form(
    "QGemm",
    "a:A a_scale:float a_zero_point:A b:B b_scale:float b_zero_point:B c?:int32 y_scale?:float "
    "y_zero_point?:Z",
    "y:Y",
    "alpha:float transA:int transB:int",
    A=_BYTE,
    B=_BYTE,
    Z=_BYTE,
    Y=(*_BYTE, "float"),
)

# ---- quantised elements

_form(
    "QuantizeLinear", "x:T y_scale:T y_zero_point?:Q", "y:Q", "axis:int", T=("float", "float16"), Q=_QUANTIZED
)
_form(
    "DequantizeLinear",
    "x:Q x_scale:T x_zero_point?:Q",
    "y:T",
    "axis:int",
    T=("float", "float16"),
    Q=(*_QUANTIZED, "int32"),
)
for _name in ("QLinearAdd", "QLinearMul"):
    _form(
        _name,
        "a:T a_scale:float a_zero_point?:T b:T b_scale:float b_zero_point?:T c_scale:float c_zero_point?:T",
        "c:T",
        T=_BYTE,
    )
_ONE_INPUT = "x:T x_scale:float x_zero_point?:T y_scale:float y_zero_point?:T"
_form("QLinearSigmoid", _ONE_INPUT, "y:T", T=_BYTE)
_form("QLinearLeakyRelu", _ONE_INPUT, "y:T", "alpha:float", T=_BYTE)
_form(
    "QLinearSoftmax",
    _ONE_INPUT.replace("y_zero_point?", "y_zero_point"),
    "y:T",
    "axis:int opset:int!",
    T=_BYTE,
)
_form(
    "QLinearAveragePool",
    _ONE_INPUT,
    "y:T",
    "auto_pad:string ceil_mode:int channels_last:int count_include_pad:int kernel_shape:ints! pads:ints "
    "strides:ints",
    T=_BYTE,
)
_form("QLinearGlobalAveragePool", _ONE_INPUT.replace("?", ""), "y:T", "channels_last:int", T=_BYTE)
_form(
    "QLinearConcat",
    "y_scale:float y_zero_point:T inputs*:V",
    "y:T",
    "axis:int!",
    T=_BYTE,
    V=(*_BYTE, "float"),
)
