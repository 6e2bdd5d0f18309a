"""Vectors of every second, third... element: what is loaded, and that nothing is read beyond the last."""

import ctypes
import mmap

import numpy as np
import pytest

from heddle.codegen import compile_kernels
from heddle.codegen.llvm.emit_memory import MAX_SHUFFLED_STRIDE
from heddle.prim.nodes import Var
from heddle.target import Target
from heddle.tir.nodes import BufferStore, For, ForKind, PrimFunc, decl_buffer
from tests.unit.codegen.kernel_runner import Kernels

DTYPES = ("int8", "bool", "float16", "float32", "float64")
_NO_ACCESS, _READ_WRITE = 0, 3


def kernel(dtype, lanes, stride):
    """B[i] = A[i * stride], in vectors, of an A that ends with the last element."""
    n, i, lane = (Var(name, "int64") for name in ("n", "i", "lane"))
    a, b = decl_buffer((n,), dtype, "A"), decl_buffer((2 * lanes,), dtype, "B")
    at = i * lanes + lane
    store = BufferStore(b, a[(at * stride,)], (at,))
    body = For(i, 0, 2, ForKind.SERIAL, For(lane, 0, lanes, ForKind.VECTORIZED, store))
    func = PrimFunc((a, b), body, attrs={"global_symbol": "f", "tir.noalias": True})
    return Kernels(compile_kernels(func, Target("llvm")))


class Guarded:
    """An array that ends where memory ends that may be read."""

    def __init__(self, values):
        pages = -(-values.nbytes // mmap.PAGESIZE)
        self._memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self._end = start + pages * mmap.PAGESIZE
        self._protect(_NO_ACCESS)
        offset = pages * mmap.PAGESIZE - values.nbytes
        self.array = np.frombuffer(self._memory, values.dtype, len(values), offset)
        self.array[:] = values

    def _protect(self, access):
        assert self._libc.mprotect(self._end, mmap.PAGESIZE, access) == 0

    def release(self):
        self._protect(_READ_WRITE)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lanes", [2, 4, 16, 64])
@pytest.mark.parametrize("stride", [1, 2, 3, 4, 5, 7, MAX_SHUFFLED_STRIDE, MAX_SHUFFLED_STRIDE + 1])
def test_every_element_and_nothing_beyond(dtype, lanes, stride):
    rng = np.random.default_rng()
    size = (2 * lanes - 1) * stride + 1
    values = rng.integers(0, 2 if dtype == "bool" else 100, size).astype(dtype)
    guarded = Guarded(values)
    out = np.zeros(2 * lanes, dtype)
    kernel(dtype, lanes, stride)("f", guarded.array, out)
    guarded.release()
    np.testing.assert_array_equal(out, values[::stride])
