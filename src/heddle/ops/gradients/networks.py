"""Gradients of convolutions and pools."""

from __future__ import annotations

from typing import Any

from heddle.graph.gradient import Cotangent, Step, Through
from heddle.graph.infer import type_of
from heddle.graph.op_builder import call_op
from heddle.ir.op_def import Without
from heddle.topi.nn.window import pads, spatial_letters, spread

_RESIZED = Without("no rule is written for sampling between pixels")


def _turned(step: Step, x: Any, layout: str, wanted: str) -> Any:
    """A tensor with its axes in another order."""
    if layout == wanted:
        return x
    return step("permute_dims", x, axes=[layout.index(letter) for letter in wanted])


class _Window:
    """The attributes of a convolution, and its tensors with channels first."""

    def __init__(self, step: Step, transposed: bool) -> None:
        attrs, self.step = step.attrs, step
        self.ndim = step.ndim(0) - 2
        spatial = spatial_letters(self.ndim)
        self.data_layout = str(attrs.data_layout)
        self.kernel_layout = str(attrs.kernel_layout)
        self.plain, self.kernel = "NC" + spatial, ("IO" if transposed else "OI") + spatial
        self.strides, self.dilation = spread(attrs.strides, self.ndim), spread(attrs.dilation, self.ndim)
        before, after = pads(attrs.padding, self.ndim)
        self.padding = [*before, *after]
        self.groups = int(attrs.groups)
        self.data = _turned(step, step.args[0], self.data_layout, self.plain)
        self.weight = _turned(step, step.args[1], self.kernel_layout, self.kernel)
        grad = step.grad
        if str(step.result_type.dtype) != step.dtype(0):  # type: ignore[attr-defined]
            grad = step("astype", grad, dtype=step.dtype(0))
        self.grad = _turned(step, grad, str(attrs.out_layout or attrs.data_layout), self.plain)
        self.data_dims = [step.dims(0)[self.data_layout.index(letter)] for letter in self.plain]
        self.weight_type = self._type(1, self.kernel_layout, self.kernel)
        self.data_type = self._type(0, self.data_layout, self.plain)

    def _type(self, k: int, layout: str, wanted: str) -> Any:
        ty = self.step.ty(k)
        dims = tuple(self.step.dims(k)[layout.index(letter)] for letter in wanted)
        return type(ty)(dims, ty.dtype)

    def call(self, kind: str, data: Any, weight: Any, **changes: Any) -> Any:
        attrs = {
            "strides": self.strides,
            "padding": self.padding,
            "dilation": self.dilation,
            "groups": self.groups,
            "data_layout": self.plain,
            "kernel_layout": ("IO" if kind else "OI") + self.plain[2:],
        }
        return self.step(f"nn.conv{self.ndim}d{kind}", data, weight, **{**attrs, **changes})

    def weights_by(self, outer: Any, inner: Any, outer_dims: list[Any], outer_type: Any) -> Any:
        """Each weight's sum over all places of what the wide tensor has there times what the narrow one has:
        a convolution of the wide with the narrow, whose batch takes the place of channels."""
        step, words, n = self.step, self.step.words, self.ndim
        rest = list(range(2, n + 2))
        dims = list(outer_dims)
        if self.groups > 1:
            wide = words.split_axis(outer, dims, 1, self.groups, -1)
            each = dims[1] // self.groups
            wide = step("permute_dims", wide, axes=[2, 1, 0, *(k + 1 for k in rest)])
            wide = words.join_axes(wide, [each, self.groups, dims[0], *dims[2:]], 1)
        else:
            wide = step("permute_dims", outer, axes=[1, 0, *rest])
        narrow = step("permute_dims", inner, axes=[1, 0, *rest])
        found = self.call("", wide, narrow, strides=self.dilation, dilation=self.strides)
        turned = step("permute_dims", found, axes=[1, 0, *rest])
        return words.cut(turned, outer_type[0], outer_type[1])


def _conv(step: Step) -> tuple[Cotangent, ...]:
    window = _Window(step, transposed=False)
    extra = [stride - 1 for stride in window.strides]
    to_data = window.call("_transpose", window.grad, window.weight, output_padding=extra)
    to_data = step.words.cut(to_data, window.data, window.data_type)
    to_weight = window.weights_by(
        window.data, window.grad, window.data_dims, (window.weight, window.weight_type)
    )
    return (
        _turned(step, to_data, window.plain, window.data_layout),
        _turned(step, to_weight, window.kernel, window.kernel_layout),
    )


def _conv_transpose(step: Step) -> tuple[Cotangent, ...]:
    window = _Window(step, transposed=True)
    to_data = step.words.cut(window.call("", window.grad, window.weight), window.data, window.data_type)
    layout = str(step.attrs.out_layout or step.attrs.data_layout)
    dims = step.result_type.dims  # type: ignore[attr-defined]
    grad_dims = [dims[layout.index(letter)] for letter in window.plain]
    to_weight = window.weights_by(window.grad, window.data, grad_dims, (window.weight, window.weight_type))
    return (
        _turned(step, to_data, window.plain, window.data_layout),
        _turned(step, to_weight, window.kernel, window.kernel_layout),
    )


# ---- pools


def _pool(kind: str, ndim: int) -> Any:
    name = f"nn.{kind}_pool{ndim}d_grad"

    def rule(step: Step) -> tuple[Cotangent, ...]:
        names = ("pool_size", "strides", "padding", "dilation", "ceil_mode", "count_include_pad", "layout")
        attrs = {key: step.attrs[key] for key in names if kind == "avg" or key != "count_include_pad"}
        return (step(name, step.grad, step.args[0], **attrs),)

    return rule


def _adaptive(kind: str) -> Through:
    """Of one window for all places; others are refused by `_whole`."""

    def equivalent(attrs: Any, data: Any) -> Any:
        ndim = type_of(data).ndim - 2  # type: ignore[attr-defined]
        layout = str(attrs.layout)
        axes = [layout.index(letter) for letter in spatial_letters(ndim)]
        return call_op("mean" if kind == "avg" else "max", data, axis=axes, keepdims=True)

    return Through(equivalent)


def _whole(kind: str) -> Any:
    through = _adaptive(kind)

    def rule(step: Step) -> tuple[Cotangent, ...]:
        from_attrs = step.attrs.output_size
        sizes = from_attrs if isinstance(from_attrs, (tuple, list)) else (from_attrs,)
        if any(size != 1 for size in sizes):
            step.refuse("of several windows: write it as a pool with strides")
        return step.through(through)

    return rule


def rules() -> dict[str, Any]:
    """The rules of this file by the names of records."""
    found: dict[str, Any] = {}
    for ndim in (1, 2, 3):
        found[f"nn.conv{ndim}d"] = _conv
        found[f"nn.conv{ndim}d_transpose"] = _conv_transpose
        found[f"image.resize{ndim}d"] = _RESIZED
        found[f"nn.sum_pool{ndim}d"] = Without("no rule is written: an average times its window has one")
        for kind in ("max", "avg"):
            found[f"nn.{kind}_pool{ndim}d"] = _pool(kind, ndim)
            found[f"nn.{kind}_pool{ndim}d_grad"] = Without("second gradients of pools have no rule")
            found[f"nn.adaptive_{kind}_pool{ndim}d"] = _whole(kind)
    for name in ("image.grid_sample", "image.affine_grid", "vision.roi_align", "vision.roi_pool"):
        found[name] = _RESIZED
    found["image.col2im"] = Without("no rule is written")
    found["vision.nms_boxes"] = Without("it gives positions")
    return found
