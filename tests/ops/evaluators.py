"""The ways to run a loop function that must agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from heddle.codegen.build import compile_module
from heddle.runtime.module import KernelModule
from heddle.runtime.tensor import tensor
from heddle.target import Target
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import PrimFunc


@dataclass(frozen=True)
class Evaluator:
    """`run(func, *arrays and scalars)` writes the outputs in place."""

    name: str
    run: Callable[..., None]


def _interpret(func: PrimFunc, *args: Any) -> None:
    run_primfunc(func, *args)


def _compiled(func: PrimFunc, *args: Any) -> None:
    """Machine code for this host, loops as they are."""
    target = Target("llvm")
    (kernels,) = compile_module({"kernel": func}, target)  # no cache: what is tested is today's compiler
    module = KernelModule([kernels.object_code], kernels.functions, str(target))
    given = [tensor(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
    module["kernel"](*given)
    for arg, value in zip(args, given, strict=True):
        if isinstance(arg, np.ndarray):
            arg[...] = value.numpy()


EVALUATORS = [Evaluator("interpreter", _interpret), Evaluator("llvm", _compiled)]
