"""All forms, and by what a family is judged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tests.accuracy.contractions import CONTRACTIONS
from tests.accuracy.convolutions import CONVOLUTIONS
from tests.accuracy.forms import Form
from tests.accuracy.measure import Outcome, outcomes
from tests.accuracy.moves import MOVES
from tests.accuracy.pointwise import POINTWISE
from tests.accuracy.recurrent import RECURRENT
from tests.accuracy.rows import ROW_PASSES

FORMS: tuple[Form, ...] = (
    *CONTRACTIONS,
    *CONVOLUTIONS,
    *ROW_PASSES,
    *POINTWISE,
    *MOVES,
    *RECURRENT,
)
_ELEMENTS_IN_CI = 100_000


@dataclass(frozen=True)
class Verdict:
    """A family's forms and runs, and the worst of them."""

    family: str
    num_forms: int
    runs: Sequence[Outcome]

    @property
    def worst(self) -> Outcome:
        return max(self.runs, key=lambda run: run.badness)

    @property
    def wrong(self) -> list[Outcome]:
        return [run for run in self.runs if not run.is_ok]

    @property
    def same_bits(self) -> bool:
        return all(run.same_bits for run in self.runs)

    def line(self) -> str:
        """One line: errors in parts of the tolerance, and in ulp or relative to element and scale."""
        ulps = [run.ulp for run in self.runs if run.form.ulp is not None]
        relative = max(run.relative for run in self.runs) * 2.0**24
        finer = f"{max(ulps):6.2f} ulp      " if ulps else f"{relative:6.1f} × 2⁻²⁴  "
        bits = "same bits" if self.same_bits else "BITS DIFFER"
        count = f"{self.num_forms:3} forms {len(self.runs):5} runs"
        state = "" if not self.wrong else f"  {len(self.wrong)} WRONG"
        error = f"{self.worst.error:7.3f} of the tolerance"
        return f"{self.family:16} {count} {error} {finer} {bits}{state}  worst: {self.worst.where}"


def families() -> list[str]:
    return list(dict.fromkeys(form.family for form in FORMS))


def verdicts(chosen: Iterable[str]) -> Iterator[Verdict]:
    """Compile and run all forms of these families, one family after the other."""
    for family in chosen:
        forms = [form for form in FORMS if form.family == family]
        yield Verdict(family, len(forms), [run for form in forms for run in outcomes(form)])


def in_ci(form: Form) -> Form:
    """The form at its smaller sizes."""
    small = [
        sizes
        for sizes in form.sizes
        if sum(math.prod(shape) for shape in form.shapes(sizes)) <= _ELEMENTS_IN_CI
    ]
    return replace(form, sizes=tuple(small))
