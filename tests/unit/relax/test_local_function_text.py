"""Local functions with symbolic dimensions of their own: their text parses back to an equal program."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from heddle.graph.block_builder import BlockBuilder
from heddle.graph.nodes import SeqExpr
from heddle.graph.op_builder import call_op
from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Expr, Function, If, Var
from heddle.ir.module import IRModule
from heddle.ir.structural import assert_structural_equal, structural_hash
from heddle.prim.nodes import PrimExpr, SizeVar
from heddle.prim.nodes import Var as PrimVar
from heddle.runtime.dtype import DataType
from heddle.script import from_source


def tensor(*dims: PrimExpr) -> TensorType:
    return TensorType(tuple(dims), DataType("float32"))


def doubled(bb: BlockBuilder, name: str, *dims: PrimExpr) -> Function:
    y = Var(name, tensor(*dims))
    with bb.seq_scope() as scope:
        z = bb.emit(call_op("add", y, y))
        scope.close_block()
    return Function((y,), SeqExpr(tuple(scope.blocks), z), tensor(*dims))


def one_function(dim: Callable[[str], PrimExpr]) -> Callable[[BlockBuilder, Var, PrimExpr], Expr]:
    """A function whose dimension has the name of the outer one."""
    return lambda bb, x, n: bb.emit(Call(bb.emit(doubled(bb, "y", dim("n"))), (x,)))


def two_functions(dim: Callable[[str], PrimExpr]) -> Callable[[BlockBuilder, Var, PrimExpr], Expr]:
    """Two functions that both define one variable."""

    def build(bb: BlockBuilder, x: Var, n: PrimExpr) -> Expr:
        k = dim("k")
        first, second = (bb.emit(doubled(bb, name, k)) for name in "yz")
        return bb.emit(Call(second, (bb.emit(Call(first, (x,))),)))

    return build


def outer_dim(dim: Callable[[str], PrimExpr]) -> Callable[[BlockBuilder, Var, PrimExpr], Expr]:
    """A function of the outer function's dimension."""
    return lambda bb, x, n: bb.emit(Call(bb.emit(doubled(bb, "y", n)), (x,)))


def later_dim(dim: Callable[[str], PrimExpr]) -> Callable[[BlockBuilder, Var, PrimExpr], Expr]:
    """A function's own dimension is the one that a cast behind it defines."""

    def build(bb: BlockBuilder, x: Var, n: PrimExpr) -> Expr:
        k = dim("k")
        made = bb.emit(doubled(bb, "y", k))
        return bb.emit(Call(made, (bb.match_cast(x, tensor(k)),)))

    return build


def module(build: Callable[[BlockBuilder, Var, PrimExpr], Expr], n: PrimExpr) -> IRModule:
    bb, x = BlockBuilder(), Var("x", tensor(n))
    with bb.function("main", [x]):
        bb.emit_func_output(build(bb, x, n))
    return bb.get()


@pytest.mark.parametrize("dim", [SizeVar, lambda name: PrimVar(name, DataType("int64"))])
@pytest.mark.parametrize("case", [one_function, two_functions, outer_dim, later_dim])
def test_text_parses_back(case: Callable[..., Callable[..., Expr]], dim: Callable[[str], PrimExpr]) -> None:
    mod = module(case(dim), dim("n"))
    back = from_source(str(mod))
    assert_structural_equal(back, mod)
    assert structural_hash(back) == structural_hash(mod)
    assert str(back) == str(mod)


def test_different_programs_stay_different() -> None:
    n = SizeVar("n")
    mods = [module(case(SizeVar), n) for case in (one_function, two_functions, outer_dim, later_dim)]
    assert len({structural_hash(mod) for mod in mods}) == len(mods)


def test_branches_may_define_the_same_dimension() -> None:
    n, k = SizeVar("n"), SizeVar("k")
    bb, x, c = BlockBuilder(), Var("x", tensor(n)), Var("c", TensorType((), DataType("bool")))
    with bb.function("main", [c, x]):
        branches = []
        for name in ("add", "multiply"):
            with bb.seq_scope() as scope:
                y = bb.match_cast(x, tensor(k))
                z = bb.match_cast(bb.emit(call_op(name, y, y)), tensor(n))
                scope.close_block()
            branches.append(SeqExpr(tuple(scope.blocks), z))
        bb.emit_func_output(bb.emit(If(c, *branches)))
    mod = bb.get()
    assert str(from_source(str(mod))) == str(mod)
