"""Settings of the property tests: few, deterministic examples in the ordinary run."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "unit", max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("unit")
