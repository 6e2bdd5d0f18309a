"""Diagnostic codes of graph programs: types, operators, variables, builder, reference interpreters."""

from heddle.support.diagnostics import declare_code

R0101 = declare_code(
    "R0101",
    "malformed type",
    "A type's parts contradict each other, such as a shape of 2 dimensions and ndim 3.",
)
R0102 = declare_code(
    "R0102", "expression has no type yet", "The expression must be normalised (BlockBuilder.normalize) first."
)
R0103 = declare_code(
    "R0103", "not a graph expression", "An expression, a number, an array or a tuple of these was expected."
)
R0201 = declare_code(
    "R0201",
    "wrong number of arguments",
    "An operator or function is called with too few or too many arguments.",
)
R0202 = declare_code(
    "R0202",
    "argument has the wrong type",
    "The argument's type does not fit the operator's or function's parameter.",
)
R0203 = declare_code(
    "R0203", "shapes do not fit", "The operator's rule on the shapes of its arguments is not met."
)
R0204 = declare_code(
    "R0204", "dtypes do not fit", "The operator does not accept these element types together."
)
R0205 = declare_code(
    "R0205", "attribute has a bad value", "An attribute of an operator is out of range or of the wrong kind."
)
R0206 = declare_code(
    "R0206",
    "callee cannot be called",
    "Only operators, global functions, closures and external functions can be called.",
)
R0207 = declare_code(
    "R0207",
    "virtual device does not fit",
    "A virtual device is not listed in the module, or operands are on different devices.",
)
R0208 = declare_code(
    "R0208",
    "cannot bind",
    "A parameter or symbolic dimension to be bound does not exist, or the value does not fit it.",
)
R0209 = declare_code(
    "R0209", "tensor has too many dimensions", "Tensors have at most 64 dimensions, as numpy's arrays do."
)
R0210 = declare_code(
    "R0210",
    "no gradient",
    "The operator's record states no gradient, or not for these arguments; the message says why.",
)
R0301 = declare_code("R0301", "undefined variable", "A variable is used where no definition reaches it.")
R0302 = declare_code("R0302", "variable defined twice", "Each variable is bound once in a function.")
R0305 = declare_code(
    "R0305", "impure call in a pure function", "A function marked pure may not call impure ones."
)
R0306 = declare_code(
    "R0306",
    "undefined symbolic dimension",
    "A symbolic dimension is used before a parameter or match_cast binds it.",
)
R0307 = declare_code(
    "R0307",
    "stated type does not fit",
    "What a binding, a function or a call states about a value is false for every value that it can have.",
)
R0308 = declare_code(
    "R0308",
    "not a condition",
    "A condition is a scalar, or a tensor of one element, of a bool or integer dtype.",
)
R0501 = declare_code(
    "R0501",
    "BlockBuilder misused",
    "A call of the builder needs an open function or block, or leaves one open.",
)
R0601 = declare_code(
    "R0601",
    "argument does not fit",
    "A value given to an interpreted function does not fit its parameter or match_cast.",
)
R0602 = declare_code(
    "R0602", "cannot be interpreted", "The graph interpreter has no meaning for this expression."
)
R0603 = declare_code(
    "R0603",
    "interpreted calls are too deep",
    "Functions under the graph interpreter call each other more deeply than Python's stack allows.",
)
