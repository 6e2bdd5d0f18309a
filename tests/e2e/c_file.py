"""Programs that target c made, compiled by a C compiler on their own and run."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from heddle.driver.c_program import CFiles, write_c_program
from heddle.runtime import native as native_package
from heddle.runtime.dtype import DataType, dtype_of, packed_dtype
from heddle.vm.relax.executable import VMExecutable

HEADERS = Path(str(native_package.__file__)).parent
_CLANG_OF_ZIG = [sys.executable, "-m", "ziglang", "cc"]
COMMANDS = {name: [name] for name in ("gcc", "clang") if shutil.which(name)}
"""The compilers of this machine. The clang in the package ziglang stands in for one of the system's."""
if "clang" not in COMMANDS and find_spec("ziglang") is not None:
    COMMANDS["clang"] = _CLANG_OF_ZIG
COMPILERS = list(COMMANDS)
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror")
SANITIZED = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
needs_compiler = pytest.mark.skipif(not COMPILERS, reason="no gcc and no clang on this machine")
MAIN = """
/* Reads inputs and writes outputs as: word of the dtype, rank, sizes, bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "heddle.h"
#ifdef WEIGHTS
void heddle_use_weights(const void *weights);

static void *whole_file(const char *path) {
  FILE *file = fopen(path, "rb");
  long size;
  unsigned char *data;
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) exit(3);
  size = ftell(file);
  rewind(file);
  data = (unsigned char *)malloc((size_t)size + 64);
  if (data == NULL || fread(data, 1, (size_t)size, file) != (size_t)size) exit(4);
  fclose(file);
  return data;
}
#endif

int main(int argc, char **argv) {
  DLTensor tensors[16];
  const DLTensor *inputs[16];
  int64_t shapes[16][8], words[2];
  void *data[16];
  int count = 0, i, axis, run, status = 0;
  int num_runs = argc > 1 ? atoi(argv[1]) : 1;
  FILE *file = fopen("inputs", "rb");
  HeddleProgram *program;
#ifdef WEIGHTS
  void *weights = whole_file("model.weights");
  heddle_use_weights(weights);
#endif
  while (fread(words, 8, 2, file) == 2) {
    DLTensor *tensor = &tensors[count];
    int64_t bytes;
    memset(tensor, 0, sizeof *tensor);
    memcpy(&tensor->dtype, &words[0], 4);
    tensor->device.device_type = 1;
    tensor->ndim = (int32_t)words[1];
    tensor->shape = shapes[count];
    bytes = (tensor->dtype.bits + 7) / 8;
    for (axis = 0; axis < tensor->ndim; ++axis) {
      if (fread(&shapes[count][axis], 8, 1, file) != 1) return 5;
      bytes *= shapes[count][axis];
    }
    data[count] = malloc((size_t)bytes + 1);
    if (fread(data[count], 1, (size_t)bytes, file) != (size_t)bytes) return 6;
    tensor->data = data[count];
    inputs[count] = tensor;
    ++count;
  }
  fclose(file);
  program = heddle_open();
  for (run = 0; run < num_runs && status == 0; ++run) status = heddle_run(program, "main", inputs, count);
  if (status != 0) fprintf(stderr, "%s\\n", heddle_error(program));
  file = fopen("outputs", "wb");
  for (i = 0; status == 0 && i < heddle_num_outputs(program); ++i) {
    const DLTensor *tensor = heddle_output(program, i);
    int64_t bytes = (tensor->dtype.bits + 7) / 8;
    words[0] = 0;
    memcpy(&words[0], &tensor->dtype, 4);
    words[1] = tensor->ndim;
    fwrite(words, 8, 2, file);
    for (axis = 0; axis < tensor->ndim; ++axis) {
      fwrite(&tensor->shape[axis], 8, 1, file);
      bytes *= tensor->shape[axis];
    }
    fwrite(tensor->data, 1, (size_t)bytes, file);
  }
  fclose(file);
  heddle_close(program);
  for (i = 0; i < count; ++i) free(data[i]);
#ifdef WEIGHTS
  free(weights);
#endif
  return status == 0 ? 0 : 1;
}
"""


def written(executable: VMExecutable, folder: Path, with_arena: bool = False) -> CFiles:
    return write_c_program(executable, folder / "model.c", with_arena)


def compiled(files: CFiles, flags: Sequence[str] = (), compiler: str | None = None) -> Path:
    """The program beside a C file."""
    folder = files.source.parent
    (folder / "main.c").write_text(MAIN)
    return linked(folder, [*flags, *([] if files.weights is None else ["-DWEIGHTS"])], compiler)


def linked(folder: Path, flags: Sequence[str] = (), compiler: str | None = None) -> Path:
    """The program of model.c and main.c in a folder."""
    command = COMMANDS[compiler or COMPILERS[0]]
    if command is _CLANG_OF_ZIG:  # it comes without the address sanitizer's library
        flags = [flag.replace("address,", "") for flag in flags]
    command = [*command, *STRICT, *flags, f"-I{HEADERS}"]
    done = subprocess.run(
        [*command, "model.c", "main.c", "-o", "program", "-lm"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "program"


def compiled_object(files: CFiles) -> bytes:
    """The object code of a C file."""
    command = [*COMMANDS[COMPILERS[0]], *STRICT, "-O2", f"-I{HEADERS}", "-c", "model.c", "-o", "model.o"]
    subprocess.run(command, cwd=files.source.parent, check=True)
    return (files.source.parent / "model.o").read_bytes()


def run(program: Path, arrays: Sequence[np.ndarray], num_runs: int = 1) -> list[np.ndarray]:
    """What the program's function main gives. Raises: AssertionError with what it printed."""
    given = bytearray()
    for array in arrays:
        given += struct.pack(f"<{2 + array.ndim}q", packed_dtype(dtype_of(array)), array.ndim, *array.shape)
        given += np.ascontiguousarray(array).tobytes()
    (program.parent / "inputs").write_bytes(given)
    done = subprocess.run(
        [str(program), str(num_runs)], cwd=program.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return list(_outputs((program.parent / "outputs").read_bytes()))


def _outputs(data: bytes) -> Sequence[np.ndarray]:
    found, at = [], 0
    while at < len(data):
        word, rank = struct.unpack_from("<qq", data, at)
        shape = struct.unpack_from(f"<{rank}q", data, at + 16)
        at += 16 + 8 * rank
        dtype = _NUMPY[word]
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        found.append(np.frombuffer(data[at : at + count], dtype).reshape(shape))
        at += count
    return found


_NUMPY = {
    packed_dtype(DataType(name)): DataType(name).numpy()
    for name in (
        *("float16", "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64", "bool"),
    )
}
