"""Tensor operations of neural networks, in tensor expressions."""

from heddle.topi.nn.convolution import conv, conv2d, conv_transpose, depthwise_conv2d_nchw
from heddle.topi.nn.dense import bias_add, dense, leaky_relu, relu
from heddle.topi.nn.loss import cross_entropy_with_logits, nll_loss
from heddle.topi.nn.norm import (
    batch_norm,
    group_norm,
    instance_norm,
    l2_normalize,
    layer_norm,
    log_softmax,
    lrn,
    rms_norm,
    softmax,
)
from heddle.topi.nn.padding import pad, pixel_shuffle, pixel_unshuffle
from heddle.topi.nn.pooling import adaptive_pool, pool

__all__ = [
    "adaptive_pool",
    "batch_norm",
    "bias_add",
    "conv",
    "conv2d",
    "conv_transpose",
    "cross_entropy_with_logits",
    "dense",
    "depthwise_conv2d_nchw",
    "group_norm",
    "instance_norm",
    "l2_normalize",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "lrn",
    "nll_loss",
    "pad",
    "pixel_shuffle",
    "pixel_unshuffle",
    "pool",
    "relu",
    "rms_norm",
    "softmax",
]
