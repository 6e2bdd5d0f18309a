"""What makes code for a kind of targets: a record, which every question about a target's code goes to.

A kind of targets is a row of `heddle.target.kinds` and a folder here, whose `backend.py` holds the record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from heddle.codegen.cache import KernelCache
from heddle.ir.module import IRModule
from heddle.ir.transform import Pass
from heddle.runtime.kernel_module import KernelModule
from heddle.support.frozen import frozen
from heddle.support.text import TextBuilder
from heddle.target import Target
from heddle.tir.nodes import PrimFunc
from heddle.tir.schedule.rules.rule import ScheduleRule


@frozen
class Backend:
    """The code generator of a kind.

    `pipeline` names the graph passes, a row of `heddle.driver.pipeline.PIPELINES`. `schedule_rules` give loop
    functions their loops, in order of preference; `plain_rules` are for programs that shall start soon.
    `loop_passes` go from those to what `emit` takes, which
    gives the text of functions; `text_format` is what `get_source` calls it, and `stages` are the texts that
    `heddle inspect` makes of it, by name. `placed_texts` gives these texts with the place in the model that
    each line comes from; None where that is not known. `build` makes a module of kernels of named functions,
    with a cache of code where it can use one. `join` puts the machine code of a program's functions, the
    second argument, beside its kernels, so that they can call each other.
    """

    kind: str
    pipeline: str
    schedule_rules: tuple[ScheduleRule, ...]
    plain_rules: tuple[ScheduleRule, ...]
    loop_passes: Callable[[Target], tuple[Pass, ...]]
    emit: Callable[[Sequence[PrimFunc], Target], str]
    text_format: str
    stages: Mapping[str, Callable[[str, Target], str]]
    build: Callable[[IRModule, Target, KernelCache | None], KernelModule]
    join: Callable[[Sequence[KernelModule], KernelModule, Target], KernelModule]
    placed_texts: Callable[[Sequence[PrimFunc], Target], Mapping[str, TextBuilder]] | None = None


def backend_of(target: Target) -> Backend:
    """The record of a target's kind. Its folder is imported when it is first asked for."""
    found = import_module(target.kind.backend).BACKEND
    assert isinstance(found, Backend)
    return found
