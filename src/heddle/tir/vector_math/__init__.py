"""Elementary functions of float32 as expressions."""

from heddle.tir.vector_math.functions import FLOAT32_FUNCTIONS, LDEXP

__all__ = ["FLOAT32_FUNCTIONS", "LDEXP"]
