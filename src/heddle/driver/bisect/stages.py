"""Find the pass, or the part of the compiler, after which a program computes wrong outputs.

A graph can be interpreted after each pass that changes it, together with its loop functions. So the first
pass is searched after which the outputs are wrong. If there is none, each kernel is compiled alone and run on
the inputs that it has in the interpreter. If the kernels are right too, the fault is in the later parts: the
passes that plan memory, or the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import numpy as np

from heddle.codegen.build import build as build_kernels
from heddle.codegen.cache import KernelCache
from heddle.codegen.pipeline import OPTIONAL_LOOP_PASSES, lowering_passes
from heddle.driver.bisect.case import Case, attempt, fault, in_a_line, interpreted_outputs
from heddle.driver.compare import difference
from heddle.driver.dialects import in_relax
from heddle.driver.inputs import Array
from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.node import Map
from heddle.ir.transform import PassContext, Sequential
from heddle.ops.load import load as load_operators
from heddle.support.diagnostics import HeddleError
from heddle.target import Target
from heddle.tir.analysis.turns import nests_of, num_turns
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import PrimFunc

FEW_TURNS, MANY_TURNS = 1 << 12, 1 << 17
"""How often stores may run in a call of a loop function that is interpreted, which takes some 10 us for an
operation. Others run as machine code that is made without optional passes; where a pass is blamed with the
help of that, it is looked for again with more of them interpreted."""
IMPORT, MACHINE, CODE = "import", "machine", "code generation"
"""What is no pass: what reads the model, what runs the program, what makes machine code of lowered loops."""


@dataclass(slots=True)
class Stage:
    """The stage at which outputs become wrong. `name` is a pass, or one of IMPORT, CODE, MACHINE. `kernel` is
    the loop function that became wrong. `before` and `after` are the texts before and after the change."""

    name: str
    kernel: str = ""
    rule: str = ""
    found: str = ""
    before: str = ""
    after: str = ""
    notes: list[str] = field(default_factory=list)


def find_stage(case: Case, progress: Callable[[str], None]) -> Stage:
    """The first stage behind which the outputs of a case that fails are wrong."""
    load_operators()
    target = case.setup.target
    setup = case.setup
    steps = [*optimize_passes(target, setup.precision), *legalize_passes(target, setup.exec_mode)]
    forms = [in_relax(case.mod)]
    for step in steps:
        try:
            forms.append(Sequential((step,))(forms[-1]))
        except HeddleError as error:
            return Stage(step.info.name, found=in_a_line(error), before=str(forms[-1]))
    progress(f"{len(steps)} passes")
    names = [step.info.name for step in steps]
    found = _search(case, forms, names, _Runner(target, FEW_TURNS), progress)
    if found.notes and found.name in names:
        found = _search(case, forms, names, _Runner(target, MANY_TURNS), progress)
    return found


def _search(
    case: Case,
    forms: Sequence[IRModule],
    names: Sequence[str],
    runner: _Runner,
    progress: Callable[[str], None],
) -> Stage:
    """The stage by what a runner of loop functions says. `names[n]` is the pass behind `forms[n]`."""
    wrong = _fault(case, forms[0], runner)
    if wrong:
        return Stage(IMPORT, found=wrong, after=str(forms[0]), notes=runner.notes)
    low, high = 0, len(names)
    wrong = _fault(case, forms[high], runner)
    if not wrong:
        return _find_kernel(case, forms[-1], runner, progress)
    while high - low > 1:  # the form `low` is right, `high` is not
        middle = (low + high) // 2
        found = _fault(case, forms[middle], runner)
        low, high, wrong = (low, middle, found) if found else (middle, high, wrong)
    kernel, rule = _changed_function(case, forms[low], forms[high], runner)
    return Stage(names[low], kernel, rule, wrong, str(forms[low]), str(forms[high]), runner.notes)


def _fault(case: Case, mod: IRModule, runner: _Runner) -> str:
    return case.fault_of(lambda: interpreted_outputs(case, mod, run_loops=runner))


def _changed_function(case: Case, good: IRModule, bad: IRModule, runner: _Runner) -> tuple[str, str]:
    """The loop function whose new form alone makes the outputs wrong, or the only one that is new or changed,
    and the rule that scheduled it; nothing where it takes more."""
    changed: list[tuple[str, PrimFunc]] = []
    for var, func in bad.functions.items():
        old = _named(good, var)
        if not isinstance(func, PrimFunc) or old is func:
            continue
        changed.append((var.name_hint, func))
        if isinstance(old, PrimFunc) and _shapes(old) == _shapes(func):
            mixed = {
                each: func if each.name_hint == var.name_hint else value
                for each, value in good.functions.items()
            }
            if _fault(case, good.with_functions(mixed), runner):
                changed = changed[-1:]
                break
    if len(changed) != 1:
        return "", ""
    ((name, func),) = changed
    return name, str(func.attrs.get("schedule_rule", ""))


def _shapes(func: PrimFunc) -> list[str]:
    """What a loop function takes."""
    return [str((buffer.shape, buffer.dtype)) for buffer in func.buffers]


def _named(mod: IRModule, var: GlobalVar) -> Any:
    return next((func for each, func in mod.functions.items() if each.name_hint == var.name_hint), None)


class _Runner:
    """Runs loop functions for the interpreter: small ones in the loop interpreter, others as plain machine
    code. It remembers calls if it is told to."""

    def __init__(self, target: Target, most_turns: int) -> None:
        self._most_turns = most_turns
        attrs = {**target.export(), "opt-level": "0"} if target.kind.name == "llvm" else target.export()
        self._target = Target(attrs)
        self._made: dict[int, tuple[PrimFunc, Any]] = {}
        self.notes: list[str] = []
        self.calls: list[tuple[PrimFunc, list[Any], list[Any]]] | None = None

    def __call__(self, func: PrimFunc, *args: Any) -> Any:
        before = [_copied(arg) for arg in args]
        if num_turns(func, nests_of(func.body), args) <= self._most_turns:
            result = run_primfunc(func, *args)
        else:
            result = self._kernel(func)(*args)
            note = f"loop functions of more than {self._most_turns} turns ran as machine code"
            if note not in self.notes:
                self.notes.append(note)
        if self.calls is not None:
            self.calls.append((func, before, [_copied(arg) for arg in args]))
        return result

    def _kernel(self, func: PrimFunc) -> Any:
        found = self._made.get(id(func))
        if found is None:
            with PassContext(disabled_pass=OPTIONAL_LOOP_PASSES):
                found = func, _built(func, self._target)
            self._made[id(func)] = found
        return found[1]


NOT_INTERPRETED = "FitTiles"
"""From this pass over loops on there are vectors, which the loop interpreter does not know."""
OPTIONAL_FINALIZERS = ("StaticPlanBlockMemory", "KillAfterLastUse")
"""Passes behind the kernels without which programs take more memory, and give the same."""


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _built(func: PrimFunc, target: Target) -> Any:
    """A loop function as machine code, made anew."""
    name = "kernel"
    plain = func.with_attr("global_symbol", name)
    return build_kernels(IRModule(Map({GlobalVar(name): plain})), target, KernelCache(None))[name]


def _find_kernel(case: Case, mod: IRModule, runner: _Runner, progress: Callable[[str], None]) -> Stage:
    """The kernel that gives something else than the interpreter does; else what comes after kernels."""
    runner.calls = []
    interpreted_outputs(case, mod, run_loops=runner)
    calls, runner.calls = runner.calls, None
    progress(f"{len(calls)} kernels")
    names = {id(func): var.name_hint for var, func in mod.functions.items()}
    for func, before, after in calls:
        wrong = _kernel_fault(func, case.setup.target, before, after)
        if wrong:
            name, culprit = names.get(id(func), ""), _loop_pass(func, case.setup.target, before, after)
            rule = str(func.attrs.get("schedule_rule", ""))
            return Stage(culprit, name, rule, wrong, str(func), notes=runner.notes)
    return _find_finalizer(case, runner.notes)


def _kernel_fault(func: PrimFunc, target: Target, before: Sequence[Any], after: Sequence[Any]) -> str:
    args = [_copied(arg) for arg in before]
    _, failure = attempt(lambda: _built(func, target)(*args))
    return failure or _difference(args, after)


def _difference(args: Sequence[Any], wanted: Sequence[Any]) -> str:
    """The first array among a kernel's arguments that is not what it should be, in a line."""
    for number, (ours, theirs) in enumerate(zip(args, wanted, strict=True)):
        if isinstance(ours, np.ndarray):
            row = difference(f"argument {number}", ours, theirs)
            if not row["agrees"]:
                return f"argument {number} differs: {row.get('reason') or row['max_abs_error']}"
    return ""


def _loop_pass(func: PrimFunc, target: Target, before: Sequence[Any], after: Sequence[Any]) -> str:
    """The optional pass without which a kernel is right, or the first behind which the loop interpreter
    gives something else; else code generation."""
    for name in OPTIONAL_LOOP_PASSES:
        with PassContext(disabled_pass=[*PassContext.current().disabled_pass, name]):
            if not _kernel_fault(func, target, before, after):
                return name
    if num_turns(func, nests_of(func.body), before) > MANY_TURNS:
        return CODE
    form = IRModule(Map({GlobalVar("kernel"): func}))
    for step in takewhile(lambda step: step.info.name != NOT_INTERPRETED, lowering_passes(target)):
        try:
            form = Sequential((step,))(form)
        except HeddleError:
            return step.info.name
        args = [_copied(arg) for arg in before]
        lowered = form["kernel"]
        if len(lowered.params) != len(args):
            break
        try:
            run_primfunc(lowered, *args)
        except HeddleError:
            break
        if _difference(args, after):
            return step.info.name
    return CODE


def _find_finalizer(case: Case, notes: list[str]) -> Stage:
    """What comes after kernels: a pass without which the program is right, or the machine."""
    wrong = fault(case)
    for name in OPTIONAL_FINALIZERS:
        with PassContext(disabled_pass=[*PassContext.current().disabled_pass, name]):
            if not fault(case):
                return Stage(name, found=wrong, notes=notes)
    if case.setup.exec_mode == "compiled" and not fault(case, "bytecode"):
        return Stage(MACHINE, found=wrong, notes=[*notes, "the bytecode gives the right outputs"])
    return Stage(MACHINE, found=wrong, notes=notes)


def outputs_of(case: Case) -> list[Array]:
    """What the graph interpreter gives for the module as it is."""
    load_operators()
    return interpreted_outputs(case, in_relax(case.mod), run_loops=_Runner(case.setup.target, FEW_TURNS))
