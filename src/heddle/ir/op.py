"""Operators by name. Everything known about an operator is in its record, which its package registers."""

from __future__ import annotations

from typing import Any

from heddle.ir.codes import I0401
from heddle.ir.expr import Expr
from heddle.ir.node import node
from heddle.support.diagnostics import UsageError, did_you_mean
from heddle.support.registry import Registry

OP_RECORDS: Registry[Any] = Registry("operator")
"""Name → record. Graph operators carry an `OpDef`, scalar intrinsics a `prim.Intrinsic`."""

GRAPH_PREFIX = "relax."
"""What the names of graph operators begin with in the table, whatever the dialect of the program: files and
texts have had it since their first format."""

OP_ALIASES: Registry[Any] = Registry("operator alias")
"""Dialect + "." + the dialect's own name of an operator → (record, alias). Filled after `OP_RECORDS`."""


@node("ir.Op")
class Op(Expr):
    """A declared operator. Operators of equal name are equal. `Op.get` checks that the operator is
    declared.
    """

    name: str

    @property
    def ty(self) -> None:
        """None: an operator is no value."""
        return None

    @property
    def text_family(self) -> str:
        """That of the dialect whose own name this is."""
        return "ir" if self.name in OP_RECORDS or f"relay.{self.name}" not in OP_ALIASES else "relay"

    @property
    def operand_dialect(self) -> str:
        return self.name.partition(".")[0] if self.name in OP_RECORDS else self.text_family

    @staticmethod
    def get(name: str) -> Op:
        """Return the operator with a name. Raises: UsageError I0401, with the nearest name."""
        if name not in OP_RECORDS:
            raise UsageError(I0401, f"no operator is called {name!r}", help=did_you_mean(name, OP_RECORDS))
        return Op(name, span=None)

    @staticmethod
    def list_op_names() -> list[str]:
        """The names of all operators that are declared now, sorted."""
        return sorted(OP_RECORDS)

    @property
    def record(self) -> Any:
        """What is declared for the operator. Raises: KeyError for an unknown name."""
        return OP_RECORDS[self.name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Op) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


def is_op(expr: object, name: str) -> bool:
    """Whether an expression is the operator of this name."""
    return isinstance(expr, Op) and expr.name == name
