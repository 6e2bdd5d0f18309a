"""DynamicQuantizeLSTM of com.microsoft."""

from __future__ import annotations

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.contrib.quantized_linear import dynamic_product
from heddle.frontend.onnx.ops.contrib.standard import expect_ranks
from heddle.frontend.onnx.ops.nn.recurrent import Weights, part_of, recurrent_layer
from heddle.frontend.onnx.registry import MICROSOFT, converts
from heddle.frontend.onnx.values import Value, tensor_value
from heddle.ir.expr import Expr


class _QuantizedWeights(Weights):
    """Integers with the outputs last; inputs 8 to 11 are scales and zero points, for each direction one, or
    one for each output. Inputs and states are quantised by their range."""

    is_quantized = True

    def hidden(self, ctx: NodeContext) -> int:
        return ctx.static_dim(2, 1, "the size of the hidden state")

    def projected(self, ctx: NodeContext, x: Expr, way: int) -> Expr:
        weight, scale, zero = (part_of(ctx, ctx.tensor(index), way) for index in (1, 8, 9))
        return dynamic_product(ctx, x, weight, scale, zero)

    def recurrent(self, ctx: NodeContext, way: int) -> dict[str, Value]:
        names = {"r": 2, "r_scale": 10, "r_zero": 11}
        return {name: tensor_value(part_of(ctx, ctx.tensor(index), way)) for name, index in names.items()}


@converts("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(ctx: NodeContext) -> Result:
    """An LSTM whose weights are integers. Inputs 0 to 7 are those of LSTM."""
    expect_ranks(ctx, x=3, w=3, r=3, b=2, sequence_lens=1, initial_h=3, initial_c=3, p=2)
    expect_ranks(ctx, w_scale=(1, 2), w_zero_point=(1, 2), r_scale=(1, 2), r_zero_point=(1, 2))
    return recurrent_layer(ctx, "LSTM", _QuantizedWeights())
