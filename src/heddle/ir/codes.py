"""Diagnostic codes of the IR core: nodes, modules, operators, passes."""

from heddle.support.diagnostics import declare_code

I0101 = declare_code(
    "I0101",
    "structures differ",
    "assert_structural_equal found a difference. The access path leads from the root to the first part "
    "that differs.",
)
I0201 = declare_code(
    "I0201",
    "JSON is not a saved node",
    "The text was not written by save_json, was cut short, or names a node kind that this version does not "
    "know.",
)
I0202 = declare_code(
    "I0202",
    "value without a JSON form",
    "Nodes are saved with the numbers, strings, tensors and nodes in them; an attribute that is something "
    "else cannot be.",
)
I0301 = declare_code(
    "I0301", "no such function in the module", "The name is not among the module's functions."
)
I0302 = declare_code(
    "I0302", "function defined twice", "Two functions of a module have the same name; rename one of them."
)
I0303 = declare_code(
    "I0303",
    "function is not written in a dialect",
    "Functions of a dialect can be printed, verified, run and brought into normal form; an external function "
    "is known by its name alone.",
)
I0304 = declare_code(
    "I0304", "no type before inference", "Infer the types of the program first; then each expression has one."
)
I0305 = declare_code(
    "I0305", "no such type in the module", "The name is not among the module's type definitions."
)
I0306 = declare_code(
    "I0306",
    "no such constructor in the module",
    "No type definition of the module has a constructor of this tag.",
)
I0307 = declare_code(
    "I0307", "constructor defined twice", "The constructors of a data type have different names."
)
I0308 = declare_code(
    "I0308", "type defined twice", "Two data types of a module have the same name; rename one of them."
)
I0309 = declare_code(
    "I0309",
    "the type does not say that",
    "The type of the expression is no tensor, or one whose shape or element type is not known.",
)
I0310 = declare_code(
    "I0310",
    "no such field",
    "`x[i]` chooses a field of a tuple by a number that is less than the number of fields.",
)
I0311 = declare_code("I0311", "not a type", 'A type was expected, such as `R.Tensor((n, 4), "float32")`.')
I0312 = declare_code(
    "I0312",
    "wrong value in a node",
    "Each field of a node takes values of one class: an expression, a type, a variable, a name. Convert "
    "numbers and arrays to constants first.",
)
I0401 = declare_code("I0401", "unknown operator", "No operator of this name is declared.")
I0402 = declare_code("I0402", "unknown attribute", "The operator or node has no attribute of this name.")
I0501 = declare_code(
    "I0501",
    "a pass failed",
    "A compiler pass ended in an unexpected exception. This is a fault of Heddle, not of the model. The "
    "bundle named in "
    "the message holds the program before the pass and the traceback.",
)
I0502 = declare_code(
    "I0502", "unknown PassContext option", "The configuration key is not declared by any pass."
)
I0503 = declare_code(
    "I0503",
    "pass contract not met",
    "With `VerifyEach` or `heddle opt --verify-each`: a pass needs a property that the module does not have; "
    "run the pass that the message names before it. Where a pass of ours did not establish what it promises, "
    "that is a fault of the pass.",
)
I0504 = declare_code(
    "I0504",
    "program does not verify after a pass",
    "The verifier found the listed faults in a pass's result. This is a fault of the pass.",
)
I0601 = declare_code(
    "I0601",
    "not part of the script language",
    "The text is not valid Python syntax, or uses syntax that scripts lack.",
)
I0602 = declare_code(
    "I0602", "unknown name in a script", "The name or attribute is not defined at this place."
)
I0603 = declare_code(
    "I0603", "script expression fails", "Building the value of an expression failed for the stated reason."
)
I0403 = declare_code(
    "I0403", "operator record or use is incomplete", "An operator is declared or built without a needed part."
)
I0505 = declare_code(
    "I0505",
    "program text is not exact",
    "Printing and parsing a pass's result gave another program: a fault of ours.",
)
I0506 = declare_code(
    "I0506",
    "a user's pass failed",
    "A pass that is not Heddle's own (`module_pass`, or a class of yours), or a hook that a pass calls, "
    "raised an exception, which is the cause of this error, or returned something of another kind, or a "
    "module that does not verify.",
)
I0508 = declare_code(
    "I0508",
    "option of a pass does not fit",
    "The value has another type than the option's, or is none that the option takes.",
)
I0509 = declare_code(
    "I0509",
    "a module is expected",
    "What was given is no `IRModule`. `IRModule.from_expr(func)` makes one of a function.",
)
I0510 = declare_code(
    "I0510",
    "program is nested too deeply",
    "Hundreds of loops, branches or expressions lie inside one another, and the compiler, which follows them "
    "by recursion, has no room for more calls.",
)
I0507 = declare_code(
    "I0507",
    "program does not verify",
    "The verifier, which the PassContext asks for, found the listed faults in the program that was given.",
)
