"""MatMulNBits of com.microsoft: bits, blocks, zero points, constant and computed weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heddle.frontend.onnx import from_onnx
from heddle.frontend.onnx.ops.contrib import few_bits
from heddle.ir.expr import Constant
from heddle.ir.visitor import walk
from heddle.support.diagnostics import ImportModelError
from tests.unit.frontend.onnx.contrib.builders import generator, normal
from tests.unit.frontend.onnx.contrib.case import Case, check

COLUMNS = 6


def case(bits: int, depth: int, block: int, zeros: str, rows: tuple[int, ...] = (2, 3)) -> Case:
    rng = generator(bits, depth, len(zeros), *rows)
    blocks = -(-depth // block)
    packed = rng.integers(0, 256, (COLUMNS, -(-blocks * bits // 8))).astype(np.uint8)
    feed = {
        "a": normal(rng, *rows, depth),
        "b": rng.integers(0, 256, (COLUMNS, blocks, block * bits // 8)).astype(np.uint8),
        "scales": rng.uniform(0.01, 0.1, (COLUMNS, blocks)).astype(np.float32),
        "zeros": {"": None, "packed": packed, "real": normal(rng, COLUMNS, blocks) * 3}[zeros],
        "order": None,
        "bias": normal(rng, COLUMNS) if zeros else None,
    }
    attrs = {"K": depth, "N": COLUMNS, "bits": bits, "block_size": block}
    return Case("MatMulNBits", feed, attrs, rtol=1e-3, atol=1e-3)


def constant(one: Case) -> Case:
    names = [name for name in ("b", "scales", "zeros", "bias") if one.feed[name] is not None]
    return replace(one, stored=names)


@pytest.mark.parametrize("zeros", ["", "packed", "real"])
@pytest.mark.parametrize(
    ("bits", "depth", "block"),
    [(2, 40, 32), (2, 97, 16), (4, 32, 16), (4, 40, 32), (4, 7, 16), (4, 97, 32), (8, 64, 64), (8, 40, 32)],
)
def test_constant_weights(bits: int, depth: int, block: int, zeros: str) -> None:
    if bits == 8 and zeros == "real":
        pytest.skip("ONNX Runtime has no kernel for 8 bits with real zero points")
    check(constant(case(bits, depth, block, zeros)))


@pytest.mark.parametrize("zeros", ["", "packed"])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_computed_weights(bits: int, zeros: str) -> None:
    check(case(bits, 40, 32, zeros))


@pytest.mark.parametrize("zeros", ["", "packed", "real"])
def test_weights_beyond_the_limit(zeros: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Constant weights of a model that is too large to unpack at once stay packed."""
    one = constant(case(4, 40, 32, zeros))
    assert _stored_bytes(one) >= 40 * COLUMNS * 4
    monkeypatch.setattr(few_bits, "MAX_UNPACKED_BYTES", 0)
    assert _stored_bytes(one) < 40 * COLUMNS * 4
    check(one)


def _stored_bytes(one: Case) -> int:
    func = from_onnx(one.model())["main"]
    return sum(node.data.numpy().nbytes for node in walk(func) if isinstance(node, Constant))


@pytest.mark.parametrize("wrong", ["b", "scales", "zeros"])
@pytest.mark.parametrize("is_constant", [True, False])
def test_damaged_weights(wrong: str, is_constant: bool) -> None:
    one = case(4, 40, 32, "packed")
    one = replace(one, feed={**one.feed, wrong: one.feed[wrong][:-1]})
    with pytest.raises(ImportModelError):
        from_onnx((constant(one) if is_constant else one).model())


@pytest.mark.parametrize("bits", [4, 8])
def test_free_rows(bits: int) -> None:
    runs = [constant(case(bits, 64, 32, "", rows)) for rows in ((2, 3), (1, 1), (5, 7))]
    # The weights are those of the first.
    feeds = [{**runs[0].feed, "a": run.feed["a"]} for run in runs]
    free = {"a": ("n", "m", 64)}
    first, *others = [replace(runs[0], feed=feed, free=free) for feed in feeds]
    check(first, others=others)


def test_float16() -> None:
    check(constant(case(4, 64, 32, "packed")).as_type("float16"))
