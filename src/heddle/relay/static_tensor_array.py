"""Tensor arrays whose tensors all have one shape, of which single sizes may be free.

The text is the same for each element type and shape: `tensor_array_read_float32_3_any`, ... It stands in
`std/arrays`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.relay.nodes import AnyDim
from heddle.relay.tensor_array import INDICES, array_text
from heddle.support.frozen import frozen

Shape = tuple[int | None, ...]
"""None for a size that is free."""


def known_shape(shape: Sequence[Any]) -> Shape:
    """A shape as users write it, with `relay.Any()` for free sizes."""
    return tuple(None if isinstance(dim, AnyDim) else int(dim) for dim in shape)


@frozen
class StaticTensors:
    """The names and definitions for one element type and shape."""

    dtype: str
    shape: Shape
    batch_dim: int | None = None

    @property
    def suffix(self) -> str:
        """What the names end in."""
        batch = f"batch{self.batch_dim}_" if self.batch_dim is not None else ""
        return f"{self.dtype}_{batch}{shape_name(self.shape)}"

    @property
    def type_name(self) -> str:
        """The data type: no tensor, or one of the shape."""
        return f"static_tensor_{self.suffix}_t"

    @property
    def array(self) -> str:
        """The type of an array of these."""
        return f"List[{self.type_name}]"

    @property
    def maker(self) -> str:
        """The constructor of a tensor."""
        return f"tensor_constructor_{self.suffix}"

    @property
    def tensor(self) -> str:
        """The type of one tensor."""
        dims = ", ".join("?" if dim is None else str(dim) for dim in self.shape)
        return f"Tensor[({dims}), {self.dtype}]"

    def of(self, shape: Shape) -> StaticTensors:
        """Those of another shape."""
        return StaticTensors(self.dtype, shape, self.batch_dim)

    @property
    def rows(self) -> StaticTensors:
        """Parts along the first axis."""
        return self.of((None, *self.shape[1:]))

    @property
    def stacked(self) -> StaticTensors:
        """Several of these behind one another, along a new first axis."""
        return self.of((None, *self.shape))

    def used(self) -> list[StaticTensors]:
        """Those whose data types the functions need."""
        return [self, self.stacked, *([self.rows, self.of(self.shape[1:])] if self.shape else [])]

    def type_text(self) -> str:
        """The definition of the data type."""
        d = self.suffix
        return f"type {self.type_name} {{ tensor_nil_{d}, {self.maker}({self.tensor}) }}"

    def functions(self) -> list[str]:
        """The functions for a shape; the arrays' scatter and split come by themselves."""
        stacked = self.stacked
        found = [
            array_text("places", d=self.suffix, item=self.type_name, array=self.array),
            array_text("one_shape", d=self.suffix, tensor=self.tensor, stacked=stacked.suffix),
            self._joined("stack", stacked, "expand_dims(%x, axis=0)"),
            array_text("gather", d=self.suffix, array=self.array, stacked=stacked.type_name, indices=INDICES),
        ]
        return found + self._of_rows() if self.shape else found

    def _joined(self, name: str, whole: StaticTensors, row: str) -> str:
        name = f"@tensor_array_{name}_{self.suffix}"
        return array_text("joined", name=name, d=self.suffix, whole=whole.suffix, row=row)

    def _of_rows(self) -> list[str]:
        """What goes along the first axis."""
        rows, part = self.rows, self.of(self.shape[1:])
        some = 'take(%x, arange(%lower, %upper, 1, dtype="int32"), axis=0)'
        words = {"d": self.suffix, "of": "", "make": part.maker, "array": part.array}
        return [
            array_text("rows", d=self.suffix, rows=rows.suffix, taken="%x" if self.shape[0] == 0 else some),
            self._joined("concat", rows, "%x"),
            array_text("unstack", **words, rows=rows.tensor, whole=self.tensor),
        ]

    def scatter(self, indices: Shape | None) -> str:
        """Values into places; `indices` is the shape of their numbers."""
        return array_text("scatter", d=self.suffix, array=self.array, indices=_numbers(indices))

    def split(self, value: Shape | None, lengths: Shape | None) -> str:
        """A tensor of the shape `value` into rows; the array's tensors have a free first size."""
        whole = self.of(value) if value is not None else self.rows
        words = {"d": self.suffix, "array": self.array, "lengths": _numbers(lengths)}
        return array_text("split", **words, whole=whole.suffix, value=whole.type_name)


def shape_name(shape: Shape) -> str:
    """A shape in a name: `3_any`, or `scalar`."""
    return "_".join("any" if dim is None else str(dim) for dim in shape) or "scalar"


def _numbers(shape: Shape | None) -> str:
    return INDICES if shape is None else StaticTensors("int32", shape).tensor
