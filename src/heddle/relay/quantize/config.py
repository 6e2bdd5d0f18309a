"""What a quantised network is to be."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from heddle.ir.codes import I0508
from heddle.ir.pass_options import check_options, option
from heddle.relay.codes import Q0101
from heddle.support.diagnostics import UsageError, did_you_mean
from heddle.support.frozen import frozen
from heddle.support.scoped import Scoped

MODES = ("global_scale", "max", "percentile", "kl_divergence")
WEIGHT_SCALES = ("power2", "max")


class QAnnotateKind(IntEnum):
    """What a simulated tensor is: itself, data of a product, its weight, or a result."""

    IDENTITY = 0
    INPUT = 1
    WEIGHT = 2
    ACTIVATION = 3


def kind2str(kind: int) -> str:
    """The word for a kind, as settings are called. Raises: UsageError Q0101 for another number."""
    known = [each.name.lower() for each in QAnnotateKind]
    if kind not in range(len(known)):
        raise UsageError(Q0101, f"a kind is 0 to {len(known) - 1}, got {kind!r}")
    return known[kind]


def _only(value: Any) -> Any:
    """A setting of which there is one value."""
    return option(value, one_of=(value,))


@frozen
class QConfig(Scoped):
    """Settings of `quantize`; a context in which they hold.

    - `calibrate_mode`: the range of data is `global_scale`, or found in samples: all (`max`), all but 1 in
      100,000 (`percentile`), or by the divergence of histograms (`kl_divergence`).
    - `weight_scale`: each output channel's largest magnitude (`max`), or the next power of 2 (`power2`).
    - `skip_conv_layers`: convolutions that stay, by number; `skip_dense_layer`: all of `nn.dense` stay.
    - `do_simulation`: floats that are rounded and limited as integers would be.
    - `nbit_activation`, `dtype_activation`: of sums of products.
    - `debug_enabled_ops`: names of operators of which products are quantised; None for all.
    - `calibrate_chunk_by`: inputs of how many products are kept at a time; -1 for all.

    `dtype_*`, `nbit_activation`, `round_for_shift`, `rounding` and `partition_conversions` have one value
    each: factors are bytes, products are rescaled as floats and conversions stay where they are.
    """

    nbit_input: int = option(8, one_of=range(2, 9))
    nbit_weight: int = option(8, one_of=range(2, 9))
    nbit_activation: int = _only(32)
    dtype_input: str = _only("int8")
    dtype_weight: str = _only("int8")
    dtype_activation: str = _only("int32")
    calibrate_mode: str = option("global_scale", one_of=MODES)
    global_scale: float = 8.0
    weight_scale: str = option("power2", one_of=WEIGHT_SCALES)
    skip_dense_layer: bool = True
    skip_conv_layers: Sequence[int] | None = (0,)
    do_simulation: bool = False
    debug_enabled_ops: Sequence[str] | None = None
    round_for_shift: bool = _only(True)
    rounding: str = _only("UPWARD")
    calibrate_chunk_by: int = option(-1, at_least=-1)
    partition_conversions: str = _only("disabled")

    def __post_init__(self) -> None:
        """Raises: UsageError I0508 for a value of another type or out of bounds."""
        check_options(self, "qconfig")
        if not 0 < self.global_scale < float("inf"):
            message = f"option 'global_scale' of qconfig: expected a positive number, got {self.global_scale}"
            raise UsageError(I0508, message)

    def get_nbit_by_kind(self, kind: int) -> int:
        """The bits of tensors of a kind. Raises: UsageError Q0101 for one that has none."""
        return int(self._of_kind("nbit", kind))

    def get_dtype_by_kind(self, kind: int) -> str:
        """The dtype of tensors of a kind. Raises: UsageError Q0101 for one that has none."""
        return str(self._of_kind("dtype", kind))

    def _of_kind(self, what: str, kind: int) -> Any:
        word = kind2str(kind)
        if kind == QAnnotateKind.IDENTITY:
            raise UsageError(Q0101, f"there is no {what}_{word}: what is itself stays as it is")
        return getattr(self, f"{what}_{word}")

    def guard(self, ref_call: Any) -> bool:
        """Whether an operator is one of those that are quantised."""
        return self.debug_enabled_ops is None or ref_call.op.name in self.debug_enabled_ops


_DEFAULT = QConfig()


def current_qconfig() -> QConfig:
    """The settings that hold here."""
    return QConfig.innermost() or _DEFAULT


def qconfig(**kwargs: Any) -> QConfig:
    """Settings, those that are not given by default: `with qconfig(...):`. Raises: UsageError
    Q0101 for an unknown setting, I0508 for a wrong value."""
    known = list(QConfig.__dataclass_fields__)
    for name in kwargs:
        if name not in known:
            raise UsageError(Q0101, f"qconfig has no setting {name!r}", help=did_you_mean(name, known))
    return QConfig(**kwargs)
