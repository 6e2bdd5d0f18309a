"""What the steps of a program's function say: a call's callee and operands, and what is known of them.

Of the builtins that look at values or make them, the forms that machine code is written for. Whatever has
another form is the host's to do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from heddle.ir.expr import Expr, StringImm
from heddle.prim.nodes import Call, IntImm
from heddle.runtime.dtype import DataType
from heddle.runtime.native.abi import MakeCode, MatchCode
from heddle.support.frozen import frozen

MATCH_CODES, MAKE_CODES = frozenset(MatchCode), frozenset(MakeCode)
_HOST_SCOPES = ("global", "")


@frozen
class Step:
    """A `vm_call`. `dst` is VOID where the result is dropped."""

    name: str
    number: int
    pc: int
    dst: int
    operands: tuple[Expr, ...]


def step_of(call: Call) -> Step:
    """What a `vm_call` says, field by field."""
    name, number, pc, dst, *operands = call.args
    assert isinstance(name, StringImm)
    return Step(name.value, word_of(number), word_of(pc), word_of(dst), tuple(operands))


def word_of(expr: Expr) -> int:
    """The number of an integer constant."""
    assert isinstance(expr, IntImm)
    return int(expr.value)


def kind_of_operand(operand: Expr) -> str:
    """ "register", "constant", "function", "machine", "nothing", or "immediate"."""
    return operand.op.name.removeprefix("tir.vm_") if isinstance(operand, Call) else "immediate"


def number_of(operand: Expr) -> int:
    """The register, constant or function that an operand names, or the immediate."""
    return word_of(operand.args[0]) if isinstance(operand, Call) else word_of(operand)


def content_of(operand: Expr) -> Expr | None:
    """What a constant operand holds, where the code may depend on it."""
    if kind_of_operand(operand) == "immediate":
        return operand
    known = isinstance(operand, Call) and kind_of_operand(operand) == "constant" and len(operand.args) > 1
    return operand.args[1] if known and isinstance(operand, Call) else None


def text_of(operand: Expr) -> str | None:
    """The text that a constant operand holds; None for any other operand."""
    content = content_of(operand)
    return content.value if isinstance(content, StringImm) else None


def dtype_of(operand: Expr) -> DataType | None:
    """The dtype that a constant operand holds; None for any other operand."""
    content = content_of(operand)
    if isinstance(content, Call) and content.op.name == "tir.vm_dtype":
        name = content.args[0]
        assert isinstance(name, StringImm)
        return DataType(name.value)
    return None


def sizes_of(operand: Expr) -> tuple[int, ...] | None:
    """The sizes of the shape that a constant operand holds; None for any other operand."""
    content = content_of(operand)
    if isinstance(content, Call) and content.op.name == "tir.vm_shape":
        return tuple(int(size.value) for size in content.args if isinstance(size, IntImm))
    return None


def words_of(operands: Sequence[Expr]) -> list[int] | None:
    """The immediates, or None where one is something else."""
    if any(kind_of_operand(operand) != "immediate" for operand in operands):
        return None
    return [number_of(operand) for operand in operands]


def pairs_of(operands: Sequence[Expr]) -> list[tuple[int, int]] | None:
    """Codes with their operands."""
    words = words_of(operands)
    if words is None or len(words) % 2:
        return None
    return list(zip(words[::2], words[1::2], strict=True))


def are_known(pairs: Sequence[tuple[int, int]], known: Collection[int]) -> bool:
    """Whether all codes of pairs (code, operand) are in `known`."""
    return all(code in known for code, _ in pairs)


def made_sizes(step: Step) -> list[tuple[int, int]] | None:
    """The codes and operands of a make_shape of the documented form."""
    pairs, ranks = pairs_of(step.operands[2:]), words_of(step.operands[1:2])
    is_good = pairs is not None and ranks == [len(pairs)] and are_known(pairs, MAKE_CODES)
    return pairs if is_good else None


def matched_sizes(step: Step) -> tuple[list[tuple[int, int]], str] | None:
    """The codes and operands of a match_shape, and the place that its messages name."""
    value, _, rank, *rest = step.operands
    context, pairs, ranks = text_of(rest[-1]), pairs_of(rest[:-1]), words_of([rank])
    if kind_of_operand(value) not in ("register", "constant") or context is None or pairs is None:
        return None
    return (pairs, context) if ranks == [len(pairs)] and are_known(pairs, MATCH_CODES) else None


def checked_tensor(step: Step) -> tuple[int, DataType | None, str] | None:
    """The rank and dtype that a check_tensor_info asks for, and the place that its messages name."""
    _, ndim, *rest = step.operands
    context, ndims = text_of(rest[-1]), words_of([ndim])
    dtype = dtype_of(rest[0]) if len(rest) > 1 else None
    any_dtype = len(rest) == 1 or kind_of_operand(rest[0]) == "nothing"
    if context is None or ndims is None or (dtype is None and not any_dtype):
        return None
    return ndims[0], dtype, context


def storage_asked(step: Step) -> tuple[Expr, int, DataType] | None:
    """The shape, device number and dtype of an alloc_storage."""
    _, shape, device, wanted, *scope = step.operands
    dtype, devices = dtype_of(wanted), words_of([device])
    if dtype is None or devices is None or not _is_host_scope(scope):
        return None
    return shape, devices[0], dtype


@frozen
class FrameReads:
    """Operands that the machine code of a builtin takes from the frame, where they are no objects.

    `heap` is the position of a shape heap, `sizes` that of a shape of which only the sizes are read, `tensor`
    that of a tensor; the latter two with a test whether code is written for such a step, and for a tensor of
    such a dtype and rank.
    """

    heap: int | None = None
    sizes: tuple[int, Callable[[Step], object]] | None = None
    tensor: tuple[int, Callable[[Step, DataType, int], object]] | None = None


@frozen
class TensorAsked:
    """What an alloc_tensor is to make: a tensor in the storage of a register."""

    storage: int
    offset: int
    shape: Expr
    dtype: DataType


def tensor_asked(step: Step) -> TensorAsked | None:
    """What an alloc_tensor asks for; None where it is not constant, or machine code does not make it."""
    storage, offset, shape, wanted, *scope = step.operands
    dtype, offsets = dtype_of(wanted), words_of([offset])
    if dtype is None or offsets is None or kind_of_operand(storage) != "register":
        return None
    return TensorAsked(number_of(storage), offsets[0], shape, dtype) if _is_host_scope(scope) else None


def _is_host_scope(scope: Sequence[Expr]) -> bool:
    return not scope or text_of(scope[0]) in _HOST_SCOPES


def kernel_of(step: Step, kernels: Collection[str]) -> str | None:
    """The kernel that a step calls with its operands, or with the sizes of its last one after the others."""
    if step.name in kernels:
        return step.name
    if step.name != "vm.builtin.call_tir_dyn":
        return None
    function = step.operands[0]
    if not isinstance(function, Call) or kind_of_operand(function) != "function":
        return None
    name = function.args[1]
    return name.value if isinstance(name, StringImm) and name.value in kernels else None
