"""From a seed to a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.graphs import everything
from tests.fuzz.graphs.cut import without_refused
from tests.fuzz.graphs.grow import is_wide, make_graph
from tests.fuzz.graphs.judge import Case, Verdict, judge, ways_of

assert everything.__all__
MAX_REFUSALS = 6


def case_of(seed: int) -> Case:
    b = make_graph(seed)
    outputs = b.outputs()
    model = b.model(outputs)
    wanted, noisy = (
        [[getattr(value, kind)[s] for value in outputs] for s in range(b.num_samples)]
        for kind in ("clean", "noisy")
    )
    inputs = [sample.arrays for sample in b.samples]
    known = {value.name: value for value in b.values}
    return Case(model, inputs, wanted, noisy, ways_of(seed, is_wide(seed)), seed, known)


def run_case(case: Case) -> tuple[Case, Verdict, Sequence[str]]:
    """The case that was judged last, its verdict, and the refusals: nodes that are refused are cut out of the
    graph, which is judged again."""
    refusals: list[str] = []
    while True:
        verdict = judge(case)
        if verdict.kind != "refused" or len(refusals) >= MAX_REFUSALS:
            return case, verdict, refusals
        refusals.append(verdict.key)
        smaller = without_refused(case, verdict.detail)
        if smaller is None:
            return case, verdict, refusals
        case = smaller
