"""Calls of operators in other layouts: what ConvertLayout does where users say nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle.ir.pass_options import check_value
from heddle.relay.codes import Q0101
from heddle.relay.op import relay_call
from heddle.support.diagnostics import UsageError
from heddle.support.scoped import Scoped

DEFAULT = "default"
"""Written for a layout that follows from that of the data."""


class LayoutConfig(Scoped):
    """Which calls of `nn.conv2d` ConvertLayout leaves alone, by number: `with LayoutConfig([0]): ...`."""

    def __init__(self, skip_layers: Sequence[int] | None = None) -> None:
        check_value("skip_layers of LayoutConfig", skip_layers, Sequence[int] | None)
        self.skip_layers = tuple(skip_layers or ())
        self.skip_counter = 0

    def check_skip(self) -> bool:
        """Whether the next convolution is left alone; it counts."""
        self.skip_counter += 1
        return self.skip_counter - 1 in self.skip_layers

    def reset(self) -> None:
        """Count from the first convolution again, and leave none alone."""
        self.skip_counter, self.skip_layers = 0, ()


def _kernel_layout(name: str, data_layout: str, groups: int) -> str:
    """The usual layout of a kernel: its outputs and inputs first where channels are second, else last."""
    letters = "".join(letter for letter in data_layout if letter not in "NC")
    if not data_layout.isalpha():
        raise UsageError(Q0101, f"{name}: say a kernel layout beside {data_layout}; none is usual")
    if data_layout[1:2] == "C":
        return ("IO" if name.endswith("transpose") else "OI") + letters
    return letters + ("OI" if groups != 1 and not name.endswith("transpose") else "IO")


def _hook(name: str, count: int) -> Callable[..., Any]:
    """The call of an operator with `count` layouts as attributes: of data and kernel, or of data alone."""

    def convert(attrs: Any, inputs: Sequence[Any], tinfos: Any, desired_layouts: Sequence[str]) -> Any:
        config = LayoutConfig.innermost()
        if name == "nn.conv2d" and config is not None and config.check_skip():
            return None
        if not 1 <= len(desired_layouts) <= count:
            raise UsageError(Q0101, f"{name} has {count} layouts, got {list(desired_layouts)}")
        data, kernel = (*map(str, desired_layouts), DEFAULT)[:2]
        if data == DEFAULT:
            raise UsageError(Q0101, f"{name}: the layout of the data is said, not {DEFAULT!r}")
        if count == 1:
            changed = {"layout": data}
        else:
            kernel = _kernel_layout(name, data, attrs.groups) if kernel == DEFAULT else kernel
            changed = {"data_layout": data, "kernel_layout": kernel}
        out = {"out_layout": data} if attrs.get("out_layout") else {}
        return relay_call(name, inputs, {**dict(attrs.items()), **changed, **out})

    return convert


_NUMBERS = (1, 2, 3)
_IN_TWO = [*(f"nn.conv{n}d{end}" for n in _NUMBERS for end in ("", "_transpose")), "qnn.conv2d"]
_IN_ONE = [f"nn.{kind}_pool{n}d" for kind in ("max", "avg", "global_max", "global_avg") for n in _NUMBERS]
HOOKS = {name: _hook(name, 2) for name in (*_IN_TWO, "qnn.conv2d_transpose")}
HOOKS |= {name: _hook(name, 1) for name in (*_IN_ONE, "qnn.avg_pool2d", "image.resize2d")}
"""`f(attrs, inputs, types, desired layouts)` by operator: a call over the inputs; None to leave it alone."""
