"""Iterator maps, checked by enumerating all points."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.arith import (
    Analyzer,
    IterMapLevel,
    detect_iter_map,
    inverse_affine_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
    normalize_to_iter_sum,
    subspace_divide,
)
from heddle.ir.structural import structural_equal
from heddle.prim import ops
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import IntImm, Range, SizeVar, Var
from heddle.prim.substitute import free_vars
from heddle.support.diagnostics import UsageError

I, J, K, F = (Var(name, "int64") for name in "ijkf")
N, M = SizeVar("n"), SizeVar("m")


def dom(low: Any, high: Any = None) -> Range:
    low, high = (0, low) if high is None else (low, high)
    low, high = (IntImm("int64", end) if isinstance(end, int) else end for end in (low, high))
    return Range(low, high)


def enumerate_map(indices: Any, iters: Any, predicate: Any) -> list[tuple[tuple[int, ...], dict[Var, int]]]:
    """Each point where the predicate holds, with the indices' values there."""
    spans = [range(r.min.value, r.min.value + r.extent.value) for r in iters.values()]
    found = []
    for values in itertools.product(*spans):
        env = dict(zip(iters, values, strict=True))
        if predicate is True or evaluate(predicate, env):
            found.append((tuple(evaluate(index, env) for index in indices), env))
    return found


def check_constant_map(indices: Any, iters: Any, predicate: Any = True, level: str = "bijective") -> bool:
    """Detect, and compare everything that is claimed with the enumeration. Whether something was detected."""
    result = detect_iter_map(indices, iters, predicate, level)
    if not result.indices:
        assert result.errors
        return False
    assert len(result.indices) == len(indices)
    points = enumerate_map(indices, iters, predicate)
    analyzer = Analyzer()
    exprs = [normalize_iter_map_to_expr(item, analyzer) for item in result.indices]
    for outputs, env in points:
        assert tuple(evaluate(expr, env) for expr in exprs) == outputs
    extents = [item.args[0].extent.value if item.args else 1 for item in result.indices]
    image = {outputs for outputs, _ in points}
    size = 1
    for extent in extents:
        size *= extent
    assert len(image) == size, "the image is not the product of the extents"
    if level == "bijective":
        assert len(points) == len(image), "two points have one image"
        check_inverse(result.indices, points)
    return True


def check_inverse(found: Any, points: Any) -> None:
    outputs = [Var(f"out{index}", "int64") for index in range(len(found))]
    inverse = inverse_affine_iter_map(found, outputs)
    for values, env in points:
        known = dict(zip(outputs, values, strict=True))
        for var, expr in inverse.items():
            assert evaluate(expr, known) == env[var]


BIJECTIVE = {
    "fused": ([I * 8 + J], {I: dom(4), J: dom(8)}, True),
    "fused three": ([(I * 4 + J) * 6 + K], {I: dom(2), J: dom(4), K: dom(6)}, True),
    "split": ([F // 8, F % 8], {F: dom(32)}, True),
    "split three": ([F // 24, F // 4 % 6, F % 4], {F: dom(48)}, True),
    "fuse and split": ([(I * 6 + J) // 4, (I * 6 + J) % 4], {I: dom(4), J: dom(6)}, True),
    "fuse and split across": ([(I * 8 + J) // 16, (I * 8 + J) % 16], {I: dom(4), J: dom(8)}, True),
    "swapped": ([J, I], {I: dom(4), J: dom(8)}, True),
    "offset": ([I + 3, J], {I: dom(4), J: dom(2, 8)}, True),
    "negative start": ([I * 4 + J], {I: dom(-2, 2), J: dom(4)}, True),
    "predicate": ([I * 8 + J], {I: dom(5), J: dom(8)}, I * 8 + J < 35),
    "two predicates": (
        [I * 8 + J, K * 4 + F],
        {I: dom(2), J: dom(8), K: dom(3), F: dom(4)},
        ops.logical_and(I * 8 + J < 13, K * 4 + F < 11),
    ),
    "lower and upper": ([I * 4 + J], {I: dom(4), J: dom(4)}, ops.logical_and(I * 4 + J >= 3, I * 4 + J < 14)),
    "trivial": ([I, J], {I: dom(1), J: dom(8)}, True),
    "scaled": ([I * 2, J], {I: dom(4), J: dom(3)}, True),
}
NOT_BIJECTIVE = {
    "gap": ([I * 9 + J], {I: dom(4), J: dom(8)}, True),
    "overlap": ([I + J], {I: dom(4), J: dom(8)}, True),
    "missing": ([I], {I: dom(4), J: dom(8)}, True),
    "repeated": ([I, I], {I: dom(4)}, True),
    "product": ([I * J], {I: dom(4), J: dom(8)}, True),
    "not divisible": ([F // 8, F % 8], {F: dom(30)}, True),
    "half": ([F // 8], {F: dom(32)}, True),
    "other predicate": ([I, J], {I: dom(4), J: dom(8)}, I * 8 + J < 20),
}


@pytest.mark.parametrize("name", BIJECTIVE)
def test_bijective(name: str) -> None:
    assert check_constant_map(*BIJECTIVE[name])


@pytest.mark.parametrize("name", NOT_BIJECTIVE)
def test_not_bijective(name: str) -> None:
    assert not check_constant_map(*NOT_BIJECTIVE[name])


def test_surjective_may_drop_iterators() -> None:
    assert check_constant_map([F // 8], {F: dom(32)}, level="surjective")
    assert check_constant_map([I], {I: dom(4), J: dom(8)}, level="surjective")
    assert check_constant_map([F % 4, F // 8], {F: dom(32)}, level="surjective")


@pytest.mark.parametrize(
    ("indices", "iters", "predicate", "extents"),
    [
        ([I * M + J], {I: dom(N), J: dom(M)}, True, [M * N]),
        ([F // M, F % M], {F: dom(N * M)}, True, [N, M]),
        ([I // 8, I % 8], {I: dom(N * 8)}, True, [N, IntImm("int64", 8)]),
        ([I * 32 + J], {I: dom((N + 31) // 32), J: dom(32)}, I * 32 + J < N, [N]),
        ([I, J], {I: dom(N), J: dom(M)}, True, [N, M]),
    ],
)
def test_symbolic(indices: Any, iters: Any, predicate: Any, extents: Any) -> None:
    result = detect_iter_map(indices, iters, predicate, IterMapLevel.Bijective)
    assert result.errors == ()
    for item, extent in zip(result.indices, extents, strict=True):
        assert Analyzer().can_prove_equal(item.args[0].extent, extent)


def test_symbolic_split_needs_divisibility() -> None:
    assert detect_iter_map([I // 8, I % 8], {I: dom(N)}, check_level="bijective").errors


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_random_splits_and_fusions(data: Any) -> None:
    """Split and fuse at random; whatever is detected must be what enumeration finds."""
    iters = {var: dom(data.draw(st.sampled_from((1, 2, 3, 4, 6)))) for var in (I, J, K)}
    live: list[tuple[Any, int]] = [(var, r.extent.value) for var, r in iters.items()]
    for _ in range(data.draw(st.integers(1, 4))):
        pick = data.draw(st.integers(0, len(live) - 1))
        expr, extent = live.pop(pick)
        if data.draw(st.booleans()) and live:
            other, size = live.pop(data.draw(st.integers(0, len(live) - 1)))
            live.append((expr * size + other, extent * size))
            continue
        factor = data.draw(st.sampled_from((2, 3, 4)))
        if extent % factor:
            live.append((expr, extent))
        else:
            live += [(expr // factor, extent // factor), (expr % factor, factor)]
    assert check_constant_map([expr for expr, _ in live], iters), "splits and fusions are bijective"


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_random_sums_are_never_misjudged(data: Any) -> None:
    iters = {var: dom(data.draw(st.sampled_from((2, 3, 4)))) for var in (I, J)}
    scales = data.draw(st.tuples(*[st.sampled_from((1, 2, 3, 4, 8))] * 2))
    index = I * scales[0] + J * scales[1] + data.draw(st.integers(0, 3))
    divisor = data.draw(st.sampled_from((2, 3, 4)))
    choices = [[index], [index // divisor, index % divisor], [index // divisor], [I, index]]
    indices = data.draw(st.sampled_from(choices))
    limit = data.draw(st.sampled_from((None, 5, 9)))
    predicate = True if limit is None else index < limit
    for level in ("bijective", "surjective"):
        check_constant_map(indices, iters, predicate, level)


def test_simplify_and_normalize() -> None:
    assert iter_map_simplify([(I * 8 + J) // 8, (I * 8 + J) % 8], {I: dom(4), J: dom(8)}) == [I, J]
    found = normalize_to_iter_sum(J + I * 8 + N, {I: dom(4), J: dom(8)})
    assert [arg.scale.value for arg in found.args] == [8, 1]
    assert found.base is N
    assert structural_equal(normalize_iter_map_to_expr(found), I * 8 + J + N)


@pytest.mark.parametrize(
    ("bindings", "iters", "inner", "predicate"),
    [
        ([I * 8 + J * 4 + K], {I: dom(3), J: dom(2), K: dom(4)}, [J, K], True),
        ([I * 8 + J, K], {I: dom(3), J: dom(8), K: dom(4)}, [J, K], True),
        ([I * 8 + J + 16], {I: dom(3), J: dom(8)}, [J], True),
        ([I, J + 3], {I: dom(3), J: dom(8)}, [J], True),
        ([I * 4 + F, J * 2 + K], {I: dom(3), F: dom(4), J: dom(3), K: dom(2)}, [F, K], True),
        ([I, J * 4 + K], {I: dom(3), J: dom(3), K: dom(4)}, [J, K], J * 4 + K < 10),
    ],
)
def test_subspace_divide(bindings: Any, iters: Any, inner: Any, predicate: Any) -> None:
    """index = outer * inner extent + inner; outer parts use no inner iterator, inner parts no other."""
    *pairs, conditions = subspace_divide(bindings, iters, inner, predicate)
    assert len(pairs) == len(bindings)
    for _, env in enumerate_map(bindings, iters, predicate):
        for index, (outer, within) in zip(bindings, pairs, strict=True):
            high, low = (normalize_iter_map_to_expr(mark.source) for mark in (outer, within))
            assert not set(free_vars(high)) & set(inner)
            assert set(free_vars(low)) <= set(inner)
            value = evaluate(high, env) * evaluate(within.extent, env) + evaluate(low, env)
            assert value == evaluate(index, env)
        assert all(evaluate(mark.extent, env) for mark in conditions)


def test_subspace_must_be_the_finest_digits() -> None:
    assert subspace_divide([I * 8 + J], {I: dom(3), J: dom(8)}, [I]) == []
    assert subspace_divide([I * 8 + J], {I: dom(3), J: dom(8)}, [J], I * 8 + J < 20) == []


@pytest.mark.parametrize(
    ("level", "text"),
    [
        ("bijectiv", "did you mean 'bijective'?"),
        ("Surjectve", "did you mean 'surjective'?"),
        ("no-check", "did you mean 'nocheck'?"),
        ("all", "the levels are bijective, surjective, nocheck"),
        (2, "expected one of IterMapLevel (Bijective, Surjective, NoCheck), got 2"),
        (None, "got None"),
    ],
)
def test_a_misspelt_level_is_an_error(level: Any, text: str) -> None:
    """Not the level that checks nothing."""
    for call in (detect_iter_map, iter_map_simplify):
        with pytest.raises(UsageError, match="A0102") as error:
            call([I], {I: dom(4)}, check_level=level)
        assert text in str(error.value)
    with pytest.raises(UsageError, match="A0102"):
        subspace_divide([I], {I: dom(4)}, [I], check_level=level)


@pytest.mark.parametrize("level", list(IterMapLevel))
def test_levels_by_name(level: IterMapLevel) -> None:
    assert IterMapLevel.from_str(level.name) is IterMapLevel.from_str(level.name.upper()) is level
