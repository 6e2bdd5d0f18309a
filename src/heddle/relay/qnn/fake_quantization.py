"""What operators on floats are on integers with a scale and a zero point.

A rule is given a `Site` and gives the expression of integers and what these mean. It raises UsageError Q0502
where the integers cannot say what the floats did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from heddle.ir.expr import Constant, Tuple
from heddle.ir.structural import structural_equal
from heddle.relay.builders import const
from heddle.relay.codes import Q0502
from heddle.relay.transform.rewriting import along, array_of, call, rank, recalled, sizes
from heddle.relay.typed import infer_expr
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen


@frozen
class TensorAffineType:
    """Integers q that mean the floats (q - zero_point) * scale. Scales are float32 and zero points int32,
    scalars or one for each place along `axis`."""

    scale: Any
    zero_point: Any
    dtype: str
    axis: int = -1

    @property
    def ends(self) -> tuple[Any, Any]:
        """The scale and the zero point, as operators take them."""
        return self.scale, self.zero_point

    @property
    def is_scalar(self) -> bool:
        """Whether all elements have one scale and one zero point."""
        return not any(rank(infer_expr(part)) for part in self.ends)

    def means_as(self, other: TensorAffineType) -> bool:
        """Whether the same integers mean the same floats."""
        is_same = self.dtype == other.dtype and all(map(structural_equal, self.ends, other.ends))
        return is_same and (self.is_scalar or self.axis == other.axis)


@frozen
class TupleAffineType:
    """What the fields of a tuple mean."""

    types: tuple[TensorAffineType, ...]


@frozen
class Site:
    """A call of an operator on floats, and its arguments as integers; what is constant has no type and is of
    floats. `wanted` is what the result is quantised to behind further operators; None where it is not."""

    call: Any
    args: Sequence[Any]
    types: Sequence[Any]
    wanted: TensorAffineType | None

    def refused(self, reason: str) -> UsageError:
        """The error of a call that cannot be computed in integers, and why."""
        return UsageError(Q0502, f"{self.call.op.name} {reason}", span=self.call.span)

    def type_of(self, place: int, is_scalar: bool = False) -> TensorAffineType:
        """What an argument means."""
        found = self.types[place]
        if not isinstance(found, TensorAffineType):
            raise self.refused("has an argument that is not quantised")
        if is_scalar and not found.is_scalar:
            raise self.refused("has scales along an axis")
        return found

    def bytes_of(self, place: int) -> TensorAffineType:
        """What an argument of 8 bits means."""
        found = self.type_of(place)
        if found.dtype not in ("int8", "uint8"):
            raise self.refused(f"takes bytes, got {found.dtype}")
        return found

    @property
    def output(self) -> TensorAffineType:
        """The type that the result is quantised to. Raises: UsageError Q0502 where it is not quantised."""
        if self.wanted is None:
            raise self.refused("must be quantised again")
        return self.wanted

    def as_type(self, place: int, to: TensorAffineType) -> Any:
        """An argument as integers of a meaning; a constant of floats too."""
        arg = self.args[place]
        is_float = self.types[place] is None and isinstance(arg, Constant)
        return _quantized(arg, to) if is_float else requantized(arg, self.type_of(place), to)

    def again(self, *args: Any) -> Any:
        """The operator itself, on other arguments."""
        return recalled(self.call, *args)


Made = tuple[Any, Any]
Rule = Callable[[Site], Made]


def requantized(data: Any, of: TensorAffineType, to: TensorAffineType) -> Any:
    """Integers that mean the same, as far as their type can say it."""
    if of.means_as(to):
        return data
    axis = of.axis if not of.is_scalar else to.axis
    return call("qnn.requantize", data, *of.ends, *to.ends, axis=axis, out_dtype=to.dtype)


def _quantized(value: Any, to: TensorAffineType) -> Any:
    return call("qnn.quantize", value, *to.ends, axis=to.axis, out_dtype=to.dtype)


def _product(a: Any, b: Any) -> Any:
    left, right = array_of(a), array_of(b)
    return call("multiply", a, b) if left is None or right is None else const(left * right)


def _zeros(of: TensorAffineType, ndim: int) -> Any:
    """Zero points, to broadcast against the integers."""
    zero = along(of.zero_point, of.axis, ndim) if rank(infer_expr(of.zero_point)) else of.zero_point
    return zero if of.dtype == "int32" else call("cast", zero, dtype=of.dtype)


# ---- rules


def _moved(site: Site) -> Made:
    """Elements move, or the greatest and least are taken: integers do as floats."""
    of = site.type_of(0, is_scalar=True)
    return site.again(*site.args), of


def _in_parts(site: Site) -> Made:
    of = site.type_of(0, is_scalar=True)
    return site.again(*site.args), TupleAffineType((of,) * len(site.call.ty.fields))


def _relu(site: Site) -> Made:
    of = site.type_of(0)
    return call("maximum", site.args[0], _zeros(of, rank(site.call))), of


def _clip(site: Site) -> Made:
    of = site.type_of(0, is_scalar=True)
    low, high = (_quantized(const(np.float32(site.call.attrs[key])), of) for key in ("a_min", "a_max"))
    return call("maximum", call("minimum", site.args[0], high), low), of


def _pad(site: Site) -> Made:
    of = site.type_of(0, is_scalar=True)
    return site.again(site.args[0], site.as_type(1, of)), of


def _reduced(divides: bool) -> Rule:
    """Sums in int32; a mean is a sum of a smaller scale."""

    def rule(site: Site) -> Made:
        of = site.type_of(0, is_scalar=True)
        before, after = sizes(site.call.args[0]), sizes(site.call)
        if before is None or after is None or not prod(after):
            raise site.refused("is over a free number of elements")
        count = prod(before) // prod(after)
        attrs = {
            key: value for key, value in site.call.attrs.items() if key in ("axis", "keepdims", "exclude")
        }
        if site.call.op.name.startswith("nn."):
            layout = str(site.call.attrs.layout)
            attrs = {"axis": [k for k, axis in enumerate(layout) if axis not in "NC"], "keepdims": True}
        total = call("sum", call("cast", site.args[0], dtype="int32"), **attrs)
        scale = _product(of.scale, const(np.float32(1 / count))) if divides else of.scale
        zero = call("multiply", of.zero_point, const(np.int32(count)))
        return total, TensorAffineType(scale, zero, "int32")

    return rule


def _in_qnn(site: Site) -> Made:
    """The operator of `qnn` with the same attributes that takes and gives bytes."""
    of, to = site.bytes_of(0), site.output
    name = f"qnn.{site.call.op.name.removeprefix('nn.')}"
    return recalled(site.call, site.args[0], *of.ends, *to.ends, name=name), to


def _by_table(site: Site) -> Made:
    """A function of one byte."""
    of, to = site.bytes_of(0), site.output
    if not of.is_scalar or not to.is_scalar or of.dtype != to.dtype:
        raise site.refused("has another type behind it, or scales along an axis")
    return _in_qnn(site)


def _product_of(name: str, channel: Callable[[Any], int]) -> Rule:
    """Sums of products in int32; `channel` is the axis of the result along which weights may have scales."""

    def rule(site: Site) -> Made:
        a, b = site.bytes_of(0), site.bytes_of(1)
        if not a.is_scalar:
            raise site.refused("has data with scales along an axis")
        attrs = dict(site.call.attrs.items())
        turned = attrs.pop("transpose_a", False), attrs.pop("transpose_b", True)
        if name == "qnn.batch_matmul" and turned != (False, True):
            raise site.refused("multiplies other axes than the last ones")
        ends = (a.zero_point, b.zero_point, a.scale, b.scale)
        made = call(name, *site.args, *ends, **{**attrs, "out_dtype": "int32"})
        scale = _product(a.scale, b.scale)
        return made, TensorAffineType(scale, const(np.int32(0)), "int32", channel(site.call))

    return rule


def _channel(conv: Any) -> int:
    return str(conv.attrs.out_layout or conv.attrs.data_layout).index("C")


def _biased(site: Site) -> Made:
    """A bias becomes integers of the scale of what it is added to."""
    of, ndim = site.type_of(0), rank(site.call)
    axis = int(site.call.attrs.axis) % ndim
    if of.dtype != "int32" or not (of.is_scalar or of.axis % ndim == axis):
        raise site.refused("is added to bytes, or has scales along another axis")
    to = TensorAffineType(of.scale, const(np.int32(0)), of.dtype, 0)
    return site.again(site.args[0], site.as_type(1, to)), of


def _compared(site: Site) -> Made:
    """The greater or lesser of two."""
    known = [of for of in site.types if of is not None]
    same = len(known) == 1 or (known and known[0].means_as(known[1]))
    to = known[0] if same else site.output
    if not to.is_scalar:
        raise site.refused("has scales along an axis")
    return site.again(site.as_type(0, to), site.as_type(1, to)), to


def _added(name: str) -> Rule:
    def rule(site: Site) -> Made:
        to = site.output
        known = [of for of in site.types if of is not None]
        if not to.is_scalar or not all(of.is_scalar for of in known):
            raise site.refused("has scales along an axis")
        args, ends = [], list[Any]()
        for arg, of in zip(site.args, site.types, strict=True):
            if of is None:
                lower = np.min(array_of(arg), initial=0)
                span = float(np.max(array_of(arg), initial=0) - lower) or 1.0
                given = _covering(lower, span, to.dtype)
                args.append(_quantized(arg, given))
            elif of.dtype == to.dtype:
                given = of
                args.append(arg)
            elif name == "qnn.mul":
                raise site.refused(f"multiplies {of.dtype} and {to.dtype}")
            else:
                given = to
                args.append(requantized(arg, of, to))
            ends += given.ends
        return call(name, *args, *ends, *to.ends), to

    return rule


def _covering(lower: Any, span: float, dtype: str) -> TensorAffineType:
    """Integers for floats from `lower` to `lower + span`, 0 among them."""
    info = np.iinfo(dtype)
    scale = span / (int(info.max) - int(info.min))
    zero = int(np.clip(np.round(info.min - lower / scale), info.min, info.max))
    return TensorAffineType(const(np.float32(scale)), const(np.int32(zero)), dtype)


def _joined(site: Site) -> Made:
    to, types = site.output, site.types[0]
    if not isinstance(types, TupleAffineType) or not all(of.is_scalar for of in (*types.types, to)):
        raise site.refused("has fields that are not quantised, or scales along an axis")
    fields = [
        arg if of.dtype == to.dtype else requantized(arg, of, to)
        for arg, of in zip(site.args[0].fields, types.types, strict=True)
    ]
    given = [of if of.dtype == to.dtype else to for of in types.types]
    scales, zeros = Tuple(tuple(of.scale for of in given)), Tuple(tuple(of.zero_point for of in given))
    args = (Tuple(tuple(fields)), scales, zeros, *to.ends)
    return recalled(site.call, *args, name="qnn.concatenate"), to


_MOVES = (
    "reshape squeeze expand_dims transpose reverse repeat tile take strided_slice broadcast_to max min "
    "nn.batch_flatten nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.depth_to_space nn.space_to_depth copy"
)
_TABLES = "tanh exp sqrt rsqrt erf abs sigmoid log nn.leaky_relu nn.softmax"
RULES: dict[str, Rule] = {
    **dict.fromkeys(_MOVES.split(), _moved),
    **dict.fromkeys(_TABLES.split(), _by_table),
    "split": _in_parts,
    "nn.relu": _relu,
    "clip": _clip,
    "nn.pad": _pad,
    "sum": _reduced(False),
    "mean": _reduced(True),
    "nn.global_avg_pool2d": _reduced(True),
    "nn.avg_pool2d": _in_qnn,
    "nn.conv2d": _product_of("qnn.conv2d", _channel),
    "nn.conv2d_transpose": _product_of("qnn.conv2d_transpose", _channel),
    "nn.dense": _product_of("qnn.dense", lambda dense: rank(dense) - 1),
    "nn.batch_matmul": _product_of("qnn.batch_matmul", lambda product: -1),
    "nn.bias_add": _biased,
    "concatenate": _joined,
    "add": _added("qnn.add"),
    "subtract": _added("qnn.subtract"),
    "multiply": _added("qnn.mul"),
    "minimum": _compared,
    "maximum": _compared,
}
"""By the operator's name. What users register for a name goes before."""
OPTIONAL = ("nn.softmax",)
"""Operators that stay unless they are asked for: their integers are coarse."""
