"""Diagnostic codes of the runtime: values, devices, tensors, packed functions, modules and files."""

from heddle.support.diagnostics import declare_code

U0101 = declare_code(
    "U0101", "unknown dtype", "The spelling names no element type; see `docs/glossary.md` for the list."
)
U0201 = declare_code("U0201", "unknown device", "The name or number stands for no kind of device.")
U0202 = declare_code(
    "U0202",
    "device not available",
    "Memory can be had only on devices that this process can reach; at present that is the CPU.",
)
U0203 = declare_code(
    "U0203",
    "memory cannot be copied between devices",
    "What crosses from one device to another is compact: elements lie one after the other.",
)
U0301 = declare_code(
    "U0301", "shapes do not fit", "Two tensors, or a tensor and a view of it, need matching sizes."
)
U0302 = declare_code(
    "U0302", "value cannot become a tensor", "Its element type or memory layout has no equivalent here."
)
U0303 = declare_code(
    "U0303",
    "dlpack exchange failed",
    "The producer handed over no usable capsule, or one that was consumed already.",
)
U0304 = declare_code(
    "U0304",
    "memory is not to be written",
    "A result that is a constant of the program, or a view of one, shares the program's memory.",
)
U0401 = declare_code(
    "U0401",
    "global function not found",
    "Nothing was registered under the name; `register_global_func` does it.",
)
U0402 = declare_code("U0402", "not a function", "A callable was expected.")
U0403 = declare_code(
    "U0403",
    "kernel argument has the wrong type",
    "Compiled kernels take tensors (numpy arrays count), ints, floats, bools and None.",
)
U0409 = declare_code(
    "U0409",
    "kernel result cannot be written",
    "The kernel wrote an argument whose memory may not be written: a numpy array that is not writable. It "
    "ran on a copy, and the array has what it had.",
)
U0404 = declare_code(
    "U0404", "kernel failed", "A check inside compiled code was violated; the message is the kernel's own."
)
U0405 = declare_code(
    "U0405",
    "reference is in use",
    "A reference that compiled code made belongs to its machine, which another thread runs at the moment.",
)
U0406 = declare_code(
    "U0406",
    "reference holds itself",
    "Machine code counts who holds a value. A reference that leads to itself would never be freed.",
)
U0407 = declare_code(
    "U0407",
    "value holds itself",
    "A list or a value of a data type is among its own parts. Values that programs take have an end.",
)
U0408 = declare_code(
    "U0408",
    "malformed value of a data type",
    "A value of a data type has an integer of 64 bits as tag, and a tuple of fields.",
)
U0501 = declare_code(
    "U0501",
    "function not in module",
    "Neither the module nor, where asked, its imports have the function; or it is one of a program, which a "
    "`VirtualMachine` runs.",
)
U0502 = declare_code(
    "U0502",
    "kernels cannot be linked",
    "The object code was built for another kind of processor, is damaged, or refers to a symbol that this "
    "process lacks; or the system allows no code that is written at run time.",
)
U0503 = declare_code("U0503", "module cannot be exported", "A module in the tree has no stored form.")
U0504 = declare_code(
    "U0504",
    "export needs a linker",
    "Shared and static libraries are written by the system's linker, else by that of the extra "
    "`link`. Any other file name writes Heddle's own one-file format.",
)
U0505 = declare_code("U0505", "linker failed", "The linker's own message follows.")
U0506 = declare_code(
    "U0506",
    "library cannot have a prefix",
    "The module attribute `system_lib_prefix` is a name in C; symbols are renamed in 64-bit ELF objects.",
)
U0507 = declare_code(
    "U0507",
    "no such system library",
    "`runtime.system_lib(prefix)` looks in the libraries that the process has loaded; load the one that "
    "holds it first (`ctypes.CDLL`).",
)
U0508 = declare_code(
    "U0508", "no such variant", "The message names the variants that the file or module has."
)
U0509 = declare_code(
    "U0509",
    "a library holds one variant",
    "Several variants go into the one-file format. A shared or static library is made of one: "
    '`module.select("NAME").export_library(path)`, or on the command line with one `--target`.',
)
U0510 = declare_code(
    "U0510",
    "no such file for the target",
    "Each object of a file is for the program's target. Shared and static libraries hold the native support "
    "library too, which is made for the systems that the message lists; the one-file format is for any "
    "target.",
)
U0511 = declare_code(
    "U0511",
    "not a key",
    "Keys are PEM files with an Ed25519 key: a private one to sign, a public one to verify.",
)
U0512 = declare_code(
    "U0512", "signatures need a package", "Ed25519 comes from the package `cryptography`, the extra `sign`."
)
U0513 = declare_code(
    "U0513",
    "library cannot be verified",
    "A shared library is loaded by the system, from the file as it is then. Verified bytes are loaded of the "
    "one-file format only.",
)
U0514 = declare_code(
    "U0514",
    "LLVM cannot be loaded",
    "The package llvmlite is missing, damaged, for another Python, or there is no memory for it.",
)
U0515 = declare_code(
    "U0515",
    "file holds no program to run",
    "`heddle.runtime.LibraryProgram` runs shared libraries and `.heddle` files with compiled functions. "
    "Libraries have the functions of heddle.h, with the prefix that they were exported with. Files that were "
    "written before they held a native runtime of their own, and bytecode, run on a `VirtualMachine`.",
)
U0601 = declare_code(
    "U0601",
    "memory limit reached",
    "An allocation would exceed the allocator's `memory_limit_bytes`, or what the machine has: its memory "
    "and swap space, or less where a control group limits the process.",
)
U0602 = declare_code("U0602", "bad allocation request", "A size is negative, or a view leaves its storage.")
U0603 = declare_code(
    "U0603",
    "access outside a buffer",
    "A loop function with bounds checks was about to read or write outside a buffer, to divide by zero, or "
    "to take more memory than a machine has. The message names the buffer, the index and the place.",
)
U0604 = declare_code(
    "U0604",
    "loops take too long",
    "A loop function from untrusted text would take more steps in one call than the limit `kernel_steps` "
    "has, or an input of a model asks a loop that nothing else ends for more turns than the limit "
    "`loop_turns`. The limits are those of the compilation: `--limit kernel_steps=VALUE`, "
    "`--limit loop_turns=VALUE`.",
)
U0701 = declare_code("U0701", "bad thread count", "The pool runs 1 to 1024 threads.")
U0801 = declare_code(
    "U0801", "bad timing option", "`number` and `repeat` are at least 1; delays are not negative."
)
U1001 = declare_code(
    "U1001",
    "index out of range",
    "An index in a tensor lies outside the axis that it reads or writes. Where an operator counts negative "
    "indices from the end, the valid ones of an axis of n elements are -n to n - 1.",
)
U0901 = declare_code(
    "U0901", "size divides by zero", "A computed dimension divides by another one that is 0 in this call."
)

F0101 = declare_code("F0101", "not an artefact", "The file does not start with the artefact's magic bytes.")
F0102 = declare_code(
    "F0102", "unknown artefact version", "The file was written by another version of the format."
)
F0103 = declare_code("F0103", "artefact is truncated", "The file ends before a part that it announces.")
F0104 = declare_code("F0104", "artefact is damaged", "A digest, an offset or a length contradicts the bytes.")
F0105 = declare_code("F0105", "section missing", "The artefact lacks a section that its kind must have.")
F0106 = declare_code(
    "F0106", "section is malformed", "A section's digest is right but its contents follow no known layout."
)
F0107 = declare_code(
    "F0107", "unknown module kind", "The artefact holds a module whose loader is not present."
)
F0109 = declare_code(
    "F0109", "library holds no artefact", "The shared library was not written by `export_library`."
)
F0110 = declare_code(
    "F0110",
    "kernels of another version",
    "Object code in the artefact was compiled for another version of the native interface. Compile the "
    "model again.",
)
F0111 = declare_code(
    "F0111",
    "kernels need another processor",
    "Object code is for another platform, or uses instructions that this processor does not have. Compile "
    "for this processor, or for several in one file.",
)
F0112 = declare_code(
    "F0112",
    "no variant fits this machine",
    "Each variant of the file needs another platform, or features that this processor does not have.",
)
F0108 = declare_code(
    "F0108",
    "size expression is malformed",
    "Sizes in an artefact are sums, products, floor quotients, remainders, min and max of names and "
    "integers, of at most 127 bits.",
)
F0201 = declare_code(
    "F0201", "not a tensor cache", "The folder has no `tensor-cache.json`, or that file has another form."
)
F0202 = declare_code(
    "F0202",
    "tensor cache is damaged",
    "A record's offset, size, shape or element type contradicts the shard that holds it, or the shard's "
    "bytes are not those that the index has the md5 sum of.",
)
F0203 = declare_code(
    "F0203",
    "tensor cache leads outside its folder",
    "Shards lie in the folder itself; a name with a path is refused.",
)
F0113 = declare_code(
    "F0113",
    "signature is missing or wrong",
    "A signature was required. The file has none beside it (FILE.sig), or its bytes are not those that the "
    "owner of the key signed. Compiled models hold machine code: do not load one of unknown origin.",
)
