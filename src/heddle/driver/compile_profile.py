"""Profile a compilation: time per pass, and per loop function that is compiled to machine code.

    profile = CompileProfile()
    with heddle.transform.PassContext(instruments=[profile]):
        heddle.compile(mod)
    print(profile.as_text())

The time of a pass excludes passes that it runs itself. IR nodes are counted before and after each pass,
shared nodes once; counting is not part of a pass's time. LLVM may run in other processes, so its time may
overlap the rest.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any

from heddle.ir.module import IRModule
from heddle.ir.transform import CodeMade, PassInfo, PassInstrument
from heddle.ir.visitor import walk_distinct

_SHOWN = 15
"""The maximum number of passes and functions in a text."""


@dataclass(slots=True)
class PassRow:
    """All runs of one pass. Units: seconds, nodes."""

    name: str
    runs: int = 0
    seconds: float = 0.0
    nodes_before: int = 0
    nodes_after: int = 0


@dataclass(slots=True)
class CompileProfile(PassInstrument):
    """A `PassContext` instrument that collects the profile of compilations."""

    passes: dict[str, PassRow] = field(default_factory=dict)
    functions: list[CodeMade] = field(default_factory=list)
    _stack: list[PassRow] = field(default_factory=list)
    """The passes under way, the innermost last."""
    _since: float = 0.0

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._charge()
        row = self.passes.setdefault(info.name, PassRow(info.name))
        row.runs += 1
        row.nodes_before += _nodes(mod)
        self._stack.append(row)
        self._since = time.perf_counter()

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._charge()
        self._stack.pop().nodes_after += _nodes(mod)
        self._since = time.perf_counter()

    def code_made(self, made: CodeMade) -> None:
        self.functions.append(made)

    def _charge(self) -> None:
        """What passed since the last event belongs to the pass that is under way."""
        if self._stack:
            self._stack[-1].seconds += time.perf_counter() - self._since

    def as_dict(self) -> dict[str, Any]:
        """Passes and functions, those that took longest first."""
        return {
            "passes": [asdict(row) for row in sorted(self.passes.values(), key=lambda row: -row.seconds)],
            "functions": [asdict(row) for row in sorted(self.functions, key=lambda row: -row.seconds)],
        }

    def as_text(self) -> str:
        """Two tables. Times are seconds; text and code are KiB."""
        found = self.as_dict()
        total = sum(row.seconds for row in self.passes.values())
        lowering, llvm = (
            sum(getattr(row, name) for row in self.functions) for name in ("lowering_s", "llvm_s")
        )
        kept = sum(row.is_kept for row in self.functions)
        lines = [
            f"passes {total:.2f} s; {len(self.functions)} loop functions, {kept} of them from the cache: "
            f"to text {lowering:.2f} s, LLVM {llvm:.2f} s",
            "    seconds  share   runs  nodes before     after  pass",
        ]
        for row in found["passes"][:_SHOWN]:
            share = row["seconds"] / max(total, 1e-9)
            lines.append(
                f"{row['seconds']:11.3f} {share:6.1%} {row['runs']:6} {row['nodes_before']:13} "
                f"{row['nodes_after']:9}  {row['name']}"
            )
        lines.append("    to text   LLVM      text      code  loop function")
        for row in found["functions"][:_SHOWN]:
            text, code = (row[name] / 1024 for name in ("text_bytes", "code_bytes"))
            name = f"{row['name']} (kept)" if row["is_kept"] else row["name"]
            lines.append(f"{row['lowering_s']:11.3f} {row['llvm_s']:6.3f} {text:9.1f} {code:9.1f}  {name}")
        return "\n".join(lines)


def _nodes(mod: IRModule) -> int:
    return sum(1 for func in mod.functions.values() for _ in walk_distinct(func))
