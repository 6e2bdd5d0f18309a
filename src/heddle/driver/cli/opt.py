"""`heddle opt`: any passes on any script text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heddle.driver.cli.guard import ExitCode, guarded
from heddle.driver.cli.options import LimitOpt

_STDIN = "-"


def opt_command(
    model: Annotated[
        str,
        typer.Argument(help="PATH.py (script text), PATH.onnx, onnx:NAME, or `-`: script text from stdin."),
    ] = _STDIN,
    passes: Annotated[
        list[str] | None,
        typer.Option(
            "--pass",
            metavar="PASS",
            help="A pass to run, `FuseOps` or `UnrollLoop(auto_max_step=4)`; repeated, they run in order.",
        ),
    ] = None,
    pipeline: Annotated[
        str | None, typer.Option(metavar="NAME", help="A pipeline to run, before the passes.")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="PASS", help="Leave out what comes after this pass's first run."),
    ] = None,
    print_after: Annotated[
        list[str] | None,
        typer.Option(metavar="PASS", help="Print the module after this pass, to stderr; may be repeated."),
    ] = None,
    verify_each: Annotated[
        bool, typer.Option("--verify-each", help="Check the program and the contract around each pass.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE.py", help="Write the result there, and its constants beside it."
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Target of passes that need one; default: this machine.")
    ] = None,
    list_all: Annotated[
        bool, typer.Option("--list", help="List the passes with their options, and the pipelines.")
    ] = False,
    trust: Annotated[
        bool, typer.Option("--trust", help="The text may ask for more than computing, as your own may.")
    ] = False,
    limit: LimitOpt = None,
) -> None:
    """Run passes on script text and print what they make of it. Nothing in the text is executed."""

    def command() -> int:
        from heddle.driver.cli.show import show_text  # other commands start without it
        from heddle.driver.models import check_not_model, find_uncompiled, import_model, import_stdin
        from heddle.driver.opt import OptOptions, run_passes
        from heddle.driver.stages import check_script_name, write_module

        if output is not None:
            check_script_name(output)
        if list_all:
            _show_list(target)
            return ExitCode.DONE
        options = OptOptions(passes or (), pipeline, until, print_after or (), verify_each, target)
        if model == _STDIN:
            mod = import_stdin(trust)
        else:
            found = find_uncompiled(model)
            if output is not None:
                check_not_model(found, output)
            mod = import_model(found, trust=trust)
        made = run_passes(mod, options, lambda text: typer.echo(text, err=True))
        if output is None:
            show_text(str(made).rstrip())
        else:
            typer.echo("\n".join(map(str, write_module(made, output))))
        return ExitCode.DONE

    raise typer.Exit(guarded(command, limit))


def _show_list(target: str | None) -> None:
    from heddle.driver.docs import pass_rows  # other commands start without it
    from heddle.driver.passes import NAMED_PIPELINES, pass_class, pass_signature, pipeline_passes, steps_of
    from heddle.driver.targets import as_target

    typer.echo("passes")
    for name, first_line in pass_rows():
        typer.echo(f"  {pass_signature(pass_class(name))}\n      {first_line}")
    typer.echo("pipelines")
    for name in NAMED_PIPELINES:
        steps = steps_of(pipeline_passes(name, as_target(target)))
        typer.echo(f"  {name}: {' '.join(step.info.name for step in steps)}")
