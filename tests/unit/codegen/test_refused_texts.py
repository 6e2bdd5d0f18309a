"""Texts that LLVM refuses: an error each time, and no harm to the process when Python collects garbage."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

TEXTS = {
    "no text of LLVM's": "define void @f() { nonsense }",
    "an intrinsic of a type that it lacks": """
declare void @llvm.masked.store.f32.p0(float, ptr, i1)
define void @f(ptr %p) {
  call void @llvm.masked.store.f32.p0(float 0.0, ptr %p, i1 true)
  ret void
}
""",
    "a value that is used before it is there": """
define i32 @f(i1 %c) {
entry:
  br i1 %c, label %a, label %b
a:
  %x = add i32 1, 2
  br label %b
b:
  ret i32 %x
}
""",
}
PROGRAM = """
import gc, sys
from heddle.codegen.llvm.machine import compile_text, machine_options
from heddle.codegen.llvm.object_code import object_code
from heddle.support.diagnostics import InternalError
from heddle.target import Target

text, target, held = sys.stdin.read(), Target("llvm"), []
options = machine_options(target)
for turn in range(60):
    for make in (lambda: compile_text(text, target), lambda: object_code(text, options)):
        try:
            make()
        except (InternalError, RuntimeError) as error:
            cycle = [error]
            cycle.append(cycle)
            held.append(cycle)
        else:
            sys.exit("not refused")
    if turn % 7 == 0:
        held.clear()
        gc.collect()
held = None
gc.collect()
good = "define i32 @f() { ret i32 7 }"
assert object_code(good, options) == compile_text(good, target).object_code
print("alive")
"""


@pytest.mark.parametrize("name", TEXTS)
def test_a_refused_text_leaves_nothing_behind_that_harms(name: str) -> None:
    environment = {**os.environ, "MALLOC_PERTURB_": "85"}  # memory that was given back holds other bytes
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=TEXTS[name],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr[-2000:]
