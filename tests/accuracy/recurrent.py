"""LSTM and GRU of the ONNX importer against their equations in float64."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from heddle.frontend.onnx import from_onnx
from heddle.ir.module import IRModule
from tests.accuracy.forms import Expected, Form

_SIZES: tuple[Mapping[str, int], ...] = tuple({"t": t, "b": b} for t, b in ((1, 1), (7, 1), (5, 3), (33, 2)))
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _weights(kind: str, inputs: int, hidden: int) -> list[np.ndarray]:
    """W, R and the two biases, scaled so that gates stay between their ends."""
    rng, gates = np.random.default_rng(6), _GATES[kind] * hidden
    shapes = ((1, gates, inputs), (1, gates, hidden), (1, 2 * gates))
    return [(rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32) for shape in shapes]


def _model(kind: str, inputs: int, hidden: int) -> IRModule:
    weights = zip("WRB", _weights(kind, inputs, hidden), strict=True)
    node = helper.make_node(kind, ["x", "W", "R", "B"], ["y", "h"], hidden_size=hidden)
    graph = helper.make_graph(
        [node],
        "recurrent",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["t", "b", inputs])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "h")],
        [numpy_helper.from_array(array, name) for name, array in weights],
    )
    return from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))  # type: ignore[no-any-return]


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _lstm_step(x: Any, h: Any, c: Any, w: Any, r: Any, b: Any, rb: Any) -> tuple[Any, Any]:
    i, o, f, g = np.split(x @ w.T + h @ r.T + b + rb, 4, -1)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    return _sigmoid(o) * np.tanh(c), c


def _gru_step(x: Any, h: Any, c: Any, w: Any, r: Any, b: Any, rb: Any) -> tuple[Any, Any]:
    from_x, from_h = x @ w.T + b, h @ r.T
    (xz, xr, xn), (hz, hr, _), (bz, br, bn) = (np.split(v, 3, -1) for v in (from_x, from_h, rb))
    z, reset = _sigmoid(xz + hz + bz), _sigmoid(xr + hr + br)
    n = np.tanh(xn + (reset * h) @ np.split(r, 3)[2].T + bn)
    return (1 - z) * n + z * h, c


def _rnn_step(x: Any, h: Any, c: Any, w: Any, r: Any, b: Any, rb: Any) -> tuple[Any, Any]:
    return np.tanh(x @ w.T + h @ r.T + b + rb), c


_STEPS = {"LSTM": _lstm_step, "GRU": _gru_step, "RNN": _rnn_step}


def _reference(kind: str, inputs: int, hidden: int, x: Any) -> Expected:
    """States stay within 1: errors are relative to that, and to how far an input saturates a gate."""
    w, r, b = (array[0].astype(np.float64) for array in _weights(kind, inputs, hidden))
    b, rb = np.split(b, 2)
    h = c = np.zeros((x.shape[1], hidden))
    made = []
    with np.errstate(all="ignore"):
        for step in x:
            h, c = _STEPS[kind](step, h, c, w, r, b, rb)
            made.append(h)
    return Expected((np.stack(made)[:, None], h[None]), (1.0,))


def _form(kind: str, inputs: int, hidden: int) -> Form:
    return Form(
        kind,
        f"{kind} {inputs} → {hidden}",
        (("t", "b", inputs),),
        None,
        partial(_reference, kind, inputs, hidden),
        "accumulated",
        ("normal", "large", "small", "subnormal", "mixed", "NaN"),
        _SIZES,
        in_ci=inputs == 13,
        model=partial(_model, kind, inputs, hidden),
    )


RECURRENT: tuple[Form, ...] = tuple(
    _form(kind, inputs, hidden) for kind in ("LSTM", "GRU", "RNN") for inputs, hidden in ((13, 17), (64, 128))
)
