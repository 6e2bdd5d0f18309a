"""Operators on constants, computed at once."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from heddle.graph.types import TensorType
from heddle.graph.values import as_value
from heddle.ir.expr import Constant, Function, Tuple, TupleGetItem
from heddle.ir.module import IRModule
from heddle.prim.nodes import IntImm
from heddle.relay.builders import const
from heddle.relay.interpreter import RelayInterpreter
from heddle.relay.op import find
from heddle.relay.transform.rewriting import TypedPass, is_call, is_pure_operator, rewrite_nodes, sizes
from heddle.relay.typed import infer_expr
from heddle.support.diagnostics import HeddleError
from heddle.support.frozen import frozen
from heddle.support.limits import current_limits


@frozen
class FoldConstant(TypedPass):
    """Compute what is known when a program is compiled.

        add(%x, multiply(2f, 3f))

    becomes

        add(%x, 6f)

    Calls that have an effect stay, as do annotations (`on_device`, `device_copy`, `stop_fusion`), results of
    more bytes than the limit `fold_bytes` and calls that an operator refuses. The sizes of a tensor are known
    where its type has them. With `fold_qnn` false, operators of `qnn` stay.
    """

    fold_qnn: bool = False
    opt_level = 2

    def change(self, func: Function, mod: IRModule) -> Function:
        return rewrite_nodes(func, Folder(mod, self.fold_qnn).fold)


def FoldConstantExpr(expr: Any, mod: IRModule, fold_qnn: bool = False) -> Any:
    """An expression with its constant parts computed. Raises: IRTypeError where types do not fit."""
    return rewrite_nodes(infer_expr(expr, mod), Folder(mod, fold_qnn).fold)


class Folder:
    """Computes single calls; what it makes is within the limit `fold_bytes`, all together."""

    def __init__(self, mod: IRModule, fold_qnn: bool) -> None:
        self._interpreter = RelayInterpreter(mod)
        self._fold_qnn = fold_qnn
        self._left_bytes = current_limits().fold_bytes

    def fold(self, old: Any, new: Any) -> Any:
        """The value of `new`, whose type `old` has; `new` where it is not known."""
        if isinstance(new, TupleGetItem) and isinstance(new.tuple_value, Tuple):
            field = new.tuple_value.fields[new.index]
            return field if _is_known(new.tuple_value) else new
        if not is_call(new):
            return new
        if is_call(new, "shape_of", "ndarray_size"):
            return self._sizes(old, new)
        known = find(new.op.name)
        is_annotation = known is not None and known[1].is_annotation
        is_allowed = not is_annotation and (self._fold_qnn or not new.op.name.startswith("qnn."))
        if not is_allowed or not is_pure_operator(new.op) or not all(map(_is_known, new.args)):
            return new
        return self._value(old, new)

    def _sizes(self, old: Any, new: Any) -> Any:
        known = sizes(old.args[0])
        if known is None:
            return new
        value = np.asarray(known) if new.op.name == "shape_of" else np.asarray(prod(known))
        return const(value.astype(str(old.ty.dtype)), str(old.ty.dtype))

    def _value(self, old: Any, new: Any) -> Any:
        """The value of a call, if there is room for it."""
        types = old.ty.fields if hasattr(old.ty, "fields") else (old.ty,)
        if sum(map(_known_bytes, types)) > self._left_bytes:
            return new
        try:
            found = self._interpreter.evaluate(new)
        except HeddleError:
            return new  # it is refused where it runs, if it does
        parts = found if isinstance(found, tuple) else (found,)
        size = sum(np.asarray(part).nbytes for part in parts)
        if size > self._left_bytes:
            return new
        self._left_bytes -= size
        made = tuple(_constant(part, ty) for part, ty in zip(parts, types, strict=True))
        return Tuple(made) if isinstance(found, tuple) else made[0]


def _known_bytes(ty: Any) -> int:
    """The bytes of a tensor by the sizes that are known; 0 where not even their number is."""
    if not isinstance(ty, TensorType) or ty.dims is None or ty.dtype is None:
        return 0
    return prod(dim.value for dim in ty.dims if isinstance(dim, IntImm)) * ty.dtype.itemsize


def _is_known(expr: Any) -> bool:
    return all(map(_is_known, expr.fields)) if isinstance(expr, Tuple) else isinstance(expr, Constant)


def _constant(value: Any, ty: Any) -> Constant:
    return const(np.asarray(as_value(value)), str(ty.dtype))
