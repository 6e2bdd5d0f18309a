"""Kernels are linked wherever the system has room: parts of a kernel reach each other by 32 bits, so they
have to lie side by side also where free memory is scattered over more than that."""

import subprocess
import sys

import pytest

_PROGRAM = """
import ctypes
import mmap
from llvmlite import binding as llvm
from heddle.runtime.native.library import kernel_symbol, link_objects, native_library

TEXT = '''
@squares = private constant [4 x i64] [i64 0, i64 1, i64 4, i64 9]
define i64 @SYMBOL(i64 %i) {
  call void asm sideeffect ".skip 9000, 0x90", ""()
  %place = getelementptr [4 x i64], ptr @squares, i64 0, i64 %i
  %found = load i64, ptr %place
  ret i64 %found
}
'''.replace("SYMBOL", kernel_symbol("square"))
native_library()  # its own memory is there before the rest is scattered
llvm.initialize_native_asmprinter()
llvm.initialize_native_asmparser()
host = llvm.Target.from_default_triple()
emitter = host.create_target_machine(reloc="pic", codemodel="small")  # as kernels are
code = emitter.emit_object(llvm.parse_assembly(TEXT))

system = ctypes.CDLL(None)
system.mmap.restype = ctypes.c_void_p
system.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
system.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
RESERVED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # Linux: no memory stands behind it
PAGE, REGION, MIB = mmap.PAGESIZE, 1 << 28, 1 << 20


def reserve(size):
    return system.mmap(None, size, 0, RESERVED, -1, 0)


# Regions with a hole each: 14 of one page, below them 14 of two pages, and so on. What needs one page and
# what needs two are then 3.5 GiB apart.
top = 0
for pages in range(1, 14):
    for _ in range(14):
        region = reserve(REGION)
        top = max(top, region + REGION)
        system.munmap(region + REGION - MIB, pages * PAGE)
# Then all room above the regions is taken.
for pages in (64, 16, 4, 1):
    while (place := reserve(pages * PAGE)) >= top:
        pass
    system.munmap(place, pages * PAGE)

linked = link_objects([code], ["square"])
print(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(linked[kernel_symbol("square")])(3))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is scattered by Linux's rules")
def test_kernels_are_linked_where_free_memory_is_scattered():
    found = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == "9"
