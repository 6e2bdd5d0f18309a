"""`heddle.jit`: programs that start at once, and get faster while they run."""

from heddle.driver.jit.log import JitStatistics, Swap
from heddle.driver.jit.program import JitProgram, jit

__all__ = ["JitProgram", "JitStatistics", "Swap", "jit"]
