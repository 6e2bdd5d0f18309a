"""Marks that several files of tests give."""

import pytest

LARGE = pytest.mark.long("a network of many layers: all of them take minutes")
