"""The command line: `heddle run`, `compile`, `inspect`, `debug`, `ops`, `passes`."""

from heddle.driver.cli.entry import ExitCode, main

__all__ = ["ExitCode", "main"]
