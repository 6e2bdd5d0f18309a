"""What test programs use: closeness, parameters of tests, what this machine can do."""

from heddle.testing import env
from heddle.testing.checks import assert_allclose, assert_prim_expr_equal
from heddle.testing.pytest_glue import device_enabled, enabled_targets, main, parameter

__all__ = [
    "assert_allclose",
    "assert_prim_expr_equal",
    "device_enabled",
    "enabled_targets",
    "env",
    "main",
    "parameter",
]
