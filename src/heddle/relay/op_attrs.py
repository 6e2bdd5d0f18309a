"""What users know of operators: hooks of passes, by the operator's name and that of the attribute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.graph.fusion_kind import fusion_kind
from heddle.relay.op import lookup

_ATTRS: dict[tuple[str, str], tuple[int, Any]] = {}


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> Any:
    """Set an attribute of an operator; without a value, a decorator that does. A value of a higher level
    replaces one of a lower or equal level. Raises: UsageError I0401 for a name that is no operator."""

    def register(given: Any) -> Any:
        lookup(op_name)
        if _ATTRS.get((op_name, attr_key), (level, None))[0] <= level:
            _ATTRS[op_name, attr_key] = level, given
        return given

    return register if value is None else register(value)


def reset_op_attr(op_name: str, attr_key: str) -> None:
    """Forget an attribute of an operator."""
    _ATTRS.pop((op_name, attr_key), None)


def op_attr(op_name: str, attr_key: str) -> Any:
    """An attribute of an operator; None where it was not set. `TOpPattern`, where it was not, is how its
    record says that it is fused."""
    if attr_key == "TOpPattern" and (op_name, attr_key) not in _ATTRS:
        return int(fusion_kind(*lookup(op_name)))
    return _ATTRS.get((op_name, attr_key), (0, None))[1]


def _registrar(key: str) -> Callable[..., Any]:
    def register(op_name: str, value: Any = None, level: int = 10) -> Any:
        return register_op_attr(op_name, key, value, level)

    return register


register_legalize = _registrar("FTVMLegalize")
register_alter_op_layout = _registrar("FTVMAlterOpLayout")
register_convert_op_layout = _registrar("FTVMConvertOpLayout")
register_mixed_precision_conversion = _registrar("FTVMMixedPrecisionConversionType")
register_qnn_legalize = _registrar("FTVMQnnLegalize")
register_fake_quantization_to_integer = _registrar("FTVMFakeQuantizationToInteger")
