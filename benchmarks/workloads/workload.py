"""What a workload is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Requests = list[list[np.ndarray]]


@dataclass(frozen=True, slots=True)
class Workload:
    """A model and the requests of one pass, whose time is what is measured.

    `path` makes the ONNX file where it does not exist yet; `torch_key` names the module that it came from
    (see `torch_forms`), empty where there is none.
    """

    name: str
    path: Callable[[], Path]
    requests: Callable[[], Requests]
    torch_key: str = ""
    varies: bool = False
