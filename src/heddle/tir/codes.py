"""Diagnostic codes of the loop IR: nodes, text, verifier, schedules, lowering."""

from heddle.support.diagnostics import declare_code

T0101 = declare_code(
    "T0101", "wrong number of indices", "A buffer access has as many indices as the buffer has dimensions."
)
T0102 = declare_code(
    "T0102", "stored value has another dtype", "A store writes values of the buffer's dtype."
)
T0103 = declare_code(
    "T0103", "condition is not bool", "The condition of an if, while or assert must have dtype bool."
)
T0104 = declare_code("T0104", "malformed loop", "Loop bounds and variable must have one integer dtype.")
T0201 = declare_code(
    "T0201", "undefined variable", "A variable or buffer is used where no definition reaches it."
)
T0202 = declare_code(
    "T0202", "variable defined twice", "Each variable and buffer is defined once in a function."
)
T0203 = declare_code(
    "T0203",
    "statement not allowed at this stage",
    "The lowering pipeline removes some statements for good (blocks, vector loops, ...); a later pass made one again.",
)
T0204 = declare_code(
    "T0204", "block binding is wrong", "A block has as many iteration values as iteration variables."
)
T0205 = declare_code(
    "T0205", "block names repeat", "Block names are unique in a function, so that schedules can name them."
)
T0206 = declare_code(
    "T0206",
    "access outside the declared region",
    "A block reads or writes a buffer that it does not declare.",
)
