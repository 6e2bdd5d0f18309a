"""The page of a profile alone: what is known of a program without the model that it was compiled from."""

from __future__ import annotations

from heddle.driver.page.facts import Facts
from heddle.driver.page.levels import bytecode_level, model_level
from heddle.driver.page.render import Page
from heddle.driver.page.run import run_facts
from heddle.driver.page.tables import Tables
from heddle.runtime.profiling import Report
from heddle.vm.executable import Executable


def profile_page(report: Report, executable: Executable | None) -> Page:
    """The page of a report, with the bytecode of its program where that is given."""
    facts = Facts(str(report.configuration.get("function", "profile")))
    facts.notes.append(
        "the page of a profile has no graph and no passes: `heddle inspect --html` shows a model"
    )
    tables = Tables(facts)
    levels = [] if executable is None else [bytecode_level(tables, executable)]
    facts.run = run_facts(tables, report, {})
    facts.levels = [model_level(tables, facts.model), *levels]
    return Page(facts)
