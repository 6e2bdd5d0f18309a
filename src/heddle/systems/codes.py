"""Diagnostic codes of the systems room: the language that native code is written in, and its interpreter."""

from heddle.support.diagnostics import declare_code

Y0101 = declare_code(
    "Y0101",
    "not in the systems language",
    "Native functions are written in a small part of Python: assignments, `if`, `while`, `break`, "
    "`continue`, `return` and calls. The page docs/systems.md lists it.",
)
Y0201 = declare_code(
    "Y0201", "unknown name", "A name is a local of the function or a declaration of its module."
)
Y0202 = declare_code(
    "Y0202",
    "types differ",
    "Nothing is converted silently. Write the conversion, `u64(x)` or `cast(Pointer[T], x)`.",
)
Y0203 = declare_code(
    "Y0203",
    "constant does not fit",
    "An integer constant has no type here, or lies outside its type's range.",
)
Y0204 = declare_code("Y0204", "no such field or method", "The structure's declaration lists its fields.")
Y0205 = declare_code(
    "Y0205", "call does not fit", "A call has the number, names and types of arguments that the function has."
)
Y0206 = declare_code(
    "Y0206",
    "not a type",
    "Types are `bool`, `i8` to `i64`, `u8` to `u64`, structures, `Pointer`, `Array`, `Atomic`, `Function`.",
)
Y0207 = declare_code(
    "Y0207",
    "name declared twice",
    "All functions, globals and texts of a program share one text, and so need different names.",
)
Y0301 = declare_code(
    "Y0301", "local may be unset", "On some way through the function nothing was assigned to the name yet."
)
Y0302 = declare_code(
    "Y0302",
    "control flow is wrong",
    "A function with a result returns one on every way, and no statement follows one that leaves.",
)
Y0303 = declare_code(
    "Y0303", "inline functions call each other", "A function that is put in place of its calls cannot recur."
)
Y0304 = declare_code(
    "Y0304",
    "memory order does not fit",
    "A load cannot release and a store cannot acquire; a failed exchange is a load.",
)
Y0401 = declare_code(
    "Y0401", "access outside memory", "Native code was about to read or write outside the memory it has."
)
Y0402 = declare_code("Y0402", "use after free", "Native code touched memory that it had given back.")
Y0403 = declare_code(
    "Y0403", "bad free", "Memory was given back twice, or is not the start of a block from the system."
)
Y0404 = declare_code(
    "Y0404", "memory is never freed", "Blocks were alive when the program ended: somebody still counts them."
)
Y0405 = declare_code(
    "Y0405",
    "data race",
    "Two threads touch the same bytes, one of them writes, and no lock or pair of release and acquire orders "
    "them.",
)
Y0406 = declare_code("Y0406", "threads wait for each other", "No thread of the simulation can go on.")
Y0407 = declare_code(
    "Y0407",
    "operation is undefined",
    "A division by zero, a shift by the width or more, a call of what is no function or one of another type, "
    "a copy between bytes that overlap, or a lock that its holder takes again.",
)
Y0408 = declare_code("Y0408", "read of unset memory", "Nothing was written to these bytes yet.")
Y0409 = declare_code(
    "Y0409", "function has no model", "The interpreter was not told what an external function does."
)
Y0410 = declare_code("Y0410", "access is not aligned", "An address is no multiple of the type's alignment.")
Y0411 = declare_code("Y0411", "program does not end", "The simulation took more steps than it may.")
