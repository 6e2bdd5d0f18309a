"""Every intrinsic of loop functions, with every dtype and number of arguments, built by hand and by name: a
coded error where it is built or compiled, or the same values from the loop interpreter, LLVM and C."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from heddle import relax, relay, te, topi
from heddle.codegen import build
from heddle.driver.compile import compile as compile_module
from heddle.graph.types import TensorType
from heddle.ir.expr import StringImm
from heddle.ir.module import IRModule
from heddle.ir.op import OP_RECORDS, Op
from heddle.prim.intrinsics import Intrinsic
from heddle.prim.nodes import Call, PrimExpr, Var, constant
from heddle.prim.ops import cast
from heddle.prim.values import int_range
from heddle.runtime.dtype import DataType
from heddle.runtime.tensor import tensor
from heddle.support.diagnostics import HeddleError, InternalError
from heddle.target import Target
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import BufferLoad, BufferStore, Evaluate, For, ForKind, PrimFunc, decl_buffer
from tests.e2e.c_file import needs_compiler

DTYPES = (
    *("bool", "int1", "int2", "int4", "int8", "int16", "int32", "int64", "uint2", "uint4", "uint8"),
    *(
        "uint16",
        "uint32",
        "uint64",
        "float8_e4m3fn",
        "float8_e5m2",
        "float16",
        "bfloat16",
        "float32",
        "float64",
    ),
    "handle",
)
INTRINSICS = sorted(name for name, record in OP_RECORDS.items() if isinstance(record, Intrinsic))
SIZE = 24
ULPS = 16
"""How far results of floats may lie apart; `tests/fuzz/numbers.py` knows it better."""


def is_refusal(error: BaseException) -> bool:
    """A coded error of the user's, without LLVM's words."""
    return isinstance(error, HeddleError) and not isinstance(error, InternalError) and error.code != "G0102"


def argument_lists(load: PrimExpr, other: PrimExpr) -> Iterator[tuple[Any, ...]]:
    """Up to four arguments of one dtype; with another, a condition, a text or a constant among them."""
    one, text = constant(1, "int32"), StringImm("dtype")
    condition = constant(True, "bool")
    for count in range(5):
        yield (load,) * count
        if count:
            yield (condition, *(load,) * (count - 1))
            yield (text, *(load,) * (count - 1))
            yield (*(load,) * (count - 1), one)
            yield (load, *(one,) * (count - 1))
            yield (one,) * count
        if count > 1:
            yield (load, *(other,) * (count - 1))


def candidates(dtype: str) -> Iterator[tuple[str, Any]]:
    """Calls that can be built, as functions of a load; what cannot be built is refused with a code."""
    a = decl_buffer((SIZE,), dtype, "A")
    i = Var("i", "int64")
    load: Any = a.data if dtype == "handle" else BufferLoad(a, (i,))
    other = cast("float32" if dtype != "float32" else "int64", constant(3, "int32"))
    for name in INTRINSICS:
        for args in argument_lists(load, other):
            for result in dict.fromkeys((dtype, "bool", "int32", "float32", "handle")):
                kind = DataType(result)
                call = attempt(lambda: Call(kind, Op.get(name), args), f"{name} {args} {result}")  # noqa: B023
                if not isinstance(call, str):
                    yield name, (a, i, call)


def function(number: int, made: Any) -> PrimFunc:
    a, i, call = made
    params: tuple[Any, ...] = (a,)
    if call.dtype.is_handle:
        body: Any = Evaluate(call)
    else:
        out = decl_buffer((SIZE,), str(call.dtype), "B")
        params, body = (a, out), BufferStore(out, call, (i,))
    attrs = {"global_symbol": f"f{number}", "tir.noalias": True}
    return PrimFunc(params, For(i, 0, SIZE, ForKind.SERIAL, body), attrs=attrs)


def attempt(action: Callable[[], Any], what: str) -> Any:
    """What an action gives, or the code with which it is refused."""
    try:
        return action()
    except Exception as error:
        if not is_refusal(error):
            raise AssertionError(what) from error
        return error.code  # type: ignore[attr-defined]


def array_kind(dtype: str) -> Any:
    """The numpy type whose arrays stand for a dtype: those of less than a byte have types of their own."""
    return np.dtype(getattr(ml_dtypes, dtype, None) or DataType(dtype).numpy())


def given(dtype: str) -> Any:
    if "float" in dtype:
        return ((np.arange(SIZE) % 7 - 3) / 4).astype(array_kind(dtype))
    low, high = int_range(DataType(dtype))
    return np.array([min(max(v, low), high) for v in np.arange(SIZE) % 9 - 4]).astype(array_kind(dtype))


def same(mine: Any, other: Any) -> bool:
    if mine.dtype.kind in "biu" or "int" in mine.dtype.name:
        return bool(np.array_equal(mine, other))
    a, b = (value.astype(np.float64) for value in (mine, other))
    spacing = np.spacing(np.maximum(np.abs(mine), mine.dtype.type(1e-3))).astype(np.float64)
    with np.errstate(all="ignore"):
        return bool(((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= ULPS * spacing)).all())


def check(dtype: str, target: str) -> int:
    """How many calls gave values. Each function is compiled alone: a fault names its call."""
    compared = 0
    for number, (name, made) in enumerate(candidates(dtype)):
        func, what = function(number, made), f"{name} {dtype} {made[2]} {target}"
        module = attempt(lambda func=func: build(func, Target(target)), what)
        is_safe = OP_RECORDS[name].capability == "" and dtype != "handle" and len(func.params) == 2
        if isinstance(module, str) or not is_safe or name == "tir.undef":
            continue
        x, out = given(dtype), str(made[2].dtype)
        want, mine = np.zeros(SIZE, array_kind(out)), tensor(np.zeros(SIZE, array_kind(out)), dtype=out)
        kernel, arg = module[f"f{number}"], tensor(x, dtype=dtype)
        codes = [attempt(lambda func=func, x=x, want=want: run_primfunc(func, x.copy(), want), what)]
        codes += [attempt(lambda kernel=kernel, arg=arg, mine=mine: kernel(arg, mine), what)]
        assert codes[0] == codes[1], what
        assert codes[0] or same(mine.numpy(), want), f"{what}: {mine.numpy()} {want}"
        compared += 1
    return compared


@pytest.mark.parametrize("dtype", DTYPES)
def test_machine_code(dtype: str) -> None:
    check(dtype, "llvm -opt-level=1")


@needs_compiler
@pytest.mark.parametrize("dtype", DTYPES)
def test_c(dtype: str) -> None:
    check(dtype, "c -opt-level=1")


def test_what_is_no_intrinsic() -> None:
    x = Var("x", "float32")
    for name in ("relax.add", "tir.nothing", "nothing"):
        with pytest.raises(HeddleError) as caught:
            Call(DataType("float32"), Op(name, span=None), (x, x))
        assert is_refusal(caught.value)


FLOATS = [dtype for dtype in DTYPES if "float" in dtype]
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_have_no_bits_in_graphs_either(dtype: str) -> None:
    """Operators of te, topi, Relax and Relay."""
    a = te.placeholder((4,), dtype, "a")
    x, y = relax.Var("x", TensorType((4,), dtype)), relay.var("y", shape=(4,), dtype=dtype)
    ways: dict[str, Callable[[], Any]] = {
        "te": lambda: te.compute((4,), lambda i: a[i] & a[i]),
        "te shift": lambda: te.compute((4,), lambda i: a[i] << a[i]),
        "te not": lambda: te.compute((4,), lambda i: ~a[i]),
    }
    for name in BITS:
        ways |= {
            f"topi {name}": lambda name=name: getattr(topi, name)(a, a),
            f"relax {name}": lambda name=name: relax_of(getattr(relax.op, name)(x, x), x),
            f"relay {name}": lambda name=name: relay_of(getattr(relay, name)(y, y), y),
        }
    ways["relax bitwise_not"] = lambda: relax_of(relax.op.bitwise_not(x), x)
    ways["relay bitwise_not"] = lambda: relay_of(relay.bitwise_not(y), y)
    for way, make in ways.items():
        with pytest.raises(HeddleError) as caught:
            make()
        assert is_refusal(caught.value), way


def relax_of(value: Any, x: Any) -> Any:
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(value))
    return compile_module(builder.get())


def relay_of(value: Any, y: Any) -> Any:
    return compile_module(relay.transform.InferType()(IRModule.from_expr(relay.Function([y], value))))
