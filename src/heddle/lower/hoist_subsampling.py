"""HoistSubsampling: pixels that a stride skips are neither computed nor read.

    a = R.nn.conv2d(x, v: (4, 4, 3, 3), padding=1)
    b = R.nn.relu(R.add(a, z: (1, 4, 7, 7)))
    y = R.nn.conv2d(b, w: (8, 4, 1, 1), strides=2)
        →
    a = R.nn.conv2d(x, v, strides=2, padding=1)
    s = R.strided_slice(z, (2, 3), (0, 0), (7, 7), (2, 2))
    b = R.nn.relu(R.add(a, s))
    y = R.nn.conv2d(b, w)

A convolution whose kernel has one tap along an axis reads only every s-th position there, s being its stride.
A slice takes these positions first. The convolution then has a stride of 1, and its pixels lie side by side.
Where all readers of a tensor take the same positions, no others are computed: the slice moves above
elementwise operators, and it multiplies the strides of convolutions. Several convolutions of one tensor share
its slice (EliminateCommonSubexpr).
"""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from heddle.graph import op
from heddle.graph.infer import tensor_dims, type_of
from heddle.graph.nodes import VarBinding
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.graph.types import TensorType
from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, Expr, Function, Var
from heddle.ir.node import replace
from heddle.ir.op_def import AnyLayout, op_def
from heddle.ir.structural import structural_equal
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import walk
from heddle.lower.normal_form import GRAPHS
from heddle.prim.nodes import PrimExpr, is_const_int
from heddle.support.frozen import frozen
from heddle.topi.nn.window import pads, spatial_letters, spread

Steps = dict[int, int]
"""Which positions of a tensor are read: along an axis every n-th, beginning with the first. An axis that is
not listed is read whole."""


@frozen
class _Reads:
    """What a call reads of each operand, and the strides of a convolution that is given only that."""

    operands: tuple[Steps, ...]
    strides: tuple[int, ...] | None = None


_CONVOLUTIONS = {"relax.nn.conv1d": 1, "relax.nn.conv2d": 2, "relax.nn.conv3d": 3}
"""Convolutions, and the number of their spatial axes."""


class HoistSubsampling(FunctionPass):
    """Requires the normal form. Slices keep clear of padding. Tensors that nobody reads any more are left to
    DeadCodeElimination."""

    dialects: ClassVar[tuple[str, ...] | None] = GRAPHS

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        return _Hoister(mod, func).run(func)


class _Hoister(BindingRewriter):
    """`_kept` are the tensors of which only some positions are computed; `_made` holds the variables of these
    positions."""

    def __init__(self, mod: Any, func: Function) -> None:
        super().__init__(mod)
        self._kept = _steps_of_all_readers(func)
        self._made: dict[Expr, Expr] = {}

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if not isinstance(value, Call):
            return value
        read = _reads(value, self._kept.get(var, {}))
        if read is None or (var not in self._kept and not any(read.operands)):
            return value
        args = tuple(self._taken(arg, steps) for arg, steps in zip(value.args, read.operands, strict=True))
        attrs = value.attrs
        if read.strides is not None:
            attrs = attrs_of({**dict(attrs.items()), "strides": read.strides})
        made = replace(value, args=args, attrs=attrs, ty=None)
        if var not in self._kept:
            return made
        self._made[var] = self.emit(made, var.name_hint)
        return value

    def _taken(self, arg: Expr, steps: Steps) -> Expr:
        """The positions of an operand that are read."""
        if not steps:
            return arg
        if arg in self._made:
            return self._made[arg]
        axes, dims = sorted(steps), tensor_dims(arg)
        assert dims is not None
        taken = op.strided_slice(
            arg,
            axes,
            [0] * len(axes),
            [dims[axis] for axis in axes],
            [steps[axis] for axis in axes],
            assume_inbound=True,
        )
        return self.emit(taken, "subsampled")


def _steps_of_all_readers(func: Function) -> dict[Var, Steps]:
    """The variables of which all readers take the same positions, not all of them, and whose values can be
    computed for these positions alone."""
    uses = Counter(node for node in walk(func) if isinstance(node, Var))
    found: dict[Var, list[Steps]] = {}
    kept: dict[Var, Steps] = {}
    for binding in reversed([node for node in walk(func) if isinstance(node, VarBinding)]):
        var, value = binding.var, binding.value
        if not isinstance(value, Call):
            continue
        wanted = found.get(var, [])
        are_all = len(wanted) == uses[var] - 1 > 0 and var.is_dataflow  # one occurrence is the definition
        are_equal = all(steps == wanted[0] for steps in wanted)
        if are_all and are_equal and _reads(value, wanted[0]) is not None:
            kept[var] = wanted[0]
        read = _reads(value, kept.get(var, {}))
        for arg, steps in zip(value.args, read.operands if read is not None else (), strict=False):
            if steps and isinstance(arg, Var):
                found.setdefault(arg, []).append(steps)
    return kept


def _reads(call: Call, steps: Steps) -> _Reads | None:
    """What a call reads to compute some positions of its result. None: it cannot compute them alone, or their
    places in the operands are not known."""
    rank = next((rank for name, rank in _CONVOLUTIONS.items() if is_call(call, name)), None)
    if rank is not None:
        return _reads_of_convolution(call, rank, steps)
    record, dims = op_def(call.op), tensor_dims(call)
    if not steps or dims is None or record is None or not isinstance(record.layout, AnyLayout):
        return None
    found = [_steps_in_operand(arg, dims, steps) for arg in call.args]
    operands = tuple(each for each in found if each is not None)
    return _Reads(operands) if len(operands) == len(found) else None


def _steps_in_operand(arg: Expr, dims: tuple[PrimExpr, ...], steps: Steps) -> Steps | None:
    """The positions of an operand that broadcasts to `dims`."""
    if not isinstance(type_of(arg), TensorType):
        return {}
    own = tensor_dims(arg)
    if own is None:
        return None
    more = len(dims) - len(own)
    found: Steps = {}
    for axis, step in steps.items():
        if axis < more or is_const_int(own[axis - more], 1):
            continue
        if not structural_equal(own[axis - more], dims[axis]):
            return None
        found[axis - more] = step
    return found


def _reads_of_convolution(call: Call, rank: int, steps: Steps) -> _Reads | None:
    data, weight, attrs = tensor_dims(call.args[0]), tensor_dims(call.args[1]), call.attrs
    data_layout, kernel_layout = str(attrs.data_layout), str(attrs.kernel_layout)
    out_layout = str(attrs.out_layout or data_layout)
    letters = spatial_letters(rank)
    is_plain = (data_layout + kernel_layout + out_layout).isalpha()
    if data is None or weight is None or not is_plain or set(steps) - set(map(out_layout.index, letters)):
        return None
    found: Steps = {}
    strides = []
    edges = zip(letters, spread(attrs.strides, rank), *pads(attrs.padding, rank), strict=True)
    for letter, stride, before, after in edges:
        step = stride * steps.get(out_layout.index(letter), 1)
        has_one_tap = is_const_int(weight[kernel_layout.index(letter)], 1)
        if has_one_tap and before == after == 0 and step != 1:
            found[data_layout.index(letter)] = step
            step = 1
        strides.append(step)
    return _Reads((found, *({} for _ in call.args[1:])), tuple(strides))
