"""`heddle check`: what a model asks for, and what of it is not supported."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from heddle.driver.cli.guard import ExitCode, guarded
from heddle.driver.cli.options import JsonOpt, LimitOpt


def check_command(
    model: Annotated[str, typer.Argument(help="PATH.onnx or onnx:NAME.")],
    types: Annotated[bool, typer.Option("--types", help="Show the inferred type of every tensor.")] = False,
    memory: Annotated[
        bool, typer.Option("--memory", help="Show how much memory a call takes, as a formula of free sizes.")
    ] = False,
    as_json: JsonOpt = False,
    limit: LimitOpt = None,
) -> None:
    """Tell everything in an ONNX model that is not supported, and which sizes are free."""

    def command() -> int:
        from heddle.driver.check import check  # other commands start without it

        found = check(model, memory)
        if as_json:
            typer.echo(json.dumps(found))
        else:
            _show(found, types)
        return ExitCode.BAD_INPUT if found["findings"] else ExitCode.DONE

    raise typer.Exit(guarded(command, limit))


def _show(found: dict[str, Any], types: bool) -> None:
    opsets = ", ".join(f"{domain} {version}" for domain, version in found["opsets"].items())
    typer.echo(f"{found['model']}: {found['num_nodes']} nodes, operator sets {opsets}")
    for name, text in found["inputs"].items():
        typer.echo(f"  input {name}: {text}")
    typer.echo(f"free sizes: {', '.join(found['free_dims']) or 'none'}")
    if found.get("memory"):
        typer.echo(f"memory of a call, without inputs and weights: {found['memory']} bytes")
    if types:
        for name, text in found["types"].items():
            typer.echo(f"  {name}: {text}")
    for item in found["findings"]:
        typer.echo(item["text"])
    passed_over = found["passed_over"]
    if passed_over:
        typer.echo(f"not looked at, since they use what is not supported: {', '.join(passed_over)}")
    typer.echo(f"{len(found['findings'])} findings" if found["findings"] else "everything is supported")
