"""The record of kind `llvm`: object code for every processor that LLVM knows."""

from heddle.codegen.backend import Backend
from heddle.codegen.llvm.build import TEXT_FORMAT, build, emit, join, placed_texts
from heddle.codegen.llvm.machine import assembly
from heddle.codegen.llvm.passes import lowering_passes
from heddle.tir.schedule.rules.cpu import CPU_RULES, PLAIN_RULES

BACKEND = Backend(
    kind="llvm",
    pipeline="cpu",
    schedule_rules=CPU_RULES,
    plain_rules=PLAIN_RULES,
    loop_passes=lowering_passes,
    emit=emit,
    text_format=TEXT_FORMAT,
    stages={"llvm": lambda text, _: text, "asm": assembly},
    placed_texts=placed_texts,
    build=build,
    join=join,
)
