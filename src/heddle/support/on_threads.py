"""Work of numpy and hashlib on all processors: they let other threads run while they are busy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from heddle.support.settings import settings

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_on_threads(work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
    """What `work` gives for each item, in order; it runs on as many threads as kernels may. The first failure
    is raised. Each item should be worth a millisecond."""
    count = min(settings().num_threads, len(items))
    if count < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(count, "heddle-work") as pool:
        return list(pool.map(work, items))
