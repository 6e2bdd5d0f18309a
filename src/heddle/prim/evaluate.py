"""Evaluate scalar expressions: the oracle for simplification and the core of the loop interpreter.

Values are numpy scalars of the expression's dtype (arrays for vectors), so wrap-around and
rounding are those of the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from heddle.ir.visitor import Dispatch
from heddle.prim.codes import K0104, K0105
from heddle.prim.intrinsics import intrinsic_of
from heddle.prim.nodes import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryExpr,
    Broadcast,
    Call,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    Sub,
    Var,
)
from heddle.prim.values import (
    convert,
    floor_divide,
    floor_mod,
    is_float_array,
    popcount,
    trunc_divide,
    trunc_mod,
)
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import TrapValueError

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    Add: np.add,
    Sub: np.subtract,
    Mul: np.multiply,
    Div: trunc_divide,
    Mod: trunc_mod,
    FloorDiv: floor_divide,
    FloorMod: floor_mod,
    Min: lambda a, b: np.where(np.less(a, b), a, b),
    Max: lambda a, b: np.where(np.greater(a, b), a, b),
    EQ: np.equal,
    NE: np.not_equal,
    LT: np.less,
    LE: np.less_equal,
    GT: np.greater,
    GE: np.greater_equal,
    And: np.logical_and,
    Or: np.logical_or,
}
_INT_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


class Evaluator(Dispatch):
    """Evaluates under `env`, which maps variables to numpy values. Subclasses add loads.

    Integers wrap and floats overflow without a word: who calls `eval` has numpy's errors ignored around it.
    """

    def __init__(self, env: Mapping[Any, Any] | None = None) -> None:
        self.env: dict[Any, Any] = dict(env or {})

    def eval(self, node: Any) -> Any:
        """The value of an expression."""
        return self._method(type(node))(self, node)

    def default(self, node: Any) -> Any:
        """Raises: TypeError: nothing says what value such a node has."""
        raise TypeError(f"{type(node).__name__} has no value")

    def visit_Var(self, node: Var) -> Any:
        try:
            return self.env[node]
        except KeyError:
            raise TrapValueError(K0105, f"no value for variable {node.name!r}", span=node.span) from None

    def visit_IntImm(self, node: IntImm) -> Any:
        return node.dtype.numpy().type(node.value)

    def visit_FloatImm(self, node: FloatImm) -> Any:
        return node.dtype.numpy().type(node.value)

    def visit_StringImm(self, node: Any) -> Any:
        return node.value

    def visit_Cast(self, node: Cast) -> Any:
        return convert(self.eval(node.value), node.dtype)

    def visit_BinaryExpr(self, node: BinaryExpr) -> Any:
        a = self.eval(node.a)
        if isinstance(node, (And, Or)) and np.ndim(a) == 0 and bool(a) is isinstance(node, Or):
            return np.bool_(a)
        b = self.eval(node.b)
        if isinstance(node, _INT_DIVISIONS) and node.dtype.is_int and not np.all(b):
            self.zero_divisor(node)
        return convert(_BINARY[type(node)](a, b), node.dtype)

    def zero_divisor(self, node: BinaryExpr) -> None:
        """Called where an integer is divided by zero. Analysis assumes that this does not happen."""
        raise TrapValueError(K0104, f"division by zero in {node}", span=node.span)

    def visit_Not(self, node: Not) -> Any:
        return np.logical_not(self.eval(node.a))

    def visit_Select(self, node: Select) -> Any:
        value = np.where(self.eval(node.condition), self.eval(node.true_value), self.eval(node.false_value))
        return convert(value, node.dtype)

    def visit_Let(self, node: Let) -> Any:
        self.env[node.var] = self.eval(node.value)
        return self.eval(node.body)

    def visit_Ramp(self, node: Ramp) -> Any:
        steps = np.arange(node.lanes).astype(node.base.dtype.numpy())
        return self.eval(node.base) + steps * self.eval(node.stride)

    def visit_Broadcast(self, node: Broadcast) -> Any:
        return np.full(node.lanes, self.eval(node.value), dtype=node.dtype.numpy())

    def visit_Shuffle(self, node: Shuffle) -> Any:
        lanes = np.concatenate([np.atleast_1d(self.eval(vector)) for vector in node.vectors])
        picked = lanes[list(node.indices)]
        return picked if len(node.indices) > 1 else picked[0]

    def visit_Call(self, node: Call) -> Any:
        if node.op.name == "tir.if_then_else":
            return self._if_then_else(node)
        if node.op.name == "tir.reinterpret":
            source = np.asarray(self.eval(node.args[0]))
            return source.view(node.dtype.numpy())[()]
        if node.op.name == "tir.popcount":
            return convert(popcount(self.eval(node.args[0]), node.dtype.bits), node.dtype)
        if node.op.name == "tir.undef":
            return convert(0, node.dtype)
        function = intrinsic_of(node).evaluate
        if function is None:
            raise TrapValueError(K0105, f"{node.op.name} has no value outside a machine", span=node.span)
        return _call_wide(function, [self.eval(arg) for arg in node.args], node.dtype)

    def _if_then_else(self, node: Call) -> Any:
        condition, true_value, false_value = node.args
        chosen = self.eval(condition)
        if np.ndim(chosen) == 0:
            return self.eval(true_value if chosen else false_value)
        return np.where(chosen, self.eval(true_value), self.eval(false_value)).astype(node.dtype.numpy())


class _SharedEvaluator(Evaluator):
    """Computes a shared node once. A `Let` begins anew: what is below it may mean another value."""

    def __init__(self, env: Mapping[Any, Any]) -> None:
        super().__init__(env)
        self._known: dict[int, Any] = {}

    def eval(self, node: Any) -> Any:
        key = id(node)
        if key not in self._known:
            value = super().eval(node)
            self._known[key] = value
        return self._known[key]

    def visit_Let(self, node: Let) -> Any:
        self.env[node.var] = self.eval(node.value)
        self._known.clear()
        return self.eval(node.body)


def _call_wide(function: Callable[..., Any], args: list[Any], dtype: DataType) -> Any:
    """Apply a numpy function; 16-bit and narrower floats are computed in float32 and rounded once."""
    if dtype.is_float and dtype.bits <= 16:
        args = [np.asarray(arg).astype(np.float32) if is_float_array(arg) else arg for arg in args]
    return convert(function(*args), dtype)


def evaluate(expr: PrimExpr, env: Mapping[Var, Any] | None = None) -> Any:
    """The value of `expr` as a Python int, float or bool; vectors as numpy arrays.

    Raises: TrapValueError K0105 for a variable without value, K0104 for an integer division by zero.
    """
    bound = {var: convert(value, var.dtype) for var, value in (env or {}).items()}
    with np.errstate(all="ignore"):
        result = _SharedEvaluator(bound).eval(expr)
    return result.item() if np.ndim(result) == 0 else result
