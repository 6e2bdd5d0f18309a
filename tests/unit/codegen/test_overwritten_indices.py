"""An index that its own loop writes over is checked at once: the error names the index that was outside."""

from __future__ import annotations

import copy
from typing import ClassVar

import numpy as np
import pytest

from heddle.codegen import as_module, build
from heddle.codegen.llvm.divisors import Divisors
from heddle.codegen.llvm.index_checks import IndexChecks
from heddle.prim.checked_index import checked_index
from heddle.prim.nodes import PrimExpr, Var, constant
from heddle.script import from_source
from heddle.support.diagnostics import TrapIndexError
from heddle.tir.nodes import Evaluate

TEXT = """
@I.ir_module
class Module:
    @T.prim_func
    def main(x: T.handle, i: T.handle{more}):
        m, k = T.int64(), T.int64()
        X = T.match_buffer(x, (m,), "int64")
        I = T.match_buffer(i, (k,), "int64")
        {head}
        for b in range(k):
            {store}
"""
CHECK = 'T.call_intrin("int64", "checked_index", {}, m, 1)'
READ = CHECK.format("I[b]")
STORES = {
    "in place": f"I[b] = X[{READ}]",
    "guarded": f"I[b] = T.if_then_else(b > 0, X[{READ}], T.int64(7))",
    "the other end": f"I[k - 1 - b] = X[{READ}]",
    "a view": f"V[b] = X[{READ}]",
}


def _kernel(store: str, more: str = "", head: str = "pass") -> object:
    text = TEXT.format(store=store, more=more, head=head)
    if head == "pass":
        text = text.replace("        pass\n", "")
    return build(as_module(from_source(text)["main"]), "llvm")["main"]


@pytest.mark.parametrize("name", STORES)
def test_index_written_over(name: str) -> None:
    head = 'V = T.decl_buffer((k,), "int64", data=I.data)' if name == "a view" else "pass"
    kernel = _kernel(STORES[name], head=head)
    table, indices = np.arange(50, 55), np.array([0, 1, 99, 1, -1])
    with pytest.raises(TrapIndexError, match="index 99 is out of range for an axis of 5"):
        kernel(table, indices.copy())  # type: ignore[operator]
    assert indices[2] == 99
    kernel(table, np.array([0, 1, 4, 1, -1]) if name != "the other end" else np.array([2]))  # type: ignore[operator]


@pytest.mark.parametrize("shares", [False, True])
def test_result_given_the_memory_of_indices(shares: bool) -> None:
    """Functions that do not say that their arguments lie apart."""
    kernel = _kernel(f"Y[b] = X[{READ}]", ", y: T.handle", 'Y = T.match_buffer(y, (k,), "int64")')
    indices = np.array([0, 3, -5, 1])
    result = indices if shares else np.zeros_like(indices)
    kernel(np.arange(50, 55), indices, result)  # type: ignore[operator]
    assert result.tolist() == [50, 53, 50, 51]
    indices[:] = [0, 1, 88, 1]
    with pytest.raises(TrapIndexError, match="index 88 is out of range for an axis of 5"):
        kernel(np.arange(50, 55), indices, result)  # type: ignore[operator]


class _StoppedError(Exception):
    pass


def test_what_is_known_of_a_loop_ends_with_it_also_by_an_exception() -> None:
    """A function may be tried in one way, and made in another."""
    var, index, extent = Var("i", "int64"), Var("k", "int64"), Var("n", "int64")
    check = checked_index(index, constant(4, "int64"))

    class Refusing:
        env: ClassVar[dict[Var, str]] = {}

        def emit_index(self, expr: PrimExpr) -> str:
            raise _StoppedError

    checks, divisors = IndexChecks({}, lambda one, other: True), Divisors(lambda expr: False)
    before, nonzero = copy.deepcopy(vars(checks)), divisors.nonzero
    body = Evaluate(constant(0, "int32"))
    for opened in (
        lambda: checks.inside(var, frozenset(), 0, body),
        checks.moving,
        lambda: checks.written_through(Refusing(), index, may_wait=True),
        lambda: checks.written_through(Refusing(), check, may_wait=False),
        lambda: divisors.in_loop(extent),
    ):
        with pytest.raises(_StoppedError), checks.moving(), opened():
            raise _StoppedError
        assert vars(checks) == before
        assert divisors.nonzero == nonzero
