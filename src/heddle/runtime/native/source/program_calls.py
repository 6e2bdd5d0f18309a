"""Calls of programs from Python, and calls back into Python.

A call holds the context until its result is converted: whatever runs Python on the way may change threads. A
second thread that wants it is refused. The interpreter's lock is given up while the program runs.
"""

from heddle.runtime.native.abi import Context, HostObject, ProgramRecord, Status, Value
from heddle.runtime.native.source.calls import MAY_GO_ON, Code, run_code
from heddle.runtime.native.source.counting import (
    HostDrop,
    drop_deferred,
    heddle_release_all,
    host_drop,
)
from heddle.runtime.native.source.python import (
    Object,
    Py_DecRef,
    PyErr_CheckSignals,
    PyErr_Occurred,
    PyEval_RestoreThread,
    PyEval_SaveThread,
    bound_to,
    call_with_one,
    call_with_tuple,
    call_with_word,
    call_with_words,
    content_of,
)
from heddle.runtime.native.source.python_values import (
    data_type,
    fields_slot,
    from_native,
    from_object,
    refuse_hook,
    sequence_type,
    shape_type,
    tag_slot,
    text_type,
    to_native,
    to_object,
    tuple_type,
)
from heddle.runtime.native.source.system import pthread_self, simplified, time
from heddle.runtime.native.source.thread import stack_limit
from heddle.runtime.native.source.values import clear
from heddle.systems.types import Pointer, i32, i64
from heddle.systems.words import Global, cast, export, inline, local, native, null

call_hook = Global(Pointer[HostObject])  # (context, function, arguments, count, address of the result)
error_hook = Global(Pointer[HostObject])  # (keep): raises this thread's error
watch_hook = Global(Pointer[HostObject])  # (self, arguments): the result

BUSY = -1  # in place of a number of arguments: another thread runs the machine
NOWHERE = -1


@export
def heddle_program_configure(
    to: Object,
    source: Object,
    host: Object,
    refuse: Object,
    error: Object,
    watch: Object,
    sequence: Object,
    data: Object,
    items: Object,
    texts: Object,
    shapes: Object,
    tag: i64,
    fields: i64,
) -> None:
    """What Python has: its functions, the classes of sequences, values of data types, tuples, tensors of
    strings and shapes, and where tag and fields lie."""
    text_type.value = texts
    shape_type.value = shapes
    data_type.value = data
    tuple_type.value = items
    tag_slot.value = tag
    fields_slot.value = fields
    to_native.value = to
    from_native.value = source
    call_hook.value = host
    refuse_hook.value = refuse
    error_hook.value = error
    watch_hook.value = watch
    sequence_type.value = sequence
    host_drop.value = cast(HostDrop, Py_DecRef)


@export
def heddle_python_call(
    context: Pointer[Context], function: i64, args: Pointer[Value], count: i64, register: Pointer[Value]
) -> i32:
    """What a context's `host_call` is: the interpreter's lock is taken for the call."""
    if function == MAY_GO_ON:
        return obey_signals(context)
    state = context.state
    context.state = null
    PyEval_RestoreThread(state)
    drop_deferred(context)
    result = call_with_words(call_hook.value, context, function, args, count, register)
    if result != null:
        Py_DecRef(result)
    context.state = PyEval_SaveThread()
    return Status.FAILED if result == null else Status.DONE


@native
def obey_signals(context: Pointer[Context]) -> i32:
    """Run the handlers of signals that have come; one that raises ends the program. Once a second, for the
    interpreter's lock may be another thread's for a while."""
    now = time(null)
    if context.asked_at == now:
        return Status.DONE
    context.asked_at = now
    state = context.state
    context.state = null
    PyEval_RestoreThread(state)
    status = PyErr_CheckSignals()
    context.state = PyEval_SaveThread()
    return Status.DONE if status == 0 else Status.FAILED


@simplified
@export
def heddle_call_program(self: Object, args: Pointer[Object], count: i64) -> Object:
    """The METH_FASTCALL body of every Python function of a program."""
    keep = bound_to(self).keep
    record = cast(Pointer[ProgramRecord], content_of(bound_to(self).record))
    context = record.context
    if context.watched != 0:
        # Something looks at each instruction: the bytecode runs instead.
        return call_with_tuple(watch_hook.value, self, args, count)
    me = i64(pthread_self())
    calls = context.calls
    is_allowed = (calls == 0) | (context.thread == me)
    if not is_allowed or count != record.num_args:
        return refuse_call(keep, count if is_allowed else BUSY)
    context.thread = me
    context.calls = calls + 1
    values = local(Value, count + 1)
    num_values = from_objects(context, keep, args, values, count)
    answer: Pointer[HostObject] = null
    if num_values == count:
        if calls == 0:
            context.stack_limit = stack_limit()
        answer = run_program(context, keep, cast(Code, record.code), values, count)
    else:
        heddle_release_all(null, values, num_values)
    context.calls = calls
    return answer


@native
def refuse_call(keep: Object, count: i64) -> Object:
    """Say what is wrong with a call."""
    call_with_word(refuse_hook.value, keep, count)
    return null


@inline
def from_objects(
    context: Pointer[Context], keep: Object, args: Pointer[Object], values: Pointer[Value], count: i64
) -> i64:
    """How many objects became values: all of them, or those before the one that raised an exception."""
    number: i64 = 0
    while number < count:
        if not from_object(context, keep, args[number], values[number]):
            return number
        number += 1
    return count


@inline
def run_program(
    context: Pointer[Context], keep: Object, code: Code, values: Pointer[Value], count: i64
) -> Object:
    """The object of the result, or null with the exception set. Arguments are released; the result's place
    is behind them."""
    result = values[count]
    clear(result)
    outer_state = context.state
    outer_place = context.error_place
    context.error_place = NOWHERE
    context.state = PyEval_SaveThread()
    status = run_code(context, code, values, result)
    PyEval_RestoreThread(context.state)
    context.state = outer_state
    heddle_release_all(null, values, count)
    drop_deferred(context)
    answer: Pointer[HostObject] = null
    if status == Status.DONE:
        answer = to_object(keep, result, True)
        heddle_release_all(null, result, 1)
    elif PyErr_Occurred() == null:
        call_with_one(error_hook.value, keep)
    context.error_place = outer_place
    return answer
