"""Map calls of graph operators to Relay operators.

A record has several names in Relay, each with arguments of its own. A name is tried: its arguments are
guessed from those of the call, by their names and places, and the call that this makes is expanded. What
comes out must be the call that was given; so a guess is never wrong, it only may find nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from heddle.ir.attrs import Attrs
from heddle.ir.expr import Call, Expr, Tuple
from heddle.ir.op import OP_ALIASES, OP_RECORDS, Op
from heddle.ir.op_def import REQUIRED, AttrSpec, Input, OpAlias, OpDef, op_def
from heddle.ir.structural import structural_equal
from heddle.relay.expand import expand
from heddle.relay.op import PREFIX, relay_call
from heddle.support.diagnostics import HeddleError

Found = tuple[str, list[Expr], dict[str, Any]]


def as_relay_call(call: Call) -> Found | None:
    """The name, arguments and attributes of the Relay call that is this call; None where there is none. The
    arguments are the graph's own."""
    assert isinstance(call.op, Op)
    record = op_def(call.op)
    if record is None:
        return None
    for alias in (*_names(record), OpAlias("relay", call.op.name)):
        found = _guess(record, alias, call)
        if found is not None and is_call_of(found, call):
            return found
    return None


def is_call_of(found: Found, call: Call) -> bool:
    """Whether a Relay call means a call of a graph."""
    try:
        made: Any = relay_call(*found)
        meant = expand(made.op.name, made.args, made.attrs)
    except HeddleError:
        return False
    return isinstance(meant, Call) and meant.op == call.op and _same(meant, call)


def _same(a: Call, b: Call) -> bool:
    if len(a.args) != len(b.args) or not all(map(_same_leaf, a.args, b.args)):
        return False
    return _plain(a.attrs) == _plain(b.attrs)


def _same_leaf(a: Expr, b: Expr) -> bool:
    if isinstance(a, Tuple) and isinstance(b, Tuple):
        return len(a.fields) == len(b.fields) and all(map(_same_leaf, a.fields, b.fields))
    return a is b or (not isinstance(a, Call) and structural_equal(a, b))


def _plain(attrs: Attrs) -> dict[str, Any]:
    return {key: _plain_value(value) for key, value in attrs.items() if value is not None}


def _plain_value(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain_value, value))
    value = getattr(value, "value", value)
    return str(value) if isinstance(value, str) else value


@cache
def _all_names() -> Mapping[str, Sequence[OpAlias]]:
    OP_RECORDS.fill()
    found: dict[str, list[OpAlias]] = {}
    for key, (record, alias) in OP_ALIASES.items():
        if key.startswith(PREFIX):
            found.setdefault(record.name, []).append(alias)
    return found


def _names(record: OpDef) -> Sequence[OpAlias]:
    """What Relay calls an operator: the name that graphs have first, then those that are the record."""

    def place(alias: OpAlias) -> tuple[bool, bool, str]:
        return alias.name != record.name, alias.expression is not None, alias.name

    return sorted(_all_names().get(record.name, ()), key=place)


def _guess(record: OpDef, alias: OpAlias, call: Call) -> Found | None:
    specs: tuple[Input | AttrSpec, ...] = (*record.inputs, *record.attrs)
    sources = {spec.name: alias.arguments.get(spec.name, spec.name) for spec in specs}
    given = dict(zip((spec.name for spec in record.inputs), call.args, strict=False))
    if record.inputs and record.inputs[-1].variadic:
        return None
    by_name = {
        source: given[name] for name, source in sources.items() if name in given and isinstance(source, str)
    }
    args: list[Expr] = []
    for place, spec in enumerate(alias.inputs_of(record)):
        found = by_name.get(spec.name, given.get(spec.name))
        if found is None and place < len(call.args):
            found = call.args[place]
        if found is None and not spec.optional:
            return None
        if found is not None:
            args.append(found)
    attrs: dict[str, Any] = {}
    for own in alias.attrs_of(record):
        named = [name for name, source in sources.items() if source == own.name]
        value = next((call.attrs.get(name) for name in (*named, own.name) if name in call.attrs), None)
        if value is not None:
            attrs[own.name] = _plain_value(value)
        elif own.default is REQUIRED:
            return None
    return alias.name, args, attrs
