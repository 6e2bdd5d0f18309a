"""`heddle bisect` and `heddle replay`: where a wrong number comes from, and whether it is still there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heddle.driver.cli.guard import ExitCode, guarded
from heddle.driver.cli.options import (
    DimOpt,
    ExecModeOpt,
    FunctionOpt,
    InputOpt,
    LimitOpt,
    ModelArg,
    PrecisionOpt,
    SeedOpt,
    TargetOpt,
    TrustOpt,
)
from heddle.driver.inputs import parse_dims, parse_pairs, read_array
from heddle.support.files import check_new
from heddle.support.printable import printable_lines


def bisect_command(
    model: ModelArg,
    against: Annotated[
        str, typer.Option(help="Whose outputs are right: onnxruntime, or interpreter, Heddle's own.")
    ] = "onnxruntime",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where the bundle goes; default: MODEL-bug.zip.")
    ] = None,
    function: FunctionOpt = "main",
    target: TargetOpt = None,
    exec_mode: ExecModeOpt = None,
    precision: PrecisionOpt = None,
    input: InputOpt = None,
    dim: DimOpt = None,
    seed: SeedOpt = 0,
    trust: TrustOpt = False,
    limit: LimitOpt = None,
) -> None:
    """Find the node, the pass and the kernel that make outputs differ, and write a bundle that shows it.

    Exit status: 0 where the engines agree, 3 where they differ.
    """

    def command() -> int:
        from heddle.driver.bisect.bisect import BisectOptions, bisect  # other commands start without it
        from heddle.driver.bisect.bundle import write_bundle

        files = parse_pairs(input or (), "--input")
        path = output or Path(f"{Path(model.removeprefix('onnx:')).stem}-bug.zip")
        if output is None:
            check_new(path)
        options = BisectOptions(
            against=against,
            function=function,
            target=target,
            exec_mode=exec_mode or "compiled",
            precision=precision or "fp32",
            given={name: read_array(name, file) for name, file in files.items()},
            dims=parse_dims(dim or []),
            seed=seed,
            trust=trust,
        )
        found = bisect(model, options, lambda text: typer.echo(f"  {text}", err=True))
        typer.echo(printable_lines(found.text()))
        if not found.fault:
            return ExitCode.DONE
        write_bundle(path, found)
        typer.echo(f"bundle: {path} (heddle replay {path})")
        return ExitCode.OUTPUTS_DIFFER

    raise typer.Exit(guarded(command, limit))


def replay_command(
    bundle: Annotated[Path, typer.Argument(help="What heddle bisect wrote.")],
    target: TargetOpt = None,
    trust: TrustOpt = False,
    limit: LimitOpt = None,
) -> None:
    """Run a bundle, and tell whether its fault is still there.

    Exit status: 0 where it is not, 3 where it is.
    """

    def command() -> int:
        from heddle.driver.bisect.bundle import replay  # other commands start without it

        wrong, facts = replay(bundle, target, trust)
        typer.echo(printable_lines(f"then, by Heddle {facts['heddle']}: {facts['fault']}"))
        typer.echo(printable_lines(f"now: {wrong or 'the outputs are right'}"))
        return ExitCode.OUTPUTS_DIFFER if wrong else ExitCode.DONE

    raise typer.Exit(guarded(command, limit))
