"""What the graphs' oracle answers by itself, and where it has no answer."""

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.fuzz.graphs import oracle
from tests.fuzz.graphs.bodies import by_slices
from tests.fuzz.graphs.steps import decides_a_step


@pytest.mark.parametrize("seed", range(12))
def test_scans_are_answered_slice_by_slice_as_at_once(seed):
    """By the oracle, as by ONNX Runtime: any axes and directions, two inputs, two results that collect."""
    rng = np.random.default_rng(seed)
    axes = [int(item) for item in rng.integers(0, 2, 4)]
    there = [int(item) for item in rng.integers(0, 2, 4)]
    double, info = onnx.TensorProto.DOUBLE, helper.make_tensor_value_info
    nodes = [
        helper.make_node("Add", ["state", "a"], ["next"]),
        helper.make_node("Mul", ["next", "b"], ["row"]),
        helper.make_node("Sub", ["a", "beside"], ["other"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [info(name, double, [3]) for name in ("state", "a", "b")],
        [info(name, double, [3]) for name in ("next", "row", "other")],
    )
    node = helper.make_node(
        "Scan",
        ["s", "x", "z"],
        ["last", "rows", "others"],
        body=body,
        num_scan_inputs=2,
        scan_input_axes=[-axes[0], axes[1]],
        scan_input_directions=there[:2],
        scan_output_axes=[-axes[2], axes[3]],
        scan_output_directions=there[2:],
    )
    shapes = [(5, 3) if axis == 0 else (3, 5) for axis in axes[:2]]
    given = {name: rng.standard_normal(shape) for name, shape in zip("xz", shapes, strict=True)}
    given |= {"s": rng.standard_normal(3), "beside": np.asarray(0.5)}
    for mine, wanted in zip(
        by_slices(oracle.evaluate, node, given, 18), oracle._by_runtime(node, given, 18), strict=True
    ):
        np.testing.assert_array_equal(mine, wanted)
    empty = {
        name: np.zeros((0, 3) if axis == 0 else (3, 0)) for name, axis in zip("xz", axes[:2], strict=True)
    }
    with pytest.raises(oracle.Refused):
        by_slices(oracle.evaluate, node, given | empty, 18)


_THIRD = np.float32(1) / 3
_ABOVE = np.nextafter(_THIRD, np.float32(1))


@pytest.mark.parametrize(
    ("op", "items", "decides"),
    [
        ("Unique", (_THIRD, _ABOVE, 0.5), True),
        ("Unique", (_THIRD, _THIRD, 0.5), False),
        ("Hardmax", (_THIRD, _ABOVE, 0.1), True),
        ("Hardmax", (_THIRD, 0.5, 0.1), False),
        ("TopK", (_THIRD, _ABOVE, 0.1), True),
        ("TopK", (_THIRD, 0.5, 0.1), False),
        ("Equal", (_THIRD, 0.5, 0.1), True),
        ("Equal", (0.25, 0.5, 0.1), False),
        ("Floor", (np.float32(2) - np.float32(2**-20), 0.5, 0.1), True),
        ("Floor", (1.5, 0.5, 0.1), False),
        ("Neg", (_THIRD, _ABOVE, 0.1), False),
        ("NonZero", (1e-8, 0.5, 0.1), True),
        ("NonZero", (0.0, 0.5, 0.1), False),
        ("Sign", (-1e-8, 0.5, 0.1), True),
        ("Sign", (-0.25, 0.0, 0.1), False),
    ],
)
def test_nodes_are_refused_where_rounding_decides_what_they_choose(op, items, decides):
    """Equal elements that come from one value move together."""
    clean = {"x": np.asarray(items, "float32")[None]}
    unit = np.float32(2**-24)
    noisy = {"x": clean["x"] + unit * np.where(clean["x"] == _ABOVE, -1, 1) * clean["x"]}
    names, more = {
        "TopK": (["x", "k"], {"k": np.asarray([1])}),
        "Equal": (["x", "third"], {"third": _ABOVE}),
    }.get(op, (["x"], {}))
    more = {name: np.asarray(value) for name, value in more.items()}
    node = helper.make_node(op, names, ["y", "i"] if op == "TopK" else ["y"])

    def run(given):
        return oracle.evaluate(node, given, 18)

    given = clean | more
    assert decides_a_step(node, given, noisy | more, run(given), run) == decides


def test_rows_of_four_bits_are_collected_by_the_oracle():
    """ONNX Runtime ends the process where a row has an odd number of them."""
    info, tensor = helper.make_tensor_value_info, onnx.TensorProto
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["going"], ["goes"]),
            helper.make_node("Cast", ["x"], ["row"], to=tensor.INT4),
        ],
        "body",
        [info("turn", tensor.INT64, []), info("going", tensor.BOOL, [])],
        [info("goes", tensor.BOOL, []), info("row", tensor.INT4, [1, 3])],
    )
    x = np.array([[1.0, -2.0, 7.0]], np.float32)
    (rows,) = oracle.evaluate(
        helper.make_node("Loop", ["count", ""], ["rows"], body=body), {"count": np.array(4), "x": x}, 21
    )
    np.testing.assert_array_equal(rows.astype(np.int64), np.tile(x.astype(np.int64), (4, 1, 1)))
