"""The Relax machine's instruction set: four instructions over registers that hold any runtime value.

Code is a list of signed 64-bit words: an opcode, then the words of the operands. The program counter counts
instructions; a second list says at which word each starts.

An argument word has its kind in the top 8 bits and a sign-extended value in the other 56:

    63      56 55                                             0
    [  kind  ][                    value                      ]      kinds: 0 r, 1 i, 2 c, 3 f

Registers from 2**54 up are not in the register file: 2**54 is `void` (reads None, drops what is written), the
next is the machine itself. Offsets are relative to their own instruction.
"""

from __future__ import annotations

from heddle.vm.isa import VM_STATE, VOID, Effect, InstructionSet, Kind, Operand, Spec

__all__ = ["CALL", "GOTO", "IF", "RELAX", "RET", "VM_STATE", "VOID"]

_DST = Operand("dst", Kind.WRITE, "register to write, or void", special=(VOID,), default=VOID)
_FUNC = Operand("func", Kind.CALLEE, "row of the function table to call")
_ARGC = Operand("argc", Kind.COUNT, "number of arguments", counts="args")
_ARGS = Operand("args", Kind.ARGUMENT, "argument words", is_list=True, special=(VOID, VM_STATE))
_RESULT = Operand("src", Kind.READ, "register to return, void or the machine", special=(VOID, VM_STATE))
_COND = Operand("cond", Kind.READ, "register to test")
_OFFSET = Operand("offset", Kind.OFFSET, "instructions to jump, not 0")
_FALSE_OFFSET = Operand(
    "false_offset", Kind.OFFSET, "instructions to jump where the condition is false, more than 1", least=2
)

CALL = Spec(
    "call",
    1,
    (_DST, _FUNC, _ARGC, _ARGS),
    Effect.CALLS,
    "dst := func(args...); pc += 1",
    "call  {func:<16} in: {args:<12} dst: {dst}",
    ("emit_call", "{func}", "args=[{args}]", "dst={dst}"),
)
RET = Spec(
    "ret",
    2,
    (_RESULT,),
    Effect.ENDS | Effect.RETURNS,
    "return src to the caller",
    "ret   {src}",
    ("emit_ret", "{src}"),
)
GOTO = Spec("goto", 3, (_OFFSET,), Effect.ENDS, "pc += offset", "goto  {offset}", ("emit_goto", "{offset}"))
IF = Spec(
    "if",
    4,
    (_COND, _FALSE_OFFSET),
    Effect(0),
    "pc += 1 if cond != 0 else false_offset",
    "If    {cond}, {false_offset}",
    ("emit_if", "{cond}", "{false_offset}"),
)

RELAX = InstructionSet(
    "relax", "The Relax machine", __doc__, (CALL, RET, GOTO, IF), special={VOID: "void", VM_STATE: "vm"}
)
