"""What processor names imply, as far as the compiler decides by it. LLVM itself knows the rest."""

from __future__ import annotations

_SSE = ("sse2",)
_AVX2 = (*_SSE, "ssse3", "sse4.1", "sse4.2", "avx", "avx2", "fma", "f16c", "popcnt")
_AVX512 = (*_AVX2, "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd")
_LEVELS: dict[str, tuple[str, ...]] = {
    "x86-64": _SSE,
    "x86-64-v2": (*_SSE, "ssse3", "sse4.1", "sse4.2", "popcnt"),
    "x86-64-v3": _AVX2,
    "x86-64-v4": _AVX512,
    **dict.fromkeys(("haswell", "broadwell", "skylake", "znver1", "znver2", "znver3", "core-avx2"), _AVX2),
    "alderlake": (*_AVX2, "avxvnni"),
    "skylake-avx512": _AVX512,
    **dict.fromkeys(
        ("cascadelake", "icelake-client", "icelake-server", "tigerlake"), (*_AVX512, "avx512vnni")
    ),
    **dict.fromkeys(("cooperlake", "znver4"), (*_AVX512, "avx512bf16", "avx512vnni")),
    "znver5": (*_AVX512, "avx512bf16", "avx512vnni", "avxvnni"),
    **dict.fromkeys(
        ("sapphirerapids", "emeraldrapids", "graniterapids"),
        (
            *(*_AVX512, "avx512bf16", "avx512vnni", "avxvnni", "avx512fp16"),
            *("amx-tile", "amx-bf16", "amx-int8"),
        ),
    ),
}

_X86_CODE = (
    *("cmov", "popcnt", "sse", "sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "sse4a"),
    *("avx", "avx2", "f16c", "fma", "fma4", "xop", "tbm", "bmi", "bmi2", "lzcnt", "movbe", "prfchw", "gfni"),
    *("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512vbmi", "avx512vbmi2"),
    *("avx512ifma", "avx512vnni", "avx512bitalg", "avx512vpopcntdq", "avx512bf16", "avx512fp16"),
    *("avxvnni", "avxifma", "avxvnniint8", "avxvnniint16", "avxneconvert", "avx10.1", "avx10.2"),
    *("amx-tile", "amx-bf16"),
    *("cmpccxadd", "raoint", "egpr", "ndd", "ccmp", "cf", "nf", "push2pop2", "ppx", "zu"),
)
CODE_FEATURES: dict[str, tuple[str, ...]] = {
    "x86_64": _X86_CODE,
    "aarch64": ("neon", "fp-armv8", "lse", "sve", "sve2"),
}
"""By machine: features that decide which instructions code may have, apart from those for which it would
have to ask by name (cryptography, virtual machines); schedule rules ask for tiles. Of Arm's, those that LLVM
finds out of a running processor; of other machines, none yet."""
BASE_FEATURES: dict[str, tuple[str, ...]] = {
    "x86_64": ("cmov", "sse", "sse2"),
    "aarch64": ("neon", "fp-armv8"),
}
"""By machine: those of them without which there is hardly any code."""


def known_processors() -> tuple[str, ...]:
    """Names of the processors whose features are known here."""
    return tuple(_LEVELS)


def implied_features(triple: str, cpu: str) -> tuple[str, ...]:
    """The features of a processor that is known by name, else its architecture's base."""
    if cpu in _LEVELS:
        return _LEVELS[cpu]
    if triple.startswith(("x86_64", "amd64")):
        return _SSE
    return ("neon", "fma") if triple.startswith(("aarch64", "arm64")) else ()


def vector_bits(triple: str, features: frozenset[str]) -> int:
    """Return the width of a vector register in bits: 512, 256 or 128.

    A processor without vectors gets 64, the width of its registers. The schedule rules then take two elements
    of 32 bits at a time, and LLVM emits them one by one.
    """
    if triple.startswith(("x86_64", "amd64", "i686")):
        return 512 if "avx512f" in features else 256 if "avx" in features else 128
    if triple.startswith(("aarch64", "arm64", "wasm")) or "neon" in features:
        return 128
    if triple.startswith("riscv") and "v" in features:
        return 128
    return 64


def has_fma(features: frozenset[str]) -> bool:
    """Whether a * b + c rounded once is one instruction."""
    return "fma" in features or "avx512f" in features


def has_ldexp(features: frozenset[str], width_bits: int) -> bool:
    """Whether vectors of floats are scaled by powers of two in one instruction. `width_bits` is the target's
    vector width: LLVM cannot split this instruction where longer vectors are not to be used."""
    return "avx512f" in features and width_bits >= 512


def has_half_conversion(triple: str, features: frozenset[str]) -> bool:
    """Whether float16 converts to float32 and back without library calls."""
    return "f16c" in features or "avx512f" in features or triple.startswith(("aarch64", "arm64"))
