"""Tensor arrays whose tensors all have one shape, of which single sizes may be free.

The text is the same for each element type and shape: `tensor_array_read_float32_3_any`, ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from heddle.relay.nodes import AnyDim
from heddle.relay.tensor_array import INDICES, gather_text, places_text, scatter_text, split_text
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

    def functions(self) -> Iterator[str]:
        """The functions for a shape; the arrays' scatter and split come by themselves."""
        d, t, stacked = self.suffix, self.type_name, self.stacked
        yield from places_text(d, t, self.array)
        yield (
            f"def @tensor_get_data_{d}(%t: {t}) -> {self.tensor} "
            f"{{ match? (%t) {{ {self.maker}(%x) => %x }} }}"
        )
        yield (
            f"def @tensor_expand_dims_{d}(%t: {t}) -> {stacked.type_name} "
            f"{{ match? (%t) {{ {self.maker}(%x) => {stacked.maker}(expand_dims(%x, axis=0)) }} }}"
        )
        yield self._joined("stack", stacked, "expand_dims(%x, axis=0)")
        yield from gather_text(d, self.array, stacked.type_name)
        if self.shape:
            yield from self._of_rows()

    def _joined(self, name: str, whole: StaticTensors, row: str) -> str:
        """The tensors of an array, one behind the other; `row` is what is in the one for `%x`."""
        function = f"@tensor_array_{name}_{self.suffix}"
        return (
            f"def {function}(%ta: {self.array}) -> {whole.type_name} {{ match? (%ta) {{ "
            f"Cons({self.maker}(%x), Nil) => {whole.maker}({row}), "
            f"Cons({self.maker}(%x), %rest) => match? ({function}(%rest)) "
            f"{{ {whole.maker}(%y) => {whole.maker}(concatenate(({row}, %y), axis=0)) }} }} }}"
        )

    def _of_rows(self) -> Iterator[str]:
        """What goes along the first axis."""
        d, t, rows, part = self.suffix, self.type_name, self.rows, self.of(self.shape[1:])
        some = 'take(%x, arange(%lower, %upper, 1, dtype="int32"), axis=0)'
        taken = "%x" if self.shape[0] == 0 else some
        yield (
            f"def @tensor_take_{d}(%t: {t}, %lower: int32, %upper: int32) -> {rows.type_name} "
            f"{{ match? (%t) {{ {self.maker}(%x) => "
            f"{rows.maker}({taken}) }} }}"
        )
        yield (
            f"def @tensor_concatenate_{d}(%a: {t}, %b: {t}) -> {rows.type_name} {{ match? ((%a, %b)) {{ "
            f"({self.maker}(%x), {self.maker}(%y)) => {rows.maker}(concatenate((%x, %y), axis=0)) }} }}"
        )
        yield self._joined("concat", rows, "%x")
        helper = f"@tensor_array_unstack_helper_{d}"
        yield (
            f"def {helper}(%i: int32, %up: int32, %t: {rows.tensor}) -> {part.array} "
            f"{{ if (%i == %up) {{ Nil }} else "
            f"{{ Cons({part.maker}(take(%t, %i, axis=0)), {helper}(%i + 1, %up, %t)) }} }}"
        )
        yield (
            f"def @tensor_array_unstack_{d}(%t: {self.tensor}) -> {part.array} "
            f"{{ {helper}(0, take(shape_of(%t), 0), %t) }}"
        )

    def scatter(self, indices: Shape | None) -> Iterator[str]:
        """Values into places; `indices` is the shape of their numbers."""
        return scatter_text(self.suffix, self.array, _numbers(indices))

    def split(self, value: Shape | None, lengths: Shape | None) -> Iterator[str]:
        """A tensor of the shape `value` into rows; the array's tensors have a free first size."""
        whole = self.of(value) if value is not None else self.rows
        return split_text(self.suffix, whole.suffix, self.array, whole.type_name, _numbers(lengths))


def shape_name(shape: Shape) -> str:
    """A shape in a name: `3_any`, or `scalar`."""
    return "_".join("any" if dim is None else str(dim) for dim in shape) or "scalar"


def _numbers(shape: Shape | None) -> str:
    return INDICES if shape is None else StaticTensors("int32", shape).tensor
