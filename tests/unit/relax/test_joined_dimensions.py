"""What is said of the sizes of operators whose operands broadcast and whose sizes are free: only what holds
whichever of them turn out to be 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.graph.types import TensorType
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import SizeVar

OPERATORS = {
    "add": lambda x, y: relax.op.add(x, y),
    "less": lambda x, y: relax.op.less(x, y),
    "where": lambda x, y: relax.op.where(relax.op.less(x, y), x, y),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("sizes", [(3, 4, 1), (1, 4, 3), (3, 4, 3), (1, 1, 1), (0, 4, 1), (1, 0, 7)])
def test_rows_of_two_names(name: str, sizes: tuple[int, int, int]) -> None:
    """(m, n) and (k, n): the rows are those of neither."""
    m, n, k = SizeVar("m"), SizeVar("n"), SizeVar("k")
    x, y = relax.Var("x", TensorType((m, n), "float32")), relax.Var("y", TensorType((k, n), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        made: Any = builder.emit(OPERATORS[name](x, y))
        builder.emit_func_output(made)
    bound = dict(zip((m, n, k), sizes, strict=True))
    a, b = np.ones(sizes[:2], "float32"), np.ones((sizes[2], sizes[1]), "float32")
    wanted = np.broadcast_shapes(a.shape, b.shape)
    if made.ty.shape is not None:
        assert tuple(evaluate(dim, bound) for dim in made.ty.shape) == wanted
    machine = relax.VirtualMachine(heddle.compile(builder.get(), target="llvm"), heddle.cpu())
    assert tuple(machine["main"](a, b).shape) == wanted
