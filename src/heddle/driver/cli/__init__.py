"""The command line: `heddle run`, `compile`, `inspect`, `ops`, `passes`."""

from heddle.driver.cli.entry import ExitCode, main

__all__ = ["ExitCode", "main"]
