"""Nodes with some of their fields changed, at TVM's names: `FunctionWithFields(func, body=...)`.

What is None stays. A node whose fields stay is the same object; one that changed has no type until
inference, a variable apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heddle.graph.virtual_device import device_attribute
from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, Constant, Function, If, Tuple, TupleGetItem, Var
from heddle.ir.node import replace
from heddle.ir.stands import words_given, words_taken
from heddle.relay.builders import as_expr, without_type
from heddle.relay.codes import Q0101
from heddle.relay.nodes import Let, RefCreate, RefRead, RefWrite
from heddle.relay.op import RESULT_DEVICE
from heddle.support.diagnostics import UsageError


def _change_of(kind: type, takes: str) -> Callable[..., Any]:
    """The function that changes fields of a kind of node; `takes` as for `Takes`, the node first."""
    name = f"{kind.__name__}WithFields"
    signature, fields = words_taken(f"{takes} virtual_device? span?")
    first = next(iter(fields))

    def change(*args: Any, **kwargs: Any) -> Any:
        given = words_given(name, signature, args, kwargs)
        node, device = given.pop(first), given.pop("virtual_device", None)
        if not isinstance(node, kind):
            raise UsageError(Q0101, f"{name} takes a {kind.__name__}, got {type(node).__name__}")
        return _changed(node, device, {fields[key]: _value(fields[key], given[key]) for key in given})

    change.__name__ = change.__qualname__ = name
    change.__signature__ = signature  # type: ignore[attr-defined]
    change.__doc__ = f"A `{kind.__name__}` with fields changed. Raises: UsageError Q0101 for " + (
        "another node, U0201 for an unknown device; it is that of the result."
        if kind is Function
        else "another node, and for a device: functions alone have attributes that say one."
    )
    return change


def _value(field: str, given: Any) -> Any:
    """What a field of a node holds."""
    if isinstance(given, Mapping):
        return attrs_of(given)
    if isinstance(given, Sequence) and not isinstance(given, str):
        return tuple(map(as_expr, given) if field in ("args", "fields") else given)
    return given


def _changed(node: Any, device: Any, fields: dict[str, Any]) -> Any:
    if device is not None and isinstance(node, Function):
        attrs = fields.get("attrs", node.attrs)
        fields["attrs"] = attrs.with_attr(RESULT_DEVICE, device_attribute(device))
    elif device is not None:
        help = "use annotation.on_device, or annotation.function_on_device for parameters"
        raise UsageError(Q0101, f"a {type(node).__name__} has no field for a device", help=help)
    changed = {name: value for name, value in fields.items() if value is not getattr(node, name)}
    made = replace(node, **changed) if changed else node
    return made if isinstance(node, Var) or changed.keys() <= {"span"} else without_type(made)


CallWithFields = _change_of(Call, "call op? args? attrs? type_args?=ty_args")
ConstantWithFields = _change_of(Constant, "constant data?")
FunctionWithFields = _change_of(
    Function, "function params? body? ret_type?=ret_ty ty_params?=type_params attrs?"
)
IfWithFields = _change_of(If, "if_expr cond? true_branch? false_branch?")
LetWithFields = _change_of(Let, "let variable?=var value? body?")
RefCreateWithFields = _change_of(RefCreate, "ref_create value?")
RefReadWithFields = _change_of(RefRead, "ref_read ref?")
RefWriteWithFields = _change_of(RefWrite, "ref_write ref? value?")
TupleWithFields = _change_of(Tuple, "tup fields?")
TupleGetItemWithFields = _change_of(TupleGetItem, "tuple_get_item tuple_value? index?")
VarWithFields = _change_of(Var, "variable vid?=name_hint type_annotation?=ty")
