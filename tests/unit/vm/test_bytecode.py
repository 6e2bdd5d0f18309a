import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.runtime import DataType, FunctionModule, Shape, Tensor, load_module, tensor
from heddle.runtime.artefact import read_artefact
from heddle.runtime.artefact_file import write_artefact
from heddle.runtime.library_program import TO_RUN_ALONE
from heddle.support.diagnostics import FormatError, HeddleError, UsageError
from heddle.support.span import TextSpan
from heddle.vm import BytecodeError
from heddle.vm.encode import assemble, decode, decode_arg, encode, encode_arg
from heddle.vm.isa import MAX_VALUE, ArgKind, Instruction
from heddle.vm.relax import ExecBuilder, FuncKind, FunctionRow, Program, VMExecutable
from heddle.vm.relax.isa import CALL, GOTO, IF, RELAX, RET, VOID
from heddle.vm.verify import verify_program

from .generators import instructions
from .programs import countdown

WORDS = st.integers(-MAX_VALUE, MAX_VALUE)


@pytest.mark.fact("1.3", "1.4")
@given(st.lists(instructions(RELAX), max_size=6))
def test_encode_decode_round_trip(program):
    offsets, words = assemble(program)
    at = 0
    for expected, offset in zip(program, offsets, strict=True):
        assert at == offset
        found, at = decode(RELAX, words, at)
        assert found == expected
    assert at == len(words)


@pytest.mark.fact("1.5", "1.6")
@given(st.sampled_from(ArgKind), WORDS)
def test_argument_words(kind, value):
    assert decode_arg(encode_arg(kind, value)) == (kind, value)


@pytest.mark.fact("1.2", "1.3", "1.5", "1.6", "1.7", "1.8")
def test_encoding_is_the_documented_one():
    made = ExecBuilder()
    made.declare_function("f")
    assert made.r(3) == 3
    assert made.imm(3) == 2**56 + 3
    assert made.c(2) == 2 * 2**56 + 2
    assert made.f("f") == 3 * 2**56
    assert made.void_arg() == made.r(2**54) == 18014398509481984
    assert made.vm_state() == made.void_arg() + 1
    assert encode(Instruction(CALL, (7, 2, (5, 6)))) == [1, 7, 2, 2, 5, 6]
    assert encode(Instruction(RET, (4,))) == [2, 4]
    assert encode(Instruction(GOTO, (-3,))) == [3, -3]
    assert encode(Instruction(IF, (1, 5))) == [4, 1, 5]
    with pytest.raises(BytecodeError, match="V0203"):
        made.imm(2**55)
    assert decode_arg(made.imm(-(2**55 - 1)))[1] == -(2**55 - 1)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=12))
def test_decoding_noise_is_a_typed_error(words):
    at = 0
    try:
        while at < len(words):
            _, at = decode(RELAX, words, at)
    except BytecodeError:
        pass


@pytest.mark.fact("2.4", "2.8", "3.1", "3.2", "3.3")
def test_as_text_layout():
    assert countdown().get().as_text() == (
        "@main:\n"
        "  call  is_zero          in: %0           dst: %1\n"
        "  If    %1, 3\n"
        "  call  vm.builtin.copy  in: i0           dst: %2\n"
        "  goto  4\n"
        "  call  minus_one        in: %0           dst: %3\n"
        "  call  main             in: %3           dst: %4\n"
        "  call  plus             in: %4, i1       dst: %2\n"
        "  ret   %2\n\n"
        "@is_zero packed_func;\n\n@vm.builtin.copy packed_func;\n\n"
        "@minus_one packed_func;\n\n@plus packed_func;\n\n"
    )


@pytest.mark.fact("1.8", "3.5")
def test_as_python_builds_the_same_program():
    made = countdown()
    scope = {"rx": type("rx", (), {"Builder": ExecBuilder})}
    exec(made.get().as_python(), scope)
    assert scope["ib"].get().as_text() == made.get().as_text()
    text = made.get().as_python()
    assert text.splitlines()[0] == "ib = rx.Builder()"
    assert '    ib.emit_call("plus", args=[ib.r(4), ib.imm(1)], dst=ib.r(2))' in text.splitlines()


@pytest.mark.fact("3.4", "2.4")
def test_operands_in_text():
    made = ExecBuilder()
    with made.function("f", 1):
        made.emit_call("g", [made.void_arg(), made.vm_state(), made.imm(-5), (1, 2), made.f("f")])
        made.emit_ret(made.r(0))
    executable = made.get()
    assert "in: %void, %vm, i-5, c[0], f[f] dst: %void" in executable.as_text()
    assert 'args=[ib.r(void), ib.r(vm), ib.imm(-5), ib.c(0), ib.f("f")])' in executable.as_python()


@pytest.mark.fact("2.8", "3.5")
def test_registers_are_renumbered_densely():
    def program(numbers):
        made = ExecBuilder()
        a, b = numbers
        with made.function("f", 1):
            made.emit_call("g", [made.r(0)], dst=made.r(a))
            made.emit_call("g", [made.r(a)], dst=made.r(b))
            made.emit_if(made.r(b), 2)
            made.emit_call("g", [made.r(b)], dst=made.r(a))
            made.emit_call("g", [made.vm_state()])
            made.emit_ret(made.r(b))
        return made.get()

    assert program((9, 3)).as_text() == program((1, 2)).as_text()
    assert program((9, 3)).program.functions[0].register_file_size == 3
    lines = program((9, 3)).as_text().splitlines()
    assert lines[3].split() == ["If", "%2,", "2"] and lines[6].split() == ["ret", "%2"]
    assert "in: %vm" in lines[5] and lines[5].endswith("dst: %void")


@pytest.mark.fact("2.6")
def test_constants_are_shared_by_content():
    made = ExecBuilder()
    ones = tensor(np.ones((2, 3), "float32"))
    first = made.convert_constant(ones)
    assert made.convert_constant(tensor(np.ones((2, 3), "float32"))) == first
    assert made.convert_constant(tensor(np.ones((3, 2), "float32"))) != first
    assert made.convert_constant(tensor(np.ones((2, 3), "float64"))) != first
    assert made.convert_constant("s") == made.convert_constant("s")
    assert made.convert_constant((1, 2)) == made.convert_constant(Shape([1, 2]))
    assert made.convert_constant("float32") != made.convert_constant(DataType("float32"))
    assert made.convert_constant(0.0) != made.convert_constant(-0.0)
    assert made.convert_constant(7) == made.imm(7)
    assert made.convert_constant(True) == made.imm(1)
    assert decode_arg(made.convert_constant(2**60))[0] is ArgKind.CONSTANT
    with pytest.raises(UsageError, match="V0203"):
        made.convert_constant(object())


def test_stats_lists_constants_and_functions():
    made = ExecBuilder()
    with made.function("f"):
        for value in (tensor(np.zeros((2, 3))), tensor(1), (4, 5), DataType("int8")):
            made.emit_call("g", [value], dst=made.r(0))
        made.emit_call("g", [made.convert_constant("s"), made.convert_constant(1.5)], dst=made.r(0))
        made.emit_ret(made.r(0))
    text = made.get().stats()
    assert 'Constant pool (# 6): [[2, 3], scalar, shapetuple[4, 5], int8, "s", 1.5]' in text
    assert 'Globals (#2): ["f", "g"]' in text


def broken(emit, num_inputs=1):
    made = ExecBuilder()
    with made.function("f", num_inputs):
        emit(made)
    return made


@pytest.mark.fact("2.9", "1.9")
@pytest.mark.parametrize(
    ("emit", "code"),
    [
        (lambda b: b.emit_ret(b.r(5)), "V0107.*register 5 of function 'f'"),
        (lambda b: (b.emit_call("g", [b.r(3)], dst=b.r(1)), b.emit_ret(b.r(1))), "V0107"),
        (lambda b: (b.emit_if(b.r(2), 2), b.emit_ret(b.r(0))), "V0107"),
        (lambda b: (b.emit_call("g", [b.c(4)]), b.emit_ret(b.r(0))), "V0104"),
        (lambda b: (b.emit_call("g", [(3 << 56) + 9]), b.emit_ret(b.r(0))), "V0105"),
        (lambda b: (b.emit_goto(0), b.emit_ret(b.r(0))), "V0106"),
        (lambda b: (b.emit_if(b.r(0), 1), b.emit_ret(b.r(0))), "V0106"),
        (lambda b: None, "V0205.*EndFunction not called"),
    ],
)
def test_get_refuses(emit, code):
    with pytest.raises(RuntimeError, match=code):
        broken(emit).get()


@pytest.mark.fact("2.9")
def test_get_wants_room_for_the_result_of_a_compiled_function():
    made = ExecBuilder()
    made.define_vmtir_function("f", 2, 2)
    with pytest.raises(RuntimeError, match=r"V0109.*'f'.*3 registers.*got 2"):
        made.get()


@pytest.mark.fact("2.1", "2.3", "2.4", "2.5")
def test_builder_misuse():
    made = ExecBuilder()
    with pytest.raises(ValueError, match="emit should happen in a function scope"):
        made.emit_ret(0)
    with pytest.raises(ValueError, match="emit should happen in a function scope"):
        made.emit_call("g")
    with pytest.raises(BytecodeError, match="V0204"):
        made.f("nothing")
    with made.function("f", 1):
        made.emit_ret(made.r(0))
    for emit in (made.emit_ret, made.emit_goto, lambda word: made.emit_if(word, 2)):  # the scope is left
        with pytest.raises(ValueError, match="emit should happen in a function scope"):
            emit(made.r(0))
    with made.function("again", 1):
        made.emit_ret(made.r(0))
        for argument in ("text", 2.5, True, None):
            with pytest.raises(UsageError, match="V0203"):
                made.emit_call("g", [argument])
    with pytest.raises(BytecodeError, match="V0202"), made.function("f", 1):
        pass
    with pytest.raises(BytecodeError, match="V0202"):
        made.declare_function("f", FuncKind.PACKED)
    with pytest.raises(BytecodeError, match="V0109"), made.function("h", 2, param_names=["a"]):
        pass
    made.declare_function("f", FuncKind.VM)


@pytest.mark.fact("2.7")
def test_get_is_repeatable():
    made = countdown()
    assert made.get().program == made.get().program


def program_of(code, *, functions=None, constants=(), size=2, num_args=1):
    offsets, words = assemble(code)
    rows = functions or (
        FunctionRow(FuncKind.VM, "f", num_args, 0, len(code), size),
        FunctionRow(FuncKind.PACKED, "g", -2),
    )
    return Program(RELAX, tuple(rows), tuple(constants), offsets, words)


def arg(kind, value):
    return encode_arg(kind, value)


RET0 = Instruction(RET, (0,))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ([Instruction(RET, (2,))], "V0103"),
        ([Instruction(RET, (-1,))], "V0103"),
        ([Instruction(CALL, (2, 1, ())), RET0], "V0103"),
        ([Instruction(CALL, (VOID + 1, 1, ())), RET0], "V0103"),
        ([Instruction(CALL, (1, 1, (5,))), RET0], "V0103"),
        ([Instruction(CALL, (1, 1, (arg(ArgKind.CONSTANT, 0),))), RET0], "V0104"),
        ([Instruction(CALL, (1, 1, (arg(ArgKind.FUNCTION, 2),))), RET0], "V0105"),
        ([Instruction(CALL, (1, 2, ())), RET0], "V0105"),
        ([Instruction(CALL, (1, -1, ())), RET0], "V0105"),
        ([Instruction(CALL, (1, 1, (9 << 56,))), RET0], "V0111"),
        ([Instruction(CALL, (1, 1, (-1,))), RET0], "V0111"),
        ([Instruction(GOTO, (1,)), Instruction(GOTO, (1,))], "V0106"),
        ([Instruction(GOTO, (-1,)), RET0], "V0106"),
        ([Instruction(GOTO, (0,)), RET0], "V0106"),
        ([Instruction(IF, (0, 1)), RET0], "V0106"),
        ([Instruction(IF, (0, 7)), RET0], "V0106"),
        ([Instruction(IF, (VOID, 2)), RET0, RET0], "V0103"),
        ([Instruction(CALL, (1, 1, ()))], "V0110"),
        ([RET0, Instruction(IF, (0, -1))], "V0106"),
        ([Instruction(RET, (1,))], "V0107"),
        # written on one side of a branch only
        ([Instruction(IF, (0, 2)), Instruction(CALL, (1, 1, ())), Instruction(RET, (1,))], "V0107"),
        ([Instruction(CALL, (VOID, 0, ())), RET0], "V0108"),
    ],
)
def test_verify_finds(code, expected):
    findings = verify_program(program_of(code))
    assert [finding.code.name for finding in findings][:1] == [expected]
    assert "instruction" in findings[0].message


def test_verify_accepts_both_sides_of_a_branch_and_loops():
    both = [
        Instruction(IF, (0, 3)),
        Instruction(CALL, (1, 1, ())),
        Instruction(GOTO, (2,)),
        Instruction(CALL, (1, 1, ())),
        Instruction(RET, (1,)),
    ]
    assert verify_program(program_of(both)) == []
    loop = [
        Instruction(CALL, (1, 1, ())),
        Instruction(IF, (1, 2)),
        Instruction(GOTO, (-2,)),
        Instruction(RET, (1,)),
    ]
    assert verify_program(program_of(loop[:2] + [Instruction(RET, (1,)), Instruction(GOTO, (-3,))])) == []


@pytest.mark.fact("2.9")
@pytest.mark.parametrize(
    "row",
    [
        FunctionRow(FuncKind.VM, "f", 1, 0, 2, 2),
        FunctionRow(FuncKind.VM, "f", 1, 1, 1, 2),
        FunctionRow(FuncKind.VM, "f", 3, 0, 1, 2),
        FunctionRow(FuncKind.VM, "f", 1, 0, 1, 1 << 40),
        FunctionRow(FuncKind.VM, "f", -1, 0, 1, 2),
        FunctionRow(FuncKind.VM, "f", 1, -1, 1, 2),
        FunctionRow(FuncKind.VM, "f", 1, 0, 1, 2, ("a", "b")),
        FunctionRow(FuncKind.VMTIR, "f", 1, 0, 0, 1),
        FunctionRow(FuncKind.PACKED, "f", -2, 0, 1),
    ],
)
def test_verify_checks_rows(row):
    findings = verify_program(program_of([RET0], functions=(row,)))
    assert [finding.code.name for finding in findings] == ["V0109"]


def test_verify_checks_the_shape_of_the_code():
    rows = (FunctionRow(FuncKind.VM, "f", 1, 0, 1, 1),)
    for offsets, words, code in (
        ((0,), (9, 0), "V0101"),
        ((0,), (2,), "V0102"),
        ((0,), (2, 0, 5), "V0102"),
        ((1,), (2, 0), "V0102"),
        ((0,), (1, 0, 0, 99, 1), "V0102"),
        ((0,), (1, 0, 0, -1), "V0102"),
        ((0, 0), (2, 0), "V0102"),
        ((), (2, 0), "V0102"),
    ):
        assert [f.code.name for f in verify_program(Program(RELAX, rows, (), offsets, words))][:1] == [code]


def test_several_findings_are_shown_at_once_with_their_place():
    program = program_of([Instruction(CALL, (9, 1, ())), Instruction(RET, (8,))])
    program = Program(
        RELAX,
        program.functions,
        (),
        program.offsets,
        program.words,
        line_table={1: TextSpan("net.onnx node 4")},
    )
    with pytest.raises(BytecodeError, match=r"(?s)register 9.*register 8.*--> net\.onnx node 4"):
        VMExecutable(program).verify()


def rich_executable():
    made = countdown()
    with made.function("weights", 1, param_names=["x"]):
        for value in (
            np.arange(6, dtype="float32").reshape(2, 3),
            np.array(-0.0, "float16"),
            np.ones(3, bool),
        ):
            made.emit_call("identity", [tensor(value)], dst=made.r(1))
        made.emit_call(
            "identity", [made.convert_constant("a\0é"), made.convert_constant(float("nan"))], dst=made.r(1)
        )
        made.emit_call("identity", [made.convert_constant(2**60), DataType("int8"), (3, -1)], dst=made.r(1))
        made.emit_ret(made.r(1))
    made.define_vmtir_function("compiled", 2, 4, ["a", "b"])
    made.memory_scopes[0] = "global"
    made.metadata["target"] = "llvm"
    return made.get()


@pytest.mark.fact("3.5", "4.4", "4.5")
def test_save_and_load(tmp_path):
    executable = rich_executable()
    executable.export_library(tmp_path / "x.heddle")
    loaded = load_module(tmp_path / "x.heddle")
    assert loaded["as_text"]() == executable.as_text()
    assert loaded["stats"]() == executable.stats()
    assert loaded.as_python() == executable.as_python()
    before, after = executable.program, loaded.program
    assert (before.functions, before.words, before.offsets) == (after.functions, after.words, after.offsets)
    assert (before.memory_scopes, before.line_table, before.metadata) == (
        after.memory_scopes,
        after.line_table,
        after.metadata,
    )
    for old, new in zip(before.constants, after.constants, strict=True):
        assert type(old) is type(new)
        if isinstance(old, Tensor):
            assert (old.shape, old.dtype) == (new.shape, new.dtype)
            assert old.numpy().tobytes() == new.numpy().tobytes()
            assert new.address % 64 == 0
        else:
            assert repr(old) == repr(new)
    loaded.export_library(tmp_path / "y.heddle")
    assert (tmp_path / "x.heddle").read_bytes() == (tmp_path / "y.heddle").read_bytes()


def test_flips_beneath_the_digests_are_typed_errors(tmp_path):
    executable = rich_executable()
    executable.export_library(tmp_path / "x.heddle")
    sections = {name: bytes(part.data) for name, part in read_artefact(tmp_path / "x.heddle").items()}
    rng = random.Random(3)
    accepted = 0
    for round_number in range(400):
        name = rng.choice([key for key in sections if "constant." not in key])
        data = bytearray(sections[name])
        if round_number % 4 == 0:
            data = data[: rng.randrange(len(data) + 1)]
        elif data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        write_artefact(tmp_path / "y", {**sections, name: bytes(data)})
        try:
            load_module(tmp_path / "y")
            accepted += 1
        except HeddleError as error:
            assert error.code[0] in "FV"  # noqa: PT017 (loading may succeed as well)
    assert accepted < 200  # names, immediates and texts may change without breaking a rule


def test_missing_sections_are_named(tmp_path):
    rich_executable().export_library(tmp_path / "x.heddle")
    sections = {name: bytes(part.data) for name, part in read_artefact(tmp_path / "x.heddle").items()}
    for name in sections:
        write_artefact(tmp_path / "y", {key: data for key, data in sections.items() if key != name})
        if name.endswith("line_table"):
            assert load_module(tmp_path / "y").line_table == {}  # files of before the table still load
            continue
        if name in TO_RUN_ALONE:
            assert load_module(tmp_path / "y").line_table != {}  # the machine does not need them
            continue
        with pytest.raises(FormatError, match="F0105") as caught:
            load_module(tmp_path / "y")
        assert name.split("/")[-1] in str(caught.value)


@pytest.mark.fact("4.1", "4.3")
def test_executable_surface():
    executable = countdown().get()
    assert executable.kind == executable.mod.kind == "relax.VMExecutable"
    assert executable.jit() is executable
    for name in ("stats", "as_text", "as_python", "vm_load_executable", "has_function"):
        assert executable.implements_function(name)
    assert executable["has_function"]("main")
    assert not executable["has_function"]("plus")
    with pytest.raises(AttributeError, match="U0501"):
        executable["no"]
    kernels = FunctionModule({"k": len})
    assert countdown().get(imports=[kernels]).imports == (kernels,)


def test_listing_with_sources():
    text = countdown().get().as_text(with_sources=True)
    lines = text.splitlines()
    assert lines[1] == "  ; loop.py:3"
    assert "  ; no source" in lines
    plain = [line for line in lines if not line.startswith("  ;")]
    assert plain == countdown().get().as_text().splitlines()
