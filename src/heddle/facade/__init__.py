"""The public names, as users of TVM know them, over our rooms."""

from heddle.facade.install import install

__all__ = ["install"]
