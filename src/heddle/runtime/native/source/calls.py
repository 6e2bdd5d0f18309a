"""Calls: of a program's functions, of closures, and of the host's; and what begins and ends a function.

A function that gives a status gives `Status.DONE`, or `Status.FAILED` after heddle_set_error.
"""

from heddle.runtime.native.abi import Closure, Context, Kind, Operand, Status, Value
from heddle.runtime.native.source.counting import (
    copy_values,
    heddle_copy,
    heddle_release,
    heddle_release_all,
    hold,
)
from heddle.runtime.native.source.stacks import call_at_home
from heddle.runtime.native.source.system import simplified
from heddle.runtime.native.source.values import bound_values, payload_of
from heddle.systems.types import Function, Pointer, i32, i64
from heddle.systems.words import cast, cold, copy, export, inline, local, native, null

Code = Function[[Pointer[Context], Pointer[Value], Pointer[Value]], i32]
HostCall = Function[[Pointer[Context], i64, Pointer[Value], i64, Pointer[Value]], i32]
ANY_CALLABLE = -1  # asks the host to call a foreign function, which is the first argument
MAY_GO_ON = -2  # asks the host whether the program is to end: it fails, then
UNASKED = 15  # of 16 turns


@simplified
@export
def heddle_turn(context: Pointer[Context]) -> i32:
    """What comes before each call of a function of the program, and each turn of a loop: a program without
    end ends here, where the host says so, which an interrupt makes it do."""
    turns = context.turns + 1
    context.turns = turns
    if (context.asks == 0) | (turns & UNASKED != 0):
        return Status.DONE
    return ask_host(context)


@cold
def ask_host(context: Pointer[Context]) -> i32:
    """Fail where the host wants the program to end."""
    nothing = local(Value, 1)
    return call_host(context, MAY_GO_ON, null, 0, nothing)


@native
def run_code(context: Pointer[Context], code: Code, args: Pointer[Value], register: Pointer[Value]) -> i32:
    """Run the code of a function. One that ends with a call of another function, which may come back to it,
    leaves that call as a closure in the register, and its frame is gone. The call is made here, and the next
    one: a cycle of calls in tail position takes the space of one frame."""
    if heddle_turn(context) != Status.DONE:
        return Status.FAILED
    status = code(context, args, register)
    while status == Status.GOES_ON:
        closure = cast(Pointer[Closure], payload_of(register))
        register.kind = Kind.NONE
        following = cast(Code, context.functions[closure.function].code)
        status = heddle_turn(context)
        if status == Status.DONE:
            status = following(context, bound_values(closure), register)
        heddle_release(context, Kind.CLOSURE, closure)
    return status


@inline
def call_host(
    context: Pointer[Context], function: i64, args: Pointer[Value], count: i64, register: Pointer[Value]
) -> i32:
    """Let the host's builtin do a call; on the thread's own stack where the program is on a segment."""
    if context.home != null:
        return call_at_home(context, context.host_call, function, args, count, register)
    host_call = cast(HostCall, context.host_call)
    return host_call(context, function, args, count, register)


@export
def heddle_call(
    context: Pointer[Context], register: Pointer[Value], function: i64, args: Pointer[Value], count: i64
) -> i32:
    """Call a function of the program, or of the host. Arguments are lent. Where their number is wrong the
    host says so in its words."""
    entry = context.functions[function]
    code = cast(Code, entry.code)
    if code != null and entry.num_args == count:
        return run_code(context, code, args, register)
    return call_host(context, function, args, count, register)


@export
def heddle_invoke(
    context: Pointer[Context],
    register: Pointer[Value],
    callee: Pointer[Value],
    args: Pointer[Value],
    count: i64,
) -> i32:
    """Call a closure with more arguments before its bound ones, or what the host can call."""
    if callee.kind != Kind.CLOSURE:
        given = local(Value, count + 1)
        copy(given, callee)
        copy(given[1], args, count)
        return call_host(context, ANY_CALLABLE, given, count + 1, register)
    closure = cast(Pointer[Closure], payload_of(callee))
    bound = closure.num_bound
    room = local(Value, count + bound)
    copy(room, args, count)
    copy(room[count], bound_values(closure), bound)
    hold(closure)
    status = heddle_call(context, register, closure.function, room, count + bound)
    heddle_release(context, Kind.CLOSURE, closure)
    return status


@export
def heddle_call_by_words(
    context: Pointer[Context],
    registers: Pointer[Value],
    register: Pointer[Value],
    words: Pointer[i64],
    args: Pointer[Value],
) -> i32:
    """Call a function of the program or of the host, with operands that are spelled out.

    `words`: the function's number, the place of the call, the number of operands, then for each its
    `Operand` and its number. `args` is room for the operands.
    """
    context.call_place = words[1]
    count = words[2]
    number: i64 = 0
    while number < count:
        read_operand(context, registers, args[number], words[3 + 2 * number], words[4 + 2 * number])
        number += 1
    return heddle_call(context, register, words[0], args, count)


@inline
def read_operand(
    context: Pointer[Context], registers: Pointer[Value], to: Pointer[Value], operand: i64, number: i64
) -> None:
    """Copy what an operand spells into `to`: a register, a constant, or a value of that kind. Counts
    nothing."""
    if operand == Operand.REGISTER:
        copy(to, registers[number])
    elif operand == Operand.CONSTANT:
        copy(to, context.constants[number])
    else:
        to.kind = i32(operand)
        to.payload = number


# ---- frames


@simplified
@export
def heddle_enter(
    context: Pointer[Context], registers: Pointer[Value], args: Pointer[Value], count: i64
) -> None:
    """Enter a function: arguments become its first registers."""
    copy_values(registers, args, count)


@simplified
@export
def heddle_leave(
    context: Pointer[Context],
    registers: Pointer[Value],
    count: i64,
    value: Pointer[Value],
    result: Pointer[Value],
) -> None:
    """The function ends: its result moves to the caller's register, what is left in its own is dropped."""
    heddle_copy(context, result, value)
    heddle_release_all(context, registers, count)


@export
def heddle_fail(context: Pointer[Context], registers: Pointer[Value], count: i64, place: i64) -> None:
    """The function fails at an instruction: the innermost place is kept."""
    if context.error_place == -1:
        context.error_place = place
    heddle_release_all(context, registers, count)


@simplified
@export
def heddle_again(
    context: Pointer[Context],
    registers: Pointer[Value],
    registers_count: i64,
    args: Pointer[Value],
    count: i64,
) -> None:
    """A call of itself in tail position: the arguments become the first registers of the same frame, all
    others are dropped."""
    room = local(Value, count)
    copy_values(room, args, count)
    heddle_release_all(context, registers, registers_count)
    copy(registers, room, count)
