"""Signatures: inputs and outputs of compiled functions, as data that is stored in the executable.

Dimensions are integers or texts of expressions over symbolic names (`"n"`, `"n * 2 + 1"`). This module does
not import the compiler: it is used to call loaded executables.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from heddle.driver.codes import D0204
from heddle.runtime.size_text import evaluate_size, names_in
from heddle.support.diagnostics import FormatError
from heddle.support.frozen import frozen

Dim = int | str
METADATA_PREFIX = "signature."
PRECISION = "precision"
"""Metadata entry: the precision of products, if it is lower than that of the model."""
COMPILER = "compiler"
"""Metadata entry: the Heddle version that compiled the program. Older files have none."""


@frozen
class TensorSpec:
    """A tensor. `shape` and `dtype` are None if unknown. `kind` is "tensor" or the name of another kind of
    value. `path` is the position of an output in the function's return value: () is the whole value, (1,) the
    second item of a tuple, (1, 0) the first item of the tuple that is the second item."""

    name: str
    dtype: str | None = None
    shape: tuple[Dim, ...] | None = None
    kind: str = "tensor"
    path: tuple[int, ...] = ()

    def text(self) -> str:
        """`float32[n, 8]`."""
        if self.kind != "tensor":
            return self.kind
        dims = "..." if self.shape is None else ", ".join(map(str, self.shape))
        return f"{self.dtype or '?'}[{dims}]"


@frozen
class Signature:
    """The inputs and outputs of a function, in order. Nested tuples are flattened: each item is an output."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    def values(self, result: Any) -> list[Any]:
        """Return the value of each output from the function's return value. Raises: FormatError D0204 if its
        tuple structure does not match the signature."""
        found = []
        for spec in self.outputs:
            value = result
            for index in spec.path:
                if not isinstance(value, tuple) or index >= len(value):
                    raise FormatError(
                        D0204, f"the signature has an output {spec.name!r} that the function does not return"
                    )
                value = value[index]
            found.append(value)
        return found

    def dim_names(self) -> tuple[str, ...]:
        """The symbolic dimensions of the inputs, in order of appearance."""
        dims = [dim for spec in self.inputs for dim in spec.shape or () if isinstance(dim, str)]
        return tuple(dict.fromkeys(name for dim in dims for name in names_in(dim)))

    def to_json(self) -> str:
        """The signature as JSON text."""
        return json.dumps(asdict(self))


def signature_from_json(text: str) -> Signature:
    """Parse the text of `to_json`. Raises: FormatError D0204 for another text."""
    try:
        data = json.loads(text)
        outputs = _specs(data["outputs"])
        if not any("path" in row for row in data["outputs"]) and len(outputs) > 1:
            # Older files: the outputs are the parts of one tuple, which may be tuples themselves.
            outputs = tuple(replace(spec, path=(index,)) for index, spec in enumerate(outputs))
        return Signature(_specs(data["inputs"]), outputs)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(D0204, f"the model's signature is malformed: {error}") from error


def _specs(rows: Iterable[Mapping[str, Any]]) -> tuple[TensorSpec, ...]:
    specs = []
    for row in rows:
        name, dtype, shape, kind = row["name"], row["dtype"], row["shape"], row["kind"]
        if not isinstance(name, str) or not isinstance(kind, str):
            raise TypeError(f"name {name!r} and kind {kind!r}")
        if not isinstance(dtype, str | None):
            raise TypeError(f"dtype {dtype!r} of {name!r}")
        if not isinstance(shape, list | None) or not all(type(dim) in (int, str) for dim in shape or ()):
            raise TypeError(f"shape {shape!r} of {name!r}")
        path = row.get("path", [])
        if not isinstance(path, list) or not all(type(index) is int and index >= 0 for index in path):
            raise TypeError(f"path {path!r} of {name!r}")
        specs.append(TensorSpec(name, dtype, None if shape is None else tuple(shape), kind, tuple(path)))
    return tuple(specs)


def evaluate_dim(dim: Dim, values: Mapping[str, int]) -> int | None:
    """Return the value of a dimension; None if a name in it has no value yet. Raises: as `evaluate_size`."""
    return dim if isinstance(dim, int) else evaluate_size(dim, values)
