"""How the stages of a pipeline are connected.

    {"stages": 2, "inputs": [["x", 0, "data"]], "edges": [[0, 0, 1, "y"]], "outputs": [[1, 0]],
     "params": [["weights", 1]], "cpus": [[], [1]]}

is a pipeline whose input `x` is the input `data` of stage 0; result 0 of that stage is the input `y` of
stage 1, whose result 0 is the pipeline's result.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from heddle.support.diagnostics import FormatError
from heddle.support.frozen import frozen
from heddle.vm.codes import V0805

MOST_STAGES = 256
"""How many stages a pipeline from a file may have; each is a thread."""

Result = tuple[int, int]
"""The number of a stage, and of one of its results."""


@frozen
class Wiring:
    """The connections of a pipeline. Raises: FormatError V0805 where they are no pipeline."""

    stages: int
    inputs: tuple[tuple[str, int, str], ...] = ()
    """Name, stage, and name there; a name may be that of inputs of several stages."""
    edges: tuple[tuple[int, int, int, str], ...] = ()
    """A stage and a result of it, then the later stage and the input of it."""
    outputs: tuple[Result, ...] = ()
    params: tuple[tuple[str, int], ...] = ()
    """The name of a group of parameters, and the stage that it is for."""
    cpus: tuple[tuple[int, ...], ...] = ()
    """For each stage the processors that its thread may use; none: all."""

    def __post_init__(self) -> None:
        if not 1 <= self.stages <= MOST_STAGES:
            raise FormatError(V0805, f"a pipeline has 1 to {MOST_STAGES} stages, got {self.stages}")
        if not self.outputs:
            raise FormatError(V0805, "no output of a stage is connected to one of the pipeline")
        numbers = [number for number, _ in (*self.targets(), *self.results())]
        numbers += [number for _, number in self.params]
        if any(not 0 <= number < self.stages for number in numbers) or len(self.cpus) > self.stages:
            raise FormatError(V0805, f"a connection names a stage that is not among the {self.stages}")
        for (stage, name), count in Counter(self.targets()).items():
            if count > 1:
                raise FormatError(V0805, f"input {name!r} of stage {stage} has several sources")
        for source, _, target, name in self.edges:
            if source >= target:
                raise FormatError(V0805, f"input {name!r} of stage {target} comes from stage {source}")

    def targets(self) -> list[tuple[int, str]]:
        """The inputs of stages that are connected."""
        return [(stage, name) for _, stage, name in self.inputs] + [
            (stage, name) for *_, stage, name in self.edges
        ]

    def results(self) -> list[Result]:
        """The results of stages that are connected."""
        return [(stage, result) for stage, result, *_ in self.edges] + list(self.outputs)

    def to_json(self) -> str:
        """The connections as JSON text."""
        names = ("stages", "inputs", "edges", "outputs", "params", "cpus")
        return json.dumps({name: getattr(self, name) for name in names})


def wiring_from_json(text: str) -> Wiring:
    """Parse and check the JSON text of connections. Raises: FormatError V0805."""
    try:
        data = json.loads(text)
        return Wiring(
            _number(data["stages"]),
            tuple((_text(name), _number(stage), _text(here)) for name, stage, here in data["inputs"]),
            tuple((_number(a), _number(b), _number(c), _text(name)) for a, b, c, name in data["edges"]),
            tuple((_number(stage), _number(result)) for stage, result in data["outputs"]),
            tuple((_text(name), _number(stage)) for name, stage in data["params"]),
            tuple(tuple(map(_number, row)) for row in data["cpus"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(V0805, f"the text of the connections is malformed: {error}") from error


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 31:
        raise TypeError(f"expected a number from 0 on, got {value!r}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a name, got {value!r}")
    return value
