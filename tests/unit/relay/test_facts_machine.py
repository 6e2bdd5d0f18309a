"""Relay's machine, its executables and object files, by the numbered facts that users' programs rely on."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from heddle.runtime.vm import Executable, VirtualMachine

import heddle as tvm
from heddle import relay
from heddle.runtime import load_module, profiler_vm, tensor
from heddle.runtime.data import ConstructorValue
from heddle.support.diagnostics import HeddleError, Trap
from heddle.vm.relay.isa import RELAY
from tests.unit.relay.programs import floats, plain, program, run
from tests.unit.vm import test_relay_files as files

F32 = "float32"


def compiled(text: str) -> Any:
    return relay.vm.compile(program(text))


def machine(text: str) -> Any:
    return VirtualMachine(compiled(text), tvm.cpu())


# ---- 5a. Instructions


@pytest.mark.parametrize(
    ("mnemonic", "operands"),
    [
        ("ret", "result"),
        ("invoke", "func num_args dst args"),
        ("invoke_closure", "closure num_args dst args"),
        ("alloc_tensor", "storage place dtype num_dims dst dims"),
        ("alloc_tensor_reg", "storage place shape dtype dst"),
        ("alloc_adt", "tag num_fields dst fields"),
        ("alloc_closure", "func num_free_vars dst free_vars"),
        ("get_field", "object index dst"),
        ("if", "test target true_offset false_offset"),
        ("load_const", "const device_index dst"),
        ("goto", "offset"),
        ("get_tag", "object dst"),
        ("load_consti", "value dst"),
        ("fatal", ""),
        ("alloc_storage", "size alignment dtype device_index num_dims dst dims"),
    ],
)
def test_5a_0_instructions_have_the_operands(mnemonic: str, operands: str) -> None:
    spec = next(spec for spec in RELAY.instructions if spec.mnemonic == mnemonic)
    assert [operand.name for operand in spec.operands] == operands.split()


class _File:
    """Reads an object file by the description of the format alone."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def take(self, form: str) -> Any:
        found = struct.unpack_from("<" + form, self.data, self.place)
        self.place += struct.calcsize("<" + form)
        return found[0] if len(found) == 1 else found

    def text(self) -> str:
        size = self.take("Q")
        return bytes(self.take(f"{size}s")).decode()

    def texts(self) -> list[str]:
        return [self.text() for _ in range(self.take("Q"))]

    def numbers(self) -> list[int]:
        return [self.take("q") for _ in range(self.take("Q"))]

    def header(self) -> list[tuple[int, int, str]]:
        assert self.take("Q") == 0xD225DE2F4214151D
        self.text()
        devices = [(*self.take("ii"), self.text()) for _ in range(self.take("Q"))]
        assert self.take("i") == 0
        return devices

    def array(self) -> Any:
        magic, reserved, device, number, ndim, code, bits, lanes = self.take("QQiiiBBH")
        assert (magic, reserved, device, number, lanes) == (0xDD5E40F096B4A13F, 0, 1, 0, 1)
        shape = [self.take("q") for _ in range(ndim)]
        kind = {0: "i", 1: "u", 2: "f", 6: "b"}[code] + str(max(bits // 8, 1))
        raw = self.take(f"{self.take('q')}s")
        return np.frombuffer(raw, "?" if kind[0] == "b" else kind).reshape(shape)

    def primitives(self) -> tuple[list[str], dict[int, dict[str, str]]]:
        names = self.texts()
        return names, {
            self.take("Q"): {self.text(): self.text() for _ in range(self.take("Q"))}
            for _ in range(self.take("Q"))
        }

    def function(self) -> tuple[str, int, list[str], list[list[int]]]:
        name, size, count = self.texts()
        params, devices = self.texts(), self.numbers()
        assert devices == [0] * len(params)
        return name, int(size), params, [self.numbers() for _ in range(int(count))]


def hashed(fields: list[int]) -> int:
    key = fields[0]
    for value in fields[1:]:
        key ^= (value + 0x9E3779B9 + (key << 6) + (key >> 2)) % 2**64
    return key


def test_5a_0_and_5b_9_a_file_reads_by_its_description() -> None:
    """Sections in order; hashes; the code of `count`, of which every operand is known."""
    made = files.executable()
    found = _File(bytes(made.save()[0]))
    assert found.header() == [(1, 0, "")]
    assert found.texts() == made.globals == ["count", "main"]
    kinds = found.take("Q")
    assert kinds == len(made.program.constants) and found.take("i") == 0
    np.testing.assert_array_equal(found.array(), files.WEIGHT)
    found.place = bytes(found.data).index(struct.pack("<QQ", len(made.primitive_ops), 5) + b"minus")
    names, known = found.primitives()
    assert names == made.primitive_ops and set(known) <= set(range(len(names)))
    assert found.take("Q") == 2
    name, registers, params, code = found.function()
    assert (name, params) == ("count", ["n", "value"]) and registers == 9
    minus = names.index("minus")
    assert [words[1:] for words in code] == [
        [14, 0, 2],
        [10, 0, 2, 1, 2],
        [1, 1],
        [14, 1, 3],
        [21, minus, 2, 4, 0, 3],
        [7, 300, 2, 5, 1, 4],
        [13, 5, 6],
        [9, 5, 0, 7],
        [2, 0, 2, 8, 4, 5],
        [1, 8],
    ]
    _, _, _, main = found.function()
    assert found.place == len(found.data)
    for words in code + main:
        assert words[0] % 2**64 == hashed(words[1:])
    texts = dict.fromkeys(words[1] for words in main)
    assert {4, 5, 6, 8, 3, 11, 12, 15, 16, 17, 18, 19, 20} <= texts.keys()


def test_5a_0_invoke_packed_counts_arguments_and_outputs() -> None:
    """`packed_index, arity, output_size, args`: outputs last."""
    made = compiled("def @main(%x: Tensor[(3), float32], %y: Tensor[(3), float32]) { %x - %y }")
    lines = [
        line.partition("#")[0].split()[1:]
        for line in made.bytecode.splitlines()
        if line[:2].strip().isdigit()
    ]
    code = [[int(word) for word in words] for words in lines]
    number = made.primitive_ops.index("subtract")
    (call,) = (words for words in code if words[:2] == [4, number])
    made_at = {words[7] for words in code if words[0] == 5}
    assert call[2:6] == [3, 1, 0, 1] and call[6] in made_at
    assert files.instruction_hash([4, *call[1:]]) == hashed(call)


def test_5a_1_arguments_are_in_the_first_registers() -> None:
    text = "def @f(%a: int32, %b: int32) -> int32 { %a - %b } def @main(%x: int32, %y: int32) { @f(%y, %x) }"
    vm = machine(text)
    assert vm.run(np.int32(3), np.int32(10)).numpy() == 7
    offsets = "def @main(%n: int32) -> int32 { if (%n == 0) { 7 } else { @main(%n - 1) } }"
    made = compiled(offsets)
    jumps = [step for step in _steps(made) if step.spec.mnemonic in ("if", "goto")]
    assert jumps and all(offset != 0 for step in jumps for offset in step.values[-2:])
    assert VirtualMachine(made, tvm.cpu()).run(np.int32(5)).numpy() == 7


def _steps(made: Any) -> list[Any]:
    return [made.program.instruction(index) for index in range(len(made.program.offsets))]


def test_5a_3_an_integer_of_the_code_is_of_rank_0() -> None:
    """The document says rank 0 of LoadConsti, and that rules."""
    assert plain(machine("def @main() { 5 }").run()).shape == ()
    assert [step.spec.mnemonic for step in _steps(compiled("def @main() { 5 }"))][-1] == "ret"


def test_5a_6_tuples_and_constructors_in_python() -> None:
    vm = machine("type T { A, B(float32) } def @main(%x: float32) { ((%x, A), B(%x), fn () { %x }) }")
    pair, made, closure = vm.run(1.5)
    tags = {ctor.name_hint: ctor.tag for ctor in program("type T { A, B(float32) }").get_type("T")[1:]}
    assert (getattr(pair, "tag", 0), len(pair)) == (0, 2) and pair[0].numpy() == 1.5
    assert (pair[1].tag, len(pair[1])) == (tags["A"], 0)
    assert (made.tag, len(made)) == (tags["B"], 1) and made[0].numpy() == 1.5
    assert vm.invoke_closure(closure).numpy() == 1.5


def test_5a_6_a_global_as_a_value_is_a_closure_without_bound_values() -> None:
    made = compiled(
        "def @f(%x: float32) -> float32 { %x * 2f } "
        "def @main(%c: bool, %x: float32) { let %g = if (%c) { @f } else { @f }; %g(%x) }"
    )
    closures = [step for step in _steps(made) if step.spec.mnemonic == "alloc_closure"]
    assert closures and all(step.value("free_vars") == () for step in closures)
    assert VirtualMachine(made, tvm.cpu()).run(np.bool_(True), 3.0).numpy() == 6


def test_5a_7_clauses_are_tried_in_order() -> None:
    text = (
        "type T { A(int32), B } def @main(%t: T, %s: T) -> int32 { "
        "match? ((%t, %s)) { (A(%x), B) => %x, (A(%x), _) => %x + 10, (_, A(%y)) => %y + 100 } }"
    )
    mod = program(text)
    made = relay.vm.compile(mod)
    a, b = (ctor.tag for ctor in mod.get_type("T")[1:])
    one, none = ConstructorValue(a, (np.int32(1),)), ConstructorValue(b, ())
    vm = VirtualMachine(made, tvm.cpu())
    assert [int(vm.run(*pair).numpy()) for pair in ((one, none), (one, one), (none, one))] == [1, 11, 101]
    with pytest.raises(Trap, match="no clause"):
        vm.run(none, none)
    names = [step.spec.mnemonic for step in _steps(made)]
    assert {"get_tag", "load_consti", "if", "fatal"} <= set(names)


# ---- 5b. Object files


def test_5b_9_sections_are_named_in_errors_and_one_file_has_all(tmp_path: Path) -> None:
    made = compiled("def @main(%x: Tensor[(2), float32]) { exp(%x) }")
    code = bytearray(made.save()[0])
    code[0] ^= 1
    with pytest.raises(HeddleError, match="Invalid VM file format in the header section"):
        Executable.load_exec(code, made.lib)
    path, x = tmp_path / "whole.so", floats(2)
    made.mod.export_library(path)
    found = VirtualMachine(load_module(path), tvm.cpu()).run(x)
    np.testing.assert_allclose(found.numpy(), np.exp(x), rtol=1e-5, atol=1e-5)


# ---- 5c. Executables


def test_5c_1_what_an_executable_says() -> None:
    weight = floats(2)
    x = relay.var("x", shape=(2,))
    made = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], relay.exp(x) + relay.const(weight))))
    assert made.mod is made and made.module is made and made.globals == ["main"]
    for text in (made.bytecode, made.constants, made.virtual_devices, made.primitives, made.stats):
        assert isinstance(text, str) and text
    assert made.primitive_ops and made.get_function_params("main") == ["x"]
    code, lib = made.save()
    assert isinstance(code, bytearray)
    for given in (code, bytes(code), code.decode("latin-1")):
        again = Executable.load_exec(given, lib)
        value = floats(2)
        found = VirtualMachine(again, tvm.cpu()).run(value).numpy()
        np.testing.assert_allclose(found, np.exp(value) + weight, rtol=1e-5, atol=1e-5)
    for wrong in ((5, lib), ([1], None), (code, "lib")):
        with pytest.raises(TypeError):
            Executable.load_exec(*wrong)
    assert made["get_function_arity"]("main") == 1 and made["get_function_param_name"]("main", 0) == "x"
    assert made["vm_load_executable"]() is made


def test_5c_4_constants_of_their_own_file(tmp_path: Path) -> None:
    weight, x = floats(8, 8), relay.var("x", shape=(8,))
    mod = tvm.IRModule.from_expr(relay.Function([x], x * relay.const(weight)))
    made, path = relay.vm.compile(mod), tmp_path / "w.params"
    (name,) = made.get_late_bound_consts(256)
    assert name.startswith("const_") and not made.get_late_bound_consts(257)
    made.move_late_bound_consts(path, 256)
    code, lib = made.save()
    value = floats(8)
    for fill in (
        lambda exe: exe.load_late_bound_consts(path),
        lambda exe: exe.load_late_bound_consts_from_map({name: tensor(weight)}),
    ):
        again = Executable.load_exec(code, lib)
        fill(again)
        np.testing.assert_allclose(VirtualMachine(again, tvm.cpu()).run(value).numpy(), value * weight)
    with pytest.raises(HeddleError, match="V0309"):
        VirtualMachine(Executable.load_exec(code, lib), tvm.cpu())
    for wrong in ({}, {name: tensor(weight), "other": tensor(weight)}):
        with pytest.raises(HeddleError, match="V0309"):
            Executable.load_exec(code, lib).load_late_bound_consts_from_map(wrong)


# ---- 5d. The machine

TWO = "def @main(%x: Tensor[(2), float32], %y: Tensor[(2), float32]) { subtract(%x, %y) }"


def test_5d_1_what_a_machine_is_made_of() -> None:
    made, x, y = compiled(TWO), floats(2), floats(2)
    for exe in (made, made.mod):
        for device in (tvm.cpu(), [tvm.cpu()]):
            for memory in (None, "naive", "pooled", {tvm.cpu(): 1}, {tvm.cpu(): 2}):
                found = VirtualMachine(exe, device, memory).run(x, y)
                np.testing.assert_array_equal(found.numpy(), x - y)
    for wrong in ((5, tvm.cpu()), (made, "cpu"), (made, tvm.cpu(), 3), (made, tvm.cpu(), {tvm.cpu(): 3})):
        with pytest.raises((TypeError, ValueError)):
            VirtualMachine(*wrong)


def test_5d_2_inputs() -> None:
    vm, x, y = machine(TWO), floats(2), floats(2)
    vm.set_input("main", y, x=x, unknown=3)
    np.testing.assert_array_equal(vm.invoke("main").numpy(), x - y)
    for wrong in ((x,), (x, y, x)):
        with pytest.raises(HeddleError, match="V0302"):
            vm.set_input("main", *wrong)
    with pytest.raises(TypeError):
        vm.set_input("main", object(), x)
    vm.set_one_input("main", "x", y)
    vm.set_one_input("main", 1, x)
    np.testing.assert_array_equal(vm.run().numpy(), y - x)
    vm.set_one_input("main", y=y)
    np.testing.assert_array_equal(vm.run().numpy(), y - y)


@pytest.mark.parametrize(
    ("ty", "given", "wanted"),
    [
        ("int32", 5, 5),
        ("int32", True, 1),
        ("float32", 0.5, 0.5),
        ("Tensor[(2), int8]", np.array([1, -2], "int8"), [1, -2]),
        ("(int32, (float32, float32))", (1, [2.5, 3.5]), (1, (2.5, 3.5))),
    ],
)
def test_5d_2_values_of_python(ty: str, given: Any, wanted: Any) -> None:
    found = plain(machine(f"def @main(%x: {ty}) {{ %x }}").run(given))
    assert str(found).replace("\n", "") == str(found) and _lists(found) == wanted


def _lists(value: Any) -> Any:
    return tuple(map(_lists, value)) if isinstance(value, tuple) else value.tolist()


def test_5d_2_tensors_of_the_device_are_not_copied() -> None:
    mine = tensor(floats(2))
    found = machine("def @main(%x: Tensor[(2), float32]) { %x }").run(mine)
    assert found.same_as(mine) or found.address == mine.address


def test_5d_3_calls() -> None:
    vm, x, y = machine(TWO), floats(2), floats(2)
    for found in (vm.invoke("main", x, y), vm.invoke("main", y=y, x=x), vm.run(x, y), vm.run(x, y=y)):
        np.testing.assert_array_equal(found.numpy(), x - y)
    vm.set_input("main", x, y)
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(vm.get_outputs()[0].numpy(), x - y)
    out = tensor(np.zeros(2, F32))
    vm.invoke_with_outputs("main", {"x": x, "y": y}, [out])
    np.testing.assert_array_equal(out.numpy(), x - y)
    for wrong in (tensor(np.zeros(2, "float64")), tensor(np.zeros(3, F32))):
        with pytest.raises(HeddleError, match="V0310"):
            vm.invoke_with_outputs("main", {"x": x, "y": y}, [wrong])
    assert [vm.get_input_index(name) for name in ("x", "y", "z")] == [0, 1, -1]
    with pytest.raises(HeddleError, match="Cannot find function"):
        vm.invoke("other", x)
    with pytest.raises(HeddleError, match="Input has not been set"):
        machine(TWO).run()


def test_5d_4_benchmarks_and_profiles() -> None:
    vm, x = machine(TWO), floats(2)
    for end_to_end in (False, True):
        found = vm.benchmark(
            tvm.cpu(), x, y=x, func_name="main", repeat=3, number=2, min_repeat_ms=0, end_to_end=end_to_end
        )
        assert len(found.results) == 3 and min(found.results) > 0
    assert len(vm.benchmark(tvm.cpu(), x, x).results) == 5
    report = profiler_vm.VirtualMachineProfiler(compiled(TWO), tvm.cpu()).profile(x, x)
    assert "subtract" in str(report)


# ---- 5e. The compiler


def test_5e_1_compiling_and_parameters() -> None:
    mod, x, y = program(TWO), floats(2), floats(2)
    compiler = relay.vm.VMCompiler()
    compiler.set_params({"y": y, "nobody": x})
    compiler.lower(mod, "llvm", "llvm")
    compiler.codegen()
    for made in (compiler.get_exec(), relay.vm.compile(mod, "llvm", None, {"y": y, "nobody": x})):
        assert made.get_function_params("main") == ["x"]
        np.testing.assert_array_equal(VirtualMachine(made, tvm.cpu()).run(x).numpy(), x - y)
    assert "y" in compiler.get_params()
    optimized, params = relay.vm.VMCompiler().optimize(mod, "llvm", "llvm", {"y": y})
    np.testing.assert_array_equal(run(optimized, x), x - y)
    assert "y" in params


def test_5e_2_what_compilation_does_in_order() -> None:
    """Unused functions go, quantised operators and normalisations become arithmetic, closures are lifted,
    common work is done once, operators are fused, constants are folded, memory is freed."""
    mod = program(
        "def @unused(%x: float32) { %x } "
        "def @main(%x: Tensor[(2, 3), float32], %g: Tensor[(3), float32], %k: float32) { "
        "let %f = fn (%y: float32) -> float32 { %y * %k }; "
        "let %a = nn.dropout(nn.relu(%x + (2f * 3f))).0; "
        "(qnn.dequantize(qnn.quantize(%x, 0.5f, 1), 0.5f, 1), exp(%x) + exp(%x), %a, %f) }"
    )
    made = relay.vm.compile(mod)
    assert "unused" not in made.globals and len(made.globals) == 2
    assert not any("dropout" in name or "qnn" in name for name in made.primitive_ops)
    assert sum(name.count("exp") for name in made.primitive_ops) <= 1
    x, g = floats(2, 3), floats(3)
    low, twice, active, _ = VirtualMachine(made, tvm.cpu()).run(x, g, 2.0)
    half = np.trunc(x / 0.5 + np.copysign(0.5, x))
    np.testing.assert_allclose(low.numpy(), (np.clip(half + 1, -128, 127) - 1) * 0.5)
    np.testing.assert_allclose(twice.numpy(), 2 * np.exp(x), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(active.numpy(), np.maximum(x + 6, 0), rtol=1e-5, atol=1e-5)
