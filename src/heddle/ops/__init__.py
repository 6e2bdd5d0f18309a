"""The operators: one record each. `load()` puts them into the table, once."""

from __future__ import annotations

from heddle.ops.load import load

__all__ = ["load"]
