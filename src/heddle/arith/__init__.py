"""Integer analysis over scalar expressions: bounds, residues, simplification, proofs, sets and iterator maps."""

from heddle.arith.analyzer import Analyzer, CompareResult
from heddle.arith.const_int_bound import ConstIntBound
from heddle.arith.modular_set import ModularSet

__all__ = ["Analyzer", "CompareResult", "ConstIntBound", "ModularSet"]
