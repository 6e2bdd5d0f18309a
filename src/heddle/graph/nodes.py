"""Bindings, blocks and sequences: graph programs in normal form, over tensors with symbolic shapes.

    func    = fn (x: ty, ...) -> ty: seq
    seq     = blocks; result
    block   = bindings | dataflow: bindings (only its outputs are seen outside)
    binding = x = value | x = match_cast(value, ty)
    value   = leaf | callee(leaf, ...; attrs) | leaf[i] | (leaf, ...) | if leaf: seq else: seq | func
    leaf    = x | @global | constant | shape(dim, ...) | scalar expression | "string" | dtype
            | extern("name") | (leaf, ...)

`BlockBuilder.normalize` brings nested expressions into this form. Semantics:
- A variable is bound once. Bindings run in order; those of a dataflow block are pure and may be reordered or
  dropped.
- `match_cast` checks when the program runs that a value has a type, and binds the symbolic dimensions that
  are new in it. A function's parameters do the same at its entry.
- Symbolic dimensions are int64 variables, never negative, and scope over the function.
- `call_tir(f, args, out)` allocates outputs of type `out` and calls `f(args..., outputs..., symbolic...)`.
- A variable that is bound to a function may be recursive and may capture variables: a closure.
"""

from __future__ import annotations

from typing import Any

from heddle.ir.expr import Expr, Function, Var
from heddle.ir.node import Node, defines, label, node
from heddle.ir.types import Type
from heddle.support.span import Span


class Binding(Node):
    """The base of bindings; each has a `var` and a `value`."""

    __slots__ = ()
    var: Var
    value: Expr

    @property
    def origin(self) -> Span | None:
        """Where the binding comes from, else its value."""
        return self.span or self.value.span


@node("relax.VarBinding", checked=True)
class VarBinding(Binding):
    var: Var = defines()
    value: Expr


@node("relax.MatchCast", checked=True)
class MatchCast(Binding):
    """Check `value` against `ty`, whose new symbolic dimensions are defined here."""

    var: Var = defines()
    value: Expr
    ty: Type = defines()


@node("relax.BindingBlock", checked=True)
class BindingBlock(Node):
    bindings: tuple[Binding, ...]
    is_dataflow: bool = False

    def __post_init__(self) -> None:
        self.set_derived("bindings", tuple(self.bindings))


@node("relax.SeqExpr", checked=True)
class SeqExpr(Expr):
    blocks: tuple[BindingBlock, ...]
    body: Expr
    ty: Type | None = label(default=None)

    def __post_init__(self) -> None:
        self.set_derived("blocks", tuple(self.blocks))

    def bindings(self) -> tuple[Binding, ...]:
        """The bindings of all blocks, in order."""
        return tuple(binding for block in self.blocks for binding in block.bindings)


def DataflowBlock(bindings: Any) -> BindingBlock:
    """A block of pure bindings."""
    return BindingBlock(tuple(bindings), True)


def DataflowVar(name_hint: str, ty: Type | None = None) -> Var:
    """A variable that is seen only inside its dataflow block."""
    return Var(name_hint, ty, True)


def body_of(func: Function) -> SeqExpr:
    """The body of a normalised function."""
    assert isinstance(func.body, SeqExpr)
    return func.body
