"""Copies between a tensor and its parts, line by line of the tensor's memory, in the checking interpreter."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from heddle.runtime.native.source.rows import LINE_BYTES, NO_AXIS, Rows
from heddle.systems.types import sized
from tests.unit.runtime.native_machine import machine_of
from tests.unit.runtime.test_sequences_checked import ITEMS, RESULT, Sequences


def rows_of(objects, axis, count, has_axis, is_split):
    """The rows of the tensor in RESULT, whose parts are the first registers' tensors."""
    shape = objects.sizes(RESULT)
    index_bytes = 4 * math.prod(shape[axis + 1 :])
    fields = {
        "whole": objects.field(RESULT, "data"),
        "parts": objects.values(*range(count)),
        "count": count,
        "axis": axis if has_axis else NO_AXIS,
        "index_bytes": index_bytes,
        "row_bytes": index_bytes * shape[axis],
        "size_bytes": 4 * math.prod(shape),
        "is_split": int(is_split),
    }
    at = objects.machine.new(Rows.layout, "the rows")
    for name, value in fields.items():
        item = Rows.layout.fields[name]
        objects.machine.store(at + item.offset_bytes, sized(item.type), value)
    return at


@pytest.mark.parametrize(
    ("shape", "axis", "sizes"),
    [
        ((40,), 0, (16, 0, 1, 23)),  # one row; ends of parts within lines, and at their ends
        ((3, 50), 1, (50,)),
        ((3, 50), 1, (7, 43)),  # rows longer than a line
        ((50, 3), 1, (1, 0, 2)),  # many in a line
        ((4, 16), 1, (8, 8)),  # a line each
        ((2, 5, 9), 1, (1,) * 5),
        ((2, 5, 9), 2, (3, 3, 3)),
        ((2, 5, 9), 0, (1, 1)),
        ((5, 0), 1, (0, 0)),
    ],
)
@pytest.mark.parametrize("is_split", [False, True])
def test_threads_copy_any_lines_and_nothing_else(shape, axis, sizes, is_split):
    rng = random.Random(str((shape, axis)))
    whole = np.arange(1, math.prod(shape) + 1, dtype=np.float32).reshape(shape)
    parts = np.split(whole, np.cumsum(sizes)[:-1], axis)
    with machine_of() as machine:
        objects = Sequences(machine)
        has_axis = not (set(sizes) == {1} and axis == 1)
        objects.put(RESULT, whole if is_split else np.zeros_like(whole))
        for number, part in enumerate(parts):
            part = part if has_axis else part.squeeze(axis)
            objects.put(number, np.zeros_like(part) if is_split else part)
        assert len(parts) < ITEMS
        rows = rows_of(objects, axis, len(parts), has_axis, is_split)
        num_lines = -(-whole.nbytes // LINE_BYTES)
        cuts = sorted({0, num_lines, *(rng.randrange(num_lines + 1) for _ in range(3))})
        pairs = list(itertools.pairwise(cuts))
        rng.shuffle(pairs)
        done = np.zeros(whole.size, bool)
        for begin, end in pairs:
            assert machine.call("copy_lines", begin, end, rows) == 0
            done[begin * LINE_BYTES // 4 : end * LINE_BYTES // 4] = True
            found = objects.array(RESULT)
            if is_split:
                given = [objects.array(number).reshape(part.shape) for number, part in enumerate(parts)]
                found = np.concatenate(given, axis)
            np.testing.assert_array_equal(found, np.where(done.reshape(shape), whole, 0))
        assert done.all()
        objects.end()
