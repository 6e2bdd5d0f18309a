"""What each lowering pass does: the shape of its result, and that the result computes the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from heddle.codegen import as_module
from heddle.ir.transform import Pass, PassContext
from heddle.ir.visitor import walk
from heddle.prim import intrinsics, ops
from heddle.prim.nodes import Call, IntImm, Ramp, Var
from heddle.tir.allocation import STORAGE
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import (
    AllocBuffer,
    Bind,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    Stmt,
    decl_buffer,
    seq,
)
from heddle.tir.transform import (
    BF16Legalize,
    FlattenBuffer,
    HoistIfThenElse,
    RemoveAssume,
    RemoveNoOp,
    Simplify,
    StorageRewrite,
    UnrollLoop,
    VectorizeLoop,
)

SERIAL, VECTORIZED = ForKind.SERIAL, ForKind.VECTORIZED
UNROLLED, PARALLEL = ForKind.UNROLLED, ForKind.PARALLEL
n, m = Var("n", "int64"), Var("m", "int64")
i, j, k = Var("i", "int64"), Var("j", "int64"), Var("k", "int64")


def func_of(params: Any, body: Stmt) -> PrimFunc:
    return PrimFunc(params, body, attrs={"global_symbol": "f", "tir.noalias": True})


def apply(step: Pass, func: PrimFunc) -> PrimFunc:
    result = step(as_module(func))["f"]
    assert isinstance(result, PrimFunc)
    assert step(as_module(result))["f"] is not None
    return result


def nodes(func: PrimFunc, kind: type) -> list[Any]:
    return [node for node in walk(func.body) if isinstance(node, kind)]


def agree(before: PrimFunc, after: PrimFunc, make: Callable[[], list[Any]]) -> None:
    one, two = make(), make()
    run_primfunc(before, *one)
    run_primfunc(after, *two)
    for left, right in zip(one, two, strict=True):
        np.testing.assert_array_equal(left, right)


def floats(*shape: int) -> Any:
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def test_flatten_buffer_uses_strides_and_offsets() -> None:
    s = Var("s", "int64")
    a = decl_buffer((n, 4), "float32", "A", strides=(s, 1))
    b = decl_buffer((n, 4), "float32", "B")
    func = func_of((a, b), For(i, 0, n, SERIAL, For(j, 0, 4, SERIAL, BufferStore(b, a[i, j] + 1.0, (i, j)))))
    after = apply(FlattenBuffer(), func)
    assert all(len(load.indices) == 1 for load in nodes(after, BufferLoad))
    wide = floats(5, 6)
    agree(func, after, lambda: [wide[:, 1:5], np.zeros((5, 4), np.float32)])


def test_flatten_buffer_leaves_flat_functions_alone() -> None:
    a = decl_buffer((n,), "float32", "A")
    func = func_of((a,), For(i, 0, n, SERIAL, BufferStore(a, 0.0, (i,))))
    assert apply(FlattenBuffer(), func) is func


def guarded(extent: int) -> PrimFunc:
    a, b = decl_buffer((n,), "float32", "A"), decl_buffer((n,), "float32", "B")
    at = i * extent + j
    body = IfThenElse(at < n, BufferStore(b, a[at] * a[0], (at,)))
    return func_of((a, b), For(i, 0, ops.ceildiv(n, extent), SERIAL, For(j, 0, extent, VECTORIZED, body)))


def test_vectorize_loop_turns_guards_into_predicates() -> None:
    func = guarded(8)
    after = apply(VectorizeLoop(), func)
    (store,) = nodes(after, BufferStore)
    assert isinstance(store.indices[0], Ramp)
    assert store.predicate is not None
    assert not [loop for loop in nodes(after, For) if loop.kind is VECTORIZED]
    for size in (0, 1, 7, 8, 19):
        agree(func, after, lambda size=size: [floats(size), np.zeros(size, np.float32)])


def test_vectorize_loop_keeps_invariant_loads_scalar() -> None:
    after = apply(VectorizeLoop(), guarded(8))
    assert [load.dtype for load in nodes(after, BufferLoad)] == ["float32x8", "float32"]


def test_vectorize_loop_scalarises_what_has_no_vector_form() -> None:
    a = decl_buffer((1,), "float32", "A")
    func = func_of((a,), For(j, 0, 8, VECTORIZED, BufferStore(a, a[0] + 1.0, (0,))))
    (loop,) = nodes(apply(VectorizeLoop(), func), For)
    assert loop.kind is SERIAL


def test_vectorize_loop_gives_private_memory_a_place_for_each_lane() -> None:
    a, t = decl_buffer((8,), "float32", "A"), decl_buffer((2,), "float32", "t", scope="local")
    fill = For(k, 0, 2, SERIAL, BufferStore(t, a[j] + ops.cast("float32", k), (k,)))
    func = func_of(
        (a,), For(j, 0, 8, VECTORIZED, seq(AllocBuffer(t), fill, BufferStore(a, t[0] * t[1], (j,))))
    )
    after = apply(VectorizeLoop(), func)
    (alloc,) = nodes(after, AllocBuffer)
    assert alloc.buffer.shape[0].value == 16
    agree(func, after, lambda: [floats(8)])


def test_vectorized_inner_reduction() -> None:
    a, b = decl_buffer((m, 8), "float32", "A"), decl_buffer((8,), "float32", "B")
    body = For(k, 0, m, SERIAL, BufferStore(b, b[j] + a[k, j], (j,)))
    func = apply(FlattenBuffer(), func_of((a, b), For(j, 0, 8, VECTORIZED, body)))
    after = apply(VectorizeLoop(), func)
    assert {load.dtype for load in nodes(after, BufferLoad)} == {"float32x8"}
    agree(func, after, lambda: [floats(3, 8), np.zeros(8, np.float32)])


def test_unroll_loop_copies_definitions() -> None:
    a, x = decl_buffer((6,), "float32", "A"), Var("x", "float32")
    body = seq(Bind(x, a[i] * 2.0), BufferStore(a, x + 1.0, (i,)))
    func = func_of((a,), For(i, 0, 6, UNROLLED, body))
    after = apply(UnrollLoop(), func)
    assert not nodes(after, For)
    assert len({bind.var for bind in nodes(after, Bind)}) == 6
    agree(func, after, lambda: [floats(6)])


def test_unroll_loop_makes_local_indices_constant() -> None:
    a, t = decl_buffer((4,), "float32", "A"), decl_buffer((4,), "float32", "t", scope="local")
    fill = For(i, 0, 4, SERIAL, BufferStore(t, a[i], (i,)))
    func = func_of((a,), seq(AllocBuffer(t), fill, For(j, 0, 4, SERIAL, BufferStore(a, t[3 - j], (j,)))))
    after = apply(UnrollLoop(), func)
    local = [node for node in nodes(after, BufferLoad) if node.buffer.name == "t"]
    assert all(isinstance(node.indices[0], IntImm) for node in local)
    agree(func, after, lambda: [floats(4)])


def test_unroll_loop_obeys_its_option() -> None:
    a = decl_buffer((4,), "float32", "A")
    func = func_of((a,), For(i, 0, 4, SERIAL, BufferStore(a, 0.0, (i,))))
    assert apply(UnrollLoop(), func) is func
    with PassContext(config={"tir.UnrollLoop.auto_max_step": 4}):
        assert not nodes(apply(UnrollLoop(), func), For)


def chain(sizes: tuple[Any, ...]) -> PrimFunc:
    """A → T0 → T1 → ... → A, each temporary used only by its successor."""
    a = decl_buffer((n,), "float32", "A")
    temps = [decl_buffer((size,), "float32", f"T{p}") for p, size in enumerate(sizes)]
    steps: list[Stmt] = []
    source: Buffer = a
    for temp in [*temps, a]:
        x = Var("x", "int64")
        if temp is not a:
            steps.append(AllocBuffer(temp))
        steps.append(For(x, 0, n, SERIAL, BufferStore(temp, source[x] + 1.0, (x,))))
        source = temp
    return func_of((a,), seq(*steps))


def test_storage_rewrite_shares_memory_of_disjoint_lives() -> None:
    func = chain((2000, 1000, 3000, 600))
    after = apply(StorageRewrite(), func)
    allocs = nodes(after, AllocBuffer)
    assert [alloc.buffer.shape[0].value for alloc in allocs] == [3008, 1008]
    assert [alloc.annotations[STORAGE] for alloc in allocs] == ["stack", "stack"]
    assert len(nodes(after, DeclBuffer)) == 4
    agree(func, after, lambda: [floats(77)])


def test_storage_rewrite_shares_symbolic_sizes_only_where_equal() -> None:
    func = chain((n, n * 2, n))
    after = apply(StorageRewrite(), func)
    allocs = nodes(after, AllocBuffer)
    assert len(allocs) == 2
    assert all(alloc.annotations[STORAGE] == "workspace" for alloc in allocs)
    agree(func, after, lambda: [floats(9)])


def test_storage_rewrite_respects_loops() -> None:
    """T lives through the loop that reads it, so U inside the loop cannot take its place."""
    a = decl_buffer((1000,), "float32", "A")
    t, u = decl_buffer((1000,), "float32", "T"), decl_buffer((1000,), "float32", "U")
    fill = For(i, 0, 1000, SERIAL, BufferStore(t, a[i] * 2.0, (i,)))
    inner = seq(
        AllocBuffer(u),
        For(j, 0, 1000, SERIAL, BufferStore(u, t[j] + 1.0, (j,))),
        For(m, 0, 1000, SERIAL, BufferStore(a, u[m], (m,))),
    )
    func = func_of((a,), seq(AllocBuffer(t), fill, For(k, 0, 2, SERIAL, inner)))
    after = apply(StorageRewrite(), func)
    assert len(nodes(after, AllocBuffer)) == 2
    agree(func, after, lambda: [floats(1000)])


def test_storage_of_a_parallel_iteration_is_its_own() -> None:
    a, t = decl_buffer((4, 1000), "float32", "A"), decl_buffer((1000,), "float32", "T")
    row = seq(
        AllocBuffer(t),
        For(j, 0, 1000, SERIAL, BufferStore(t, a[i, j] * 2.0, (j,))),
        For(k, 0, 1000, SERIAL, BufferStore(a, t[999 - k], (i, k))),
    )
    func = apply(FlattenBuffer(), func_of((a,), For(i, 0, 4, PARALLEL, row)))
    after = apply(StorageRewrite(), func)
    (loop,) = [loop for loop in nodes(after, For) if loop.kind is PARALLEL]
    assert any(isinstance(node, AllocBuffer) for node in walk(loop.body))
    agree(func, after, lambda: [floats(4, 1000)])


def test_simplify_uses_ranges_and_conditions() -> None:
    a = decl_buffer((n,), "float32", "A")
    inner = IfThenElse(ops.logical_and(i < n, i >= 0), BufferStore(a, 1.0, (i + ops.floordiv(j, 4),)))
    func = func_of((a,), For(i, 0, n, SERIAL, For(j, 0, 4, SERIAL, inner)))
    after = apply(Simplify(), func)
    assert not nodes(after, IfThenElse)
    (store,) = nodes(after, BufferStore)
    assert store.indices[0] is i
    assert apply(Simplify(), after) is after


def test_simplify_resolves_loops_of_one_and_no_iteration() -> None:
    a = decl_buffer((4,), "float32", "A")
    one = For(i, 2, 1, SERIAL, BufferStore(a, 1.0, (i,)))
    none = For(j, 0, 0, SERIAL, BufferStore(a, 2.0, (j,)))
    after = apply(Simplify(), func_of((a,), seq(one, none)))
    assert isinstance(after.body, BufferStore)
    assert after.body.indices[0].value == 2


def test_simplify_leaves_wrapping_values_alone() -> None:
    a = decl_buffer((4,), "int32", "A")
    value = ops.select(a[i] + 1 > a[i], ops.const(1), ops.const(0))
    func = func_of((a,), For(i, 0, 4, SERIAL, BufferStore(a, value, (i,))))
    after = apply(Simplify(), func)
    top = np.full(4, 2**31 - 1, np.int32)
    agree(func, after, lambda: [top.copy()])


def test_hoist_if_then_else_moves_invariant_conditions_out() -> None:
    a = decl_buffer((n,), "float32", "A")
    flag = Var("flag", "int32")
    branch = IfThenElse(ops.greater(flag, 2), BufferStore(a, 1.0, (i,)), BufferStore(a, 2.0, (i,)))
    func = PrimFunc((a, flag), For(i, 0, n, SERIAL, branch), attrs={"global_symbol": "f"})
    after = apply(HoistIfThenElse(), func)
    assert isinstance(after.body, IfThenElse)
    assert len({loop.loop_var for loop in nodes(after, For)}) == 2
    for value in (1, 5):
        agree(func, after, lambda value=value: [floats(3), value])


def test_hoist_if_then_else_leaves_conditions_that_read_memory() -> None:
    a = decl_buffer((n,), "float32", "A")
    func = func_of((a,), For(i, 0, n, SERIAL, IfThenElse(a[0] > 0.0, BufferStore(a, 1.0, (i,)))))
    assert apply(HoistIfThenElse(), func) is func


def test_remove_no_op_drops_what_has_no_effect() -> None:
    a, t, x = decl_buffer((4,), "float32", "A"), decl_buffer((4,), "float32", "T"), Var("x", "float32")
    func = func_of(
        (a,),
        seq(
            AllocBuffer(t),
            Bind(x, a[0] * 2.0),
            For(i, 0, 4, SERIAL, BufferStore(a, a[i], (i,))),
            Evaluate(a[1]),
            BufferStore(a, 3.0, (2,)),
        ),
    )
    after = apply(RemoveNoOp(), func)
    assert isinstance(after.body, BufferStore)


def test_remove_assume() -> None:
    a = decl_buffer((n,), "float32", "A")
    promise = Evaluate(ops.call_intrin("bool", "assume", n > 0))
    after = apply(RemoveAssume(), func_of((a,), seq(promise, BufferStore(a, 3.0, (0,)))))
    assert isinstance(after.body, BufferStore)


def test_bf16_legalize_computes_in_float32() -> None:
    a = decl_buffer((8,), "bfloat16", "A")
    value = ops.maximum(a[i] * a[i] + 1.0, a[i])
    func = func_of((a,), For(i, 0, 8, SERIAL, BufferStore(a, value, (i,))))
    after = apply(BF16Legalize(), func)
    arithmetic = [node for node in walk(after.body) if getattr(node, "symbol", "") in ("+", "*")]
    assert {node.dtype for node in arithmetic} == {"float32"}
    (store,) = nodes(after, BufferStore)
    assert store.value.dtype == "bfloat16"
    strict = apply(BF16Legalize(strict=True), func)
    data = np.random.default_rng(0).uniform(-2, 2, 8).astype(a.dtype.numpy())
    agree(func, strict, lambda: [data.copy()])


def test_masked_division_does_not_divide_by_zero() -> None:
    a, b = decl_buffer((8,), "int32", "A"), decl_buffer((8,), "int32", "B")
    body = IfThenElse(ops.not_equal(a[j], 0), BufferStore(b, ops.floordiv(100, a[j]), (j,)))
    func = func_of((a, b), For(j, 0, 8, VECTORIZED, body))
    after = apply(VectorizeLoop(), func)
    agree(func, after, lambda: [np.array([0, 1, 0, -3, 7, 0, 9, 2], np.int32), np.zeros(8, np.int32)])


def test_vector_loop_with_effectful_call_stays_serial() -> None:
    a = decl_buffer((8,), "float32", "A")
    call = Evaluate(intrinsics.call_extern("int32", "puts_lane", ops.cast("int32", j)))
    after = apply(VectorizeLoop(), func_of((a,), For(j, 0, 8, VECTORIZED, call)))
    (loop,) = nodes(after, For)
    assert loop.kind is SERIAL
    assert len(nodes(after, Call)) == 1


def test_vectorized_condition_is_decided_before_its_branches_run() -> None:
    """The first branch changes what the condition reads."""
    a = decl_buffer((8,), "int32", "A")
    body = IfThenElse(ops.less(a[j], 4), BufferStore(a, a[j] + 10, (j,)), BufferStore(a, a[j] - 100, (j,)))
    func = func_of((a,), For(j, 0, 8, VECTORIZED, body))
    after = apply(VectorizeLoop(), func)
    agree(func, after, lambda: [np.arange(8, dtype=np.int32)])
