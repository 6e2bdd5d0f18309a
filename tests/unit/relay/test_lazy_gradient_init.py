"""Zeros and ones of gradients that are made only where they are needed: values and types stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.ir.structural import assert_structural_equal, structural_equal
from heddle.relay import transform as passes
from tests.unit.relay.programs import plain, program
from tests.unit.relay.test_gradient import PROGRAMS, as_arrays, close, with_gradient

STEP = passes.LazyGradientInit()
X = "%x: Tensor[(2, 3), float32]"


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_programs(name: str) -> None:
    text, args, wanted = PROGRAMS[name]
    mod = with_gradient(text)
    made = STEP(mod)
    assert structural_equal(made["main"].ty, mod["main"].ty)
    assert_structural_equal(relay.parse(made.astext()), made)
    given = [as_arrays(arg) for arg in args]
    for kind in ("debug", "vm"):
        close(plain(relay.create_executor(kind, made).evaluate()(*given)), wanted)


VALUES: dict[str, tuple[str, Any]] = {
    "sums of zeros": (f"def @main({X}) {{ add(zeros_like(%x), add(%x, zeros_like(%x))) }}", lambda x: x),
    "products with ones": (f"def @main({X}) {{ multiply(ones_like(%x), %x) }}", lambda x: x),
    "a product of zeros": (f"def @main({X}) {{ multiply(zeros_like(%x), exp(%x)) }}", lambda x: 0 * x),
    "sizes that are stated": (
        f'def @main({X}) {{ add(%x, zeros(shape=[2, 3], dtype="float32")) }}',
        lambda x: x,
    ),
    "zeros that broadcast": (
        f'def @main({X}) {{ add(%x, zeros(shape=[4, 2, 3], dtype="float32")) }}',
        lambda x: np.stack([x] * 4),
    ),
    "free sizes": ("def @main(%x: Tensor[(?, 3), float32]) { add(%x, ones_like(%x)) }", lambda x: x + 1),
    "tuples and branches": (
        f"def @main({X}) {{ let %p = if (less(sum(%x), 0f)) {{ (zeros_like(%x), %x) }} else "
        "{ (%x, ones_like(%x)) }; add(split(%p.0, indices_or_sections=3, axis=1).1, %p.1) }",
        lambda x: 0 * x + x if x.sum() < 0 else x[:, 1:2] + np.ones_like(x),
    ),
    "references": (
        f"def @main({X}) {{ let %r = ref((%x, 1)); let %u = ref_write(%r, (zeros_like(%x), 2)); "
        "add(ref_read(%r).0, %x) }",
        lambda x: x,
    ),
    "generic functions and data": (
        "type P[A, B] { Q(A, B) } type N { M(int32) } "
        "def @first[A, B](%p: P[A, B]) -> A { match (%p) { Q(%a, _) => %a } } "
        f"def @twice(%x: Tensor[(2, 3), float32]) -> (Tensor[(2, 3), float32], int32) {{ (add(%x, %x), 1) }} "
        f"def @main({X}) {{ @twice(add(zeros_like(%x), @first(Q(%x, 1)))).0 }}",
        lambda x: x + x,
    ),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("kind", ["debug", "vm"])
def test_values_and_types_stay(name: str, kind: str) -> None:
    text, wanted = VALUES[name]
    mod = program(text)
    made = STEP(mod)
    assert made is not mod and structural_equal(made["main"].ty, mod["main"].ty)
    assert_structural_equal(relay.parse(made.astext()), made)
    x = np.random.default_rng().standard_normal((2, 3)).astype("float32")
    close(plain(relay.create_executor(kind, made).evaluate()(x)), wanted(x))


STAY = {
    "no zeros": f"def @main({X}) {{ add(%x, %x) }}",
    "references to functions": "def @main(%x: float32) { "
    "let %r = ref(fn (%y: float32) { %y + zeros_like(%x) }); ref_read(%r)(%x) }",
    "references to anything": "def @new[A](%x: A) -> ref(A) { ref(%x) } "
    "def @main(%x: float32) { ref_read(@new(zeros_like(%x))) }",
    "data of tensors": "type T { L(float32) } "
    "def @main(%x: float32) { match (L(zeros_like(%x))) { L(%y) => %y } }",
    "functions over tensors": "def @f(%g: fn (float32) -> float32) -> float32 { %g(1f) } "
    "def @main(%x: float32) { @f(fn (%y: float32) { %y + zeros_like(%x) }) }",
    "global functions as values": "def @f(%x: float32) -> float32 { %x } "
    "def @main(%x: float32) { let %g = @f; %g(zeros_like(%x)) }",
}


@pytest.mark.parametrize("name", STAY)
def test_other_functions_stay(name: str) -> None:
    mod = program(STAY[name])
    assert STEP(mod) is mod


def test_zeros_are_made_where_they_are_needed() -> None:
    """Nothing is added to zeros and nothing multiplied by ones: the machine runs two kernels less."""
    mod = program(f"def @main({X}) {{ add(zeros_like(%x), multiply(ones_like(%x), %x)) }}")
    steps = [STEP, passes.PartialEvaluate(), passes.DeadCodeElimination(), passes.RemoveUnusedFunctions()]
    made = heddle.transform.Sequential(steps)(mod)
    assert structural_equal(made["main"], program(f"def @main({X}) {{ %x }}")["main"])


def test_a_second_time_changes_nothing() -> None:
    made = STEP(program(f"def @main({X}) {{ add(%x, zeros_like(%x)) }}"))
    assert STEP(made) is made
