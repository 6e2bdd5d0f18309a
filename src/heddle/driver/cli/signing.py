"""The commands on signatures, and the note on files without one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from heddle.driver.cli.guard import ExitCode, guarded
from heddle.support.printable import printable

_FileArg = Annotated[Path, typer.Argument(help="The file that is signed, of any kind.")]


def keygen_command(
    key: Annotated[Path, typer.Argument(help="Where to write the private key; KEY.pub is the public one.")],
) -> None:
    """Make a pair of keys for signing."""

    def command() -> int:
        from heddle.runtime.signature import make_keys  # other commands start without it

        typer.echo(f"{key}: private, keep it; {make_keys(key)}: public, hand it out")
        return ExitCode.DONE

    raise typer.Exit(guarded(command))


def sign_command(
    file: _FileArg,
    key: Annotated[Path, typer.Option(metavar="KEY", help="The private key.")],
) -> None:
    """Sign all bytes of a file; the signature is written beside it."""

    def command() -> int:
        from heddle.runtime.signature import sign_file  # other commands start without it

        typer.echo(str(sign_file(file, key)))
        return ExitCode.DONE

    raise typer.Exit(guarded(command))


def verify_command(
    file: _FileArg,
    key: Annotated[Path, typer.Option(metavar="PUBKEY", help="The public key.")],
) -> None:
    """Check that a file is what the owner of a key signed."""

    def command() -> int:
        from heddle.runtime.signature import verify_file  # other commands start without it

        verify_file(file, key)
        typer.echo(f"{file} is what the owner of {key} signed")
        return ExitCode.DONE

    raise typer.Exit(guarded(command))


def note_machine_code(model: Any, trust: bool, public_key: Path | None) -> None:
    """Say once a run what loading a compiled model means, unless the user has decided that."""
    if model.is_compiled and not trust and public_key is None:
        sys.stdout.flush()  # a result that cannot be written comes first
        check = "" if model.is_library else "--require-signature PUBKEY checks who made it, "
        sys.stderr.write(
            f"note: {printable(model.name)} holds machine code, which runs with your rights; "
            f"{check}--trust leaves this note out\n"
        )
