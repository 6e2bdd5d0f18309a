"""heddle_run_graph(calls, count): kernels of a graph, one after the other.

Arguments lie in memory as values, made when the graph was bound to its tensors, so a call costs a few
instructions.
"""

from heddle.runtime.native.abi import GraphCall, Value
from heddle.systems.types import Function, Pointer, i32, i64
from heddle.systems.words import cast, export

Kernel = Function[[Pointer[Value], i32], i32]


@export
def heddle_run_graph(calls: Pointer[GraphCall], count: i64) -> i64:
    """-1, or the number of the call that failed after heddle_set_error."""
    number: i64 = 0
    while number < count:
        call = calls[number]
        if cast(Kernel, call.code)(call.values, i32(call.count)) != 0:
            return number
        number += 1
    return -1
