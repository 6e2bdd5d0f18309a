"""The ways to run a loop function that must agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import PrimFunc


@dataclass(frozen=True)
class Evaluator:
    """`run(func, *arrays and scalars)` writes the outputs in place."""

    name: str
    run: Callable[..., None]


def _interpret(func: PrimFunc, *args: Any) -> None:
    run_primfunc(func, *args)


EVALUATORS = [Evaluator("interpreter", _interpret)]
