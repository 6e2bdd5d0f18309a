"""Which functions go through a tree from its leaves to its root: see `levels_of_trees`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from heddle.graph.infer import type_of
from heddle.graph.nodes import SeqExpr, VarBinding
from heddle.graph.rewriter import is_call, loop_call
from heddle.graph.types import TensorType
from heddle.ir.call_graph import names_in
from heddle.ir.expr import Call, Constant, Expr, Function, GlobalVar, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.structural import structural_equal
from heddle.ir.types import TupleType, Type
from heddle.lower.recursion.match_of_data import Clause, MatchOfData, Turn, match_of_data, turn_of
from heddle.lower.recursion.rows import (
    MOST_ROW_BYTES,
    RowsCall,
    fixed_bindings,
    fixed_bytes,
    flat_types,
    is_small,
    rows_call,
)
from heddle.tir.nodes import PrimFunc

FEWEST_SHARED_BYTES = {"compiled": 1 << 18, "bytecode": 1 << 22}
"""The weights of products that are worth levels. To order nodes takes half a microsecond each where programs
are compiled, and 70 as bytecode; so does it to read some 32 KiB or 3 MiB of weights once more."""


@dataclass(slots=True)
class NodeKind:
    """What the function does with the nodes of one constructor.

    `children` are its calls of itself, in order, each with the field that it is given. `fields` are the
    tensors that a node has. `fixed` is the same for all nodes. `ahead` depends on what a node has alone,
    `by_level` on the results for its children. `results` are the tensors that it gives.
    """

    clause: Clause
    turn: Turn
    children: list[tuple[VarBinding, int]] = field(default_factory=list)
    fields: dict[Var, int] = field(default_factory=dict)
    fixed: list[VarBinding] = field(default_factory=list)
    ahead: list[RowsCall] = field(default_factory=list)
    by_level: list[RowsCall] = field(default_factory=list)
    results: list[Expr] = field(default_factory=list)
    own: set[Expr] = field(default_factory=set)
    """The tensors of a node that depend on no child."""
    below: set[Expr] = field(default_factory=set)
    """What depends on the results for children."""

    def is_many(self, leaf: Expr) -> bool:
        """Whether each node has a value of its own."""
        root = self._root(leaf)
        return root in self.own or root in self.below

    @property
    def reads(self) -> dict[Var, None]:
        """The variables that are read level by level and that no child gives."""
        calls = [loop_call(item.binding.value) for item in self.by_level]
        args = [self.turn.leaf(arg) for call in calls if call is not None for arg in call[1].fields]
        roots = map(self._root, (*args, *self.results))
        return {root: None for root in roots if isinstance(root, Var) and root not in self.below}

    def _root(self, leaf: Expr) -> Expr:
        while isinstance(leaf, TupleGetItem):
            leaf = self.turn.leaf(leaf.tuple_value)
        return leaf


@dataclass(slots=True)
class TreeRecursion:
    """A function that goes through a tree. `results` are the tensors that it gives for a node."""

    var: GlobalVar
    match: MatchOfData
    kinds: list[NodeKind]
    results: list[TensorType]
    error: Call
    """What happens to values that no clause takes."""

    @property
    def shared_bytes(self) -> int:
        """The bytes of weights that products read once for many nodes."""
        return sum(map(_shared_bytes, self.kinds))

    @property
    def reads(self) -> dict[Var, None]:
        """The variables that are read level by level."""
        return {var: None for _, kind in self.inner for var in kind.reads}

    @property
    def leaves(self) -> list[tuple[int, NodeKind]]:
        """The kinds of nodes without children, by their numbers."""
        return [(k, kind) for k, kind in enumerate(self.kinds) if not kind.children]

    @property
    def inner(self) -> list[tuple[int, NodeKind]]:
        """The kinds of nodes with children, by their numbers."""
        return [(k, kind) for k, kind in enumerate(self.kinds) if kind.children]


def _shared_bytes(kind: NodeKind) -> int:
    """The bytes of weights that the products of a kind of nodes read once for many."""
    total = 0
    for item in (*kind.ahead, *kind.by_level):
        call = loop_call(item.binding.value) if item.gains else None
        if call is not None:
            types = [type_of(arg) for arg, many in zip(call[1].fields, item.many, strict=True) if not many]
            total += sum(fixed_bytes(ty) or 0 for ty in types if isinstance(ty, TensorType))
    return total


def tree_recursion(mod: IRModule, var: GlobalVar, func: object) -> TreeRecursion | None:
    """The recursion over trees that a function is; None for any other."""
    match = match_of_data(func) if isinstance(func, Function) and func.is_pure else None
    results = flat_types(match.func.ret_ty) if match is not None else None
    error = _error(match.otherwise) if match is not None else None
    sizes = [fixed_bytes(ty) for ty in results or ()]
    if match is None or error is None or not sizes or None in sizes:
        return None
    if sum(size or 0 for size in sizes) > MOST_ROW_BYTES:
        return None
    kinds: list[NodeKind] = []
    for clause in match.clauses:
        kind = _node_kind(mod, var, match, clause)
        if kind is None:
            return None
        kinds.append(kind)
    is_tree = any(len(kind.children) > 1 for kind in kinds)
    return TreeRecursion(var, match, kinds, results or [], error) if is_tree else None


def _error(body: SeqExpr) -> Call | None:
    """The call that ends the program, where a sequence is nothing else."""
    calls = [binding.value for binding in body.bindings() if not isinstance(binding.value, Var)]
    return calls[0] if len(calls) == 1 and is_call(calls[0], "relax.fatal") else None  # type: ignore[return-value]


def _node_kind(mod: IRModule, var: GlobalVar, match: MatchOfData, clause: Clause) -> NodeKind | None:
    turn = turn_of(clause)
    if turn is None or not structural_equal(type_of(turn.result), match.func.ret_ty):
        return None
    kind = NodeKind(clause, turn)
    params = {param for k, param in enumerate(match.func.params) if k != match.subject}
    kind.fixed = fixed_bindings(mod, turn, params)
    steady: set[Expr] = {*params, *(binding.var for binding in kind.fixed)}
    if not (_find_children(kind, var, match) and _find_fields(kind, match)):
        return None
    calls = {id(binding) for binding, _ in kind.children}
    for binding in turn.bindings:
        if binding.var in steady or id(binding) in calls or is_call(binding.value, "relax.get_field"):
            continue
        if not _takes(mod, kind, binding, steady):
            return None
    kind.results = list(_flat(turn, turn.result, type_of(turn.result)))
    return kind


def _find_children(kind: NodeKind, var: GlobalVar, match: MatchOfData) -> bool:
    """Note the calls of itself; False where one changes more than the node."""
    turn = kind.turn
    for binding in turn.calls_of(var):
        assert isinstance(binding.value, Call)
        args = [turn.leaf(arg) for arg in binding.value.args]
        if len(args) != len(match.func.params):
            return False
        subject = args[match.subject]
        place = match.place_of(turn.values.get(subject)) if isinstance(subject, Var) else None
        same = all(
            arg is param
            for k, (arg, param) in enumerate(zip(args, match.func.params, strict=True))
            if k != match.subject
        )
        if place is None or not same:
            return False
        kind.children.append((binding, place))
        kind.below.add(binding.var)
    return bool(kind.children) or var not in names_in(kind.clause.body)


def _find_fields(kind: NodeKind, match: MatchOfData) -> bool:
    """Note the tensors of a node; False where it has others, or more than a row may have."""
    children = {place for _, place in kind.children}
    size_bytes = 0
    for binding in kind.turn.bindings:
        place = match.place_of(binding.value)
        if place is None or place in children:
            continue
        ty = type_of(binding.var)
        size = fixed_bytes(ty) if isinstance(ty, TensorType) else None
        if size is None:
            return False
        kind.fields[binding.var] = place
        size_bytes += size
    kind.own |= set(kind.fields)
    return size_bytes <= MOST_ROW_BYTES


def _takes(mod: IRModule, kind: NodeKind, binding: VarBinding, steady: set[Expr]) -> bool:
    """Note a binding of a turn; False where it cannot be computed for many nodes at once."""
    value, call = binding.value, loop_call(binding.value)
    if call is None:
        if isinstance(value, TupleGetItem):
            whole = kind.turn.leaf(value.tuple_value)
            if whole in kind.below:
                kind.below.add(binding.var)
        return isinstance(value, (Var, Constant, Tuple, TupleGetItem))
    assert isinstance(value, Call)
    if (
        not isinstance(mod[call[0]], PrimFunc)
        or len(value.args) > 2
        or not is_small(type_of(binding.var), MOST_ROW_BYTES)
    ):
        return False
    leaves = [kind.turn.leaf(arg) for arg in call[1].fields]
    many = [kind.is_many(leaf) for leaf in leaves]
    if not all(
        own or leaf in steady or isinstance(leaf, Constant) for leaf, own in zip(leaves, many, strict=True)
    ):
        return False
    made = rows_call(mod, binding, many)
    if made is None:
        return False
    is_below = any(leaf in kind.below for leaf in leaves)
    (kind.below if is_below else kind.own).add(binding.var)
    (kind.by_level if is_below else kind.ahead).append(made)
    return True


def _flat(turn: Turn, value: Expr, ty: Type) -> Iterator[Expr]:
    """The tensors of a value of a type, those in tuples one by one."""
    value = turn.leaf(value)
    if not isinstance(ty, TupleType):
        yield value
        return
    for k, part in enumerate(ty.fields):
        yield from _flat(turn, value.fields[k] if isinstance(value, Tuple) else TupleGetItem(value, k), part)
