"""Values of data types and references that Python made wrong: without an end, a tag or fields."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle.runtime.data import ConstructorValue, RefValue
from heddle.runtime.function import to_value
from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import Trap
from tests.unit.relay.programs import program
from tests.unit.relay.test_machine_data import MODES, machine, number, tags_of, with_prelude


def test_a_reference_of_machine_code_cannot_be_made_to_hold_itself() -> None:
    mod = program("def @main(%r: ref(int32)) { ref_read(%r) }")
    vm = machine(mod, "compiled")
    mine, other, fresh = (RefValue(number(k)) for k in range(3))
    assert vm["main"](mine).numpy() == 0 and vm["main"](other).numpy() == 1
    other.value, fresh.value = (mine,), (mine,)
    for value in ((mine,), ConstructorValue(1, (number(1), [mine])), (other,), fresh):
        with pytest.raises(Trap, match="U0406"):
            mine.value = value
    mine.value = number(7)
    assert other.value[0].value.numpy() == 7


@MODES
def test_values_without_an_end_and_malformed_ones_are_refused(mode: str) -> None:
    mod = with_prelude("def @main(%l: List[int32]) { %l }")
    vm, (cons, nil) = machine(mod, mode), tags_of(mod)[:2]
    last = ConstructorValue(cons, ())
    last.fields = (number(1), ConstructorValue(cons, (number(2), last)))
    items: list[Any] = [number(1)]
    items.append(items)
    for value in (last, items, ConstructorValue(cons, (items, last))):
        with pytest.raises(Trap, match="U0407"):
            vm["main"](value)
    empty = ConstructorValue.__new__(ConstructorValue)
    bad = [(tag, ()) for tag in (1 << 70, "x", None, 1.5)] + [(cons, fields) for fields in (None, 5, "ab")]
    for value in (empty, *(ConstructorValue(*parts) for parts in bad)):
        with pytest.raises(Trap, match="U0408"):
            vm["main"](value)
    assert vm["main"](ConstructorValue(nil, ())).tag == nil


def test_converted_parts_stay_shared() -> None:
    shared = ConstructorValue(1, (np.zeros(2),))
    made = to_value(ConstructorValue(2, (shared, ConstructorValue(3, (shared,)))))
    assert made.fields[0] is made.fields[1].fields[0]
    assert isinstance(made.fields[0].fields[0], Tensor)
