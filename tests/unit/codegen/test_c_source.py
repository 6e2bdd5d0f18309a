"""C that users bring along with a program."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heddle
from heddle.codegen import c_source
from heddle.driver import program_cache
from heddle.driver.models import find_model, import_model
from heddle.graph.block_builder import BlockBuilder
from heddle.ir.expr import ExternFunc
from heddle.ir.structural import assert_structural_equal
from heddle.prim.nodes import SizeVar
from heddle.relax import TensorType, Var, call_dps_packed
from heddle.runtime import load_module
from heddle.runtime.kernel_module import CSourceModule
from heddle.script import from_source
from heddle.support.diagnostics import FormatError, UsageError
from heddle.support.private_cache import PrivateCache
from heddle.support.settings import settings
from heddle.vm.relax import VirtualMachine
from tests.unit.relax.running import MODES, machine

SOURCE = """
#include <math.h>
#include "heddle_kernel.h"

static int32_t part(int64_t begin, int64_t end, void* data) {
  float** both = data;
  for (int64_t i = begin; i < end; ++i) both[1][i] = sqrtf(both[0][i]);
  return 0;
}

HEDDLE_KERNEL(my_sqrt) {
  const DLTensor *x = args[0].tensor, *out = args[num_args - 1].tensor;
  if (x->shape[0] == 0) {
    heddle_set_error(1, "my_sqrt: expected %e rows at least, got %g", 1, 0);
    return -1;
  }
  float* both[2] = {x->data, out->data};
  return heddle_parallel_for(part, both, x->shape[0], 8);
}

HEDDLE_KERNEL(my_shift) {
  const DLTensor *x = args[0].tensor, *out = args[1].tensor;
  for (int64_t i = 0; i < x->shape[0]; ++i) ((float*)out->data)[i] = ((float*)x->data)[i] + 1;
  return 0;
}
"""
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler here")


def program(source: str = SOURCE, fmt: str = "c", names: tuple[str, ...] = ("my_sqrt", "my_shift")) -> Any:
    """main(x) runs the functions one after the other."""
    builder = BlockBuilder()
    x = Var("x", TensorType((SizeVar("n"),), "float32"))
    with builder.function("main", [x]):
        value: Any = x
        for name in names:
            callee = ExternFunc(name).with_attr("c_source", source).with_attr("c_source_fmt", fmt)
            value = builder.emit(call_dps_packed(callee, (value,), x.ty))
        builder.emit_func_output(value)
    return builder.get()


@needs_compiler
@pytest.mark.fact("11.6")
@pytest.mark.parametrize("mode", MODES)
def test_functions_of_a_source_run(mode: str, tmp_path: Path) -> None:
    vm = machine(program(), mode)
    for n in (1, 2, 1009):
        x = np.random.default_rng(n).random(n).astype("float32")
        np.testing.assert_allclose(vm["main"](x).numpy(), np.sqrt(x) + 1, rtol=1e-6)
    with pytest.raises(ValueError, match="my_sqrt: expected 1 rows at least, got 0"):
        vm["main"](np.zeros(0, "float32"))
    for name in ("m.heddle", "m.so"):
        vm.executable.export_library(tmp_path / name)
        loaded = load_module(tmp_path / name)
        assert loaded["as_text"]() == vm.executable.as_text()
        np.testing.assert_allclose(
            VirtualMachine(loaded, heddle.cpu())["main"](x).numpy(), np.sqrt(x) + 1, rtol=1e-6
        )


@needs_compiler
@pytest.mark.fact("11.6", "4.2")
def test_a_source_is_one_module_that_keeps_its_text(tmp_path: Path) -> None:
    executable = heddle.compile(program())
    executable.export_library(tmp_path / "m.heddle")
    for each in (executable, load_module(tmp_path / "m.heddle")):
        (found,) = [module for module in each.imports if module.kind == "c"]
        assert isinstance(found, CSourceModule)
        assert found.inspect_source() == found.inspect_source("c") == SOURCE
        assert found.inspect_source("ll") == ""
        assert set(found.function_names()) == {"my_sqrt", "my_shift"}
        out = np.zeros(1, "float32")
        found["my_shift"](np.ones(1, "float32"), out)
        assert out[0] == 2


@needs_compiler
def test_cpp_sources() -> None:
    if shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler here")
    source = """
#include <algorithm>
#include "heddle_kernel.h"
HEDDLE_KERNEL(cap) {
  const DLTensor *x = args[0].tensor, *out = args[1].tensor;
  auto from = static_cast<const float*>(x->data);
  auto cap = [](float v) { return std::min(v, 1.0f); };
  std::transform(from, from + x->shape[0], static_cast<float*>(out->data), cap);
  return 0;
}
"""
    vm = machine(program(source, "cc", ("cap",)), "compiled")
    assert vm["main"](np.array([0.5, 3], "float32")).numpy().tolist() == [0.5, 1.0]


CONSTRUCTED = (
    SOURCE
    + """
static volatile float scale = 1;
__attribute__((constructor)) static void set_scale(void) { scale = 5; }
"""
)
CONSTRUCTED_OBJECT = """
#include "heddle_kernel.h"
int nobody_knows();
static int number = nobody_knows();
HEDDLE_KERNEL(f) { return number; }
"""


@needs_compiler
@pytest.mark.parametrize(
    ("source", "fmt", "names", "expected"),
    [
        ("int wrong(", "c", ("f",), "G0202.*f does not compile"),
        (SOURCE, "c", ("other",), "G0203.*does not define 'other'"),
        (SOURCE, "cu", ("my_sqrt",), "G0203.*expected 'c' or 'cc', got 'cu'"),
        (CONSTRUCTED, "c", ("my_sqrt",), "G0203.*my_sqrt has constructors"),
        (CONSTRUCTED_OBJECT, "cc", ("f",), "G0203.*f has constructors"),
    ],
)
def test_sources_that_do_not_fit(source: str, fmt: str, names: tuple[str, ...], expected: str) -> None:
    with pytest.raises(UsageError, match=f"(?s){expected}"):
        heddle.compile(program(source, fmt, names))


@needs_compiler
def test_a_function_of_nobody_is_found_when_the_code_is_linked() -> None:
    source = '#include "heddle_kernel.h"\nint nobody(void);\nHEDDLE_KERNEL(f) { return nobody(); }\n'
    executable = heddle.compile(program(source, "c", ("f",)))
    with pytest.raises(FormatError, match="U0502"):
        VirtualMachine(executable, heddle.cpu())


@needs_compiler
@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_a_killed_compilation_leaves_nothing_for_ever(tmp_path: Path) -> None:
    """The compiler kills who called it; the next compilation removes what lay there."""
    killer = tmp_path / "killer"
    killer.write_text("#!/bin/sh\nkill -9 $PPID\n")
    killer.chmod(0o755)
    place = tmp_path / "temporary"
    place.mkdir()
    program = (
        "from heddle.codegen.c_source import compile_c_source\nfrom heddle.target import Target\n"
        "text = '#include \"heddle_kernel.h\"\\nHEDDLE_KERNEL(f) { return 0; }'\n"
        'compile_c_source(text, "c", ["f"], Target("llvm"))\n'
    )
    left = []
    for compiler, status in ((str(killer), -signal.SIGKILL), ("cc", 0)):
        env = {**os.environ, "TMPDIR": str(place), "HEDDLE_CC": compiler}
        done = subprocess.run([sys.executable, "-c", program], env=env, check=False)
        assert done.returncode == status
        left.append(len(list(place.iterdir())))
    assert left == [1, 0]


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = replace(settings(), c_compiler="no-such-compiler")
    monkeypatch.setattr(c_source, "settings", lambda: changed)
    with pytest.raises(UsageError, match=r"(?s)G0201.*no-such-compiler.*HEDDLE_CC"):
        heddle.compile(program())


def test_another_processor_is_refused() -> None:
    other = "aarch64-linux-gnu" if "x86_64" in heddle.target.Target("llvm").mtriple else "x86_64-linux-gnu"
    with pytest.raises(UsageError, match="G0203"):
        c_source.compile_c_source(SOURCE, "c", ["my_sqrt"], heddle.target.Target(f"llvm -mtriple={other}"))


def test_text_keeps_the_source_and_model_files_may_not_have_one(tmp_path: Path) -> None:
    mod = program()
    assert_structural_equal(from_source(mod.script()), mod)
    (tmp_path / "model.py").write_text(mod.script())
    with pytest.raises(UsageError, match=r"D0104.*my_sqrt, my_shift"):
        import_model(find_model(str(tmp_path / "model.py")))


@needs_compiler
def test_programs_with_c_source_are_compiled_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its headers may change under the same text."""
    cache = program_cache.ProgramCache(PrivateCache(tmp_path / "cache", 1 << 30), least_s=0.0)
    monkeypatch.setattr(program_cache, "_shared", [cache])
    header, x = tmp_path / "step.h", np.zeros(3, "float32")
    source = f'#include "{header}"\n' + SOURCE.replace("+ 1;", "+ STEP;")
    for step in (2, 5):
        header.write_text(f"#define STEP {step}\n")
        made = VirtualMachine(heddle.compile(program(source, names=("my_shift",))), heddle.cpu())
        np.testing.assert_array_equal(made["main"](x).numpy(), x + step)
    assert cache.hits == 0
