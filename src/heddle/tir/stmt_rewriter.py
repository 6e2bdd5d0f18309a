"""A rewriter that visits only statements."""

from __future__ import annotations

from typing import Any

from heddle.ir.visitor import Rewriter
from heddle.prim.nodes import PrimExpr


class StmtRewriter(Rewriter):
    """Visits statements and leaves expressions unchanged. This is fast, because most nodes of a function are
    expressions."""

    def visit(self, node: Any) -> Any:
        """What becomes of a node; an expression stays."""
        return node if isinstance(node, PrimExpr) else super().visit(node)
