"""Powers of small integers, all of them: modulo the width, whatever is known of the exponent."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from heddle.codegen.build import build
from heddle.codegen.cache import KernelCache
from heddle.ir.op import Op
from heddle.prim.nodes import Call, Var, constant
from heddle.runtime.dtype import DataType
from heddle.runtime.tensor import tensor
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import BufferLoad, BufferStore, For, ForKind, PrimFunc, decl_buffer


def numbers(dtype):
    kind = DataType(dtype)
    low = -(1 << kind.bits - 1) if kind.is_signed else 0
    return range(low, low + (1 << kind.bits))


def power(x, y, dtype):
    """By Python's integers; with a negative exponent 1 / x**-y, rounded to zero."""
    kind = DataType(dtype)
    if y < 0:
        made = {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)
    else:
        made = x**y % (1 << kind.bits)
    return made - (1 << kind.bits) if made > max(numbers(dtype)) else made


def function(dtype, count, exponent=None):
    a, e, b = (decl_buffer((count,), dtype, name) for name in "AEB")
    i = Var("i", "int64")
    y = BufferLoad(e, (i,)) if exponent is None else constant(exponent, dtype)
    call = Call(DataType(dtype), Op.get("tir.pow"), (BufferLoad(a, (i,)), y))
    attrs = {"global_symbol": "f", "tir.noalias": True}
    return PrimFunc((a, e, b), For(i, 0, count, ForKind.SERIAL, BufferStore(b, call, (i,))), attrs=attrs)


@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4", "uint4"])
@pytest.mark.parametrize("target", ["llvm -opt-level=0", "interpreter"])
def test_all_powers(dtype, target):
    kind = np.dtype(getattr(ml_dtypes, dtype))
    pairs = [(x, y) for x in numbers(dtype) for y in numbers(dtype)]
    x, y = (np.array(column, "int8").astype(kind) for column in zip(*pairs, strict=True))
    wanted = [power(*pair, dtype) for pair in pairs]
    for exponent in (None, *numbers(dtype)):
        func = function(dtype, len(pairs), exponent)
        if target == "interpreter":
            out = np.zeros(len(pairs), kind)
            run_primfunc(func, x, y, out)
            made = out
        else:
            out = tensor(np.zeros(len(pairs), kind))
            build(func, target, KernelCache(None))["f"](tensor(x), tensor(y), out)
            made = out.numpy()
        if exponent is not None:
            wanted = [power(a, exponent, dtype) for a, _ in pairs]
        assert [int(value) for value in made] == wanted, exponent
