"""Find the processor features that code for a target needs, according to LLVM.

LLVM's binding cannot list the features of a processor. But LLVM inlines a function only if the caller has
every feature of the callee. So each feature is put into a function of its own, and one function calls them
all; the calls that remain after inlining show the features that the processor lacks. This takes about 10 ms,
once per processor.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from heddle.runtime.native.llvm import llvm_binding
from heddle.runtime.needs import Needs, platform_of
from heddle.target.features import CODE_FEATURES


def needs_of(triple: str, cpu: str, features: str, is_listed: bool) -> Needs:
    """Return the needs of LLVM's code for a processor, among the features that LLVM may use by itself.

    With `is_listed`, `features` is the complete list of the processor's features. Otherwise LLVM is asked,
    which must be able to generate code for the target (`heddle.target.llvm_check`).
    """
    platform = platform_of(triple)
    wanted = CODE_FEATURES.get(platform.partition("-")[0], ())
    if is_listed:
        given = {text[1:] for text in features.split(",") if text.startswith("+")}
        return Needs(platform, frozenset(given.intersection(wanted)))
    return Needs(platform, frozenset(features_known_to_llvm(triple, cpu, features, wanted)))


@cache
def features_known_to_llvm(triple: str, cpu: str, features: str, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Return the features among `asked` that LLVM assumes for a processor and a feature list."""
    own = _attributes(cpu, features)
    richer = [_attributes(cpu, ",".join(text for text in (features, f"+{name}") if text)) for name in asked]
    inlined = _inlined(triple, cpu, features, own, richer)
    return tuple(name for name, has in zip(asked, inlined, strict=True) if has)


def _attributes(cpu: str, features: str) -> str:
    return f'"target-cpu"="{_escaped(cpu)}" "target-features"="{_escaped(features)}"'


def _escaped(text: str) -> str:
    """Escape a string for LLVM IR: ASCII letters and digits stay, other bytes become `\\XX`."""
    return "".join(
        chr(byte) if byte < 128 and chr(byte).isalnum() else f"\\{byte:02X}" for byte in text.encode()
    )


def _inlined(triple: str, cpu: str, features: str, caller: str, callees: Sequence[str]) -> list[bool]:
    """Return which of the functions with these attributes LLVM inlines into a caller with its own
    attributes.
    """
    llvm = llvm_binding()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features, opt=1)
    text, tuning = _program(triple, caller, callees), llvm.create_pipeline_tuning_options(speed_level=1)
    with llvm.create_context() as context, llvm.parse_assembly(text, context) as module:
        with llvm.create_pass_builder(machine, tuning) as builder, builder.getModulePassManager() as passes:
            passes.run(module, builder)
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
