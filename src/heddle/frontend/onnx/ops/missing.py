"""What of the standard is missing, and why: whole operators with the nearest rewrite, and forms of those that
are there. Messages and docs/onnx-support.md say it."""

from __future__ import annotations

from heddle.frontend.onnx.registry import MICROSOFT, lacks, refuses

_MAPS = ("maps are no values of ours", "export without maps, with skl2onnx as options={'zipmap': False}")

refuses(
    "Gradient",
    "the importer does not differentiate",
    "write the gradient's graph into the model",
    domain="ai.onnx.preview.training",
)
for _name in ("CastMap", "DictVectorizer", "ZipMap"):
    refuses(_name, *_MAPS, domain="ai.onnx.ml")
for _name, _reason in {
    "BeamSearch": "a search around two models",
    "GreedySearch": "a search around a model",
    "Sampling": "a search around a model",
    "WhisperBeamSearch": "a search around two models",
}.items():
    refuses(_name, _reason, "run the decoder's model in a loop outside", MICROSOFT)
for _name, _rewrite in {
    "DecoderMaskedMultiHeadAttention": "MultiHeadAttention",
    "DecoderMaskedSelfAttention": "Attention",
    "PackedAttention": "Attention",
    "PackedMultiHeadAttention": "MultiHeadAttention",
    "PagedAttention": "GroupQueryAttention",
    "SparseAttention": "GroupQueryAttention",
    "LongformerAttention": "Attention",
}.items():
    refuses(_name, "for other devices than processors", f"export the model with {_rewrite}", MICROSOFT)
for _name in ("MoE", "QMoE"):
    refuses(_name, "no converter yet", "export the experts as operators of the default domain", MICROSOFT)
for _name in ("NhwcConv", "NhwcFusedConv", "NhwcMaxPool", "QLinearConv"):
    refuses(_name, "a layout that ONNX Runtime chose", "save the model before it is optimised", MICROSOFT)
for _name in ("MatMulBnb4", "MatMulFpQ4"):
    refuses(_name, "no converter yet", "quantise the model to MatMulNBits", MICROSOFT)

lacks("Attention", "do_rotary, buffers of past and present that are shared, masks of 4 dimensions", MICROSOFT)
lacks("MultiHeadAttention", "shared buffers (past_sequence_length, cache_indirection), output qk", MICROSOFT)
lacks("QAttention", "do_rotary, buffers of past and present that are shared", MICROSOFT)
lacks("RotaryEmbedding", "packed batches, a scale", MICROSOFT)
lacks("MatMulIntegerToFloat", "scales for each row of a", MICROSOFT)
lacks("BatchNormalization", "statistics as outputs outside of training")
lacks("RegexFullMatch", "scripts as `\\p{Greek}`, single bytes as `\\C`")
lacks("Reshape", "a shape whose number of elements is known only at run time")
lacks(
    "Resize", "antialiasing with modes of positions other than half_pixel, pytorch_half_pixel and asymmetric"
)
lacks("Loop", "collected rows of strings")
lacks("Scan", "lengths of sequences in operator set 8, rows of strings")
