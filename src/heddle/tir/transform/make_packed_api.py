"""MakePackedAPI: a function over buffers → a checked entry with the kernels' calling convention, and a plain
body.

    def f(A: (n, 4) float32, k: int64): body

    →   def f.body(A_data, k, n): body
        def f(args, nargs):
            assert nargs == 2; assert args[0] is a tensor of float32 with 2 dimensions
            n = args[0].shape[0]; assert args[0].shape[1] == 4; ...
            return f.body(args[0].begin, args[1], n)

A symbolic dimension is bound where it is first seen alone; every other occurrence, also in expressions, is
compared. The body takes, in this order: a pointer or scalar for each parameter, then the bound variables in
order of binding. It may be called from other generated code and returns the status too.
"""

from __future__ import annotations

from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.pass_options import option
from heddle.ir.transform import Pass, PassContext
from heddle.ir.visitor import walk
from heddle.prim.intrinsics import call_extern, ret
from heddle.runtime.device import DEVICE_TYPES
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen
from heddle.tir.checked_entry import CheckedEntry
from heddle.tir.codes import T0502
from heddle.tir.kernel_abi import BODY_SUFFIX, CALLING_CONV
from heddle.tir.kernel_entry import Entry
from heddle.tir.nodes import BufferLoad, BufferStore, DeclBuffer, Evaluate, PrimFunc, Stmt, seq


@frozen(slots=False)
class MakePackedAPI(Pass):
    """`device_type` is the number of the device whose tensors the kernels take (1, the CPU). With
    `by_runtime`, most checks are one call of the native library, which the target's kernels are linked to;
    without, all of them are statements."""

    device_type: int = option(1, one_of=tuple(DEVICE_TYPES.values()))
    by_runtime: bool = False

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        table = {}
        for var, func in mod.functions.items():
            if not isinstance(func, PrimFunc) or func.attrs.get(CALLING_CONV):
                table[var] = func
                continue
            name = str(func.attrs.get("global_symbol", var.name_hint))
            entry, body = split(func, name, self.device_type, self.by_runtime)
            table[var] = entry
            table[GlobalVar(name + BODY_SUFFIX)] = body
        return mod.with_functions(table)


def split(func: PrimFunc, name: str, device_type: int, by_runtime: bool = False) -> tuple[PrimFunc, PrimFunc]:
    """The entry and the body of a function. Raises: UsageError T0501, T0502."""
    if func.ret_type is not None:
        raise UsageError(T0502, f"kernel {name!r} gives a value; kernels write their results to tensors")
    entry = (CheckedEntry if by_runtime else Entry)(func, name, device_type)
    statements = entry.build()
    body_params = (*entry.pointers_and_scalars, *entry.bound)
    call = call_extern("int32", name + BODY_SUFFIX, *body_params)
    attrs = func.attrs.with_attr("global_symbol", name)
    packed = PrimFunc(
        (entry.args, entry.num_args),
        seq(*statements, Evaluate(ret(call))),
        attrs=attrs.with_attr(CALLING_CONV, "packed"),
        span=func.span,
    )
    inner = attrs.with_attr("global_symbol", name + BODY_SUFFIX).with_attr(CALLING_CONV, "body")
    return packed, PrimFunc(body_params, seq(*_views(func), func.body), attrs=inner, span=func.span)


def _views(func: PrimFunc) -> list[Stmt]:
    """Declarations of the parameter buffers that the body uses as they are, over the pointers that it
    gets."""
    used = {node.buffer for node in walk(func.body) if isinstance(node, (BufferLoad, BufferStore))}
    return [DeclBuffer(buffer) for buffer in func.buffers if buffer in used]
