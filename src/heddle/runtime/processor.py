"""Detect this machine's processor.

This is the only module that asks LLVM about it. `heddle.target.host` adds what only the compiler needs.
"""

from __future__ import annotations

from functools import cache

from heddle.runtime.native.llvm import llvm_linking
from heddle.runtime.needs import Processor, may_use_tiles, usable_features


@cache
def this_processor() -> Processor:
    """Return the description of this machine's processor. The result is cached."""
    targets = llvm_linking().targets
    return Processor(
        targets.get_process_triple(),
        targets.get_host_cpu_name(),
        usable_features(targets.get_host_cpu_features().flatten(), may_use_tiles),
    )
