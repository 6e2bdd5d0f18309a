"""What code for a target asks of a processor, as LLVM knows it.

LLVM's binding has no question for the features of a processor by name. But LLVM inlines a function only where
the caller has every feature of the callee: so each feature is put into a function of its own, one function
calls them all, and what is left of the calls is what the processor lacks. It takes some 10 ms, once a
processor.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from heddle.runtime.native.llvm import llvm_binding
from heddle.runtime.processor import Needs, platform_of, this_processor
from heddle.support.diagnostics import UsageError, did_you_mean
from heddle.target.codes import H0105
from heddle.target.features import CODE_FEATURES, known_processors

_SAME_SYSTEM_32_BITS = "i686-unknown-linux-gnu"
_WITHOUT_64_BITS = ("pentium-m", "pentium4", "pentium4m", "prescott", "yonah")
"""Processors with all of the first x86-64 features but that one."""


def needs_of(triple: str, cpu: str, features: str, is_listed: bool) -> Needs:
    """What LLVM's code for a processor needs of those features that it may use unasked.

    `is_listed`: `features` is the whole list of what the processor has. Raises: UsageError H0105.
    """
    platform = platform_of(triple)
    wanted = CODE_FEATURES.get(platform.partition("-")[0], ())
    if is_listed:
        given = {text[1:] for text in features.split(",") if text.startswith("+")}
        return Needs(platform, frozenset(given.intersection(wanted)))
    check_processor_name(triple, cpu)
    return Needs(platform, frozenset(features_known_to_llvm(triple, cpu, features, tuple(wanted))))


@cache
def features_known_to_llvm(triple: str, cpu: str, features: str, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the features `asked` that LLVM gives a processor with a feature list."""
    own = _attributes(cpu, features)
    richer = [_attributes(cpu, ",".join(text for text in (features, f"+{name}") if text)) for name in asked]
    inlined = _inlined(triple, cpu, features, own, richer)
    return tuple(name for name, has in zip(asked, inlined, strict=True) if has)


@cache
def check_processor_name(triple: str, cpu: str) -> None:
    """Raises: UsageError H0105 for an x86-64 processor that LLVM does not know: it would end this process."""
    known = ("", "generic", this_processor().cpu, *known_processors())
    if platform_of(triple).partition("-")[0] != "x86_64" or cpu in known:
        return
    base = _attributes("x86-64", "")
    if cpu in _WITHOUT_64_BITS or not all(
        _inlined(_SAME_SYSTEM_32_BITS, cpu, "", _attributes(cpu, ""), [base])
    ):
        raise UsageError(
            H0105,
            f"LLVM knows no x86-64 processor {cpu!r}",
            help=did_you_mean(cpu, known_processors()) or "x86-64-v3 is a level that most processors have",
        )


def _attributes(cpu: str, features: str) -> str:
    return f'"target-cpu"="{_escaped(cpu)}" "target-features"="{_escaped(features)}"'


def _escaped(text: str) -> str:
    return "".join(chr(byte) if chr(byte).isalnum() else f"\\{byte:02X}" for byte in text.encode())


def _inlined(triple: str, cpu: str, features: str, caller: str, callees: Sequence[str]) -> list[bool]:
    """Of functions with such attributes, which ones LLVM inlines into a caller with its own."""
    llvm = llvm_binding()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features, opt=1)
    module = llvm.parse_assembly(_program(triple, caller, callees), llvm.create_context())
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    builder.getModulePassManager().run(module, builder)
    left = {function.name for function in module.functions}
    return [f"callee.{number}" not in left for number in range(len(callees))]


def _program(triple: str, caller: str, callees: Sequence[str]) -> str:
    lines = [f'target triple = "{_escaped(triple)}"', "@place = external global i32"]
    for number, attributes in enumerate(callees):
        body = f"store volatile i32 {number}, ptr @place ret void"
        lines.append(f"define internal void @callee.{number}() {attributes} {{ {body} }}")
    calls = " ".join(f"call void @callee.{number}()" for number in range(len(callees)))
    lines.append(f"define void @caller() {caller} {{ {calls} ret void }}")
    return "\n".join(lines)
