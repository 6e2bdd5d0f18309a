"""Programs that try to break the machine: hostile files, long runs, many threads. See `docs/trust.md`."""

import os

os.environ.setdefault("HEDDLE_CACHE", "kernels")  # each program is compiled: that is what is looked at
