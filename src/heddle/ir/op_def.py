"""The record of a graph operator: everything that Heddle knows about it.

Builder functions, script names, documentation, test tables and coverage pages are derived from it. Each
optional facet is a value or a stated reason (`Without`); a facet without either is an error when the record
is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Protocol

from heddle.ir.attrs import Attrs
from heddle.ir.codes import I0403
from heddle.ir.expr import Call, Expr
from heddle.ir.op import GRAPH_PREFIX, OP_ALIASES, OP_RECORDS, Op
from heddle.ir.types import Type
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen
from heddle.support.registry import caller_place

REQUIRED = object()
"""The default of an attribute that must be given."""


@frozen
class Input:
    """A value argument. `kind` is tensor, tensors (a tuple), shape, prim (a scalar), func, packed (a named
    function or its name), args (a tuple; a single value is wrapped), or any. An optional argument that is not
    given does not appear in the call. A `variadic` argument is the last one and takes all remaining values.
    """

    name: str
    kind: str = "tensor"
    meaning: str = ""
    optional: bool = False
    variadic: bool = False


@frozen
class AttrSpec:
    """An attribute: `kind` is a word of `graph.attr_kinds` ("int", "ints", "list", "dtype", "str", ...)."""

    name: str
    kind: str
    default: Any = REQUIRED
    meaning: str = ""


@frozen
class Without:
    """Why a facet is missing."""

    reason: str


@frozen
class Sample:
    """A test case: attributes and argument shapes (or arrays; shapes as tuples of ints or dimension names).

    It runs with each of `dtypes`. `make` returns the numpy arguments for a dtype and a random generator. By
    default, they are normally distributed values of the given shapes.
    """

    shapes: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ("float32",)
    make: Callable[[Any, str], tuple[Any, ...]] | None = None
    name: str = ""


@frozen
class ErrorSample:
    """A wrong use: argument shapes and attributes, the expected error code, and words of the message."""

    shapes: tuple[Any, ...]
    attrs: dict[str, Any]
    code: str
    words: str
    dtype: str = "float32"


class InferContext(Protocol):
    """The context of a type rule; `graph.infer` implements it."""

    call: Call
    args: tuple[Expr, ...]
    attrs: Attrs

    def type_of(self, index: int) -> Type:
        """The type of an argument. Raises: IRTypeError R0102 for one that has no type yet."""


@frozen
class AnyLayout:
    """The layout rule of elementwise operators: an element of the result depends only on the operands'
    elements at the same position (after broadcasting), in any layout."""


ArgumentSource = str | Callable[[Mapping[str, Any]], Any]
"""An argument by its name, or what is made of all arguments by name."""


@frozen
class Itself:
    """The expression of an annotation: an operator that says something of an argument and is the argument."""

    name: str

    def __call__(self, given: Mapping[str, Any]) -> Any:
        return given[self.name]


@frozen
class OpAlias:
    """What a dialect calls an operator, the arguments that it takes there, and what they are for the record.

        OpAlias(
            "relay",
            "nn.dense",
            inputs=(Input("data"), Input("weight")),
            attrs=(AttrSpec("units", "int", None), AttrSpec("out_dtype", "dtype", None)),
            arguments={"x1": "data", "x2": lambda given: call_op("permute_dims", given["weight"])},
        )

    - `inputs` and `attrs` are the dialect's; None stands for the record's own.
    - `arguments` says what an argument of the record is made of: an argument of the dialect by its name, or a
      function of all that were given by name (inputs as expressions, None where one is left out, a tuple
      where it is variadic; attributes with defaults). It may raise coded errors where they contradict each
      other. An argument that is not listed is the dialect's of the same name, else it has its default; an
      input is never an attribute, nor an attribute one of another kind, unless `arguments` says so.
    - `derived` gives types of inputs that a program leaves open, from all arguments by name: the weight's
      from `units` and the data, say. None where they do not tell.
    - `results(call)`: of how many values the result is a tuple; None where it is no tuple.
    - `expression(given)`: the whole value, of all arguments by name, where it is no call of the record: a
      tuple of several, say. Then `arguments` says nothing.
    - `function(...)`: a function with the parameters that the dialect's users know, where they are not the
      inputs and attributes; it gives these by name. `defaults` are those of its parameters alone.

    A dialect either writes and builds its calls by the alias alone, so that those in a program are the
    record's, or keeps its own name in programs and maps the arguments when it asks for type, value or code.
    """

    dialect: str
    name: str
    inputs: tuple[Input, ...] | None = None
    attrs: tuple[AttrSpec, ...] | None = None
    arguments: Mapping[str, ArgumentSource] = field(default_factory=dict)
    derived: Mapping[str, Callable[[Mapping[str, Any]], Type | None]] = field(default_factory=dict)
    results: Callable[[Call], int | None] | None = None
    expression: Callable[[Mapping[str, Any]], Expr] | None = None
    function: Callable[..., Mapping[str, Any]] | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_annotation(self) -> bool:
        """Whether a call is its argument, and says something of it."""
        return isinstance(self.expression, Itself)

    def inputs_of(self, record: OpDef) -> tuple[Input, ...]:
        """The inputs that the operator has under this name."""
        return record.inputs if self.inputs is None else self.inputs

    def attrs_of(self, record: OpDef) -> tuple[AttrSpec, ...]:
        """The attributes that the operator has under this name."""
        return record.attrs if self.attrs is None else self.attrs

    def map_arguments(self, record: OpDef, given: Mapping[str, Any]) -> dict[str, Any]:
        """The record's arguments by name, from those of the dialect."""
        found: dict[str, Any] = {}
        specs: tuple[Input | AttrSpec, ...] = (*record.inputs, *record.attrs)
        for spec in specs:
            source = self.arguments.get(spec.name, spec.name)
            if callable(source):
                found[spec.name] = source(given)
            elif source in given:
                found[spec.name] = given[source]
        return found

    def check(self, record: OpDef) -> None:
        """Raises: UsageError I0403 where a named argument is missing, or a needed one has no source, or one
        without a source would be something else of the same name.
        """
        own = _names(self.inputs_of(record), self.attrs_of(record))
        if self.defaults.keys() - own:
            raise UsageError(
                I0403, f"alias {self.dialect}.{self.name}: no argument {min(self.defaults.keys() - own)!r}"
            )
        if self.expression is not None:
            return
        known = _names(record.inputs, record.attrs)
        named = {source for source in self.arguments.values() if isinstance(source, str)}
        needed = {spec.name for spec in record.inputs if not (spec.optional or spec.variadic)}
        needed |= {spec.name for spec in record.attrs if spec.default is REQUIRED}
        for wrong, what in (
            (self.arguments.keys() - known, f"{record.name} has no argument"),
            (named - own, f"{self.name} has no argument"),
            (needed - self.arguments.keys() - own, f"nothing gives {record.name} its argument"),
        ):
            if wrong:
                raise UsageError(I0403, f"alias {self.dialect}.{self.name}: {what} {min(wrong)!r}")
        self._check_kinds(record)

    def _check_kinds(self, record: OpDef) -> None:
        """Raises: UsageError I0403 for an argument without a source where the dialect's of the same name is
        of another kind."""
        own = {**_kinds(self.attrs_of(record)), **_kinds(self.inputs_of(record))}
        for name, kind in {**_kinds(record.attrs), **_kinds(record.inputs)}.items():
            if name not in self.arguments and own.get(name, kind) != kind:
                raise UsageError(
                    I0403,
                    f"alias {self.dialect}.{self.name}: no source of {record.name}'s {kind} {name!r} is "
                    f"stated, and {self.name}'s is an {own[name]}",
                    help=f"state it in `arguments`, as {{{name!r}: {name!r}}} where it may be that one",
                )


def _kinds(specs: Sequence[Input | AttrSpec]) -> dict[str, str]:
    """What the arguments are, by name."""
    return {
        spec.name: f"attribute of kind {spec.kind!r}" if isinstance(spec, AttrSpec) else "input"
        for spec in specs
    }


def _names(inputs: tuple[Input, ...], attrs: tuple[AttrSpec, ...]) -> set[str]:
    return {spec.name for spec in inputs} | {spec.name for spec in attrs}


DISPATCHES = ("sampling", "sort_scan")
"""Names of the passes that legalise operators ahead of others."""


@frozen
class OpDef:
    """An operator of the graph dialects.

    - `infer(ctx) -> Type`: the result's type, symbolic dimensions included; raises coded errors.
    - `reference(attrs, *arrays) -> array or tuple`: the numpy implementation. Tests, the interpreter and
      constant folding use it.
    - Exactly one of `lower(attrs, *te tensors or exprs) -> te tensors`, `decompose(builder, call) -> Expr`
      and `opaque` (the reason why there is neither) says how the operator is compiled.
    - `is_pure`: whether calls may be moved, shared or removed.
    - `work(attrs, shapes of tensor operands, shape of the result)`: the maximum number of multiply-adds of
      `reference`. Stated if it is more than a few for each element that is read or written.
    - `name` is the same in all dialects; `aliases` are other names in some dialects.
    - `dispatch`: one of DISPATCHES. The pass of that name legalises the operator, before all other operators.
    - `gradient`: computes gradients of the arguments from that of the result (`graph.gradient`). It is
      stated here or by `declare_gradient`; `check_gradients` reports operators without it.
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
    aliases: tuple[OpAlias, ...] = ()
    dispatch: str = ""
    work: Callable[[Any, Sequence[tuple[int, ...]], tuple[int, ...]], int] | None = None
    gradient: Any = Without("")

    def __post_init__(self) -> None:
        ways = [self.lower, self.decompose, self.opaque]
        if sum(way is not None for way in ways) != 1:
            raise UsageError(I0403, f"operator {self.name} needs exactly one of lower, decompose and opaque")
        for name in ("reference", "samples", "layout"):
            facet = getattr(self, name)
            if isinstance(facet, Without) and not facet.reason:
                raise UsageError(I0403, f"operator {self.name} has no {name}, and no reason is stated")
        if self.dispatch not in ("", *DISPATCHES):
            raise UsageError(I0403, f"operator {self.name} has the dispatch {self.dispatch!r}")
        for alias in self.aliases:
            alias.check(self)

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
        value = given.get(spec.name, spec.default)
        is_unsaid = spec.kind == "dtype" and spec.default is None and value == "void"  # as TVM writes it
        values[spec.name] = None if is_unsaid else value
    return values


def declare_op(definition: OpDef) -> OpDef:
    """Register an operator and its aliases. Raises: UsageError S0201 if a name is taken."""
    place = caller_place()
    OP_RECORDS.add(definition.key, definition, place=place)
    for alias in definition.aliases:
        OP_ALIASES.add(f"{alias.dialect}.{alias.name}", (definition, alias), place=place)
    return definition


def declare_aliases(record_name: str, aliases: Sequence[OpAlias]) -> OpDef:
    """Add aliases to a declared operator. Raises: UsageError I0403, S0201; MissingNameError S0202."""
    place = caller_place()
    known = op_named(record_name)
    record = replace(known, aliases=(*known.aliases, *aliases))
    OP_RECORDS.add(record.key, record, override=True, place=OP_RECORDS.place(record.key))
    for alias in aliases:
        OP_ALIASES.add(f"{alias.dialect}.{alias.name}", (record, alias), place=place)
    return record


def declare_gradient(record_name: str, gradient: Any) -> OpDef:
    """Set the gradient rule of a declared operator, or the reason why there is none. Raises: UsageError I0403
    if it is already set; MissingNameError S0202."""
    known = op_named(record_name)
    if not isinstance(known.gradient, Without) or known.gradient.reason:
        raise UsageError(I0403, f"operator {record_name} has a gradient already")
    record = replace(known, gradient=gradient)
    OP_RECORDS.add(record.key, record, override=True, place=OP_RECORDS.place(record.key))
    for alias in record.aliases:
        name = f"{alias.dialect}.{alias.name}"
        OP_ALIASES.add(name, (record, alias), override=True, place=OP_ALIASES.place(name))
    return record


def check_gradients() -> None:
    """Check that every operator that becomes code states its gradient. Raises: UsageError I0403 if one does
    not."""
    for _, record in OP_RECORDS.items():
        if not isinstance(record, OpDef) or record.opaque is not None:
            continue
        if isinstance(record.gradient, Without) and not record.gradient.reason:
            raise UsageError(I0403, f"operator {record.name} has no gradient, and no reason is stated")


def operator_names() -> list[str]:
    """The names of all graph operators."""
    return [record.name for _, record in OP_RECORDS.items() if isinstance(record, OpDef)]


def op_named(name: str) -> OpDef:
    """The record of the graph operator `name` ("add", "nn.relu"). Raises: MissingNameError S0202."""
    record = OP_RECORDS[f"{GRAPH_PREFIX}{name}"]
    assert isinstance(record, OpDef)
    return record


def op_named_in(dialect: str, name: str) -> tuple[OpDef, OpAlias | None]:
    """Return the operator that a dialect calls `name`, and its alias; the alias is None if `name` is the
    record's own name.

    Raises: MissingNameError S0202.
    """
    OP_RECORDS.fill()
    found: tuple[OpDef, OpAlias] | None = OP_ALIASES.get(f"{dialect}.{name}")
    return found or (op_named(name), None)


def op_def(op: Expr) -> OpDef | None:
    """The record of a graph operator, or None for any other callee."""
    if not isinstance(op, Op):
        return None
    record = OP_RECORDS.get(op.name)
    return record if isinstance(record, OpDef) else None
