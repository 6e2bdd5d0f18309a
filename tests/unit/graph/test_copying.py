"""Copies of functions share no variable with what they were made from."""

from __future__ import annotations

from typing import Any

from heddle.graph.copying import copy_with_new_vars
from heddle.ir.expr import Var
from heddle.ir.instrument import verify_module
from heddle.ir.structural import assert_structural_equal
from heddle.ir.visitor import walk
from heddle.prim.nodes import Var as PrimVar
from heddle.script import ir as I
from heddle.script import relax as R
from heddle.script import tir as T


@I.ir_module
class Program:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")) -> R.Any:
        n, m = T.int64(), T.int64()

        @R.function
        def inner(a: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            b = R.add(a, x)
            return b

        with R.dataflow():
            y = R.reshape(x, R.shape([n, 1]))
            z = R.match_cast(y, R.Tensor((m, 1), "float32"))
            w = R.ones(R.shape([m + n]), "float32")
            R.output(z, w)
        if c:
            out = inner(x)
        else:
            out = x
        return (z, w, out)


def variables(func: Any) -> set[Any]:
    """Graph variables and symbolic dimensions, those in types too."""
    found = {node for node in walk(func) if isinstance(node, (Var, PrimVar))}
    types = [var.ty for var in found if isinstance(var, Var)]
    return found | {node for ty in types for node in walk(ty) if isinstance(node, PrimVar)}


def test_a_copy_shares_no_variable():
    func = Program["main"]
    made = copy_with_new_vars(func)
    assert_structural_equal(made, func)
    assert not variables(made) & variables(func)
    both = Program.clone()
    both["again"] = made.with_attr("global_symbol", "again")
    assert not verify_module(both)
