"""Elementary functions of float32 as expressions."""

from heddle.tir.vector_math.functions import FLOAT32_FUNCTIONS, LDEXP, RARELY_IN_C

__all__ = ["FLOAT32_FUNCTIONS", "LDEXP", "RARELY_IN_C"]
