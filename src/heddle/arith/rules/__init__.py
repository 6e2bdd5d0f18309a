"""The rule tables by family, and the index over all of them."""

from heddle.arith.rules.table import ALL_RULES, RULE_INDEX

__all__ = ["ALL_RULES", "RULE_INDEX"]
