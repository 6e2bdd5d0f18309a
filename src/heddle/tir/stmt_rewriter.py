"""A rewriter that looks at statements alone."""

from __future__ import annotations

from typing import Any

from heddle.ir.visitor import Rewriter
from heddle.prim.nodes import PrimExpr


class StmtRewriter(Rewriter):
    """Visits statements and what they hold, and leaves expressions as they are: most nodes of a function lie
    in those."""

    def visit(self, node: Any) -> Any:
        """What becomes of a node; an expression stays."""
        return node if isinstance(node, PrimExpr) else super().visit(node)
