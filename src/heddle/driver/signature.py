"""What a compiled function takes and gives, as data that travels with the executable.

Dimensions are integers or texts of scalar expressions over symbolic names (`"n"`, `"n * 2 + 1"`). Nothing
here needs the compiler's rooms: a loaded artefact is called with it.
"""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from heddle.driver.codes import D0202, D0204
from heddle.support.diagnostics import FormatError, UsageError

Dim = int | str
METADATA_PREFIX = "signature."
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor. `shape` is None where it is not known, `dtype` likewise; `kind` is "tensor" or another
    kind's name.
    """

    name: str
    dtype: str | None = None
    shape: tuple[Dim, ...] | None = None
    kind: str = "tensor"

    def text(self) -> str:
        """`float32[n, 8]`."""
        if self.kind != "tensor":
            return self.kind
        dims = "..." if self.shape is None else ", ".join(map(str, self.shape))
        return f"{self.dtype or '?'}[{dims}]"


@dataclass(frozen=True, slots=True)
class Signature:
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    def dim_names(self) -> tuple[str, ...]:
        """The symbolic dimensions of the inputs, in order of appearance."""
        dims = [dim for spec in self.inputs for dim in spec.shape or () if isinstance(dim, str)]
        return tuple(dict.fromkeys(name for dim in dims for name in names_in(dim)))

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def signature_from_json(text: str) -> Signature:
    """The signature that `to_json` wrote. Raises: FormatError D0204 for anything else."""
    try:
        data = json.loads(text)
        return Signature(_specs(data["inputs"]), _specs(data["outputs"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(D0204, f"the model's signature is malformed: {error}") from error


def _specs(rows: Iterable[Mapping[str, Any]]) -> tuple[TensorSpec, ...]:
    specs = []
    for row in rows:
        shape = None if row["shape"] is None else tuple(row["shape"])
        if shape is not None and not all(type(dim) in (int, str) for dim in shape):
            raise TypeError(f"shape {shape} of {row['name']!r}")
        specs.append(TensorSpec(str(row["name"]), row["dtype"], shape, str(row["kind"])))
    return tuple(specs)


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FormatError(D0204, f"dimension {text[:80]!r} is no scalar expression") from error


def names_in(text: str) -> tuple[str, ...]:
    """The symbolic names of a dimension's text."""
    return tuple(node.id for node in ast.walk(_parsed(text)) if isinstance(node, ast.Name))


def evaluate_dim(dim: Dim, values: Mapping[str, int]) -> int | None:
    """The number that a dimension is, or None where a name in it has no value yet."""
    if isinstance(dim, int):
        return dim
    if not all(name in values for name in names_in(dim)):
        return None
    return _evaluate(_parsed(dim), values)


def _evaluate(node: ast.expr, values: Mapping[str, int]) -> int:
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _evaluate(node.left, values), _evaluate(node.right, values)
        if right == 0 and isinstance(node.op, (ast.FloorDiv, ast.Mod)):
            raise UsageError(D0202, f"dimension {ast.unparse(node)} divides by zero")
        return _OPERATORS[type(node.op)](left, right)
    raise FormatError(D0204, f"dimension {ast.unparse(node)[:80]!r} is no sum, product or quotient")
