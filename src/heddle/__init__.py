"""Heddle: a compiler and virtual machine for machine-learning models."""

import sys

from heddle.facade.install import install

__version__ = "0.1.0"

install(sys.modules[__name__])
