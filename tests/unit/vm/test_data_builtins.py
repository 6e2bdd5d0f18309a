"""Values of data types and references in bytecode written by hand, whatever its operands, in both modes."""

from __future__ import annotations

from typing import Any

import pytest

from heddle.runtime.data import ConstructorValue, RefValue
from heddle.support.diagnostics import HeddleError, Trap
from heddle.vm.relax import ExecBuilder

from .programs import builder, run_machine

pytestmark = pytest.mark.usefixtures("mode")  # bytecode and compiled

TAG = 5 << 24


def one_call(name: str, operands: Any, num_args: int = 2, dst: bool = True) -> ExecBuilder:
    """main(...): what one builtin gives, or its first argument where the result is dropped."""
    made = builder()
    with made.function("main", num_args):
        result = made.r(num_args)
        made.emit_call(f"vm.builtin.{name}", operands(made), dst=result if dst else None)
        made.emit_ret(result if dst else made.r(0))
    return made


def test_values_are_made_tested_and_read() -> None:
    made = builder()
    with made.function("main", 2):
        made.emit_call(
            "vm.builtin.make_data", [made.imm(TAG), made.r(0), made.imm(-3), made.r(1)], dst=made.r(2)
        )
        made.emit_call("vm.builtin.has_tag", [made.r(2), made.imm(TAG)], dst=made.r(3))
        made.emit_call("vm.builtin.has_tag", [made.r(2), made.imm(TAG + 1)], dst=made.r(4))
        made.emit_call("vm.builtin.get_field", [made.r(2), made.imm(1)], dst=made.r(5))
        made.emit_call("vm.builtin.make_tuple", [made.r(2), made.r(3), made.r(4), made.r(5)], dst=made.r(6))
        made.emit_ret(made.r(6))
    value, is_so, is_other, field = run_machine(made)["main"](1.5, (7, "x"))
    assert (value.tag, value.fields) == (TAG, (1.5, -3, (7, "x")))
    assert (is_so, is_other, field) == (True, False, -3)
    assert is_so is True and is_other is False


def test_a_branch_takes_the_test_of_a_tag() -> None:
    made = builder()
    with made.function("main", 1):
        made.emit_call("vm.builtin.has_tag", [made.r(0), made.imm(TAG)], dst=made.r(1))
        made.emit_if(made.r(1), 3)
        made.emit_call("vm.builtin.get_field", [made.r(0), made.imm(0)], dst=made.r(2))
        made.emit_ret(made.r(2))
        made.emit_ret(made.r(0))
    vm = run_machine(made)
    assert vm["main"](ConstructorValue(TAG, (9,))) == 9
    assert vm["main"](ConstructorValue(TAG + 1, ())).tag == TAG + 1


@pytest.mark.parametrize("index", [0, 1, 2, -1, 2**54])
@pytest.mark.parametrize("is_immediate", [True, False])
def test_indices_and_tags_may_be_in_registers(index: int, is_immediate: bool) -> None:
    made = one_call("get_field", lambda ib: [ib.r(0), ib.imm(index) if is_immediate else ib.r(1)])
    value = ConstructorValue(TAG, ("a", "b"))
    if 0 <= index < 2:
        assert run_machine(made)["main"](value, index) == "ab"[index]
    else:
        with pytest.raises(Trap, match="V0404"):
            run_machine(made)["main"](value, index)
    by_register = one_call("has_tag", lambda ib: [ib.r(0), ib.r(1)])
    assert run_machine(by_register)["main"](value, TAG) is True
    made_by_register = one_call("make_data", lambda ib: [ib.r(1), ib.r(0), ib.void_arg()])
    assert run_machine(made_by_register)["main"]("x", 12).fields == ("x", None)


@pytest.mark.parametrize("name", ["has_tag", "get_field", "read_ref", "write_ref"])
@pytest.mark.parametrize("wrong", [None, 3, 1.5, "text", (1, 2), RefValue(1), ConstructorValue(TAG, (1,))])
def test_another_kind_of_value_is_a_trap(name: str, wrong: Any) -> None:
    is_reference = name.endswith("ref")
    if isinstance(wrong, RefValue if is_reference else ConstructorValue):
        return
    operands = {
        "has_tag": lambda ib: [ib.r(0), ib.imm(TAG)],
        "get_field": lambda ib: [ib.r(0), ib.imm(0)],
        "read_ref": lambda ib: [ib.r(0)],
        "write_ref": lambda ib: [ib.r(0), ib.r(1)],
    }[name]
    with pytest.raises(Trap, match="V0402") as caught:
        run_machine(one_call(name, operands))["main"](wrong, 1)
    expected = "a reference" if is_reference else "a value of a data type"
    assert f"expected {expected}, got {type(wrong).__name__.replace('tuple', 'Array')}" in str(caught.value)


@pytest.mark.parametrize("dst", [True, False])
def test_results_may_be_dropped(dst: bool) -> None:
    for name, operands in {
        "make_data": lambda ib: [ib.imm(TAG), ib.r(0), ib.r(0)],
        "make_ref": lambda ib: [ib.r(0)],
        "write_ref": lambda ib: [ib.r(1), ib.imm(4)],
    }.items():
        ref = RefValue(1)
        run_machine(one_call(name, operands, dst=dst))["main"]((1, 2), ref)
        assert ref.value == (4 if name == "write_ref" else 1)


@pytest.mark.parametrize("text", ["no clause", "100% wrong", "%e %g %t %v", ""])
def test_fatal_says_what_it_is_given(text: str) -> None:
    made = one_call("fatal", lambda ib: [ib.convert_constant(text)])
    with pytest.raises(Trap, match="V0411") as caught:
        run_machine(made)["main"](1, 2)
    assert caught.value.diagnostics[0].message == text
    with pytest.raises(Trap, match="V0411"):
        run_machine(one_call("fatal", lambda ib: [ib.r(0)]))["main"]("in a register", 2)


@pytest.mark.parametrize(
    ("name", "count"), [("has_tag", 1), ("get_field", 3), ("make_ref", 0), ("make_data", 0)]
)
def test_a_wrong_number_of_operands_is_refused(name: str, count: int) -> None:
    with pytest.raises(HeddleError, match="V0408"):
        run_machine(one_call(name, lambda ib: [ib.r(0)] * count))["main"](1, 2)
