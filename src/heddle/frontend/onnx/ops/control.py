"""Control flow."""

from __future__ import annotations
