"""Summaries of values: type and shape, a digest of the contents, and the memory range."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

from heddle.runtime.shape import Array, Shape
from heddle.runtime.storage import Storage
from heddle.runtime.tensor import Tensor
from heddle.support.frozen import frozen

Memory = tuple[int, int]
"""First address and one past the last."""


@frozen
class Summary:
    """A value as it was at one moment.

    `digest` is equal for equal contents of one dtype and shape. It is None if the contents have no meaning
    (fresh memory, storages, functions). `shape` and `dtype` are set for tensors. `num_nan` and `num_inf`
    count elements, for tuples over all parts. `value` is the value itself if it is immutable.
    """

    kind: str
    text: str
    digest: str | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    num_nan: int = 0
    num_inf: int = 0
    parts: tuple[Summary, ...] = ()
    memory: tuple[Memory, ...] = ()
    value: Any = None

    def overlaps(self, memory: tuple[Memory, ...]) -> bool:
        """Whether a tensor of the value shares bytes with one of these stretches of memory."""
        return any(low < end and first < high for low, high in self.memory for first, end in memory)

    def __str__(self) -> str:
        return self.text


EMPTY = Summary("none", "none")


def summarize(value: Any, is_fresh: bool = False) -> Summary:
    """The summary of a runtime value. Contents of fresh memory are not looked at."""
    if value is None:
        return EMPTY
    if isinstance(value, Tensor):
        return _of_fresh_tensor(value) if is_fresh else _of_tensor(value)
    if isinstance(value, Array):
        return _of_array(value)
    if isinstance(value, Storage):
        return Summary("storage", f"storage of {value.size_bytes} bytes", memory=_memory_of(value))
    if isinstance(value, (Shape, bool, int, float, str)):
        kind = type(value).__name__.lower()
        text = f"shape{tuple(value)}" if isinstance(value, Shape) else f"{kind} {value!r}"
        is_float = isinstance(value, float)
        return Summary(
            kind,
            text,
            _digest(f"{kind}:{value!r}".encode()),
            num_nan=int(is_float and value != value),
            num_inf=int(is_float and value in (float("inf"), float("-inf"))),
            value=value,
        )
    return Summary("object", f"{type(value).__name__} {str(value)[:60]}")


def _of_tensor(value: Tensor) -> Summary:
    array = value.numpy()
    raw = np.ascontiguousarray(array)
    digest = _digest(raw.reshape(-1).view(np.uint8).data, f"{value.dtype}{tuple(value.shape)}")
    num_nan, num_inf, figures = _figures(value, raw)
    wrong = "".join(f", {count} {what}" for count, what in ((num_nan, "NaN"), (num_inf, "Inf")) if count)
    return Summary(
        "tensor",
        f"{_type_text(value)}{figures}{wrong}",
        digest,
        tuple(value.shape),
        str(value.dtype),
        num_nan,
        num_inf,
        memory=_memory_of(value),
    )


def _of_fresh_tensor(value: Tensor) -> Summary:
    return Summary(
        "tensor",
        f"{_type_text(value)} not written yet",
        None,
        tuple(value.shape),
        str(value.dtype),
        memory=_memory_of(value),
    )


def _of_array(value: Array) -> Summary:
    parts = tuple(summarize(item) for item in value)
    known = all(part.digest is not None for part in parts)
    return Summary(
        "tuple",
        f"({', '.join(part.text for part in parts)})",
        _digest("".join(part.digest or "" for part in parts).encode(), "tuple") if known else None,
        num_nan=sum(part.num_nan for part in parts),
        num_inf=sum(part.num_inf for part in parts),
        parts=parts,
        memory=tuple(place for part in parts for place in part.memory),
    )


def _figures(value: Tensor, array: np.ndarray[Any, Any]) -> tuple[int, int, str]:
    """Numbers of NaN and infinite elements; least, greatest and mean of the finite ones."""
    if not array.size:
        return 0, 0, ""
    if value.dtype.is_bool:
        return 0, 0, f" {int(array.astype(bool).sum())} of {array.size} true"
    # bfloat16 and float8 have no arithmetic of their own in numpy
    values = array if array.dtype.kind in "iuf" else array.astype(np.float32)
    if values.dtype.kind != "f":
        return 0, 0, _range_text(values)
    nan, inf = np.isnan(values), np.isinf(values)
    num_nan, num_inf = int(nan.sum()), int(inf.sum())
    finite = values[~(nan | inf)] if num_nan or num_inf else values
    return num_nan, num_inf, _range_text(finite) if finite.size else ""


def _range_text(values: np.ndarray[Any, Any]) -> str:
    if values.size == 1:
        return f" {values.reshape(-1)[0]:.6g}"
    return f" {values.min():.4g} .. {values.max():.4g}, mean {values.mean(dtype=np.float64):.4g}"


def _type_text(value: Tensor) -> str:
    return f"{value.dtype}[{', '.join(map(str, value.shape))}]"


def _memory_of(value: Tensor | Storage) -> tuple[Memory, ...]:
    return ((value.address, value.address + value.size_bytes),) if value.size_bytes else ()


def _digest(data: Any, salt: str = "") -> str:
    return blake2b(data, digest_size=8, key=salt.encode()[:64]).hexdigest()
