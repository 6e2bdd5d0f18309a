"""A few seconds of the programs that run for minutes or hours elsewhere."""

from .networks import CONVOLUTION, ENCODER
from .soak import soak, soak_recursive
from .threads import run_threads


def test_eight_threads_give_right_answers_and_leak_nothing():
    outcome = run_threads(4, (ENCODER, CONVOLUTION))
    assert not outcome.faults
    assert outcome.leaked_bytes == 0
    assert {"bytecode own", "bytecode shared", "compiled own", "compiled shared"} <= set(outcome.calls)


def test_peaks_stay_below_their_bounds_on_random_shapes():
    """Answers and bounds; whether memory is flat is judged over more calls than fit a test."""
    found = soak(300)
    assert 0.95 < found.closest <= 1


def test_recursive_programs_keep_no_memory():
    assert soak_recursive(90).calls == 90
