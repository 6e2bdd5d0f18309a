"""LLVM's binding is imported in parts, and stays whole for whoever asks for more."""

from __future__ import annotations

import subprocess
import sys

import pytest

LINKING = "from heddle.runtime.native.llvm import llvm_linking\nllvm_linking().orcjit.JITLibraryBuilder()\n"
FUNCTION = "'define i32 @f(i32 %x) {\\n ret i32 %x\\n}'"


@pytest.mark.parametrize(
    "use",
    [
        "assert 'llvmlite.ir' not in sys.modules",
        f"import llvmlite.binding as b\nassert b.parse_assembly({FUNCTION}).get_function('f')",
        f"from llvmlite.binding import *\nassert parse_assembly({FUNCTION})",
        "from llvmlite.binding import ffi, ModuleRef\nassert ffi.lib",
        "import llvmlite.binding as b\nassert b.ffi.lib and not hasattr(b, 'no_such_name')",
        "import llvmlite.ir\nassert llvmlite.ir.IntType(8)",
        "from heddle.runtime.native.llvm import llvm_binding\nassert llvm_binding().parse_assembly",
    ],
)
@pytest.mark.parametrize("before", [LINKING, "import llvmlite.binding\n" + LINKING])
def test_uses(before: str, use: str) -> None:
    if "not in sys.modules" in use and before is not LINKING:
        use = "assert 'llvmlite.ir' in sys.modules"
    subprocess.run([sys.executable, "-c", f"import sys\n{before}{use}"], check=True)
