"""A machine is its table: a third one, with an accumulator, gets everything else from the shared code."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.driver.docs import isa_page
from heddle.runtime import load_module
from heddle.runtime.module import register_loader
from heddle.support.diagnostics import UsageError
from heddle.vm import BytecodeError
from heddle.vm.dataflow import registers_read, registers_written, successors, with_registers
from heddle.vm.disasm import as_python, as_text, instruction_text
from heddle.vm.encode import assemble, decode, encode
from heddle.vm.executable import Executable, read_program
from heddle.vm.isa import Effect, FuncKind, Instruction, InstructionSet, Kind, Operand, Spec
from heddle.vm.program import FunctionRow, Program
from heddle.vm.relax import VMExecutable
from heddle.vm.relax.isa import RELAX
from heddle.vm.relay.isa import RELAY
from heddle.vm.tail import tail_calls
from heddle.vm.verify import verify_program

from .generators import Maker, instructions, walk

ACC = 1 << 40  # the accumulator: no register of a frame, always written

_TO = Operand("to", Kind.WRITE, "register to write, or the accumulator", special=(ACC,))
_FROM = Operand("from", Kind.READ, "register to read, or the accumulator", special=(ACC,))
SET = Spec(
    "set",
    10,
    (Operand("number", Kind.NUMBER, least=-99, most=99), Operand("type", Kind.DTYPE), _TO),
    Effect(0),
    "to := number, of a type",
    "set {to} {number} {type}",
)
ADD = Spec(  # counts apart from their lists, and two lists
    "add",
    20,
    (
        Operand("num_plus", Kind.COUNT, counts="plus"),
        Operand("num_minus", Kind.COUNT, counts="minus"),
        _TO,
        Operand("plus", Kind.READ, is_list=True, special=(ACC,)),
        Operand("minus", Kind.READ, is_list=True, special=(ACC,)),
    ),
    Effect(0),
    "to := the sum of plus less the sum of minus",
    "add {to} [{plus}] - [{minus}]",
)
TEST = Spec(
    "test",
    30,
    (_FROM, Operand("yes", Kind.OFFSET), Operand("no", Kind.OFFSET)),
    Effect.ENDS,
    "pc += yes if from > 0 else no",
    "test {from} {yes} {no}",
)
CALL = Spec(
    "call",
    40,
    (
        Operand("func", Kind.CALLEE, rows=(FuncKind.VM,)),
        Operand("num_args", Kind.COUNT, counts="args"),
        Operand("args", Kind.READ, is_list=True, special=(ACC,)),
        _TO,
    ),
    Effect.CALLS,
    "to := func(args...)",
    "call {to} {func}#{func.value}({args})",
    fuel=5,
)
HALT = Spec("halt", 50, (_FROM,), Effect.ENDS | Effect.RETURNS, "return from", "halt {from}")
TOY = InstructionSet(
    "toy",
    "The toy machine",
    "An accumulator and a few registers.",
    (SET, ADD, TEST, CALL, HALT),
    special={ACC: "acc"},
    arg_kinds=(),
    register_text="${}",
    separator=",",
)
INT32 = (0, 32, 1)


class ToyExecutable(Executable):
    kind = "toy.Executable"
    isa = TOY


register_loader(ToyExecutable.kind, lambda sections: ToyExecutable(read_program(TOY, sections)))


def run(program: Program, row: FunctionRow, args: list[int]) -> int:
    """The whole machine."""
    values = {**dict(enumerate(args)), ACC: 0}
    at = row.start
    while True:
        step = program.instruction(at)
        if step.spec is SET:
            values[step.value("to")] = step.value("number")
        elif step.spec is ADD:
            total = sum(values[n] for n in step.value("plus")) - sum(values[n] for n in step.value("minus"))
            values[step.value("to")] = total
        elif step.spec is CALL:
            given_values = [values[n] for n in step.value("args")]
            values[step.value("to")] = run(program, program.functions[step.value("func")], given_values)
        elif step.spec is TEST:
            at += step.value("yes" if values[step.value("from")] > 0 else "no")
            continue
        else:
            return values[step.value("from")]
        at += 1


def triangle() -> Program:
    """triangle(n, sum): sum + n + (n - 1) + ... by recursion; main(n): triangle(n, 0)."""
    code = [
        Instruction(TEST, (0, 2, 1)),
        Instruction(HALT, (1,)),
        Instruction(ADD, (ACC, (0, 1), ())),
        Instruction(SET, (1, INT32, 2)),
        Instruction(ADD, (2, (0,), (2,))),
        Instruction(CALL, (0, (2, ACC), 2)),
        Instruction(HALT, (2,)),
        Instruction(SET, (0, INT32, 1)),
        Instruction(CALL, (0, (0, 1), 1)),
        Instruction(HALT, (1,)),
    ]
    rows = (FunctionRow(FuncKind.VM, "triangle", 2, 0, 7, 3), FunctionRow(FuncKind.VM, "main", 1, 7, 10, 2))
    return Program(TOY, rows, (), *assemble(code))


def test_the_toy_machine_runs() -> None:
    program = triangle()
    assert verify_program(program) == []
    n = random.Random().randrange(60)
    assert run(program, program.functions[1], [n]) == n * (n + 1) // 2


def test_words_are_in_the_order_of_the_table() -> None:
    assert encode(Instruction(ADD, (7, (1, 2), (3,)))) == [20, 2, 1, 7, 1, 2, 3]
    assert encode(Instruction(SET, (-5, (2, 16, 1), ACC))) == [10, -5, 2, 16, 1, ACC]
    assert encode(Instruction(CALL, (3, (4, 5), 6))) == [40, 3, 2, 4, 5, 6]


@given(st.lists(instructions(TOY), max_size=6))
def test_encode_decode_round_trip(code: list[Instruction]) -> None:
    offsets, words = assemble(code)
    at = 0
    for expected, offset in zip(code, offsets, strict=True):
        assert at == offset
        found, at = decode(TOY, words, at)
        assert found == expected
    assert at == len(words)


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.sampled_from([10, 20, 30, 40, 50, 0, 1, 2]), max_size=12)
)
def test_decoding_noise_is_a_typed_error(words: list[int]) -> None:
    try:
        instruction, after = decode(TOY, words, 0)
    except BytecodeError as error:
        assert error.code in ("V0101", "V0102")  # noqa: PT017 (decoding may succeed as well)
    else:
        assert encode(instruction) == words[:after]


@pytest.mark.parametrize(
    "values", [(1,), (1, INT32, 2, 3), (INT32, INT32, 2), (1, 5, 2), (1, INT32, "x"), (1 << 63, INT32, 2)]
)
def test_values_that_are_not_the_operands_are_refused(values: tuple[object, ...]) -> None:
    with pytest.raises(BytecodeError, match="V0203"):
        encode(Instruction(SET, values))


def test_listing() -> None:
    lines = as_text(triangle()).splitlines()
    assert lines[0] == "@triangle:"
    assert [lines[i].strip() for i in (1, 3, 4, 6)] == [
        "test $0 2 1",
        "add $acc [$0,$1] - []",
        "set $2 1 int32",
        "call $2 triangle#0($2,$acc)",
    ]
    assert instruction_text(triangle(), 9) == "halt $1"
    assert '    ib.emit_call("triangle", [ib.r(0), ib.r(1)], ib.r(1))' in as_python(triangle()).splitlines()


def test_what_is_read_and_written() -> None:
    add = Instruction(ADD, (7, (1, ACC), (3,)))
    assert (list(registers_read(add)), list(registers_written(add))) == ([1, ACC, 3], [7])
    assert successors(4, Instruction(TEST, (0, 3, -2))) == (7, 2)
    assert with_registers(add, lambda n: n + 10 if n < 9 else n) == Instruction(ADD, (17, (11, ACC), (13,)))


def test_tail_calls_are_found() -> None:
    program = triangle()
    assert [tail_calls(program, row) for row in program.functions] == [{5}, {1}]


def broken(*code: Instruction) -> list[str]:
    rows = (
        FunctionRow(FuncKind.VM, "f", 1, 0, len(code), 2),
        FunctionRow(FuncKind.PACKED, "outside", -2),
    )
    return [found.code.name for found in verify_program(Program(TOY, rows, (), *assemble(code)))]


HALT0 = Instruction(HALT, (0,))


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (Instruction(SET, (100, INT32, 1)), "V0113"),
        (Instruction(SET, (-100, INT32, 1)), "V0113"),
        (Instruction(SET, (0, (99, 32, 1), 1)), "V0113"),
        (Instruction(SET, (0, (0, 33, 1), 1)), "V0113"),
        (Instruction(SET, (0, INT32, 2)), "V0103"),
        (Instruction(ADD, (ACC, (0, ACC), (5,))), "V0103"),
        (Instruction(ADD, (ACC, (0,), (1,))), "V0107"),
        (Instruction(TEST, (0, 1, 0)), "V0106"),
        (Instruction(TEST, (0, 2, 1)), "V0106"),
        (Instruction(CALL, (1, (), 1)), "V0105"),  # a packed function, and the table wants bytecode
        (Instruction(CALL, (2, (), 1)), "V0105"),
        (Instruction(CALL, (0, (), 1)), "V0108"),
    ],
)
def test_verify_finds(step: Instruction, expected: str) -> None:
    assert broken(step, HALT0) == [expected]


def test_control_may_not_fall_through() -> None:
    assert broken(HALT0, Instruction(SET, (0, INT32, 1))) == ["V0110"]


@pytest.mark.parametrize("isa", [RELAX, TOY, RELAY], ids=lambda isa: isa.name)
def test_what_passes_the_verifier_reads_nothing_unwritten(isa: InstructionSet) -> None:
    """Random programs from the table; those that pass are walked at random, and a random word is changed."""
    seed = random.Random().randrange(1 << 32)
    rng = random.Random(seed)
    outcomes = {True: 0, False: 0}
    for _ in range(3000):
        program = Maker(isa, rng).program()
        if rng.random() < 0.2:
            words = list(program.words)
            words[rng.randrange(len(words))] = rng.choice((-1, 0, 1, 3, 1 << 62))
            program = Program(isa, program.functions, program.constants, program.offsets, tuple(words))
        passes = verify_program(program) == []
        outcomes[passes] += 1
        if passes:
            assert as_text(program), f"seed {seed}"
            for row in program.functions[:-1]:
                for _ in range(3):
                    walk(program, row, rng)
    assert min(outcomes.values()) > 200, f"seed {seed}: {outcomes}"


def test_a_page_is_made_of_the_table() -> None:
    page = isa_page(TOY)
    assert page.startswith("# The toy machine's instruction set")
    assert "| `call` | 40 | func, num_args, args, to | calls | 5 | `to := func(args...)` |" in page
    assert "| `test` | 30 | from, yes, no | ends, jumps | 1 |" in page
    assert "- to: register to write, or the accumulator" in page
    assert "Kinds of arguments" not in page


def test_files_say_which_machine_they_are_for(tmp_path) -> None:
    program = triangle()
    ToyExecutable(program).export_library(tmp_path / "toy.heddle")
    loaded = load_module(tmp_path / "toy.heddle")
    assert isinstance(loaded, ToyExecutable)
    assert loaded.program == program
    with pytest.raises(UsageError, match=r"V0303.*relax machine, got one of toy"):
        VMExecutable(program)
