"""Nodes with some of their fields changed, at TVM's names: `FunctionWithFields(func, body=...)`.

What is None stays. A node whose fields stay is the same object; one that changed has no type until
inference, a variable apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heddle.graph.virtual_device import device_attribute
from heddle.ir.attrs import Attrs, attrs_of
from heddle.ir.expr import Call, Constant, Function, If, Tuple, TupleGetItem, Var
from heddle.ir.node import N, replace
from heddle.relay.builders import as_expr, without_type
from heddle.relay.codes import Q0101
from heddle.relay.nodes import Let, RefCreate, RefRead, RefWrite
from heddle.relay.op import RESULT_DEVICE
from heddle.support.diagnostics import UsageError


def _with(node: N, virtual_device: Any, **fields: Any) -> N:
    """Raises: UsageError Q0101 for a device: functions alone have attributes that say one."""
    if virtual_device is not None:
        raise UsageError(
            Q0101,
            f"a {type(node).__name__} has no field for a device",
            help="use annotation.on_device, or annotation.function_on_device for parameters",
        )
    changed = {
        name: value
        for name, value in fields.items()
        if value is not None and value is not getattr(node, name)
    }
    if not changed:
        return node
    if isinstance(node, Var) or set(changed) == {"span"}:
        return replace(node, **changed)
    made: N = without_type(replace(node, **changed))
    return made


def _several(given: Sequence[Any] | None) -> tuple[Any, ...] | None:
    return None if given is None else tuple(map(as_expr, given))


def _attrs(given: Any) -> Attrs | None:
    return attrs_of(given) if isinstance(given, Mapping) else given


def CallWithFields(
    call: Call,
    op: Any = None,
    args: Sequence[Any] | None = None,
    attrs: Any = None,
    type_args: Sequence[Any] | None = None,
    virtual_device: Any = None,
    span: Any = None,
) -> Call:
    """A call with fields changed. Raises: UsageError Q0101 for a device."""
    types = None if type_args is None else tuple(type_args)
    return _with(
        call, virtual_device, op=op, args=_several(args), attrs=_attrs(attrs), ty_args=types, span=span
    )


def ConstantWithFields(
    constant: Constant, data: Any = None, virtual_device: Any = None, span: Any = None
) -> Constant:
    """A constant with fields changed. Raises: UsageError Q0101 for a device."""
    return _with(constant, virtual_device, data=data, span=span)


def FunctionWithFields(
    function: Function,
    params: Sequence[Var] | None = None,
    body: Any = None,
    ret_type: Any = None,
    ty_params: Sequence[Any] | None = None,
    attrs: Any = None,
    virtual_device: Any = None,
    span: Any = None,
) -> Function:
    """A function with fields changed; the device is that of its result, which PlanDevices keeps to.

    Raises: UsageError U0201 for an unknown device.
    """
    types = None if ty_params is None else tuple(ty_params)
    if virtual_device is not None:
        given = _attrs(attrs) or function.attrs
        attrs = given.with_attr(RESULT_DEVICE, device_attribute(virtual_device))
    return _with(
        function,
        None,
        params=None if params is None else tuple(params),
        body=body,
        ret_ty=ret_type,
        type_params=types,
        attrs=_attrs(attrs),
        span=span,
    )


def IfWithFields(
    if_expr: If,
    cond: Any = None,
    true_branch: Any = None,
    false_branch: Any = None,
    virtual_device: Any = None,
    span: Any = None,
) -> If:
    """A branch with fields changed. Raises: UsageError Q0101 for a device."""
    return _with(
        if_expr, virtual_device, cond=cond, true_branch=true_branch, false_branch=false_branch, span=span
    )


def LetWithFields(
    let: Let,
    variable: Var | None = None,
    value: Any = None,
    body: Any = None,
    virtual_device: Any = None,
    span: Any = None,
) -> Let:
    """A let with fields changed. Raises: UsageError Q0101 for a device."""
    return _with(let, virtual_device, var=variable, value=value, body=body, span=span)


def RefCreateWithFields(
    ref_create: RefCreate, value: Any = None, virtual_device: Any = None, span: Any = None
) -> RefCreate:
    """A new reference with fields changed. Raises: UsageError Q0101 for a device."""
    return _with(ref_create, virtual_device, value=value, span=span)


def RefReadWithFields(
    ref_read: RefRead, ref: Any = None, virtual_device: Any = None, span: Any = None
) -> RefRead:
    """A read with fields changed. Raises: UsageError Q0101 for a device."""
    return _with(ref_read, virtual_device, ref=ref, span=span)


def RefWriteWithFields(
    ref_write: RefWrite, ref: Any = None, value: Any = None, virtual_device: Any = None, span: Any = None
) -> RefWrite:
    """A write with fields changed. Raises: UsageError Q0101 for a device."""
    return _with(ref_write, virtual_device, ref=ref, value=value, span=span)


def TupleWithFields(
    tup: Tuple, fields: Sequence[Any] | None = None, virtual_device: Any = None, span: Any = None
) -> Tuple:
    """A tuple with fields changed. Raises: UsageError Q0101 for a device."""
    return _with(tup, virtual_device, fields=_several(fields), span=span)


def TupleGetItemWithFields(
    tuple_get_item: TupleGetItem,
    tuple_value: Any = None,
    index: int | None = None,
    virtual_device: Any = None,
    span: Any = None,
) -> TupleGetItem:
    """A projection with fields changed. Raises: UsageError Q0101 for a device."""
    return _with(tuple_get_item, virtual_device, tuple_value=tuple_value, index=index, span=span)


def VarWithFields(
    variable: Var,
    vid: str | None = None,
    type_annotation: Any = None,
    virtual_device: Any = None,
    span: Any = None,
) -> Var:
    """A new variable where a field changes. Raises: UsageError Q0101 for a device."""
    return _with(variable, virtual_device, name_hint=vid, ty=type_annotation, span=span)
