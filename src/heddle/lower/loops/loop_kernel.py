"""One loop function for a whole loop: its turns are a serial loop around the bodies of what it calls.

What is carried has two places: a turn reads one and writes the other. A row goes to its place in the stack.
What else lies between the calls of a turn is memory of the caller, as results that nobody takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from heddle.graph.infer import type_of
from heddle.graph.nodes import VarBinding
from heddle.graph.rewriter import loop_call
from heddle.graph.types import TensorType
from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.node import Map, Node, children, replace
from heddle.ir.types import TupleType
from heddle.ir.visitor import Rewriter, walk_distinct
from heddle.lower.estimate_kernel_cost import KERNEL_COST, size_names
from heddle.lower.kernel_calls import callee_and_scalars
from heddle.lower.loops.counted_loop import CountedLoop
from heddle.lower.merged_bodies import Dims, MergedBodies, Operand, TensorPlace
from heddle.prim.nodes import PrimExpr, Range, constant
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.ops import equal
from heddle.prim.size_text import size_text
from heddle.prim.substitute import free_vars, substitute
from heddle.runtime.dtype import DataType
from heddle.tir.nodes import (
    Buffer,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    IterType,
    IterVar,
    MatchBufferRegion,
    PrimFunc,
    SBlock,
    SBlockRealize,
    Stmt,
    decl_buffer,
    seq,
)
from heddle.tir.schedule.rules.one_column import for_any_length, sizes_of_one, where_one
from heddle.tir.substitute import substitute_stmt
from heddle.vm.insight.kernel_cost import KernelCost

RULE = "CountedLoop"
"""What profiles name where other functions have the rule that scheduled them."""


_COUNTS = ("flops", "size_bytes", "written_bytes")


@dataclass(slots=True)
class LoopKernel:
    """A loop function, and how it is called, in the sizes and variables of the loop's function.

    `inputs` are parameters and constants, `outputs` the types of the results, `scalars` the sizes that
    follow, the number of turns last. `results` says which of the outputs has a parameter's value at the end.
    """

    func: PrimFunc
    inputs: list[Expr]
    outputs: list[TensorType]
    scalars: list[PrimVar]
    turns: PrimVar
    results: dict[int, int]


def loop_kernel(mod: IRModule, loop: CountedLoop, start: int) -> LoopKernel | None:
    """The loop function of a loop whose counter begins at `start`; None where a body takes pointers."""
    if any(_takes_pointers(mod, binding) for binding in loop.calls):
        return None
    return _Builder(mod, loop, start).build()


def _takes_pointers(mod: IRModule, binding: VarBinding) -> bool:
    """Whether a called function takes the address of a tensor, which then has to lie as it expects."""
    found = loop_call(binding.value)
    if found is None:
        return False
    callee = mod[found[0]]
    assert isinstance(callee, PrimFunc)
    callee = for_any_length(callee)
    pending: list[Node] = [callee.body]
    seen: set[int] = set()
    if not isinstance(callee.body, SBlockRealize):
        return True
    while pending:
        node = pending.pop()
        if isinstance(node, Buffer) or id(node) in seen:
            continue
        seen.add(id(node))
        is_pointer = isinstance(node, PrimVar) and node.dtype == "handle"
        if is_pointer or isinstance(node, (DeclBuffer, MatchBufferRegion)):
            return True
        pending += children(node)
    return False


@dataclass(slots=True)
class _Called:
    """A loop function that a turn calls, with the places of its tensors and its other arguments."""

    callee: PrimFunc
    operands: list[Operand]
    scalars: tuple[PrimExpr, ...]

    @property
    def sizes_of_one(self) -> set[PrimVar]:
        return sizes_of_one(self.callee)

    def size(self, formal: PrimVar) -> PrimExpr | None:
        """What a size of the callee is here; None where nothing says it."""
        return next((given for own, given in self._sizes() if own is formal), None)

    def sizes(self, given: PrimVar) -> set[PrimVar]:
        """The sizes of the callee that are this one here."""
        return {own for own, here in self._sizes() if here is given}

    def _sizes(self) -> Iterator[tuple[PrimVar, PrimExpr]]:
        callee = self.callee
        for formal, place in zip(callee.buffers, self.operands, strict=True):
            if isinstance(place, TensorPlace):
                pairs = zip(formal.shape, place.dims, strict=True)
                yield from ((own, here) for own, here in pairs if isinstance(own, PrimVar))
        plain = [param for param in callee.params if param not in callee.buffer_map]
        yield from zip(plain, self.scalars, strict=True)


@dataclass(slots=True)
class _Builder:
    mod: IRModule
    loop: CountedLoop
    start: int
    merged: MergedBodies = field(default_factory=MergedBodies)
    symbols: dict[PrimVar, PrimExpr] = field(default_factory=dict)
    inputs: dict[int, tuple[Expr, Buffer]] = field(default_factory=dict)
    outputs: list[tuple[TensorType, Buffer]] = field(default_factory=list)
    places: dict[Var, Operand] = field(default_factory=dict)
    parts: dict[Var, tuple[TensorPlace, ...]] = field(default_factory=dict)
    slots: dict[int, Buffer] = field(default_factory=dict)
    stacks: dict[int, Buffer] = field(default_factory=dict)
    results: dict[int, int] = field(default_factory=dict)
    called: dict[Var, _Called] = field(default_factory=dict)
    turn: PrimVar = field(default_factory=lambda: PrimVar("turn", DataType("int64")))
    turns: PrimVar = field(default_factory=lambda: PrimVar("turns", DataType("int64"), None, True))
    own_turns: PrimVar = field(default_factory=lambda: PrimVar("turns", DataType("int64"), None, True))

    def build(self) -> LoopKernel:
        loop = self.loop
        self.symbols[self.turns] = self.own_turns
        changing = [k for k in loop.carried if k != loop.counter]
        begin = [self._begin(k) for k in changing]
        for k in loop.rows:
            self.stacks[k] = self._stack(k)
        turns = self._turns(self.turn, self._turn(changing))
        one = self._size_of_one()
        if one is not None:
            special = self._turn(changing, one)
            turn = PrimVar(self.turn.name, self.turn.dtype)
            special = self._turns(turn, substitute_stmt(special, {self.turn: turn}))
            turns = IfThenElse(equal(one, 1), special, turns)
        end = [self._end(k) for k in dict.fromkeys(loop.results) if k in loop.carried]
        func, scalars = self._function(seq(*begin, turns, *end))
        return LoopKernel(
            func,
            [leaf for leaf, _ in self.inputs.values()],
            [ty for ty, _ in self.outputs],
            scalars,
            self.turns,
            self.results,
        )

    # ---- memory

    def _dims(self, dims: Dims) -> Dims:
        for var in free_vars(*dims):
            self.symbols.setdefault(var, PrimVar(var.name, var.dtype, None, var.is_size))
        return tuple(substitute(dim, self.symbols) for dim in dims)

    def _declare(self, ty: TensorType, hint: str) -> Buffer:
        assert ty.dtype is not None
        return decl_buffer(self._dims(ty.dims or ()), ty.dtype, self.merged.buffer_names.fresh(hint))

    def _output(self, ty: TensorType, hint: str) -> Buffer:
        made = self._declare(ty, hint)
        self.outputs.append((ty, made))
        return made

    def _input(self, leaf: Expr) -> TensorPlace:
        if id(leaf) not in self.inputs:
            ty = type_of(leaf)
            assert isinstance(ty, TensorType)
            hint = leaf.name_hint if isinstance(leaf, Var) else "c"
            self.inputs[id(leaf)] = leaf, self._declare(ty, hint)
        return TensorPlace(self.inputs[id(leaf)][1])

    def _slot(self, index: int, turn: PrimExpr) -> TensorPlace:
        """Where a carried value is at the beginning of a turn."""
        return TensorPlace(self.slots[index], (turn % constant(2, "int64"),))

    def _stack(self, index: int) -> Buffer:
        row = type_of(self.loop.rows[index])
        assert isinstance(row, TensorType)
        self.results[index] = len(self.outputs)
        return self._output(TensorType((self.turns, *(row.dims or ())), row.dtype), "stack")

    def _place(self, leaf: Expr) -> Operand:
        """Where a value is that a turn reads."""
        position = self.loop.position(leaf)
        if position == self.loop.counter:
            return self._counter(self.turn)
        if position in self.slots:
            assert position is not None
            return self._slot(position, self.turn)
        if position is not None or isinstance(leaf, Constant):
            return self._input(leaf)
        assert isinstance(leaf, Var)
        return self.places[leaf]

    def _counter(self, turn: PrimVar) -> PrimExpr:
        """The number of the counter at the beginning of a turn."""
        ty = self.loop.func.params[self.loop.counter].ty
        assert isinstance(ty, TensorType) and ty.dtype is not None
        number: PrimExpr = constant(self.start, "int64") + turn
        return number if ty.dtype == "int64" else number.astype(ty.dtype)

    def _own_place(self, var: Var) -> TensorPlace | None:
        """Where a turn puts a value that is carried on or a row; None for any other."""
        for index, leaf in self.loop.carried.items():
            if leaf is var and index in self.slots:
                return self._slot(index, self.turn + constant(1, "int64"))
        for index, leaf in self.loop.rows.items():
            if leaf is var:
                return TensorPlace(self.stacks[index], (self.turn,))
        return None

    # ---- statements

    def _begin(self, index: int) -> Stmt:
        param = self.loop.func.params[index]
        ty = param.ty
        assert isinstance(ty, TensorType)
        both = TensorType((constant(2, "int64"), *(ty.dims or ())), ty.dtype)
        self.slots[index] = self._output(both, f"{param.name_hint}_both")
        source = self._input(param)
        return self.merged.copy(source, self._slot(index, constant(0, "int64")), f"{param.name_hint}_begin")

    def _end(self, index: int) -> Stmt:
        param = self.loop.func.params[index]
        assert isinstance(param.ty, TensorType)
        self.results[index] = len(self.outputs)
        out = TensorPlace(self._output(param.ty, f"{param.name_hint}_end"))
        if index == self.loop.counter:
            value: Operand = self._counter(self.own_turns)
        else:
            value = self._slot(index, self.own_turns)
        return self.merged.copy(value, out, f"{param.name_hint}_end")

    def _turns(self, turn: PrimVar, body: Stmt) -> Stmt:
        body = _TurnAsAxis(turn, self.own_turns).visit(body)
        return For(turn, constant(0, "int64"), self.own_turns, ForKind.SERIAL, body)

    def _size_of_one(self) -> PrimVar | None:
        """The size, of a batch, that is worth turns of their own where it is one: what a turn calls has such
        loops for it."""
        sizes = (called.size(size) for called in self.called.values() for size in called.sizes_of_one)
        found = {size for size in sizes if size is not None}
        one = found.pop() if len(found) == 1 else None
        return one if isinstance(one, PrimVar) and one is not self.own_turns else None

    def _turn(self, changing: list[int], one: PrimVar | None = None) -> Stmt:
        """What a turn does, in general or where a size is one."""
        stmts: list[Stmt] = []
        for binding in self.loop.calls:
            value = binding.value
            if isinstance(value, Call):
                stmts.append(self._call(binding.var, value, one))
            elif isinstance(value, TupleGetItem):
                assert isinstance(value.tuple_value, Var)
                self.places[binding.var] = self.parts[value.tuple_value][value.index]
            else:
                self.places[binding.var] = self._place(value)
        for index in changing:
            leaf, out = self.loop.carried[index], self._slot(index, self.turn + constant(1, "int64"))
            stmts += self._moved(leaf, out)
        for index, leaf in self.loop.rows.items():
            stmts += self._moved(leaf, TensorPlace(self.stacks[index], (self.turn,)))
        return seq(*stmts)

    def _moved(self, leaf: Expr, out: TensorPlace) -> list[Stmt]:
        source = self._place(leaf)
        is_there = isinstance(source, TensorPlace) and source.buffer is out.buffer and self._is_made(leaf)
        return [] if is_there else [self.merged.copy(source, out, f"{out.buffer.name}_copy")]

    def _is_made(self, leaf: Expr) -> bool:
        """Whether a value is one that the turn computes, not one that it was given."""
        return isinstance(leaf, Var) and leaf in self.places

    def _call(self, var: Var, call: Call, one: PrimVar | None) -> Stmt:
        if var not in self.called:
            self.called[var] = self._called(var, call)
        called = self.called[var]
        callee = for_any_length(called.callee) if one is None else where_one(called.callee, called.sizes(one))
        return self.merged.body(callee, called.operands, called.scalars, call.span)

    def _called(self, var: Var, call: Call) -> _Called:
        found = callee_and_scalars(call)
        assert found is not None and isinstance(call.args[1], Tuple)
        callee = self.mod[found[0]]
        assert isinstance(callee, PrimFunc)
        given = call.args[1].fields
        operands = [self._place(arg) for arg in given if not isinstance(arg, PrimExpr)]
        scalars = [*(arg for arg in given if isinstance(arg, PrimExpr)), *found[1]]
        ty = type_of(var)
        if isinstance(ty, TupleType):
            outs = tuple(TensorPlace(self._output(part, var.name_hint)) for part in ty.fields)  # type: ignore[arg-type]
            self.parts[var] = outs
        else:
            assert isinstance(ty, TensorType)
            outs = (self._own_place(var) or TensorPlace(self._output(ty, var.name_hint)),)
            self.places[var] = outs[0]
        operands += outs
        return _Called(callee, operands, self._dims(tuple(scalars)))

    # ---- the function

    def _function(self, body: Stmt) -> tuple[PrimFunc, list[PrimVar]]:
        buffers = [*(buffer for _, buffer in self.inputs.values()), *(buffer for _, buffer in self.outputs)]
        handles = [PrimVar(f"{buffer.name}_handle", DataType("handle")) for buffer in buffers]
        stated = {dim for buffer in buffers for dim in buffer.shape if isinstance(dim, PrimVar)}
        own = {
            old: new for old, new in self.symbols.items() if new not in stated and new is not self.own_turns
        }
        scalars = [*own, self.turns]
        params = (*handles, *own.values(), self.own_turns)
        root = SBlock((), (), (), "root", body, None, tuple(self.merged.allocated))
        func = PrimFunc(
            params,  # type: ignore[arg-type]
            SBlockRealize((), constant(True), root),
            None,
            Map(dict(zip(handles, buffers, strict=True))),
            attrs_of({"tir.noalias": True, "tir.is_scheduled": True, "schedule_rule": RULE}),
            span=self.loop.func.span,
        )
        return func.with_attr(KERNEL_COST, asdict(self._cost(func))), scalars

    def _cost(self, func: PrimFunc) -> KernelCost:
        """The work of all turns: that of the functions that a turn calls, times the turns."""
        names = size_names(func)
        shapes = tuple(tuple(size_text(dim, names) or "?" for dim in buffer.shape) for buffer in func.buffers)
        scalars = tuple(names[p] for p in func.params if p in names and p not in func.buffer_map)
        parts = [
            self._renamed_cost(each.callee, each.operands, each.scalars, names)
            for each in self.called.values()
        ]
        flops, read, written = (
            _total([part[key] for part in parts], names[self.own_turns]) for key in _COUNTS
        )
        return KernelCost(
            tuple(name for part in parts for name in part["operators"]),
            shapes,
            scalars,
            tuple(range(len(self.inputs), len(func.buffers))),
            flops,
            read,
            boundaries=("its turns are one loop",),
            written_bytes=written,
        )

    def _renamed_cost(
        self,
        callee: PrimFunc,
        operands: list[Operand],
        scalars: tuple[PrimExpr, ...],
        names: dict[PrimVar, str],
    ) -> dict[str, Any]:
        """The cost of one call in the names of the whole."""
        cost: dict[str, Any] = dict(callee.attrs.get(KERNEL_COST, asdict(KernelCost())))
        known: dict[str, str | None] = {}
        for texts, place in zip(cost["shapes"], operands, strict=False):
            for text, dim in zip(texts, place.dims if isinstance(place, TensorPlace) else (), strict=False):
                if text.isidentifier():
                    known[text] = size_text(dim, names)
        for text, scalar in zip(cost["scalars"], scalars, strict=False):
            known[text] = size_text(scalar, names)
        for key in _COUNTS:
            cost[key] = _renamed(cost[key], known)
        return cost


class _TurnAsAxis(Rewriter):
    """Gives the blocks of a turn that use its number an axis for it: no variable of a loop is used inside."""

    def __init__(self, turn: PrimVar, turns: PrimVar) -> None:
        super().__init__()
        self._turn, self._domain = turn, Range.from_min_extent(constant(0, "int64"), turns)

    def visit_SBlockRealize(self, node: SBlockRealize) -> SBlockRealize:
        if not any(part is self._turn for part in walk_distinct(node.block)):
            return node
        axis = IterVar(self._domain, PrimVar(f"v_{self._turn.name}", self._turn.dtype), IterType.Opaque)
        block = substitute_stmt(node.block, {self._turn: axis.var})
        block = replace(block, iter_vars=(axis, *block.iter_vars))
        return SBlockRealize((self._turn, *node.iter_values), node.predicate, block, span=node.span)


def _renamed(text: str | None, names: dict[str, str | None]) -> str | None:
    """A text over sizes with other names for them; None where one is not known."""
    if text is None:
        return None
    words = set(re.findall(r"[A-Za-z_]\w*", text)) - {"min", "max"}
    if any(names.get(word) is None for word in words):
        return None
    return re.sub(r"[A-Za-z_]\w*", lambda word: f"({names[word[0]]})" if word[0] in words else word[0], text)


def _total(parts: list[str | None], turns: str) -> str | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return f"{turns} * ({' + '.join(known)})" if known else "0"
