"""Diagnostic codes of the frontends: what can be wrong with a model file, and what an importer lacks."""

from heddle.support.diagnostics import declare_code

N0001 = declare_code(
    "N0001",
    "optional package is missing",
    "The importer of this format needs a package that is not installed. Install the extra that the message "
    "names.",
)
N0101 = declare_code(
    "N0101", "model file cannot be read", "The path does not exist, is a folder, or may not be read."
)
N0102 = declare_code(
    "N0102",
    "not a model file",
    "The bytes are not a serialised model: the file is truncated, damaged or of another format.",
)
N0103 = declare_code(
    "N0103",
    "external data is missing or out of place",
    "A tensor's data lies in another file, which does not exist, is too short, or lies outside the model's "
    "folder.",
)
N0104 = declare_code(
    "N0104",
    "malformed tensor",
    "The number of bytes or values of a stored tensor contradicts its dimensions or element type.",
)
N0105 = declare_code(
    "N0105",
    "malformed graph",
    "Names are undefined or defined twice, nodes form a cycle, or required parts are missing.",
)
N0106 = declare_code(
    "N0106",
    "malformed node",
    "A node has too few or too many inputs, lacks an attribute, or has one of the wrong kind or value.",
)
N0201 = declare_code(
    "N0201",
    "operator is not supported",
    "The importer has no conversion for the operator, and its specification has no body of simpler "
    "operators.",
)
N0202 = declare_code(
    "N0202", "operator set is not supported", "The model uses a domain or version that the importer lacks."
)
N0203 = declare_code(
    "N0203",
    "form of an operator is not supported",
    "The operator is supported, but not with this attribute, input or number of dimensions.",
)
N0204 = declare_code("N0204", "element type is not supported", "The importer has no element type like it.")
N0301 = declare_code(
    "N0301",
    "value of unknown rank",
    "An input lacks a shape, or a shape's length is known only when the model runs. `shape_dict` can state "
    "it.",
)
N0302 = declare_code(
    "N0302",
    "argument of the importer does not fit the model",
    "`shape_dict` or `dtype_dict` names an unknown input, or contradicts the model's own shapes.",
)
N0401 = declare_code(
    "N0401",
    "unknown rotary embedding",
    "The kind of rotary position embedding, or one of its parameters, is not among those that kernels have.",
)
N0402 = declare_code(
    "N0402",
    "attention sizes do not fit",
    "Query heads come in groups of equal size for each head of keys; sizes are at least 1; kernels have "
    "float32, float16 and bfloat16.",
)
N0501 = declare_code(
    "N0501",
    "PyTorch model cannot be exported",
    "PyTorch's exporters to ONNX, through which PyTorch models are imported, do not take the model. The "
    "message says what they say.",
)
N0502 = declare_code(
    "N0502",
    "example inputs are missing or not wanted",
    "A module of PyTorch is exported with an example of its arguments. A program that `torch.export` made "
    "has them already.",
)
