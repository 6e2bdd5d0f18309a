"""Relay's operators on boxes, against loops over numpy's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle import relay
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.test_operators_that_compute_sizes import run

RNG = np.random.default_rng(3)

BOXES = np.array(
    [
        [
            [0, 0.8, 1, 20, 25, 45],
            [1, 0.7, 30, 60, 50, 80],
            [0, 0.4, 4, 21, 19, 40],
            [2, 0.9, 35, 61, 52, 79],
            [1, 0.5, 100, 60, 70, 110],
        ]
    ],
    "float32",
)


def boxes_of(batches: int, size: int, classes: int = 3) -> Any:
    """Rows of class, score and two corners; some scores are low, some classes are -1."""
    corners = RNG.integers(0, 20, (batches, size, 4)).astype("float32")
    kinds = RNG.integers(-1, classes, (batches, size, 1)).astype("float32")
    scores = RNG.permuted(np.linspace(0, 1, batches * size, dtype="float32")).reshape(batches, size, 1)
    return np.concatenate([kinds, scores, corners], 2)


def overlap(a: Any, b: Any) -> np.float32:
    """Intersection over union. Limits are compared with it in float32, as the operators take them: one
    fifth is no more than 0.2."""
    low, high = np.minimum(a[:2], a[2:]), np.maximum(a[:2], a[2:])
    lows, highs = np.minimum(b[:2], b[2:]), np.maximum(b[:2], b[2:])
    shared = np.prod(np.maximum(np.minimum(high, highs) - np.maximum(low, lows), 0))
    return np.float32(shared / max(np.prod(high - low) + np.prod(highs - lows) - shared, 1e-9))


@pytest.mark.parametrize("size", [0, 1, 13])
@pytest.mark.parametrize("id_index", [0, -1])
def test_get_valid_counts(size: int, id_index: int) -> None:
    data = boxes_of(2, size)
    counts, rows, places = run(
        lambda x: relay.vision.get_valid_counts(x, 0.3, id_index=id_index, score_index=1), data
    )
    for image in range(2):
        is_valid = data[image, :, 1] > 0.3
        if id_index >= 0:
            is_valid &= data[image, :, 0] >= 0
        kept = np.nonzero(is_valid)[0]
        assert counts[image] == len(kept)
        np.testing.assert_array_equal(places[image], [*kept, *[-1] * (size - len(kept))])
        np.testing.assert_array_equal(rows[image, : len(kept)], data[image, kept])
        assert (rows[image, len(kept) :] == -1).all()


def greedy(data: Any, count: int, limit: int, reach: float, forced: bool, top_k: int, coord: int = 2) -> Any:
    """The numbers of the boxes that stay, best first."""
    order = [k for k in np.argsort(-data[:, 1], kind="stable") if k < count]
    chosen: list[int] = []
    for k in order[:top_k] if top_k > 0 else order:
        near = [j for j in chosen if forced or data[j, 0] == data[k, 0]]
        apart = all(overlap(data[j, coord : coord + 4], data[k, coord : coord + 4]) < reach for j in near)
        if apart and (limit < 0 or len(chosen) < limit):
            chosen.append(int(k))
    return chosen


@pytest.mark.parametrize("limit", [-1, 0, 2])
@pytest.mark.parametrize("reach", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("top_k", [-1, 3])
def test_non_max_suppression(limit: int, reach: float, forced: bool, top_k: int) -> None:
    size = 9
    data, counts = boxes_of(2, size), np.array([size, 5], "int32")
    indices = RNG.permuted(np.tile(np.arange(100, 100 + size), (2, 1)), axis=1).astype("int32")
    options = {"force_suppress": forced, "top_k": top_k, "id_index": 0}
    places, numbers = run(
        lambda x, c, i: relay.vision.non_max_suppression(x, c, i, limit, reach, **options),
        data,
        counts,
        indices,
    )
    rows = run(
        lambda x, c, i: relay.vision.non_max_suppression(
            x, c, i, limit, reach, **options, return_indices=False, invalid_to_bottom=True
        ),
        data,
        counts,
        indices,
    )
    for image in range(2):
        kept = greedy(data[image], counts[image], limit, reach, forced, top_k)
        assert numbers[image, 0] == len(kept)
        np.testing.assert_array_equal(places[image], [*indices[image, kept], *[-1] * (size - len(kept))])
        np.testing.assert_array_equal(rows[image, : len(kept)], data[image, kept])
        assert (rows[image, len(kept) :] == -1).all()


def test_suppressed_boxes_in_their_places() -> None:
    """Their score and class are -1; boxes that are none are -1 as a whole."""
    counts, indices = np.array([4], "int32"), np.arange(5, dtype="int32")[None]
    rows = run(
        lambda x, c, i: relay.vision.non_max_suppression(
            x, c, i, -1, 0.45, force_suppress=True, return_indices=False
        ),
        BOXES,
        counts,
        indices,
    )
    order = [3, 0, 1, 2]
    kept = greedy(BOXES[0], 4, -1, 0.45, True, -1)
    for place, box in enumerate(order):
        wanted = BOXES[0, box].copy()
        if box not in kept:
            wanted[:2] = -1
        np.testing.assert_array_equal(rows[0, place], wanted)
    assert (rows[0, 4] == -1).all() and len(kept) < 4


@pytest.mark.parametrize("limit", [-1, 2])
@pytest.mark.parametrize("shape", [(2, 3, 8), (1, 1, 0), (1, 2, 1)])
def test_all_class_non_max_suppression(limit: int, shape: tuple[int, int, int]) -> None:
    batches, classes, size = shape
    boxes = RNG.integers(0, 12, (batches, size, 4)).astype("float32")
    scores = RNG.random(shape).astype("float32")
    rows, count = run(
        lambda b, s: relay.vision.all_class_non_max_suppression(b, s, limit, 0.2, 0.3), boxes, scores
    )
    best, own, numbers = run(
        lambda b, s: relay.vision.all_class_non_max_suppression(b, s, limit, 0.2, 0.3, "tensorflow"),
        boxes,
        scores,
    )
    wanted = []
    for image, kind in np.ndindex(batches, classes):
        chosen: list[int] = []
        for k in np.argsort(-scores[image, kind], kind="stable"):
            apart = all(overlap(boxes[image, j], boxes[image, k]) <= 0.2 for j in chosen)
            if scores[image, kind, k] > 0.3 and apart and (limit < 0 or len(chosen) < limit):
                chosen.append(int(k))
        wanted += [(image, kind, k) for k in chosen]
    assert count[0] == len(wanted)
    np.testing.assert_array_equal(rows[: len(wanted)], np.array(wanted).reshape(-1, 3))
    assert (rows[len(wanted) :] == -1).all()
    for image in range(batches):
        here = sorted((w for w in wanted if w[0] == image), key=lambda w: -scores[w])
        assert numbers[image] == len(here)
        np.testing.assert_array_equal(
            best[image, : len(here)], np.array([w[1:] for w in here]).reshape(-1, 2)
        )
        np.testing.assert_array_equal(own[image, : len(here)], [scores[w] for w in here])
        assert (own[image, len(here) :] == 0).all()


@pytest.mark.parametrize("most", [1, 4, 30])
def test_regular_non_max_suppression(most: int) -> None:
    boxes = RNG.integers(0, 12, (2, 6, 4)).astype("float32")
    scores = RNG.random((2, 6, 4)).astype("float32")
    found, kinds, own, numbers = run(
        lambda b, s: relay.vision.regular_non_max_suppression(b, s, 2, most, 3, 0.2, 0.3), boxes, scores
    )
    for image in range(2):
        every = []
        for kind in range(3):
            chosen: list[int] = []
            column = scores[image, :, kind + 1]
            for k in np.argsort(-column, kind="stable"):
                apart = all(overlap(boxes[image, j], boxes[image, k]) <= 0.2 for j in chosen)
                if column[k] > 0.3 and apart and len(chosen) < 2:
                    chosen.append(int(k))
            every += [(-column[k], kind, k) for k in chosen]
        best = sorted(every)[:most]
        assert numbers[image] == len(best)
        np.testing.assert_array_equal(found[image, : len(best)], boxes[image, [k for _, _, k in best]])
        np.testing.assert_array_equal(kinds[image, : len(best)], [kind for _, kind, _ in best])
        np.testing.assert_array_equal(own[image, : len(best)], [-score for score, _, _ in best])
        assert not found[image, len(best) :].any() and not own[image, len(best) :].any()


def test_wrong_calls() -> None:
    x, s = relay.var("x", shape=(1, 3, 4)), relay.var("s", shape=(1, 2, 3))
    with pytest.raises(HeddleError, match="output_format is onnx or tensorflow"):
        relay.transform.InferTypeLocal(
            relay.vision.all_class_non_max_suppression(x, s, output_format="other").astuple()
        )
    with pytest.raises(HeddleError, match="5 classes of 3 columns"):
        relay.transform.InferTypeLocal(
            relay.vision.regular_non_max_suppression(x, s, 1, 1, 5, 0.5, 0.5).astuple()
        )
