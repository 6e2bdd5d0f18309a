"""Rotary position embedding (Su et al. 2021, RoFormer, section 3.2): each pair of features is turned by an
angle that grows with the position.

    angle(p, i) = p · scale · frequency(i),  frequency(i) = theta^(-2i / rotary_dim),  0 ≤ i < rotary_dim /
    2 first'  = first · cos(angle) − second · sin(angle)
    second' = second · cos(angle) + first · sin(angle)

`rope_scaling["rope_type"]` changes what a pair is, or its frequency:

| type | pair i | frequency |
|---|---|---|
| absent, "" or "none" | features i and i + rotary_dim / 2 | as above |
| "gptj" | features 2i and 2i + 1 | as above |
| "llama3" | as absent | long waves are slowed down by `factor`, short ones kept, between them a blend |
| "longrope" | as absent | divided by an external factor for each pair; cos and sin are scaled as well |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from heddle.frontend.codes import N0401
from heddle.frontend.nn.llm.vectors import as_float32, lanes_of, load, ramp, splat
from heddle.prim.intrinsics import cos, pow, sin
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import cast, maximum, minimum
from heddle.support.diagnostics import UsageError, did_you_mean
from heddle.support.frozen import frozen
from heddle.tir.builder import StmtBuilder
from heddle.tir.nodes import Buffer

ROPE_TYPES = ("none", "gptj", "llama3", "longrope")
_LLAMA3_KEYS = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
Vector = Callable[[PrimExpr], PrimExpr]
"""From indices of features to their values."""


@frozen(slots=False)
class Rope:
    """A kind of rotation of the first `rotary_dim` of `head_dim` features. Raises: UsageError N0401."""

    head_dim: int
    rotary_dim: int
    scaling: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.kind not in ROPE_TYPES:
            raise UsageError(
                N0401, f"unknown rope_type {self.kind!r}", help=did_you_mean(self.kind, ROPE_TYPES)
            )
        if self.rotary_dim % 2 or not 0 < self.rotary_dim <= self.head_dim:
            raise UsageError(
                N0401,
                f"expected an even rotary_dim of at most {self.head_dim} features, got {self.rotary_dim}",
            )
        wanted = {"llama3": _LLAMA3_KEYS, "longrope": ("original_max_position_embeddings",)}
        missing = [key for key in wanted.get(self.kind, ()) if key not in self.scaling]
        if missing:
            raise UsageError(N0401, f"rope_scaling of type {self.kind!r} lacks {', '.join(missing)}")

    @property
    def kind(self) -> str:
        """The name of the scaling as model files write it, "none" for none."""
        return str(self.scaling.get("rope_type") or "none")

    @property
    def pairs(self) -> int:
        """How many pairs of elements are rotated."""
        return self.rotary_dim // 2

    @property
    def magnitude(self) -> float:
        """What cos and sin are multiplied by (LongRoPE's attention factor; 1 elsewhere)."""
        original = self.scaling.get("original_max_position_embeddings")
        longest = self.scaling.get("max_position_embeddings")
        if self.kind != "longrope" or longest is None or original is None or longest <= original:
            return 1.0
        return math.sqrt(1 + math.log(longest / original) / math.log(original))

    def frequency(self, pair: PrimExpr, theta: Any) -> PrimExpr:
        """The angle's growth from one position to the next, in radians; float32."""
        exponent = cast("float32", pair) * (-2.0 / self.rotary_dim)
        plain = pow(cast("float32", theta), exponent)
        if self.kind != "llama3":
            return plain
        low, high = (float(self.scaling[key]) for key in ("low_freq_factor", "high_freq_factor"))
        turns = plain * (float(self.scaling["original_max_position_embeddings"]) / (2 * math.pi))
        blend = maximum(0.0, minimum(1.0, (turns - low) * (1.0 / (high - low))))
        slow = plain * (1.0 / float(self.scaling["factor"]))
        blended: PrimExpr = slow * (1.0 - blend) + plain * blend
        return blended

    def emit_frequencies(
        self, b: StmtBuilder, theta: Any, divisor: Callable[[PrimExpr], PrimExpr] | None = None
    ) -> Buffer:
        """A table of the pairs' frequencies, on the stack."""
        table = b.alloc("frequencies", (self.pairs,), "float32", "stack")
        with b.loop("pair", self.pairs, notes={"disable_unroll": True}) as pair:
            value = self.frequency(pair, theta)
            b.store(table, [pair], value if divisor is None else value / divisor(pair))
        return table

    def emit_row(
        self,
        b: StmtBuilder,
        source: Vector,
        write: Callable[[PrimExpr, PrimExpr], None],
        position: PrimExpr,
        table: Buffer,
    ) -> None:
        """Rotate one row of `head_dim` features.

        `source` gives features at indices; `write(indices, values)` takes float32 values; `position` is a
        float32, scaled already.
        """
        lanes, apart = lanes_of(self.pairs), self.kind != "gptj"
        with b.loop("step", self.pairs // lanes, notes={"disable_unroll": True}) as step:
            pair = step * lanes
            first = ramp(pair, lanes) if apart else ramp(pair * 2, lanes, 2)
            second = ramp(pair + self.pairs, lanes) if apart else ramp(pair * 2 + 1, lanes, 2)
            angle = b.let("angle", splat(position, lanes) * load(table, pair, lanes))
            size = splat(constant(self.magnitude, "float32"), lanes)
            cosine, sine = b.let("cosine", cos(angle) * size), b.let("sine", sin(angle) * size)
            x, y = b.let("x", as_float32(source(first))), b.let("y", as_float32(source(second)))
            write(first, x * cosine - y * sine)
            write(second, y * cosine + x * sine)
        copy_features(b, source, write, self.rotary_dim, self.head_dim)


def copy_features(
    b: StmtBuilder, source: Vector, write: Callable[[PrimExpr, PrimExpr], None], start: int, stop: int
) -> None:
    """Write features [start, stop) as they are, in float32."""
    if start == stop:
        return
    lanes = lanes_of(stop - start)
    with b.loop("step", (stop - start) // lanes, notes={"disable_unroll": True}) as step:
        index = ramp(step * lanes + start, lanes)
        write(index, as_float32(source(index)))
