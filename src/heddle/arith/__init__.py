"""Integer analysis over scalar expressions: bounds, residues, simplification, proofs, sets and iterator
maps."""

from heddle.arith.analyzer import Analyzer, CompareResult
from heddle.arith.const_int_bound import ConstIntBound
from heddle.arith.int_set import IntervalSet, IntSet, neg_inf, pos_inf
from heddle.arith.iters.iter_inverse import inverse_affine_iter_map
from heddle.arith.iters.iter_map import (
    IterMapResult,
    detect_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
    normalize_to_iter_sum,
)
from heddle.arith.iters.iter_nodes import IterMapExpr, IterMapLevel, IterMark, IterSplitExpr, IterSumExpr
from heddle.arith.iters.iter_subspace import subspace_divide
from heddle.arith.linear_solve import deduce_bound, detect_clip_bound, detect_linear_equation
from heddle.arith.modular_set import ModularSet
from heddle.arith.region import (
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
)
from heddle.arith.set_ops import eval_set, intersect, union, union_lower_bound

__all__ = [
    "Analyzer",
    "CompareResult",
    "ConstIntBound",
    "IntSet",
    "IntervalSet",
    "IterMapExpr",
    "IterMapLevel",
    "IterMapResult",
    "IterMark",
    "IterSplitExpr",
    "IterSumExpr",
    "ModularSet",
    "deduce_bound",
    "detect_clip_bound",
    "detect_iter_map",
    "detect_linear_equation",
    "estimate_region_lower_bound",
    "estimate_region_strict_bound",
    "estimate_region_upper_bound",
    "eval_set",
    "intersect",
    "inverse_affine_iter_map",
    "iter_map_simplify",
    "neg_inf",
    "normalize_iter_map_to_expr",
    "normalize_to_iter_sum",
    "pos_inf",
    "subspace_divide",
    "union",
    "union_lower_bound",
]
