"""Contracts of passes are checked when passes run under VerifyEach."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from heddle.driver.passes import pass_classes
from heddle.ir.instrument import VerifyEach
from heddle.ir.module import IRModule
from heddle.ir.properties import PROPERTIES, breach_of
from heddle.ir.transform import Pass, PassContext, module_pass
from heddle.script import parse
from heddle.support.diagnostics import InternalError, MissingNameError, UsageError
from heddle.tir.transform.compact_buffers import CompactBuffers
from heddle.tir.transform.lower_blocks import LowerBlocks

LOOPS = """
@T.prim_func
def copy(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    T.func_attr({"global_symbol": "copy"})
    for i in range(4):
        with T.sblock("copy"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi])
            T.writes(B[vi])
            B[vi] = A[vi]
"""
GRAPH = """
@R.function
def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
    with R.dataflow():
        y = R.exp(x)
        R.output(y)
    return y
"""


def module(text: str) -> IRModule:
    return IRModule.from_expr(parse(text))


@dataclass(frozen=True)
class Promises(Pass):
    """Promises what it does not do."""

    establishes = ("no blocks",)

    def transform(self, mod, ctx):
        return mod


@pytest.mark.parametrize("cls", pass_classes().values(), ids=lambda cls: cls.__name__)
def test_contracts_name_declared_properties(cls):
    assert set(cls.requires) | set(cls.establishes) <= set(PROPERTIES)


def test_a_property_holds_or_names_what_breaks_it():
    loops, graph = module(LOOPS), module(GRAPH)
    assert breach_of("no blocks", graph) is None and breach_of("no dataflow", loops) is None
    assert breach_of("no blocks", loops).function == "copy"
    assert breach_of("no dataflow", graph).function == "main"
    assert breach_of("no blocks", IRModule()) is None
    with pytest.raises(MissingNameError, match="no block"):
        breach_of("no block", loops)


def test_a_pass_without_what_it_requires_is_refused_with_the_pass_that_helps():
    with PassContext(instruments=[VerifyEach()]):
        with pytest.raises(UsageError, match="CompactBuffers requires 'no blocks'") as caught:
            CompactBuffers()(module(LOOPS))
        CompactBuffers()(LowerBlocks()(module(LOOPS)))
    assert caught.value.code == "I0503"
    assert "run LowerBlocks" in str(caught.value) and "'copy'" in str(caught.value)


def test_a_pass_that_breaks_its_promise_is_at_fault(monkeypatch):
    with PassContext(instruments=[VerifyEach()]):
        with pytest.raises(UsageError, match="your pass Promises establishes 'no blocks'") as caught:
            Promises()(module(LOOPS))
        assert caught.value.code == "I0506"
        monkeypatch.setattr(Promises, "__module__", "heddle.tir.transform.promises")
        with pytest.raises(InternalError, match="pass Promises establishes") as caught:
            Promises()(module(LOOPS))
        assert caught.value.code == "I0503"


def test_what_a_users_pass_requires_may_be_the_name_of_a_pass():
    tag = module_pass(lambda mod, ctx: mod, name="tag", required=("FuseOps",))
    mod = module(LOOPS)
    with PassContext(instruments=[VerifyEach()]):
        assert tag(mod) is mod
