"""Damaged Relay text is refused with a coded message and a place, or is another program; nothing else."""

from __future__ import annotations

import random
from typing import Any

import pytest

from heddle import relay
from heddle.support.diagnostics import HeddleError, InternalError
from tests.unit.relay.corpus import FOLDER, read

TEXTS = [path.read_text() for path in sorted(FOLDER.glob("*.relay"))]
PIECES = [
    *"(){}[]<>=;:,.?%@#\"'-+*/\\\r\n\t0_é",
    *(
        "let ",
        "fn ",
        "match ",
        "if ",
        "else ",
        "def ",
        "type ",
        "ref",
        "meta[relay.Constant][0]",
        "%0",
        "1f",
        "-1",
    ),
    *(
        "Tensor[(?, 2), int8]",
        "/*",
        "*/",
        "//",
        "#[metadata]",
        "99999999999999999999",
        "True",
        "nn.dense",
        "@main",
    ),
]


def damaged(text: str, rng: random.Random) -> str:
    """A text with a few places changed."""
    for _ in range(rng.randint(1, 3)):
        at, size = rng.randrange(len(text)), rng.choice((0, 0, 1, 2, 9))
        other = rng.choice(PIECES) if rng.random() < 0.7 else text[(k := rng.randrange(len(text))) : k + 8]
        text = text[:at] + other + text[at + size :]
    return text


@pytest.mark.parametrize("seed", range(40))
def test_damaged_texts(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(12):
        text = damaged(rng.choice(TEXTS), rng)
        mod = _read(text)
        if mod is not None:
            again = relay.parse(mod.astext(annotate=lambda _: ""))
            assert again.astext(annotate=lambda _: "") == mod.astext(annotate=lambda _: "")


def _read(text: str) -> Any:
    """The program, or None for a text that is refused as it should be."""
    try:
        return read(text)
    except InternalError:
        raise
    except HeddleError:
        return None
