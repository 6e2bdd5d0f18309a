"""LLVM's passes run over kernels alone: a graph function's module says that it needs none."""

from __future__ import annotations

import numpy as np
import pytest

from heddle.codegen.build import generate_text
from heddle.codegen.cache import KernelCache
from heddle.codegen.llvm import module, object_code
from heddle.codegen.llvm.machine import machine_options
from heddle.driver.compile import build
from heddle.target import Target
from tests.unit.driver.test_program_cache import MODELS, results
from tests.unit.schedule.programs import chain


@pytest.mark.parametrize("name", MODELS)
def test_graph_functions_are_as_written_and_compute_the_same(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    make, arguments = MODELS[name]
    arrays, found = arguments(np.random.default_rng(4)), []
    for flag in (object_code.AS_WRITTEN, "; nothing"):
        monkeypatch.setattr(module, "AS_WRITTEN", flag)
        program = build(make(), exec_mode="compiled", cache=KernelCache(None))
        (text,) = (each.source["ll"] for each in program.imports if "ll" in each.source)
        assert "__vmtir__main" in text and (object_code.AS_WRITTEN in text) == (
            flag is object_code.AS_WRITTEN
        )
        found.append(results(program, arrays))
    for as_written, optimised in zip(*found, strict=True):
        np.testing.assert_array_equal(as_written, optimised)


def test_kernels_are_optimised() -> None:
    text, _ = generate_text(chain(), Target("llvm"))
    assert object_code.AS_WRITTEN not in text


def test_a_module_that_is_as_written_is_compiled_without_passes() -> None:
    machine, level = object_code.target_machine(machine_options(Target("llvm"))), 3

    def passed(text: str) -> str:
        with object_code.optimized(text, machine, level) as module:
            return str(module)

    text = "define i32 @f() {\n  %p = alloca i32\n  store i32 3, ptr %p\n  %x = load i32, ptr %p\n"
    text += "  ret i32 %x\n}\n"
    assert "alloca" not in passed(text)
    assert "alloca" in passed(text + object_code.AS_WRITTEN + "\n")
    said = f'@m = constant [30 x i8] c"... {object_code.AS_WRITTEN}\\00"\n'
    said = said.replace("30", str(len(object_code.AS_WRITTEN) + 5))
    assert "alloca" not in passed(said + text)
