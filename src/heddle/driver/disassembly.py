"""Parts of a disassembly."""

from __future__ import annotations

from heddle.driver.codes import D0102
from heddle.support.diagnostics import UsageError, did_you_mean


def bytecode_text(text: str, function: str | None) -> str:
    """A program's disassembly, or the part that belongs to a function. Raises: UsageError D0102."""
    parts = [part.rstrip() for part in text.split("\n\n") if part.startswith("@")]
    if function is None:
        return "\n\n".join(parts)
    bodies = {part[1:].split(":")[0]: part for part in parts if part.splitlines()[0].endswith(":")}
    if function not in bodies:
        raise UsageError(
            D0102,
            f"the bytecode has no function {function!r}: it has {', '.join(bodies)}",
            help=did_you_mean(function, bodies),
        )
    return bodies[function]
