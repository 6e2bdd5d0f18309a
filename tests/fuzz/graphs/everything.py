"""All recipes: importing this module fills their table."""

from __future__ import annotations

from tests.fuzz.graphs.recipes import (
    contraction,
    control,
    elementwise,
    indexing,
    motifs,
    narrow,
    old_forms,
    shapes,
)

__all__ = ["contraction", "control", "elementwise", "indexing", "motifs", "narrow", "old_forms", "shapes"]
