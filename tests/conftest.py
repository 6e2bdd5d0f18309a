"""Every test sees the operators declared, as users of the package do."""

from heddle import ops

ops.load()
