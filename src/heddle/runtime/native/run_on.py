"""LLVM IR that calls code on another stack, for each supported processor.

    define internal i32 @run_on(ptr top, ptr code, i64 a, i64 b, i64 c, i64 d, i64 e)

calls `code(a, b, c, d, e)` with the stack pointer just below `top`. A callee-saved register keeps the old
stack pointer. All caller-saved registers are declared as clobbered.
"""

from __future__ import annotations


def _text(result: str, instructions: tuple[str, ...], constraints: tuple[str, ...]) -> str:
    body, places = "\\0A\\09".join(instructions), ",".join(constraints)
    return f"""
define internal i32 @run_on(ptr %top, ptr %code, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e) noinline nounwind {{
  %found = call {result} asm sideeffect "{body}", "{places}"(
    ptr %top, ptr %code, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e)
  %word = extractvalue {result} %found, 0
  %status = trunc i64 %word to i32
  ret i32 %status
}}
"""


_WORD = "i64"
_X86_64 = _text(
    f"{{ {', '.join([_WORD] * 6)} }}",
    ("movq %rsp, %rbx", "movq %r12, %rsp", "callq *%r13", "movq %rbx, %rsp"),
    (
        "={rax}",
        *(f"={{{name}}}" for name in ("rdi", "rsi", "rdx", "rcx", "r8")),
        "{r12}",
        "{r13}",
        *map(str, range(1, 6)),
        *(f"~{{{name}}}" for name in ("rbx", "r9", "r10", "r11")),
        *(f"~{{xmm{number}}}" for number in range(16)),
        *(f"~{{{name}}}" for name in ("dirflag", "fpsr", "flags", "memory")),
    ),
)
_AARCH64 = _text(
    f"{{ {', '.join([_WORD] * 5)} }}",
    ("mov x19, sp", "mov sp, x20", "blr x21", "mov sp, x19"),
    (
        *(f"={{x{number}}}" for number in range(5)),
        "{x20}",
        "{x21}",
        *map(str, range(5)),
        "~{x19}",
        *(f"~{{x{number}}}" for number in range(5, 18)),
        "~{lr}",
        *(f"~{{v{number}}}" for number in range(32)),
        "~{cc}",
        "~{memory}",
    ),
)
RUN_ON = {"x86_64": _X86_64, "aarch64": _AARCH64}
"""The IR by machine name."""
NO_RUN_ON = """
define internal i32 @run_on(ptr %top, ptr %code, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e) {
  call void @llvm.trap()
  unreachable
}
declare void @llvm.trap()
"""
"""The IR for all other machines, for which `HAS_SEGMENTS` is 0."""
