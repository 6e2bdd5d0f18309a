"""A few random relax programs; `python -m tests.fuzz.relax_programs` tries more."""

import random

import numpy as np
import pytest

from tests.fuzz.relax_programs import judge, random_program, try_seed


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed):
    assert not try_seed(seed), f"python -m tests.fuzz.relax_programs --seed {seed} --count 1 --show"


def test_a_changed_result_is_seen():
    program = random_program(random.Random(3))
    program.main.steps.append(
        lambda env: env.update({name: env[name] + np.float32(1) for name in program.results})
    )
    assert "differs by" in judge(program, 3)


def test_programs_are_many_sided():
    text = "".join(random_program(random.Random(seed)).text for seed in range(40))
    for part in (
        "if c:",
        "R.dataflow",
        "call_tir",
        "cls.helper",
        "match_cast",
        "R.split",
        "[0][1]",
        "R.matmul",
    ):
        assert part in text
