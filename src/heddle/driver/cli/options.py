"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ModelArg = Annotated[
    str,
    typer.Argument(help="PATH.onnx, PATH.py (script text), PATH.relay, PATH.heddle, PATH.so or onnx:NAME."),
]
ExecModeOpt = Annotated[
    str | None,
    typer.Option(
        metavar="MODE",
        help="`compiled`, the default, makes machine code of the graph too, `bytecode` interprets it.",
    ),
]
TargetOpt = Annotated[
    str | None, typer.Option(help='Target, for example "llvm -mcpu=x86-64-v3"; default: this machine.')
]
TargetsOpt = Annotated[
    list[str] | None,
    typer.Option(
        help='Target, for example "llvm -mcpu=x86-64-v3"; default: this machine. Repeated, it makes a file '
        "with a variant for each, of which a machine takes the best that it can run."
    ),
]
VariantOpt = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Variant of a compiled model; default: the best for this machine."),
]
PrecisionOpt = Annotated[
    str | None,
    typer.Option(
        metavar="PRECISION",
        help="`fp32`, the default, is strict; `bf16` rounds factors of products with weights to bfloat16.",
    ),
]
ExecutorOpt = Annotated[
    str | None,
    typer.Option(metavar="KIND", help="Of a Relay program: `vm`, `graph`, `aot` or `interpreter`."),
]
OutputFolderOpt = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="DIR", help="Write the outputs there, each as NAME.npy."),
]
ProfileJsonOpt = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the profile.")]
ChromeTraceOpt = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a trace for chrome://tracing or Perfetto.")
]
SanitizeOpt = Annotated[
    bool, typer.Option("--sanitize", help="Check every access and lifetime, on poisoned memory.")
]
FunctionOpt = Annotated[str, typer.Option(help="Function of the model.")]
DimOpt = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Value of a symbolic dimension of the inputs; may be repeated."),
]
InputOpt = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=FILE.npy", help="An input from a file; the others are made up."),
]
SeedOpt = Annotated[int, typer.Option(min=0, help="Seed of made-up inputs.")]
ThreadsOpt = Annotated[int | None, typer.Option(min=1, help="Threads of parallel loops; default: the cores.")]
TrustOpt = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="The model may do what a program of yours may: call foreign code, use memory by address. "
        "Without it, script text and bytecode only compute.",
    ),
]
SignatureOpt = Annotated[
    Path | None,
    typer.Option(
        metavar="PUBKEY", help="Load a compiled model only if the owner of this key signed it (heddle sign)."
    ),
]
LimitOpt = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Raise or lower a limit of docs/limits.md; may be repeated."),
]
JsonOpt = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
