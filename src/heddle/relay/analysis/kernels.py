"""What parts of a program are and cost: fused functions, single expressions, multiplications, features."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import IntEnum
from math import prod
from typing import Any

from heddle.ir.expr import Call, Constant, Function, GlobalVar, If, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.op import Op
from heddle.ir.structural import structural_hash
from heddle.ir.type_data import Constructor
from heddle.ir.variables import free_vars
from heddle.relay.builders import without_type
from heddle.relay.codes import Q0101
from heddle.relay.nodes import Let, Match, RefCreate, RefRead, RefWrite
from heddle.relay.placement import operands, post_order
from heddle.relay.transform.rewriting import is_call, sizes
from heddle.relay.transform.to_a_normal_form import PRIMITIVE
from heddle.relay.transform.to_basic_block_normal_form import crossing
from heddle.relay.typed import infer_expr
from heddle.support.diagnostics import UsageError


def check_basic_block_normal_form(expr: Any) -> bool:
    """Whether each function, branch and clause shares only named values with what is around it."""
    return not crossing(expr)


class Feature(IntEnum):
    """What a program is written with. `GRAPH`: an expression that is used twice, with no let; `LET_REC`: a
    function that names itself."""

    VAR = 0
    GLOBAL_VAR = 1
    CONSTANT = 2
    TUPLE = 3
    TUPLE_GET_ITEM = 4
    FUNCTION = 5
    OP = 6
    CALL = 7
    LET = 8
    IF = 9
    REF_CREATE = 10
    REF_READ = 11
    REF_WRITE = 12
    CONSTRUCTOR = 13
    MATCH = 14
    GRAPH = 15
    LET_REC = 16


_CLASSES: list[type] = [Var, GlobalVar, Constant, Tuple, TupleGetItem, Function, Op, Call, Let, If]
_CLASSES += [RefCreate, RefRead, RefWrite, Constructor, Match]
_FEATURES = dict(zip(_CLASSES, Feature, strict=False))
"""The features that are classes come first."""
_SHARED = (Call, Tuple, TupleGetItem, If, Match, RefCreate, RefRead, RefWrite, Function)


def detect_feature(a: Any, b: IRModule | None = None) -> set[Feature]:
    """The features of an expression, or of all functions of a module; `b` is the module whose functions an
    expression calls, which count too."""
    mod = a if isinstance(a, IRModule) else b
    roots = [] if isinstance(a, IRModule) else [a]
    if mod is not None:
        roots += (func for func in mod.functions.values() if isinstance(func, Function))
    found: set[Feature] = set()
    for root in roots:
        uses: Counter[int] = Counter()
        for expr in post_order(root):
            if type(expr) in _FEATURES:
                found.add(_FEATURES[type(expr)])
            uses.update(id(child) for child in operands(expr) if isinstance(child, _SHARED))
            if (
                isinstance(expr, Let)
                and isinstance(expr.value, Function)
                and expr.var in free_vars(expr.value)
            ):
                found.add(Feature.LET_REC)
            if isinstance(expr, Function) and expr.params:
                found.add(Feature.VAR)
        if any(count > 1 for count in uses.values()):
            found.add(Feature.GRAPH)
    return found


def extract_fused_functions(mod: IRModule) -> dict[int, Function]:
    """The functions of a module that are one kernel (FuseOps), by their structure's hash."""
    return {
        structural_hash(node): node
        for func in mod.functions.values()
        if isinstance(func, Function)
        for node in post_order(func)
        if isinstance(node, Function) and node.attrs.get(PRIMITIVE)
    }


def extract_intermdeiate_expr(mod: IRModule, expr_id: int) -> IRModule:
    """A module whose `main` gives the value of one call of another's `main`: number `expr_id` of its calls,
    operands first. Its parameters are the variables that the call needs. Raises: UsageError Q0101 for a
    number that no call has."""
    calls = [expr for expr in post_order(mod["main"]) if isinstance(expr, Call)]
    if not 0 <= expr_id < len(calls):
        raise UsageError(Q0101, f"expr_id is 0 to {len(calls) - 1}, got {expr_id}")
    found = without_type(calls[expr_id])
    func = Function(tuple(free_vars(found)), found, dialect="relay")
    rest = {var: each for var, each in mod.functions.items() if var.name_hint != "main"}
    return mod.with_functions({GlobalVar("main"): func, **rest})


# ---- multiplications


def get_total_mac_number(expr: Any) -> int:
    """How many multiplications and additions the convolutions and products of an expression do. Those of
    unknown sizes count nothing; what a loop repeats counts once."""
    total = 0
    for node in post_order(infer_expr(expr)):
        count = _MACS.get(node.op.name) if is_call(node) else None
        known = None if count is None else (sizes(node), *map(sizes, node.args[:2]))
        if count is not None and known is not None and None not in known:
            total += count(node, *known)
    return total


def _of_convolution(node: Any, out: tuple[int, ...], data: Any, weight: tuple[int, ...]) -> int:
    """Each element of the result is a sum over a window and the channels of its group."""
    layout = node.attrs.kernel_layout
    return prod(out) * prod(size for size, axis in zip(weight, layout, strict=True) if axis != "O")


def _of_transposed(node: Any, out: Any, data: tuple[int, ...], weight: tuple[int, ...]) -> int:
    """Each element of the data goes into a window of each channel of its group."""
    layout = node.attrs.kernel_layout
    return prod(data) * prod(size for size, axis in zip(weight, layout, strict=True) if axis != "I")


def _of_product(node: Any, out: tuple[int, ...], left: tuple[int, ...], right: Any) -> int:
    is_turned = bool(getattr(node.attrs, "transpose_a", False))
    return prod(out) * (left[-2] if is_turned else left[-1])


_MACS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.conv3d"), _of_convolution),
    **dict.fromkeys(("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose"), _of_transposed),
    **dict.fromkeys(("nn.dense", "nn.matmul", "nn.batch_matmul"), _of_product),
}


def search_fc_transpose(expr: Any) -> list[str]:
    """The names of the variables that are transposed for `nn.dense` alone: what SimplifyFCTranspose takes."""
    names = (
        node.args[1].args[0].name_hint
        for node in post_order(expr)
        if is_call(node, "nn.dense")
        and is_call(node.args[1], "transpose")
        and isinstance(node.args[1].args[0], Var)
    )
    return list(dict.fromkeys(names))


def list_fake_quantized_op_freqs(mod: IRModule) -> dict[str, int]:
    """How often each operator computes on floats between `qnn.dequantize` and `qnn.quantize`."""
    found: dict[int, str] = {}
    for func in mod.functions.values():
        for root in post_order(func) if isinstance(func, Function) else ():
            if is_call(root, "qnn.quantize"):
                found |= _between(root)
    return dict(Counter(found.values()))


def _between(root: Call) -> dict[int, str]:
    """The calls that a quantised value is made of; none where one of them is made of floats of elsewhere."""

    def below(expr: Any) -> list[Any]:
        if expr is not root and is_call(expr, "qnn.dequantize"):
            return []
        return list(root.args[:1]) if expr is root else operands(expr)

    region = [expr for expr in post_order(root, below) if expr is not root]
    if any(isinstance(expr, (Var, GlobalVar, If, Let, Match, Function)) for expr in region):
        return {}
    return {id(expr): expr.op.name for expr in region if is_call(expr) and expr.op.name != "qnn.dequantize"}
