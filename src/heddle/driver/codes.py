"""Diagnostic codes of the driver: models, inputs and stages that a command names."""

from heddle.support.diagnostics import declare_code

D0101 = declare_code(
    "D0101",
    "model not found or of unknown kind",
    "A model is a path that ends in .onnx, .py (script text), .relay (a Relay program) or .heddle (a "
    "compiled model), or `onnx:NAME`, a network "
    "that comes with the `onnx` package.",
)
D0102 = declare_code(
    "D0102", "model has no such function", "The function to run, compile or show is not in the model."
)
D0103 = declare_code(
    "D0103", "unknown compiler option", "An option of `heddle.compile` has one of the values that are named."
)
D0104 = declare_code(
    "D0104",
    "model holds C source",
    "A model file is read, not trusted: C source in it would be compiled and run. Compile the module from "
    "Python.",
)
D0105 = declare_code(
    "D0105",
    "two variants for one processor",
    "Variants of one file need different platforms or features; of two that need the same, a machine would "
    "always take the first.",
)
D0106 = declare_code(
    "D0106",
    "output has no such name",
    "Nothing is written over the model that a command reads, nor a compiled model to a name that ends in "
    ".onnx, .py or .relay, or in something that says nothing: the suffix decides what is written.",
)
D0201 = declare_code(
    "D0201",
    "dimension is unknown or malformed",
    "`--dim` takes NAME=VALUE with the name of a symbolic dimension of the model's inputs and a positive "
    "integer.",
)
D0202 = declare_code(
    "D0202",
    "dimensions contradict each other",
    "Two inputs, or an input and `--dim`, give one symbolic dimension different values, or an input does not "
    "have the "
    "size that the model states.",
)
D0203 = declare_code(
    "D0203",
    "input does not fit the model",
    "An input's name, element type or number of dimensions is not what the model states, or its file is no "
    "array.",
)
D0204 = declare_code(
    "D0204",
    "input cannot be made up",
    "The model takes a value that is no tensor, or a tensor of unknown shape or element type; call it from "
    "Python.",
)
D0301 = declare_code(
    "D0301",
    "stage or option does not suit the model",
    "The stage is unknown, or the model is a compiled one, which holds bytecode and object code only. "
    "Options of the compiler are for models that are not compiled, `--variant` is for those that are.",
)
D0302 = declare_code(
    "D0302",
    "no such pass or pipeline",
    "`heddle opt --list` shows all passes and pipelines. `--until` and `--print-after` name passes that run.",
)
D0303 = declare_code(
    "D0303",
    "options of a pass do not fit",
    "A pass is written `PassName` or `PassName(key=value)` with literal values; `heddle opt --list` shows "
    "the options of each. An option that is no literal, as a function, is given from Python.",
)
D0401 = declare_code(
    "D0401", "optional package is missing", "The command needs a package of an extra that is not installed."
)
D0402 = declare_code(
    "D0402",
    "nothing to compare with",
    "Only a model that ONNX Runtime reads can be compared with it, and only one that is not compiled yet "
    "with `fp32`.",
)
D0501 = declare_code(
    "D0501",
    "unexpected failure",
    "A fault of Heddle: an exception that no room turned into a message. Set HEDDLE_TRACEBACK=1 to see "
    "where.",
)
D0107 = declare_code(
    "D0107",
    "no C in this program",
    "A file that ends in `.c` holds a program as C, which target `c` makes of a model. `--arena` is for such "
    "a file.",
)
D0108 = declare_code(
    "D0108",
    "not something to compile",
    "`heddle.compile` takes modules and functions of Heddle, the path of a model, an ONNX model and a "
    "PyTorch module or exported program.",
)
D0109 = declare_code(
    "D0109",
    "C file cannot be written",
    "A library's header, `model.h`, and with `--main` the program `main.c` lie beside it. Files of somebody "
    "else are not overwritten, and only functions that take tensors can be called from C.",
)
D0110 = declare_code(
    "D0110",
    "stages of a pipeline cannot be connected so",
    "Each input of a stage has one source of its type, values flow one way, and the pipeline's outputs are "
    "numbered from 0 on.",
)
D0601 = declare_code(
    "D0601",
    "name of the public interface is unknown",
    "A module of the public interface has no such name. The message names the nearest one.",
)
D0701 = declare_code(
    "D0701",
    "call of the ONNX backend does not fit",
    "The device is not the processor, or the inputs have another number or other names than the model's.",
)
D0801 = declare_code(
    "D0801",
    "session cannot keep this limit",
    "A session needs a machine at least. A limit of memory needs a program whose memory has a bound, and "
    "requests that fit under it.",
)
D0802 = declare_code(
    "D0802",
    "request timed out",
    "The request's result was not there in the time that it was given: it waited for a machine, or ran too "
    "long.",
)
D0803 = declare_code("D0803", "session is closed", "`close` was called, or the `with` of the session ended.")
D0804 = declare_code(
    "D0804",
    "requests cannot be joined",
    "Batching joins requests along the first axis, which every input and output must have as one free "
    "dimension.",
)
D1001 = declare_code(
    "D1001",
    "model cannot be taken apart",
    "`heddle bisect` puts arrays in the place of nodes: inputs that are sequences have no such form.",
)
D1002 = declare_code(
    "D1002",
    "not a bundle",
    "`heddle replay` takes what `heddle bisect` wrote: the file is another one.",
)
D0901 = declare_code(
    "D0901",
    "another process cannot be told",
    "A JIT compiles in a process of its own, which gets the limits and the PassContext of the caller. For "
    "that, options of passes must be numbers, texts and lists of those.",
)
