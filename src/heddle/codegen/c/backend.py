"""The record of kind `c`: portable C99 for any processor that has a compiler."""

from heddle.codegen.backend import Backend
from heddle.codegen.c.build import TEXT_FORMAT, build, emit, join
from heddle.codegen.c.passes import lowering_passes
from heddle.tir.schedule.rules.cpu import CPU_RULES, PLAIN_RULES

BACKEND = Backend(
    kind="c",
    pipeline="cpu",
    schedule_rules=CPU_RULES,
    plain_rules=PLAIN_RULES,
    loop_passes=lowering_passes,
    emit=emit,
    text_format=TEXT_FORMAT,
    stages={"c": lambda text, _: text},
    build=build,
    join=join,
)
