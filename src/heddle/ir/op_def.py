"""The record of a graph operator: all that Heddle knows of it, in one place.

Builder functions, script names, docs, test tables and coverage pages derive from it. Each optional facet is
a value or a
stated reason (`Without`); silence fails when the record is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from heddle.ir.attrs import Attrs
from heddle.ir.codes import I0403
from heddle.ir.expr import Call, Expr
from heddle.ir.op import GRAPH_PREFIX, OP_RECORDS, Op
from heddle.ir.types import Type
from heddle.support.diagnostics import UsageError

REQUIRED = object()
"""The default of an attribute that must be given."""


@dataclass(frozen=True, slots=True)
class Input:
    """A value argument. `kind` is tensor, tensors (a tuple), shape, prim (a scalar), func, packed (a named
    function or its name), args (a tuple; one value is wrapped), or any; an optional argument that is left out
    is not in the call; a `variadic` one comes last and takes the rest.
    """

    name: str
    kind: str = "tensor"
    meaning: str = ""
    optional: bool = False
    variadic: bool = False


@dataclass(frozen=True, slots=True)
class AttrSpec:
    """An attribute: `kind` is a word for docs ("int", "ints", "dtype", "str", "bool", "float", "shape")."""

    name: str
    kind: str
    default: Any = REQUIRED
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Without:
    """Why a facet is missing."""

    reason: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One test case: argument shapes (or arrays, shapes as tuples of ints or dimension names) with
    attributes.

    `dtypes` are those it runs with; `make` gives the numpy arguments for a dtype and a random generator, by
    default
    normal values of the shapes.
    """

    shapes: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ("float32",)
    make: Callable[[Any, str], tuple[Any, ...]] | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class ErrorSample:
    """A wrong use: argument shapes and attributes, and the code and words of the message."""

    shapes: tuple[Any, ...]
    attrs: dict[str, Any]
    code: str
    words: str
    dtype: str = "float32"


class InferContext(Protocol):
    """What a type rule sees; `graph.infer` implements it."""

    call: Call
    args: tuple[Expr, ...]
    attrs: Attrs

    def type_of(self, index: int) -> Type: ...


@dataclass(frozen=True, slots=True)
class AnyLayout:
    """The rule of elementwise operators: an element of the result comes of the elements of the operands
    at its own place, after broadcasting, however the elements are laid out."""


@dataclass(frozen=True, slots=True)
class OpDef:
    """An operator of the graph dialects.

    - `infer(ctx) -> Type`: the result's type, symbolic dimensions included; raises coded errors.
    - `reference(attrs, *arrays) -> array or tuple`: numpy; the oracle, the interpreter and the constant
    folder.
    - exactly one of `lower(attrs, *te tensors or exprs) -> te tensors`, `decompose(builder, call) -> Expr`
    and
      `opaque` says how it becomes code.
    - `is_pure`: whether a call may be moved, shared or dropped.
    - `work(attrs, shapes of tensor operands, shape of the result)`: how many multiply-adds `reference` does
    at most, where that is more than a few for each element read or written.
    - `dispatch`: "sampling" or "sort_scan" for operators that a pass of that name legalises ahead of others.
    """

    name: str
    inputs: tuple[Input, ...]
    attrs: tuple[AttrSpec, ...]
    doc: str
    infer: Callable[[Any], Type]
    reference: Callable[..., Any] | Without
    lower: Callable[..., Any] | None = None
    decompose: Callable[..., Any] | None = None
    opaque: Without | None = None
    is_pure: bool = True
    layout: Any = Without("no layout rule is stated")
    samples: tuple[Sample, ...] | Without = Without("")
    errors: tuple[ErrorSample, ...] = ()
    relay_names: tuple[str, ...] = ()
    dispatch: str = ""
    work: Callable[[Any, Sequence[tuple[int, ...]], tuple[int, ...]], int] | None = None

    def __post_init__(self) -> None:
        ways = [self.lower, self.decompose, self.opaque]
        if sum(way is not None for way in ways) != 1:
            raise UsageError(I0403, f"operator {self.name} needs exactly one of lower, decompose and opaque")
        for name in ("reference", "samples", "layout"):
            facet = getattr(self, name)
            if isinstance(facet, Without) and not facet.reason:
                raise UsageError(I0403, f"operator {self.name} has no {name}, and no reason is stated")

    @property
    def key(self) -> str:
        """The operator's name in the table, and in a call."""
        return f"{GRAPH_PREFIX}{self.name}"

    def bind_attrs(self, given: dict[str, Any]) -> dict[str, Any]:
        """Attributes with defaults filled in. Raises: UsageError I0403 for unknown or missing ones."""
        return bind_attrs(self.name, self.attrs, given)


def bind_attrs(op_name: str, specs: Sequence[AttrSpec], given: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of an operator with defaults filled in. Raises: UsageError I0403."""
    known = {spec.name for spec in specs}
    unknown = [name for name in given if name not in known]
    if unknown:
        raise UsageError(I0403, f"operator {op_name} has no attribute {unknown[0]!r}; it has {sorted(known)}")
    values: dict[str, Any] = {}
    for spec in specs:
        if spec.name not in given and spec.default is REQUIRED:
            raise UsageError(I0403, f"operator {op_name} needs the attribute {spec.name!r}")
        values[spec.name] = given.get(spec.name, spec.default)
    return values


def declare_op(definition: OpDef) -> OpDef:
    """Put an operator in the table."""
    OP_RECORDS.add(definition.key, definition)
    return definition


def op_named(name: str) -> OpDef:
    """The record of the graph operator `name` ("add", "nn.relu"). Raises: MissingNameError S0202."""
    record = OP_RECORDS[f"{GRAPH_PREFIX}{name}"]
    assert isinstance(record, OpDef)
    return record


def op_def(op: Expr) -> OpDef | None:
    """The record of a graph operator, or None for any other callee."""
    if not isinstance(op, Op):
        return None
    record = OP_RECORDS.get(op.name)
    return record if isinstance(record, OpDef) else None
