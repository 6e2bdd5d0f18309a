"""IndexWholeRows: rows with one index each are gathered and scattered as rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.ir.expr import Expr, Var
from heddle.ir.module import IRModule
from heddle.ir.visitor import walk
from heddle.prim.nodes import SizeVar
from heddle.relax import BlockBuilder, TensorType, op
from heddle.relax.interpreter import GraphInterpreter
from heddle.relax.transform.index_whole_rows import IndexWholeRows
from heddle.support.diagnostics import HeddleError

N, E, D = (SizeVar(name) for name in ("n", "e", "d"))
REDUCTIONS = ("update", "add", "mul", "min", "max", "mean")


def names(mod: IRModule) -> list[str]:
    return [node.op.name for node in walk(mod["main"]) if hasattr(node, "op") and hasattr(node.op, "name")]


def spread(at: Expr, dims: Any, way: str) -> Expr:
    """Indices repeated to `dims`, all of them static where `way` is tile."""
    if way == "broadcast_to":
        return op.broadcast_to(at, dims)
    given = at.ty.shape.values
    return op.tile(at, [int(b) if int(a) == 1 else 1 for a, b in zip(given, dims, strict=True)])


def gathering(data: Any, at: Any, dims: Any, axis: int, way: str = "broadcast_to") -> IRModule:
    x, i = Var("x", TensorType(data, "float32")), Var("i", TensorType(at, "int64"))
    builder = BlockBuilder()
    with builder.function("main", [x, i]):
        with builder.dataflow():
            repeated = builder.emit(spread(i, dims, way))
            out = builder.emit_output(op.gather_elements(x, repeated, axis=axis))
        builder.emit_func_output(out)
    return builder.get()


def scattering(data: Any, at: Any, dims: Any, axis: int, reduction: str) -> IRModule:
    x, i = Var("x", TensorType(data, "float32")), Var("i", TensorType(at, "int64"))
    u = Var("u", TensorType(dims, "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x, i, u]):
        with builder.dataflow():
            repeated = builder.emit(op.broadcast_to(i, dims))
            out = builder.emit_output(op.scatter_elements(x, repeated, u, axis=axis, reduction=reduction))
        builder.emit_func_output(out)
    return builder.get()


def assert_agree(mod: IRModule, *args: Any) -> None:
    expected = np.asarray(GraphInterpreter(mod)["main"](*args))
    for exec_mode in ("bytecode", "compiled"):
        machine = relax.VirtualMachine(heddle.compile(mod, exec_mode=exec_mode), heddle.cpu())
        np.testing.assert_allclose(np.asarray(machine["main"](*args)), expected, rtol=1e-6)


GATHERS: list[tuple[Any, Any, Any, int, str]] = [
    ((7, 5), (4, 1), (4, 5), 0, "broadcast_to"),
    ((7, 5), (4, 1), (4, 5), 0, "tile"),
    ((7, 3, 5), (4, 1, 1), (4, 3, 5), 0, "tile"),
    ((7, 3, 5), (4, 1, 1), (4, 3, 5), -3, "broadcast_to"),
    ((2, 7, 5), (2, 4, 1), (2, 4, 5), 1, "broadcast_to"),
    ((2, 7, 5), (4, 1), (2, 4, 5), 1, "broadcast_to"),  # one list of indices for the batch
    ((2, 7, 5), (1, 1, 1), (2, 4, 5), 1, "broadcast_to"),
    ((N, D), (E, 1), (E, D), 0, "broadcast_to"),
    ((N, 7, D), (N, E, 1), (N, E, D), 1, "broadcast_to"),
]
SIZES = {N: 3, E: 6, D: 4}


def sized(dims: Any, sizes: dict[Any, int] | None = None) -> tuple[int, ...]:
    return tuple((sizes or SIZES).get(dim, dim) for dim in dims)


@pytest.mark.parametrize("data, at, dims, axis, way", GATHERS)  # noqa: PT006
def test_gathers_of_rows(data: Any, at: Any, dims: Any, axis: int, way: str) -> None:
    mod = gathering(data, at, dims, axis, way)
    made = names(IndexWholeRows()(mod))
    assert "relax.gather_nd" in made and "relax.gather_elements" not in made
    rng = np.random.default_rng()
    rows = sized(data)[axis]
    x = rng.standard_normal(sized(data)).astype("float32")
    assert_agree(mod, x, rng.integers(-rows, rows, sized(at)))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("data, at, dims", [((7, 5), (9, 1), (9, 5)), ((N, 2, D), (E, 1, 1), (E, 2, D))])  # noqa: PT006
def test_scatters_of_rows(data: Any, at: Any, dims: Any, reduction: str) -> None:
    """More rows than places: some are written twice, the last one last."""
    mod = scattering(data, at, dims, 0, reduction)
    made = names(IndexWholeRows()(mod))
    assert "relax.scatter_nd" in made and "relax.scatter_elements" not in made
    rng = np.random.default_rng()
    x, u = (rng.standard_normal(sized(s)).astype("float32") for s in (data, dims))
    assert_agree(mod, x, rng.integers(-3, 3, sized(at)), u)


@pytest.mark.parametrize(
    ("data", "at", "dims", "axis"),
    [
        ((7, 6), (4, 1), (4, 5), 0),  # not whole rows
        ((N, D), (E, 1), (E, 5), 0),  # who knows
        ((7, 5), (1, 5), (4, 5), 0),  # one index for a column
        ((7, 5), (4, 1), (4, 5), 1),  # along the row itself
        ((3, 7, 5), (2, 4, 1), (2, 4, 5), 1),  # not the whole batch
    ],
)
def test_other_gathers_stay(data: Any, at: Any, dims: Any, axis: int) -> None:
    mod = gathering(data, at, dims, axis)
    assert names(IndexWholeRows()(mod)) == names(mod)


def test_scatters_along_another_axis_stay() -> None:
    mod = scattering((2, 7, 5), (2, 4, 1), (2, 4, 5), 1, "add")
    assert names(IndexWholeRows()(mod)) == names(mod)


@pytest.mark.parametrize("rows, edges", [(0, 0), (1, 1), (5, 1), (1, 4), (3, 0)])  # noqa: PT006
def test_few_rows(rows: int, edges: int) -> None:
    sizes = {N: rows, E: edges, D: 3}
    x, u = (np.ones(sized(s, sizes), "float32") for s in ((N, D), (E, D)))
    at = np.zeros((edges, 1), "int64")
    assert_agree(gathering((N, D), (E, 1), (E, D), 0), x, at)
    assert_agree(scattering((N, D), (E, 1), (E, D), 0, "add"), x, at, u)


@pytest.mark.parametrize("bad", [7, -8])
def test_an_index_out_of_range_is_named(bad: int) -> None:
    at = np.asarray([[0], [bad], [2], [9]])
    x, u = np.ones((7, 5), "float32"), np.ones((4, 5), "float32")
    for mod, args in (
        (gathering((7, 5), (4, 1), (4, 5), 0), (x, at)),
        (scattering((7, 5), (4, 1), (4, 5), 0, "add"), (x, at, u)),
    ):
        machine = relax.VirtualMachine(heddle.compile(mod), heddle.cpu())
        with pytest.raises(HeddleError, match=rf"U1001.*index {bad} is out of range"):
            machine["main"](*args)
