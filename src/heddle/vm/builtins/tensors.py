"""Builtins that return views of tensors."""

from __future__ import annotations

from heddle.runtime.layout import layout_of
from heddle.runtime.shape import Shape
from heddle.runtime.tensor import Tensor, make_tensor
from heddle.support.diagnostics import TrapValueError
from heddle.vm.builtins.table import builtin
from heddle.vm.codes import V0403


@builtin("reshape")
def reshape(tensor: Tensor, shape: Shape) -> Tensor:
    """Return a view of the same memory with another shape. Raises: TrapValueError V0403 if it needs more
    elements, or if a size is negative."""
    layout = layout_of(shape)
    is_shape = min(shape, default=0) >= 0 and layout.num_elements <= tensor.layout.num_elements
    if not is_shape or tensor.layout.strides is not None:
        raise TrapValueError(
            V0403,
            f"cannot view a tensor of shape {tuple(tensor.shape)} as {tuple(shape)}: expected at most "
            f"{tensor.layout.num_elements} elements, got {layout.num_elements}",
        )
    return make_tensor(tensor.address, layout, tensor.dtype, tensor.device, tensor)


@builtin("ensure_zero_offset")
def ensure_zero_offset(tensor: Tensor) -> Tensor:
    """Return the tensor itself: its byte offset is always 0, because tensors point to their first element."""
    return tensor
