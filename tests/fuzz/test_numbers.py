"""A fixed sample of the table of numbers: `python -m tests.fuzz.numbers` runs all of it."""

from __future__ import annotations

import zlib

import pytest

from tests.e2e.c_file import needs_compiler
from tests.fuzz.number_rows import ALL, Row
from tests.fuzz.numbers import run

ALWAYS = (
    "truncdiv",
    "floormod",
    "shift_left",
    "shift_right",
    "fmaximum",
    "cast_int8",
    "cast_int32",
    "cast_float16",
)
SHARE = 8


@pytest.mark.parametrize("dtype", ALL)
def test_engines_agree_on_numbers(dtype: str) -> None:
    """Every eighth row, and those where engines have differed."""

    def keep(row: Row) -> bool:
        return row.name in ALWAYS or zlib.crc32(f"{row.name} {dtype}".encode()) % SHARE == 0

    assert run(dtype, keep, seed=7, most=150, slow=20) == []


@needs_compiler
@pytest.mark.parametrize("dtype", ALL)
def test_c_agrees_on_numbers(dtype: str) -> None:
    def keep(row: Row) -> bool:
        return row.name in ALWAYS or zlib.crc32(f"{row.name} {dtype} c".encode()) % SHARE == 0

    assert run(dtype, keep, seed=11, most=150, slow=4, target="c -opt-level=1") == []
