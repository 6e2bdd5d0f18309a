"""Check whether LLVM can generate code for a target.

For some targets LLVM aborts the process; for unknown names it only prints a warning. So a target that is not
known to be safe is tried in a separate process (`heddle.target.trial`), which also reports the known
processor and feature names. This takes a tenth of a second, once per target.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from heddle.runtime.needs import platform_of
from heddle.runtime.processor import this_processor
from heddle.support.diagnostics import UsageError, did_you_mean
from heddle.support.frozen import frozen
from heddle.support.settings import can_start_python, environment_of_python
from heddle.target.codes import H0105, H0106, H0107
from heddle.target.features import BASE_FEATURES, CODE_FEATURES, known_processors

_NAME = re.compile(r"[A-Za-z0-9_.+-]*")
_LISTED = re.compile(r"^  (\S+) +- ", re.MULTILINE)
_X86 = re.compile(r"x86_64h?|i\d86")
_UNFIT = re.compile(r"amdgcn|r600|nvptx|spirv|dxil|bpf|avr|msp430")
"""LLVM targets that are not processors, or whose pointers have fewer than 32 bits."""
_PLACE = re.compile(r"^(LLVM ERROR: |error: |<unknown>:0:0: )+")
_FEATURES = "Available features"
_X86_MODES = ("64bit", "64bit-mode", "32bit-mode", "16bit-mode", "soft-float")
"""Features of x86 that select the operating mode, which the triple must do."""
_TRIAL = Path(__file__).with_name("trial.py")
_BEGIN = "==== a program for the target"
_LIMIT_S = 60.0
_WHAT = {H0105: "processor", H0106: "target triple", H0107: "processor feature"}


@cache
def check_code_generation(triple: str, cpu: str, features: str, changes: tuple[str, ...]) -> None:
    """Check a target. `features` is the complete feature list, `changes` is the part that options added.

    Raises: UsageError H0105 for a processor, H0106 for a triple, H0107 for a feature that LLVM does not know
    or cannot generate code for.
    """
    names = [_name_of(change) for change in changes]
    machine = platform_of(triple).partition("-")[0]
    if _X86.fullmatch(machine):
        for name in names:
            if name in _X86_MODES:
                raise UsageError(H0107, f"the triple decides about {name!r}, no feature does")
    processors = ("", this_processor().cpu, *(known_processors() if machine == "x86_64" else ()))
    harmless = set(CODE_FEATURES.get(machine, ())) - set(BASE_FEATURES.get(machine, ()))
    if triple == this_processor().triple and cpu in processors and harmless.issuperset(names):
        return
    for code, text in ((H0106, triple), (H0105, cpu), *((H0107, name) for name in names)):
        if not _NAME.fullmatch(text):
            raise UsageError(code, f"{_WHAT[code]} {text[:80]!r} is no name")
    if _UNFIT.match(machine):
        raise UsageError(H0106, f"{triple!r} is no processor with pointers of 32 or 64 bits")
    _check_by_trial(triple, cpu, features, changes)


def _check_by_trial(triple: str, cpu: str, features: str, changes: tuple[str, ...]) -> None:
    answer = try_target(triple, cpu, features)
    if answer is None:
        raise UsageError(
            H0106,
            f"whether LLVM can make code for {cpu or triple!r} is tried in a process of its own, and "
            "none can be started here",
            help="leave triple and features to this machine, and name a level such as x86-64-v3",
        )
    if answer.processors and cpu and cpu not in answer.processors:
        raise UsageError(
            H0105,
            f"LLVM knows no processor {cpu!r} for {triple!r}",
            help=did_you_mean(cpu, answer.processors) or _example(triple),
        )
    for name in map(_name_of, changes):
        if answer.features and name not in answer.features:
            raise UsageError(
                H0107,
                f"LLVM knows no processor feature {name!r} for {triple!r}",
                help=did_you_mean(name, answer.features),
            )
    if answer.refusal is not None:
        raise _refusal(triple, cpu, features, changes, answer.refusal)


def _refusal(triple: str, cpu: str, features: str, changes: tuple[str, ...], reason: str) -> UsageError:
    # report the first feature that is rejected alone
    for code, what, given in (
        (H0106, f"triple {triple!r}", (triple, "", "")),
        (H0105, f"processor {cpu!r} and triple {triple!r}", (triple, cpu, "")),
    ):
        found = try_target(*given)
        if found is not None and found.refusal is not None:
            return UsageError(code, f"LLVM cannot make code for {what}: {found.refusal}")
    return UsageError(H0107, f"LLVM cannot make code with {','.join(changes) or features!r}: {reason}")


def _name_of(change: str) -> str:
    return change[1:] if change[:1] in ("+", "-") else change


def _example(triple: str) -> str | None:
    return "x86-64-v3 is a level that most processors have" if triple.startswith("x86_64") else None


@frozen
class Answer:
    """The names that LLVM knows (empty if it does not say), and the reason why it rejects a target."""

    processors: tuple[str, ...]
    features: tuple[str, ...]
    refusal: str | None


@cache
def try_target(triple: str, cpu: str, features: str) -> Answer | None:
    """Try a target in a separate process. Return LLVM's answer; None if no process can be started."""
    if not can_start_python():
        return None
    try:
        done = subprocess.run(
            [sys.executable, str(_TRIAL)],
            input=json.dumps([_BEGIN, triple, cpu, features]).encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment_of_python(),
            timeout=_LIMIT_S,
            start_new_session=True,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _answer(done.stderr.decode(errors="replace"), done.returncode)


def _answer(text: str, status: int) -> Answer:
    listing, begun, words = text.partition(_BEGIN)
    processors, _, features = listing.partition(_FEATURES)
    refusal = None
    if status:
        lines = [line for line in (words if begun else text).splitlines() if line.strip()]
        errors = [line for line in lines if "error:" in line.lower()]
        refusal = _PLACE.sub("", (errors or lines or [f"it ended with {status}"])[-1].strip())[:200]
    return Answer(tuple(_LISTED.findall(processors)), tuple(_LISTED.findall(features)), refusal)
