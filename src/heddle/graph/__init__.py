"""What graph dialects share: types, bindings, inference, calls of operators, builder, rewriter, values."""
