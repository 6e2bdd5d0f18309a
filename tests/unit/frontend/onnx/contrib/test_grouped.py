"""GroupQueryAttention of com.microsoft: caches, lengths of the running model, windows, sinks, rotations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.frontend.onnx.contrib.builders import generator, normal
from tests.unit.frontend.onnx.contrib.case import Case, check

HEADS, SIZE = 4, 16


def case(
    fresh: int,
    lengths: list[int],
    cache: int | None,
    key_heads: int = 2,
    packed: bool = False,
    more: dict[str, Any] | None = None,
    **attrs: Any,
) -> Case:
    """`fresh` new positions of sequences that then have `lengths`, in a cache of so many positions. Only rows
    that are filled are compared: what stands behind them nothing says."""
    rng, batch = generator(fresh, *lengths), len(lengths)
    given = more or {}
    width = (HEADS + 2 * key_heads) * SIZE if packed else HEADS * SIZE
    keys = None if packed else (batch, fresh, key_heads * SIZE)
    past = None if cache is None else (batch, key_heads, cache, SIZE)
    feed: dict[str, Any] = {"q": normal(rng, batch, fresh, width)}
    feed |= {name: None if keys is None else normal(rng, *keys) for name in ("k", "v")}
    feed |= {name: None if past is None else normal(rng, *past) for name in ("past_k", "past_v")}
    feed["lengths"] = np.array(lengths, np.int32) - 1
    feed["total"] = np.array(max(lengths) if cache is None else max(*lengths, fresh), np.int32)
    turned = attrs.get("do_rotary")
    feed |= {name: normal(rng, 64, SIZE // 2) if turned else None for name in ("cos", "sin")}
    feed |= {name: given.get(name) for name in ("positions", "bias", "sink")}
    if "fresh" in given:
        feed |= dict.fromkeys(("k_scale", "v_scale", "q_norm", "k_norm"))
        feed["fresh"] = np.array(given["fresh"], np.int32)
    new = given.get("fresh", [min(fresh, length) for length in lengths])

    def filled(index: int, array: np.ndarray) -> np.ndarray:
        rows = [array[b, : new[b]] if index == 0 else array[b, :, : lengths[b]] for b in range(batch)]
        return np.concatenate([row.ravel() for row in rows])

    named = {"num_heads": HEADS, "kv_num_heads": key_heads, **attrs}
    return Case("GroupQueryAttention", feed, named, ("y", "present_k", "present_v"), only=filled)


def _bias(*shape: int) -> dict[str, Any]:
    return {"bias": normal(generator(*shape), *shape)}


CASES = {
    "prompt": case(5, [5, 5], 0),
    "prompt_of_lengths": case(5, [5, 3], 0),
    "prompt_without_past": case(5, [5, 3], None),
    "prompt_into_buffer": case(5, [5, 3], 16, do_rotary=1),
    "one_head_of_keys": case(5, [5, 3], 0, key_heads=1),
    "as_many_heads": case(5, [5, 3], 0, key_heads=4, do_rotary=1),
    "step_into_buffer": case(1, [8, 5], 16, do_rotary=1),
    "step": case(1, [8, 8], 7, packed=True, do_rotary=1),
    "window": case(3, [10], 7, packed=True, do_rotary=1, local_window_size=4),
    "window_of_prompt": case(7, [7, 4], 0, local_window_size=2),
    "softcap": case(3, [10], 7, do_rotary=1, rotary_interleaved=1, softcap=2.0, scale=0.7),
    "smooth": case(5, [5, 3], 0, smooth_softmax=1),
    "sink": case(5, [5, 3], 0, more={"sink": normal(generator(4), HEADS)}),
    "bias": case(5, [5, 5], 0, more=_bias(2, HEADS, 5, 5), softcap=1.5),
    "one_bias": case(5, [5, 5], 0, more=_bias(1, 1, 5, 5)),
    "positions_of_prompt": case(
        5, [5, 3], 0, do_rotary=1, more={"positions": np.tile(np.arange(3, 8), (2, 1))}
    ),
    "positions": case(1, [8, 8], 7, do_rotary=1, more={"positions": np.array([[3], [9]])}),
    "padded_chunk": case(5, [8, 12], 17, more={"fresh": [3, 5]}),
    "both_ways": case(5, [5, 3], 0, causal=0),
    "both_ways_step": case(1, [8, 8], 7, causal=0),
}


@pytest.mark.parametrize("name", CASES)
def test_against_runtime(name: str) -> None:
    check(CASES[name])


def test_lengths_are_free() -> None:
    """One model makes the prompt and then steps; the cache may be larger or as large as is needed."""
    first, step = case(5, [5, 3], 16, do_rotary=1), case(1, [8, 5], 16, do_rotary=1)
    exact = case(1, [8, 8], 7, do_rotary=1)
    cache = ("b", 2, "p", SIZE)
    free = {
        "q": ("b", "s", HEADS * SIZE),
        "k": ("b", "s", 2 * SIZE),
        "v": ("b", "s", 2 * SIZE),
        "past_k": cache,
        "past_v": cache,
        "lengths": ("b",),
    }
    runs = [replace(one, free=free) for one in (first, step, exact, case(3, [9], 6, do_rotary=1))]
    check(runs[0], others=runs[1:])


@pytest.mark.parametrize("name", ["prompt_into_buffer", "step_into_buffer", "sink"])
def test_float16(name: str) -> None:
    check(CASES[name].as_type("float16"))
