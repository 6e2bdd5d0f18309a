"""Axes, bounds, counts, amounts and scales that are inputs of the running model, against ONNX Runtime."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from heddle.support.diagnostics import HeddleError
from tests.unit.frontend.onnx.models import model, node
from tests.unit.frontend.onnx.runtime_oracle import Compared

FREE = ["n", "m", "k"]
SHAPES = ((2, 3, 5), (1, 7, 1), (0, 2, 3), (1, 1, 1))


def _data(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).integers(-9, 10, size=shape).astype(dtype)


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceLogSumExp"])
def test_axes_of_reductions(op: str, keep: int) -> None:
    inputs = {"x": (FREE, "float32"), "axes": ((2,), "int64")}
    compared = Compared(model([node(op, ["x", "axes"], ["y"], keepdims=keep)], inputs, ["y"]))
    for shape, axes in itertools.product(SHAPES, ((0, 1), (2, 0), (-1, 1), (-3, -2))):
        if 0 in shape and op != "ReduceSum":
            continue  # of nothing: the standard says -inf or NaN, ONNX Runtime refuses some
        assert compared.check({"x": _data(shape), "axes": np.array(axes)}, rtol=1e-4) == "equal"
    for axes in ((0, 3), (-4, 1)):
        assert compared.check({"x": _data((2, 3, 5)), "axes": np.array(axes)}) != "equal"
    assert compared.check({"x": _data((2, 3, 5)), "axes": np.array([1, -2])}, refuses=True) != "equal"


def test_axes_that_come_and_go() -> None:
    nodes = [node("Unsqueeze", ["x", "a"], ["y"]), node("Squeeze", ["y", "b"], ["z"])]
    inputs = {"x": (FREE, "int64"), "a": ((2,), "int64"), "b": ((1,), "int64")}
    compared = Compared(model(nodes, inputs, ["y", "z"]))
    for shape, a in itertools.product(SHAPES, ((0, 1), (4, 2), (-1, 0), (1, -3))):
        for b in (a[0], a[1]):
            feed = {"x": _data(shape, "int64"), "a": np.array(a), "b": np.array([b])}
            assert compared.check(feed) == "equal"
    wrong = {"x": _data((2, 3, 5), "int64"), "a": np.array([0, 1]), "b": np.array([3])}
    assert compared.check(wrong) != "equal"  # an axis of 3


@pytest.mark.parametrize(("exclusive", "reverse"), list(itertools.product((0, 1), (0, 1))))
def test_axis_of_running_sums(exclusive: int, reverse: int) -> None:
    made = node("CumSum", ["x", "axis"], ["y"], exclusive=exclusive, reverse=reverse)
    compared = Compared(model([made], {"x": (FREE, "float32"), "axis": ((), "int32")}, ["y"]))
    for shape, axis in itertools.product(SHAPES[:2], (-3, -1, 0, 1, 2)):
        assert compared.check({"x": _data(shape), "axis": np.array(axis, "int32")}) == "equal"
    assert compared.check({"x": _data((2, 3, 5)), "axis": np.array(3, "int32")}) != "equal"


def test_slices_of_which_everything_is_an_input() -> None:
    names = ["starts", "ends", "axes", "steps"]
    inputs = {"x": (["n", "m"], "float32"), **dict.fromkeys(names, ((1,), "int64"))}
    compared = Compared(model([node("Slice", ["x", *names], ["y"])], inputs, ["y"]))
    big = np.iinfo(np.int64).max
    bounds = (0, 1, -1, 4, -7, big, -big - 1)
    for start, end, step in itertools.product(bounds, bounds, (1, 2, -1, -3, big, -big)):
        for shape, axis in (((5, 2), 0), ((1, 4), -1), ((0, 3), 0)):
            feed = {"x": _data(shape), "starts": [start], "ends": [end], "axes": [axis], "steps": [step]}
            arrays = {name: np.asarray(value) for name, value in feed.items()}
            wanted = _sliced(arrays["x"], axis, start, end, step)
            assert compared.check(arrays, [wanted]) == "equal"
    zero = {"starts": [0], "ends": [1], "axes": [0], "steps": [0]}
    feed = {"x": _data((5, 2)), **{name: np.asarray(value) for name, value in zero.items()}}
    assert compared.check(feed, refuses=True) != "equal"


def _sliced(x: np.ndarray[Any, Any], axis: int, start: int, end: int, step: int) -> np.ndarray[Any, Any]:
    """The standard's rule: a start before the first is the first, for negative steps too."""
    size = x.shape[axis]
    first = max(start, -size) if step < 0 else start
    place = [slice(None), slice(None)]
    place[axis] = slice(first, end, step)
    return x[tuple(place)].copy()


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_amounts_of_padding(mode: str) -> None:
    names = ["pads", "value", "axes"]
    inputs = {
        "x": (["n", "m"], "float32"),
        "pads": ((4,), "int64"),
        "value": ((), "float32"),
        "axes": ((2,), "int64"),
    }
    compared = Compared(model([node("Pad", ["x", *names], ["y"], mode=mode)], inputs, ["y"], opset=19))
    for pads, axes in itertools.product(
        ((0, 0, 0, 0), (1, 2, 0, 1), (-1, 0, 1, 1), (0, -2, 0, -1)), ((0, 1), (-1, 0))
    ):
        x, value = _data((3, 5)), np.array(2.5, "float32")
        feed = {"x": x, "pads": np.array(pads), "value": value, "axes": np.array(axes)}
        assert compared.check(feed, [_padded(x, pads, axes, mode, value)]) == "equal"


@pytest.mark.parametrize("mode", ["edge", "wrap", "reflect"])
def test_constant_amounts_on_free_axes(mode: str) -> None:
    stored = {"pads": np.array([1, 0, 2, 3])}
    made = node("Pad", ["x", "pads"], ["y"], mode=mode)
    compared = Compared(model([made], {"x": (["n", "m"], "float32")}, ["y"], stored, opset=19))
    for shape in ((3, 5), (7, 4)):
        x = _data(shape)
        assert compared.check({"x": x}, [np.pad(x, ((1, 2), (0, 3)), mode)]) == "equal"  # type: ignore[call-overload]
    assert compared.check({"x": _data((0, 4))}, refuses=True) != "equal"


def _padded(x: Any, pads: tuple[int, ...], axes: tuple[int, ...], mode: str, value: Any) -> Any:
    """Negative amounts cut first."""
    pairs = [(0, 0), (0, 0)]
    for k, axis in enumerate(axes):
        pairs[axis] = (pads[k], pads[k + 2])
    cut = x[tuple(slice(max(0, -a), n - max(0, -b)) for (a, b), n in zip(pairs, x.shape, strict=True))]
    grow = [(max(0, a), max(0, b)) for a, b in pairs]
    return np.pad(cut, grow, mode, **({"constant_values": value} if mode == "constant" else {}))


def test_counts() -> None:
    nodes = [
        node("TopK", ["x", "k"], ["values", "places"], axis=1),
        node("OneHot", ["i", "depth", "v"], ["hot"]),
        node("Trilu", ["x", "d"], ["lower"], upper=0),
        node("Tile", ["x", "r"], ["tiled"]),
    ]
    one = dict.fromkeys(("k", "depth"), ((1,), "int64"))
    inputs = {"x": (["n", "m"], "float32"), "i": (["n"], "int64"), "v": ((2,), "float32"), **one}
    inputs |= {"d": ((), "int64"), "r": ((2,), "int64")}
    compared = Compared(model(nodes, inputs, ["values", "places", "hot", "lower", "tiled"]))
    for k, depth, d, r in ((0, 1, -9, (0, 2)), (1, 3, 0, (1, 1)), (5, 7, 2, (3, 2)), (4, 2, 9, (1, 0))):
        feed = {
            "x": np.random.default_rng(k).standard_normal((4, 5)).astype("float32"),
            "i": np.array([0, 1, -1, 6]),
            "v": np.array([-1, 2], "float32"),
            "k": np.array([k]),
            "depth": np.array([depth]),
            "d": np.array(d),
            "r": np.array(r),
        }
        assert compared.check(feed) == "equal"
    assert compared.check({**feed, "k": np.array([6])}) != "equal"
    assert compared.check({**feed, "k": np.array([-1])}) != "equal"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ranges_of_floats(dtype: str) -> None:
    inputs = dict.fromkeys(("start", "stop", "step"), ((), dtype))
    compared = Compared(model([node("Range", list(inputs), ["y"])], inputs, ["y"]))
    for bounds in ((0, 1, 0.25), (5, -2, -1.5), (0, 0, 1), (3, 1, 1), (0.1, 0.75, 0.05), (-1, 1e3, 7.3)):
        feed = {name: np.asarray(value, dtype) for name, value in zip(inputs, bounds, strict=True)}
        assert compared.check(feed) == "equal"


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_scales(mode: str) -> None:
    made = node("Resize", ["x", "", "scales"], ["y"], mode=mode)
    inputs = {"x": ([1, 2, "h", "w"], "float32"), "scales": ((4,), "float32")}
    compared = Compared(model([made], inputs, ["y"]))
    for scales in ((1, 1, 2, 2), (1, 1, 0.6, 1.7), (1, 1, 1, 3.3), (1, 1, 0.5, 0.5)):
        x = np.random.default_rng(3).standard_normal((1, 2, 5, 7)).astype("float32")
        got = compared.check({"x": x, "scales": np.array(scales, "float32")}, rtol=2e-3)
        assert got == "equal"


def test_non_zero_positions_are_indices() -> None:
    """The rank of what NonZero gives is known, so that it serves GatherND."""
    nodes = [
        node("NonZero", ["x"], ["at"]),
        node("Transpose", ["at"], ["rows"], perm=[1, 0]),
        node("GatherND", ["x", "rows"], ["y"]),
    ]
    compared = Compared(model(nodes, {"x": (["n", "m"], "float32")}, ["y"]))
    for shape in ((3, 5), (1, 1), (0, 4)):
        assert compared.check({"x": _data(shape)}) == "equal"


@pytest.mark.parametrize("free", [False, True])
def test_scales_of_a_region_whose_cubic_weights_leave_out_what_is_outside(free: bool) -> None:
    """An element is a sum of thousands of loads: of scales, begins and ends."""
    attrs = {
        "mode": "cubic",
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "exclude_outside": 1,
        "extrapolation_value": 3.0,
    }
    shape = ["n", "c", "h", "w"] if free else [2, 1, 2, 4]
    stored = {"roi": np.array([0, 0, 0.1, 0.2, 1, 1, 0.8, 0.9], np.float32)}
    inputs = {"x": (shape, "float32"), "s": ((4,), "float32")}
    compared = Compared(model([node("Resize", ["x", "roi", "s"], ["y"], **attrs)], inputs, ["y"], stored))
    for scales in ((1, 1, 2, 2), (1, 1, 0.5, 3)):
        feed = {"x": _data((2, 1, 2, 4)), "s": np.array(scales, np.float32)}
        assert compared.check(feed, rtol=1e-4) == "equal"


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_regions_that_end_at_an_element(mode: str) -> None:
    """Whether a place is inside hangs on its last bit; one far away is outside, and nothing is read there."""
    attrs = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    inputs = {"x": (["n", "c", "h", "w"], "float32"), "roi": ((8,), "float32"), "s": ((4,), "int64")}
    compared = Compared(
        model([node("Resize", ["x", "roi", "", "s"], ["y"], mode=mode, **attrs)], inputs, ["y"])
    )
    feed = {"x": _data((1, 1, 31, 3)) + 20, "s": np.array([1, 1, 7, 5])}
    for begin, end in (
        (-0.2, 1.0),
        (-0.1, 1.1),
        (0.1, 1.2),
        (-0.2, 1.1),
        (0.3, 0.9),
        (-3e9, 3e9),
        (1e12, 1e30),
    ):
        feed["roi"] = np.array([0, 0, begin, 0.1, 1, 1, end, 1.0], np.float32)
        assert compared.check(feed, rtol=1e-4) == "equal"


def test_wrong_parts_of_a_split_are_named() -> None:
    """The message names the node and what is wrong, not a variable of ours."""
    nodes = [node("Split", ["x", "s"], ["a", "b"], "cut", axis=0)]
    compared = Compared(model(nodes, {"x": ["n"], "s": ([2], "int64")}, ["a", "b"]))
    for sizes, word in (([2, 2], "cut_sum_of_the_parts"), ([-2, 7], "cut_size_of_each_part")):
        for machine in compared.machines:
            with pytest.raises(HeddleError) as caught:
                machine["main"](np.zeros(5, np.float32), np.array(sizes))
            shown = str(caught.value)
            assert (
                word in shown
                and 'node "cut" (Split)' in shown
                and "expected 5" in shown
                and "lv" not in shown
            )


@pytest.mark.parametrize(
    "fixed", list(itertools.chain(*(itertools.combinations("seat", k) for k in range(5))))
)
def test_what_of_a_slice_is_constant(fixed: tuple[str, ...]) -> None:
    """Starts, ends, axes and steps (`t`), each constant or an input."""
    given = {
        "s": np.array([-1, -3]),
        "e": np.array([2**63 - 1, 4]),
        "a": np.array([1, -3]),
        "t": np.array([1, 1]),
    }
    constants = {name: given[name] for name in fixed}
    inputs: dict[str, Any] = {"x": (FREE, "float32")}
    inputs |= {name: ((2,), "int64") for name in given if name not in fixed}
    compared = Compared(model([node("Slice", ["x", *"seat"], ["y"])], inputs, ["y"], constants))
    for shape in SHAPES:
        rest = {name: value for name, value in given.items() if name not in fixed}
        assert compared.check({"x": _data(shape), **rest}) == "equal"
