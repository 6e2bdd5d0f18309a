"""`python -m heddle` is the program `heddle`."""

import sys

from heddle.driver.cli.entry import main

sys.exit(main())
