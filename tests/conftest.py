"""Every test sees the operators declared, as users of the package do. A schedule rule that fails is an error
here, also in processes that tests start: for users it gives way to the next. Property tests have few,
deterministic examples and no deadline in time: a slow machine is no failure. Whole programs are not
kept on disk: tests that replace a part of the compiler must see it run."""

import os
import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell ignores it for what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("HEDDLE_STRICT_RULES", "1")
os.environ.setdefault("HEDDLE_CACHE", "kernels")

from hypothesis import HealthCheck, settings

from heddle import ops

ops.load()
settings.register_profile(
    "tests", max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("tests")
