"""Functions of the graph machine as loop functions: their calling convention, and the intrinsics of their
bodies.

Bytecode function `f` becomes the PrimFunc `__vmtir__f(context, args, result)` with attribute
`calling_conv = "program"`: a flat sequence of calls, labels and jumps over a file of registers, one statement
an instruction. It works on the values that `heddle/runtime/native/abi.py` defines. `args` and `result`
point to values of 16 bytes; it returns 0, or -1 with the thread's error, or the host's exception, set; or 1
where `result` is a closure over nothing but bound values, which is to be called for the result (`vm_tail`).
"""

from __future__ import annotations

from collections.abc import Sequence

from heddle.ir.expr import Expr, StringImm
from heddle.ir.op import OP_RECORDS, Op
from heddle.prim.intrinsics import PURE, RAW_MEMORY, WRITES, Intrinsic
from heddle.prim.nodes import Call, PrimExpr
from heddle.prim.ops import const
from heddle.prim.signatures import Signature
from heddle.runtime.dtype import DataType

PROGRAM_CONV = "program"
"""The value of the attribute `calling_conv` of such a function."""
NUM_REGISTERS, NUM_ARGS, FUNCTION_NUMBER = "vm_num_registers", "vm_num_args", "vm_function_number"
"""Attributes: the size of the register file, how many registers are arguments, the row in the function
table."""
KERNELS = "vm_kernels"
"""Attribute: the packed functions that are kernels linked beside the function, and called directly."""


def _declare(name: str, signature: Signature, effect: str, meaning: str) -> None:
    OP_RECORDS.add(f"tir.{name}", Intrinsic(f"tir.{name}", signature, effect, None, meaning, RAW_MEMORY))


_declare(
    "vm_call",
    Signature(("text", "literal", "literal", "literal"), "node", "int32"),
    WRITES,
    "call of a machine: name, function number, pc, destination, operands",
)
_declare("vm_label", Signature(("literal",), None, "int32"), WRITES, "a place to jump to")
_declare("vm_goto", Signature(("literal",), None, "int32"), WRITES, "a jump to a label")
_declare(
    "vm_branch",
    Signature(("literal",) * 3, None, "int32"),
    WRITES,
    "a jump to a label where a register is false: register, label, pc",
)
_declare(
    "vm_return",
    Signature(("node",), None, "int32"),
    WRITES,
    "the end of the function, with an operand as result",
)
_declare(
    "vm_again",
    Signature((), "node", "int32"),
    WRITES,
    "the function begins anew with other arguments: a tail call of itself",
)
_declare(
    "vm_tail",
    Signature(("literal", "literal"), "node", "int32"),
    WRITES,
    "the function ends with a call of one that may come back: number, pc, operands",
)
_declare("vm_register", Signature(("literal",), None, "int32"), PURE, "operand: a register")
_declare(
    "vm_constant",
    Signature(("literal",), "node", "int32"),
    PURE,
    "operand: a constant's number, and what it holds where it is no tensor",
)
_declare(
    "vm_function",
    Signature(("literal", "text"), None, "int32"),
    PURE,
    "operand: a function of the table: number, name",
)
_declare("vm_machine", Signature((), None, "int32"), PURE, "operand: the machine itself")
_declare("vm_nothing", Signature((), None, "int32"), PURE, "operand: no value")
_declare("vm_shape", Signature((), "literal", "int32"), PURE, "the sizes of a shape constant")
_declare("vm_dtype", Signature(("text",), None, "int32"), PURE, "a dtype constant")

VOID = -1
"""The destination of a call whose result is dropped."""


def _call(name: str, *args: Expr) -> PrimExpr:
    return Call(DataType("int32"), Op.get(f"tir.{name}"), args)


def vm_call(name: str, number: int, pc: int, destination: int, operands: Sequence[Expr]) -> PrimExpr:
    """A call of function `number` at instruction `pc`; the result goes to a register, or is dropped
    (VOID)."""
    head = (StringImm(name), const(number), const(pc), const(destination))
    return _call("vm_call", *head, *operands)


def vm_again(operands: Sequence[Expr]) -> PrimExpr:
    """The function begins anew with these arguments."""
    return _call("vm_again", *operands)


def vm_tail(number: int, pc: int, operands: Sequence[Expr]) -> PrimExpr:
    """The function ends with a call of function `number` at instruction `pc`."""
    return _call("vm_tail", const(number), const(pc), *operands)


def vm_label(number: int) -> PrimExpr:
    """A place to jump to."""
    return _call("vm_label", const(number))


def vm_goto(label: int) -> PrimExpr:
    """A jump to a label."""
    return _call("vm_goto", const(label))


def vm_branch(register: int, label: int, pc: int) -> PrimExpr:
    """On where the register is true, to the label where it is false."""
    return _call("vm_branch", const(register), const(label), const(pc))


def vm_return(operand: Expr) -> PrimExpr:
    """The end of the function, with an operand as its result."""
    return _call("vm_return", operand)


def vm_register(number: int) -> PrimExpr:
    """The operand that is a register."""
    return _call("vm_register", const(number))


def vm_constant(number: int, *content: Expr) -> PrimExpr:
    """The operand that is a constant, with what it holds where machine code depends on it."""
    return _call("vm_constant", const(number), *content)


def vm_function(number: int, name: str) -> PrimExpr:
    """The operand that is a function of the table."""
    return _call("vm_function", const(number), StringImm(name))


def vm_machine() -> PrimExpr:
    """The operand that is the machine itself."""
    return _call("vm_machine")


def vm_nothing() -> PrimExpr:
    """The operand that is no value."""
    return _call("vm_nothing")


def vm_shape(sizes: Sequence[int]) -> PrimExpr:
    """The content of a constant that is a shape."""
    return _call("vm_shape", *(const(size, "int64") for size in sizes))


def vm_dtype(name: str) -> PrimExpr:
    """The content of a constant that is an element type."""
    return _call("vm_dtype", StringImm(name))
