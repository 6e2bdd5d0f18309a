"""What is known of Relay programs."""

from heddle.ir.variables import (
    all_type_vars,
    all_vars,
    bound_type_vars,
    bound_vars,
    free_type_vars,
    free_vars,
)
from heddle.relay.analysis.calibration import get_calibration_data
from heddle.relay.analysis.counts import all_dtypes, check_constant, list_op_freqs
from heddle.relay.analysis.kernels import (
    Feature,
    check_basic_block_normal_form,
    detect_feature,
    extract_fused_functions,
    extract_intermdeiate_expr,
    get_total_mac_number,
    list_fake_quantized_op_freqs,
    search_fc_transpose,
)
from heddle.relay.analysis.well_formedness import well_formed
from heddle.relay.cases import unmatched_cases
from heddle.relay.kinds import check_kind
from heddle.relay.placement import post_order_visit

__all__ = [
    "Feature",
    "all_dtypes",
    "all_type_vars",
    "all_vars",
    "bound_type_vars",
    "bound_vars",
    "check_basic_block_normal_form",
    "check_constant",
    "check_kind",
    "detect_feature",
    "extract_fused_functions",
    "extract_intermdeiate_expr",
    "free_type_vars",
    "free_vars",
    "get_calibration_data",
    "get_total_mac_number",
    "list_fake_quantized_op_freqs",
    "list_op_freqs",
    "post_order_visit",
    "search_fc_transpose",
    "unmatched_cases",
    "well_formed",
]
