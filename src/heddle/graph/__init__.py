"""The parts that graph dialects share: types, bindings, type inference, operator calls, builder, rewriter,
values."""
