"""IndexMap: how the indices of a layout follow from those of another.

IndexMap.from_func(lambda i, j: [j // 4, i, j % 4])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from itertools import product
from math import lcm, prod
from typing import Any

from heddle.arith import Analyzer, ConstIntBound, IntervalSet
from heddle.arith.iters.iter_inverse import inverse_affine_iter_map
from heddle.arith.iters.iter_map import detect_iter_map
from heddle.ir.node import Node, defines, node
from heddle.ir.visitor import walk
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import FloorDiv, FloorMod, IntImm, PrimExpr, Range, Var, as_expr, constant
from heddle.prim.ops import cast, ceildiv, maximum
from heddle.prim.substitute import substitute
from heddle.runtime.dtype import DataType

MAX_POINTS = 1 << 14
"""Up to this many points a map that analysis does not understand is tried point by point."""


@node("tir.IndexMap")
class IndexMap(Node):
    """`final_indices` over `initial_indices`."""

    initial_indices: tuple[Var, ...] = defines()
    final_indices: tuple[PrimExpr, ...]

    def __post_init__(self) -> None:
        self.set_derived("initial_indices", tuple(self.initial_indices))
        self.set_derived("final_indices", tuple(as_expr(index) for index in self.final_indices))

    @staticmethod
    def from_func(
        mapping: Callable[..., Any], ndim: int | None = None, index_dtype: str = "int64"
    ) -> IndexMap:
        """The map that a function of index variables gives; `ndim` is needed for one of `*indices`."""
        kinds = [(p.name, p.kind) for p in signature(mapping).parameters.values()]
        names = [name for name, kind in kinds if kind is not Parameter.VAR_POSITIONAL]
        rest = 0 if ndim is None else max(0, ndim - len(names))
        if any(kind is Parameter.VAR_POSITIONAL for _, kind in kinds):
            names += [f"i{len(names) + k}" for k in range(rest)]
        axes = [Var(name, DataType(index_dtype)) for name in names]
        found = mapping(*axes)
        return IndexMap(tuple(axes), tuple(found) if isinstance(found, (list, tuple)) else (found,))

    def map_indices(self, indices: Sequence[Any], analyzer: Analyzer | None = None) -> list[PrimExpr]:
        """The new indices for given old ones."""
        known = analyzer or Analyzer()
        pairs = zip(self.initial_indices, indices, strict=True)
        given = {axis: cast(axis.dtype, index) for axis, index in pairs}
        return [known.simplify(substitute(index, given)) for index in self.final_indices]

    def map_shape(self, shape: Sequence[Any]) -> list[PrimExpr]:
        """For every new dimension one more than its greatest index; 0 where there is none."""
        analyzer = Analyzer()
        pairs = [(axis, cast(axis.dtype, dim)) for axis, dim in zip(self.initial_indices, shape, strict=True)]
        domain = {axis: IntervalSet(constant(0, dim.dtype), dim - 1) for axis, dim in pairs}
        for axis, dim in pairs:
            if not isinstance(dim, IntImm):
                analyzer.mark_global_non_neg(dim)
            analyzer.bind(axis, Range(dim))
        sizes = [
            analyzer.simplify(analyzer.int_set(index, domain).max_value + 1) for index in self.final_indices
        ]
        return [size if analyzer.can_prove(size >= 0) else maximum(size, 0) for size in sizes]

    def is_in_front(self, shape: Sequence[Any]) -> bool:
        """Whether no new index of a shape is negative, as far as that is known."""
        analyzer = Analyzer()
        for axis, dim in zip(self.initial_indices, shape, strict=True):
            analyzer.bind(axis, Range(cast(axis.dtype, dim)))
        lowest = [analyzer.const_int_bound(analyzer.simplify(each)).min_value for each in self.final_indices]
        sizes = [dim.value for dim in map(as_expr, shape) if isinstance(dim, IntImm)]
        if all(low >= 0 or low == ConstIntBound.NEG_INF for low in lowest) or 0 in sizes:
            return True
        if len(sizes) < len(shape) or prod(sizes) > MAX_POINTS:
            return False
        return all(min(self._at(point)) >= 0 for point in product(*map(range, sizes)))

    def inverse(self, shape: Sequence[Any]) -> IndexMap | None:
        """The map back, where this one is affine and each new index stands for one old point; else None."""
        iters = self._ranges(shape)
        found = detect_iter_map(self.final_indices, iters, check_level="bijective")
        if not found.indices:
            return None
        news = [Var(f"i{k}", index.dtype) for k, index in enumerate(self.final_indices)]
        back = inverse_affine_iter_map(found.indices, news)
        zero = {axis: constant(0, axis.dtype) for axis in self.initial_indices}
        return IndexMap(tuple(news), tuple(back.get(axis, zero[axis]) for axis in self.initial_indices))

    def is_injective(self, shape: Sequence[Any]) -> bool:
        """Whether different points of a shape surely have different new indices."""
        if self.inverse(shape) is not None or self.inverse(self._rounded(shape)) is not None:
            return True
        sizes = [dim.value for dim in map(as_expr, shape) if isinstance(dim, IntImm)]
        if len(sizes) < len(shape) or prod(sizes) > MAX_POINTS:
            return False
        points = list(product(*map(range, sizes)))
        return len({self._at(point) for point in points}) == len(points)

    def _ranges(self, shape: Sequence[Any]) -> dict[Var, Range]:
        dims = [as_expr(dim) for dim in shape]
        return {
            axis: Range.from_min_extent(constant(0, axis.dtype), constant(dim.value, axis.dtype))
            if isinstance(dim, IntImm)
            else Range(cast(axis.dtype, dim))
            for axis, dim in zip(self.initial_indices, dims, strict=True)
        }

    def _rounded(self, shape: Sequence[Any]) -> list[PrimExpr]:
        """The shape rounded up to multiples of all divisors of the map: a map of more points."""
        divisors = [
            part.b.value
            for index in self.final_indices
            for part in walk(index)
            if isinstance(part, (FloorDiv, FloorMod)) and isinstance(part.b, IntImm) and part.b.value > 0
        ]
        multiple = lcm(*divisors)
        return [Analyzer().simplify(ceildiv(dim, multiple) * multiple) for dim in shape]

    def _at(self, point: tuple[int, ...]) -> tuple[int, ...]:
        values = dict(zip(self.initial_indices, point, strict=True))
        return tuple(int(evaluate(index, values)) for index in self.final_indices)
