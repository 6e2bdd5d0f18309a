"""What an IRModule is made of, by position and by name."""

from __future__ import annotations

from typing import Any

import pytest

from heddle import IRModule, relay
from heddle.relay.prelude import Prelude
from heddle.support.diagnostics import HeddleError

MOD = IRModule.from_expr(relay.Function([], relay.const(1)))
Prelude(MOD)
FUNCS, TYPES = MOD.functions, MOD.type_definitions
NAMED = {header.name_hint: value for header, value in TYPES.items()}


@pytest.mark.parametrize(
    "given",
    [
        (FUNCS, TYPES),
        (dict(FUNCS), dict(TYPES)),
        (FUNCS, NAMED),
        (FUNCS, TYPES, {"a": 1}),
        (FUNCS, {"a": 1}, {}, TYPES),
        (FUNCS, None, None, NAMED),
    ],
)
def test_type_definitions_by_position(given: Any) -> None:
    made = IRModule(*given)
    assert set(made.functions) == set(FUNCS)
    assert {str(header) for header in made.type_definitions} == {str(header) for header in TYPES}
    assert made.type_definition("List") is MOD.type_definition("List")
    assert dict(made.attrs.items()) == ({"a": 1} if {"a": 1} in given else {})
    assert relay.transform.InferType()(made).type_definitions


def test_nothing_where_a_field_is_none() -> None:
    assert len(IRModule(None, None, None, None)) == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (([1],), "functions is a mapping, got list"),
        (({1: MOD["main"]},), "the item 1 of functions"),
        ((FUNCS, 3), "attrs is a mapping, got int"),
        ((FUNCS, FUNCS), "of attrs is of another kind"),
        ((FUNCS, {1: 1}), "the item 1 of attrs"),
        ((FUNCS, {}, 3), "global_infos is a mapping, got int"),
        ((FUNCS, {}, {"a": 3}), "the item 'a' of global_infos"),
        ((FUNCS, {}, {"a": "b"}), "the item 'a' of global_infos"),
        ((FUNCS, {}, {}, {1: 1}), "the item 1 of type_definitions"),
        ((FUNCS, TYPES, {}, TYPES), "type definitions are given second"),
    ],
)
def test_fields_of_other_kinds(given: Any, said: str) -> None:
    with pytest.raises(HeddleError, match=rf"I03(12|08).*{said}"):
        IRModule(*given)
