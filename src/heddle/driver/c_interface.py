"""The C interface of a library: a header that declares a model's functions with C types, and a program that
runs `main`.

    heddle compile model.onnx -o model.so --main      writes model.so, model.h and main.c

A function takes a pointer for each input and an integer for each free dimension. A dimension that is an
expression has an integer parameter of its own. Other functions return pointers to the outputs:

    int model_main(HeddleProgram* program, const float* x, int64_t n);
    const float* model_main_y(HeddleProgram* program);
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from heddle import __version__
from heddle.driver.codes import D0109
from heddle.driver.signature import Signature, TensorSpec, signature_from_json
from heddle.runtime import native
from heddle.runtime.dtype import DataType, packed_dtype
from heddle.support.diagnostics import UsageError
from heddle.support.files import write_bytes
from heddle.support.frozen import frozen
from heddle.support.reading import read_bytes

INCLUDE_DIR = Path(native.__path__[0])
"""The folder of heddle.h and of the headers that C models include."""
MAIN = "main.c"
_MARK = "/* Made by heddle "
_C_TYPES = {
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float32": "float",
    "float64": "double",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "bool": "bool",
}
"""Element type → C type; the 16-bit floats are their bits. Others are `void`."""
_WORDS_OF_C = """
auto bool break case char const continue default do double else enum extern false float for goto if inline
int long register restrict return short signed sizeof static struct switch true typedef union unsigned void
volatile while int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t and or not xor class
delete new this template program inputs argc argv main status i
"""
_NAMES_TAKEN = frozenset(_WORDS_OF_C.split())
"""What a parameter cannot be called: words of C and C++, and names that the functions here use."""


@frozen
class _Input:
    """An input in C: its tensor, its name, and a number or a parameter's name for each dimension."""

    spec: TensorSpec
    name: str
    dims: tuple[str, ...]


@frozen
class _CFunction:
    """A function of the model that C can call. `dims` are the parameters that are sizes."""

    name: str
    own_name: str
    inputs: tuple[_Input, ...]
    dims: tuple[str, ...]
    outputs: tuple[tuple[str, TensorSpec], ...]


def write_header(path: Path, signatures: Mapping[str, str], prefix: str = "") -> Path:
    """Write `model.h` beside the library `path`. `signatures` are those of its functions, as stored in the
    metadata.

    Raises: UsageError D0109 if a file that Heddle did not write has that name; S0101 if it cannot be written.
    """
    header = header_of(path)
    check_own_header(path)
    write_bytes(header, header_text(path.stem, signatures, prefix).encode())
    return header


def header_of(path: Path) -> Path:
    """The path of a library's header."""
    return path.with_suffix(".h")


def check_own_header(path: Path) -> None:
    """Check that the header of the library `path` does not overwrite a file that Heddle did not write.
    Raises: UsageError D0109."""
    header = header_of(path)
    if header.is_file() and not read_bytes(header).startswith(_MARK.encode()):
        raise UsageError(
            D0109, f"{header} is there and was not made by heddle", help="give the library another name"
        )


def check_no_main(path: Path) -> None:
    """Check that `main.c` does not exist yet. Raises: UsageError D0109."""
    place = path.with_name(MAIN)
    if place.exists():
        raise UsageError(D0109, f"{place} is there already", help="--main writes it; move the old one away")


def write_main(path: Path, signatures: Mapping[str, str], prefix: str = "") -> Path:
    """Write `main.c` beside the library `path`. Raises: UsageError D0109 if it exists, or if C cannot call
    `main`."""
    check_no_main(path)
    text = signatures.get("main")
    func = None if text is None else _function_of(_word(path.stem), "main", signature_from_json(text))
    if func is None:
        raise UsageError(D0109, f"{path.name} has no function main that takes tensors alone")
    place = path.with_name(MAIN)
    write_bytes(place, _main_text(header_of(path).name, func, prefix).encode())
    return place


def cc_line(path: Path) -> str:
    """The command that makes a program of `main.c` and a library beside it."""
    folder = path.parent
    program = folder / f"{path.stem}-main"
    words = ["cc", str(folder / MAIN), f"-I{INCLUDE_DIR}"]
    if path.suffix.lower() == ".a":
        words += [str(path), "-lpthread", "-lm"]
    else:
        words += [f"-L{folder}", f"-l:{path.name}", f"-Wl,-rpath,{folder.absolute()}"]
    return shlex.join([*words, "-o", str(program)])


def header_text(stem: str, signatures: Mapping[str, str], prefix: str = "") -> str:
    """The header of a library. Inputs and outputs are row-major without gaps."""
    word = _word(stem)
    guard = f"{word.upper()}_H_"
    blocks = [
        f"{_MARK}{__version__}: {stem}, from C. heddle.h says how programs are opened and closed. */",
        f"#ifndef {guard}\n#define {guard}",
        '#include <stdbool.h>\n#include <stddef.h>\n\n#include "heddle.h"',
        '#ifdef __cplusplus\nextern "C" {\n#endif',
    ]
    if prefix:
        blocks.append(f"HEDDLE_DECLARE({prefix})")
    for own_name, text in signatures.items():
        func = _function_of(word, own_name, signature_from_json(text))
        if func is None:
            blocks.append(f"/* {_comment(own_name)} takes values that are no tensors: not from C. */")
            continue
        blocks += [
            _run_text(func, prefix),
            *(_output_text(func, i, prefix) for i in range(len(func.outputs))),
        ]
    blocks += ["#ifdef __cplusplus\n}\n#endif", "#endif"]
    return "\n\n".join(blocks) + "\n"


def _function_of(word: str, own_name: str, signature: Signature) -> _CFunction | None:
    """How C calls a function; None where an input is no tensor of a known type and rank."""
    specs = signature.inputs
    if any(spec.kind != "tensor" or spec.shape is None or spec.dtype in (None, "string") for spec in specs):
        return None
    taken = set(_NAMES_TAKEN)
    names = [_fresh(spec.name, taken) for spec in specs]
    free: dict[str, str] = {}
    inputs = []
    for spec, name in zip(specs, names, strict=True):
        dims = []
        for axis, dim in enumerate(spec.shape or ()):
            if isinstance(dim, int):
                dims.append(str(dim))
                continue
            key = dim if dim.isidentifier() else f"{name}_dim{axis}"
            if key not in free:
                free[key] = _fresh(key, taken)
            dims.append(free[key])
        inputs.append(_Input(spec, name, tuple(dims)))
    own = set[str]()
    outputs = tuple((_fresh(spec.name, own), spec) for spec in signature.outputs)
    return _CFunction(f"{word}_{_word(own_name)}", own_name, tuple(inputs), tuple(free.values()), outputs)


def _run_text(func: _CFunction, prefix: str) -> str:
    params = [f"const {_c_type(item.spec)}* {item.name}" for item in func.inputs]
    params += [f"int64_t {dim}" for dim in func.dims]
    lines = [f"/* Run {_comment(func.own_name)}: 0, or -1, and {prefix}heddle_error tells why."]
    lines += [f"   {item.name}: {_comment(item.spec.text())}" for item in func.inputs]
    lines[-1] += " */"
    lines.append(f"static inline int {func.name}({', '.join(['HeddleProgram* program', *params])}) {{")
    for item in func.inputs:
        rank, shape = len(item.dims), "NULL"
        if rank:
            shape = f"{item.name}_shape"
            lines.append(f"  int64_t {shape}[{rank}] = {{{', '.join(item.dims)}}};")
        word = packed_dtype(DataType(str(item.spec.dtype)))
        lines.append(
            f"  DLTensor {item.name}_tensor = {{(void*){item.name}, {{1, 0}}, {rank}, "
            f"{{{word & 0xFF}, {word >> 8 & 0xFF}, {word >> 16}}}, {shape}, NULL, 0}};"
        )
    tensors = ", ".join(f"&{item.name}_tensor" for item in func.inputs)
    array = "NULL"
    if tensors:
        array = "inputs"
        lines.append(f"  const DLTensor* inputs[] = {{{tensors}}};")
    name = _string(func.own_name)
    lines += [f"  return {prefix}heddle_run(program, {name}, {array}, {len(func.inputs)});", "}"]
    return "\n".join(lines)


def _output_text(func: _CFunction, index: int, prefix: str) -> str:
    name, spec = func.outputs[index]
    kind = _c_type(spec)
    return "\n".join(
        [
            f"/* Output {index} of the last run, {_comment(spec.text())}; NULL where there is none. */",
            f"static inline const {kind}* {func.name}_{name}(HeddleProgram* program) {{",
            f"  const DLTensor* tensor = {prefix}heddle_output(program, {index});",
            "  if (tensor == NULL) return NULL;",
            f"  return (const {kind}*)((const char*)tensor->data + tensor->byte_offset);",
            "}",
        ]
    )


_MAIN_TEXT = """\
%(mark)s%(version)s: runs a model on made-up inputs and tells what it gives. A start for a program of yours.

   %(usage)s */

#include <stdio.h>
#include <stdlib.h>

#include "%(header)s"

static void* make(size_t size_bytes) {
  void* data = calloc(size_bytes + 1, 1);
  if (data == NULL) exit(1);
  return data;
}

static void show(int index, const DLTensor* tensor) {
  int64_t count = 1;
  printf("output %%d: shape (", index);
  for (int axis = 0; axis < tensor->ndim; ++axis) {
    printf(axis == 0 ? "%%lld" : ", %%lld", (long long)tensor->shape[axis]);
    count *= tensor->shape[axis];
  }
  printf("), type %%d, %%d bits\\n ", tensor->dtype.code, tensor->dtype.bits);
  const char* data = (const char*)tensor->data + tensor->byte_offset;
  int code = tensor->dtype.code, bits = tensor->dtype.bits;
  for (int64_t i = 0; i < count && i < 8; ++i) {
    if (code == 2 && bits == 32) printf(" %%.6g", ((const float*)data)[i]);
    if (code == 2 && bits == 64) printf(" %%.6g", ((const double*)data)[i]);
    if (code == 0 && bits == 64) printf(" %%lld", (long long)((const int64_t*)data)[i]);
    if (code == 0 && bits == 32) printf(" %%d", (int)((const int32_t*)data)[i]);
    if (code == 6) printf(" %%d", (int)data[i]);
  }
  printf("\\n");
}

int main(int argc, char** argv) {
  (void)argc, (void)argv;
%(body)s
  HeddleProgram* program = %(prefix)sheddle_open();
  int status = %(call)s;
  if (status != 0) fprintf(stderr, "%%s\\n", %(prefix)sheddle_error(program));
  for (int i = 0; status == 0 && i < %(prefix)sheddle_num_outputs(program); ++i) {
    const DLTensor* tensor = %(prefix)sheddle_output(program, i);
    if (tensor != NULL) show(i, tensor);
  }
  %(prefix)sheddle_close(program);
%(end)s
  return status == 0 ? 0 : 1;
}
"""


def _main_text(header: str, func: _CFunction, prefix: str) -> str:
    body = [
        f"  int64_t {dim} = argc > {index} ? atoll(argv[{index}]) : 2;"
        for index, dim in enumerate(func.dims, 1)
    ]
    for item in func.inputs:
        kind, count = _c_type(item.spec), " * ".join(["(size_t)1", *(f"(size_t){dim}" for dim in item.dims)])
        body.append(f"  size_t {item.name}_count = {count};")
        if kind == "void":  # a byte or less an element
            body.append(f"  void* {item.name} = make({item.name}_count);")
            continue
        body.append(f"  {kind}* {item.name} = ({kind}*)make({item.name}_count * sizeof(*{item.name}));")
        if kind in ("float", "double"):
            step = f"{item.name}[i] = ({kind})(i % 7) - 3;"
            body.append(f"  for (size_t i = 0; i < {item.name}_count; ++i) {step}")
    words = [f"[{dim}]" for dim in func.dims]
    facts = {
        "mark": _MARK,
        "version": __version__,
        "usage": f"Arguments: {' '.join(words)}" if words else "It takes no arguments.",
        "header": header,
        "body": "\n".join(body),
        "prefix": prefix,
        "call": f"{func.name}({', '.join(['program', *(item.name for item in func.inputs), *func.dims])})",
        "end": "\n".join(f"  free({item.name});" for item in func.inputs),
    }
    return _MAIN_TEXT % facts


def _c_type(spec: TensorSpec) -> str:
    return _C_TYPES.get(spec.dtype or "", "void")


def _word(text: str) -> str:
    """A name in C like a text."""
    word = re.sub(r"\W", "_", text, flags=re.ASCII)
    return word if re.match(r"[A-Za-z_]", word) else f"_{word}" if word else "model"


def _fresh(text: str, taken: set[str]) -> str:
    """A name in C that nothing has yet, `x_2` where `x` is taken."""
    word, number = _word(text), 1
    found = word
    while found in taken:
        number += 1
        found = f"{word}_{number}"
    taken.add(found)
    return found


def _comment(text: str) -> str:
    """A text that may stand in a comment."""
    return re.sub(r"[^ -~]", "?", text).replace("*/", "* /").replace("/*", "/ *")


def _string(text: str) -> str:
    """A text as a string in C."""
    plain = re.compile(r"[A-Za-z0-9_ .:-]")
    return (
        '"' + "".join(c if plain.match(c) else "".join(f"\\{b:03o}" for b in c.encode()) for c in text) + '"'
    )
