"""`heddle inspect`: a model at the stages of its way, as text or as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from heddle.driver.cli.guard import ExitCode, guarded
from heddle.driver.cli.options import (
    DimOpt,
    ExecutorOpt,
    InputOpt,
    LimitOpt,
    ModelArg,
    PrecisionOpt,
    SeedOpt,
    TargetOpt,
    ThreadsOpt,
    TrustOpt,
    VariantOpt,
)
from heddle.driver.codes import D0301
from heddle.driver.inputs import parse_dims, parse_pairs, read_array
from heddle.driver.models import ModelFile, check_not_model, find_model, import_model
from heddle.driver.run import CompileOptions, check_no_variant, check_uncompiled, load_program
from heddle.driver.static_programs import Described
from heddle.support.diagnostics import UsageError
from heddle.support.files import check_replaceable, write_bytes
from heddle.support.printable import printable_lines

FP32 = "fp32"


def inspect_command(
    model: ModelArg,
    stage: Annotated[
        str | None,
        typer.Option(
            help="relax, which is the default, legalized, fused, scheduled, tir, llvm, asm, c, bytecode or "
            "memory; of a compiled model bytecode or variants."
        ),
    ] = None,
    function: Annotated[
        str | None, typer.Option(help="Show this function only; with --html, run this one, not main.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.py",
            help="Write a stage that is script text there, and its constants beside it, in FILE.weights: "
            "`heddle run` takes both together.",
        ),
    ] = None,
    sources: Annotated[
        bool, typer.Option("--sources", help="With bytecode, llvm, asm: the nodes that lines came from.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="Write one page: the graph, all stages side by side, passes, a run, memory, schedules.",
        ),
    ] = None,
    no_run: Annotated[
        bool, typer.Option("--no-run", help="With --html: run nothing; the page has no times.")
    ] = False,
    dim: DimOpt = None,
    input: InputOpt = None,
    seed: SeedOpt = 0,
    threads: ThreadsOpt = None,
    target: TargetOpt = None,
    executor: ExecutorOpt = None,
    variant: VariantOpt = None,
    precision: PrecisionOpt = None,
    trust: TrustOpt = False,
    limit: LimitOpt = None,
) -> None:
    """Print a model as it is at a stage of its way from graph to machine code, or write all in one page."""

    def command() -> int:
        found = check_uncompiled(find_model(model), target=target, precision=precision)
        if not found.is_compiled:
            check_no_variant(found, variant)
        of_a_run = {"--no-run": no_run, "--dim": dim, "--input": input, "--threads": threads, "--seed": seed}
        if executor is not None:
            others = {"--stage": stage, "--output": output, "--sources": sources, "--precision": precision}
            _refuse("has no meaning with --executor", {**others, "--html": html, **of_a_run})
            return _show_program(found, executor, function, CompileOptions(target, trust=trust))
        if html is None:
            _refuse("is for --html, which runs the model", of_a_run)
            return _show(
                found, stage or "relax", function, output, sources, target, variant, precision, trust
            )
        _refuse("has no meaning with --html", {"--stage": stage, "--output": output, "--sources": sources})
        from heddle.driver.page import PageOptions  # other commands start without it

        arrays = {name: read_array(name, path) for name, path in parse_pairs(input or (), "--input").items()}
        how = (target, precision or FP32, variant, trust, not no_run)
        options = PageOptions(*how, function or "main", arrays, parse_dims(dim or ()), seed, threads)
        return _write_page(found, html, options)

    raise typer.Exit(guarded(command, limit))


def _refuse(why: str, options: dict[str, Any]) -> None:
    """Raises: UsageError D0301 for an option that was given, and does nothing here."""
    for name, value in options.items():
        if value:
            raise UsageError(D0301, f"{name} {why}")


def _write_page(model: ModelFile, path: Path, options: Any) -> int:
    from heddle.driver.page import collect, render  # other commands start without it

    check_not_model(model, path)
    check_replaceable(path)
    facts = collect(model, options)
    page = render(facts).encode()
    write_bytes(path, page)
    typer.echo(f"{path}: {len(page) / 2**20:.2f} MiB")
    for note in facts.notes:
        typer.echo(printable_lines(note), err=True)
    return ExitCode.DONE


def _show_program(model: ModelFile, executor: str, function: str | None, options: CompileOptions) -> int:
    """Print what one of Relay's executors runs."""
    from heddle.driver.cli.show import show_text  # other commands start without it
    from heddle.driver.relay_run import program_text

    show_text(program_text(model, executor, function, options))
    return ExitCode.DONE


def _show(
    model: ModelFile,
    stage: str,
    function: str | None,
    output: Path | None,
    sources: bool,
    target: str | None,
    variant: str | None,
    precision: str | None,
    trust: bool,
) -> int:
    """Print a stage, or write it to a file."""
    from heddle.driver.cli.show import show_text  # other commands start without it

    if model.is_compiled:
        return _show_compiled(model, stage, function, output, sources, variant, trust)
    from heddle.driver.stages import stage_text, write_stage  # other commands start without it

    mod = import_model(model, trust=trust)
    if output is not None:
        check_not_model(model, output)
        written = write_stage(mod, stage, output, target, function, precision or FP32)
        typer.echo("\n".join(map(str, written)))
    else:
        show_text(stage_text(mod, stage, target, function, sources, precision or FP32))
    return ExitCode.DONE


def _show_compiled(
    model: ModelFile,
    stage: str,
    function: str | None,
    output: Path | None,
    sources: bool,
    variant: str | None,
    trust: bool,
) -> int:
    from heddle.driver.cli.show import show_text, show_variants  # other commands start without it

    if output is not None:
        raise UsageError(
            D0301, f"{model.name} is compiled already; --output is for stages that are script text"
        )
    if stage == "variants":
        from heddle.runtime.variants import variants_in  # other commands start without it

        if variant is not None:
            raise UsageError(D0301, f"--stage variants shows all of them, got --variant {variant}")
        rows = variants_in(model.path)
        if not rows:
            show_text(f"{model.name} holds one program, without variants")
        show_variants(rows)
        return ExitCode.DONE
    if stage != "bytecode":
        raise UsageError(
            D0301,
            f"a compiled model has no stage {stage!r}",
            help="--stage bytecode shows its instructions, --stage variants what it is compiled for",
        )
    from heddle.driver.disassembly import bytecode_text  # other commands start without it

    executable: Any = load_program(model, CompileOptions(variant=variant, trust=trust)).executable
    if isinstance(executable, Described):
        show_text(executable.text)
    else:
        show_text(bytecode_text(executable.as_text(sources, with_bytecode=True), function))
    return ExitCode.DONE
