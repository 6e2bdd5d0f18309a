"""Diagnostic codes of the virtual machines: bytecode, builders, execution, builtins."""

from heddle.support.diagnostics import declare_code

V0101 = declare_code(
    "V0101", "unknown opcode", "A word where an instruction starts is no opcode of the machine."
)
V0102 = declare_code(
    "V0102", "instruction does not fit its words", "Operands are missing, or words are left over."
)
V0103 = declare_code("V0103", "register out of range", "The function's register file has fewer registers.")
V0104 = declare_code("V0104", "constant out of range", "The constant pool has fewer entries.")
V0105 = declare_code(
    "V0105", "function out of range", "The function table has fewer rows, or the callee was never defined."
)
V0106 = declare_code(
    "V0106", "jump leaves the function", "Goto and If lead to instructions of the same function."
)
V0107 = declare_code(
    "V0107", "register read before it is written", "On some path nothing was written to the register."
)
V0108 = declare_code(
    "V0108", "wrong number of arguments", "The callee is a function of the program and takes another number."
)
V0109 = declare_code("V0109", "bad function row", "A row of the function table contradicts the program.")
V0110 = declare_code(
    "V0110", "function does not end", "The last instruction falls through the function's end."
)
V0111 = declare_code(
    "V0111", "operand has an unknown kind", "The top eight bits of an argument word name no kind."
)
V0112 = declare_code(
    "V0112",
    "function is too tangled to verify",
    "The verifier bounds its own work. Split the function: no compiler makes such a tangle of jumps.",
)
V0113 = declare_code(
    "V0113",
    "operand out of bounds",
    "A number, or the code, bits and lanes of a dtype, in an instruction are none that it takes.",
)
V0201 = declare_code(
    "V0201", "instruction outside a function", "`emit_*` is called within `with builder.function(...)`."
)
V0202 = declare_code("V0202", "function defined twice", "A name stands for one function, of one kind.")
V0203 = declare_code(
    "V0203",
    "value cannot be encoded",
    "Operands have 56 bits; constants are tensors, shapes, strings, numbers, dtypes.",
)
V0204 = declare_code("V0204", "function not declared", "Only declared functions can be operands.")
V0205 = declare_code("V0205", "body is empty", "EndFunction not called, or nothing was emitted.")
V0301 = declare_code(
    "V0301",
    "function not found",
    "The machine resolves functions in the executable's modules, then among global functions.",
)
V0302 = declare_code(
    "V0302", "wrong number of arguments", "A function of the program was called with too few or too many."
)
V0303 = declare_code(
    "V0303", "bad machine option", "Devices, memory configuration and executables have fixed forms."
)
V0304 = declare_code(
    "V0304",
    "stateful call out of order",
    "set_input comes before invoke_stateful, which comes before get_outputs.",
)
V0305 = declare_code(
    "V0305",
    "call depth exceeded",
    "Functions call each other deeper than the machine allows; a recursion may never end.",
)
V0306 = declare_code(
    "V0306",
    "output index does not fit",
    "The index leads past a tuple's end, or into something that is no tuple.",
)
V0307 = declare_code(
    "V0307",
    "machine is busy",
    "A machine runs on one thread at a time; machines are cheap and can share an executable.",
)
V0308 = declare_code(
    "V0308",
    "fuel exhausted",
    "A recording was given fuel (`record(fuel=...)`) and the program needs more; the instruction set's page "
    "says what each instruction costs.",
)
V0309 = declare_code(
    "V0309",
    "constant was not loaded",
    "A program whose large constants lie in a file of their own gets all of them, and no others, before a "
    "machine is made (`load_late_bound_consts`).",
)
V0310 = declare_code(
    "V0310",
    "output cannot be written in place",
    "A result goes into a caller's tensor where the function makes it in one place, with as many elements "
    "and of this dtype. The tensor is writable, in one piece, and shares no memory with other results or "
    "with arguments.",
)
V0311 = declare_code(
    "V0311",
    "device does not run machine code of programs",
    "Machine code of a whole program, or what runs a graph, reads memory and calls kernels as the host "
    "does. On devices with memory of their own, bytecode runs, which launches kernels through the device's "
    "record.",
)
V0401 = declare_code(
    "V0401", "match_cast failed", "A shape or value at run time differs from what the program states."
)
V0402 = declare_code(
    "V0402",
    "value has the wrong type",
    "An argument or result at run time is not of the type that the program states.",
)
V0403 = declare_code(
    "V0403", "value differs from its annotation", "Number of dimensions, dtype, or number of elements differ."
)
V0404 = declare_code(
    "V0404", "index out of range", "A tuple has fewer elements, or a value of a data type fewer fields."
)
V0405 = declare_code("V0405", "bad condition", "A branch needs a bool or integer scalar.")
V0406 = declare_code(
    "V0406",
    "bad allocation",
    "Memory was asked for on a device or in a scope that the machine does not have.",
)
V0407 = declare_code(
    "V0407", "python function not registered", "`register_py_func` or `register_global_func` makes it known."
)
V0408 = declare_code("V0408", "malformed builtin call", "The operands of a builtin do not follow its form.")
V0409 = declare_code(
    "V0409",
    "register was cleared",
    "A machine that checks lifetimes (`--sanitize`) met an instruction that reads what another one dropped: "
    "a fault of the compiler, or of bytecode written by hand.",
)
V0410 = declare_code(
    "V0410",
    "memory belongs to another tensor",
    "A machine that checks lifetimes (`--sanitize`) met a tensor on whose storage another one was placed in "
    "the meantime: a fault of memory planning, or of bytecode written by hand.",
)
V0411 = declare_code(
    "V0411", "no clause fits", "A match that does not cover every value met one that no clause fits."
)
V0412 = declare_code(
    "V0412",
    "optional package is missing",
    "The program needs a package that is not installed. Install the extra that the message names.",
)
V0501 = declare_code(
    "V0501",
    "machine is being watched already",
    "One profile, recording or debugger watches a machine at a time, and each ends before the next begins.",
)
V0502 = declare_code(
    "V0502",
    "function cannot be watched",
    "Profiles, recordings and debuggers follow bytecode, and the function is machine code.",
)
V0503 = declare_code(
    "V0503",
    "bad recording option",
    "Budgets and limits of a recording are counts or bytes and are not negative.",
)
V0504 = declare_code(
    "V0504",
    "kernel entry is malformed",
    "The metadata entry `kernel.NAME` of an executable is a JSON object with the work of a kernel.",
)
V0505 = declare_code(
    "V0505",
    "debugger command is malformed",
    "The debugger does not know the command, or an operand of it. `help` lists all.",
)
V0506 = declare_code(
    "V0506",
    "no such place",
    "A function, instruction, register or step that is named does not exist, or was not kept.",
)
V0507 = declare_code(
    "V0507",
    "run is over",
    "There is nothing before the first kept step of a recording, and nothing after its last one.",
)
V0701 = declare_code(
    "V0701", "unknown sequence", "`kv_state_add_sequence` or `kv_state_fork_sequence` makes a sequence known."
)
V0702 = declare_code("V0702", "sequence exists already", "Ids are free again once a sequence is removed.")
V0703 = declare_code(
    "V0703",
    "count or position out of range",
    "A sequence has fewer tokens, or less history, than the call assumes; lengths are at least 1.",
)
V0704 = declare_code(
    "V0704",
    "cache is full",
    "No page or sequence slot is left. Remove sequences, or create the cache for more tokens or sequences.",
)
V0705 = declare_code(
    "V0705",
    "cache call out of order",
    "`begin_forward` opens a step, attention and state calls belong inside it, `end_forward` closes it; "
    "token trees are committed before the sequence goes on, is forked or popped.",
)
V0706 = declare_code(
    "V0706",
    "malformed token tree",
    "Each node has an earlier node of its tree as parent, or -1; a leaf to accept is a node or -1.",
)
V0707 = declare_code(
    "V0707",
    "bad cache configuration",
    "Sizes, layer kinds and kernels given to the cache's constructor contradict each other, or ask for "
    "something that this machine does not have.",
)
V0708 = declare_code(
    "V0708",
    "tensor does not fit the cache",
    "Number of dimensions, a size, the dtype or the memory layout differs from what the cache was made for.",
)
V0709 = declare_code(
    "V0709",
    "parameter not in the cache",
    "`vm.builtin.tensor_cache.load` or `.update` puts tensors into the cache under their names.",
)
V0710 = declare_code(
    "V0710", "parameter is in the cache already", "`tensor_cache.update(name, value, True)` replaces it."
)
V0801 = declare_code(
    "V0801",
    "program cannot be a graph",
    "A graph is a list of kernels with known sizes: no branches, closures, recursion or data types. The "
    "other executors run such programs.",
)
V0802 = declare_code(
    "V0802", "malformed graph", "The JSON text of a graph has nodes before their readers, and plans for all."
)
V0803 = declare_code(
    "V0803",
    "graph has no such input, output or node",
    "Inputs are named as the parameters of the program; numbers begin at 0.",
)
V0804 = declare_code(
    "V0804",
    "tensor cannot be bound",
    "A tensor that a graph reads or writes in place has the sizes, dtype and device of its input or output, "
    "and no gaps.",
)
V0805 = declare_code(
    "V0805",
    "malformed pipeline",
    "Stages are numbered so that values flow from lower numbers to higher ones; an input of a stage has one "
    "source.",
)
V0806 = declare_code(
    "V0806",
    "pipeline cannot go on",
    "Set all inputs before the first `run`; each `run` gives one set of outputs to `get_output`.",
)
