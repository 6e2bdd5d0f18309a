"""`heddle info`: what a model is, without running it."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from heddle.driver.cli.guard import ExitCode, guarded
from heddle.driver.cli.options import JsonOpt, LimitOpt, ModelArg, TrustOpt, VariantOpt
from heddle.driver.info import FunctionInfo, ModelInfo, info
from heddle.driver.models import find_model
from heddle.driver.run import check_no_variant
from heddle.support.printable import printable_lines

_SHOWN_OPERATORS = 12


def info_command(
    model: ModelArg,
    variant: VariantOpt = None,
    trust: TrustOpt = False,
    all_operators: Annotated[
        bool, typer.Option("--operators", help="Show every operator, not only the most frequent.")
    ] = False,
    as_json: JsonOpt = False,
    limit: LimitOpt = None,
) -> None:
    """Tell what goes into a model and comes out, its sizes, what it is made of and where it comes from."""

    def command() -> int:
        found = find_model(model)
        if not found.is_compiled:
            check_no_variant(found, variant)
        facts = info(found, variant, trust)
        typer.echo(json.dumps(facts.as_dict()) if as_json else printable_lines(_text(facts, all_operators)))
        return ExitCode.DONE

    raise typer.Exit(guarded(command, limit))


def _text(facts: ModelInfo, all_operators: bool) -> str:
    lines = [f"{facts.model}: {facts.kind}, {_size(facts.size_bytes)}"]
    for function in facts.functions:
        lines += _function_lines(function)
    lines.append(f"weights: {facts.num_weights}, {_size(facts.weights_bytes)}")
    if facts.target is not None:
        precision = "" if facts.precision == "fp32" else f", {facts.precision}"
        lines.append(f"target: {facts.target}, {facts.num_kernels} kernels{precision}")
    for row in facts.variants:
        runs = "runs here" if row["runs"] else "does not run here"
        lines.append(f"  variant {row['name']}: {runs}, {_size(row['size_bytes'])}, target {row['target']}")
    lines += [f"{what}: {text}" for what, text in facts.origin.items()]
    rows = list(facts.operators.items())
    shown = rows if all_operators else rows[:_SHOWN_OPERATORS]
    rest = f", and {len(rows) - len(shown)} others (--operators)" if len(rows) > len(shown) else ""
    counts = ", ".join(f"{name} {count}" for name, count in shown)
    lines.append(f"operators: {counts or 'none'}{rest}")
    return "\n".join(lines)


def _function_lines(function: FunctionInfo) -> list[str]:
    lines = [f"function {function.name}"]
    for role, specs in (("input", function.inputs), ("output", function.outputs)):
        lines += [f"  {role} {name}: {text}" for name, text in specs.items()]
    lines.append(f"  free sizes: {', '.join(function.free_dims) or 'none'}")
    if function.memory is not None:
        unit = "" if function.memory.startswith("unbounded") else " bytes"
        lines.append(f"  memory of a call, without inputs and weights: {function.memory}{unit}")
    return lines


def _size(num_bytes: int) -> str:
    return f"{num_bytes} bytes" if num_bytes < 2**20 else f"{num_bytes / 2**20:.1f} MiB"
