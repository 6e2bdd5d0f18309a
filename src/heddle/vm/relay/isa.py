"""The Relay machine's instruction set: tensors, data types and closures in registers.

Code is a list of signed 64-bit words: an opcode, then the words of the operands; a dtype is three words
(DLPack's code, bits and lanes), a list has its length before it. The program counter counts instructions; a
second list says at which word each starts. Offsets are relative to their own instruction.

A call has registers of its own: its arguments, those that a closure has bound last, and then its values.
A register holds a tensor, a value of a data type, a tuple (a value with tag 0), a closure, a reference, a
storage, the sizes of a tensor, or an integer. Registers from 2**54 up are not in the register file: 2**54 is
`void` (reads None), the next is the machine itself; packed functions may be given both.

Opcodes 0 to 20 are those of TVM's machine. `call_packed` is for packed functions that give a value: one that
is no tensor, or a tensor whose sizes only the function knows.
"""

from __future__ import annotations

from heddle.vm.isa import VM_STATE, VOID, Effect, FuncKind, InstructionSet, Kind, Operand, Spec

MAX_DEVICES = 1023
"""The largest number of a device."""


def _reads(name: str, meaning: str, special: tuple[int, ...] = (), is_list: bool = False) -> Operand:
    return Operand(name, Kind.READ, meaning, is_list, special=special)


def _number(name: str, meaning: str, least: int | None = None, most: int | None = None) -> Operand:
    return Operand(name, Kind.NUMBER, meaning, least=least, most=most)


def _count(name: str, meaning: str) -> Operand:
    return Operand(f"num_{name}", Kind.COUNT, f"number of {meaning}", counts=name)


_NO_EFFECT = Effect(0)
_GIVEN = (VOID, VM_STATE)
_DST = Operand("dst", Kind.WRITE, "register to write")
_NUM_ARGS = _count("args", "arguments")
_PASSED_ON = "registers that are passed on"
_ARGS = _reads("args", _PASSED_ON, is_list=True)
_OFFSET = Operand("offset", Kind.OFFSET, "instructions to jump, not 0")
_STORAGE = _reads("storage", "register with a storage")
_PLACE = _reads("place", "register with an integer: bytes from the storage's begin")
_DTYPE = Operand("dtype", Kind.DTYPE, "code, bits and lanes")
_OBJECT = _reads("object", "register with a tuple, or a value of a data type")
_TENSOR = _reads("tensor", "register with a tensor")
_SHAPE = _reads("shape", "register with sizes: a shape, or a tensor of int32 or int64 of rank 1 or 0")
_NUM_DIMS = _count("dims", "sizes")
_DIMS = Operand("dims", Kind.NUMBER, "sizes", is_list=True, least=0)
_PACKED = Operand("packed", Kind.CALLEE, "row of a packed function", rows=(FuncKind.PACKED,))
_SPECS: list[Spec] = []
"""The instructions that are stated below, in the order of their opcodes, which count from 0."""


def _spec(
    mnemonic: str, operands: tuple[Operand, ...], semantics: str, text: str, effects: Effect = _NO_EFFECT
) -> Spec:
    fields = (operand for operand in operands if operand.kind is not Kind.COUNT)
    shown = (f"[{{{field.name}}}]" if field.is_list else f"{{{field.name}}}" for field in fields)
    python = ("emit", f'"{mnemonic}"', *shown)
    made = Spec(mnemonic, len(_SPECS), operands, effects, semantics, text, python)
    _SPECS.append(made)
    return made


MOVE = _spec(
    "move", (_reads("src", "register to read"), _DST), "dst := src", "move {dst} {src}", Effect.MOVES
)
RET = _spec(
    "ret",
    (_reads("result", "register to return"),),
    "return result to the caller",
    "ret {result}",
    Effect.ENDS | Effect.RETURNS,
)
INVOKE = _spec(
    "invoke",
    (
        Operand("func", Kind.CALLEE, "row of a function of the program", rows=(FuncKind.VM,)),
        _NUM_ARGS,
        _DST,
        _ARGS,
    ),
    "dst := func(args...)",
    "invoke {dst} VMFunc[{func}]({args})",
    Effect.CALLS,
)
INVOKE_CLOSURE = _spec(
    "invoke_closure",
    (_reads("closure", "register with a closure"), _NUM_ARGS, _DST, _ARGS),
    "dst := closure(args..., what it has bound...)",
    "invoke_closure {dst} {closure}({args})",
    Effect.CALLS,
)
INVOKE_PACKED = _spec(
    "invoke_packed",
    (
        _PACKED,
        _count("inputs", "inputs"),
        _count("outputs", "outputs"),
        _count("sizes", "registers with sizes"),
        _reads("inputs", _PASSED_ON, special=_GIVEN, is_list=True),
        _reads("outputs", "registers with tensors that are written in place", is_list=True),
        _reads("sizes", "registers with a shape or tuple: its items are passed on", is_list=True),
    ),
    "packed(inputs..., outputs..., the items of sizes...)",
    "invoke_packed PackedFunc[{packed}] (in: {inputs}, out: {outputs}) {sizes}",
    Effect.CALLS,
)
ALLOC_TENSOR = _spec(
    "alloc_tensor",
    (_STORAGE, _PLACE, _DTYPE, _NUM_DIMS, _DST, _DIMS),
    "dst := a tensor of these sizes in storage",
    "alloc_tensor {dst} {storage} {place} [{dims}] {dtype}",
)
ALLOC_TENSOR_REG = _spec(
    "alloc_tensor_reg",
    (_STORAGE, _PLACE, _SHAPE, _DTYPE, _DST),
    "dst := a tensor of the sizes in shape, in storage",
    "alloc_tensor_reg {dst} {storage} {place} {shape} {dtype}",
)
ALLOC_ADT = _spec(
    "alloc_adt",
    (
        _number("tag", "tag of the constructor, 0 of a tuple"),
        _count("fields", "fields"),
        _DST,
        _reads("fields", "registers with the fields", is_list=True),
    ),
    "dst := a value of a data type, or a tuple",
    "alloc_data {dst} tag({tag}) [{fields}]",
)
ALLOC_CLOSURE = _spec(
    "alloc_closure",
    (
        Operand("func", Kind.FUNCTION, "row of a function"),
        _count("free_vars", "bound arguments"),
        _DST,
        _reads("free_vars", "registers with the function's last arguments", is_list=True),
    ),
    "dst := func with its last arguments bound",
    "alloc_closure {dst} VMFunc[{func}]({free_vars})",
)
GET_FIELD = _spec(
    "get_field",
    (_OBJECT, _number("index", "number of a field", least=0), _DST),
    "dst := object[index]",
    "get_field {dst} {object}[{index}]",
)
IF = _spec(
    "if",
    (
        _reads("test", "register with an integer, or a tensor that is one"),
        _reads("target", "register with the integer that it is compared with"),
        Operand("true_offset", Kind.OFFSET, "instructions to jump where they are equal, not 0"),
        Operand("false_offset", Kind.OFFSET, "instructions to jump where they are not, not 0"),
    ),
    "pc += true_offset if test == target else false_offset",
    "if {test} {target} {true_offset} {false_offset}",
    Effect.ENDS,
)
LOAD_CONST = _spec(
    "load_const",
    (
        Operand("const", Kind.CONSTANT, "entry of the constant pool"),
        _number("device_index", "number of the machine's device", least=0, most=MAX_DEVICES),
        _DST,
    ),
    "dst := the constant, on that device",
    "load_const {dst} Const[{const.value}] {device_index}",
)
GOTO = _spec("goto", (_OFFSET,), "pc += offset", "goto {offset}", Effect.ENDS)
GET_TAG = _spec("get_tag", (_OBJECT, _DST), "dst := the tag of object", "get_tag {dst} {object}")
LOAD_CONSTI = _spec(
    "load_consti", (_number("value", "an integer"), _DST), "dst := value", "load_consti {dst} {value}"
)
FATAL = _spec("fatal", (), "the run fails: no clause of a match fits", "fatal", Effect.ENDS)
ALLOC_STORAGE = _spec(
    "alloc_storage",
    (
        _reads("size", "register with the number of elements; void with sizes", special=(VOID,)),
        _number("alignment", "bytes, at most 64", least=1, most=64),
        _DTYPE,
        _number("device_index", "as above, or -1, the host", least=-1, most=MAX_DEVICES),
        _NUM_DIMS,
        _DST,
        _DIMS,
    ),
    "dst := memory for size, or the product of dims, elements",
    "alloc_storage {dst} {size}[{dims}] {alignment} {dtype} {device_index}",
)
SHAPE_OF = _spec("shape_of", (_TENSOR, _DST), "dst := the sizes of tensor", "shape_of {dst} {tensor}")
RESHAPE_TENSOR = _spec(
    "reshape_tensor",
    (_TENSOR, _SHAPE, _DST),
    "dst := a view of tensor with these sizes",
    "reshape_tensor {dst} {tensor} {shape}",
)
DEVICE_COPY = _spec(
    "device_copy",
    (
        _reads("src", "register with a tensor"),
        _number("src_device", "number of the device that it is on", least=0, most=MAX_DEVICES),
        _number("dst_device", "number of the device to copy to", least=0, most=MAX_DEVICES),
        _DST,
    ),
    "dst := a copy of src on dst_device",
    "device_copy {dst} {src} {dst_device} {src_device}",
)
KILL_REGISTER = _spec(
    "kill_register", (_DST,), "dst := nothing; what it held may be free", "kill_register {dst}", Effect.MOVES
)
CALL_PACKED = _spec(
    "call_packed",
    (_PACKED, _NUM_ARGS, _DST, _reads("args", _PASSED_ON, special=_GIVEN, is_list=True)),
    "dst := packed(args...)",
    "call_packed {dst} PackedFunc[{packed}]({args})",
    Effect.CALLS,
)

RELAY = InstructionSet(
    "relay",
    "The Relay machine",
    __doc__,
    tuple(_SPECS),
    special={VOID: "void", VM_STATE: "vm"},
    arg_kinds=(),
    register_text="${}",
    separator=",",
)
