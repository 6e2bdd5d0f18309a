"""Test programs in TVM's style as pytest programs."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

from heddle.runtime.device import cpu
from heddle.target import TARGET_KINDS, Target

try:
    import pytest
except ImportError:  # an optional dependency: the rest of heddle.testing works without it
    pytest = None  # type: ignore[assignment]


def parameter(
    *values: Any, ids: Sequence[str] | Callable[[Any], str] | None = None, by_dict: Any = None
) -> Any:
    """A fixture that gives each value in turn; `by_dict` maps ids to values."""
    if by_dict is not None:
        ids, values = tuple(by_dict), tuple(by_dict.values())

    def give(request: Any) -> Any:
        return request.param

    return pytest.fixture(params=values, ids=ids)(give)


def main() -> None:
    """Run the calling file's tests and leave with pytest's exit code."""
    caller = inspect.stack()[1].filename
    sys.exit(pytest.main([caller, *sys.argv[1:]]))


def device_enabled(target: str | Target) -> bool:
    """Whether programs for a target can be compiled and run here."""
    kind = target.kind.name if isinstance(target, Target) else str(target).split()[0]
    return kind in TARGET_KINDS and TARGET_KINDS[kind].device == "cpu" and kind != "c"


def enabled_targets() -> list[tuple[str, Any]]:
    """Targets to test with, each with its device."""
    return [("llvm", cpu())]
