"""Cases of operators by their batch and sequence, with fresh random data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tests.unit.frontend.onnx.contrib.case import Case

HIDDEN, HEADS = 24, 3
Builder = Callable[[int, int], Case]


def generator(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def free(case: Case, **names: Any) -> Case:
    """With dimensions of inputs that only a call gives; a number among the names stays fixed."""
    return replace(case, free=names)


def elementwise(op: str, with_bias: bool = False, **attrs: Any) -> Builder:
    def build(batch: int, sequence: int) -> Case:
        rng = generator(batch, sequence)
        feed = {"x": normal(rng, batch, sequence, HIDDEN) * 3}
        if with_bias:
            feed["bias"] = normal(rng, HIDDEN)
        return free(Case(op, feed, attrs), x=("b", "s", HIDDEN))

    return build


def product(trans_a: bool, trans_b: bool, batch_first: bool = True, **attrs: Any) -> Builder:
    """(batch, sequence, 8) @ (batch, 8, 6), in the orders that the attributes say."""

    def build(batch: int, sequence: int) -> Case:
        rng = generator(batch, sequence)
        feed, names = {}, {}
        shapes = {"a": (("b", "s", 8), (batch, sequence, 8)), "b": (("b", 8, 6), (batch, 8, 6))}
        for flag, (name, (letters, shape)) in zip((trans_a, trans_b), shapes.items(), strict=True):
            perm = [0, 2, 1] if flag else [0, 1, 2]
            if not batch_first:
                perm = [perm[1], perm[0], perm[2]]
            feed[name] = np.ascontiguousarray(normal(rng, *shape).transpose(perm))
            names[name] = [letters[axis] for axis in perm]
        flags = {"transA": int(trans_a), "transB": int(trans_b), **attrs}
        if not batch_first:
            flags |= {"transBatchA": 1, "transBatchB": 1}
        return free(Case("FusedMatMul", feed, flags), **names)

    return build


def skip_norm(op: str, parts: tuple[str, ...], skip_rank: int = 3, **attrs: Any) -> Builder:
    def build(batch: int, sequence: int) -> Case:
        rng = generator(batch, sequence)
        shape = (batch, sequence, HIDDEN)
        feed: dict[str, Any] = {"x": normal(rng, *shape), "skip": normal(rng, *shape[3 - skip_rank :])}
        feed["gamma"] = normal(rng, HIDDEN)
        for name in ("beta", "bias") if op == "SkipLayerNormalization" else ("bias",):
            feed[name] = normal(rng, HIDDEN) if name in parts else None
        case = Case(op, feed, {"epsilon": 1e-5, **attrs}, outputs=("y", "", "", "total"))
        return free(case, x=("b", "s", HIDDEN), skip=("b", "s", HIDDEN)[3 - skip_rank :])

    return build


def simplified_norm(batch: int, sequence: int) -> Case:
    rng = generator(batch, sequence)
    feed = {"x": normal(rng, batch, sequence, HIDDEN), "scale": normal(rng, HIDDEN)}
    case = Case("SimplifiedLayerNormalization", feed, {"epsilon": 1e-5}, outputs=("y", "inverse"), domain="")
    return free(case, x=("b", "s", HIDDEN))


def embedding(parts: tuple[str, ...]) -> Builder:
    def build(batch: int, sequence: int) -> Case:
        rng = generator(batch, sequence)

        def numbers(limit: int) -> np.ndarray:
            return rng.integers(0, limit, (batch, sequence)).astype(np.int32)

        feed = {
            "ids": numbers(11),
            "segments": numbers(2) if "segments" in parts else None,
            "words": normal(rng, 11, HIDDEN),
            "places": normal(rng, 40, HIDDEN),
            "segment_table": normal(rng, 2, HIDDEN) if "segments" in parts else None,
            "gamma": normal(rng, HIDDEN),
            "beta": normal(rng, HIDDEN),
            "mask": numbers(2) if "mask" in parts else None,
            "positions": numbers(40) if "positions" in parts else None,
        }
        case = Case("EmbedLayerNormalization", feed, {"epsilon": 1e-5}, outputs=("y", "lengths", "total"))
        names = ("ids", "segments", "mask", "positions")
        return free(case, **{name: ("b", "s") for name in names if feed[name] is not None})

    return build


def rotary(rank: int, turned: int, interleaved: bool, one_position: bool = False) -> Builder:
    size = HIDDEN // HEADS

    def build(batch: int, sequence: int) -> Case:
        rng = generator(batch, sequence)
        three = rank == 3
        shape = (batch, sequence, HIDDEN) if three else (batch, HEADS, sequence, size)
        positions = np.array([2]) if one_position else rng.integers(0, 20, (batch, sequence))
        tables = {name: normal(rng, 32, turned // 2) for name in ("cos", "sin")}
        attrs = {"interleaved": int(interleaved)}
        if turned != size:
            attrs |= {"num_heads": HEADS, "rotary_embedding_dim": turned}
        case = Case("RotaryEmbedding", {"x": normal(rng, *shape), "positions": positions, **tables}, attrs)
        names = {"x": ("b", "s", HIDDEN) if three else ("b", HEADS, "s", size)}
        return free(case, **names, **({} if one_position else {"positions": ("b", "s")}))

    return build
