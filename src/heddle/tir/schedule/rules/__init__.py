"""Default schedules: rules that look at a function's loops and apply primitives."""
