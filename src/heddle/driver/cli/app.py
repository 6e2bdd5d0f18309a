"""The commands and their options.

Over 450 lines: the options of each command stand in its signature.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from heddle.driver.cli.bisect import bisect_command, replay_command
from heddle.driver.cli.cache import cache_app
from heddle.driver.cli.check import check_command
from heddle.driver.cli.guard import ExitCode, guarded
from heddle.driver.cli.info import info_command
from heddle.driver.cli.inspect import inspect_command
from heddle.driver.cli.interrupt import INTERRUPTED
from heddle.driver.cli.opt import opt_command
from heddle.driver.cli.options import (
    ChromeTraceOpt,
    DimOpt,
    ExecModeOpt,
    ExecutorOpt,
    FunctionOpt,
    InputOpt,
    JsonOpt,
    LimitOpt,
    ModelArg,
    OutputFolderOpt,
    PrecisionOpt,
    ProfileJsonOpt,
    SanitizeOpt,
    SeedOpt,
    SignatureOpt,
    TargetOpt,
    TargetsOpt,
    ThreadsOpt,
    TrustOpt,
    VariantOpt,
)
from heddle.driver.cli.signing import keygen_command, note_machine_code, sign_command, verify_command
from heddle.driver.codes import D0301
from heddle.driver.inputs import make_folder, parse_dims, parse_pairs, read_array, write_arrays
from heddle.driver.models import check_not_model, check_output, find_model
from heddle.driver.run import (
    CompileOptions,
    RunOptions,
    check_uncompiled,
    compile_to_file,
    load_or_compile,
    load_program,
)
from heddle.driver.run import run as run_model
from heddle.support.diagnostics import UsageError
from heddle.support.files import check_replaceable

app = typer.Typer(
    help="Compile machine-learning models and run them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
PROFILE_ROWS = 40
_CommandLineError: Any = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)
"""Typer's own copy of click, or the package: as it was built."""
EXEC_MODE, FP32 = "compiled", "fp32"
"""What options of the compiler are where they are not given."""


def run_app(args: list[str]) -> int:
    """Run a command line. Commands end with their exit code."""
    try:
        code = app(args=args, prog_name="heddle", standalone_mode=False)
    except typer.Abort as error:  # what click makes of an interrupt; newer ones end with its code
        raise KeyboardInterrupt from error
    except _CommandLineError as error:
        error.show()
        return int(error.exit_code)
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    return code if isinstance(code, int) else ExitCode.DONE


def _version(asked: bool) -> None:
    if asked:
        from heddle import __version__  # other commands start without it

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Compile machine-learning models and run them."""


def _for_run(
    found: Any, options: CompileOptions, executor: str | None, function: str, others: dict[str, Any]
) -> Any:
    """A program of a model, or of a Relay program for one of its executors, which leave other options no
    meaning."""
    if executor is None:
        return load_program(found, options)
    from heddle.driver.relay_run import compile_relay, refuse_others  # other commands start without it

    refuse_others(executor, **others)
    return compile_relay(found, executor, function, options)


def _for_machine(found: Any, options: CompileOptions, executor: str | None) -> Any:
    """A program that a machine runs."""
    if executor is None:
        return load_or_compile(found, options)
    from heddle.driver.relay_run import machine_program  # other commands start without it

    return machine_program(found, executor, options)


@app.command("run")
def run_command(
    model: ModelArg,
    dim: DimOpt = None,
    input: InputOpt = None,
    function: FunctionOpt = "main",
    seed: SeedOpt = 0,
    repeat: Annotated[int, typer.Option(min=0, help="Timed calls after a first one.")] = 10,
    threads: ThreadsOpt = None,
    target: TargetOpt = None,
    variant: VariantOpt = None,
    exec_mode: ExecModeOpt = None,
    executor: ExecutorOpt = None,
    precision: PrecisionOpt = None,
    compare: Annotated[
        str | None, typer.Option(metavar="ENGINE", help="Run in `onnxruntime`, or here in `fp32`, too.")
    ] = None,
    sanitize: SanitizeOpt = False,
    profile: Annotated[bool, typer.Option("--profile", help="Show where the time of a call goes.")] = False,
    profile_json: ProfileJsonOpt = None,
    chrome_trace: ChromeTraceOpt = None,
    output: OutputFolderOpt = None,
    trust: TrustOpt = False,
    limit: LimitOpt = None,
    require_signature: SignatureOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Compile a model if it is not compiled yet, run it, and show what it gives and how fast."""

    def command() -> int:
        from heddle.driver.cli import show  # other commands start without it

        found = check_uncompiled(
            find_model(model),
            target=target,
            exec_mode=exec_mode,
            precision=precision,
            sanitize="yes" if sanitize else None,
        )
        _check_results(found, (profile_json, chrome_trace), output)
        dims = parse_dims(dim or ())
        given = {name: read_array(name, path) for name, path in parse_pairs(input or (), "--input").items()}

        with show.progress_bar(model) as listener:
            options = CompileOptions(
                target,
                listener,
                exec_mode=exec_mode or EXEC_MODE,
                precision=precision or FP32,
                variant=variant,
                trust=trust,
                sanitize=sanitize,
                public_key=require_signature,
            )
            others: dict[str, Any] = {"exec_mode": exec_mode, "precision": precision, "compare": compare}
            others |= {"sanitize": sanitize, "variant": variant, "require_signature": require_signature}
            others |= {"profile": profile, "profile_json": profile_json, "chrome_trace": chrome_trace}
            compiled = _for_run(found, options, executor, function, others)
        done = run_model(found, compiled, RunOptions(function, given, dims, seed, repeat, threads))
        _write_outputs(done, output)
        if compare is not None:
            from heddle.driver.compare import compare as compare_with  # other commands start without it

            done.report.comparison = compare_with(found, done, compare, repeat, done.report.num_threads)
        profiled = None
        if profile or profile_json is not None or chrome_trace is not None:
            profiled = _profiled(compiled, done, function, profile_json, chrome_trace)
        if as_json:
            facts = done.report.as_dict()
            if profile and profiled is not None:
                facts["profile"] = profiled.as_dict()
            typer.echo(json.dumps(facts))
        else:
            show.show_report(done.report)
            if profile and profiled:
                show.show_text(f"profile of one call\n{profiled.table(max_rows=PROFILE_ROWS)}")
        note_machine_code(found, trust, require_signature)
        differs = done.report.comparison is not None and not done.report.comparison["agrees"]
        return ExitCode.OUTPUTS_DIFFER if differs else ExitCode.DONE

    raise typer.Exit(guarded(command, limit))


@app.command("compile")
def compile_command(
    model: ModelArg,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    target: TargetsOpt = None,
    exec_mode: ExecModeOpt = None,
    executor: ExecutorOpt = None,
    precision: PrecisionOpt = None,
    trust: TrustOpt = False,
    limit: LimitOpt = None,
    arena: Annotated[
        bool,
        typer.Option(
            "--arena",
            help="Of a C file: memory is one static array, and malloc is never called. Sizes must be fixed.",
        ),
    ] = False,
    main: Annotated[
        bool,
        typer.Option(
            "--main", help="Beside a library, write main.c, which runs it, and show how to build it."
        ),
    ] = False,
    prefix: Annotated[
        str,
        typer.Option(metavar="NAME_", help="What all names of a library begin with: several link together."),
    ] = "",
    profile: Annotated[
        bool, typer.Option("--profile", help="Tell where the time goes: by pass and by loop function.")
    ] = False,
    as_json: JsonOpt = False,
) -> None:
    """Compile a model into one file that runs without the compiler; with target c, into a C file.

    A library (.so, .dylib, .a) gets a header beside it with the model's functions in C types.
    """

    def command() -> int:
        from heddle.driver.cli.show import progress_bar, show_text  # other commands start without it
        from heddle.driver.compile_profile import CompileProfile

        found = find_model(model)
        if found.is_compiled:
            raise UsageError(D0301, f"{model} is compiled already")
        check_output(found, output)
        check_writable(output)
        start = time.perf_counter()
        watch = CompileProfile()
        with progress_bar(model) as listener:
            options = CompileOptions(
                None,
                listener,
                exec_mode=exec_mode or EXEC_MODE,
                precision=precision or FP32,
                trust=trust,
                instruments=(watch,) if profile else (),
                prefix=prefix,
            )
            if executor is None:
                facts = compile_to_file(found, output, target or (), options, arena, main)
            else:
                from heddle.driver.relay_run import refuse_others, relay_to_file  # others start without it

                others = {"exec_mode": exec_mode, "precision": precision, "arena": arena}
                refuse_others(executor, **others, main=main, prefix=prefix)
                facts = relay_to_file(found, executor, output, target or (), options)
        if profile:
            facts["profile"] = watch.as_dict()
        if as_json:
            typer.echo(json.dumps(facts))
        else:
            _show_file(facts, time.perf_counter() - start, arena)
            if profile:
                show_text(watch.as_text())
        return ExitCode.DONE

    raise typer.Exit(guarded(command, limit))


def _show_file(facts: dict[str, Any], seconds: float, arena: bool) -> None:
    """What a compilation wrote."""
    from heddle.driver.cli.show import show_text  # other commands start without it

    size = facts["size_bytes"] / 2**20
    what = facts["target"] or f"the variants {', '.join(facts['variants'])}"
    show_text(f"{facts['output']}: {size:.2f} MiB in {seconds:.2f} s for {what}")
    for name in ("header", "main", "cc"):
        if name in facts:
            show_text(f"  {facts[name]}")
    if "constant_bytes" in facts:
        where = f" in {facts['weights']}" if facts["weights"] else ""
        show_text(f"  constants: {facts['constant_bytes']} bytes{where}")
        show_text(f"  arena: {facts['arena_bytes']} bytes" if arena else "  memory comes from malloc")


@app.command("debug")
def debug_command(
    model: ModelArg,
    dim: DimOpt = None,
    input: InputOpt = None,
    function: FunctionOpt = "main",
    seed: SeedOpt = 0,
    stops: Annotated[
        list[str] | None,
        typer.Option("--break", metavar="WHERE", help="A function, FUNCTION:PC, nan, inf, alloc BYTES, ..."),
    ] = None,
    script: Annotated[Path | None, typer.Option(metavar="FILE", help="Commands, a line each.")] = None,
    commands: Annotated[
        str | None, typer.Option("--command", "-c", metavar="COMMANDS", help="`a; b`")
    ] = None,
    unfused: Annotated[
        bool, typer.Option("--unfused", help="Compile without fusion: one node of the model per kernel.")
    ] = False,
    view: Annotated[
        bool, typer.Option("--view", help="Use the whole terminal: source, bytecode, registers, memory.")
    ] = False,
    target: TargetOpt = None,
    executor: ExecutorOpt = None,
    variant: VariantOpt = None,
    trust: TrustOpt = False,
    limit: LimitOpt = None,
    require_signature: SignatureOpt = None,
) -> None:
    """Step through a call of a model, forward and back, and look at every value.

    With --script or -c the exit code is 1 where a command failed.
    """

    def command() -> int:
        from heddle.driver.cli.show import progress_bar  # other commands start without it
        from heddle.driver.debug import (
            UNFUSED,
            DebugOptions,
            debug_session,
            open_debugger,
            view_session,
        )
        from heddle.vm.insight.console import read_script, split_commands

        found = check_uncompiled(find_model(model), target=target)
        given = {name: read_array(name, path) for name, path in parse_pairs(input or (), "--input").items()}
        options = DebugOptions(function, given, parse_dims(dim or ()), seed)
        lines = [*(read_script(script) if script is not None else ()), *split_commands(commands or "")]
        if view and lines:
            raise UsageError(D0301, "--view takes commands from its own line: leave out --script and -c")
        if unfused and found.is_compiled:
            raise UsageError(D0301, f"{model} is compiled already; --unfused is for models that are not")
        with progress_bar(model) as listener:
            how = CompileOptions(
                target,
                listener,
                UNFUSED if unfused else (),
                variant=variant,
                trust=trust,
                public_key=require_signature,
            )
            compiled = _for_machine(found, how, executor)
        is_interactive = script is None and commands is None
        if view:
            return view_session(lambda: open_debugger(compiled, options), stops or ())
        failures = debug_session(
            open_debugger(compiled, options), stops or (), None if is_interactive else lines
        )
        return ExitCode.BAD_INPUT if failures else ExitCode.DONE

    raise typer.Exit(guarded(command, limit))


@app.command("explain")
def explain_command(
    model: ModelArg,
    dim: DimOpt = None,
    input: InputOpt = None,
    function: FunctionOpt = "main",
    seed: SeedOpt = 0,
    threads: ThreadsOpt = None,
    target: TargetOpt = None,
    executor: ExecutorOpt = None,
    variant: VariantOpt = None,
    precision: PrecisionOpt = None,
    trust: TrustOpt = False,
    limit: LimitOpt = None,
    require_signature: SignatureOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Time each kernel of a call against what this machine can do, and tell what would help most."""

    def command() -> int:
        from heddle.driver.cli.show import progress_bar, show_explanation  # other commands start without it
        from heddle.driver.explain import ExplainOptions, explain

        found = check_uncompiled(find_model(model), target=target, precision=precision)
        given = {name: read_array(name, path) for name, path in parse_pairs(input or (), "--input").items()}
        options = ExplainOptions(function, given, parse_dims(dim or ()), seed, threads)
        with progress_bar(model) as listener:
            how = CompileOptions(
                target,
                listener,
                exec_mode="bytecode",
                precision=precision or FP32,
                variant=variant,
                trust=trust,
                public_key=require_signature,
            )
            compiled = _for_machine(found, how, executor)
        explanation = explain(found.name, compiled, options)
        if as_json:
            typer.echo(json.dumps(explanation.as_dict()))
        else:
            show_explanation(explanation)
        return ExitCode.DONE

    raise typer.Exit(guarded(command, limit))


app.add_typer(cache_app, name="cache")
app.command("bisect")(bisect_command)
app.command("replay")(replay_command)
app.command("check")(check_command)
app.command("info")(info_command)
app.command("inspect")(inspect_command)
app.command("opt")(opt_command)
app.command("keygen")(keygen_command)
app.command("sign")(sign_command)
app.command("verify")(verify_command)


@app.command("include-dir")
def include_dir_command() -> None:
    """Print the folder of heddle.h, for `cc -I$(heddle include-dir)`."""
    from heddle.driver.c_interface import INCLUDE_DIR  # other commands start without it

    typer.echo(str(INCLUDE_DIR))


@app.command("ops")
def ops_command() -> None:
    """List the operators of the graph dialect."""
    from heddle.driver.docs import operator_rows  # other commands start without it

    for name, first_line in operator_rows():
        typer.echo(f"{name:<40} {first_line}")


@app.command("passes")
def passes_command() -> None:
    """List the passes."""
    from heddle.driver.docs import pass_rows  # other commands start without it

    for name, first_line in pass_rows():
        typer.echo(f"{name:<28} {first_line}")


def _check_results(model: Any, files: Sequence[Path | None], folder: Path | None) -> None:
    """Fail before the work where its results could not be kept. Raises: UsageError D0106, S0101."""
    for path in files:
        if path is not None:
            check_not_model(model, path)
            check_writable(path)
    if folder is not None:
        make_folder(folder)


def _write_outputs(done: Any, folder: Path | None) -> None:
    """Write what a run gave, if that is wanted."""
    if folder is not None:
        write_arrays(folder, [(made.name, array) for made, array in done.named_results()])


def _profiled(compiled: Any, done: Any, function: str, as_json: Path | None, trace: Path | None) -> Any:
    """The profile of a call, written to the files that were asked for."""
    from heddle.driver.debug import profile_run, write_json  # other commands start without it

    profiled = profile_run(compiled, done, function)
    if as_json is not None:
        write_json(as_json, profiled.as_dict())
    if trace is not None:
        write_json(trace, profiled.chrome_trace())
    return profiled


def check_writable(path: Path) -> None:
    """Fail before the work where its result could not be kept. Raises: UsageError S0101."""

    check_replaceable(path)
