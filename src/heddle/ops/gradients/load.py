"""Putting the rules on the records."""

from __future__ import annotations

from heddle.ir.op_def import check_gradients, declare_gradient
from heddle.ops.gradients import elementwise, indexing, networks, normalisation, products, reduction, shapes

FAMILIES = (elementwise, shapes, reduction, products, networks, normalisation, indexing)


def declare() -> None:
    """Put all rules on the records, which are declared before. Raises: UsageError I0403 for an operator
    without a rule and without a reason."""
    for family in FAMILIES:
        for name, rule in family.rules().items():
            declare_gradient(name, rule)
    check_gradients()
