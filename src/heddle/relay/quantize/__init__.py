"""Quantising networks after training."""

from heddle.relay.quantize.config import QAnnotateKind, QConfig, current_qconfig, kind2str, qconfig
from heddle.relay.quantize.context import QuantizeContext, quantize_context
from heddle.relay.quantize.quantize import prerequisite_optimize, quantize
from heddle.relay.quantize.steps import annotate, calibrate, partition, realize

__all__ = [
    "QAnnotateKind",
    "QConfig",
    "QuantizeContext",
    "annotate",
    "calibrate",
    "current_qconfig",
    "kind2str",
    "partition",
    "prerequisite_optimize",
    "qconfig",
    "quantize",
    "quantize_context",
    "realize",
]
