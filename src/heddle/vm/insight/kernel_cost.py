"""What the compiler knows about a kernel's work, as it travels in an executable's metadata.

The entry `kernel.NAME` is a JSON object with the fields of `KernelCost`. Counts are texts over the names of
symbolic sizes (see `heddle.runtime.size_text`); a call's tensors give the names their values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from heddle.runtime.size_text import evaluate_size, names_in
from heddle.support.diagnostics import FormatError
from heddle.support.frozen import frozen
from heddle.vm.codes import V0504

METADATA_PREFIX = "kernel."


@frozen
class KernelCost:
    """A kernel's work for one call.

    `operators` are the graph operators that it computes, in order. `shapes` are the sizes of its tensor
    parameters, as texts; `scalars` the names of the integers that follow them. `outputs` are the positions
    of the tensors that it writes. `flops` counts arithmetic operations, `size_bytes` the bytes that have to
    move between memory and the kernel at least: each tensor parameter once, and no more than is accessed;
    `written_bytes` are those of them that it writes. Each is None where it depends on data. `rule` names
    the schedule rule that gave it its loops, `failed_rules` those before it that failed, and why;
    `boundaries` tell why fusion ended with it, one entry for each reason among its calls.
    """

    operators: tuple[str, ...] = ()
    shapes: tuple[tuple[str, ...], ...] = ()
    scalars: tuple[str, ...] = ()
    outputs: tuple[int, ...] = ()
    flops: str | None = None
    size_bytes: str | None = None
    rule: str = ""
    boundaries: tuple[str, ...] = ()
    written_bytes: str | None = None
    failed_rules: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The cost as JSON text, as executables keep it."""
        return json.dumps(asdict(self))

    def sizes(self, tensors: Sequence[Sequence[int]], scalars: Sequence[int] = ()) -> dict[str, int]:
        """The values of the symbolic sizes in a call with tensors of these shapes, then these integers."""
        known = dict(zip(self.scalars, scalars, strict=False))
        for texts, shape in zip(self.shapes, tensors, strict=False):
            if len(texts) == len(shape):
                known |= {text: size for text, size in zip(texts, shape, strict=True) if text.isidentifier()}
        return known

    def flops_of(self, sizes: Mapping[str, int]) -> int | None:
        """Operations of a call with these sizes; None where they are not known."""
        return None if self.flops is None else evaluate_size(self.flops, sizes)

    def bytes_of(self, sizes: Mapping[str, int]) -> int | None:
        """Bytes that a call with these sizes reads and writes; None where they are not known."""
        return None if self.size_bytes is None else evaluate_size(self.size_bytes, sizes)

    def written_bytes_of(self, sizes: Mapping[str, int]) -> int | None:
        """Bytes that a call with these sizes writes; None where they are not known."""
        return None if self.written_bytes is None else evaluate_size(self.written_bytes, sizes)


@dataclass(slots=True)
class KernelCosts:
    """The costs of an executable's kernels, read as they are asked for."""

    metadata: Mapping[str, str]
    _read: dict[str, KernelCost | None] = field(default_factory=dict)

    def of(self, kernel: str) -> KernelCost | None:
        """None for a kernel of which nothing is known. Raises: FormatError V0504 for a malformed entry."""
        if kernel not in self._read:
            text = self.metadata.get(METADATA_PREFIX + kernel)
            self._read[kernel] = None if text is None else cost_from_json(text)
        return self._read[kernel]


@cache
def cost_from_json(text: str) -> KernelCost:
    """What `to_json` wrote. Raises: FormatError V0504 for anything else."""
    try:
        data = json.loads(text)
        cost = KernelCost(
            _texts(data["operators"]),
            tuple(_texts(shape) for shape in data["shapes"]),
            _texts(data["scalars"]),
            _positions(data["outputs"]),
            _optional_text(data["flops"]),
            _optional_text(data["size_bytes"]),
            str(data.get("rule", "")),
            _texts(data.get("boundaries", ())),
            _optional_text(data.get("written_bytes")),
            _texts(data.get("failed_rules", ())),
        )
        for size in (cost.flops, cost.size_bytes, cost.written_bytes):
            names_in(size or "0")
        return cost
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(V0504, f"a kernel's entry in the metadata is malformed: {error}") from error


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"expected texts, got {values!r}")
    return tuple(values)


def _positions(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list) or not all(type(value) is int and value >= 0 for value in values):
        raise TypeError(f"expected positions, got {values!r}")
    return tuple(values)


def _optional_text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"expected a text, got {value!r}")
    return value
