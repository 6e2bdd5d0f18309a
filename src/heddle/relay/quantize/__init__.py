"""Quantising networks after training."""

from heddle.relay.quantize.config import QConfig, current_qconfig, qconfig
from heddle.relay.quantize.quantize import prerequisite_optimize, quantize

__all__ = ["QConfig", "current_qconfig", "prerequisite_optimize", "qconfig", "quantize"]
