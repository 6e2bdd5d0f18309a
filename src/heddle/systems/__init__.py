"""The systems language: typed Python that becomes LLVM IR, and an interpreter that checks it.

Sources import the words from `heddle.systems.words` and the types from `heddle.systems.types`.
"""

from heddle.systems.program import Program, read_program
from heddle.systems.translate import translate

__all__ = ["Program", "read_program", "translate"]
