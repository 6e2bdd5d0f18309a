"""Check memory that a caller supplies for results.

Kernels assume that the memory of a result overlaps neither that of another result nor that of an argument.
The memory must be used directly: results in a copy of it would not reach the caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from heddle.runtime.dlpack import is_lender
from heddle.runtime.shape import Array
from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import UsageError
from heddle.vm.codes import V0310
from heddle.vm.stateful import convert_argument


def tensors_for_results(values: Sequence[Any]) -> tuple[Tensor, ...]:
    """Return tensors over the memory of the caller's tensors and arrays.

    Raises: UsageError V0310 for a value that is not a tensor or array, cannot be written in place, or shares
    memory with another one.
    """
    outputs = tuple(_tensor_over(number, value) for number, value in enumerate(values))
    for (i, first), (j, second) in combinations(enumerate(outputs), 2):
        if _overlap(first, second):
            raise UsageError(V0310, f"results {i} and {j} were given memory that overlaps")
    return outputs


def check_apart(outputs: Sequence[Tensor], args: Sequence[Any], names: Sequence[str]) -> None:
    """Check that no argument overlaps the memory for results. `names` are the names of the arguments, if they
    have any.

    Raises: UsageError V0310.
    """
    for number, arg in enumerate(args):
        for tensor in _tensors_in(arg):
            for place, output in enumerate(outputs):
                if _overlap(tensor, output):
                    name = names[number] if number < len(names) else str(number)
                    raise UsageError(
                        V0310, f"result {place} was given memory that overlaps with argument {name!r}"
                    )


def _tensor_over(number: int, value: Any) -> Tensor:
    if not isinstance(value, Tensor | np.ndarray) and not is_lender(value):
        raise UsageError(V0310, f"result {number} goes to a tensor or an array, got {type(value).__name__}")
    made: Tensor = convert_argument(value)
    is_copy = isinstance(value, np.ndarray) and value.size and made.address != value.ctypes.data
    if is_copy or made.is_readonly or not made.is_contiguous:
        raise UsageError(
            V0310,
            f"result {number} was given memory that cannot be written in place",
            help="it has to be writable, in one piece and aligned to 16 bytes",
        )
    return made


def _overlap(a: Tensor, b: Tensor) -> bool:
    if a.device != b.device:
        return False
    return max(a.address, b.address) < min(a.address + a.size_bytes, b.address + b.size_bytes)


def _tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Array):
        for part in value:
            yield from _tensors_in(part)
