"""The commands on the cache of compiled programs and kernels."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from heddle.driver.cli.guard import ExitCode, guarded
from heddle.support.private_cache import user_cache
from heddle.support.settings import settings

cache_app = typer.Typer(
    help="Look at, empty or check the cache of compiled programs and kernels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
_JsonOpt = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def _show(facts: dict[str, object], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for name, value in facts.items():
        typer.echo(f"{name:<12} {value}")


@cache_app.command("info")
def info_command(as_json: _JsonOpt = False) -> None:
    """Where the cache is, how many files it holds, and how much room they take."""

    def command() -> int:

        cache = user_cache()
        cache.check()
        files = cache.files()
        facts: dict[str, object] = {
            "folder": str(cache.folder),
            "is_used": settings().use_disk_cache,
            "num_files": len(files),
            "size_bytes": sum(file.room_bytes for file in files),
            "limit_bytes": cache.limit_bytes,
        }
        _show(facts, as_json)
        return ExitCode.DONE

    raise typer.Exit(guarded(command))


@cache_app.command("clear")
def clear_command(as_json: _JsonOpt = False) -> None:
    """Remove all files of the cache, and the key under which they were written."""

    def command() -> int:

        cache = user_cache()
        cache.check()
        _show({"removed": cache.clear()}, as_json)
        return ExitCode.DONE

    raise typer.Exit(guarded(command))


@cache_app.command("verify")
def verify_command(as_json: _JsonOpt = False) -> None:
    """Check who can write the cache, and each file's authenticity. The exit code is 1 where a file fails; it
    is not used in any case.
    """

    def command() -> int:

        cache = user_cache()
        cache.check()
        bad = cache.unusable()
        _show(
            {"num_files": len(cache.files()), "unusable": bad if as_json else " ".join(bad) or "none"},
            as_json,
        )
        return ExitCode.BAD_INPUT if bad else ExitCode.DONE

    raise typer.Exit(guarded(command))
