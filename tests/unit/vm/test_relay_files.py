"""Object files of the Relay machine: their sections, what they keep, and files that are wrong."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.runtime import (
    FunctionModule,
    Shape,
    Tensor,
    load_module,
    load_param_dict,
    save_param_dict,
    tensor,
)
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import HeddleError
from heddle.vm.encode import assemble
from heddle.vm.isa import Kind
from heddle.vm.relay import Executable, KernelForm, RelayBuilder, VirtualMachine
from heddle.vm.relay.object_file import instruction_hash, read_object, write_object


class Refused(Exception):
    """What a function of the user's raises for operands that it cannot take."""


def picky(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        try:
            return function(*args)
        except Exception as error:
            raise Refused from error

    return call


def fill(x: Tensor, *sizes: int) -> None:
    assert len(x.shape) < 5 and x.size_bytes < 1 << 20
    x.copyfrom(np.full(x.shape, sum(sizes), x.dtype))


HELPERS = FunctionModule(
    {
        "add": picky(lambda x, y, z: z.copyfrom(x.numpy() + y.numpy()) and None),
        "fill": picky(fill),
        "minus": picky(lambda a, b: a - b),
    }
)
WEIGHT = np.arange(6, dtype="float32").reshape(2, 3)
EVERYTHING = (tensor(WEIGHT), Shape((2, 0)), "text", 2**60, 1.5, DataType("bfloat16"))


def builder() -> RelayBuilder:
    """main(x, n): every instruction, in a program that runs. There is a loop of calls, and n of them."""
    made = RelayBuilder({"fill": KernelForm(1, 1), "add": KernelForm(3, 1)})
    made.declare_function("minus")
    with made.function("count", 2, ["n", "value"]):
        made.emit("load_consti", 0, 2)
        made.emit("if", 0, 2, 1, 2)
        made.emit("ret", 1)
        made.emit("load_consti", 1, 3)
        made.emit("call_packed", "minus", 4, [0, 3])
        made.emit("alloc_adt", 300, 5, [1, 4])
        made.emit("get_tag", 5, 6)
        made.emit("get_field", 5, 0, 8)
        made.emit("invoke", "count", 7, [4, 5])
        made.emit("ret", 7)
    with made.function("main", 2, ["x", "n"]):
        vm, zero = made.vm_state(), made.imm(0)
        int32, float32 = DataType("int32"), DataType("float32")
        made.emit_call("vm.builtin.alloc_storage", [vm, (24,), zero, DataType("int8")], dst=2)
        made.emit_call("vm.builtin.alloc_tensor", [made.r(2), zero, (2, 3), float32], dst=3)
        made.emit_call("add", [made.r(0), made.convert_constant(EVERYTHING[0]), made.r(3)])
        made.emit_call("vm.builtin.shape_of", [made.r(3)], dst=4)
        made.emit_call("vm.builtin.alloc_storage", [vm, made.r(4), made.imm(-1), int32], dst=5)
        made.emit_call("vm.builtin.alloc_tensor", [made.r(5), zero, made.r(4), int32], dst=6)
        made.emit_call("fill", [made.r(6), made.imm(3), made.imm(4)])
        made.emit_call("vm.builtin.reshape", [made.r(6), (6,)], dst=7)
        made.emit("device_copy", 7, 0, 0, 8)
        made.emit_call("vm.builtin.null_value", [], dst=6)
        made.emit_call("vm.builtin.make_closure", [made.f("count"), made.r(8)], dst=9)
        made.emit_call("vm.builtin.invoke_closure", [vm, made.r(9), made.r(1)], dst=10)
        constants = [made.convert_constant(value) for value in EVERYTHING[1:]]
        parts = [made.r(3), made.r(10), *constants, made.f("minus")]
        made.emit_call("vm.builtin.make_tuple", parts, dst=11)
        made.emit_call("vm.builtin.copy", [made.r(11)], dst=12)
        made.emit_goto(2)
        made.emit("fatal")
        made.emit_ret(12)
    return made


def executable() -> Executable:
    return builder().get(HELPERS)


def run(made: Executable, n: int = 3) -> Any:
    return VirtualMachine(made, heddle.cpu())["main"](tensor(WEIGHT), n)


def assert_result(found: Any) -> None:
    """What `main` gives for 3."""
    total, chain, *others, function = found
    np.testing.assert_array_equal(total.numpy(), 2 * WEIGHT)
    for left in range(3):
        assert (chain.tag, chain[1]) == (300, left)
        chain = chain[0]
    assert chain.numpy().tolist() == [7] * 6
    assert others == list(EVERYTHING[1:]) and callable(function)


def test_every_instruction_is_there_and_runs() -> None:
    made = executable()
    used = {made.program.instruction(i).spec for i in range(len(made.program.offsets))}
    assert used == set(made.isa.instructions)
    assert_result(run(made))


def test_saved_and_loaded() -> None:
    made = executable()
    code, lib = made.save()
    assert isinstance(code, bytearray) and lib is HELPERS
    for form in (code, bytes(code), memoryview(bytes(code)), code.decode("latin-1")):
        again = Executable.load_exec(form, HELPERS)
        assert_result(run(again))
        assert again.bytecode == made.bytecode and again.save()[0] == code
        assert (again.globals, again.primitive_ops) == (["count", "main"], made.primitive_ops)
        assert again.get_function_params("main") == ["x", "n"]


def test_the_sections_lie_in_order() -> None:
    code = bytes(executable().save()[0])
    assert code[:8] == struct.pack("<Q", 0xD225DE2F4214151D)
    places = [code.index(text) for text in (b"heddle 1", b"count", b"text", b"minus", b"value")]
    assert places == sorted(places)
    raw = code.index(WEIGHT.tobytes())
    head = struct.unpack("<QQiiiBBHqqq", code[raw - 56 : raw])
    assert head == (0xDD5E40F096B4A13F, 0, 1, 0, 2, 2, 32, 1, 2, 3, 24)


def test_hashes_are_tvms() -> None:
    key = 14
    for value in (9, -2):
        key ^= (value + 0x9E3779B9 + (key << 6) + (key >> 2)) % 2**64
    assert instruction_hash([14, 9, -2]) == key


def test_one_file_has_the_kernels_the_places_and_everything(tmp_path: Path) -> None:
    mod = relay.parse("""#[version = "0.0.5"]
def @main(%x: Tensor[(?, 3), float32]) { let %y = concatenate((%x, %x), axis=0); nn.relu(%y) }""")
    made = relay.vm.compile(mod)
    path = str(tmp_path / "model.heddle")
    made.export_library(path)
    again = load_module(path)
    assert isinstance(again, Executable) and again.program == made.program and again.program.line_table
    x = np.random.default_rng().standard_normal((4, 3)).astype("float32")
    wanted = np.maximum(np.concatenate([x, x]), 0)
    np.testing.assert_array_equal(VirtualMachine(again, heddle.cpu())["main"](x).numpy(), wanted)
    code, lib = made.save()
    assert lib is not None
    lib.export_library(path)
    bare = Executable.load_exec(code, load_module(path))
    assert not bare.program.line_table and any(key.startswith("kernel.") for key in bare.metadata)
    np.testing.assert_array_equal(VirtualMachine(bare, heddle.cpu())["main"](x).numpy(), wanted)


def test_a_library_without_a_primitive_is_refused() -> None:
    code, _ = executable().save()
    lacking = FunctionModule({"add": print, "minus": print})
    for lib, name in ((None, "minus|add"), (lacking, "fill")):
        with pytest.raises(HeddleError, match=rf"V0301.*'({name})'"):
            VirtualMachine(Executable.load_exec(code, lib), heddle.cpu())


@pytest.mark.parametrize(("code", "lib"), [(7, None), (None, None), ("\u4e00", None), (b"", 5)])
def test_arguments_of_other_types(code: Any, lib: Any) -> None:
    with pytest.raises(TypeError, match="V0303"):
        Executable.load_exec(code, lib)


# ---- files that are wrong


def test_every_truncated_file_is_refused() -> None:
    code = bytes(executable().save()[0])
    for end in range(len(code)):
        with pytest.raises(HeddleError, match=r"F0106.*section '(header|globals|constants|primitives|code)'"):
            Executable.load_exec(code[:end])
    with pytest.raises(HeddleError, match="F0106"):
        Executable.load_exec(code + b"\0")


@pytest.mark.parametrize(
    ("old", "new", "section"),
    [
        (struct.pack("<Q", 0xD225DE2F4214151D), b"\0" * 8, "header"),
        (b"heddle 1", b"heddle 2", "header"),
        (b"count", b"c\xffunt", "globals"),
        (b"bfloat16", b"bfloat17", "constants"),
        (
            struct.pack("<qqq", 2, 3, 24),
            struct.pack("<qqq", 2, 4, 24),
            "constants",
        ),
        (b"1152921504606846976", b"115292150460684697x", "constants"),
    ],
)
def test_altered_files_are_refused_in_their_section(old: bytes, new: bytes, section: str) -> None:
    code = bytes(executable().save()[0])
    assert code.count(old) >= 1
    with pytest.raises(HeddleError, match=f"F0106.*'{section}'"):
        Executable.load_exec(code.replace(old, new, 1))


def test_an_altered_instruction_is_seen() -> None:
    made = executable()
    code, word = (
        bytes(made.save()[0]),
        struct.pack("<q", instruction_hash([15]) - 2**64 * (instruction_hash([15]) >> 63)),
    )
    at = code.rindex(word + struct.pack("<q", 15))
    with pytest.raises(HeddleError, match=r"F0106.*hash"):
        Executable.load_exec(code[: at + 8] + struct.pack("<q", 16) + code[at + 16 :])


def mutated_bytes(rng: random.Random, code: bytes) -> bytes:
    changed = bytearray(code)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(changed))
        how = rng.randrange(4)
        if how == 0:
            changed[at] = rng.randrange(256)
        elif how == 1:
            del changed[at : at + rng.choice((1, 8))]
        elif how == 2:
            changed[at:at] = bytes(rng.choice((1, 8)))
        else:
            changed[at : at + 8] = struct.pack(
                "<q", rng.choice((-1, 0, 1, 255, 1 << 31, 1 << 54, -(1 << 63)))
            )
    return bytes(changed)


def mutated_program(rng: random.Random, made: Executable) -> bytes | None:
    """A file whose hashes are right, with other operands; None where there is none."""
    program = made.program
    steps = [program.instruction(index) for index in range(len(program.offsets))]
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(steps))
        step = steps[place]
        values = list(step.values)
        if not values or rng.random() < 0.1:
            steps[place] = rng.choice(steps)
            continue
        index = rng.randrange(len(values))
        operand = step.spec.fields[index]
        if operand.is_list:
            items = list(values[index])
            items[rng.randrange(len(items) + 1) :] = [rng.randrange(-1, 9) for _ in range(rng.randrange(3))]
            values[index] = tuple(items)
        elif operand.name == "device_index":
            values[index] = rng.randrange(3)
        elif operand.kind is Kind.DTYPE:
            values[index] = tuple(rng.choice((0, 1, 2, 4, 6, 8, 16, 32, 64)) for _ in range(3))
        else:
            values[index] = rng.choice(
                (-1, 0, 1, 2, 3, 7, 64, 1 << 54, 1 << 62, values[index] + rng.choice((-1, 1)))
            )
        steps[place] = replace(step, values=tuple(values))
    try:
        offsets, words = assemble(steps)
        return write_object(replace(program, offsets=offsets, words=words))
    except (HeddleError, LookupError):
        return None


def outcome(code: bytes, is_run: bool) -> str:
    """What becomes of a file: a code, "loads", or "runs". Anything but a HeddleError is a fault."""
    try:
        made = Executable.load_exec(code, HELPERS)
    except HeddleError as error:
        return str(error.code)
    if not is_run or made.globals != ["count", "main"] or len(made.get_function_params("main")) != 2:
        return "loads"
    try:
        vm = VirtualMachine(made, heddle.cpu())
        error = vm.record("main", tensor(WEIGHT), 3, fuel=300).error
    except HeddleError as refused:
        return f"refused {refused.code}"
    if error is None:
        return "runs"
    if isinstance(error, Refused):
        return "refused by a function"
    assert isinstance(error, HeddleError), repr(error)
    return f"fails {error.code}"


def attack(count: int, seed: int) -> dict[str, int]:
    """How often what became of so many files."""
    rng, made = random.Random(seed), executable()
    code = bytes(made.save()[0])
    found: dict[str, int] = {}
    for number in range(count):
        given = mutated_bytes(rng, code) if number % 2 else mutated_program(rng, made)
        if given is not None:
            try:
                seen = outcome(given, is_run=True)
            except Exception as error:
                raise AssertionError(f"seed {seed}, number {number}: {error!r}") from error
            found[seen] = found.get(seen, 0) + 1
    return found


def test_mutated_files_are_refused_or_run() -> None:
    found = attack(3000, random.Random().randrange(1 << 30))
    assert len(found) > 10 and found.get("runs", 0) > 20


# ---- constants in a file of their own


def test_large_constants_lie_in_a_file_of_their_own(tmp_path: Path) -> None:
    made = executable()
    before = len(made.save()[0])
    path = tmp_path / "weights.params"
    assert [*made.get_late_bound_consts(24)] == [*made.get_late_bound_consts(1)]
    assert made.get_late_bound_consts(25) == {}
    made.move_late_bound_consts(path, 24)
    (name,) = load_param_dict(path.read_bytes())
    assert name.startswith("const_")
    code, lib = made.save()
    assert len(code) < before and "late-bound" in made.constants
    with pytest.raises(HeddleError, match="V0309"):
        VirtualMachine(Executable.load_exec(code, lib), heddle.cpu())
    again = Executable.load_exec(code, lib)
    again.load_late_bound_consts(path)
    assert_result(run(again))
    for given in ({}, {name: WEIGHT, "other": WEIGHT}, {"other": WEIGHT}):
        with pytest.raises(HeddleError, match=r"V0309.*(const_|other)"):
            Executable.load_exec(code, lib).load_late_bound_consts_from_map(given)
    again = Executable.load_exec(code, lib)
    again.load_late_bound_consts_from_map({name: WEIGHT})
    assert_result(run(again))


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn"]
)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 5), (4, 3)])
def test_parameters_come_back(dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng()
    value = tensor(rng.integers(0, 2, shape).astype(DataType(dtype).numpy()))
    other = tensor(rng.standard_normal(5))
    data = save_param_dict({"a": value, "\u00e9": other})
    assert data[:16] == struct.pack("<QQ", 0xF7E58D4F05049CB7, 0)
    found = load_param_dict(bytearray(data))
    assert [*found] == ["a", "\u00e9"]
    for name, wanted in (("a", value), ("\u00e9", other)):
        assert isinstance(found[name], Tensor)
        assert (found[name].shape, found[name].dtype) == (wanted.shape, wanted.dtype)
        assert bytes(found[name].raw_bytes()) == bytes(wanted.raw_bytes())
    for end in range(len(data)):
        with pytest.raises(HeddleError, match="F0106"):
            load_param_dict(data[:end])
    with pytest.raises(HeddleError, match="Invalid parameters file format"):
        load_param_dict(b"\0" * len(data))


def test_an_object_file_is_what_the_program_is() -> None:
    program = builder().program()
    again = read_object(write_object(program))
    rows = sorted(program.functions, key=lambda row: row.kind.name != "VM")
    assert [(row.name, row.num_args, row.register_file_size) for row in again.functions] == [
        (row.name, row.num_args if row.has_bytecode else -2, row.register_file_size) for row in rows
    ]
