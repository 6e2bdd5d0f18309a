"""Target descriptions and host detection."""

from heddle.target.features import has_fma, has_half_conversion, has_ldexp
from heddle.target.host import Host, host
from heddle.target.kinds import TARGET_KINDS, TargetKind
from heddle.target.target import Target

__all__ = [
    "TARGET_KINDS",
    "Host",
    "Target",
    "TargetKind",
    "has_fma",
    "has_half_conversion",
    "has_ldexp",
    "host",
]
