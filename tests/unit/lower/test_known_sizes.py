"""Tensors of sizes in Relay programs become shapes; every engine gives what the interpreter gives."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import heddle
from heddle.ir.module import IRModule
from heddle.lower.relay_to_relax import to_relax
from heddle.relax import GraphInterpreter, VirtualMachine
from heddle.script import from_source
from heddle.support.diagnostics import IRTypeError, Trap, TrapIndexError, TrapValueError
from tests.unit.relay.programs import plain, program, run

HEAD = """def @main(%x: Tensor[(?, 3), float32]) {
  let %s = shape_of(%x, dtype="int64");
  let %n = take(%s, 0i64, axis=0);
  let %one = reshape(%n, newshape=[1]);
  let %two = concatenate((%one, reshape(2i64, newshape=[1])), axis=0);
"""
KNOWN = {
    "a range": "arange(0i64, %n + 1i64, 1i64, dtype='int64')",
    "a range of nothing": "arange(5i64, %n, 1i64, dtype='int64')",
    "a range by steps": "arange(%n, %n * 3i64 + 1i64, 2i64, dtype='int64')",
    "a range of int32": "arange(0, take(shape_of(%x), 0, axis=0), 1, dtype='int32')",
    "int32 is added": "dyn.full(1f, sum(shape_of(%x), axis=[0], keepdims=True), dtype='float32')",
    "full": "dyn.full(2f, %two, dtype='float32')",
    "zeros": "dyn.zeros(reverse(%two, axis=0), dtype='int32')",
    "a product": "dyn.full(1f, prod(%two, axis=[0], keepdims=True), dtype='float32')",
    "all elements": "dyn.full(1f, reshape(ndarray_size(%x, dtype='int64'), newshape=[1]), dtype='float32')",
    "broadcast_to": "dyn.broadcast_to(1f, stack((%n, 4i64), axis=0))",
    "reshape": "dyn.reshape(%x, reverse(%s, axis=0), allowzero=True)",
    "reshape by what is left": "dyn.reshape(%x, concatenate((reshape(-1i64, newshape=[1]), %one), axis=0))",
    "a slice": "dyn.strided_slice(%x, 0i64 * %s, %s - 1i64, ones(shape=[2], dtype='int64'))",
    "a slice backwards": "dyn.strided_slice(%x, %s - 1i64, 0i64 * %s, full(-1i64, shape=[2], dtype='int64'))",
    "all of it": "dyn.strided_slice(%x, zeros(shape=[2], dtype='int64'), %s, ones(shape=[2], dtype='int64'))",
    "tile": "dyn.tile(%x, %two)",
    "where": "dyn.full(1f, where(less(%one, 2i64), 7i64 + %one, %one), dtype='float32')",
    "a floor": "dyn.full(1f, floor_divide(%one, 2i64) + floor_mod(%one, 3i64), dtype='float32')",
    "bounds": "dyn.full(1f, maximum(minimum(%one, 3i64), 1i64), dtype='float32')",
    "bool and back": "dyn.full(1f, cast(cast(%one, dtype='bool'), dtype='int64'), dtype='float32')",
    "logic": "dyn.full(1f, where(logical_or(less(%one, 1i64), equal(%one, 2i64)), 3i64, %one), "
    "dtype='float32')",
    "one_hot": "dyn.one_hot(arange(0i64, %n, 1i64, dtype='int64'), 1f, 0f, %n, axis=-1, dtype='float32')",
    "in a closure": "let %f = fn (%k: float32) { dyn.full(%k, %two, dtype='float32') }; %f(3f)",
    "in a branch": "if (greater(%n, 1i64)) { dyn.full(1f, %s, dtype='float32') } else { %x }",
    "backwards": "strided_slice(%s + 1i64, begin=[-1], end=[-9], strides=[-1])",
    "below zero": "floor_divide(%n - 5i64, 2i64)",
}
"""Calls that need no tensor of sizes when they run."""
NOT_KNOWN = {
    "a division by zero": "floor_divide(7i64, %n)",
    "int32 wraps": "cast(take(shape_of(%x), 0, axis=0) * 1073741824, dtype='int64')",
    "int32 wraps by addition": "cast(take(shape_of(%x), 0, axis=0) + 2147483647, dtype='int64')",
    "a narrow type wraps": "cast(%n * 100i64, dtype='int8')",
    "int64 wraps": "%n * 4611686018427387904i64 * 2i64",
    "a power": "power(%s, %s)",
    "a clipped place": "take(%s, 7i64 + %n, axis=0, mode='clip')",
}


def module(body: str) -> IRModule:
    return program(f"{HEAD}  {body.replace(chr(39), chr(34))}\n}}\n")


def same(got: Any, wanted: Any) -> None:
    got, wanted = np.asarray(plain(got)), np.asarray(wanted)
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)


def rows(count: int) -> Any:
    return np.arange(3 * count, dtype="float32").reshape(count, 3)


@pytest.mark.parametrize("name", [*KNOWN, *NOT_KNOWN])
def test_every_engine_gives_what_the_interpreter_gives(name: str) -> None:
    mod = module({**KNOWN, **NOT_KNOWN}[name])
    graph = to_relax(mod)
    mains = [GraphInterpreter(graph)["main"]]
    for mode in ("bytecode", "compiled"):
        compiled = heddle.compile(mod, exec_mode=mode, target="llvm -opt-level=0")
        mains.append(VirtualMachine(compiled, heddle.cpu())["main"])
    for count in (1, 2, 5) if "left" in name else (0, 1, 2, 5):
        if name == "a division by zero" and not count:
            continue
        wanted = run(mod, rows(count))
        for main in mains:
            same(main(heddle.tensor(rows(count)) if main is not mains[0] else rows(count)), wanted)
    again = from_source(graph.script(show_meta=True))
    assert again.script(show_meta=True) == graph.script(show_meta=True)


@pytest.mark.parametrize("name", KNOWN)
def test_no_tensor_says_a_shape(name: str) -> None:
    text = to_relax(module(KNOWN[name])).script()
    assert "tensor_to_shape" not in text and "cumsum" not in text and "dynamic_strided_slice" not in text


def test_results_of_related_sizes_need_no_check() -> None:
    assert "match_cast" not in to_relax(module("dyn.full(1f, %s, dtype='float32') + %x")).script()


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("dyn.full(0f, %s - 4i64, dtype='float32')", TrapValueError),
        ("take(%s, 7i64, axis=0, mode='fast')", TrapIndexError),
        ("dyn.reshape(%x, %s + reshape(%n, newshape=[1]))", Trap),
    ],
)
def test_what_does_not_fit_is_said_when_it_runs(body: str, error: type[Exception]) -> None:
    mod = module(body)
    for mode in ("bytecode", "compiled"):
        compiled = heddle.compile(mod, exec_mode=mode, target="llvm -opt-level=0")
        main = VirtualMachine(compiled, heddle.cpu())["main"]
        for count in (1, 2):
            with pytest.raises(error):
                main(heddle.tensor(rows(count)))


def test_what_never_fits_is_refused_before_it_runs() -> None:
    with pytest.raises(IRTypeError, match=r"R0203.*expected x_0 \* 3, got x_0 \* 4 \+ 4"):
        heddle.compile(module("dyn.reshape(%x, %s + 1i64)"))


class _Sizes:
    """Random expressions of sizes: numbers, and vectors of two."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def number(self, depth: int) -> str:
        rng = self.rng
        if depth == 0:
            return rng.choice(["%n", f"{rng.randrange(-3, 5)}i64", "take(%s, 1i64, axis=0)"])
        a, b = self.number(depth - 1), self.number(depth - 1)
        return rng.choice(
            [
                f"({a} {rng.choice('+-*')} {b})",
                f"{rng.choice(['maximum', 'minimum'])}({a}, {b})",
                f"{rng.choice(['floor_divide', 'floor_mod'])}({a}, {rng.randrange(1, 4)}i64)",
                f"where({rng.choice(['less', 'equal', 'greater_equal'])}({a}, {b}), {b}, {a})",
                f"negative({a})",
                f"take({self.vector(depth - 1)}, {rng.randrange(-2, 2)}i64, axis=0)",
                f"{rng.choice(['sum', 'prod', 'max', 'min'])}({self.vector(depth - 1)}, axis=[0])",
                f"cast(cast({a}, dtype='bool'), dtype='int64')",
            ]
        )

    def vector(self, depth: int) -> str:
        rng = self.rng
        if depth == 0:
            return rng.choice(["%s", "%two"])
        a = self.vector(depth - 1)
        return rng.choice(
            [
                f"({a} {rng.choice('+-*')} {self.number(depth - 1)})",
                f"reverse({a}, axis=0)",
                f"stack(({self.number(depth - 1)}, {self.number(depth - 1)}), axis=0)",
                f"strided_slice(concatenate(({a}, {self.vector(0)}), axis=0), begin=[1], end=[3])",
                f"squeeze(expand_dims({a}, axis=1), axis=[1])",
                f"reshape(transpose(reshape({a}, newshape=[1, 2]), axes=[1, 0]), newshape=[2])",
            ]
        )


@pytest.mark.parametrize("lot", range(4))
def test_random_expressions_of_sizes(lot: int) -> None:
    for _ in range(12):
        seed = random.randrange(1 << 32)
        body = f"({_Sizes(seed).number(4)}, {_Sizes(seed + 1).vector(3)})"
        mod = module(body)
        main = GraphInterpreter(to_relax(mod))["main"]
        for count in (0, 1, 4):
            for got, wanted in zip(main(rows(count)), run(mod, rows(count)), strict=True):
                assert np.array_equal(got, wanted), (seed, body, count)
