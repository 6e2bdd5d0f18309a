"""NameSizes: replace formulas of sizes in a loop function by size parameters of its own.

    def relu(x: Buffer((n, (h + 15) // 16)), y: ..., h):     def relu(x: Buffer((n, h_1)), y: ...):
        for i in range((h + 15) // 16): ...              →       for i in range(h_1): ...

A layer deep in a network of free images has tensors of `(height + 15) // 16` rows, and its loops say so at
each index. What the function needs is that number of rows, which its tensors' shapes give. With a name for
it, layers of one form have one function at whatever depth they stand, proofs about indices are short, and no
index divides.

A formula that follows from another keeps that relation: of an input with `h` rows and an output with
`(height + 31) // 32`, the latter is `(h + 1) // 2`. A function where something would be left of the old sizes
stays as it is; so does one that has the old size itself as a dimension.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

from heddle.arith import Analyzer
from heddle.graph.infer import function_type
from heddle.graph.rewriter import BindingRewriter
from heddle.ir.expr import Call, Expr, GlobalVar, Var
from heddle.ir.module import IRModule
from heddle.ir.node import Map, children, replace
from heddle.ir.structural import structural_digest, structural_equal
from heddle.ir.transform import Pass, PassContext
from heddle.ir.visitor import nodes_as_text, post_order, walk, walk_distinct
from heddle.lower.fuse_tir import drop_unused_loops
from heddle.lower.kernel_calls import callee_and_scalars, with_callee
from heddle.lower.normal_form import GRAPHS, graph_functions
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import BinaryExpr, Cast, IntImm, PrimExpr, Select, SizeVar, constant
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.ops import floordiv
from heddle.prim.substitute import free_vars
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import TrapValueError
from heddle.support.names import NameSupply
from heddle.tir.nodes import PrimFunc
from heddle.tir.substitute import StmtSubstituter

_SAMPLES = (1, 2, 3, 5, 8, 15, 16, 17, 31, 64, 97, 224, 1000, 4097)
"""Sizes at which formulas are compared before anything is proved of them."""
_DIVISORS = (2, 3, 4, 8, 16, 32)
_OF_FORMULAS = (BinaryExpr, IntImm, PrimVar, Cast, Select, DataType)


class NameSizes(Pass):
    """Requires: loop functions without schedules. A function whose name is for the outside stays."""

    dialects: ClassVar[tuple[str, ...] | None] = GRAPHS

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        plans: dict[GlobalVar, tuple[GlobalVar, frozenset[int]]] = {}
        rewriter, known = _Caller(mod, plans), dict[bytes, GlobalVar]()
        called = _called_with_sizes(mod)
        for var, func in mod.functions.items():
            if not isinstance(func, PrimFunc) or "global_symbol" in func.attrs or var not in called:
                continue
            dropped = _dropped(func)
            made = with_named_sizes(func, dropped) if dropped else None
            if made is None:
                continue
            digest = structural_digest(made)
            if digest not in known:
                known[digest] = GlobalVar(var.name_hint, function_type(made))
                del rewriter.module[var]  # its name has the type that the function had
                rewriter.update_func(known[digest], made)
            places = frozenset(_scalars(func).index(size) for size in dropped)
            plans[var] = known[digest], places
        if not plans:
            return mod
        for var, func in self.functions(mod):
            rewriter.update_func(var, rewriter.run(func))
        return drop_unused_loops(rewriter.get())


def _called_with_sizes(mod: IRModule) -> set[GlobalVar]:
    """The loop functions that are only called, each time with their scalars one by one."""
    uses, calls = Counter[GlobalVar](), Counter[GlobalVar]()
    for _var, func in graph_functions(mod):
        for node in walk(func):
            if isinstance(node, GlobalVar):
                uses[node] += 1
            elif isinstance(node, Call) and (found := callee_and_scalars(node)) is not None:
                calls[found[0]] += 1
    return {var for var, count in calls.items() if count == uses[var]}


class _Caller(BindingRewriter):
    """Calls the new functions, without the sizes that they no longer take."""

    def __init__(self, mod: IRModule, plans: dict[GlobalVar, tuple[GlobalVar, frozenset[int]]]) -> None:
        super().__init__(mod)
        self._plans = plans

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        found = callee_and_scalars(value)
        if found is None or found[0] not in self._plans:
            return value
        assert isinstance(value, Call)
        func, dropped = self._plans[found[0]]
        kept = tuple(size for place, size in enumerate(found[1]) if place not in dropped)
        return with_callee(value, func, kept)


def _scalars(func: PrimFunc) -> list[PrimVar]:
    return [param for param in func.params if param not in func.buffer_map]


def _dropped(func: PrimFunc) -> list[PrimVar]:
    """The scalar parameters that dimensions of tensors are formulas of. (One that is a dimension itself is no
    parameter: the tensors give it.)"""
    in_dims = set(free_vars(*(dim for buffer in func.buffers for dim in buffer.shape)))
    return [param for param in _scalars(func) if param in in_dims]


def with_named_sizes(func: PrimFunc, dropped: list[PrimVar]) -> PrimFunc | None:
    """The function without some scalar parameters, where its tensors' dimensions say all that it needs of
    them."""
    rewriter = _Namer(func, dropped)
    for dim in _dims_to_name(func, frozenset(dropped)):
        rewriter.name(dim)
    buffers = {param: rewriter.buffer(buffer) for param, buffer in func.buffer_map.items()}
    params = tuple(param for param in func.params if param not in rewriter.dropped)
    made = replace(func, params=params, buffer_map=Map(buffers), body=rewriter.visit(func.body))
    left = {node for node in walk_distinct(made.body, *made.buffers) if isinstance(node, PrimVar)}
    left |= set(free_vars(*(dim for buffer in made.buffers for dim in buffer.shape)))
    return None if left & rewriter.dropped else made


def _dims_to_name(func: PrimFunc, dropped: frozenset[PrimVar]) -> list[PrimExpr]:
    """Dimensions with dropped sizes: short formulas first, since long ones may consist of them, and of those
    of a length the greater, of which the smaller may be a part."""
    found: list[PrimExpr] = []
    for buffer in func.buffers:
        for dim in buffer.shape:
            if dropped & set(free_vars(dim)) and not any(structural_equal(dim, other) for other in found):
                found.append(dim)

    def order(dim: PrimExpr) -> tuple[int, int]:
        return nodes_as_text(dim), -(_at(dim, _SAMPLES[-1:]) or [0])[0]

    return sorted(found, key=order)


class _Namer(StmtSubstituter):
    """Replaces formulas of the dropped sizes by formulas of the new ones."""

    def __init__(self, func: PrimFunc, dropped: list[PrimVar]) -> None:
        super().__init__({})
        self.dropped = frozenset(dropped)
        self._known: dict[bytes, PrimExpr] = {}
        self._sizes: list[tuple[PrimExpr, PrimVar]] = []
        self._values: list[list[int]] = []
        self._underived: set[bytes] = set()
        self._names = NameSupply(var.name for var in func.params)
        self._analyzer = Analyzer()
        self._made: dict[int, tuple[Any, Any]] = {}
        self._variables: dict[int, tuple[Any, frozenset[PrimVar]]] = {}

    def visit(self, node: Any) -> Any:
        """What becomes of a node. A formula that is shared is visited once: as text it may be any length."""
        if not isinstance(node, BinaryExpr | Select | Cast):
            return super().visit(node)
        if id(node) not in self._made:
            self._made[id(node)] = node, super().visit(node)
        return self._made[id(node)][1]

    def _has_dropped(self, expr: Any) -> bool:
        """Whether a dropped size occurs in an expression."""
        for node in post_order(expr, self._unknown_below):
            own = {node} if isinstance(node, PrimVar) else set()
            below = (self._variables[id(child)][1] for child in children(node))
            self._variables[id(node)] = node, frozenset(own.union(*below))
        return not self.dropped.isdisjoint(self._variables[id(expr)][1])

    def _unknown_below(self, node: Any) -> list[Any]:
        if id(node) in self._variables:
            return []
        return [child for child in children(node) if id(child) not in self._variables]

    def name(self, dim: PrimExpr) -> None:
        """Give a dimension a size of its own, unless it follows from those that there are."""
        self._made.clear()  # of what was named since, more may follow
        made = self.visit(dim)
        if self._has_dropped(made):
            (first, *_) = (var for var in free_vars(dim) if var in self.dropped)
            size = SizeVar(self._names.fresh(first.name), str(dim.dtype))
            self._known[structural_digest(dim)] = size
            self._sizes.append((dim, size))
            self._values.append(_at(dim, _SAMPLES) if len(free_vars(dim)) == 1 else [])
            self._underived.clear()
            self._made.clear()

    def visit_BinaryExpr(self, node: Any) -> Any:
        return self._formula(node, super().visit_BinaryExpr)

    def visit_Select(self, node: Select) -> Any:
        return self._formula(node, super().default)

    def _formula(self, node: Any, parts: Callable[[Any], Any]) -> Any:
        """A formula of the new sizes; `parts` gives the node with its operands rewritten."""
        if not self._has_dropped(node):
            return parts(node)
        key = structural_digest(node)
        if key in self._known:
            return self._known[key]
        made = parts(node)
        if self._has_dropped(made) and (found := self._derived(node, key)) is not None:
            self._known[key] = found
            return found
        return made

    def _derived(self, formula: PrimExpr, key: bytes) -> PrimExpr | None:
        """A formula of one dropped size as one of a new size: h * a + b, or (h + a) // b."""
        variables = free_vars(formula)
        if len(variables) != 1 or not formula.dtype.is_int or formula.dtype.is_bool:
            return None
        if key in self._underived or not all(
            isinstance(node, _OF_FORMULAS) for node in walk_distinct(formula)
        ):
            return None  # what memory holds is no size
        wanted = _at(formula, _SAMPLES)
        for (dim, size), values in zip(self._sizes, self._values, strict=True):
            if not values or not wanted or free_vars(dim) != variables or size.dtype != formula.dtype:
                continue
            for make in _candidates(values, wanted):
                if self._analyzer.can_prove_equal(make(dim), formula):
                    found: PrimExpr = make(size)
                    return found
        self._underived.add(key)
        return None


def _at(formula: PrimExpr, samples: tuple[int, ...]) -> list[int]:
    """The values of a formula where all its sizes are a sample; none where it divides by zero at one."""
    sizes = free_vars(formula)
    try:
        return [int(evaluate(formula, dict.fromkeys(sizes, sample))) for sample in samples]
    except TrapValueError:
        return []


def _candidates(values: list[int], wanted: list[int]) -> list[Any]:
    """Functions that give what is wanted of each value."""
    found: list[Any] = []
    rise = values[-1] - values[0]
    if rise and (wanted[-1] - wanted[0]) % rise == 0:
        factor = (wanted[-1] - wanted[0]) // rise
        offset = wanted[0] - factor * values[0]
        if all(value * factor + offset == want for value, want in zip(values, wanted, strict=True)):
            found.append(lambda size: size * constant(factor, size.dtype) + constant(offset, size.dtype))
    for divisor in _DIVISORS:
        for offset in range(1 - divisor, divisor):
            if all((value + offset) // divisor == want for value, want in zip(values, wanted, strict=True)):
                found.append(_quotient(offset, divisor))
    return found


def _quotient(offset: int, divisor: int) -> Any:
    return lambda size: floordiv(size + constant(offset, size.dtype), constant(divisor, size.dtype))
