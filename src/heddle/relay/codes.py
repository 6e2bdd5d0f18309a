"""Diagnostic codes of the relay dialect: construction, text, inference, interpreter."""

from heddle.support.diagnostics import declare_code

# ---- construction

Q0101 = declare_code(
    "Q0101", "wrong argument of a builder", "The value is none of those that the builder function takes."
)
Q0102 = declare_code(
    "Q0102",
    "number in an expression",
    "Operators between expressions take expressions; convert a number with `const` first.",
)
Q0103 = declare_code(
    "Q0103", "scope builder misused", "Each scope returns once, and `else_scope` follows `if_scope`."
)
Q0104 = declare_code(
    "Q0104", "index out of a tuple's range", "The tuple has fewer fields than the index says."
)
Q0105 = declare_code(
    "Q0105", "no executor of this kind", "The kinds of executors are those that `create_executor` lists."
)

Q0106 = declare_code(
    "Q0106",
    "no such part of the prelude",
    "Tensor arrays exist for the element types that the message lists; their data type has a constructor for "
    "each rank.",
)

# ---- text

Q0201 = declare_code(
    "Q0201", "not Relay text", "A character or word that no Relay program has at this place."
)
Q0202 = declare_code(
    "Q0202", "unexpected word in Relay text", "The grammar expects something else at this place."
)
Q0203 = declare_code(
    "Q0203",
    "no version",
    'A Relay program begins with the line `#[version = "0.0.5"]`; other versions are not read.',
)
Q0204 = declare_code("Q0204", "number out of range", "The number does not fit its element type.")
Q0205 = declare_code("Q0205", "unknown name in Relay text", "The name is not defined at this place.")
Q0206 = declare_code(
    "Q0206",
    "metadata does not fit",
    "The section `#[metadata]` is damaged, comes twice, or lacks the entry that the text refers to.",
)
Q0207 = declare_code("Q0207", "name defined twice in Relay text", "Give one of the two another name.")
Q0208 = declare_code(
    "Q0208", "text is nested too deeply", "Types, patterns and attributes are nested at most 100 deep."
)
Q0209 = declare_code(
    "Q0209",
    "program that no Relay text stands for",
    "`astext` writes what `parse` reads back to the same program; give what the message names another name.",
)

# ---- inference

Q0301 = declare_code("Q0301", "types do not fit", "Two types that must be the same cannot be made the same.")
Q0302 = declare_code("Q0302", "wrong number of arguments", "The callee or constructor takes another number.")
Q0303 = declare_code(
    "Q0303", "callee is no function", "Only functions, operators and constructors can be called."
)
Q0304 = declare_code(
    "Q0304", "unable to infer a type", "Nothing in the program says what the type is; annotate the variable."
)
Q0305 = declare_code(
    "Q0305", "match is not complete", "Some values fit no clause: add clauses for them, or write `match?`."
)
Q0306 = declare_code("Q0306", "wrong kind of type", "A type stands where a type of another kind is expected.")
Q0307 = declare_code("Q0307", "unbound variable", "The variable is used where no definition reaches it.")
Q0308 = declare_code(
    "Q0308", "infinite type", "A type would contain itself; only a data type can be recursive."
)
Q0309 = declare_code("Q0309", "variable bound twice", "Each variable is bound at one place of an expression.")
Q0310 = declare_code(
    "Q0310", "arguments do not fit the operator", "The operator's rule on types refuses the arguments."
)

# ---- gradients

Q0501 = declare_code(
    "Q0501",
    "no gradient of the function",
    "First-order gradients are of functions of tensors without control flow; parameters and results are "
    "tensors, tuples and data types of these.",
)

Q0502 = declare_code(
    "Q0502",
    "no integers stand for the operator",
    "A region of floats between quantised values stays as it is; with `hard_fail` it is an error.",
)

Q0503 = declare_code(
    "Q0503",
    "the function cannot be rewritten",
    "The pass takes functions of the kind that the message names; data types with functions inside stay.",
)

Q0504 = declare_code(
    "Q0504",
    "expressions without a place",
    "What a builder makes outside of a text has no place that errors could point at; it is no fault.",
)

Q0505 = declare_code(
    "Q0505",
    "no precision of the operator is known",
    "ToMixedPrecision leaves an operator in float32 about which no table and no user says anything.",
)

Q0506 = declare_code(
    "Q0506",
    "a value on two devices",
    "Annotations put one value on two devices; only operands of operators and functions are copied by "
    "themselves.",
)

Q0507 = declare_code(
    "Q0507",
    "a value that cannot be copied to another device",
    "Tensors and tuples of tensors are copied between devices; values of data types, functions and "
    "references stay where they are.",
)

# ---- interpreter

Q0401 = declare_code("Q0401", "no clause fits", "A `match?` met a value that none of its clauses fits.")
Q0402 = declare_code(
    "Q0402",
    "wrong arguments of a call",
    "The arguments given from Python do not fit the function's parameters.",
)
Q0403 = declare_code(
    "Q0403", "calls are too deep", "Functions call each other more deeply than the limit `call_depth`."
)
Q0404 = declare_code(
    "Q0404", "value cannot be used so", "The program does with a value what its kind does not allow."
)
Q0405 = declare_code(
    "Q0405",
    "rewriting does not end",
    "Callbacks of patterns run until the expression stays the same; `rewrite_once` lets one run once.",
)
