"""Declaring Relay's names, after the operators themselves."""

from __future__ import annotations

from collections import defaultdict

from heddle.ir.op_def import OpAlias, declare_aliases
from heddle.ops.relay_names import (
    anchors,
    blocks,
    chance,
    computed,
    deformed,
    detections,
    elementwise,
    fixed_point,
    images,
    losses,
    networks,
    pixels,
    positions,
    quantized,
    ranges,
    reduction,
    shapes,
    sparse,
    special,
)

FAMILIES = (
    elementwise,
    shapes,
    special,
    reduction,
    positions,
    networks,
    pixels,
    deformed,
    images,
    losses,
    blocks,
    fixed_point,
    quantized,
    computed,
    ranges,
    detections,
    anchors,
    chance,
    sparse,
)


def declare() -> None:
    """Put the names into the tables, those of one record together."""
    rows: dict[str, list[OpAlias]] = defaultdict(list)
    for family in FAMILIES:
        for record, name in family.aliases():
            rows[record].append(name)
    for record, names in rows.items():
        declare_aliases(record, names)
