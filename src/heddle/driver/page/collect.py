"""The facts of a page, from a model: what was asked for, in the order of the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from heddle.codegen.backend import backend_of
from heddle.driver.debug import profile_run
from heddle.driver.explain import ExplainOptions, explain
from heddle.driver.inputs import Array
from heddle.driver.models import ModelFile, import_model
from heddle.driver.page.facts import Facts, Level
from heddle.driver.page.graph import graphs_of
from heddle.driver.page.levels import (
    bytecode_level,
    code_level,
    kernel_sets,
    loops_level,
    model_level,
    module_level,
)
from heddle.driver.page.memory import plans_of
from heddle.driver.page.passes import PassLog
from heddle.driver.page.replays import replays_of
from heddle.driver.page.run import roofline_facts, run_facts
from heddle.driver.page.tables import Tables
from heddle.driver.page.walk import shared_places
from heddle.driver.run import Compiled, CompileOptions, RunOptions, load_or_compile
from heddle.driver.run import run as run_model
from heddle.driver.stages import machine_texts, stage_modules
from heddle.driver.targets import as_target
from heddle.ir.module import IRModule
from heddle.lower.codegen_vm import vm_codegen
from heddle.lower.default_schedule import ApplyDefaultSchedule
from heddle.runtime.native.library import kernel_symbol
from heddle.support.diagnostics import HeddleError
from heddle.support.frozen import frozen
from heddle.vm.relax import VMExecutable

_STAGES = ("legalized", "fused", "scheduled")


@frozen
class PageOptions:
    """How a model is compiled, and which call is shown, as in `CompileOptions` and `RunOptions`. Without
    `with_run` nothing is run, and the page has no time line and no roofline."""

    target: str | None = None
    precision: str = "fp32"
    variant: str | None = None
    trust: bool = False
    with_run: bool = True
    function: str = "main"
    given: Mapping[str, Array] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    num_threads: int | None = None

    @property
    def states_a_call(self) -> bool:
        """Whether somebody said what is to be run, and not only that something may."""
        return bool(self.given or self.dims or self.function != "main")


def collect(model: ModelFile, options: PageOptions) -> Facts:
    """The facts of a model. Where nobody said which call to run, what that raises is a note on the page.

    Raises: what importing, compiling or loading the model raises, and a call that the options state.
    """
    facts = Facts(model.name)
    tables = Tables(facts)
    stages: Mapping[str, IRModule] = {}
    if model.is_compiled:
        loaded = _load(model, options)
        facts.target = loaded.target or ""
        facts.levels = [bytecode_level(tables, loaded.executable)]
        facts.notes.append("a compiled model has no graph and no passes: inspect what it was compiled from")
    else:
        facts.precision = options.precision
        stages = _add_levels(tables, import_model(model, trust=options.trust), options)
    dims = _add_run(tables, model, options) if options.with_run else dict(options.dims)
    if stages:
        facts.plans = plans_of(tables, stages["memory"], dims)
    facts.levels.insert(0, model_level(tables, model.name))
    return facts


def _load(model: ModelFile, options: PageOptions) -> Compiled:
    how = CompileOptions(
        options.target,
        exec_mode="bytecode",
        precision=options.precision,
        variant=options.variant,
        trust=options.trust,
    )
    return load_or_compile(model, how)


def _add_levels(tables: Tables, mod: IRModule, options: PageOptions) -> Mapping[str, IRModule]:
    """Compile a module, and add its levels, graphs, passes and schedules."""
    facts, target = tables.facts, as_target(options.target)
    facts.target = str(target)
    first = module_level(tables, "relax", mod)
    log = PassLog(tables)
    stages = stage_modules(mod, target, options.precision, [log])
    lowered = stages["lowered"]
    kernels = {name: tables.union(sets) for name, sets in kernel_sets(tables, lowered).items()}
    levels: list[Level] = [first, *(module_level(tables, name, stages[name]) for name in _STAGES)]
    shared = shared_places(lowered)
    levels.append(loops_level(tables, "tir", stages["tir"], kernels, shared))
    for name, out in machine_texts(lowered, target).items():
        levels.append(code_level(tables, name, out, kernels, shared, kernel_symbol("")))
    executable: VMExecutable = vm_codegen(lowered)[0].get()
    facts.levels = [*levels, bytecode_level(tables, executable)]
    facts.passes = log.runs
    facts.graphs = graphs_of(tables, mod, stages["memory"])
    if log.before_schedule is not None:
        rules = ApplyDefaultSchedule(target, backend_of(target).schedule_rules)
        facts.replays = replays_of(tables, log.before_schedule, rules)
    return stages


def _add_run(tables: Tables, model: ModelFile, options: PageOptions) -> dict[str, int]:
    """Run a call, and add its time line and its kernels; gives the values of free sizes."""
    facts = tables.facts
    call = (options.function, options.given, options.dims, options.seed)
    try:
        compiled = _load(model, options)
        done = run_model(model, compiled, RunOptions(*call, 1, options.num_threads))
        facts.run = run_facts(tables, profile_run(compiled, done, options.function), done.report.dims)
        asked = ExplainOptions(*call, options.num_threads)
        facts.roofline = roofline_facts(explain(model.name, compiled, asked))
    except HeddleError as error:
        if options.states_a_call:
            raise
        facts.notes.append(f"there is no run: {error.render()}")
    return facts.run.dims if facts.run is not None else dict(options.dims)
