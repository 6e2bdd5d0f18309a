"""Whether what callers give to primitives are whole numbers, where a parameter's annotation asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Signature
from numbers import Integral
from typing import Any

from heddle.prim.nodes import PrimExpr
from heddle.support.diagnostics import Code
from heddle.tir.nodes import PrimFunc
from heddle.tir.schedule.error import ScheduleError


def _is_int(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_size(value: object) -> bool:
    return _is_int(value) or (isinstance(value, PrimExpr) and (value.dtype.is_int or value.dtype.is_unsigned))


def _all(test: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda values: (
        isinstance(values, Sequence) and not isinstance(values, str) and all(test(value) for value in values)
    )


_TESTS: dict[str, Callable[[object], bool]] = {
    "int": _is_int,
    "int | None": lambda value: value is None or _is_int(value),
    "int | PrimExpr": _is_size,
    "Sequence[int]": _all(_is_int),
    "Sequence[int] | None": lambda value: value is None or _all(_is_int)(value),
    "Sequence[int | PrimExpr | None]": _all(lambda value: value is None or _is_size(value)),
}


def check_numbers(
    func: PrimFunc, name: str, parameters: Signature, given: Mapping[str, Any], code: Code | None
) -> None:
    """Raises: ScheduleError of the given code for an argument of another kind than its parameter's."""
    for parameter, value in given.items():
        test = _TESTS.get(parameters.parameters[parameter].annotation)
        if code is not None and test is not None and not test(value):
            kind = "a whole number" if test in (_is_int, _is_size) else "whole numbers"
            raise ScheduleError(code, f"{name}: {parameter} is {value!r}, expected {kind}", func)
