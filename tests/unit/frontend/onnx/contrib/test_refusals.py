"""What is not done of com.microsoft is refused with a code, at the node, and with a hint."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle.frontend.onnx import from_onnx
from heddle.frontend.onnx.survey import survey
from heddle.support.diagnostics import HeddleError, ImportModelError
from tests.unit.frontend.onnx.contrib.case import Case

X = np.zeros((2, 5, 24), np.float32)
WEIGHTS = {"w": np.zeros((24, 72), np.float32), "b": np.zeros(72, np.float32)}
CACHE = np.zeros((2, 2, 7, 16), np.float32)
PACKED = {"b": np.zeros((6, 2, 8), np.uint8), "s": np.zeros((6, 2), np.float32)}


def grouped(**more: Any) -> dict[str, Any]:
    feed = {"q": np.zeros((2, 1, 64), "f4"), "k": np.zeros((2, 1, 32), "f4"), "v": np.zeros((2, 1, 32), "f4")}
    feed |= {"pk": CACHE, "pv": CACHE, "lengths": np.array([7, 7], "i4"), "total": np.array(8, "i4")}
    names = ("cos", "sin", "positions", "bias", "sink", "ks", "vs", "qn", "kn")
    return {**feed, **{name: more.get(name) for name in names}}


HEADS = {"num_heads": 4, "kv_num_heads": 2}
CASES = {
    "unknown": (Case("FastGelo", {"x": X}), "N0201", "the nearest supported operator is FastGelu"),
    "reason": (Case("BeamSearch", {"x": X}), "N0201", "run the decoder's model in a loop outside"),
    "layout": (Case("NhwcConv", {"x": X}), "N0201", "save the model before it is optimised"),
    "inputs": (Case("BiasGelu", {"x": X}), "N0106", "takes 2 inputs, got 1"),
    "attribute": (Case("Attention", {"x": X, **WEIGHTS}), "N0106", "'num_heads' is missing"),
    "kind": (Case("QuickGelu", {"x": X}, {"alpha": 2}), "N0106", "must be of kind FLOAT, got INT"),
    "heads": (Case("Attention", {"x": X, **WEIGHTS}, {"num_heads": 5}), "N0106", "for 5 heads"),
    "rotary": (
        Case("Attention", {"x": X, **WEIGHTS}, {"num_heads": 3, "do_rotary": 1}),
        "N0203",
        "do_rotary",
    ),
    "mask": (
        Case("Attention", {"x": X, **WEIGHTS, "m": np.zeros((2, 1, 5, 5), "i4")}, {"num_heads": 3}),
        "N0203",
        "a mask of 4 dimensions",
    ),
    "scores": (
        Case("MultiHeadAttention", {"q": X, "k": X, "v": X}, {"num_heads": 3}, ("y", "", "", "qk")),
        "N0203",
        "output 3",
    ),
    "cache_scale": (
        Case("GroupQueryAttention", grouped(ks=np.ones(1, "f4")), HEADS),
        "N0203",
        "quantised cache",
    ),
    "window_cache": (
        Case("GroupQueryAttention", grouped(), {**HEADS, "sliding_window_cache": 1}),
        "N0203",
        "sliding_window_cache",
    ),
    "cache_kind": (
        Case("GroupQueryAttention", grouped(), {**HEADS, "k_quant_type": "PER_TENSOR"}),
        "N0203",
        "PER_TENSOR",
    ),
    "few_heads": (
        Case("GroupQueryAttention", grouped(), {"num_heads": 4, "kv_num_heads": 3}),
        "N0106",
        "4 heads of queries for 3 of keys",
    ),
    "bits": (
        Case("MatMulNBits", {"a": X, **PACKED}, {"K": 24, "N": 6, "bits": 3, "block_size": 16}),
        "N0203",
        "weights of 3 bits",
    ),
    "block": (
        Case("MatMulNBits", {"a": X, **PACKED}, {"K": 24, "N": 6, "block_size": 12}),
        "N0106",
        "a block size of 12",
    ),
    "activation": (
        Case("FusedGemm", {"a": X[0], "b": X[0].T.copy()}, {"activation": "Sin"}),
        "N0203",
        "supported are Celu",
    ),
    "parameters": (
        Case(
            "FusedConv",
            {"x": np.zeros((1, 2, 5, 5), "f4"), "w": np.zeros((3, 2, 3, 3), "f4")},
            {"activation": "Clip", "activation_params": [1.0]},
        ),
        "N0106",
        "Clip takes 2",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str) -> None:
    case, code, text = CASES[name]
    with pytest.raises(ImportModelError) as caught:
        from_onnx(case.model())
    assert [item.code.name for item in caught.value.diagnostics] == [code]
    assert text in str(caught.value)
    assert f'node "node" ({case.op})' in str(caught.value)
    assert [item.code.name for item in survey(case.model()).findings] == [code]


def test_survey_of_a_model_that_is_imported() -> None:
    found = survey(Case("BiasGelu", {"x": X, "b": np.zeros(24, "f4")}).model())
    assert not found.findings
    assert dict(found.types)["y"] == "float32[2, 5, 24]"


@pytest.mark.parametrize("missing", [True, False])
def test_domain_that_is_not_imported(missing: bool) -> None:
    """A model may leave out the domain's version, which there is only one of."""
    model = Case("Gelu", {"x": X}).model()
    if missing:
        kept = [item for item in model.opset_import if item.domain != "com.microsoft"]
        del model.opset_import[:]
        model.opset_import.extend(kept)
    assert from_onnx(model) is not None


@pytest.mark.parametrize("seed", range(40))
def test_random_shapes_are_answered(seed: int) -> None:
    """Inputs of any shape and type give a module or a coded finding, never another error."""
    rng = np.random.default_rng(seed)
    ops = (
        "Attention",
        "MultiHeadAttention",
        "GroupQueryAttention",
        "MatMulNBits",
        "RotaryEmbedding",
        "QGemm",
        "SkipLayerNormalization",
        "EmbedLayerNormalization",
        "QLinearConcat",
        "DynamicQuantizeLSTM",
        "FusedMatMul",
    )
    for op in ops:
        count = int(rng.integers(1, 10))
        kinds = ("f4", "i4", "i8", "u1", "f2")
        feed = {
            f"x{k}": np.zeros(rng.integers(0, 4, rng.integers(0, 5)), kinds[rng.integers(len(kinds))])
            for k in range(count)
        }
        attrs = {"num_heads": 2, "kv_num_heads": 1, "K": 3, "N": 2, "block_size": 16, "axis": 0}
        known = {key: attrs[key] for key in attrs if rng.random() < 0.8}
        try:
            assert from_onnx(Case(op, feed, known, stored=[n for n in feed if rng.random() < 0.3]).model())
        except HeddleError as error:
            assert error.code.startswith(("N0", "R0")), (op, str(error))  # noqa: PT017


def test_declared_forms_are_those_of_onnx_runtime() -> None:
    """Numbers and names of inputs, outputs and attributes, against the specifications in ONNX Runtime."""
    from heddle.frontend.onnx.schemas import schemas_of

    state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    theirs = {
        (item.domain, item.name): item for item in state.get_all_operator_schema() if item.since_version == 1
    }
    for domain in ("com.microsoft", ""):
        for name, ours in schemas_of(domain).items():
            other = theirs[domain, name]
            for side in ("input", "output"):
                assert getattr(ours, f"min_{side}") == getattr(other, f"min_{side}"), (name, side)
                assert getattr(ours, f"max_{side}") == getattr(other, f"max_{side}"), (name, side)
            assert set(ours.attributes) == set(other.attributes), name
            for key, attr in ours.attributes.items():
                assert attr.required == other.attributes[key].required, (name, key)
                assert attr.type.name.lower() == str(other.attributes[key].type).rsplit(".", 1)[-1].lower()
            allowed = [set(item.types) for item in ours.inputs]
            wanted = [set(item.types) if hasattr(item, "types") else None for item in other.inputs]
            assert all(w is None or a == w for a, w in zip(allowed, wanted, strict=True)), (
                name,
                allowed,
                wanted,
            )
