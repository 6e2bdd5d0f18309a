"""What LLVM says to a target, tried where it may end the process.

The file is the program of a process of its own, run by its path (see `heddle.target.llvm_check`), and imports
nothing of Heddle. It reads a line of text, triple, processor and features as a JSON list. What LLVM writes to
standard error is the answer: the names that it knows for the triple, then that line, then what it says to a
small program. The process ends with 0 where there was object code.
"""

from __future__ import annotations

import json
import os
import sys

import llvmlite.binding as llvm

_PROGRAM = """
target triple = "{triple}"
target datalayout = "{layout}"
define void @vectors(ptr %a, ptr %b) {{
  %x = load <4 x float>, ptr %a
  %y = load <4 x float>, ptr %b
  %z = fmul <4 x float> %x, %y
  store <4 x float> %z, ptr %a
  ret void
}}
define double @scalars(double %x, float %y) {{
  %z = fpext float %y to double
  %w = fadd double %x, %z
  ret double %w
}}
"""


def emit(line: str, triple: str, cpu: str, features: str) -> None:
    """Raises: RuntimeError for a triple that has no object code."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple)
    target.create_target_machine(cpu="", features="+help", opt=0)
    os.write(2, f"\n{line}\n".encode())
    machine = target.create_target_machine(cpu=cpu, features=features, opt=1, reloc="pic", codemodel="small")
    text = _PROGRAM.format(triple=triple, layout=machine.target_data)
    with llvm.create_context() as context, llvm.parse_assembly(text, context) as module:
        machine.emit_object(module)


if __name__ == "__main__":
    try:
        emit(*json.loads(sys.stdin.read()))
    except RuntimeError as error:
        sys.exit(str(error))
