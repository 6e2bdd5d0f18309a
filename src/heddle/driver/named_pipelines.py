"""Pipelines by name: ours, and those that users register for `relax.build(mod, relax_pipeline="mine")`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.driver.codes import D0103
from heddle.driver.pipeline import OptionError, default_pipeline, quick_pipeline
from heddle.ir.transform import Pass, Sequential
from heddle.lower.fuse_ops import FuseOps
from heddle.lower.fuse_tir import FuseTIR
from heddle.lower.legalize_ops import LegalizeOps
from heddle.relax.transform.fold_constant import FoldConstant
from heddle.support.diagnostics import did_you_mean
from heddle.target import Target


def zero_pipeline() -> Pass:
    """Operators to loop functions, fused: what comes before a schedule."""
    return Sequential((LegalizeOps(), FoldConstant(), FuseOps(), FuseTIR()), "zero")


def default_build_pipeline(target: Target | str | None = None, precision: str = "fp32") -> Pass:
    """What `relax.build` runs for a target: the given one, the current one, or this machine."""
    chosen = Target(target) if target is not None else Target.current() or Target("llvm")
    return default_pipeline(chosen, precision)


def quick_build_pipeline(target: Target | str | None = None) -> Pass:
    """What a program that shall start soon is compiled with: see `heddle.driver.pipeline.quick_pipeline`."""
    return quick_pipeline(Target(target) if target is not None else Target.current() or Target("llvm"))


PIPELINE_MAP: dict[str, Callable[..., Any]] = {
    "zero": zero_pipeline,
    "default": default_build_pipeline,
    "default_build": default_build_pipeline,
    "quick": quick_build_pipeline,
}
"""Functions that make pipelines, by name."""


def get_pipeline(name: str = "zero", **options: Any) -> Any:
    """The pipeline of a name; `options` are those of the function that makes it.

    Raises: OptionError D0103 (a ValueError) for a name that there is not.
    """
    make = PIPELINE_MAP.get(name)
    if make is None:
        raise OptionError(
            D0103,
            f"unknown pipeline {name!r}: expected one of {', '.join(PIPELINE_MAP)}",
            help=did_you_mean(name, PIPELINE_MAP),
        )
    return make(**options)


def register_pipeline(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: `get_pipeline(name, ...)` calls the function, which gives a pass.

    Raises: OptionError D0103 (a ValueError) for a name that is taken.
    """
    if name in PIPELINE_MAP:
        raise OptionError(D0103, f"the pipeline {name!r} is registered already")

    def register(make: Callable[..., Any]) -> Callable[..., Any]:
        PIPELINE_MAP[name] = make
        return make

    return register
