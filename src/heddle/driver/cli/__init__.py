"""The command line: `heddle run`, `compile`, `inspect`, `debug`, `ops`, `passes`."""

from heddle.driver.cli.entry import main
from heddle.driver.cli.guard import ExitCode

__all__ = ["ExitCode", "main"]
