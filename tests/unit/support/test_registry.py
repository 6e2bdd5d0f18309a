"""Registries that are filled when something is missing."""

from __future__ import annotations

import pytest

from heddle.support.diagnostics import MissingNameError
from heddle.support.registry import Registry


def test_source_is_asked_once_and_only_when_needed() -> None:
    table: Registry[int] = Registry("number")
    table.add("one", 1)
    calls = []

    def declare() -> None:
        calls.append("declare")
        table.add("two", 2)

    table.fill_from(declare)
    assert table["one"] == 1
    assert calls == []
    assert table["two"] == 2
    with pytest.raises(MissingNameError, match="S0202"):
        table["three"]
    assert calls == ["declare"]
    assert list(table) == ["one", "two"]
