"""Makes a failing case small: one output, few nodes, one sample, static sizes, plain element types, a plain
way of compiling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.fuzz.graphs.cut import rebuilt
from tests.fuzz.graphs.judge import Case, Verdict, Ways, judge
from tests.fuzz.graphs.retype import with_dtype

MAX_TRIALS = 150
PLAIN = {
    **dict.fromkeys(("float16", "bfloat16", "float64"), ("float32",)),
    **dict.fromkeys(("int8", "uint8", "int16", "uint16", "uint32", "uint64"), ("int32", "int64")),
    "int32": ("int64",),
}
"""Element types that a reader knows best; a fault that stays with them is not one of its type."""


class _Shrinker:
    def __init__(self, case: Case, verdict: Verdict, trials: int) -> None:
        self.case, self.verdict, self.left = case, verdict, trials

    def takes(self, candidate: Case | None) -> bool:
        """Whether the candidate fails in the same way; then it is the case from now on."""
        if candidate is None or self.left <= 0:
            return False
        self.left -= 1
        verdict = judge(candidate)
        if (verdict.kind, verdict.key) != (self.verdict.kind, self.verdict.key):
            return False
        self.case, self.verdict = candidate, verdict
        return True

    @property
    def outputs(self) -> list[str]:
        return [item.name for item in self.case.model.graph.output]

    def run(self) -> None:
        self.takes(replace(self.case, ways=Ways()))
        if self.case.ways.sanitize:
            self.takes(replace(self.case, ways=replace(self.case.ways, sanitize=False)))
        for s in range(len(self.case.inputs)):
            if self.takes(rebuilt(self.case, self.outputs, samples=[s])):
                break
        for name in self.outputs:
            if self.takes(rebuilt(self.case, [name])):
                break
        for name in [name for node in self.case.model.graph.node for name in node.output]:
            if len(self.case.model.graph.node) < 2 or self.takes(rebuilt(self.case, [name])):
                break
        self._cut_nodes()
        self.takes(rebuilt(self.case, self.outputs, static=True))
        for kind in sorted({array.dtype.name for array in self.case.inputs[0].values()}):
            for plain in PLAIN.get(kind, ()):
                if self.takes(with_dtype(self.case, kind, plain)):
                    break

    def _cut_nodes(self) -> None:
        """Nodes in blocks, the largest first, become inputs of what stays."""
        block = max(1, len(self.case.model.graph.node) // 2)
        while True:
            for names in self._blocks(block):
                self.takes(rebuilt(self.case, self.outputs, names))
            if block == 1:
                return
            block //= 2

    def _blocks(self, block: int) -> Iterator[list[str]]:
        nodes = list(self.case.model.graph.node)
        for start in range(0, len(nodes), block):
            present = {name for node in self.case.model.graph.node for name in node.output}
            names = [name for node in nodes[start : start + block] for name in node.output]
            fitting = [
                name for name in names
                if name in present and name in self.case.known and not self.case.known[name].is_sequence
                and name not in self.outputs
            ]  # fmt: skip
            if fitting:
                yield fitting


def shrink(case: Case, verdict: Verdict, trials: int = MAX_TRIALS) -> tuple[Case, Verdict]:
    """A case that fails with the same verdict, by at most `trials` judgements."""
    shrinker = _Shrinker(case, verdict, trials)
    shrinker.run()
    return shrinker.case, shrinker.verdict
