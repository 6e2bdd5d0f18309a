"""Patterns of expressions, as TVM's users write them.

    pattern = *x | wildcard() | is_var(name) | is_constant() | is_expr(e) | is_op(name)
            | pattern(pattern, ...) | is_tuple([...]) | is_tuple_get_item(pattern, index)
            | is_if(...) | is_let(...) | FunctionPattern(params, body) | pattern | pattern
            | has_type(...), has_shape(...), has_dtype(...), has_attr(...) of a pattern
            | dominates(parent, path, child)

One pattern object stands for one expression throughout a match.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import Any, get_type_hints

from heddle.ir.pass_options import fits, type_text
from heddle.relay.codes import Q0101, Q0102
from heddle.relay.op import get
from heddle.support.diagnostics import IRTypeError, UsageError
from heddle.support.registry import Registry

USES: Registry[Callable[..., Any]] = Registry("use of patterns")
"""What the modules above do with patterns: `match`, `partition`."""


class DFPattern:
    """A pattern. Patterns are told apart by identity. Their parts are checked as they are made.

    Raises: UsageError Q0101 for a part of another kind than the annotation's.
    """

    def __init_subclass__(cls) -> None:
        init = vars(cls).get("__init__")
        if init is None:
            return

        @wraps(init)
        def checked(self: DFPattern, *args: Any, **given: Any) -> None:
            hints = get_type_hints(init)
            for name, value in signature(init).bind(self, *args, **given).arguments.items():
                if name in hints and not fits(value, hints[name]):
                    expected = type_text(hints[name])
                    raise UsageError(Q0101, f"{cls.__name__}: {name} is {expected}, got {value!r}")
            init(self, *args, **given)

        cls.__init__ = checked  # type: ignore[assignment,method-assign]

    def __call__(self, *args: DFPattern) -> CallPattern:
        """A call of what this pattern fits."""
        return CallPattern(self, list(args))

    def __or__(self, other: DFPattern) -> AltPattern:
        return AltPattern(self, other)

    def __add__(self, other: DFPattern) -> CallPattern:
        return is_op("add")(self, other)

    def __sub__(self, other: DFPattern) -> CallPattern:
        return is_op("subtract")(self, other)

    def __mul__(self, other: DFPattern) -> CallPattern:
        return is_op("multiply")(self, other)

    def __truediv__(self, other: DFPattern) -> CallPattern:
        return is_op("divide")(self, other)

    def has_attr(self, attrs: Mapping[str, Any]) -> AttrPattern:
        """What fits, and has these attributes."""
        return AttrPattern(self, attrs)

    def has_type(self, ttype: Any) -> TypePattern:
        """What fits, and has this type."""
        return TypePattern(self, ttype)

    def has_dtype(self, dtype: str) -> DataTypePattern:
        """What fits, and is a tensor of this dtype."""
        return DataTypePattern(self, dtype)

    def has_shape(self, shape: Sequence[Any]) -> ShapePattern:
        """What fits, and is a tensor of these sizes."""
        return ShapePattern(self, shape)

    def optional(self, option_constructor: Callable[[DFPattern], DFPattern]) -> DFPattern:
        """The pattern, or what is made of it."""
        return self | option_constructor(self)

    def dominates(self, parent: DFPattern, path: DFPattern | None = None) -> DominatorPattern:
        """What fits, and depends on what `parent` fits by nothing but what `path` fits."""
        return DominatorPattern(parent, wildcard() if path is None else path, self)

    def astext(self, show_meta_data: bool = True, annotate: Any = None) -> str:
        """The pattern as text, `CallPattern(add, (*, VarPattern(x)))`. What belongs to expressions does
        nothing here."""
        return _text(self, [])

    def match(self, expr: Any) -> bool:
        """Whether the pattern fits an expression."""
        return bool(USES["match"](self, expr))

    def partition(
        self,
        expr: Any,
        attrs: Mapping[str, Any] | None = None,
        check: Callable[[Any], bool] = lambda expr: True,
    ) -> Any:
        """The expression with a function in the place of each match; see `partition`."""
        return USES["partition"](self, expr, attrs, check)


class ExprPattern(DFPattern):
    """An expression that is structurally equal to one, an operator among them."""

    def __init__(self, expr: Any) -> None:
        self.expr = expr


class VarPattern(DFPattern):
    """A variable, of this name where one is given."""

    def __init__(self, name_hint: str = "") -> None:
        self.name = name_hint


class ConstantPattern(DFPattern):
    """A constant."""


class WildcardPattern(DFPattern):
    """Anything. `redirect_to` makes it another pattern, which may hold the wildcard itself."""

    def __init__(self) -> None:
        self.pattern: DFPattern | None = None

    def redirect_to(self, pat: DFPattern) -> None:
        """Stand for a pattern from now on."""
        self.pattern = pat


class CallPattern(DFPattern):
    """A call; `args` None stands for any number of any arguments."""

    def __init__(self, op: DFPattern, args: Sequence[DFPattern] | None) -> None:
        self.op, self.args = op, None if args is None else tuple(args)


class FunctionPattern(DFPattern):
    """A function; `params` None stands for any."""

    def __init__(self, params: Sequence[DFPattern] | None, body: DFPattern) -> None:
        self.params, self.body = None if params is None else tuple(params), body


class IfPattern(DFPattern):
    """A branch."""

    def __init__(self, cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> None:
        self.cond, self.true_branch, self.false_branch = cond, true_branch, false_branch


class LetPattern(DFPattern):
    """A let."""

    def __init__(self, var: DFPattern, value: DFPattern, body: DFPattern) -> None:
        self.var, self.value, self.body = var, value, body


class TuplePattern(DFPattern):
    """A tuple; `fields` None stands for any."""

    def __init__(self, fields: Sequence[DFPattern] | None) -> None:
        self.fields = None if fields is None else tuple(fields)

    def astype(self, _: str) -> DFPattern:
        """Raises: IRTypeError Q0102 always: the fields have types of their own."""
        raise IRTypeError(Q0102, "astype of a tuple", help="convert its fields")


class TupleGetItemPattern(DFPattern):
    """A projection; `index` None stands for any."""

    def __init__(self, tuple_value: DFPattern, index: int | None = None) -> None:
        self.tuple, self.index = tuple_value, index


class AltPattern(DFPattern):
    """What the left pattern fits, else what the right one fits."""

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        self.left, self.right = left, right


class TypePattern(DFPattern):
    """What a pattern fits, and has a type."""

    def __init__(self, pattern: DFPattern, ttype: Any) -> None:
        self.pattern, self.type = pattern, ttype


class DataTypePattern(DFPattern):
    """What a pattern fits, and is a tensor of a dtype."""

    def __init__(self, pattern: DFPattern, dtype: str) -> None:
        self.pattern, self.dtype = pattern, dtype


class ShapePattern(DFPattern):
    """What a pattern fits, and is a tensor of sizes."""

    def __init__(self, pattern: DFPattern, shape: Sequence[Any]) -> None:
        self.pattern, self.shape = pattern, tuple(shape)


class AttrPattern(DFPattern):
    """What a pattern fits, and has attributes: those of a call, of an operator, or of a function."""

    def __init__(self, pattern: DFPattern, attrs: Mapping[str, Any]) -> None:
        self.pattern, self.attrs = pattern, dict(attrs.items())


class DominatorPattern(DFPattern):
    """What `child` fits, and depends on what `parent` fits; all between is what `path` fits."""

    def __init__(self, parent: DFPattern, path: DFPattern, child: DFPattern) -> None:
        self.parent, self.path, self.child = parent, path, child


def _text(value: Any, around: list[Any]) -> str:
    """`around`: the patterns that hold this one; one that a wildcard stands for may hold the wildcard."""
    if any(value is each for each in around):
        return "..."
    if isinstance(value, WildcardPattern):
        return "*" if value.pattern is None else _text(value.pattern, [*around, value])
    if isinstance(value, DFPattern):
        return (
            f"{type(value).__name__}({', '.join(_text(v, [*around, value]) for v in vars(value).values())})"
        )
    if isinstance(value, tuple):
        return f"({', '.join(_text(item, around) for item in value)})"
    return "*" if value is None else str(getattr(value, "name", value))


DF_NODES: Registry[type] = Registry("class of patterns")
"""Classes of patterns of users by their keys."""


def register_df_node(type_key: Any = None) -> Any:
    """Register a class of patterns of the user's under `relay.dataflow_pattern.<its name>` or another key; a
    decorator, with or without a key. Raises: UsageError S0201 where the key has a class already."""

    def register(cls: type) -> type:
        key = type_key if isinstance(type_key, str) else f"relay.dataflow_pattern.{cls.__name__}"
        DF_NODES.add(key, cls)
        return cls

    return register if type_key is None or isinstance(type_key, str) else register(type_key)


def is_var(name: str = "") -> VarPattern:
    """A variable, of this name where one is given."""
    return VarPattern(name)


def is_constant() -> ConstantPattern:
    """A constant."""
    return ConstantPattern()


def is_expr(expr: Any) -> ExprPattern:
    """What is structurally equal to an expression."""
    return ExprPattern(expr)


def is_op(op_name: str) -> ExprPattern:
    """An operator. Raises: UsageError I0401 where there is none of the name."""
    return ExprPattern(get(op_name))


def is_tuple(fields: Sequence[DFPattern] | None) -> TuplePattern:
    """A tuple of what these patterns fit; of anything, for None."""
    return TuplePattern(fields)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """A projection; of any field, where `index` is None."""
    return TupleGetItemPattern(tuple_value, index)


def is_if(cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> IfPattern:
    """A branch."""
    return IfPattern(cond, true_branch, false_branch)


def is_let(var: DFPattern, value: DFPattern, body: DFPattern) -> LetPattern:
    """A let."""
    return LetPattern(var, value, body)


def wildcard() -> WildcardPattern:
    """Anything."""
    return WildcardPattern()


def has_type(ttype: Any, pattern: DFPattern | None = None) -> TypePattern:
    """What has a type, and a pattern fits."""
    return TypePattern(pattern or wildcard(), ttype)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """What is a tensor of a dtype, and a pattern fits."""
    return DataTypePattern(pattern or wildcard(), dtype)


def has_shape(shape: Sequence[Any], pattern: DFPattern | None = None) -> ShapePattern:
    """What is a tensor of sizes, and a pattern fits."""
    return ShapePattern(pattern or wildcard(), shape)


def has_attr(attrs: Mapping[str, Any], pattern: DFPattern | None = None) -> AttrPattern:
    """What has attributes, and a pattern fits."""
    return AttrPattern(pattern or wildcard(), attrs)


def dominates(parent: DFPattern, path: DFPattern, child: DFPattern) -> DominatorPattern:
    """What `child` fits, and depends on what `parent` fits by nothing but what `path` fits."""
    return DominatorPattern(parent, path, child)
