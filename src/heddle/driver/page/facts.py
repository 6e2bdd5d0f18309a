"""What a page shows, as plain data: the one form between the compiler and the page's script.

A page holds these classes as JSON, with the names of the fields as keys; `web/src/facts.ts` says the same in
TypeScript, and `tests/unit/driver/test_page_bundle.py` holds the two together. Texts, places and sets of
places stand in tables and are meant by their numbers:

    lines[i]    a line of any text, once
    texts[i]    a text: the numbers of its lines
    places[i]   where things of the model come from: `bert.onnx node "fc1" (MatMul)`, `model.py:7:5`
    sets[i]     numbers of places, ascending

Whatever has the same place belongs together: that is how nodes of the graph, lines of every level, kernels,
calls and storages are linked.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

VERSION = 1


@dataclass(slots=True)
class Mark:
    """Lines `first` to `last` of a listing write what comes from the places of a set."""

    first: int
    last: int
    set: int


@dataclass(slots=True)
class Listing:
    """A function at one level. `set` holds the places of all of it; `kernel` is the loop function that it
    belongs to, or ""."""

    name: str
    text: int
    marks: list[Mark]
    set: int
    kernel: str = ""


@dataclass(slots=True)
class Level:
    """All functions at a stage on the way from the model to machine code."""

    name: str
    functions: list[Listing]


@dataclass(slots=True)
class GraphNode:
    """A node of the graph as it was imported.

    `kind` is param, call, if, branch, function or output. `label` is the operator, `name` the variable.
    `weight_bytes` are those of the constants that it reads. `parent` is the number of the node that it lies
    in, or -1; `group` the number of the call of a kernel that computes it, or -1.
    """

    kind: str
    label: str
    name: str
    type: str
    set: int
    weight_bytes: int = 0
    parent: int = -1
    group: int = -1


@dataclass(slots=True)
class Group:
    """One call of a kernel, in which nodes of the graph were fused."""

    kernel: str
    set: int


@dataclass(slots=True)
class Graph:
    """A graph function. Edges are pairs of numbers of nodes."""

    function: str
    nodes: list[GraphNode]
    edges: list[tuple[int, int]]
    groups: list[Group]


@dataclass(slots=True)
class Change:
    """What a pass made of a function: numbers of texts, None where there was or is none."""

    function: str
    before: int | None
    after: int | None


@dataclass(slots=True)
class PassRun:
    """One run of a pass, in order."""

    name: str
    seconds: float
    changes: list[Change]


@dataclass(slots=True)
class Placed:
    """A tensor in a storage. Positions count bindings of the function."""

    name: str
    type: str
    first: int
    last: int
    offset_bytes: int | None
    size_bytes: int | None
    set: int


@dataclass(slots=True)
class PlannedStorage:
    """A storage of the memory plan; `size` is a formula of the free sizes, `size_bytes` its value, None where
    that is not known. It is alive from binding `first` to `last`."""

    name: str
    size: str
    size_bytes: int | None
    first: int
    last: int
    tensors: list[Placed]


@dataclass(slots=True)
class MemoryPlan:
    """The plan of a function. `peak` is the formula of the most bytes alive at once."""

    function: str
    num_bindings: int
    peak: str
    storages: list[PlannedStorage]


@dataclass(slots=True)
class Span:
    """A call, or a whole function of the program, on the time line of thread 0; on the others the part of a
    parallel loop that a thread of the pool ran."""

    name: str
    thread: int
    start_us: float
    duration_us: float
    depth: int
    is_function: bool
    set: int


@dataclass(slots=True)
class RunFacts:
    """A profiled run. `threads` are the rows of the time line: the machine's, and those of loops' parts.
    `memory` are pairs: microseconds since the start, bytes on loan."""

    function: str
    dims: dict[str, int]
    duration_us: float
    dispatch_us: float
    peak_bytes: int
    num_dropped: int
    num_dropped_parts: int
    threads: list[str]
    spans: list[Span]
    memory: list[tuple[float, int]]


@dataclass(slots=True)
class KernelPoint:
    """A kernel with tensors of some shapes against the roofline; None where the work is not known."""

    name: str
    shapes: list[list[int]]
    count: int
    time_us: float
    flops: int | None
    size_bytes: int | None
    least_us: float
    is_memory_bound: bool
    rule: str
    operators: list[str]
    advice: str
    gain_us: float


@dataclass(slots=True)
class Roofline:
    """`gflops` and `gbytes_per_s` are what the machine reaches at most; bandwidths by size of working set."""

    gflops: float
    bandwidths: list[tuple[int, float]]
    kernels: list[KernelPoint]
    advice: list[str]


@dataclass(slots=True)
class ReplayStep:
    """An instruction of a schedule and the text of the loops after it."""

    instruction: str
    text: int


@dataclass(slots=True)
class Replay:
    """How a rule made the loops of a function, from text `start` on."""

    kernel: str
    rule: str
    start: int
    steps: list[ReplayStep]


@dataclass(slots=True)
class Facts:
    """All of a page. What was not asked for, or does not exist, is None or empty; `notes` say why."""

    model: str
    target: str = ""
    precision: str = ""
    version: int = VERSION
    lines: list[str] = field(default_factory=list)
    texts: list[list[int]] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    sets: list[list[int]] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)
    passes: list[PassRun] = field(default_factory=list)
    plans: list[MemoryPlan] = field(default_factory=list)
    run: RunFacts | None = None
    roofline: Roofline | None = None
    replays: list[Replay] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return asdict(self)
