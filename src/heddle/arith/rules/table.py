"""All rules, in the order in which they are tried."""

from heddle.arith.rules.arithmetic import ADD_SUB_RULES, MUL_RULES
from heddle.arith.rules.boolean import BOOLEAN_RULES
from heddle.arith.rules.compare import COMPARE_RULES
from heddle.arith.rules.division import FLOOR_RULES, TRUNC_RULES
from heddle.arith.rules.minmax import MINMAX_RULES
from heddle.arith.rules.select import FLOAT_RULES, SELECT_RULES
from heddle.arith.rules.vector import VECTOR_RULES
from heddle.arith.simplify.rule import RuleIndex

ALL_RULES = (
    *ADD_SUB_RULES,
    *MUL_RULES,
    *FLOOR_RULES,
    *TRUNC_RULES,
    *MINMAX_RULES,
    *COMPARE_RULES,
    *BOOLEAN_RULES,
    *SELECT_RULES,
    *FLOAT_RULES,
    *VECTOR_RULES,
)
RULE_INDEX = RuleIndex(ALL_RULES)
