"""`python -m heddle` and the program `heddle`."""

import os
import sys

_INTERRUPTED = 130


def run() -> int:
    """Run the command line. An interrupt while it is still being imported gives 130 too."""
    try:
        from heddle.driver.cli.entry import (
            main,  # as a module of the package, nothing but a run of it needs the command line
        )

        return main()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.stderr.flush()
        os._exit(_INTERRUPTED)  # nothing is under way; see `heddle.driver.cli.interrupt`


if __name__ == "__main__":
    sys.exit(run())
