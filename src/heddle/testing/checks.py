"""Assertions about numbers and expressions."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.arith import Analyzer


def assert_allclose(
    actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True
) -> None:
    """Arrays or tensors of one shape whose elements are close. Raises: AssertionError that says where they
    are not.
    """
    got, expected = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_allclose(got.shape, expected.shape)
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol, verbose=verbose)


def assert_prim_expr_equal(lhs: Any, rhs: Any) -> None:
    """Scalar expressions that are provably equal. Raises: AssertionError with both."""
    if not Analyzer().can_prove(lhs == rhs):
        raise AssertionError(f"{lhs} and {rhs} are not provably equal")
