"""What options of passes may be: their annotated types, and what their declarations say beyond those.

    min_size: int = option(2, at_least=1)
    dtypes: tuple[str, ...] = option(("float16",), one_of=("float16", "bfloat16"))

Every pass is checked when it is made, from Python and from text alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, field, fields
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from heddle.ir.codes import I0508
from heddle.support.diagnostics import UsageError, did_you_mean
from heddle.support.frozen import frozen

_METADATA = "heddle.option"
_SEQUENCES = (tuple, frozenset, set, list, Sequence)


@frozen
class Bounds:
    """What a value, or each item of one with several, has to be. `one_of` may be a function that gives the
    values."""

    one_of: Collection[Any] | Callable[[], Collection[Any]] = ()
    at_least: int | None = None

    def choices(self) -> Collection[Any]:
        """The values that there are; none where any will do."""
        return self.one_of() if callable(self.one_of) else self.one_of


@frozen
class ConfigKey:
    """A key of PassContext's `config`."""

    meaning: str
    kind: type
    bounds: Bounds


def option(
    default: Any = MISSING,
    *,
    one_of: Collection[Any] | Callable[[], Collection[Any]] = (),
    at_least: int | None = None,
) -> Any:
    """A field of a pass whose values are bounded."""
    return field(default=default, metadata={_METADATA: Bounds(one_of, at_least)})


def check_options(step: Any, owner: str | None = None) -> None:
    """Check the fields of a pass, or of `owner`, and convert lists to the annotated types.

    Raises: UsageError I0508 for a value of another type or out of bounds.
    """
    kind: Any = type(step)
    hints = _hints(kind)
    for item in fields(step):
        if item.name not in hints:
            continue
        value, hint = getattr(step, item.name), hints[item.name]
        what = f"option {item.name!r} of {owner or f'pass {kind.__name__}'}"
        check_value(what, value, hint, item.metadata.get(_METADATA))
        made = as_type(value, hint)
        if made is not value:
            object.__setattr__(step, item.name, made)


def check_value(what: str, value: Any, hint: Any, bounds: Bounds | None = None) -> None:
    """Raises: UsageError I0508 for a value of another type or out of bounds."""
    if not fits(value, hint):
        _refuse(what, type_text(hint), value)
    if bounds is not None:
        _check_bounds(what, value, bounds)


def _check_bounds(what: str, value: Any, bounds: Bounds) -> None:
    items = value if isinstance(value, (tuple, list, set, frozenset)) else (value,)
    choices = bounds.choices() if items else ()
    for item in items:
        if choices and item not in choices:
            shown = ", ".join(map(repr, sorted(choices))) if len(choices) <= 8 else "a known name"
            _refuse(what, shown, item, did_you_mean(str(item), list(map(str, choices))))
        if bounds.at_least is not None and item < bounds.at_least:
            _refuse(what, f"at least {bounds.at_least}", item)


def _refuse(what: str, expected: str, value: Any, help: str | None = None) -> None:
    raise UsageError(I0508, f"{what}: expected {expected}, got {value!r}", help=help)


@cache
def _hints(cls: type) -> Mapping[str, Any]:
    """The types of a pass's fields; those of a user's pass may name what only its function knows."""
    try:
        return get_type_hints(cls)
    except (NameError, TypeError):
        return {}


def type_text(hint: Any) -> str:
    """A type as messages name it."""
    if isinstance(hint, type) and not get_args(hint):
        return hint.__name__
    return re.sub(r"\w+\.", "", str(hint))


def fits(value: Any, hint: Any) -> bool:
    """Whether a value can be one of an annotated type. A list stands for any sequence, a whole number for a
    float; of a function only that it can be called; a protocol is not looked at."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(fits(value, part) for part in parts)
    if origin is tuple and parts[-1] is not Ellipsis:
        is_several = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
        return is_several and len(value) == len(parts) and all(map(fits, value, parts))
    if origin in _SEQUENCES:
        is_several = isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))
        return is_several and all(fits(item, parts[0]) for item in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            fits(key, parts[0]) and fits(item, parts[1]) for key, item in value.items()
        )
    if origin is Callable:
        return callable(value)
    if hint in (None, NoneType):
        return value is None
    if hint is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, Real) and not isinstance(value, bool)
    return not _is_plain(hint) or isinstance(value, hint)


def _is_plain(hint: Any) -> bool:
    return hint is not Any and isinstance(hint, type) and not getattr(hint, "_is_protocol", False)


def as_type(value: Any, hint: Any) -> Any:
    """A value as one of the type that it fits, hashable where passes keep it."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return as_type(value, next(part for part in parts if fits(value, part)))
    if origin is frozenset and not isinstance(value, frozenset):
        return frozenset(value)
    return tuple(value) if origin in (tuple, Sequence) and isinstance(value, (list, set)) else value
