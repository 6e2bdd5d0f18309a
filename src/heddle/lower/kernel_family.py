"""Loop functions that differ in sizes alone, and the one function that stands for all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from heddle.arith.affine_family import Affine, AffineFamily, affine_family
from heddle.ir.expr import GlobalVar
from heddle.lower.estimate_kernel_cost import KERNEL_COST
from heddle.prim.nodes import IntImm, PrimExpr, SizeVar, Var, constant
from heddle.prim.size_text import size_text
from heddle.support.frozen import frozen
from heddle.support.names import NameSupply
from heddle.tir.nodes import PrimFunc
from heddle.tir.sizes import Sizes, sizes_of, with_sizes

MIN_SHARED, MIN_FREE_SHARED = 4, 3
"""How many functions at least one takes the place of: constants make slightly better code. Of functions with
free sizes fewer are enough: their loops have no constant bounds to lose."""
MAX_PARAMS = 8
"""How many sizes a function takes at most: where there are more, the functions have little in common. Layers
of a block differ in two or three, and quantised ones in the scales of operands and result too."""

_NUMBER = re.compile(r"\b\d+\b")
_SIZE_TEXTS = ("flops", "size_bytes", "written_bytes")


@frozen
class Member:
    """A function with its sizes, and with the numbers in the texts of its cost."""

    var: GlobalVar
    func: PrimFunc
    sizes: Sizes
    cost: dict[str, Any]
    cost_form: tuple[Any, ...]
    cost_numbers: tuple[int, ...]

    @classmethod
    def of(cls, var: GlobalVar, func: PrimFunc) -> Member:
        """What is compared of a function: its form, and the numbers that may differ."""
        bare = func.without_attr(KERNEL_COST)
        cost = dict(func.attrs.get(KERNEL_COST, {}))
        texts = tuple(_texts(cost))
        form = (tuple(cost.get("operators", ())), tuple(text and _NUMBER.sub("#", text) for text in texts))
        numbers = [int(number) for text in texts for number in _NUMBER.findall(text or "")]
        return cls(var, bare, sizes_of(bare), cost, form, tuple(numbers))

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for functions that may differ in sizes alone."""
        return self.sizes.form, self.cost_form

    def difference(self, other: Member) -> frozenset[int]:
        """The sizes in which two functions differ, those apart that are hints."""
        pairs = zip(self.sizes.values, other.sizes.values, strict=True)
        return frozenset(k for k, (a, b) in enumerate(pairs) if a != b) - self.sizes.hints


@frozen
class KernelFamily:
    """Functions that one function with `sizes.params` as last parameters stands for."""

    members: tuple[Member, ...]
    sizes: AffineFamily

    def values(self, member: int) -> tuple[int, ...]:
        """What a call passes in the place of a member."""
        return tuple(param[member] for param in self.sizes.params)

    def function(self) -> PrimFunc:
        """The function for all, with the name, the loops and the attributes of the first."""
        first = self.members[0]
        taken = NameSupply(param.name for param in first.func.params)
        for text in _texts(first.cost):
            for name in re.findall(r"[A-Za-z_]\w*", text or ""):
                taken.reserve(name)
        params = tuple(SizeVar(taken.fresh("size")) for _ in self.sizes.params)
        exprs = {}
        for position, column in enumerate(zip(*(m.sizes.values for m in self.members), strict=True)):
            found = self._varying(column)
            if found is not None:
                exprs[position] = _expression(found, params)
        func = with_sizes(first.func, exprs, params)
        return func.with_attr(KERNEL_COST, self._cost(params)) if first.cost else func

    def _varying(self, column: tuple[int, ...]) -> Affine | None:
        if len(set(column)) == 1:
            return None
        found = self.sizes.fit(column)
        assert found is not None, "family() has looked"
        return found

    def _cost(self, params: tuple[Var, ...]) -> dict[str, Any]:
        """The cost of the first in the names of the parameters, with everybody's reasons to end a group."""
        columns = zip(*(m.cost_numbers for m in self.members), strict=True)
        numbers = iter([self._number(column, params) for column in columns])
        cost = dict(self.members[0].cost)
        cost["shapes"] = tuple(
            tuple(_renumbered(text, numbers) for text in shape) for shape in cost["shapes"]
        )
        cost |= {name: _renumbered(cost[name], numbers) for name in _SIZE_TEXTS}
        cost["scalars"] = (*cost["scalars"], *(param.name for param in params))
        reasons = [reason for member in self.members for reason in member.cost["boundaries"]]
        return cost | {"boundaries": tuple(dict.fromkeys(reasons))}

    def _number(self, column: tuple[int, ...], params: tuple[Var, ...]) -> str:
        if len(set(column)) == 1:
            return str(column[0])
        found = _polynomial(self.sizes, column)
        assert found is not None, "family() has looked"
        position, coefficients = found
        expr: PrimExpr = constant(0, "int64")
        for coefficient in coefficients:  # the highest power first
            expr = expr * params[position] + constant(coefficient, "int64")
        text = size_text(expr, {param: param.name for param in params})
        assert text is not None
        return text


def families(members: Sequence[Member]) -> Iterator[KernelFamily]:
    """Members of equal `key` in families of enough members.

    Those that differ from one in the same sizes, or in some of these alone, belong together: the layers of a
    block differ in channels, and from those of the next block in height and width too.
    """
    rest = list(members)
    while len(rest) >= MIN_FREE_SHARED:
        first = rest.pop(0)
        groups: dict[frozenset[int], list[Member]] = {}
        for other in rest:
            groups.setdefault(first.difference(other), []).append(other)
        joined = [[m for part, ms in groups.items() if part <= whole for m in ms] for whole in groups]
        for group in sorted((*joined, *groups.values()), key=len, reverse=True):
            family = _family((first, *group))
            if family is not None:
                yield family
                rest = [member for member in rest if member not in family.members]
                break


def _family(members: tuple[Member, ...]) -> KernelFamily | None:
    """A family of all of them, if it is worth it and few parameters tell the sizes and the costs."""
    dims = [dim for buffer in members[0].func.buffers for dim in buffer.shape]
    is_free = any(not isinstance(dim, IntImm) for dim in dims)
    if len(members) < (MIN_FREE_SHARED if is_free else MIN_SHARED):
        return None
    made = affine_family(_columns(member.sizes.values for member in members))
    costs = _columns(member.cost_numbers for member in members)
    if len(made.params) > MAX_PARAMS or any(_polynomial(made, column) is None for column in costs):
        return None
    return KernelFamily(members, made)


def _polynomial(sizes: AffineFamily, column: tuple[int, ...]) -> tuple[int, tuple[int, int, int]] | None:
    """The parameter, and a, b and c, with which a * p**2 + b * p + c is the column: work grows with the
    square where operands and result do."""
    for position, param in enumerate(sizes.params):
        points = dict(zip(param, column, strict=True))
        if any(points[size] != value for size, value in zip(param, column, strict=True)):
            continue
        (x, u), (y, v), *more = points.items()  # a parameter has two values at least
        slope = Fraction(v - u, y - x)
        square = Fraction(0)
        if more:
            z, w = more[0]
            square = (Fraction(w - u, z - x) - slope) / (z - y)
        linear = slope - square * (x + y)
        offset = u - (square * x + linear) * x
        fits = all((square * size + linear) * size + offset == value for size, value in points.items())
        if fits and all(part.denominator == 1 for part in (square, linear, offset)):
            return position, (int(square), int(linear), int(offset))
    return None


def _columns(rows: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """What differs, across the members."""
    return [column for column in zip(*rows, strict=True) if len(set(column)) > 1]


def _expression(affine: Affine, params: tuple[Var, ...]) -> PrimExpr:
    param = params[affine.param]
    scaled = param if affine.scale == 1 else param * constant(affine.scale, "int64")
    return scaled if affine.offset == 0 else scaled + constant(affine.offset, "int64")


def _texts(cost: dict[str, Any]) -> list[str | None]:
    """The texts of sizes in a cost, in the order in which `_cost` writes them anew."""
    if not cost:
        return []
    return [*(text for shape in cost["shapes"] for text in shape), *(cost[name] for name in _SIZE_TEXTS)]


def _renumbered(text: str | None, numbers: Iterator[str]) -> str | None:
    """A text with its numbers replaced; in brackets where it is more than one number."""
    if text is None:
        return None
    if _NUMBER.fullmatch(text):
        return next(numbers)
    return _NUMBER.sub(lambda _: _bracketed(next(numbers)), text)


def _bracketed(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"
