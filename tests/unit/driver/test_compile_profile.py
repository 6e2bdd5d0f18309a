"""Where a compilation's time goes."""

from __future__ import annotations

import json
import time

import numpy as np
import onnx
import pytest

import heddle
from heddle.codegen import KernelCache
from heddle.driver.cli import ExitCode, main
from heddle.driver.compile import build
from heddle.ir.transform import PassContext, Sequential, module_pass
from tests.unit.frontend.onnx.models import model, node


def network():
    weights = np.random.default_rng(0).standard_normal((16, 24)).astype("float32")
    nodes = [node("MatMul", ["x", "w"], ["h"]), node("Relu", ["h"], ["r"]), node("Softmax", ["r"], ["y"])]
    return model(nodes, {"x": ["n", 16]}, ["y"], {"w": weights})


def profiled(cache):
    profile = heddle.instrument.CompileProfile()
    with PassContext(instruments=[profile]):
        build(heddle.frontend.onnx.from_onnx(network()), exec_mode="compiled", cache=cache)
    return profile


def test_passes_and_functions_are_told():
    cache = KernelCache(None)
    first, second = profiled(cache), profiled(cache)
    names = {row.name: row for row in first.functions}
    assert any("matmul" in name for name in names) and any(name.startswith("__vmtir__") for name in names)
    assert all(row.lowering_s > 0 and row.llvm_s > 0 and row.text_bytes > 100 for row in first.functions)
    assert {row.name for row in second.functions} == set(names)
    assert all(row.is_kept and row.lowering_s == row.llvm_s == 0 for row in second.functions)
    assert {row.code_bytes for row in second.functions} == {row.code_bytes for row in names.values()}
    fuse, unroll = first.passes["FuseOps"], first.passes["UnrollLoop"]
    assert fuse.runs == 1 and unroll.runs == len(names)
    assert fuse.nodes_before > 0 and unroll.nodes_after >= unroll.nodes_before > 0
    assert "UnrollLoop" not in second.passes


def test_time_belongs_to_the_innermost_pass():
    @module_pass(opt_level=0, name="Inner")
    def inner(mod, ctx):
        time.sleep(0.05)
        return mod

    @module_pass(opt_level=0, name="Outer")
    def outer(mod, ctx):
        time.sleep(0.02)
        return Sequential([inner, inner])(mod)

    profile = heddle.instrument.CompileProfile()
    with PassContext(instruments=[profile]):
        outer(heddle.IRModule())
    rows = profile.passes
    assert (rows["Outer"].runs, rows["Inner"].runs) == (1, 2)
    assert rows["Inner"].seconds >= 0.1 > rows["Outer"].seconds >= 0.02


@pytest.mark.parametrize("kind", ["text", "json"])
def test_command(tmp_path, capsys, kind):
    path, output = tmp_path / "m.onnx", tmp_path / "m.heddle"
    onnx.save(network(), path)
    given = ["compile", str(path), "-o", str(output), "--profile", *(["--json"] if kind == "json" else [])]
    assert main(given) == ExitCode.DONE
    text = capsys.readouterr().out
    if kind == "json":
        profile = json.loads(text)["profile"]
        assert profile["passes"][0]["seconds"] >= profile["passes"][-1]["seconds"]
        assert len(profile["functions"]) > 2
    else:
        assert "FuseOps" in text or "Simplify" in text
        assert "loop function" in text and "__vmtir__main" in text
