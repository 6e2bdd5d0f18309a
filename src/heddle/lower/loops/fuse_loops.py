"""FuseLoops: convert a graph loop whose body only calls loop functions to one loop function.

    def loop(i, n, h, rows, x):                                lv = R.call_tir(cls.loop, (h0, x),
        if R.call_tir(cls.less, (i, n)):                           out_ty=[..., R.Tensor((length, 4))],
            y = R.call_tir(cls.step, (h, x, i))        →           tir_vars=R.shape([length]))
            j = R.call_tir(cls.add, (i, 1))
            loop(j, n, y, (rows, y), x)                        def loop(h0, x, ..., stack, turns):
        else:                                                      for turn in range(turns):
            (h, rows)                                                  ... the loops of step ...
    r = cls.loop(0, length, h0, R.zeros((0, 4)), x)
    stack = stack_chain(r[1])

The machine then does nothing between the turns: no tensor is made, no counter lies in memory. The bodies keep
the loops, vectors and threads that their schedules gave them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from heddle.arith import Analyzer
from heddle.graph.core_ops import CALL_TIR
from heddle.graph.infer import type_of
from heddle.graph.nodes import Binding, MatchCast, SeqExpr, VarBinding
from heddle.graph.rewriter import BindingRewriter, is_call, loop_call
from heddle.graph.type_relations import sizes_of_type
from heddle.graph.types import ShapeExpr, ShapeType, TensorType
from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, Constant, Expr, ExternFunc, Function, GlobalVar, If, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.node import Map
from heddle.ir.op import Op
from heddle.ir.transform import Pass, PassContext
from heddle.ir.types import TupleType
from heddle.ir.visitor import walk_distinct
from heddle.lower.fuse_tir import drop_unused_loops
from heddle.lower.loops.counted_loop import CountedLoop, counted_loop
from heddle.lower.loops.loop_kernel import LoopKernel, loop_kernel
from heddle.lower.loops.numbers import Numbers
from heddle.lower.normal_form import graph_functions
from heddle.prim.checked_index import is_index_check
from heddle.prim.nodes import IntImm, PrimExpr, constant, is_const_int
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.ops import all as all_of
from heddle.prim.ops import if_then_else, less_equal, maximum
from heddle.prim.substitute import free_vars, substitute
from heddle.runtime.dtype import DataType
from heddle.support.limits import current_limits
from heddle.support.span import Span, at, derive
from heddle.tir.nodes import (
    AssertStmt,
    BufferLoad,
    BufferStore,
    PrimFunc,
    SBlock,
    SBlockRealize,
    decl_buffer,
    seq,
)
from heddle.tir.schedule.blocks.nest import loop_nest

_STACK = "vm.builtin.stack_chain"
_MOST_TURNS = (1 << 31) - 1
"""A loop that is to turn more often than that ends by something else."""
_TOO_MANY = "the loop would turn %g times, and the limit 'loop_turns' is %e"


class FuseLoops(Pass):
    """Requires: schedules (ApplyDefaultSchedule). Loops in loops become one function from the inside out."""

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        while True:
            loops = {var: loop for var in mod.functions if (loop := counted_loop(mod, var)) is not None}
            changed = _with_kernels(mod, loops) if loops else mod
            if changed is mod:
                return mod
            mod = changed


def _with_kernels(mod: IRModule, loops: dict[GlobalVar, CountedLoop]) -> IRModule:
    """The module with calls of loops that became calls of loop functions; the same one where none did."""
    rewriter = _Caller(mod, loops)
    functions: dict[GlobalVar, Function] = {}
    for var, func in graph_functions(mod):
        if isinstance(func, Function):
            rewriter.enter(var, func)
            made = rewriter.run(func)
            if rewriter.num_fused:
                functions[var] = made
    if not functions:
        return mod
    for var, func in functions.items():
        rewriter.update_func(var, func)
    return drop_unused_loops(_without_unused(rewriter.get(), loops))


def _without_unused(mod: IRModule, loops: dict[GlobalVar, CountedLoop]) -> IRModule:
    """The module without loops that only call themselves."""
    used = {
        node
        for var, func in mod.functions.items()
        if isinstance(func, Function)
        for node in walk_distinct(func)
        if isinstance(node, GlobalVar) and node != var
    }
    kept = {var: func for var, func in mod.functions.items() if var not in loops or var in used}
    return mod.with_functions(kept)


@dataclass(slots=True)
class _Uses:
    """What the variables of a function are bound to, and what uses them."""

    values: dict[Var, Expr] = field(default_factory=dict)
    users: dict[Var, list[tuple[Var | None, Expr]]] = field(default_factory=dict)

    @staticmethod
    def of(func: Function) -> _Uses:
        found = _Uses()
        for node in walk_distinct(func):
            if isinstance(node, (VarBinding, MatchCast)):
                found.values[node.var] = node.value
                found._note(node.value, node.var)
            elif isinstance(node, SeqExpr):
                found._note(node.body, None)
            elif isinstance(node, If):
                found._note(node.cond, None)
        return found

    def _note(self, value: Expr, own: Var | None) -> None:
        for part in _direct(value):
            self.users.setdefault(part, []).append((own, value))


def _direct(value: Expr) -> list[Var]:
    if isinstance(value, Var):
        return [value]
    if isinstance(value, Call):
        return [var for arg in value.args for var in _direct(arg)]
    if isinstance(value, Tuple):
        return [var for part in value.fields for var in _direct(part)]
    return (
        [value.tuple_value] if isinstance(value, TupleGetItem) and isinstance(value.tuple_value, Var) else []
    )


class _Caller(BindingRewriter):
    """Calls the loop functions of loops."""

    def __init__(self, mod: IRModule, loops: dict[GlobalVar, CountedLoop]) -> None:
        super().__init__(mod)
        self._loops, self._own = loops, GlobalVar("")
        self._uses = _Uses()
        self.num_fused = 0
        self._parts: dict[Var, Tuple] = {}
        self._numbers = Numbers(mod, self._value_of)

    def enter(self, var: GlobalVar, func: Function) -> None:
        """Begin with another function."""
        self._own, self._uses, self.num_fused = var, _Uses.of(func), 0
        self._numbers = Numbers(self.module, self._value_of)

    def _value_of(self, var: Var) -> Expr | None:
        return self._uses.values.get(var)

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if isinstance(value, TupleGetItem) and isinstance(value.tuple_value, Var):
            parts = self._parts.get(value.tuple_value)
            return value if parts is None else parts.fields[value.index]
        if not isinstance(value, Call):
            return value
        if _is_stack(value):
            chain = value.args[1]
            return chain if isinstance(type_of(chain), TensorType) else value
        callee = value.op
        if not isinstance(callee, GlobalVar) or callee not in self._loops or callee == self._own:
            return value
        return self._call(var, value, self._loops[callee])

    def _rebind(self, binding: Binding, value: Expr) -> None:
        super()._rebind(binding, value)
        if isinstance(value, Tuple) and binding.var in self._parts:
            made = self.renamed.get(binding.var, binding.var)
            assert isinstance(made, Var)
            self._parts[made] = value

    def _call(self, var: Var, call: Call, loop: CountedLoop) -> Expr:
        """The results of a loop from its loop function; the call where it has to stay."""
        start = self._numbers.of(call.args[loop.counter])
        sizes = _sizes_of(loop, call)
        if not isinstance(start, IntImm) or start.value < 0 or sizes is None:
            return call
        if not self._is_taken(var, call, loop):
            return call
        kernel = loop_kernel(self.module, loop, start.value)
        turns = self._turns(call, loop, start, sizes) if kernel is not None else None
        if kernel is None or turns is None:
            return call
        self.num_fused += 1
        self._check_sizes(loop, sizes, turns)
        with at(_places(self.module, loop, call)):
            return self._results(var, call, loop, kernel, sizes | {kernel.turns: turns})

    def _is_taken(self, var: Var, call: Call, loop: CountedLoop) -> bool:
        """Whether chains begin empty, and whoever takes one makes a tensor of it."""
        for index in loop.rows:
            ty = type_of(call.args[index])
            if not isinstance(ty, TensorType) or not ty.dims or not is_const_int(ty.dims[0], 0):
                return False
        chains = {k for k, param in enumerate(loop.results) if param in loop.rows}
        for own, value in self._uses.users.get(var, []):
            if not isinstance(value, TupleGetItem) or own is None:
                return not chains
            users = self._uses.users.get(own, []) if value.index in chains else []
            if not all(_is_stack(user) for _, user in users):
                return False
        return True

    # ---- the number of turns

    def _turns(
        self, call: Call, loop: CountedLoop, start: IntImm, sizes: dict[PrimVar, PrimExpr]
    ) -> PrimExpr | None:
        """How often a call's loop turns, over sizes of the caller; None where that is no number."""
        assert loop.limit is not None
        used = set(free_vars(loop.limit, *loop.conditions))
        known: dict[PrimVar, PrimExpr] = dict(sizes)
        asked: dict[PrimVar, Expr] = {}
        for index, number in loop.numbers.items():
            if number not in used:
                continue
            value = self._numbers.of(call.args[index])
            if value is None:
                asked[number] = call.args[index]
            else:
                known[number] = value
        stated = _turns_of(loop, start)
        found: PrimExpr = Analyzer().simplify(substitute(stated, known))
        if not asked:
            return None if isinstance(found, IntImm) and found.value > _MOST_TURNS else found
        if not all(isinstance(type_of(leaf), TensorType) for leaf in asked.values()):
            return None
        return self._asked_turns(found, asked)

    def _asked_turns(self, turns: PrimExpr, asked: dict[PrimVar, Expr]) -> PrimExpr:
        """The number of turns that tensors say when the program runs."""
        func, scalars = _turns_function(turns, list(asked))
        name = self.add_func(func, "loop_turns")
        args: list[Expr] = [name, Tuple(tuple(asked.values()))]
        if scalars:
            args.append(ShapeExpr(tuple(scalars)))
        number = TensorType((constant(1, "int64"),), DataType("int64"))
        tensor = self.emit(Call(Op.get(CALL_TIR), tuple(args), attrs_of({}), (number,)))
        shape = self.emit(Call(Op.get("relax.tensor_to_shape"), (tensor,)))
        found = PrimVar("turns", DataType("int64"), None, True)
        self.match_cast(shape, ShapeType((found,)))
        return found

    def _check_sizes(self, loop: CountedLoop, sizes: dict[PrimVar, PrimExpr], turns: PrimExpr) -> None:
        """What each turn checks of sizes is checked once, if there is a turn."""
        for check in loop.checks:
            assert isinstance(check.value, ShapeExpr) and isinstance(check.ty, ShapeType)
            values = tuple(substitute(value, sizes) for value in check.value.values)
            wanted = tuple(
                if_then_else(turns > constant(0, "int64"), substitute(want, sizes), value)
                for want, value in zip(check.ty.values or (), values, strict=True)
            )
            self.match_cast(ShapeExpr(values), ShapeType(wanted))

    # ---- the call

    def _results(
        self, var: Var, call: Call, loop: CountedLoop, kernel: LoopKernel, sizes: dict[PrimVar, PrimExpr]
    ) -> Expr:
        name = self.add_func(kernel.func, str(call.op.name_hint))  # type: ignore[attr-defined]
        positions = {id(param): k for k, param in enumerate(loop.func.params)}
        tensors = [
            leaf if isinstance(leaf, Constant) else call.args[positions[id(leaf)]] for leaf in kernel.inputs
        ]
        types = tuple(
            TensorType(tuple(substitute(dim, sizes) for dim in ty.dims or ()), ty.dtype)
            for ty in kernel.outputs
        )
        scalars = ShapeExpr(tuple(substitute(scalar, sizes) for scalar in kernel.scalars))
        args = (name, Tuple(tuple(tensors)), scalars)
        is_one = len(types) == 1
        made = self.emit(Call(Op.get(CALL_TIR), args, attrs_of({}), types if is_one else (TupleType(types),)))
        fields: list[Expr] = []
        for param in loop.results:
            if param not in kernel.results:
                fields.append(call.args[param])
            elif is_one:
                fields.append(made)
            else:
                fields.append(self.emit(TupleGetItem(made, kernel.results[param])))
        self._parts[var] = Tuple(tuple(fields))
        return self._parts[var]


def _places(mod: IRModule, loop: CountedLoop, call: Call) -> Span | None:
    """Where a loop's function came from: first the calls of a turn that may meet an index out of range, for a
    message shows the first places, then the loop, then the other calls."""
    calls = [binding.value for binding in loop.calls if loop_call(binding.value) is not None]
    checked = [value.span for value in calls if _checks(mod, value)]
    return derive("FuseLoops", *checked, call.span, *(value.span for value in calls))


def _checks(mod: IRModule, value: Expr) -> bool:
    """Whether a called loop function checks indices."""
    found = loop_call(value)
    assert found is not None
    nodes = walk_distinct(mod[found[0]])
    return any(map(is_index_check, nodes))


def _is_stack(value: Expr) -> bool:
    if not isinstance(value, Call) or not is_call(value, "relax.call_pure_packed"):
        return False
    callee = value.args[0]
    return isinstance(callee, ExternFunc) and callee.global_symbol == _STACK


def _sizes_of(loop: CountedLoop, call: Call) -> dict[PrimVar, PrimExpr] | None:
    """The loop's symbolic sizes over those of its caller; None where one is not known there."""
    found: dict[PrimVar, PrimExpr] = {}
    wanted: list[PrimExpr] = []
    for param, arg in zip(loop.func.params, call.args, strict=True):
        ty, given = param.ty, type_of(arg)
        own, sizes = sizes_of_type(ty) or (), sizes_of_type(given)
        if not own:
            continue
        wanted += own
        if sizes is None or len(own) != len(sizes):
            return None
        for dim, size in zip(own, sizes, strict=True):
            if isinstance(dim, PrimVar):
                found.setdefault(dim, size)
    return found if set(free_vars(*wanted)) <= set(found) else None


def _turns_of(loop: CountedLoop, start: IntImm) -> PrimExpr:
    """The turns over the numbers of parameters."""
    assert loop.limit is not None
    limit = loop.limit if loop.limit.dtype == "int64" else loop.limit.astype("int64")
    begin = constant(start.value, "int64")
    turns: PrimExpr = maximum(limit, begin) - begin
    return if_then_else(all_of(*loop.conditions), turns, constant(0, "int64")) if loop.conditions else turns


def _turns_function(turns: PrimExpr, numbers: list[PrimVar]) -> tuple[PrimFunc, list[PrimVar]]:
    """A loop function that puts `turns` into a tensor of one element, and the sizes that it takes. More turns
    than the limit `loop_turns` are an error U0604: nothing else would end them."""
    buffers = [decl_buffer((), number.dtype, number.name) for number in numbers]
    out = decl_buffer((constant(1, "int64"),), "int64", "turns")
    sizes = [var for var in free_vars(turns) if var not in numbers]
    own = [PrimVar(var.name, var.dtype, None, var.is_size) for var in sizes]
    loads = {number: BufferLoad(buffer, ()) for number, buffer in zip(numbers, buffers, strict=True)}
    value = substitute(turns, loads | dict(zip(sizes, own, strict=True)))
    most = constant(current_limits().loop_turns, "int64")
    fits = AssertStmt(less_equal(value, most), _TOO_MANY, "StepsError", most, value)
    store = loop_nest([], BufferStore(out, value, (constant(0, "int64"),)), "turns")
    root = SBlock((), (), (), "root", seq(fits, store))
    handles = [PrimVar(f"{buffer.name}_handle", DataType("handle")) for buffer in (*buffers, out)]
    func = PrimFunc(
        (*handles, *own),
        SBlockRealize((), constant(True), root),
        None,
        Map(dict(zip(handles, (*buffers, out), strict=True))),
        attrs_of({"tir.noalias": True, "tir.is_scheduled": True}),
    )
    return func, sizes
