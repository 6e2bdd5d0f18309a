"""The nodes of the relay dialect beside the shared ones of `ir.expr`.

    expr    = %x | @f | constant | operator | Constructor | (expr, ...) | expr.i | expr(expr, ...; attrs)
            | if (expr) { expr } else { expr } | fn [A, ...](%x: ty, ...) -> ty { expr }
            | let %x = expr; expr
            | match (expr) { pattern => expr, ... } | match? ...
            | ref(expr) | ref_read(expr) | ref_write(expr, expr)
    pattern = _ | %x | Constructor(pattern, ...) | (pattern, ...)
    ty      = Tensor[(dim, ...), dtype] | (ty, ...) | fn [A, ...](ty, ...) -> ty | A | Name[ty, ...]
            | ref(ty) | _
    dim     = integer | ? | scalar expression

Semantics:
- A variable is bound once: by a function, a let, or a pattern. A function that a let binds may call itself.
- A program is a graph: a node that is used in two places is computed once, in the innermost function, branch
  or clause around both.
- Values are computed in the order of lets; references are cells that share what is written to them.
- `match` tries its clauses in order. One without a fitting clause is an error of inference, or with `match?`
  of the run.
- Two dimensions `?` are not known to be equal, though `?` equals `?` as a piece of a type. In the normal form
  each becomes a symbolic dimension of its own.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.ir.expr import Expr, Var
from heddle.ir.node import Node, defines, derived, label, node
from heddle.ir.type_data import Constructor
from heddle.ir.types import Type
from heddle.prim.nodes import PrimExpr
from heddle.runtime.dtype import DataType

# ---- types


@node("relay.Any", checked=True)
class AnyDim(PrimExpr):
    """A dimension of which nothing is known."""

    dtype: DataType = derived()

    def __post_init__(self) -> None:
        self.set_derived("dtype", DataType("int64"))


@node("relay.RefType", checked=True)
class RefType(Type):
    """A reference to a value."""

    value: Type


@node("relay.IncompleteType", identity=True, checked=True)
class IncompleteType(Type):
    """A type that inference finds."""

    kind: int = 0


@node("relay.TypeRelation", checked=True)
class TypeRelation(Type):
    """`func` relates the types `args`, of which the first `num_inputs` are inputs."""

    func: str
    args: tuple[Type, ...]
    num_inputs: int
    attrs: Any = None

    def __post_init__(self) -> None:
        self.set_derived("args", tuple(self.args))


# ---- expressions


@node("relay.Let", checked=True)
class Let(Expr):
    opens_scope: ClassVar[bool] = True
    var: Var = defines()
    value: Expr
    body: Expr
    ty: Type | None = label(default=None)


@node("relay.RefCreate", checked=True)
class RefCreate(Expr):
    value: Expr
    ty: Type | None = label(default=None)


@node("relay.RefRead", checked=True)
class RefRead(Expr):
    ref: Expr
    ty: Type | None = label(default=None)


@node("relay.RefWrite", checked=True)
class RefWrite(Expr):
    """Writes the cell; gives the empty tuple."""

    ref: Expr
    value: Expr
    ty: Type | None = label(default=None)


class TempExpr(Expr):
    """What stands for an expression within one pass: a value that is kept in another form, say."""

    __slots__ = ()

    def realize(self) -> Expr:
        """The expression that it stands for. Raises: NotImplementedError where the class does not say it."""
        raise NotImplementedError(f"{type(self).__name__} has no method realize")


# ---- matching


class Pattern(Node):
    """The base of patterns."""

    __slots__ = ()


@node("relay.PatternWildcard", checked=True)
class PatternWildcard(Pattern):
    """Fits everything."""


@node("relay.PatternVar", checked=True)
class PatternVar(Pattern):
    """Fits everything and binds it."""

    var: Var = defines()


@node("relay.PatternConstructor", checked=True)
class PatternConstructor(Pattern):
    constructor: Constructor
    patterns: tuple[Pattern, ...] = ()

    def __post_init__(self) -> None:
        self.set_derived("patterns", tuple(self.patterns or ()))


@node("relay.PatternTuple", checked=True)
class PatternTuple(Pattern):
    patterns: tuple[Pattern, ...] = ()

    def __post_init__(self) -> None:
        self.set_derived("patterns", tuple(self.patterns or ()))


@node("relay.Clause", checked=True)
class Clause(Node):
    """Variables of the pattern are seen in `rhs` alone."""

    opens_scope: ClassVar[bool] = True
    lhs: Pattern = defines()
    rhs: Expr


@node("relay.Match", checked=True)
class Match(Expr):
    """`complete`: the clauses cover every value, which inference checks."""

    data: Expr
    clauses: tuple[Clause, ...]
    complete: bool = True
    ty: Type | None = label(default=None)

    def __post_init__(self) -> None:
        self.set_derived("clauses", tuple(self.clauses))
