"""Recognise recursive functions that are loops with a trip count that is known at entry.

    loop(i, n, carried..., collected..., others...) =
        if i < n:
            ... calls of loop functions ...
            loop(i + 1, n, carried'..., (collected, row)..., others...)
        else:
            (carried..., collected...)

What decides is what the function computes: a number that grows by 1 with each turn and is compared with
one that stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from heddle.arith import Analyzer
from heddle.graph.core_ops import CALL_TIR
from heddle.graph.infer import type_of
from heddle.graph.nodes import Binding, MatchCast, SeqExpr, VarBinding
from heddle.graph.rewriter import is_call, loop_call
from heddle.graph.type_relations import symbolic_vars
from heddle.graph.types import ShapeExpr, ShapeType, TensorType
from heddle.ir.expr import Call, Constant, Expr, Function, GlobalVar, If, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.structural import structural_equal
from heddle.ir.types import AnyType, TupleType
from heddle.lower.loops.numbers import Numbers
from heddle.lower.normal_form import is_graph
from heddle.prim.nodes import LT, PrimExpr, is_const_int
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.ops import conjuncts, const
from heddle.prim.substitute import free_vars
from heddle.runtime.dtype import DataType
from heddle.tir.nodes import PrimFunc


@dataclass(slots=True)
class CountedLoop:
    """A loop function by the positions of its parameters.

    `calls` are the bindings of a turn that are needed, `checks` what it checks of sizes. `carried` has what a
    parameter becomes after a turn, `rows` what a turn adds to a chain. `results` names the parameters that
    the function gives. The turn runs while the number of parameter `counter` is less than `limit`, if all
    `conditions` hold at the beginning; both are over `numbers`, variables that stand for the numbers of
    parameters.
    """

    func: Function
    calls: list[VarBinding] = field(default_factory=list)
    checks: list[MatchCast] = field(default_factory=list)
    carried: dict[int, Expr] = field(default_factory=dict)
    rows: dict[int, Expr] = field(default_factory=dict)
    results: tuple[int, ...] = ()
    counter: int = -1
    limit: PrimExpr | None = None
    conditions: list[PrimExpr] = field(default_factory=list)
    numbers: dict[int, PrimVar] = field(default_factory=dict)

    def position(self, leaf: Expr) -> int | None:
        """Which parameter an expression is."""
        return next((k for k, param in enumerate(self.func.params) if param is leaf), None)


def counted_loop(mod: IRModule, var: GlobalVar) -> CountedLoop | None:
    """The loop that a function of a module is; None for any other function."""
    func = mod[var]
    if not isinstance(func, Function) or not is_graph(func) or "global_symbol" in func.attrs:
        return None
    return _Reader(mod, var, func).read()


class _Reader:
    def __init__(self, mod: IRModule, var: GlobalVar, func: Function) -> None:
        self.mod, self.var, self.func = mod, var, func
        self.values: dict[Var, Expr] = {}
        self.loop = CountedLoop(func)
        self.turn: list[Binding] = []
        self.reader = Numbers(mod, self.values.get)

    def read(self) -> CountedLoop | None:
        parts = self._parts()
        if parts is None:
            return None
        condition, again, done = parts
        is_loop = (
            self._classify(again)
            and self._results(done)
            and self._counts(condition)
            and self._needed()
            and self._keeps_types()
        )
        return self.loop if is_loop else None

    def _parts(self) -> tuple[Expr, Call, Tuple] | None:
        """The condition, the call of itself at the end of a turn, and what the function gives at the end."""
        body = self.func.body
        before = list(body.bindings()) if isinstance(body, SeqExpr) else []
        branch = before.pop() if before else None
        if not isinstance(branch, VarBinding) or not isinstance(branch.value, If):
            return None
        assert isinstance(body, SeqExpr)
        if body.body is not branch.var:
            return None
        yes, no = branch.value.true_branch, branch.value.false_branch
        if not isinstance(yes, SeqExpr) or not isinstance(no, SeqExpr) or no.bindings():
            return None
        self.turn = [*before, *yes.bindings()]
        for binding in self.turn:
            if isinstance(binding, VarBinding):
                self.values[binding.var] = binding.value
        again, done = self.leaf(yes.body), no.body
        self.turn = [binding for binding in self.turn if binding.value is not again]
        is_self = isinstance(again, Call) and again.op == self.var
        return (branch.value.cond, again, done) if is_self and isinstance(done, Tuple) else None  # type: ignore[return-value]

    def leaf(self, expr: Expr) -> Expr:
        """The value of a variable, also where it only renames another; a call stays a call."""
        while isinstance(expr, Var) and isinstance(self.values.get(expr), (Var, Constant, Call)):
            value = self.values[expr]
            if isinstance(value, Call) and not (isinstance(value.op, GlobalVar) and value.op == self.var):
                break
            expr = value
        return expr

    def _classify(self, again: Call) -> bool:
        """What each parameter is: the same in each turn, carried, or a chain."""
        for index, (param, arg) in enumerate(zip(self.func.params, again.args, strict=True)):
            given = self.leaf(arg)
            if given is param or (isinstance(param.ty, ShapeType) and self._same_shape(param, given)):
                continue
            pair = self.values.get(given) if isinstance(given, Var) else given
            if isinstance(param.ty, AnyType):
                is_pair = isinstance(pair, Tuple) and len(pair.fields) == 2 and pair.fields[0] is param
                if not is_pair or not isinstance(type_of(pair.fields[1]), TensorType):  # type: ignore[union-attr]
                    return False
                self.loop.rows[index] = self.leaf(pair.fields[1])  # type: ignore[union-attr]
            elif isinstance(param.ty, TensorType):
                self.loop.carried[index] = given
            else:
                return False
        return True

    def _same_shape(self, param: Var, given: Expr) -> bool:
        assert isinstance(param.ty, ShapeType)
        return isinstance(given, ShapeExpr) and structural_equal(
            ShapeExpr(param.ty.values or ()), ShapeExpr(given.values)
        )

    def _results(self, done: Tuple) -> bool:
        positions = [self.loop.position(field) for field in done.fields]
        self.loop.results = tuple(k for k in positions if k is not None)
        return None not in positions

    def _counts(self, condition: Expr) -> bool:
        """Find the counter, and what the turns depend on."""
        for index, param in enumerate(self.func.params):
            ty = param.ty
            if isinstance(ty, TensorType) and ty.ndim == 0 and ty.dtype is not None and _is_number(ty.dtype):
                self.loop.numbers[index] = PrimVar(param.name_hint, ty.dtype)
                self.reader.known[param] = self.loop.numbers[index]
        stated = self.reader.of(condition)
        return stated is not None and all(map(self._takes, conjuncts(stated))) and self.loop.counter >= 0

    def _takes(self, part: PrimExpr) -> bool:
        changing = {var: k for k, var in self.loop.numbers.items() if k in self.loop.carried}
        free = free_vars(part)
        if not any(var in changing for var in free):
            self.loop.conditions.append(part)
            return True
        if isinstance(part, PrimVar) and is_const_int(self._after(changing[part]), 1):
            self.loop.conditions.append(part)  # true from the second turn on
            return True
        if not isinstance(part, LT) or not isinstance(part.a, PrimVar) or self.loop.counter >= 0:
            return False
        counter = changing.get(part.a)
        if counter is None or any(var in changing for var in free_vars(part.b)):
            return False
        after = self._after(counter)
        one = const(1, part.a.dtype)
        if after is None or not is_const_int(Analyzer().simplify(after - part.a - one), 0):
            return False
        self.loop.counter, self.loop.limit = counter, part.b
        return True

    def _after(self, index: int) -> PrimExpr | None:
        """The number of a carried parameter after a turn."""
        return self.reader.of(self.loop.carried[index])

    def _needed(self) -> bool:
        """Keep what a turn needs: calls of loop functions, and checks of sizes."""
        loop = self.loop
        needed = {leaf for k, leaf in loop.carried.items() if k != loop.counter and isinstance(leaf, Var)}
        needed |= {leaf for leaf in loop.rows.values() if isinstance(leaf, Var)}
        for binding in reversed(self.turn):
            if isinstance(binding, MatchCast):
                if not isinstance(binding.value, ShapeExpr) or not isinstance(binding.ty, ShapeType):
                    return False
                loop.checks.insert(0, binding)
            elif binding.var in needed:
                if not self._takes_call(binding, needed):
                    return False
            elif isinstance(binding.value, Call) and not is_call(binding.value, CALL_TIR):
                return False  # it may do something
        return True

    def _takes_call(self, binding: Binding, needed: set[Var]) -> bool:
        assert isinstance(binding, VarBinding)
        value = binding.value
        if isinstance(value, TupleGetItem):
            needed |= {value.tuple_value} if isinstance(value.tuple_value, Var) else set()
        elif isinstance(value, Var):
            needed.add(value)
        elif (found := loop_call(value)) is not None:
            callee, args = found
            if not isinstance(self.mod[callee], PrimFunc):
                return False
            needed |= {arg for arg in args.fields if isinstance(arg, Var)}
        elif not isinstance(value, Constant):
            return False
        self.loop.calls.insert(0, binding)
        return True

    def _keeps_types(self) -> bool:
        """Whether every size is one that the caller knows, and carried values keep theirs."""
        bound = {var for param in self.func.params for var in symbolic_vars(type_of(param))}
        made = [type_of(binding.var) for binding in self.loop.calls]
        made += [type_of(row) for row in self.loop.rows.values()]
        tensors = [part for ty in made for part in (ty.fields if isinstance(ty, TupleType) else (ty,))]
        if not all(isinstance(ty, TensorType) and ty.dims is not None and ty.dtype for ty in tensors):
            return False
        stated = [*tensors, *(check.ty for check in self.loop.checks)]
        if not all(bound.issuperset(symbolic_vars(ty)) for ty in stated):
            return False
        return all(
            isinstance(type_of(leaf), TensorType) and _same_type(self.func.params[k].ty, type_of(leaf))
            for k, leaf in self.loop.carried.items()
        )


def _is_number(dtype: DataType) -> bool:
    return dtype.is_int or dtype.is_bool


def _same_type(a: object, b: object) -> bool:
    if not isinstance(a, TensorType) or not isinstance(b, TensorType) or a.dtype != b.dtype:
        return False
    if a.dims is None or b.dims is None or len(a.dims) != len(b.dims):
        return False
    prover = Analyzer()
    return all(is_const_int(prover.simplify(x - y), 0) for x, y in zip(a.dims, b.dims, strict=True))
