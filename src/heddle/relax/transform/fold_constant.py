"""FoldConstant: evaluate operators on constants at compile time, by their numpy reference.

    y = R.permute_dims(R.const(w), axes=[1, 0])       →       uses of y become R.const(w.T)

An operator stays if its result is much larger than its inputs (such as a broadcast), or if it exceeds a limit
of `heddle.config`. Conversions may still widen elements: weights of a few bits become floats.
"""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

import numpy as np

from heddle.graph.infer import type_of
from heddle.graph.op_builder import const
from heddle.graph.rewriter import BindingRewriter
from heddle.graph.types import ShapeExpr, TensorType
from heddle.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.op_def import OpDef, Without, op_def, operator_names
from heddle.ir.pass_options import option
from heddle.ir.transform import FunctionPass, PassContext, map_functions
from heddle.ir.types import TupleType
from heddle.prim.nodes import FloatImm, IntImm
from heddle.support.frozen import frozen
from heddle.support.limits import current_limits

MAX_FREE_BYTES = 1 << 16
"""Results of up to this size are folded however small their inputs are."""


@frozen(slots=False)
class FoldConstant(FunctionPass):
    """Requires the normal form. What goes beyond a limit (`heddle.config`) is left to run time too, and so
    are calls of the operators in `keep`."""

    keep: frozenset[str] = option(frozenset(), one_of=operator_names)
    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        budget = _Budget()
        return map_functions(mod, ("relax",), lambda _var, func: _Folder(mod, budget, self.keep).run(func))

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        return _Folder(mod, _Budget(), self.keep).run(func)


class _Budget:
    """The remaining memory and work for folding in one run of the pass."""

    def __init__(self) -> None:
        limits = current_limits()
        self.bytes, self.growth_bytes = limits.fold_bytes, limits.fold_growth_bytes
        self.work, self.total_work = limits.fold_work, limits.fold_total_work

    def spend(self, size_bytes: int, given_bytes: int | None, work: int) -> bool:
        """Whether a result fits; only then it counts. `given_bytes` are the bytes of tensors that it is made
        from, None where it is made from scalars alone."""
        grown = max(0, size_bytes - (given_bytes or 0))
        growth = 0 if given_bytes is None else grown
        if grown > self.bytes or growth > self.growth_bytes or work > min(self.work, self.total_work):
            return False
        self.bytes -= grown
        self.growth_bytes -= growth
        self.total_work -= work
        return True


class _Folder(BindingRewriter):
    def __init__(self, mod: Any, budget: _Budget, keep: frozenset[str]) -> None:
        super().__init__(mod)
        self._budget, self._keep = budget, keep
        self._tuples: dict[Var, Tuple] = {}

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if isinstance(value, TupleGetItem) and value.tuple_value in self._tuples:
            return self._bound(var, self._tuples[value.tuple_value].fields[value.index])
        record = op_def(value.op) if isinstance(value, Call) else None
        if record is None or isinstance(record.reference, Without) or not record.is_pure:
            return value
        if record.name in self._keep:
            return value
        assert isinstance(value, Call)
        args = [_known(arg) for arg in value.args]
        if any(arg is None for arg in args) or not any(
            isinstance(arg, Constant) for arg in _flat(value.args)
        ):
            return value
        if not self._is_worth(value, record):
            return value
        return self._folded(var, record, value, args)

    def _is_worth(self, value: Call, record: OpDef) -> bool:
        results = _results(type_of(value))
        if results is None:
            return False
        shapes = [ty.static_shape() for ty in results]
        itemsize = max(_dtype(ty).itemsize for ty in results)
        size = sum(prod(shape) * _dtype(ty).itemsize for shape, ty in zip(shapes, results, strict=True))
        constants = [arg.data for arg in _flat(value.args) if isinstance(arg, Constant)]
        tensors = [data.numpy() for data in constants]
        given = [array.nbytes for array in tensors if array.ndim]
        largest = max(2 * sum(given), _widened_bytes(tensors, itemsize))
        if given and size > max(MAX_FREE_BYTES, largest):
            return False
        work = sum(map(prod, shapes)) + sum(array.size for array in tensors)
        if record.work is not None:
            work += sum(
                record.work(value.attrs, [array.shape for array in tensors], shape) for shape in shapes
            )
        # A tensor made of scalars alone is a weight that the model describes instead of storing it.
        distinct = {
            id(data): array.nbytes for data, array in zip(constants, tensors, strict=True) if array.ndim
        }
        return self._budget.spend(size, sum(distinct.values()) if given else None, work)

    def _folded(self, var: Var, record: OpDef, value: Call, args: list[Any]) -> Expr | None:
        assert not isinstance(record.reference, Without)
        made, ty = record.reference(value.attrs, *args), type_of(value)
        if isinstance(ty, TensorType):
            return self._bound(var, _constant(made, ty))
        results = _results(ty)
        assert results is not None
        self._tuples[var] = Tuple(tuple(map(_constant, made, results)))
        return self._tuples[var]

    def _bound(self, var: Var, folded: Expr) -> Expr | None:
        """A known value: its users take it, or, where a variable leaves its block, the variable is bound."""
        if not var.is_dataflow:
            return folded
        self.renamed[var] = folded
        return None


def _results(ty: Any) -> tuple[TensorType, ...] | None:
    """The types of what a call gives, where all of them are tensors of known shapes."""
    parts = ty.fields if isinstance(ty, TupleType) else (ty,)
    found = tuple(part for part in parts if isinstance(part, TensorType))
    is_known = len(found) == len(parts) and all(part.is_static and part.dtype for part in found)
    return found if found and is_known else None


def _dtype(ty: TensorType) -> Any:
    assert ty.dtype is not None
    return ty.dtype


def _constant(result: Any, ty: TensorType) -> Expr:
    data = np.asarray(result).astype(_dtype(ty).numpy(), order="C").reshape(ty.static_shape())
    return const(data, ty if ty.vdevice is not None else ty.dtype)


def _widened_bytes(tensors: list[np.ndarray[Any, Any]], itemsize: int) -> int:
    """The bytes of as many elements as the largest tensor has, where others only scale it."""
    sizes = sorted(array.size for array in tensors)
    return sizes[-1] * itemsize if sum(sizes[:-1]) <= sizes[-1] // 8 else 0


def _flat(args: tuple[Expr, ...]) -> list[Expr]:
    return [item for arg in args for item in (arg.fields if isinstance(arg, Tuple) else (arg,))]


def _known(arg: Expr) -> Any:
    """The numpy (or Python) value of an argument that is known now; None where it is not."""
    if isinstance(arg, Constant):
        return arg.data.numpy()
    if isinstance(arg, ShapeExpr):
        known = all(isinstance(dim, IntImm) for dim in arg.values)
        return tuple(int(dim) for dim in arg.values) if known else None  # type: ignore[call-overload]
    if isinstance(arg, (IntImm, FloatImm)):
        return arg.value
    if isinstance(arg, Tuple):
        items = [_known(item) for item in arg.fields]
        return None if any(item is None for item in items) else tuple(items)
    return None
