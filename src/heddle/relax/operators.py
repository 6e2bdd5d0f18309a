"""Python operators on Relax expressions: `x + y` is `relax.add(x, y)`.

A Python number must be converted to a constant first, as in TVM, because its dtype is not known.
"""

from __future__ import annotations

from numbers import Number
from typing import Any

from heddle.graph.codes import R0103
from heddle.graph.op_builder import call_op
from heddle.ir.expr import Call, Expr
from heddle.ir.expr_operators import EXPRESSION_OPERATORS
from heddle.support.diagnostics import IRTypeError

_BINARY = (
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "mod",
    "power",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
)


def _build(name: str, operands: tuple[Any, ...]) -> Call:
    for value in operands:
        if not isinstance(value, Expr):
            what = f"the number {value!r}" if isinstance(value, Number) else f"a {type(value).__name__}"
            raise IRTypeError(
                R0103, f"{name} got {what}", help=f"convert it with `const` first: const({value!r})"
            )
    return call_op(name, *operands)


def _binary(name: str) -> Any:
    return lambda lhs, rhs: _build(name, (lhs, rhs))


for _name in _BINARY:
    EXPRESSION_OPERATORS.add(f"relax.{_name}", _binary(_name))
EXPRESSION_OPERATORS.add("relax.negative", lambda value: _build("negative", (value,)))
EXPRESSION_OPERATORS.add("relax.cast", lambda value, dtype: call_op("astype", value, dtype))
