"""Every test sees the operators declared, as users of the package do. A schedule rule that fails is an error
here, also in processes that tests start: for users it gives way to the next."""

import os

os.environ.setdefault("HEDDLE_STRICT_RULES", "1")

from heddle import ops

ops.load()
