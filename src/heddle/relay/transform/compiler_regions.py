"""Regions of a program that another compiler takes: what is between its marks `annotation.compiler_begin` and
`annotation.compiler_end`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from heddle.ir.expr import Call, Function, Tuple, TupleGetItem
from heddle.ir.op import Op
from heddle.relay.placement import Placement, operands, post_order
from heddle.relay.transform.rewriting import is_call

BEGIN, END = "annotation.compiler_begin", "annotation.compiler_end"
COMPILER = "Compiler"
"""The attribute of a function that another compiler takes: that compiler's name."""
GLOBAL_SYMBOL = "global_symbol"


def is_member(expr: Any) -> bool:
    """Whether an expression is of a kind that regions are made of."""
    if isinstance(expr, Call):
        return isinstance(expr.op, (Op, Function)) and not is_call(expr, BEGIN, END)
    return isinstance(expr, (Tuple, TupleGetItem))


def inputs_of(expr: Any) -> list[Any]:
    """The values that a member takes, without the operator or function that it calls."""
    return list(expr.args) if isinstance(expr, Call) else operands(expr)


def unmarked(value: Any) -> Any:
    """What a mark, or a chain of marks, is put on."""
    while is_call(value, BEGIN, END):
        value = value.args[0]
    return value


@dataclass(eq=False, slots=True)
class Region:
    """The members of a region, and the name of its compiler."""

    compiler: str
    members: list[Any] = field(default_factory=list)


class Regions:
    """The marked regions of a program. Members that are joined without a mark between them are of one."""

    def __init__(self, root: Any) -> None:
        self.order = post_order(root)
        self.place = {id(expr): place for place, expr in enumerate(self.order)}
        self._home = Placement(root).home
        self._of: dict[int, Region] = {}
        for expr in self.order:
            if is_call(expr, END):
                self._collect(expr.args[0], expr.attrs.compiler)

    def _collect(self, last: Any, compiler: str) -> None:
        found = post_order(last, lambda expr: inputs_of(expr) if is_member(expr) else ())
        members = [expr for expr in found if is_member(expr)]
        if not members:
            return
        region = Region(compiler)
        for old in self.distinct(members):
            self.join(region, old)
        for member in members:
            if id(member) not in self._of:
                self._of[id(member)] = region
                region.members.append(member)

    def of(self, expr: Any) -> Region | None:
        """The region that an expression is a member of."""
        return self._of.get(id(expr))

    def distinct(self, exprs: Iterable[Any]) -> list[Region]:
        """The regions that expressions are of, each once."""
        found = (self.of(expr) for expr in exprs)
        return list(dict.fromkeys(region for region in found if region is not None))

    def all(self) -> list[Region]:
        """Every region, by its first member's place in the program."""
        return self.distinct(self.order)

    def join(self, one: Region, other: Region) -> None:
        """Put the members of another region into the first."""
        for member in other.members:
            self._of[id(member)] = one
        one.members += other.members

    def sources(self, region: Region) -> list[Any]:
        """What a region takes from elsewhere, without marks, each once."""
        found = {}
        for member in sorted(region.members, key=lambda expr: self.place[id(expr)]):
            for value in map(unmarked, inputs_of(member)):
                if self.of(value) is not region:
                    found[id(value)] = value
        return list(found.values())

    def may_join(self, maker: Region, user: Region) -> bool:
        """Whether a region and one that takes a value of it may be one: they are of one compiler and one
        scope, and the second takes nothing that is made of the first elsewhere."""
        homes = {id(self._home[id(expr)]) for expr in (*maker.members, *user.members)}
        if maker.compiler != user.compiler or len(homes) > 1:
            return False
        first = min(self.place[id(expr)] for expr in maker.members)
        todo = [value for value in self.sources(user) if self.of(value) is not maker]
        seen: set[int] = set()
        while todo:
            expr = todo.pop()
            if id(expr) in seen or self.place[id(expr)] < first:
                continue
            seen.add(id(expr))
            region = self.of(expr)
            if region is maker:
                return False
            if region is None:
                todo += operands(expr)
            elif id(region) not in seen:
                seen.add(id(region))
                todo += self.sources(region)
        return True
