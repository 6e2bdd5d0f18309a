"""Passes on a module, by name: what `heddle opt` and the golden cases of the tests do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle.driver.codes import D0302
from heddle.driver.passes import pass_class, pipeline_passes, read_pass, steps_of
from heddle.driver.targets import as_target
from heddle.ir.instrument import PrintAfter, VerifyEach
from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext, PassInstrument, Sequential
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen


@frozen
class OptOptions:
    """Which passes run, and what is told of them.

    - `pipeline`: a name of `heddle.driver.passes.NAMED_PIPELINES`; its passes run first.
    - `passes`: texts of passes, in order; they run after the pipeline.
    - `until`: the pass after whose first run the rest is left out.
    - `print_after`: passes after whose runs `show` gets the module's text.
    - `verify_each`: whether programs and the contracts of passes are checked around each pass.
    """

    passes: Sequence[str] = ()
    pipeline: str | None = None
    until: str | None = None
    print_after: Sequence[str] = ()
    verify_each: bool = False
    target: Any = None


def run_passes(mod: IRModule, options: OptOptions, show: Callable[[str], object] = print) -> IRModule:
    """The module after the passes that `options` name; the same module where there are none.

    Raises: UsageError D0302 for names that no pass or pipeline has, or no pass that runs; D0303 for options
    of passes that do not fit; what the passes raise.
    """
    steps = _steps(options)
    names = [step.info.name for step in steps]
    for name in (*options.print_after, *([options.until] if options.until is not None else [])):
        pass_class(name)
        if name not in names:
            raise UsageError(
                D0302, f"pass {name} is not among those that run: {', '.join(names) or 'there are none'}"
            )
    if options.until is not None:
        steps = steps[: names.index(options.until) + 1]
    instruments: list[PassInstrument] = [PrintAfter(options.print_after, show)]
    instruments += [VerifyEach()] if options.verify_each else []
    with PassContext(instruments=instruments):
        return Sequential(steps, "opt")(mod)


def _steps(options: OptOptions) -> tuple[Pass, ...]:
    target = as_target(options.target)
    pipeline = pipeline_passes(options.pipeline, target) if options.pipeline is not None else ()
    return steps_of((*pipeline, *(read_pass(text, target) for text in options.passes)))
