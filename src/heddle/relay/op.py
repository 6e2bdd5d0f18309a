"""Operators of Relay as functions that build calls: `relay.add(x, y)`, `relay.nn.dense(x, w, units=5)`.

A call keeps Relay's name and attributes: `call.op.name`, `call.attrs.units`. What the operator is, its record
says under this name (`OpAlias`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np

from heddle.graph.codes import R0205
from heddle.graph.op_builder import bind_arguments
from heddle.ir.attrs import NO_ATTRS, Attrs, attrs_of
from heddle.ir.codes import I0401
from heddle.ir.expr import Call, Expr, Tuple
from heddle.ir.expr_operators import EXPRESSION_OPERATORS
from heddle.ir.op import OP_ALIASES, OP_RECORDS, Op
from heddle.ir.op_def import AttrSpec, Input, OpAlias, OpDef
from heddle.relay.builders import TupleWrapper, as_expr
from heddle.relay.codes import Q0102
from heddle.support.diagnostics import IRTypeError, UsageError, did_you_mean

PREFIX = "relay."


def find(name: str) -> tuple[OpDef, OpAlias] | None:
    """The record and the alias of Relay's operator `name`; None where there is none."""
    OP_RECORDS.fill()
    return OP_ALIASES.get(PREFIX + name)


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
    named = {
        key: _argument(spec, kwargs[key]) if (spec := _spec(specs, key)) is not None else kwargs[key]
        for key in kwargs
    }
    inputs, attrs = bind_arguments(name, specs, alias.attrs_of(record), given, named)
    args_given = tuple(value for values in inputs.values() for value in values)
    return Call(Op(name, span=None), args_given, _checked(name, alias.attrs_of(record), attrs))


def _repeated(specs: Sequence[Input], count: int) -> list[Input | None]:
    """For each argument by position its input; None for an attribute."""
    found: list[Input | None] = list(specs)
    if specs and specs[-1].variadic:
        found += [specs[-1]] * (count - len(found))
    return found + [None] * (count - len(found))


def _spec(specs: Sequence[Input], name: str) -> Input | None:
    return next((spec for spec in specs if spec.name == name), None)


def _argument(spec: Input | None, value: Any) -> Any:
    """An input as an expression; an attribute, or an input that is left out, as it is."""
    return (
        value if spec is None or value is None or spec.kind not in ("tensor", "tensors") else as_expr(value)
    )


def default_attrs(name: str, given: Mapping[str, Any]) -> Attrs:
    """The attributes of a call, defaults filled in. Raises: UsageError I0403."""
    record, alias = lookup(name)
    specs = alias.attrs_of(record)
    return (
        _checked(name, specs, bind_arguments(name, (), specs, (), given)[1]) if specs or given else NO_ATTRS
    )


# ---- kinds of attributes

_KINDS: dict[str, tuple[type, ...]] = {
    "int": (int, np.integer),
    "float": (int, float, np.integer, np.floating),
    "floats": (int, float, np.integer, np.floating),
    "bool": (bool, int),
    "str": (str,),
    "dtype": (str,),
}
_DEPTH = {"ints": 1, "floats": 1, "pairs": 2}
"""How deeply the lists of a kind of numbers may be nested."""


def _checked(name: str, specs: Sequence[AttrSpec], attrs: Mapping[str, Any]) -> Attrs:
    """Attributes of the kinds that the operator declares. Raises: UsageError R0205."""
    kinds = {spec.name: spec.kind for spec in specs}
    found = {}
    for key, value in attrs.items():
        kind = kinds[key]
        if value is not None and not _fits(value, kind, _DEPTH.get(kind, 0)):
            raise UsageError(R0205, f"{name}: attribute {key} must be of kind {kind}, got {value!r}")
        found[key] = float(value) if kind == "float" and isinstance(value, int) else value
    return attrs_of(found)


def _fits(value: Any, kind: str, depth: int) -> bool:
    if depth and isinstance(value, (tuple, list)):
        return all(item is None or _fits(item, kind, depth - 1) for item in value)
    return isinstance(value, _KINDS.get(kind, (int, np.integer)))


# ---- words


def _clip(a: Any, a_min: float, a_max: float) -> Call:
    return relay_call("clip", (a,), {"a_min": a_min, "a_max": a_max})


def _gather(data: Any, axis: int, indices: Any) -> Call:
    return relay_call("gather", (data, indices), {"axis": axis})


def _pad(data: Any, pad_width: Any, pad_value: Any = 0, pad_mode: str = "constant") -> Call:
    return relay_call("nn.pad", (data, pad_value), {"pad_width": pad_width, "pad_mode": pad_mode})


def _variance(
    data: Any,
    axis: Any = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
    with_mean: Any = None,
) -> Call:
    mean = with_mean
    if mean is None:
        mean = relay_call("mean", (data,), {"axis": axis, "keepdims": True, "exclude": exclude})
    attrs = {"axis": axis, "keepdims": keepdims, "exclude": exclude, "unbiased": unbiased}
    return relay_call("variance", (data, mean), attrs)


def _stft(
    data: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    normalized: bool = False,
    onesided: bool = True,
) -> Call:
    attrs = {"n_fft": n_fft, "hop_length": hop_length, "win_length": win_length}
    args = (data,) if window is None else (data, window)
    return relay_call("stft", args, {**attrs, "normalized": normalized, "onesided": onesided})


def _matrix_set_diag(data: Any, diagonal: Any, k: Any = 0, align: str = "RIGHT_LEFT") -> Call:
    first, last = k if isinstance(k, (tuple, list)) else (k, k)
    above, _, below = align.partition("_")
    if {above, below} - {"LEFT", "RIGHT"}:
        raise UsageError(R0205, f"matrix_set_diag: align is like RIGHT_LEFT, got {align!r}")
    sides = {"super_diag_right_align": above == "RIGHT", "sub_diag_right_align": below == "RIGHT"}
    return relay_call("matrix_set_diag", (data, diagonal), {"k1": first, "k2": last, **sides})


_IN_OTHER_ORDER: dict[str, Any] = {
    "matrix_set_diag": _matrix_set_diag,
    "stft": _stft,
    "clip": _clip,
    "gather": _gather,
    "nn.pad": _pad,
    "variance": _variance,
}
"""Functions whose arguments have other names or another order than the operator's inputs and attributes."""


@dataclass(frozen=True, slots=True)
class RelayWord:
    """An operator as a function. One whose result is a tuple of a known size gives a TupleWrapper."""

    name: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.name in _IN_OTHER_ORDER:
            return _IN_OTHER_ORDER[self.name](*args, **kwargs)
        alias = lookup(self.name)[1]
        call = relay_call(self.name, args, kwargs)
        size = alias.results(call.attrs) if alias.results is not None else None
        return call if size is None else TupleWrapper(call, size)


@dataclass(frozen=True, slots=True)
class RelayNamespace:
    """The operators whose names begin with a prefix: `nn`."""

    _prefix: str

    def __getattr__(self, name: str) -> Any:
        return word(f"{self._prefix}.{name}", name)

    def __dir__(self) -> list[str]:
        return sorted(
            {name[len(self._prefix) + 1 :] for name in op_names() if name.startswith(self._prefix + ".")}
        )


def word(full: str, name: str) -> Any:
    """The operator or namespace of operators of a name. Raises: AttributeError where there is none."""
    if not name.startswith("__"):  # Python asks for these as it imports the module
        if find(full) is not None:
            return RelayWord(full)
        if any(key.startswith(f"{PREFIX}{full}.") for key in OP_ALIASES):
            return RelayNamespace(full)
    raise AttributeError(f"Relay has no operator {full!r}")


def __getattr__(name: str) -> Any:
    return word(name, name)


def __dir__() -> list[str]:
    return sorted({name.split(".")[0] for name in op_names()})


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
