"""Rows of recurrent layers."""

from __future__ import annotations

from benchmarks.onnx_ops.case import Case, Weight, uniform

_WEIGHT = uniform(-0.2, 0.2)
_SMALL = {"t": 10, "b": 1}
_LARGE = {"t": 64, "b": 4}
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def _layer(operator: str, form: str, hidden: int, attributes: str = "", directions: int = 1) -> Case:
    rows = _GATES[operator] * hidden
    call = f"{operator}<hidden_size={hidden}{attributes}>(x, w, r, b)"
    return Case(
        operator,
        "float[t,b,64] x",
        f"y, h = {call}",
        _SMALL,
        _LARGE,
        form=form,
        outputs="y, h",
        weights={
            "w": Weight((directions, rows, 64), fill=_WEIGHT),
            "r": Weight((directions, rows, hidden), fill=_WEIGHT),
            "b": Weight((directions, 2 * rows), fill=_WEIGHT),
        },
    )


RECURRENT: tuple[Case, ...] = (
    *(_layer(name, "", 128) for name in _GATES),
    *(_layer(name, "narrow", 32) for name in _GATES),
    *(_layer(name, "both ways", 64, ', direction="bidirectional"', 2) for name in _GATES),
)
