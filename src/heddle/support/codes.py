"""Diagnostic codes of the support room: files, settings, registries."""

from heddle.support.diagnostics import declare_code

S0101 = declare_code(
    "S0101",
    "file cannot be written",
    "The output path is read-only, its folder is missing, or the disk is full. Nothing is left behind: files "
    "are "
    "written beside their target and renamed when they are complete.",
)
S0102 = declare_code(
    "S0102", "file cannot be read", "The path does not exist, is a folder, or may not be read."
)
S0201 = declare_code(
    "S0201",
    "name registered twice",
    "Two declarations use the same name. Both places are shown; rename one, or pass override=True where that "
    "exists.",
)
S0202 = declare_code("S0202", "name not registered", "Nothing was declared under this name.")
S0301 = declare_code(
    "S0301", "setting has a bad value", "An environment variable that Heddle reads is malformed."
)
S0302 = declare_code(
    "S0302",
    "limit has a bad name or value",
    "`--limit NAME=VALUE` and `heddle.config.limits` take the names of docs/limits.md and positive integers.",
)
S0401 = declare_code(
    "S0401",
    "capability refused",
    "Text or a file from outside asks for what only trusted programs may do: call foreign code, use memory "
    "by address, make promises to the compiler, or reach functions and files of the process. Read it; then "
    "run it with `--trust` (`trust=True`) if you would run it as a program.",
)
S0501 = declare_code(
    "S0501",
    "folder is not private",
    "Compiled programs and kernels are kept in a folder that only its user can write: whoever writes there "
    "decides what later processes run. The folder, or one above it, belongs to somebody else, can be "
    "written by others, or is a link. Programs go on without the cache.",
)
S0601 = declare_code(
    "S0601",
    "limit exceeded",
    "A model asks for more work than a limit allows, often far more than its size: functions that call each "
    "other, numbers that grow with each step. The message names the limit; docs/limits.md lists them, and "
    "how to raise one.",
)
S0701 = declare_code(
    "S0701",
    "out of memory",
    "The system gave no memory for what the model asks for, or for Heddle itself. A limit on the process "
    "(`ulimit -v`, a container's) may be what ended.",
)
S0702 = declare_code(
    "S0702", "output is closed", "The program was started without a standard output to write its result to."
)
S0703 = declare_code(
    "S0703",
    "package cannot be imported",
    "A package that Heddle uses is damaged, or there is no memory for its libraries.",
)
S0704 = declare_code(
    "S0704",
    "interpreter is not supported",
    "Native code of Heddle reads and makes objects of CPython, as builds with the interpreter's lock lay "
    "them out. Another implementation, and the free-threaded build (`python3.13t`), lay them out in another "
    "way. Use CPython's usual build: calls of compiled programs let the lock go while they run.",
)
S0705 = declare_code(
    "S0705",
    "compiler is not installed",
    "The distribution heddle-runtime holds what runs compiled files (`heddle.runtime.LibraryProgram`). "
    "Everything else is in heddle-compiler, which holds the runtime too.",
)
S0706 = declare_code(
    "S0706",
    "there is no such style",
    "`show(style=...)` colours text: a style is light, dark, ansi, or the name of one of Pygments' styles.",
)
