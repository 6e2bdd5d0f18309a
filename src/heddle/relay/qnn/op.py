"""Quantised operators as functions: `relay.qnn.op.add(...)` builds a call of `qnn.add`."""

from __future__ import annotations

from typing import Any

from heddle.graph.requantize import RequantizeConfig, current_requantize_config, requantize_config
from heddle.relay.layout_hooks import HOOKS
from heddle.relay.op import op_names, relay_call, word

__all__ = [
    "RequantizeConfig",
    "convert_qnn_avg_pool2d",
    "convert_qnn_conv2d",
    "convert_qnn_conv2d_transpose",
    "current_requantize_config",
    "leaky_relu",
    "requantize_config",
]

convert_qnn_conv2d, convert_qnn_conv2d_transpose = HOOKS["qnn.conv2d"], HOOKS["qnn.conv2d_transpose"]
convert_qnn_avg_pool2d = HOOKS["qnn.avg_pool2d"]
"""What ConvertLayout does with these operators: `f(attrs, inputs, types, desired layouts)`."""


def leaky_relu(
    x: Any, alpha: float, input_scale: Any, input_zero_point: Any, output_scale: Any, output_zero_point: Any
) -> Any:
    """`qnn.leaky_relu`, whose slope comes second here."""
    args = (x, input_scale, input_zero_point, output_scale, output_zero_point)
    return relay_call("qnn.leaky_relu", args, {"alpha": alpha})


def __getattr__(name: str) -> Any:
    return word(f"qnn.{name}", name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name[len("qnn.") :] for name in op_names() if name.startswith("qnn."))})
