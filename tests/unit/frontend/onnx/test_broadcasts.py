"""Broadcasting where names say nothing: dimensions of different names, or none, of which one may be 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle.frontend.onnx import from_onnx
from heddle.graph.type_relations import symbolic_vars
from tests.unit.frontend.onnx.models import model, node
from tests.unit.frontend.onnx.runtime_oracle import Compared

SHAPES: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = (
    ((3, 4), (3, 4)),
    ((1, 4), (3, 4)),
    ((3, 1), (3, 4)),
    ((3, 4), (1, 1)),
    ((1, 4), (3, 1)),
    ((3, 4), (2, 4)),
    ((0, 4), (1, 4)),
    ((3, 4), (3, 0)),
    ((1, 1), (0, 0)),
    ((33, 67), (1, 67)),
    ((33, 67), (33, 1)),
    ((1, 67), (33, 1)),
)
CHAINS: dict[str, list[Any]] = {
    "one": [node("Add", ["a", "b"], ["y"])],
    "where": [node("Less", ["a", "b"], ["t"]), node("Where", ["t", "a", "b"], ["y"])],
    "ladder": [
        node("Add", ["a", "b"], ["t"]),
        node("Mul", ["t", "a"], ["u"]),
        node("Sub", ["b", "u"], ["v"]),
        node("Exp", ["v"], ["y"]),
    ],
    "reduced": [
        node("Add", ["a", "b"], ["t"]),
        node("Softmax", ["t"], ["u"]),
        node("Mul", ["u", "b"], ["y"]),
    ],
}


def floats(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape).astype("float32")


def said(a: tuple[int, ...], b: tuple[int, ...]) -> str:
    fits = all(x == y or 1 in (x, y) for x, y in zip(a, b, strict=True))
    return "equal" if fits else "V0401"


@pytest.mark.parametrize(
    "dims", [(("m", "n"), ("k", "l")), (("m", "n"), ("k", "n")), (("?", "?"), ("?", ""))]
)
@pytest.mark.parametrize("chain", CHAINS)
def test_elementwise(chain: str, dims: Any) -> None:
    inputs = {"a": (dims[0], "float32"), "b": (dims[1], "float32")}
    compared, rng = Compared(model(CHAINS[chain], inputs, ["y"])), np.random.default_rng(1)
    for a, b in SHAPES:
        if dims[0][1] == dims[1][1] == "n" and a[1] != b[1]:
            continue  # one name is one size
        assert compared.check({"a": floats(rng, *a), "b": floats(rng, *b)}, rtol=1e-4) == said(a, b)


def test_a_name_against_a_constant() -> None:
    inputs = {"a": (("m", "n"), "float32"), "b": (("k", 5), "float32")}
    compared, rng = Compared(model(CHAINS["ladder"], inputs, ["y"])), np.random.default_rng(2)
    for a, b in (((3, 5), (3, 5)), ((3, 1), (1, 5)), ((1, 5), (2, 5)), ((2, 4), (2, 5)), ((0, 1), (1, 5))):
        assert compared.check({"a": floats(rng, *a), "b": floats(rng, *b)}, rtol=1e-4) == said(a, b)


def test_three_names() -> None:
    inputs = {name: ((name * 2,), "float32") for name in "abc"}
    nodes = [node("Add", ["a", "b"], ["t"]), node("Add", ["t", "c"], ["u"]), node("Mul", ["u", "b"], ["y"])]
    compared, rng = Compared(model(nodes, inputs, ["y"])), np.random.default_rng(3)
    for sizes in ((1, 1, 7), (7, 1, 1), (1, 7, 1), (7, 7, 1), (1, 7, 7), (0, 1, 1), (1, 1, 1), (1, 7, 6)):
        feed = {name: floats(rng, size) for name, size in zip("abc", sizes, strict=True)}
        fits = len({size for size in sizes if size != 1}) <= 1
        assert compared.check(feed, rtol=1e-4) == ("equal" if fits else "V0401")


@pytest.mark.parametrize("dims", [(("m", "p", 8), ("k", 8, "q")), (("?", "?", "?"), ("?", "?", "?"))])
def test_products_of_batches(dims: Any) -> None:
    inputs = {"a": (dims[0], "float32"), "b": (dims[1], "float32")}
    compared = Compared(model([node("MatMul", ["a", "b"], ["y"])], inputs, ["y"]))
    rng = np.random.default_rng(4)
    for m, k in ((3, 3), (1, 3), (3, 1), (1, 1), (3, 2), (0, 0)):
        a, b = floats(rng, m, 5, 8), floats(rng, k, 8, 7)
        assert compared.check({"a": a, "b": b}, rtol=1e-4) == said((m,), (k,))


@pytest.mark.parametrize("dim", ["?", "-1", -1, None])
def test_products_of_unnamed_matrices(dim: Any) -> None:
    inputs = {"a": ((dim, dim), "float32"), "b": ((dim, dim), "float32")}
    compared = Compared(model([node("MatMul", ["a", "b"], ["y"])], inputs, ["y"]))
    rng = np.random.default_rng(5)
    for rows, depth, columns in ((2, 3, 4), (1, 7, 1), (5, 1, 2), (0, 3, 2), (13, 64, 17)):
        feed = {"a": floats(rng, rows, depth), "b": floats(rng, depth, columns)}
        assert compared.check(feed, rtol=1e-4) == "equal"
    assert compared.check({"a": floats(rng, 2, 3), "b": floats(rng, 4, 5)}) == "V0401"


@pytest.mark.parametrize("own", [(2, 1, 3), ("a", "b", "c")])
def test_expand_to_sizes_that_are_inputs(own: Any) -> None:
    inputs = {"x": (own, "float32"), "shape": ((3,), "int64")}
    compared = Compared(model([node("Expand", ["x", "shape"], ["y"])], inputs, ["y"]))
    rng = np.random.default_rng(6)
    for have in ((2, 1, 3), (1, 1, 1), (1, 5, 0)) if "a" in own else ((2, 1, 3),):
        for want in ((2, 4, 3), (1, 1, 1), (2, 1, 3), (1, 7, 1), (2, 0, 3), (3, 1, 3), (2, 5, 1), (1, 1, 0)):
            feed = {"x": floats(rng, *have), "shape": np.array(want)}
            assert compared.check(feed) == said(have, want)


def test_dimensions_without_a_name_are_of_their_own() -> None:
    inputs = {"a": (("?", "", "n"), "float32"), "a_d0": (("?", "a_d0", "n"), "float32")}
    nodes = [node("Identity", ["a"], ["y"]), node("Identity", ["a_d0"], ["z"])]
    first, second = (
        symbolic_vars(param.ty) for param in from_onnx(model(nodes, inputs, ["y", "z"]))["main"].params
    )
    assert len({*first, *second}) == 5
    assert first[2] is second[2]


@pytest.mark.parametrize(
    "names",
    [("N", "N "), ("N", " N"), ("a.b", "a_b"), ("a-b", "a b"), ("n", "N"), ("K", "\u212a"), ("if", "if_")],
)
def test_names_that_differ_are_different_sizes(names: tuple[str, str]) -> None:
    made = model([node("Add", ["x", "x"], ["y"])], {"x": list(names)}, ["y"])
    [x] = from_onnx(made)["main"].params
    assert len(symbolic_vars(x.ty)) == 2
