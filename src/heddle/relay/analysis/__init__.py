"""What is known of Relay programs."""

from heddle.ir.variables import (
    all_type_vars,
    all_vars,
    bound_type_vars,
    bound_vars,
    free_type_vars,
    free_vars,
)
from heddle.ir.visitor import post_order_visit
from heddle.relay.analysis.counts import all_dtypes, check_constant, list_op_freqs
from heddle.relay.analysis.well_formedness import well_formed
from heddle.relay.cases import unmatched_cases
from heddle.relay.kinds import check_kind

__all__ = [
    "all_dtypes",
    "all_type_vars",
    "all_vars",
    "bound_type_vars",
    "bound_vars",
    "check_constant",
    "check_kind",
    "free_type_vars",
    "free_vars",
    "list_op_freqs",
    "post_order_visit",
    "unmatched_cases",
    "well_formed",
]
