"""The systems language: typed Python that becomes LLVM IR, and an interpreter that checks it.

Sources import the words from `heddle.systems.words` and the types from `heddle.systems.types`.
`read_program`, `translate` and `Machine` are in `program`, `translate` and `interpret`: whoever only wants
layouts, as every start of the runtime does, loads nothing of them.
"""
