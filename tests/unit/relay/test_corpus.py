"""Programs of Relay in tests/cases/relay: printed, parsed, inferred, saved, and run against numpy."""

from __future__ import annotations

import random

import numpy as np
import pytest

from heddle import relay
from heddle.ir.dialect import DIALECTS
from heddle.ir.instrument import VerifyEach, verify_module
from heddle.ir.json_codec import load_json, save_json
from heddle.ir.module import IRModule
from heddle.ir.structural import assert_structural_equal
from heddle.ir.transform import PassContext, Sequential
from heddle.relay import transform as passes
from heddle.relay.typed import infer_module
from heddle.script import RoundTripEach, from_source
from heddle.script.printer import module_script
from tests.unit.relay.corpus import FOLDER, ROWS, parsed, same
from tests.unit.relay.programs import run


def test_every_file_has_its_row() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.relay")) == sorted(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_program(name: str) -> None:
    mod = parsed(name)
    make, reference = ROWS[name]
    args = make()
    same(run(mod, *args), reference(*args))
    assert verify_module(mod) == [] and infer_module(mod) is mod

    for again in (relay.parse(mod.astext()), load_json(save_json(mod))):
        assert_structural_equal(again, mod)
        same(run(again, *args), reference(*args))
    plain = mod.astext(annotate=lambda _: "")
    assert relay.parse(plain).astext(annotate=lambda _: "") == plain


@pytest.mark.parametrize("name", ROWS)
def test_every_pass_leaves_a_program_that_verifies_and_has_a_text(name: str) -> None:
    with PassContext(opt_level=3, instruments=[VerifyEach(), RoundTripEach()]):
        relay.vm.compile(parsed(name), "llvm")


PASSES = (
    passes.CanonicalizeCast(),
    passes.CanonicalizeOps(),
    passes.CombineParallelDense(),
    passes.DeadCodeElimination(),
    passes.DefuseOps(),
    passes.EliminateCommonSubexpr(),
    passes.EtaExpand(True, True),
    passes.FastMath(),
    passes.FoldConstant(),
    passes.FuseOps(),
    passes.Inline(),
    passes.LambdaLift(),
    passes.LazyGradientInit(),
    passes.ManifestLifetimes(),
    passes.PartialEvaluate(),
    passes.RemoveUnusedFunctions(),
    passes.SimplifyExpr(),
    passes.SimplifyInference(),
    passes.ToANormalForm(),
    passes.ToBasicBlockNormalForm(),
    passes.ToGraphNormalForm(),
)


@pytest.mark.parametrize("name", ROWS)
def test_passes_one_after_the_other(name: str) -> None:
    """Three of chance, two times, each on what the one before it left: it verifies, has its types and a text
    that is read back, and computes the same."""
    make, reference = ROWS[name]
    args = make()
    for _ in range(2):
        chosen = random.sample(PASSES, 3)
        mod = parsed(name)
        with PassContext(opt_level=4, instruments=[VerifyEach(), RoundTripEach()]):
            mod = Sequential(chosen)(mod)
        assert infer_module(mod) is mod, chosen
        assert_structural_equal(relay.parse(mod.astext()), mod)
        if not any(isinstance(step, passes.FastMath) for step in chosen):
            same(run(mod, *args), reference(*args))


@pytest.mark.parametrize("name", ["arithmetic", "branch", "dense_network", "local_loop"])
def test_the_dialects_record(name: str) -> None:
    """Functions stand in script text too, run by the record, and are in normal form when they have types."""
    mod = parsed(name)
    make, reference = ROWS[name]
    args = make()
    func, dialect = mod["main"], DIALECTS["relay"]
    values = [np.asarray(arg, "float32" if isinstance(arg, float) else None) for arg in args]
    values = [v.astype("int32") if v.dtype == "int64" else v for v in values]
    same(dialect.run(func, mod, values), reference(*args))
    assert dialect.normalize(func, mod) is not None and dialect.verify(func, mod) == []
    text = module_script(IRModule(mod.functions))
    again = from_source(text)["main"]
    assert again.dialect == "relay"
    assert_structural_equal(infer_module(IRModule({"main": again}))["main"], func)
