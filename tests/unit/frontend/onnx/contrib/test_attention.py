"""Attention, MultiHeadAttention and QAttention of com.microsoft: masks, pasts, widths, directions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.frontend.onnx.contrib.builders import Builder, free, generator, normal
from tests.unit.frontend.onnx.contrib.case import Case, check, check_sizes, expected

HEADS, SIZE, PAST = 3, 4, 2
WIDTH = HEADS * SIZE


def mask_of(kind: str, rng: np.random.Generator, batch: int, sequence: int, total: int) -> Any:
    """Each query sees a key at least: scores of -10000 have few bits left for differences."""
    if kind == "ends":
        return rng.integers(1, total + 1, batch).astype(np.int32)
    if kind == "bounds":
        ends = rng.integers(1, total + 1, batch)
        return np.concatenate([ends, ends - 1]).astype(np.int32)
    shape = (batch, total) if kind == "keys" else (batch, sequence, total)
    made = rng.integers(0, 2, shape).astype(np.int32)
    made[..., 0] = 1
    return made


def attention(
    mask: str = "", past: bool = False, biased: bool = True, widths: tuple[int, ...] = (), **attrs: Any
) -> Builder:
    def build(batch: int, sequence: int) -> Case:
        rng = generator(batch, sequence, len(mask))
        total, width = sequence + PAST * past, sum(widths) or 3 * WIDTH
        feed = {
            "x": normal(rng, batch, sequence, 7),
            "w": normal(generator(width), 7, width),
            "b": normal(rng, width) if biased else None,
            "mask": mask_of(mask, rng, batch, sequence, total) if mask else None,
            "past": normal(rng, 2, batch, HEADS, PAST, SIZE) if past else None,
            "bias": normal(rng, 1, HEADS, sequence, total) if biased and not past else None,
        }
        named = {"qkv_hidden_sizes": widths} if widths else {}
        outputs = ("y", "present") if past else ("y",)
        case = Case("Attention", feed, {"num_heads": HEADS, **named, **attrs}, outputs, stored=("w",))
        names: dict[str, Any] = {"x": ("b", "s", 7)}
        if past:
            names["past"] = (2, "b", HEADS, PAST, SIZE)
        if feed["bias"] is not None:
            names["bias"] = (1, HEADS, "s", "s")
        if mask:
            rows = {"ends": ("b",), "bounds": ("b2",), "keys": ("b", "t"), "pairs": ("b", "s", "t")}[mask]
            names["mask"] = rows if mask != "bounds" else (2 * batch,)
        return free(case, **names)

    return build


ATTENTION = {
    "plain": attention(),
    "bare": attention(biased=False),
    "later": attention(unidirectional=1),
    "keys": attention("keys"),
    "keys_later": attention("keys", unidirectional=1, mask_filter_value=-50.0),
    "pairs": attention("pairs"),
    "pairs_later": attention("pairs", unidirectional=1),
    "ends": attention("ends"),
    "past": attention(past=True),
    "past_later": attention(past=True, unidirectional=1),
    "past_keys_later": attention("keys", past=True, unidirectional=1, scale=0.3),
    "widths": attention(widths=(WIDTH, WIDTH, 6), unidirectional=1),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name: str) -> None:
    check_sizes(ATTENTION[name])


@pytest.mark.parametrize("direction", [0, 1])
def test_bounds_of_keys(direction: int) -> None:
    """With a free batch, nothing says whether bounds are of one or of two kinds; so it is fixed here."""
    case = attention("bounds", unidirectional=direction, mask_filter_value=-50.0)(2, 5)
    check(replace(case, free={}))


@pytest.mark.parametrize("name", ["plain", "past_keys_later"])
def test_attention_of_float16(name: str) -> None:
    check(replace(ATTENTION[name](2, 5), free={}).as_type("float16"))


def heads_attention(
    mask: str = "", biased: bool = False, past: bool = False, value_width: int = WIDTH, **attrs: Any
) -> Builder:
    """Keys and values are as many as queries where there is a past, else of another number."""

    def build(batch: int, sequence: int) -> Case:
        rng = generator(batch, sequence, value_width)
        keys = sequence if past else sequence + 1
        total = keys + PAST * past
        feed = {
            "q": normal(rng, batch, sequence, WIDTH),
            "k": normal(rng, batch, keys, WIDTH),
            "v": normal(rng, batch, keys, value_width),
            "b": normal(rng, 2 * WIDTH + value_width) if biased else None,
            "mask": mask_of(mask, rng, batch, sequence, total) if mask else None,
            "bias": normal(rng, batch, 1, sequence, total) if biased else None,
            "past_k": normal(rng, batch, HEADS, PAST, SIZE) if past else None,
            "past_v": normal(rng, batch, HEADS, PAST, value_width // HEADS) if past else None,
        }
        outputs = ("y", "present_k", "present_v") if past else ("y",)
        case = Case("MultiHeadAttention", feed, {"num_heads": HEADS, **attrs}, outputs)
        names: dict[str, Any] = {"q": ("b", "s", WIDTH), "k": ("b", "t", WIDTH), "v": ("b", "t", value_width)}
        for name, shape in {"past_k": SIZE, "past_v": value_width // HEADS}.items():
            if past:
                names[name] = ("b", HEADS, "p", shape)
        if biased:
            names["bias"] = ("b", 1, "s", "all")
        if mask:
            names["mask"] = {"ends": ("b",), "keys": ("b", "all"), "pairs": ("b", "s", "all")}[mask]
        return free(case, **names)

    return build


HEADS_ATTENTION = {
    "plain": heads_attention(),
    "biased": heads_attention(biased=True, scale=0.7),
    "keys": heads_attention("keys"),
    "ends": heads_attention("ends", biased=True),
    "pairs": heads_attention("pairs", mask_filter_value=-30.0),
    "width": heads_attention(value_width=6, biased=True),
    "past": heads_attention(past=True, unidirectional=1),
    "past_keys": heads_attention("keys", past=True, biased=True),
}


@pytest.mark.parametrize("name", HEADS_ATTENTION)
def test_multi_head_attention(name: str) -> None:
    check_sizes(HEADS_ATTENTION[name])


def test_keys_that_were_projected_before() -> None:
    rng = generator(1)
    feed = {
        "q": normal(rng, 2, 5, WIDTH),
        "k": normal(rng, 2, HEADS, 6, SIZE),
        "v": normal(rng, 2, HEADS, 6, SIZE),
        "b": normal(rng, 3 * WIDTH),
    }
    check(Case("MultiHeadAttention", feed, {"num_heads": HEADS}))


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("count", [2, 3])
def test_packed_heads(count: int, biased: bool) -> None:
    """ONNX Runtime has no kernel for packed heads here; it computes the same from heads that are apart."""
    rng = generator(count)
    apart = {name: normal(rng, 2, 5, HEADS, SIZE) for name in "qkv"}
    bias = normal(rng, 3 * WIDTH) if biased else None
    flat = {name: array.reshape(2, 5, WIDTH) for name, array in apart.items()}
    wanted = expected(Case("MultiHeadAttention", {**flat, "b": bias}, {"num_heads": HEADS}))
    packed = np.stack([apart[name] for name in "qkv"[3 - count :]], axis=3)
    feed = {"q": packed} if count == 3 else {"q": flat["q"], "k": packed}
    rest = {"k": None, "v": None} if count == 3 else {"v": None}
    check(Case("MultiHeadAttention", {**feed, **rest, "b": bias}, {"num_heads": HEADS}), wanted)


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("by_column", [False, True])
def test_quantised_projection(past: bool, by_column: bool) -> None:
    """Weights of 7 bits: ONNX Runtime's sums of two products saturate on some processors."""
    rng = generator(int(past), int(by_column))
    columns = (3 * WIDTH,) if by_column else ()
    feed = {
        "x": rng.integers(0, 256, (2, 5, 7)).astype(np.uint8),
        "w": rng.integers(-63, 64, (7, 3 * WIDTH)).astype(np.int8),
        "b": normal(rng, 3 * WIDTH),
        "x_scale": np.float32(0.01),
        "w_scale": rng.uniform(0.01, 0.02, columns).astype(np.float32),
        "mask": None if past else np.array([5, 3], np.int32),
        "x_zero": np.uint8(120),
        "w_zero": np.full(columns, 3, np.int8),
        "past": normal(rng, 2, 2, HEADS, PAST, SIZE) if past else None,
    }
    outputs = ("y", "present") if past else ("y",)
    constants = ("w", "b", "x_scale", "w_scale", "x_zero", "w_zero")
    case = Case("QAttention", feed, {"num_heads": HEADS, "unidirectional": int(past)}, outputs, constants)
    check(free(case, x=("b", "s", 7), **({"mask": ("b",)} if not past else {})))
