"""Operators that every graph program may hold, whatever its dialect: calls of loop and packed functions,
and shapes as values.

They have no loops of their own: passes rewrite them, and at the end a machine's code generator knows those
that remain.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.graph.codes import R0201, R0202
from heddle.graph.infer import Inference
from heddle.graph.types import ShapeType, TensorType
from heddle.ir.expr import GlobalVar, Tuple
from heddle.ir.op import GRAPH_PREFIX
from heddle.ir.op_def import AttrSpec, Input, OpDef, Without, declare_op
from heddle.ir.types import AnyType, TupleType, Type
from heddle.prim.nodes import IntImm

CALL_TIR = f"{GRAPH_PREFIX}call_tir"
NULL_VALUE = f"{GRAPH_PREFIX}null_value"

_NO_LOOPS = Without("no tensor operator: the machine or a pass gives it meaning")
_NO_REFERENCE = Without("it names a function or memory, not a value of its arguments")
_NO_SAMPLES = Without("the tests of the pass or machine that gives it meaning cover it")
_NO_LAYOUT = Without("it has no tensor layout")


def declare_core(name: str, inputs: tuple[Input, ...], infer: Any, doc: str, **facets: Any) -> None:
    """Declare an operator without loops."""
    defaults: dict[str, Any] = {
        "attrs": (),
        "reference": _NO_REFERENCE,
        "opaque": _NO_LOOPS,
        "samples": _NO_SAMPLES,
        "layout": _NO_LAYOUT,
    }
    declare_op(OpDef(name=name, inputs=inputs, doc=doc, infer=infer, **{**defaults, **facets}))


def stated_type(ctx: Inference) -> Type:
    """The result's type as the call states it. Raises: IRTypeError R0201 where it does not."""
    types = ctx.call.ty_args
    if not types:
        ctx.fail(R0201, "the result's type is missing", "give it as out_ty= or ty_args=")
    return types[0] if len(types) == 1 else TupleType(types)


def stated_or_any(ctx: Inference) -> Type:
    """As `stated_type`; any value where the call states none."""
    return stated_type(ctx) if ctx.call.ty_args else AnyType()


def _call_tir(ctx: Inference) -> Type:
    if not isinstance(ctx.args[0], GlobalVar):
        ctx.fail(R0202, "the first argument must be a global loop function")
    if not isinstance(ctx.args[1], Tuple):
        ctx.fail(R0202, "the second argument must be a tuple of tensors")
    return stated_type(ctx)


def any_value(_ctx: Inference) -> Type:
    """A value of which nothing is known."""
    return AnyType()


def _shape_of(ctx: Inference) -> Type:
    ty = ctx.tensor(0)
    return ShapeType(ty.dims) if ty.dims is not None else ShapeType(None, ty.ndim)


def _tensor_to_shape(ctx: Inference) -> Type:
    ty = ctx.tensor(0)
    if ty.ndim not in (-1, 1):
        ctx.shape_error(f"expected a tensor of 1 dimension, got {ty.ndim}")
    size = ty.dims[0] if ty.dims is not None else None
    return ShapeType(None, int(size)) if isinstance(size, IntImm) else ShapeType()


def _shape_to_tensor(ctx: Inference) -> Type:
    ty = ctx.type_of(0)
    if not isinstance(ty, ShapeType):
        ctx.fail(R0202, f"expected a shape, got {ty}")
    return TensorType((ty.ndim,), "int64") if ty.ndim >= 0 else TensorType(None, "int64", None, 1)  # type: ignore[arg-type]


FUNC = Input("func", "func", "the function")
ARGS = Input("args", "args", "the arguments, as a tuple")
REST = Input("args", "any", "the arguments", variadic=True)


def declare() -> None:
    """Put the operators of this file into the table."""
    _declare_calls()
    _declare_shapes()


def _declare_calls() -> None:
    declare_core(
        "call_tir",
        (FUNC, ARGS, Input("tir_vars", "shape", "scalar arguments that no tensor's shape gives", True)),
        _call_tir,
        "Call a loop function on the arguments and on fresh outputs of the stated type; give the outputs.",
    )
    declare_core(
        "call_tir_inplace",
        (FUNC, ARGS, Input("tir_vars", "shape", "scalar arguments", True)),
        _call_tir,
        "As `call_tir`, with outputs that may be arguments: `inplace_indices[i]` is the argument that "
        "output i overwrites, "
        "or -1 for a fresh one. Nothing else may need the argument afterwards, so it counts as pure.",
        attrs=(AttrSpec("inplace_indices", "ints"),),
    )
    declare_core(
        "call_dps_packed",
        (Input("func", "packed", "a packed function or its name"), ARGS),
        stated_type,
        "Call a packed function on the arguments and on fresh outputs of the stated type; give the outputs.",
    )
    declare_core(
        "call_pure_packed",
        (Input("func", "packed", "a packed function or its name"), REST),
        stated_or_any,
        "Call a packed function that has no effects.",
    )
    declare_core(
        "call_inplace_packed",
        (Input("func", "packed", "a packed function or its name"), REST),
        stated_or_any,
        "Call a packed function that overwrites some arguments and gives them.",
        attrs=(AttrSpec("inplace_indices", "ints"),),
    )
    declare_core("null_value", (), any_value, "No value.")


def _declare_shapes() -> None:
    declare_core(
        "shape_of",
        (Input("x"),),
        _shape_of,
        "The shape of a tensor as a shape value.",
        reference=lambda attrs, x: tuple(x.shape),
    )
    declare_core(
        "tensor_to_shape",
        (Input("x"),),
        _tensor_to_shape,
        "The elements of a 1-dimensional integer tensor as a shape.",
        reference=lambda attrs, x: tuple(int(v) for v in x),
    )
    declare_core(
        "shape_to_tensor",
        (Input("x", "shape"),),
        _shape_to_tensor,
        "A shape as a 1-dimensional int64 tensor.",
        reference=lambda attrs, x: np.asarray(x, dtype=np.int64),
    )
