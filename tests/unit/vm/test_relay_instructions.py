"""Every instruction of the Relay machine: what it does, what it refuses, and how it is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle.driver.docs import isa_page
from heddle.runtime import Array, FunctionModule, Shape, Tensor, tensor
from heddle.runtime.data import ConstructorValue
from heddle.support.diagnostics import HeddleError, Trap
from heddle.support.limits import limits
from heddle.vm import VMClosure
from heddle.vm.disasm import as_python, instruction_text
from heddle.vm.encode import decode, encode
from heddle.vm.isa import Instruction
from heddle.vm.relay import KernelForm, RelayBuilder, VirtualMachine
from heddle.vm.relay.isa import IF, INVOKE_PACKED, LOAD_CONSTI, RELAY, RET
from heddle.vm.relay.object_file import read_object, stored_fields, write_object
from heddle.vm.verify import verify_program

FLOAT32, INT64, INT8 = (2, 32, 1), (0, 64, 1), (0, 8, 1)
VOID, VM = 1 << 54, (1 << 54) + 1


def double(x: Tensor, y: Tensor) -> None:
    y.copyfrom(2 * x.numpy())


def fill(x: Tensor, *sizes: int) -> None:
    x.copyfrom(np.full(x.shape, sum(sizes), x.dtype))


def pair(a: Any, b: Any) -> Array:
    return Array((a, b))


HELPERS = FunctionModule(
    {"double": double, "fill": fill, "pair": pair, "same_machine": lambda vm, x: vm is x}
)


def machine(made: RelayBuilder) -> VirtualMachine:
    return VirtualMachine(made.get(HELPERS), heddle.cpu())


def main(num_inputs: int, *lines: tuple[Any, ...]) -> RelayBuilder:
    """A builder with `main` of these instructions."""
    made = RelayBuilder()
    with made.function("main", num_inputs):
        for line in lines:
            made.emit(*line)
    return made


def run(made: RelayBuilder, *args: Any, is_written: bool = True) -> Any:
    """What `main` gives: by the quick steps, by the plain ones, and from a file."""
    program = made.program()
    assert verify_program(program) == []
    vm = machine(made)
    found = vm["main"](*args)
    seen = vm.record("main", *args)
    assert seen.error is None
    if is_written:  # else memory holds anything
        assert_same(seen.result, found)
    again = read_object(write_object(program))
    assert (again.words, again.offsets) == (program.words, program.offsets)
    for index in range(len(program.offsets)):
        step = program.instruction(index)
        assert decode(RELAY, encode(step), 0) == (step, len(encode(step)))
        assert instruction_text(program, index).startswith(step.spec.text.split(" ")[0])
    return found


def assert_same(a: Any, b: Any) -> None:
    if isinstance(a, ConstructorValue):
        assert a.tag == b.tag
        a, b = a.fields, b.fields
    if isinstance(a, Tensor):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    elif isinstance(a, tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif not isinstance(a, VMClosure):
        assert a == b


def refusal(made: RelayBuilder, *args: Any) -> str:
    """The code of the error with which `main` ends, the same in both loops."""
    vm = machine(made)
    with pytest.raises(HeddleError) as caught:
        vm["main"](*args)
    seen = vm.record("main", *args).error
    assert isinstance(seen, HeddleError) and seen.code == caught.value.code
    assert "of 'main'" in str(caught.value)
    return str(caught.value.code)


def numbers(*shape: int) -> Tensor:
    return tensor(np.random.default_rng().integers(-9, 9, shape).astype("float32"))


def test_the_opcodes_are_those_of_tvm() -> None:
    names = (
        "move ret invoke invoke_closure invoke_packed alloc_tensor alloc_tensor_reg alloc_adt alloc_closure "
        "get_field if load_const goto get_tag load_consti fatal alloc_storage shape_of reshape_tensor "
        "device_copy kill_register call_packed"
    )
    assert {spec.mnemonic: spec.opcode for spec in RELAY.instructions} == {
        name: opcode for opcode, name in enumerate(names.split())
    }


def test_move_and_ret() -> None:
    x = numbers(3)
    assert run(main(1, ("move", 0, 1), ("ret", 1)), x) is x


def test_invoke_and_goto_and_if() -> None:
    made = RelayBuilder()
    with made.function("choose", 3):  # 7 where the first two are one integer, else the third
        made.emit("if", 0, 1, 1, 3)
        made.emit("load_consti", 7, 2)
        made.emit("goto", 1)
        made.emit("ret", 2)
    with made.function("main", 2):
        made.emit("load_consti", -5, 2)
        made.emit("invoke", "choose", 3, [0, 1, 2])
        made.emit("ret", 3)
    n = int(np.random.default_rng().integers(-100, 100))
    assert run(made, n, n) == 7
    assert run(made, n, n + 1) == -5


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_if_compares_integers_of_every_width(dtype: str) -> None:
    made = main(1, ("load_consti", 1, 1), ("if", 0, 1, 1, 2), ("ret", 1), ("load_consti", 0, 2), ("ret", 2))
    for shape in ((), (1,), (1, 1)):
        assert run(made, tensor(np.ones(shape, dtype))) == 1
        assert run(made, tensor(np.zeros(shape, dtype))) == 0
    if dtype.startswith("int"):
        assert run(made, tensor(np.full((), -1, dtype))) == 0


@pytest.mark.parametrize("value", [np.float32(1), np.ones(2, "int32"), np.ones(0, "bool"), "text", None, ()])
def test_if_refuses_what_is_no_integer(value: Any) -> None:
    made = main(1, ("load_consti", 1, 1), ("if", 0, 1, 1, 1), ("ret", 1))
    assert refusal(made, value) == "V0405"


def test_invoke_closure_passes_its_own_arguments_last() -> None:
    made = RelayBuilder()
    with made.function("three", 3):
        made.emit("alloc_adt", 0, 3, [0, 1, 2])
        made.emit("ret", 3)
    with made.function("main", 3):
        made.emit("alloc_closure", "three", 3, [1, 2])
        made.emit("invoke_closure", 3, 4, [0])
        made.emit("ret", 4)
    assert run(made, 1, 2, 3) == (1, 2, 3)
    assert refusal(main(1, ("invoke_closure", 0, 1, []), ("ret", 1)), 5) == "V0402"


def test_a_closure_without_arguments_is_the_function() -> None:
    made = RelayBuilder()
    with made.function("same", 1):
        made.emit("ret", 0)
    with made.function("main", 1):
        made.emit("alloc_closure", "same", 1, [])
        made.emit("invoke_closure", 1, 2, [0])
        made.emit("ret", 2)
    assert run(made, 9) == 9
    vm = machine(main(0, ("alloc_closure", "main", 0, []), ("ret", 0)))
    with pytest.raises(Trap, match="V0302"):
        vm.invoke_closure(vm["main"](), 1)


def test_invoke_packed_writes_its_outputs() -> None:
    x = numbers(2, 3)
    made = main(
        1,
        ("alloc_storage", VOID, 64, FLOAT32, 0, 1, [6]),
        ("load_consti", 0, 2),
        ("alloc_tensor", 1, 2, FLOAT32, 3, [2, 3]),
        ("invoke_packed", "double", [0], [3], []),
        ("ret", 3),
    )
    np.testing.assert_array_equal(run(made, x).numpy(), 2 * x.numpy())
    listing = made.get(HELPERS).as_text()
    assert "invoke_packed PackedFunc[double] (in: $0, out: $3)" in listing


@pytest.mark.parametrize("is_constant", [True, False])
def test_invoke_packed_passes_the_items_of_sizes_behind_the_tensors(is_constant: bool) -> None:
    made = RelayBuilder({"fill": KernelForm(1, 1)})
    with made.function("main", 2):
        sizes = [made.imm(2), made.imm(3)] if is_constant else [made.r(1), made.imm(3)]
        made.emit_call("fill", [made.r(0), *sizes])
        made.emit_ret(0)
    x = numbers(4)
    assert run(made, x, 5).numpy().tolist() == [5 if is_constant else 8] * 4
    step = next(step for step in steps(made) if step.spec is INVOKE_PACKED)
    assert len(step.value("sizes")) == 1 and step.value("outputs") == (0,)


def steps(made: RelayBuilder) -> list[Instruction]:
    program = made.program()
    return [program.instruction(index) for index in range(len(program.offsets))]


def test_call_packed_gives_a_value_and_may_have_the_machine() -> None:
    assert run(main(1, ("call_packed", "pair", 1, [0, 0]), ("ret", 1)), 4) == (4, 4)
    made = main(1, ("call_packed", "same_machine", 1, [VM, 0]), ("ret", 1))
    vm = machine(made)
    assert vm["main"](1) == 0
    assert run(main(0, ("call_packed", "pair", 0, [VOID, VOID]), ("ret", 0))) == (None, None)


@pytest.mark.parametrize("shape", [(), (0,), (7,), (2, 0, 3), (3, 1, 2, 2)])
def test_tensors_of_sizes_that_are_known_and_that_lie_in_a_register(shape: tuple[int, ...]) -> None:
    count = int(np.prod(shape))
    known = main(
        0,
        ("alloc_storage", VOID, 64, INT8, 0, 0, [4 * count + 8]),
        ("load_consti", 8, 1),
        ("alloc_tensor", 0, 1, FLOAT32, 2, list(shape)),
        ("ret", 2),
    )
    assert run(known, is_written=False).shape == shape
    register = main(
        2,
        ("alloc_storage", 0, 64, FLOAT32, -1, 2, []),
        ("load_consti", 0, 3),
        ("alloc_tensor_reg", 2, 3, 1, FLOAT32, 4),
        ("ret", 4),
    )
    as_tensor = tensor(np.array(shape, "int64")) if shape else tensor(np.array(0, "int32"))
    for size, given in (
        (count, Shape(shape)),
        (Shape((count,)), as_tensor),
        (tensor(np.int32(count)), Shape(shape)),
    ):
        found = run(register, size, given, is_written=False)
        assert (found.shape, found.dtype) == (shape, "float32")


@pytest.mark.parametrize(
    ("lines", "args", "code"),
    [
        ([("alloc_storage", 0, 64, FLOAT32, 0, 1, [])], [-1], "U0602"),
        ([("alloc_storage", 0, 64, FLOAT32, 9, 1, [])], [1], "V0406"),
        ([("alloc_storage", 0, 64, FLOAT32, 0, 1, [])], ["text"], "V0405"),
        ([("alloc_tensor", 0, 0, FLOAT32, 1, [1])], [5], "V0408"),
        (
            [("alloc_storage", VOID, 64, INT8, 0, 1, [4]), ("alloc_tensor", 1, 0, FLOAT32, 1, [1])],
            [1],
            "U0602",
        ),
        (
            [("alloc_storage", VOID, 64, INT8, 0, 1, [4]), ("alloc_tensor", 1, 0, FLOAT32, 1, [2])],
            [0],
            "U0602",
        ),
        ([("alloc_tensor_reg", 0, 0, 0, FLOAT32, 1)], [tensor(np.zeros((1, 1), "int64"))], "V0402"),
        ([("get_field", 0, 0, 1)], [numbers(2)], "V0402"),
        ([("get_field", 0, 2, 1)], [(1, 2)], "V0404"),
        ([("get_field", 0, 1, 1)], [ConstructorValue(5, (1,))], "V0404"),
        ([("get_tag", 0, 1)], [numbers(2)], "V0402"),
        ([("shape_of", 0, 1)], [3], "V0408"),
        ([("reshape_tensor", 0, 0, 1)], [numbers(2)], "V0402"),
        ([("reshape_tensor", 0, 0, 1)], [3], "V0402"),
        ([("device_copy", 0, 0, 4, 1)], [numbers(2)], "V0406"),
        ([("device_copy", 0, 0, 0, 1)], [3], "V0402"),
        ([("fatal",)], [1], "V0411"),
    ],
)
def test_what_instructions_refuse(lines: list[tuple[Any, ...]], args: list[Any], code: str) -> None:
    end = [] if lines[-1] == ("fatal",) else [("ret", 1)]
    assert refusal(main(1, *lines, *end), *args) == code


def test_data_types_and_tuples() -> None:
    made = main(
        2,
        ("alloc_adt", 300, 2, [0, 1]),
        ("alloc_adt", 0, 3, [2, 2]),
        ("get_field", 3, 1, 4),
        ("get_field", 4, 0, 5),
        ("get_tag", 4, 6),
        ("get_tag", 3, 7),
        ("alloc_adt", -7, 8, [5, 6, 7]),
        ("ret", 8),
    )
    found = run(made, 11, 12)
    assert (found.tag, tuple(found.fields)) == (-7, (11, 300, 0))


def test_a_constructor_with_the_tag_of_tuples_is_no_tuple() -> None:
    made = RelayBuilder()
    with made.function("main", 1):
        made.emit_call("vm.builtin.make_data", [made.imm(0), made.r(0)], dst=1)
        made.emit_call("vm.builtin.has_tag", [made.r(1), made.imm(0)], dst=2)
        made.emit_call("vm.builtin.make_tuple", [made.r(1), made.r(2)], dst=3)
        made.emit_ret(3)
    found, is_there = run(made, 5)
    assert isinstance(found, ConstructorValue) and found.fields == (5,) and is_there == 1


def test_constants_are_loaded_on_their_device() -> None:
    made, value = RelayBuilder(), numbers(3)
    with made.function("main"):
        made.emit_call(
            "vm.builtin.make_tuple",
            [made.convert_constant(value), made.convert_constant(value, "global@1")],
            dst=0,
        )
        made.emit_ret(0)
    first, second = VirtualMachine(made.get(), [heddle.cpu(0), heddle.cpu(1)])["main"]()
    assert (first.device, second.device) == (heddle.cpu(0), heddle.cpu(1))
    assert second.is_readonly
    np.testing.assert_array_equal(second.numpy(), value.numpy())
    with pytest.raises(HeddleError, match="V0303"):
        VirtualMachine(made.get(), heddle.cpu())["main"]()


@pytest.mark.parametrize("value", [0, 1, -1, 2**63 - 1, -(2**63)])
def test_integers_of_64_bits(value: int) -> None:
    assert run(main(0, ("load_consti", value, 0), ("ret", 0))) == value


def test_shapes_and_views() -> None:
    x = numbers(2, 6)
    made = main(1, ("shape_of", 0, 1), ("call_packed", "pair", 2, [1, 1]), ("get_field", 2, 1, 3), ("ret", 3))
    assert run(made, x) == (2, 6)
    view = run(main(2, ("reshape_tensor", 0, 1, 2), ("ret", 2)), x, tensor(np.array([3, 4], "int64")))
    assert view.shape == (3, 4) and view.address == x.address


@pytest.mark.parametrize("sizes", [(-2, -6), (-1, 3), (13,), (4, 4)])
def test_views_have_no_negative_sizes_and_no_more_elements(sizes: tuple[int, ...]) -> None:
    made = main(2, ("reshape_tensor", 0, 1, 2), ("ret", 2))
    assert refusal(made, numbers(2, 6), Shape(sizes)) == "V0403"


def test_device_copy_and_kill_register() -> None:
    x = numbers(3)
    vm = VirtualMachine(
        main(1, ("device_copy", 0, 0, 1, 1), ("ret", 1)).get(), [heddle.cpu(0), heddle.cpu(1)]
    )
    copy = vm["main"](x)
    assert copy.device == heddle.cpu(1) and copy.address != x.address
    np.testing.assert_array_equal(copy.numpy(), x.numpy())
    assert run(main(1, ("kill_register", 0), ("ret", 0)), x) is None


def test_constants_that_one_load_writes_lie_in_the_frame_from_the_beginning() -> None:
    """A register that something else writes too is loaded each time."""
    made = main(
        1,
        ("load_consti", 3, 1),
        ("load_consti", 4, 2),
        ("move", 0, 2),
        ("load_consti", 5, 3),
        ("alloc_adt", 0, 4, [1, 2, 3]),
        ("ret", 4),
    )
    assert run(made, 8) == (3, 8, 5)


def test_a_loop_by_jumps_backwards() -> None:
    """main(n): counts from n to 0 with a jump back, over loads that are jumped over too."""
    made = RelayBuilder()
    with made.function("main", 1):
        made.emit("load_consti", 0, 1)
        made.emit("if", 0, 1, 1, 2)
        made.emit("ret", 1)
        made.emit("load_consti", -1, 2)
        made.emit("call_packed", "plus", 0, [0, 2])
        made.emit("goto", -5)
    vm = VirtualMachine(made.get(FunctionModule({"plus": lambda a, b: a + b})), heddle.cpu())
    assert vm["main"](1000) == 0


def test_numbers_in_files_are_in_tvms_order() -> None:
    made = RelayBuilder()
    with made.function("main", 2):
        made.emit("invoke_packed", "double", [0, 1], [1], [])
        made.emit("load_consti", 9, 2)
        made.emit("if", 2, 2, 1, 2)
        made.emit("ret", 2)
        made.emit("alloc_adt", 4, 3, [0, 1])
        made.emit("ret", 3)
    shown = [line.split("#")[0].split(":")[1].split() for line in made.get(HELPERS).bytecode.splitlines()[4:]]
    assert [list(map(int, words)) for words in shown] == [
        [4, 0, 3, 1, 0, 1, 1],
        [14, 9, 2],
        [10, 2, 2, 1, 2],
        [1, 2],
        [7, 4, 2, 3, 0, 1],
        [1, 3],
    ]


def test_the_builder_is_written_by_its_own_programs() -> None:
    made = main(2, ("alloc_adt", 4, 2, [0, 1]), ("if", 0, 1, 1, 2), ("ret", 2), ("ret", 0))
    space: dict[str, Any] = {"rx": type("rx", (), {"Builder": RelayBuilder})}
    exec(as_python(made.program()), space)
    assert space["ib"].program().words == made.program().words


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([("invoke", "double", 1, [0]), ("ret", 1)], "V0105"),
        ([("call_packed", 0, 1, [0]), ("ret", 1)], "V0105"),
        ([("invoke", "main", 1, [0, 0]), ("ret", 1)], "V0108"),
        ([("move", 0, 1)], "V0110"),
        ([("if", 0, 0, 1, 1)], "V0106"),
        ([("alloc_storage", 0, 65, FLOAT32, 0, 1, []), ("ret", 1)], "V0113"),
        ([("alloc_storage", 0, 0, FLOAT32, 0, 1, []), ("ret", 1)], "V0113"),
        ([("alloc_storage", 0, 64, (9, 9, 9), 0, 1, []), ("ret", 1)], "V0113"),
        ([("alloc_storage", 0, 64, FLOAT32, -2, 1, []), ("ret", 1)], "V0113"),
        ([("alloc_tensor", 0, 0, FLOAT32, 1, [-1]), ("ret", 1)], "V0113"),
        ([("get_field", 0, -1, 1), ("ret", 1)], "V0113"),
        ([("load_const", 0, 0, 1), ("ret", 1)], "V0104"),
    ],
)
def test_the_verifier_finds(lines: list[tuple[Any, ...]], code: str) -> None:
    made = main(1, *lines)
    made.declare_function("double")
    try:
        found = [finding.code.name for finding in verify_program(super(RelayBuilder, made).program())]
    except HeddleError as error:
        found = [str(error.code)]
    assert code in found


def test_recursion_has_a_limit() -> None:
    made = main(1, ("invoke", "main", 1, [0]), ("alloc_adt", 0, 2, [1]), ("ret", 2))
    with limits(frames=1000):
        vm = machine(made)
    with pytest.raises(Trap, match="V0305"):
        vm["main"](1)
    assert stored_fields(Instruction(RET, (2,)), None) == [1, 2]  # type: ignore[arg-type]
    assert encode(Instruction(LOAD_CONSTI, (-1, 0))) == [14, -1, 0]
    assert encode(Instruction(IF, (0, 1, 1, 2))) == [10, 0, 1, 1, 2]


def test_the_page_is_made_of_the_table() -> None:
    page = isa_page(RELAY)
    assert page.startswith("# The Relay machine's instruction set")
    assert "| `if` | 10 | test, target, true_offset, false_offset | ends, jumps | 1 |" in page
