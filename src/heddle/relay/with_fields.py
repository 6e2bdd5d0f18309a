"""Nodes with some of their fields changed, at TVM's names: `FunctionWithFields(func, body=...)`.

What is None stays. A node whose fields stay is the same object; one that changed has no type until
inference, a variable apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heddle.ir.attrs import Attrs, attrs_of
from heddle.ir.expr import Call, Constant, Function, If, Tuple, TupleGetItem, Var
from heddle.ir.node import replace
from heddle.relay.builders import as_expr, without_type
from heddle.relay.codes import Q0101
from heddle.relay.nodes import Let, RefCreate, RefRead, RefWrite
from heddle.support.diagnostics import UsageError


def _with(node: Any, virtual_device: Any, **fields: Any) -> Any:
    """Raises: UsageError Q0101 for a device: expressions lie where the target says."""
    if virtual_device is not None:
        raise UsageError(Q0101, "expressions have no devices of their own: they lie where the target says")
    changed = {
        name: value
        for name, value in fields.items()
        if value is not None and value is not getattr(node, name)
    }
    if not changed:
        return node
    made = replace(node, **changed)
    return made if isinstance(node, Var) or set(changed) == {"span"} else without_type(made)


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
    found: Call = _with(
        call, virtual_device, op=op, args=_several(args), attrs=_attrs(attrs), ty_args=types, span=span
    )
    return found


def ConstantWithFields(
    constant: Constant, data: Any = None, virtual_device: Any = None, span: Any = None
) -> Any:
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
    """A function with fields changed. Raises: UsageError Q0101 for a device."""
    types = None if ty_params is None else tuple(ty_params)
    found: Function = _with(
        function,
        virtual_device,
        params=None if params is None else tuple(params),
        body=body,
        ret_ty=ret_type,
        type_params=types,
        attrs=_attrs(attrs),
        span=span,
    )
    return found


def IfWithFields(
    if_expr: If,
    cond: Any = None,
    true_branch: Any = None,
    false_branch: Any = None,
    virtual_device: Any = None,
    span: Any = None,
) -> If:
    """A branch with fields changed. Raises: UsageError Q0101 for a device."""
    found: If = _with(
        if_expr, virtual_device, cond=cond, true_branch=true_branch, false_branch=false_branch, span=span
    )
    return found


def LetWithFields(
    let: Let,
    variable: Var | None = None,
    value: Any = None,
    body: Any = None,
    virtual_device: Any = None,
    span: Any = None,
) -> Let:
    """A let with fields changed. Raises: UsageError Q0101 for a device."""
    found: Let = _with(let, virtual_device, var=variable, value=value, body=body, span=span)
    return found


def RefCreateWithFields(
    ref_create: RefCreate, value: Any = None, virtual_device: Any = None, span: Any = None
) -> Any:
    """A new reference with fields changed. Raises: UsageError Q0101 for a device."""
    return _with(ref_create, virtual_device, value=value, span=span)


def RefReadWithFields(
    ref_read: RefRead, ref: Any = None, virtual_device: Any = None, span: Any = None
) -> Any:
    """A read with fields changed. Raises: UsageError Q0101 for a device."""
    return _with(ref_read, virtual_device, ref=ref, span=span)


def RefWriteWithFields(
    ref_write: RefWrite, ref: Any = None, value: Any = None, virtual_device: Any = None, span: Any = None
) -> Any:
    """A write with fields changed. Raises: UsageError Q0101 for a device."""
    return _with(ref_write, virtual_device, ref=ref, value=value, span=span)


def TupleWithFields(
    tup: Tuple, fields: Sequence[Any] | None = None, virtual_device: Any = None, span: Any = None
) -> Tuple:
    """A tuple with fields changed. Raises: UsageError Q0101 for a device."""
    found: Tuple = _with(tup, virtual_device, fields=_several(fields), span=span)
    return found


def TupleGetItemWithFields(
    tuple_get_item: TupleGetItem,
    tuple_value: Any = None,
    index: int | None = None,
    virtual_device: Any = None,
    span: Any = None,
) -> TupleGetItem:
    """A projection with fields changed. Raises: UsageError Q0101 for a device."""
    found: TupleGetItem = _with(
        tuple_get_item, virtual_device, tuple_value=tuple_value, index=index, span=span
    )
    return found


def VarWithFields(
    variable: Var,
    vid: str | None = None,
    type_annotation: Any = None,
    virtual_device: Any = None,
    span: Any = None,
) -> Var:
    """A new variable where a field changes. Raises: UsageError Q0101 for a device."""
    found: Var = _with(variable, virtual_device, name_hint=vid, ty=type_annotation, span=span)
    return found
