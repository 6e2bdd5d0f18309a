"""Code of region pooling."""

from __future__ import annotations

import pytest

from heddle import te
from heddle.codegen import generate_text
from heddle.target import Target
from heddle.te import create_prim_func
from heddle.topi.detection import roi_align


def _num_lines(pooled: int, ratio: int) -> int:
    x, rois = te.placeholder((2, 3, 8, 9), "float32"), te.placeholder((5, 4), "float32")
    images = te.placeholder((5,), "int64")
    func = create_prim_func(
        [x, rois, images, roi_align(x, rois, images, (pooled, pooled), 1.0, ratio, True, "avg")]
    )
    text, _ = generate_text({"f": func}, Target("llvm"))
    return len(text.splitlines())


@pytest.mark.parametrize(("pooled", "ratio"), [(7, 2), (7, 4), (5, 3), (14, 2), (2, 1)])
def test_code_does_not_grow_with_bins_and_samples(pooled: int, ratio: int) -> None:
    """The tables of places are memory. For tables in registers, all loops over bins and samples would be
    unrolled, which takes LLVM minutes."""
    assert _num_lines(pooled, ratio) <= 1.1 * _num_lines(64, 16)


def test_very_many_samples_have_no_tables() -> None:
    assert _num_lines(4096, 1 << 20) > 0
