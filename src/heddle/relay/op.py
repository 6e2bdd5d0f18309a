"""Operators of Relay as functions that build calls: `relay.add(x, y)`, `relay.nn.dense(x, w, units=5)`.

A call keeps Relay's name and attributes: `call.op.name`, `call.attrs.units`. What the operator is, its record
says under this name (`OpAlias`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from inspect import Parameter, Signature, signature
from numbers import Number
from typing import Any

import numpy as np

from heddle.graph.attr_kinds import check_kinds, is_whole
from heddle.graph.codes import R0201
from heddle.graph.op_builder import bind_arguments
from heddle.graph.virtual_device import device_attribute
from heddle.ir.attrs import Attrs, attrs_of
from heddle.ir.codes import I0401
from heddle.ir.expr import Call, Expr, Tuple
from heddle.ir.expr_operators import EXPRESSION_OPERATORS
from heddle.ir.op import OP_ALIASES, OP_RECORDS, Op
from heddle.ir.op_def import REQUIRED, AttrSpec, Input, OpAlias, OpDef, op_def
from heddle.relay.builders import TupleWrapper, as_expr, const
from heddle.relay.codes import Q0102
from heddle.support.diagnostics import HeddleError, IRTypeError, UsageError, did_you_mean
from heddle.support.frozen import frozen

PREFIX = "relay."


def find(name: str) -> tuple[OpDef, OpAlias] | None:
    """The record and the alias of Relay's operator `name`; None where there is none."""
    OP_RECORDS.fill()
    found = OP_ALIASES.get(PREFIX + name)
    return _graph_operator(name) if found is None and name in OP_RECORDS else found


@cache
def _graph_operator(name: str) -> tuple[OpDef, OpAlias] | None:
    """The operator of graphs that a program calls by its own name ("relax.nn.gelu"): one from tensors to
    tensors."""
    record = op_def(Op(name, span=None))
    if record is None or any(spec.kind not in ("tensor", "tensors") for spec in record.inputs):
        return None
    return record, OpAlias("relay", name)


def lookup(name: str) -> tuple[OpDef, OpAlias]:
    """As `find`. Raises: UsageError I0401 with the nearest name."""
    found = find(name)
    if found is None:
        raise UsageError(I0401, f"no Relay operator is called {name!r}", help=did_you_mean(name, op_names()))
    return found


def op_names() -> list[str]:
    """The names of Relay's operators, in order."""
    OP_RECORDS.fill()
    return sorted(key[len(PREFIX) :] for key in OP_ALIASES if key.startswith(PREFIX))


def get(name: str) -> Op:
    """The operator of a name. Raises: UsageError I0401."""
    lookup(name)
    return Op(name, span=None)


def relay_call(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    """A call of an operator, arguments by position or name, attributes with their defaults.

    Raises: UsageError I0401, I0403; IRTypeError R0201.
    """
    record, alias = lookup(name)
    specs = alias.inputs_of(record)
    given = [_argument(spec, value) for spec, value in zip(_repeated(specs, len(args)), args, strict=False)]
    inputs_by_name = {spec.name: spec for spec in specs}
    named = {key: _argument(inputs_by_name.get(key), value) for key, value in kwargs.items()}
    inputs, attrs = bind_arguments(name, specs, alias.attrs_of(record), given, named)
    args_given = tuple(value for values in inputs.values() for value in values)
    return Call(Op(name, span=None), args_given, _checked(name, alias.attrs_of(record), attrs))


def _repeated(specs: Sequence[Input], count: int) -> list[Input | None]:
    """For each argument by position its input; None for an attribute."""
    found: list[Input | None] = list(specs)
    if specs and specs[-1].variadic:
        found += [specs[-1]] * (count - len(found))
    return found + [None] * (count - len(found))


def _argument(spec: Input | None, value: Any) -> Any:
    """An input as an expression; an attribute, or an input that is left out, as it is."""
    is_input = spec is not None and value is not None and spec.kind in ("tensor", "tensors")
    return as_expr(value) if is_input else value


def default_attrs(name: str, given: Mapping[str, Any]) -> Attrs:
    """The attributes of a call, defaults filled in. Raises: UsageError I0403."""
    record, alias = lookup(name)
    specs = alias.attrs_of(record)
    return _checked(name, specs, bind_arguments(name, (), specs, (), given)[1])


def full_attrs(call: Call) -> Attrs:
    """The attributes of an operator's call with defaults for those that it lacks; the same object where it
    has all. Raises: UsageError I0403 for those that are missing or unknown, R0205 for other kinds."""
    found = default_attrs(call.op.name, dict(call.attrs.items()))  # type: ignore[attr-defined]
    return found if len(found) != len(call.attrs) else call.attrs


def _checked(name: str, specs: Sequence[AttrSpec], attrs: Mapping[str, Any]) -> Attrs:
    """Attributes of the kinds that the operator declares; of a window, with a number for each axis that it
    moves along. Raises: IRTypeError R0205."""
    check_kinds(name, specs, attrs)
    found, steps = {}, next((spec.default for spec in specs if spec.name == "strides"), None)
    for spec in specs:
        value = found[spec.name] = attrs[spec.name]
        if spec.kind == "float" and isinstance(value, int):
            found[spec.name] = float(value)
        elif spec.kind == "ints" and is_whole(value) and isinstance(steps, tuple):
            found[spec.name] = (int(value),) * len(steps)
    return attrs_of(found)


# ---- functions that are several operators

_Axes = int | Sequence[int] | None


def _reduced(name: str, data: Any, axis: _Axes, keepdims: bool, exclude: bool = False) -> Any:
    return relay_call(name, (data,), {"axis": axis, "keepdims": keepdims, "exclude": exclude})


def variance(
    data: Any,
    axis: _Axes = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
    with_mean: Any = None,
) -> Any:
    """The variance over axes; the mean is computed where it is not given. Raises: as `relay_call`."""
    mean = _reduced("mean", data, axis, True, exclude) if with_mean is None else with_mean
    attrs = {"axis": axis, "keepdims": keepdims, "exclude": exclude, "unbiased": unbiased}
    return relay_call("variance", (data, mean), attrs)


def mean_variance(
    data: Any, axis: _Axes = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False
) -> TupleWrapper:
    """The mean and the variance over axes. Raises: IRTypeError where they do not fit the operators."""
    found = variance(data, axis, keepdims, exclude, unbiased)
    return TupleWrapper(Tuple((_reduced("mean", data, axis, keepdims, exclude), found)), 2)


def mean_std(data: Any, axis: _Axes = None, keepdims: bool = False, exclude: bool = False) -> TupleWrapper:
    """The mean and the standard deviation over axes. Raises: as `mean_variance`."""
    mean, found = mean_variance(data, axis, keepdims, exclude)
    return TupleWrapper(Tuple((mean, relay_call("sqrt", (found,), {}))), 2)


def std(
    data: Any, axis: _Axes = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False
) -> Any:
    """The standard deviation over axes. Raises: as `mean_variance`."""
    return relay_call("sqrt", (variance(data, axis, keepdims, exclude, unbiased),), {})


def logsumexp(data: Any, axis: _Axes = None, keepdims: bool = False) -> Any:
    """`log(sum(exp(data)))` over axes, without overflow."""
    top = _reduced("max", data, axis, True)
    is_finite, zero = relay_call("isfinite", (top,), {}), relay_call("zeros_like", (top,), {})
    top = relay_call("where", (is_finite, top, zero), {})
    found = _reduced("sum", relay_call("exp", (relay_call("subtract", (data, top), {}),), {}), axis, True)
    return _reduced("max", relay_call("add", (relay_call("log", (found,), {}), top), {}), axis, keepdims)


def segment_sum(data: Any, segment_ids: Any, num_segments: Any = None) -> Any:
    """The sums of the rows of each segment: as many as are asked for, or up to the greatest number."""
    if num_segments is None:
        most = relay_call("max", (segment_ids,), {})
        num_segments = relay_call("add", (most, relay_call("ones_like", (most,), {})), {})
    count = relay_call("cast", (as_expr(num_segments),), {"dtype": "int64"})
    sizes = relay_call("shape_of", (data,), {"dtype": "int64"})
    inner = relay_call("strided_slice", (sizes,), {"begin": [1], "end": [2**31 - 1]})
    count = relay_call("reshape", (count,), {"newshape": [1]})
    shape = relay_call("concatenate", ([count, inner],), {"axis": 0})
    zero = relay_call("zeros_like", (relay_call("take", (data, const(0)), {"mode": "clip"}),), {})
    background = relay_call("dyn.full", (zero, shape), {})
    places = relay_call("expand_dims", (segment_ids,), {"axis": 0})
    return relay_call("scatter_nd", (background, places, data), {"mode": "add"})


def dropout_raw(data: Any, rate: float = 0.5) -> TupleWrapper:
    """`nn.dropout`: the data, and the mask of what stays."""
    return TupleWrapper(relay_call("nn.dropout", (data,), {"rate": rate}), 2)


def dropout(data: Any, rate: float = 0.5) -> Any:
    """What `nn.dropout` leaves of the data."""
    return dropout_raw(data, rate)[0]


def shape_of_tensor(expr: Any) -> Any:
    """The sizes of a tensor as int64: `relay.vm.shape_of`."""
    return relay_call("vm.shape_of", (expr,), {})


def reshape_tensor(data: Any, shape: Any, newshape: Sequence[int]) -> Any:
    """The elements in another shape, which a tensor says as well: `relay.vm.reshape_tensor`."""
    return relay_call("vm.reshape_tensor", (data, shape), {"newshape": newshape})


def threefry_key(seed: int) -> Any:
    """A key for `relay.random`, of a number of 64 bits."""
    return const(np.array([seed % (1 << 64), *[0] * 9], "uint64"))


PARAM_DEVICES, RESULT_DEVICE = "param_virtual_devices", "result_virtual_device"
"""Attributes of a function: the devices of its parameters, and that of its result."""


def function_on_device(function: Any, param_devices: Sequence[Any], result_device: Any) -> Any:
    """The function with devices for its parameters and its result, which PlanDevices keeps to.

    Raises: IRTypeError R0201 for another number of devices than of parameters.
    """
    if len(param_devices) != len(function.params):
        count = len(function.params)
        raise IRTypeError(R0201, f"the function has {count} parameters, got {len(param_devices)} devices")
    devices = tuple(map(device_attribute, param_devices))
    return function.with_attr({PARAM_DEVICES: devices, RESULT_DEVICE: device_attribute(result_device)})


_FUNCTIONS: dict[str, Any] = {
    **{made.__name__: made for made in (variance, mean_variance, mean_std, std, logsumexp, segment_sum)},
    "annotation.function_on_device": function_on_device,
    "random.threefry_key": threefry_key,
    "nn.dropout": dropout,
    "nn.dropout_raw": dropout_raw,
}
"""Functions by the names that Relay gives them; they win over an operator of the name."""

_OTHER_NAMES = {
    "annotation.on_device": "on_device",
    "nn.contrib_conv2d_nchwc": "nn.contrib_conv2d_NCHWc",
    "nn.contrib_depthwise_conv2d_nchwc": "nn.contrib_depthwise_conv2d_NCHWc",
    "reverse_reshape": "contrib_reverse_reshape",
}
"""Operators whose functions are called otherwise."""


# ---- words


@frozen
class RelayWord:
    """An operator as a function. One whose result is a tuple of a known size gives a TupleWrapper."""

    name: str

    @property
    def __signature__(self) -> Signature:
        """The parameters of the function, as TVM's users know them."""
        record, alias = lookup(self.name)
        if alias.function is not None:
            return signature(alias.function)
        inputs = [
            Parameter(
                spec.name,
                Parameter.VAR_POSITIONAL if spec.variadic else Parameter.POSITIONAL_OR_KEYWORD,
                default=None if spec.optional and not spec.variadic else Parameter.empty,
            )
            for spec in alias.inputs_of(record)
        ]
        defaults = {spec.name: spec.default for spec in alias.attrs_of(record)} | dict(alias.defaults)
        is_open = bool(inputs) and inputs[-1].kind is Parameter.VAR_POSITIONAL
        kind = Parameter.KEYWORD_ONLY if is_open else Parameter.POSITIONAL_OR_KEYWORD
        attrs = [
            Parameter(name, kind, default=Parameter.empty if default is REQUIRED else default)
            for name, default in defaults.items()
        ]
        return Signature(_required_first([*inputs, *attrs]))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        alias = lookup(self.name)[1]
        if find(f"dyn.{self.name}") is not None and self._computes_attrs(args, kwargs):
            return RelayWord(f"dyn.{self.name}")(*args, **kwargs)
        if alias.function is not None:
            try:
                bound = signature(alias.function).bind(*args, **kwargs)
            except TypeError as error:
                raise IRTypeError(R0201, f"{self.name}: {error}") from None
            try:
                args, kwargs = (), {**alias.function(*bound.args, **bound.kwargs)}
            except (TypeError, AttributeError, LookupError) as error:
                if isinstance(error, HeddleError):
                    raise
                raise IRTypeError(R0201, f"{self.name}: an argument is of another kind: {error}") from error
        elif alias.defaults:
            kwargs = {**self._left_open(alias.defaults, len(args)), **kwargs}
        call = relay_call(self.name, args, kwargs)
        size = alias.results(call) if alias.results is not None else None
        return call if size is None else TupleWrapper(call, size)

    def _computes_attrs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether an attribute is given as an expression: sizes, axes or bounds that the program computes."""
        record, alias = lookup(self.name)
        attrs = {spec.name for spec in alias.attrs_of(record)}
        given = {**dict(zip(self.__signature__.parameters, args, strict=False)), **kwargs}
        return any(isinstance(given.get(name), Expr) for name in attrs)

    def _left_open(self, defaults: Mapping[str, Any], given: int) -> dict[str, Any]:
        """The defaults of parameters behind the first `given` ones."""
        behind = list(self.__signature__.parameters)[given:]
        return {name: value for name, value in defaults.items() if name in behind}


def _required_first(parameters: list[Parameter]) -> list[Parameter]:
    """What follows an optional input is optional for Python: it is asked for when the call is made."""
    found, is_open = [], False
    for each in parameters:
        is_open = is_open or each.default is not Parameter.empty
        needs = each.default is Parameter.empty and each.kind is Parameter.POSITIONAL_OR_KEYWORD
        found.append(each.replace(default=None) if is_open and needs else each)
    return found


@frozen
class RelayNamespace:
    """The operators whose names begin with a prefix: `nn`."""

    _prefix: str

    def __getattr__(self, name: str) -> Any:
        return word(f"{self._prefix}.{name}", name)

    def __dir__(self) -> list[str]:
        inner = f"{self._prefix}."
        return sorted(name[len(inner) :] for name in {*op_names(), *_FUNCTIONS} if name.startswith(inner))


def word(full: str, name: str) -> Any:
    """The operator or namespace of operators of a name. Raises: AttributeError where there is none."""
    if not name.startswith("__"):  # Python asks for these as it imports the module
        full = _OTHER_NAMES.get(full, full)
        if full in _FUNCTIONS:
            return _FUNCTIONS[full]
        if find(full) is not None:
            return RelayWord(full)
        if any(key.startswith(f"{PREFIX}{full}.") for key in OP_ALIASES):
            return RelayNamespace(full)
    raise AttributeError(f"Relay has no operator {full!r}")


def __getattr__(name: str) -> Any:
    return word(name, name)


def __dir__() -> list[str]:
    return sorted({name.split(".")[0] for name in {*op_names(), *_FUNCTIONS}})


# ---- Python's operators


def _operands(name: str, *values: Any) -> tuple[Expr, ...]:
    for value in values:
        if not isinstance(value, (Expr, TupleWrapper)):
            what = f"the number {value!r}" if isinstance(value, Number) else f"a {type(value).__name__}"
            raise IRTypeError(
                Q0102, f"{name} got {what}", help=f"convert it with `const` first: const({value!r})"
            )
    return tuple(as_expr(value) for value in values)


def _binary(name: str) -> Any:
    return lambda lhs, rhs: relay_call(name, _operands(name, lhs, rhs), {})


def _cast(value: Expr, dtype: str) -> Call:
    if isinstance(value, Tuple):
        raise IRTypeError(Q0102, "astype of a tuple", help="convert its fields")
    return relay_call("cast", (value,), {"dtype": dtype})


for _name in ("add", "subtract", "multiply", "divide", "less", "less_equal", "greater", "greater_equal"):
    EXPRESSION_OPERATORS.add(PREFIX + _name, _binary(_name))
EXPRESSION_OPERATORS.add(PREFIX + "negative", lambda value: relay_call("negative", (value,), {}))
EXPRESSION_OPERATORS.add(PREFIX + "cast", _cast)
