"""Which products a quantiser has come by, and which of them stay."""

from __future__ import annotations

from typing import Any

from heddle.relay.quantize.config import current_qconfig
from heddle.support.scoped import Scoped


class QuantizeContext(Scoped):
    """Counts convolutions, and asks the settings which products stay: `with QuantizeContext(): ...`."""

    def __init__(self) -> None:
        self._conv2d_counter = 0
        self._is_stopped = False

    def check_to_skip(self, ref_call: Any) -> bool:
        """Whether a call stays as it is. A convolution counts, even where all stay."""
        config, name, number = current_qconfig(), ref_call.op.name, self._conv2d_counter
        self._conv2d_counter += name == "nn.conv2d"
        if self._is_stopped or not config.guard(ref_call):
            return True
        if name == "nn.conv2d":
            return number in (config.skip_conv_layers or ())
        return config.skip_dense_layer

    def stop_quantize(self) -> None:
        """Leave all that follows as it is."""
        self._is_stopped = True

    def reset(self) -> None:
        """Count from the first convolution again, and go on."""
        self._conv2d_counter, self._is_stopped = 0, False

    def __enter__(self) -> QuantizeContext:
        self.reset()
        return super().__enter__()


def quantize_context() -> QuantizeContext:
    """The context that holds here; a new one where there is none."""
    return QuantizeContext.innermost() or QuantizeContext()
