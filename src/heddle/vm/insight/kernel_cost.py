"""The compiler's estimate of a kernel's work, as stored in an executable's metadata.

The entry `kernel.NAME` is a JSON object with the fields of `KernelCost`. Counts are expressions over the
names of symbolic sizes (see `heddle.runtime.size_text`). The tensors of a call give these names their values.
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
    """The work of one call of a kernel.

    `operators` are the graph operators that the kernel computes, in order. `shapes` are the sizes of its
    tensor parameters as texts. `scalars` are the names of the integer parameters after them. `outputs` are
    the positions of the tensors that it writes.

    `flops` counts arithmetic operations. `size_bytes` is the minimum number of bytes moved between memory and
    the kernel: each tensor parameter once, and no more than is accessed. `written_bytes` is the part of it
    that is written. Each of the three is None if it depends on data.

    `rule` names the schedule rule that was applied; `failed_rules` lists the rules that were tried before,
    with the reasons why they failed. `boundaries` explains why fusion ended with this kernel, one entry per
    reason among its calls.
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
        """Return the cost as JSON text, as stored in executables."""
        return json.dumps(asdict(self))

    def sizes(self, tensors: Sequence[Sequence[int]], scalars: Sequence[int] = ()) -> dict[str, int]:
        """Return the values of the symbolic sizes for a call with these tensor shapes and integers."""
        known = dict(zip(self.scalars, scalars, strict=False))
        for texts, shape in zip(self.shapes, tensors, strict=False):
            if len(texts) == len(shape):
                known |= {text: size for text, size in zip(texts, shape, strict=True) if text.isidentifier()}
        return known

    def flops_of(self, sizes: Mapping[str, int]) -> int | None:
        """Return the number of operations of a call with these sizes; None if unknown."""
        return None if self.flops is None else evaluate_size(self.flops, sizes)

    def bytes_of(self, sizes: Mapping[str, int]) -> int | None:
        """Return the number of bytes that a call with these sizes reads and writes; None if unknown."""
        return None if self.size_bytes is None else evaluate_size(self.size_bytes, sizes)

    def written_bytes_of(self, sizes: Mapping[str, int]) -> int | None:
        """Return the number of bytes that a call with these sizes writes; None if unknown."""
        return None if self.written_bytes is None else evaluate_size(self.written_bytes, sizes)


@dataclass(slots=True)
class KernelCosts:
    """The costs of an executable's kernels, parsed on first use."""

    metadata: Mapping[str, str]
    _read: dict[str, KernelCost | None] = field(default_factory=dict)

    def of(self, kernel: str) -> KernelCost | None:
        """Return the cost of a kernel; None if there is none. Raises: FormatError V0504 for a malformed
        entry."""
        if kernel not in self._read:
            text = self.metadata.get(METADATA_PREFIX + kernel)
            self._read[kernel] = None if text is None else cost_from_json(text)
        return self._read[kernel]


@cache
def cost_from_json(text: str) -> KernelCost:
    """Parse the text of `to_json`. Raises: FormatError V0504 for another text."""
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
