"""Other sizes for a sample's symbolic dimensions: the same program must serve them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heddle.prim.nodes import PrimExpr
from tests.ops.cases import PARAMETER_ORDER, Case, Typed, flat, fresh_argument, input_kinds, is_axes


@dataclass(frozen=True)
class Run:
    """Arrays for a program's parameters and what it must give."""

    sizes: Mapping[PrimExpr, int]
    arrays: tuple[np.ndarray, ...]
    want: Any

    def is_no_greater(self, other: Run) -> bool:
        return all(size <= other.sizes[var] for var, size in self.sizes.items())


def runs(case: Case, typed: Typed, arguments: tuple[Any, ...], want: Any) -> Iterator[Run]:
    """The sample itself, and where it is symbolic: all dimensions grown, all 1, and each one 0 in turn."""
    yield Run(typed.sizes, tuple(typed.arrays), want)
    known = list(typed.sizes.values())
    if not known:
        return

    def accepted(mapping: dict[int, int]) -> Run | None:
        return _run(case, typed, arguments, want, mapping)

    shrunk = [dict.fromkeys(known, 1)]
    shrunk += [{size: 0 if size == zero else size for size in known} for zero in known]
    for found in (_grown(known, accepted), *map(accepted, shrunk)):
        if found is not None:
            yield found


def _grown(known: list[int], accepted: Callable[[dict[int, int]], Run | None]) -> Run | None:
    """All sizes one greater; where the operator does not take that, those that it takes, or doubled."""
    found = accepted({size: size + 1 for size in known})
    mapping = {size: size for size in known}
    for size in known if found is None else ():
        for greater in (size + 1, size * 2):
            one_more = accepted({**mapping, size: greater})
            if one_more is not None:
                found, mapping = one_more, {**mapping, size: greater}
                break
    return found


def _run(
    case: Case, typed: Typed, arguments: tuple[Any, ...], typed_want: Any, mapping: dict[int, int]
) -> Run | None:
    """None where the operator does not take these sizes."""
    kinds = input_kinds(case.record, len(arguments))
    rng = np.random.default_rng(1 + sum(mapping.values()))
    given = arguments if case.sample.make is not None else case.sample.shapes
    resized = tuple(
        value if is_axes(case.record, k) else _resized(rng, kind, value, case, mapping)
        for k, (kind, value) in enumerate(zip(kinds, given, strict=True))
    )
    if case.record.name == "reshape" and -1 in resized[1] and 0 in resized[1] and 0 not in given[1]:
        return None  # numbers alone do not say that a free size is 0: see test_edges
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            want = case.record.reference(typed.call.attrs, *resized)
    except (ValueError, IndexError, ZeroDivisionError, AssertionError):
        return None
    if [array.ndim for array in flat(want)] != [array.ndim for array in flat(typed_want)]:
        return None  # squeeze drops the axes that are 1 when it is compiled
    sizes = {var: mapping[size] for var, size in typed.sizes.items()}
    in_order = [
        value for now in PARAMETER_ORDER for value, kind in zip(resized, kinds, strict=True) if kind in now
    ]
    return Run(sizes, tuple(_arrays(in_order)), want)


def _resized(rng: Any, kind: str, value: Any, case: Case, mapping: dict[int, int]) -> Any:
    """An argument of other sizes: fresh data where the sample gives a shape, else its own elements again."""
    if isinstance(value, np.ndarray):
        index = [np.arange(mapping.get(size, size)) % size for size in value.shape]
        return np.ascontiguousarray(value[np.ix_(*index)]) if value.ndim else value
    if kind == "tensor":
        return fresh_argument(rng, kind, tuple(mapping.get(size, size) for size in value), case.dtype)
    if isinstance(value, (tuple, list)):
        inner = "tensor" if kind == "tensors" else "any"
        return tuple(_resized(rng, inner, item, case, mapping) for item in value)
    return mapping.get(value, value) if isinstance(value, int) and not isinstance(value, bool) else value


def _arrays(arguments: Any) -> Iterator[np.ndarray]:
    for value in arguments:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _arrays(value)


def other_sizes(arrays: Sequence[np.ndarray]) -> Iterator[tuple[np.ndarray, ...]]:
    """The arrays with one size of one of them one less, and one more, all in turn."""
    for position, array in enumerate(arrays):
        for axis, size in enumerate(array.shape):
            for changed in (size - 1, size + 1):
                if changed >= 0:
                    resized = list(array.shape)
                    resized[axis] = changed
                    other = np.zeros(resized, array.dtype)
                    if size:
                        other = np.take(array, np.arange(changed) % size, axis)
                    yield (*arrays[:position], other, *arrays[position + 1 :])
