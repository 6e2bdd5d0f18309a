"""A few seconds of the fuzzers, and files that try to be costly."""

import struct

import pytest

from heddle.runtime import DataType, cpu
from heddle.runtime.artefact import parse_artefact
from heddle.runtime.module import modules_from_sections
from heddle.runtime.native.interface import native_digest
from heddle.runtime.needs import Needs, write_needs
from heddle.runtime.wire import Writer
from heddle.support.diagnostics import HeddleError, IRTypeError
from heddle.vm.encode import assemble
from heddle.vm.executable import program_sections
from heddle.vm.isa import Instruction
from heddle.vm.relax import FuncKind, FunctionRow, Program, VirtualMachine, VMExecutable
from heddle.vm.relax.isa import CALL, GOTO, IF, RELAX, RET
from heddle.vm.verify import MAX_FINDINGS, verify_program

from .artefacts import fuzz
from .layout import entries_of, put_together
from .object_files import ObjectFiles


@pytest.mark.parametrize("run", [False, True])
def test_mutated_files_load_and_run_or_are_refused(run):
    done = fuzz(1200 if run else 2500, seed=11, run=run)
    assert not done.faults
    assert done.outcomes["loads"] > 50
    assert len(done.outcomes) > 8  # many kinds of refusal were reached
    assert not run or done.calls["result"] > 50


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("run", [False, True])
def test_mutated_object_files_load_and_run_or_are_refused(run, seed):
    done = fuzz(400, seed=seed, run=run, kind=ObjectFiles)
    assert not done.faults
    assert done.outcomes["loads"] > 20
    assert len(done.outcomes) > 6
    assert not run or done.calls["result"] > 20


def load(sections):
    """Within a time that only a wrong order of growth can exceed."""
    return modules_from_sections(parse_artefact(memoryview(put_together(entries_of(sections)))))


def program_of(code, size, num_args=1, others=()):
    offsets, words = assemble(code)
    rows = (FunctionRow(FuncKind.VM, "f", num_args, 0, len(code), size), *others)
    return Program(RELAX, rows, (), offsets, words)


PACKED = FunctionRow(FuncKind.PACKED, "vm.builtin.null_value", -2)


def test_a_tangle_of_jumps_and_registers_is_refused_or_checked_quickly():
    """Each block writes a register of its own and jumps back: as many rounds as there are registers."""
    code = []
    for number in range(6000):
        code += [Instruction(IF, (0, 2)), Instruction(CALL, (number + 1, 1, ())), Instruction(IF, (0, 2))]
        back = -len(code) if number % 2 else 1
        code.append(Instruction(GOTO, (back or 1,)))
    code.append(Instruction(RET, (0,)))
    findings = verify_program(program_of(code, 6001, others=[PACKED]))
    assert {finding.code.name for finding in findings} <= {"V0112", "V0107"}


@pytest.mark.parametrize("is_written_by_both", [True, False])
def test_a_long_chain_of_branches_is_checked(is_written_by_both):
    """Each branch writes a register of its own, and the next one reads what both wrote."""
    code = []
    for number in range(3000):
        met, own = 3 * number + 1, 3 * number + 2
        others = [met if is_written_by_both or number < 2999 else own, own + 1]
        code += [Instruction(IF, (met - 3 if number else 0, 4))]
        code += [Instruction(CALL, (met, 1, ())), Instruction(CALL, (own, 1, ())), Instruction(GOTO, (3,))]
        code += [Instruction(CALL, (register, 1, ())) for register in others]
    code.append(Instruction(RET, (met,)))
    findings = verify_program(program_of(code, 9001, others=[PACKED]))
    assert [finding.code.name for finding in findings] == ([] if is_written_by_both else ["V0107"])


def test_registers_are_bounded_by_what_can_be_written():
    body = [Instruction(RET, (0,))]
    for size, num_args in ((1 << 20, 1), (4, 1)):
        assert [f.code.name for f in verify_program(program_of(body, size, num_args))] == ["V0109"]
    assert verify_program(program_of(body, 3)) == []
    offsets, words = assemble(body * 3)
    rows = tuple(FunctionRow(FuncKind.VM, f"f{i}", 1 << 19, i, i + 1, 1 << 19) for i in range(3))
    findings = verify_program(Program(RELAX, rows, (), offsets, words))
    assert [f.code.name for f in findings] == ["V0109"]
    assert "expected at most" in findings[0].message


def test_findings_are_bounded():
    code = [Instruction(CALL, (7, 1, ()))] * 5000 + [Instruction(RET, (0,))]
    assert len(verify_program(program_of(code, 2, others=[PACKED]))) == MAX_FINDINGS


def test_long_chains_after_calls_are_followed_once():
    """Half of the code are calls of the function itself that lead to one long chain of cleared registers."""
    count = 20000
    code = []
    for number in range(count):
        code += [Instruction(CALL, (1, 0, (0,))), Instruction(GOTO, (2 * (count - number) - 1,))]
    code += [Instruction(CALL, (2, 1, ()))] * count + [Instruction(RET, (1,))]
    executable = VMExecutable(program_of(code, 3, others=[PACKED]))
    assert VirtualMachine(executable, cpu())


def modules(rows, sections):
    index = Writer()
    index.u64(len(rows))
    for kind, children in rows:
        index.text(kind)
        index.words(children)
    return {"modules": index.bytes(), **sections}


def kernels_named(names):
    """A section of kernels without object code."""
    head = Writer()
    head.text("llvm")
    head.texts(names)
    head.u64(0)
    head.u64(native_digest())
    write_needs(head, Needs())
    return head.bytes()


def calling(name):
    offsets, words = assemble([Instruction(CALL, (1, 1, ())), Instruction(RET, (1,))])
    rows = (FunctionRow(FuncKind.VM, "f", 0, 0, 2, 2), FunctionRow(FuncKind.PACKED, name, -2))
    return {
        f"0/{key}": bytes(data)
        for key, data in program_sections(Program(RELAX, rows, (), offsets, words)).items()
    }


def test_a_tree_of_modules_is_searched_once_however_it_is_shared():
    """Each module imports the next one twice: 2**200 ways down, and deeper than Python's stack."""
    count = 3000
    rows = [("relax.VMExecutable", [1, 1])]
    rows += [("llvm", [number + 1] * 2 if number + 1 < count else []) for number in range(1, count)]
    kernels = {f"{number}/kernels": kernels_named([]) for number in range(1, count)}
    loaded = load(modules(rows, {**calling("nobody.has.this"), **kernels}))
    with pytest.raises(HeddleError, match="V0301"):
        VirtualMachine(loaded, cpu())


def test_many_names_are_found_quickly():
    names = [f"kernel{number}" for number in range(30000)]
    rows = [("relax.VMExecutable", [1]), ("llvm", [])]
    loaded = load(modules(rows, {**calling("vm.builtin.null_value"), "1/kernels": kernels_named(names)}))
    for name in names:
        assert not loaded.implements_function(f"{name}x", True)


def test_spellings_of_dtypes_are_short():
    for spelling in (
        "float8_" + "1" * 100000 + "!",
        "int" + "9" * 5000,
        "float32x" + "9" * 5000,
        "float32x65536",
    ):
        with pytest.raises(IRTypeError, match="U0101"):
            DataType(spelling)
    assert DataType("float32x65535").lanes == 65535


def test_a_length_beyond_the_file_allocates_nothing():
    sections = {"modules": struct.pack("<Q", 1 << 60), **calling("g")}
    with pytest.raises(HeddleError, match="F0106"):
        load(sections)
