"""Nodes whose results jump: where an error of rounding could take them over a step, engines may differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from tests.fuzz.graphs.values import EPSILON, FLOATS

STEPS = ("QuantizeLinear", "Cast", "Round", "Floor", "Ceil")
"""Operators that round their first input."""
PICKS = ("Hardmax", "Sign", "TopK", "Unique")
"""Operators on floats that choose among elements, or tell only which they are."""
ZEROS = ("Cast", "NonZero", "Sign")
"""Operators that tell 0 from all else, `Cast` where it is to bool."""
MANY_UNITS = 16
"""How many units of the element an error of a node's input may have, where the node makes a step of it."""
MOVES = (-8, -3, -1, 3, 8)
"""By how many times the error that was drawn inputs are moved, all at once: equal elements stay so."""

Run = Callable[[Mapping[str, Any]], Sequence[Any]]


def decides_a_step(
    node: NodeProto, clean: Mapping[str, Any], noisy: Mapping[str, Any], made: Sequence[Any], run: Run
) -> bool:
    """Whether errors of inputs could take what the node made, `made`, over a step. `clean` and `noisy` are
    its inputs by name, `run` evaluates it on others."""
    first = next(iter(clean), None)
    tells_zeros = node.op_type in ZEROS and (node.op_type != "Cast" or made[0].dtype == bool)
    if first is not None and tells_zeros and _is_float(clean[first]) and _may_vanish(first, clean, noisy):
        return True
    if node.op_type in STEPS:
        return first is not None and _is_float(clean[first]) and _rounds(first, clean, noisy, made, run)
    moving = {name for name, given in clean.items() if _is_float(given) and given is not noisy[name]}
    is_pick = node.op_type in PICKS or any(not _is_float(item) for item in made if not isinstance(item, list))
    if not moving or not is_pick:
        return False
    if node.op_type == "Unique" and _has_nearly_equal(clean[node.input[0]]):
        return True
    if node.op_type == "Equal":
        error = max(_largest_error(name, clean, noisy) for name in node.input)
        if _are_nearly_equal(*(clean[name] for name in node.input), error):
            return True
    with np.errstate(all="ignore"):
        return any(
            not _picks_the_same(node, made, run({**clean, **_moved(clean, noisy, moving, times)}))
            for times in MOVES
        )


def coarsest_inside(node: NodeProto, given: Sequence[Any]) -> float:
    """The unit of the coarsest float that bodies of the node may round to before they cast it to a finer one;
    0 where nothing is cast."""
    targets = _cast_to(node)
    if not targets:
        return 0.0
    arrays = (item for value in given for item in (value if isinstance(value, list) else [value]))
    floats = targets | {array.dtype.name for array in arrays}
    return max((EPSILON[name] for name in floats if name in EPSILON), default=0.0)


def _cast_to(node: NodeProto) -> set[str]:
    """The types that nodes in the bodies of a node cast to."""
    found = set()
    for inner in (each for attr in node.attribute for body in (attr.g, *attr.graphs) for each in body.node):
        if inner.op_type == "Cast":
            to = next(attr.i for attr in inner.attribute if attr.name == "to")
            found.add(helper.tensor_dtype_to_np_dtype(to).name)
        found |= _cast_to(inner)
    return found


def _is_float(item: Any) -> bool:
    return not isinstance(item, list) and item.dtype in FLOATS


def _rounds(
    first: str, clean: Mapping[str, Any], noisy: Mapping[str, Any], made: Sequence[Any], run: Run
) -> bool:
    given = clean[first]
    if made[0].dtype in FLOATS and made[0].dtype != given.dtype:
        return False  # a cast between floats
    wide = given.astype(np.float64)
    with np.errstate(all="ignore"):
        drawn = np.abs(noisy[first].astype(np.float64) - wide)
        error = MANY_UNITS * EPSILON[given.dtype.name] * np.abs(wide) + 4 * drawn
        for moved in (wide - error, wide + error):
            held = np.where(np.isfinite(moved), moved, wide).astype(given.dtype)
            if not np.array_equal(run({**clean, first: held})[0], made[0], equal_nan=True):
                return True
    return False


def _moved(clean: Mapping[str, Any], noisy: Mapping[str, Any], names: set[str], times: int) -> dict[str, Any]:
    moved = {}
    for name in names:
        wide, again = (item[name].astype(np.float64) for item in (clean, noisy))
        there = wide + times * (again - wide)
        moved[name] = np.where(np.isfinite(there), there, wide).astype(clean[name].dtype)
    return moved


def _largest_error(name: str, clean: Mapping[str, Any], noisy: Mapping[str, Any]) -> float:
    """How far elements of an input may be from what they are."""
    with np.errstate(all="ignore"):
        drawn = np.abs(noisy[name].astype(np.float64) - clean[name].astype(np.float64))
    return float(MANY_UNITS * drawn[np.isfinite(drawn)].max(initial=0))


def _may_vanish(name: str, clean: Mapping[str, Any], noisy: Mapping[str, Any]) -> bool:
    """Whether an element that is not 0 may be 0 elsewhere: a sum that almost cancels."""
    sizes = np.abs(clean[name].astype(np.float64))
    return bool(((sizes > 0) & (sizes < _largest_error(name, clean, noisy))).any())


def _has_nearly_equal(given: Any) -> bool:
    """Whether two elements are apart by a few units only: elsewhere they may be equal."""
    ordered = np.unique(given)
    return _are_nearly_equal(ordered[1:], ordered[:-1])


def _are_nearly_equal(a: Any, b: Any, error: float = 0.0) -> bool:
    """Whether two elements differ, by a few units or by less than `error`."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    units = np.maximum(error, MANY_UNITS * EPSILON[a.dtype.name] * np.maximum(np.abs(x), np.abs(y)))
    with np.errstate(invalid="ignore"):
        return bool(((x != y) & (np.abs(x - y) < units)).any())


def _picks_the_same(node: NodeProto, made: Sequence[Any], again: Sequence[Any]) -> bool:
    for mine, other in zip(made, again, strict=True):
        if isinstance(mine, list) or isinstance(other, list):
            continue
        if mine.shape != other.shape:
            return False
        if _is_float(mine) and node.op_type not in ("Hardmax", "Sign"):
            continue
        if not np.array_equal(mine, other, equal_nan=mine.dtype in FLOATS):
            return False
    return True
