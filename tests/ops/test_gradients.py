"""Gradients of operators against numerical differences, for each sample of each record that has a rule.

The rule's expression is made in the graph dialect and run by the graph interpreter, in float64. The result
is weighed with random numbers; what the rule gives for an argument is compared with differences of that sum
along random directions.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from heddle.graph.block_builder import BlockBuilder
from heddle.graph.gradient import backwards, flows_to
from heddle.graph.infer import type_of
from heddle.graph.op_builder import call_op
from heddle.graph.types import TensorType
from heddle.graph.words import GraphWords
from heddle.ir.expr import Tuple, Var
from heddle.ir.op_def import OpDef, Without, check_gradients
from heddle.ir.types import TupleType
from heddle.relax.interpreter import GraphInterpreter
from heddle.support.diagnostics import IRTypeError
from tests.ops.cases import Case, Typed, cases, flat, records, typed

REFUSED = {
    "nn.adaptive_avg_pool1d": "several windows",
    "nn.adaptive_avg_pool2d": "several windows",
    "nn.adaptive_avg_pool3d": "several windows",
    "nn.adaptive_max_pool1d": "several windows",
    "nn.adaptive_max_pool2d": "several windows",
    "nn.adaptive_max_pool3d": "several windows",
    "dynamic_pad": "of mode|must be known",
    "einsum": "letter|ellipsis",
    "gather_nd": "batch_dims",
    "nn.pad": "of mode|negative",
    "scatter_elements": "of the reduction",
    "scatter_nd": "of the reduction",
    "strided_slice": "must be known",
    "take": "in a row",
}
"""Operators whose rules refuse some samples, and what they say."""
STEP = 1e-5


def chosen() -> Iterator[Case]:
    seen = set()
    for case in cases():
        key = case.record.name, case.index
        if not isinstance(case.record.gradient, Without) and key not in seen and case.dtype == "float32":
            seen.add(key)
            yield case


CASES = list(chosen())


def test_every_operator_with_code_says_what_its_gradient_is() -> None:
    check_gradients()


def in_float64(values: Any) -> Any:
    if isinstance(values, tuple):
        return tuple(map(in_float64, values))
    return (
        values.astype("float64") if isinstance(values, np.ndarray) and values.dtype == "float32" else values
    )


def apart(values: Any, rng: Any) -> Any:
    """Values that are not equal: where they are, there is no slope."""
    if isinstance(values, tuple):
        return tuple(apart(item, rng) for item in values)
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f":
        return values
    return np.asarray(values * (1 + rng.uniform(-1e-2, 1e-2, size=values.shape)))


def wide(case: Case) -> tuple[Typed, tuple[Any, ...]]:
    rng = np.random.default_rng(len(case.id))
    arguments = apart(in_float64(tuple(case.arguments())), rng)
    return typed(case, arguments, False), arguments


def is_smooth(array: np.ndarray) -> bool:
    return array.size > 0 and (array.dtype.kind != "f" or bool(np.isfinite(array).all()))


def gradient_function(made: Typed, seeds: list[np.ndarray]) -> Any:
    """A function of the arguments and of seeds, that gives what each float argument gets, by the rule."""
    builder = BlockBuilder()
    params = [param for param in made.params if isinstance(param.ty, TensorType)]
    given = [Var(f"d{k}", TensorType(seed.shape, str(seed.dtype))) for k, seed in enumerate(seeds)]
    with builder.function("main", [*made.params, *given]):
        with builder.dataflow():
            result = builder.emit(made.call)
            ty = type_of(result)
            grad = tuple(given) if isinstance(ty, TupleType) else given[0]
            found = backwards(made.call, params, params, result, grad, GraphWords(builder))
            parts = [
                part if part is not None else builder.emit(_zeros(param))
                for param, part in zip(params, found, strict=True)
                if flows_to(param.ty)
            ]
            out = builder.emit_output(Tuple(tuple(parts)))
        builder.emit_func_output(out)
    return GraphInterpreter(builder.get())["main"]


def _zeros(param: Var) -> Any:
    return call_op("zeros_like", param)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_rule_is_the_slope(case: Case) -> None:
    made, arguments = wide(case)
    reference = lambda values: [  # noqa: E731
        np.asarray(leaf) for leaf in flat(case.record.reference(made.call.attrs, *values))
    ]
    rng = np.random.default_rng(zlib.crc32(case.id.encode()))
    results = reference(arguments)
    is_wide = any(leaf.dtype == "float64" for leaf in results)
    if not is_wide or not all(map(is_smooth, (*flat(arguments), *results))):
        pytest.skip("no wide floats, no elements, or infinite ones")
    seeds = [rng.standard_normal(leaf.shape).astype(leaf.dtype) for leaf in results]
    weigh = lambda leaves: sum(  # noqa: E731
        float((leaf.astype("float64") * seed).sum())
        for leaf, seed in zip(leaves, seeds, strict=True)
        if leaf.dtype.kind == "f"
    )
    try:
        function = gradient_function(made, seeds)
    except IRTypeError as error:
        words = REFUSED.get(case.record.name, "").split("|")
        if error.code != "R0210" or not any(word and word in str(error) for word in words):
            raise
        return
    found = flat(function(*made.arrays, *seeds))
    places = [k for k, array in enumerate(made.arrays) if array.dtype.kind == "f"]
    assert len(found) == len(places)
    for k, part in zip(places, found, strict=True):
        array = made.arrays[k]
        assert part.shape == array.shape and part.dtype == array.dtype
        for _ in range(2):
            direction = rng.choice([-1.0, 1.0], size=array.shape) * rng.uniform(0.5, 1, size=array.shape)
            slope = _slope(made, arguments, k, direction, reference, weigh)
            np.testing.assert_allclose((part * direction).sum(), slope, rtol=2e-4, atol=2e-4)


def _slope(made: Typed, arguments: Any, k: int, direction: Any, reference: Any, weigh: Any) -> float:
    ends = []
    for sign in (1, -1):
        moved = made.arrays[k] + sign * STEP * direction
        ends.append(weigh(reference(_with(arguments, made.arrays[k], moved))))
    return (ends[0] - ends[1]) / (2 * STEP)


def _with(values: Any, old: Any, new: Any) -> Any:
    """Arguments with one array in the place of another, which is found by its content's identity."""
    if isinstance(values, tuple):
        return tuple(_with(item, old, new) for item in values)
    return (
        new
        if isinstance(values, np.ndarray)
        and values.shape == old.shape
        and (values is old or _same(values, old))
        else values
    )


def _same(a: Any, b: Any) -> bool:
    return a.dtype == b.dtype and np.array_equal(a, b)


def test_operators_without_a_rule_say_why() -> None:
    without: list[OpDef] = [record for record in records() if isinstance(record.gradient, Without)]
    assert len(without) < 70 and all(len(str(record.gradient.reason)) > 10 for record in without)  # type: ignore[union-attr]
