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

_DST = Operand("dst", Kind.WRITE, "register to write")
_NUM_ARGS = Operand("num_args", Kind.COUNT, "number of arguments", counts="args")
_ARGS = Operand("args", Kind.READ, "registers that are passed on", is_list=True)
_OFFSET = Operand("offset", Kind.OFFSET, "instructions to jump, not 0")
_STORAGE = Operand("storage", Kind.READ, "register with a storage")
_PLACE = Operand("place", Kind.READ, "register with an integer: bytes from the storage's begin")
_DTYPE = Operand("dtype", Kind.DTYPE, "code, bits and lanes")
_OBJECT = Operand("object", Kind.READ, "register with a tuple, or a value of a data type")
_TENSOR = Operand("tensor", Kind.READ, "register with a tensor")
_SHAPE = Operand(
    "shape", Kind.READ, "register with sizes: a shape, or a tensor of int32 or int64 of rank 1 or 0"
)
_NUM_DIMS = Operand("num_dims", Kind.COUNT, "number of sizes", counts="dims")
_DIMS = Operand("dims", Kind.NUMBER, "sizes", is_list=True, least=0)
_PACKED = Operand("packed", Kind.CALLEE, "row of a packed function", rows=(FuncKind.PACKED,))
_GIVEN = (VOID, VM_STATE)
_SPECS: list[Spec] = []
"""The instructions that are stated below, in the order of their opcodes."""


def _spec(
    mnemonic: str, opcode: int, operands: tuple[Operand, ...], effects: Effect, semantics: str, text: str
) -> Spec:
    fields = (operand for operand in operands if operand.kind is not Kind.COUNT)
    shown = (f"[{{{field.name}}}]" if field.is_list else f"{{{field.name}}}" for field in fields)
    made = Spec(mnemonic, opcode, operands, effects, semantics, text, ("emit", f'"{mnemonic}"', *shown))
    _SPECS.append(made)
    return made


MOVE = _spec(
    "move",
    0,
    (Operand("src", Kind.READ, "register to read"), _DST),
    Effect.MOVES,
    "dst := src",
    "move {dst} {src}",
)
RET = _spec(
    "ret",
    1,
    (Operand("result", Kind.READ, "register to return"),),
    Effect.ENDS | Effect.RETURNS,
    "return result to the caller",
    "ret {result}",
)
INVOKE = _spec(
    "invoke",
    2,
    (
        Operand("func", Kind.CALLEE, "row of a function of the program", rows=(FuncKind.VM,)),
        _NUM_ARGS,
        _DST,
        _ARGS,
    ),
    Effect.CALLS,
    "dst := func(args...)",
    "invoke {dst} VMFunc[{func}]({args})",
)
INVOKE_CLOSURE = _spec(
    "invoke_closure",
    3,
    (Operand("closure", Kind.READ, "register with a closure"), _NUM_ARGS, _DST, _ARGS),
    Effect.CALLS,
    "dst := closure(args..., what it has bound...)",
    "invoke_closure {dst} {closure}({args})",
)
INVOKE_PACKED = _spec(
    "invoke_packed",
    4,
    (
        _PACKED,
        Operand("num_inputs", Kind.COUNT, "number of inputs", counts="inputs"),
        Operand("num_outputs", Kind.COUNT, "number of outputs", counts="outputs"),
        Operand("num_sizes", Kind.COUNT, "number of registers with sizes", counts="sizes"),
        Operand("inputs", Kind.READ, "registers that are passed on", is_list=True, special=_GIVEN),
        Operand("outputs", Kind.READ, "registers with tensors that are written in place", is_list=True),
        Operand("sizes", Kind.READ, "registers with a shape or tuple: its items are passed on", is_list=True),
    ),
    Effect.CALLS,
    "packed(inputs..., outputs..., the items of sizes...)",
    "invoke_packed PackedFunc[{packed}] (in: {inputs}, out: {outputs}) {sizes}",
)
ALLOC_TENSOR = _spec(
    "alloc_tensor",
    5,
    (_STORAGE, _PLACE, _DTYPE, _NUM_DIMS, _DST, _DIMS),
    Effect(0),
    "dst := a tensor of these sizes in storage",
    "alloc_tensor {dst} {storage} {place} [{dims}] {dtype}",
)
ALLOC_TENSOR_REG = _spec(
    "alloc_tensor_reg",
    6,
    (_STORAGE, _PLACE, _SHAPE, _DTYPE, _DST),
    Effect(0),
    "dst := a tensor of the sizes in shape, in storage",
    "alloc_tensor_reg {dst} {storage} {place} {shape} {dtype}",
)
ALLOC_ADT = _spec(
    "alloc_adt",
    7,
    (
        Operand("tag", Kind.NUMBER, "tag of the constructor, 0 of a tuple"),
        Operand("num_fields", Kind.COUNT, "number of fields", counts="fields"),
        _DST,
        Operand("fields", Kind.READ, "registers with the fields", is_list=True),
    ),
    Effect(0),
    "dst := a value of a data type, or a tuple",
    "alloc_data {dst} tag({tag}) [{fields}]",
)
ALLOC_CLOSURE = _spec(
    "alloc_closure",
    8,
    (
        Operand("func", Kind.FUNCTION, "row of a function"),
        Operand("num_free_vars", Kind.COUNT, "number of bound arguments", counts="free_vars"),
        _DST,
        Operand("free_vars", Kind.READ, "registers with the function's last arguments", is_list=True),
    ),
    Effect(0),
    "dst := func with its last arguments bound",
    "alloc_closure {dst} VMFunc[{func}]({free_vars})",
)
GET_FIELD = _spec(
    "get_field",
    9,
    (_OBJECT, Operand("index", Kind.NUMBER, "number of a field", least=0), _DST),
    Effect(0),
    "dst := object[index]",
    "get_field {dst} {object}[{index}]",
)
IF = _spec(
    "if",
    10,
    (
        Operand("test", Kind.READ, "register with an integer, or a tensor that is one"),
        Operand("target", Kind.READ, "register with the integer that it is compared with"),
        Operand("true_offset", Kind.OFFSET, "instructions to jump where they are equal, not 0"),
        Operand("false_offset", Kind.OFFSET, "instructions to jump where they are not, not 0"),
    ),
    Effect.ENDS,
    "pc += true_offset if test == target else false_offset",
    "if {test} {target} {true_offset} {false_offset}",
)
LOAD_CONST = _spec(
    "load_const",
    11,
    (
        Operand("const", Kind.CONSTANT, "entry of the constant pool"),
        Operand("device_index", Kind.NUMBER, "number of the machine's device", least=0, most=MAX_DEVICES),
        _DST,
    ),
    Effect(0),
    "dst := the constant, on that device",
    "load_const {dst} Const[{const.value}] {device_index}",
)
GOTO = _spec("goto", 12, (_OFFSET,), Effect.ENDS, "pc += offset", "goto {offset}")
GET_TAG = _spec(
    "get_tag", 13, (_OBJECT, _DST), Effect(0), "dst := the tag of object", "get_tag {dst} {object}"
)
LOAD_CONSTI = _spec(
    "load_consti",
    14,
    (Operand("value", Kind.NUMBER, "an integer"), _DST),
    Effect(0),
    "dst := value",
    "load_consti {dst} {value}",
)
FATAL = _spec("fatal", 15, (), Effect.ENDS, "the run fails: no clause of a match fits", "fatal")
ALLOC_STORAGE = _spec(
    "alloc_storage",
    16,
    (
        Operand("size", Kind.READ, "register with the number of elements; void with sizes", special=(VOID,)),
        Operand("alignment", Kind.NUMBER, "bytes, at most 64", least=1, most=64),
        _DTYPE,
        Operand("device_index", Kind.NUMBER, "as above, or -1, the host", least=-1, most=MAX_DEVICES),
        _NUM_DIMS,
        _DST,
        _DIMS,
    ),
    Effect(0),
    "dst := memory for size, or the product of dims, elements",
    "alloc_storage {dst} {size}[{dims}] {alignment} {dtype} {device_index}",
)
SHAPE_OF = _spec(
    "shape_of", 17, (_TENSOR, _DST), Effect(0), "dst := the sizes of tensor", "shape_of {dst} {tensor}"
)
RESHAPE_TENSOR = _spec(
    "reshape_tensor",
    18,
    (_TENSOR, _SHAPE, _DST),
    Effect(0),
    "dst := a view of tensor with these sizes",
    "reshape_tensor {dst} {tensor} {shape}",
)
DEVICE_COPY = _spec(
    "device_copy",
    19,
    (
        Operand("src", Kind.READ, "register with a tensor"),
        Operand("src_device", Kind.NUMBER, "number of the device that it is on", least=0, most=MAX_DEVICES),
        Operand("dst_device", Kind.NUMBER, "number of the device to copy to", least=0, most=MAX_DEVICES),
        _DST,
    ),
    Effect(0),
    "dst := a copy of src on dst_device",
    "device_copy {dst} {src} {dst_device} {src_device}",
)
KILL_REGISTER = _spec(
    "kill_register",
    20,
    (_DST,),
    Effect.MOVES,
    "dst := nothing; what it held may be free",
    "kill_register {dst}",
)
CALL_PACKED = _spec(
    "call_packed",
    21,
    (
        _PACKED,
        _NUM_ARGS,
        _DST,
        Operand("args", Kind.READ, "registers that are passed on", is_list=True, special=_GIVEN),
    ),
    Effect.CALLS,
    "dst := packed(args...)",
    "call_packed {dst} PackedFunc[{packed}]({args})",
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
