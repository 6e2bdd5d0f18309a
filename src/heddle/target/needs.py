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
from heddle.runtime.needs import Needs, platform_of
from heddle.target.features import CODE_FEATURES


def needs_of(triple: str, cpu: str, features: str, is_listed: bool) -> Needs:
    """What LLVM's code for a processor needs of those features that it may use unasked.

    `is_listed`: `features` is the whole list of what the processor has. Otherwise LLVM is asked, which must
    be able to make code for the target (`heddle.target.llvm_check`).
    """
    platform = platform_of(triple)
    wanted = CODE_FEATURES.get(platform.partition("-")[0], ())
    if is_listed:
        given = {text[1:] for text in features.split(",") if text.startswith("+")}
        return Needs(platform, frozenset(given.intersection(wanted)))
    return Needs(platform, frozenset(features_known_to_llvm(triple, cpu, features, wanted)))


@cache
def features_known_to_llvm(triple: str, cpu: str, features: str, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the features `asked` that LLVM gives a processor with a feature list."""
    own = _attributes(cpu, features)
    richer = [_attributes(cpu, ",".join(text for text in (features, f"+{name}") if text)) for name in asked]
    inlined = _inlined(triple, cpu, features, own, richer)
    return tuple(name for name, has in zip(asked, inlined, strict=True) if has)


def _attributes(cpu: str, features: str) -> str:
    return f'"target-cpu"="{_escaped(cpu)}" "target-features"="{_escaped(features)}"'


def _escaped(text: str) -> str:
    """As LLVM's texts spell any bytes: letters and digits of ASCII as they are, the others as `\\XX`."""
    return "".join(
        chr(byte) if byte < 128 and chr(byte).isalnum() else f"\\{byte:02X}" for byte in text.encode()
    )


def _inlined(triple: str, cpu: str, features: str, caller: str, callees: Sequence[str]) -> list[bool]:
    """Of functions with such attributes, which ones LLVM inlines into a caller with its own."""
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
