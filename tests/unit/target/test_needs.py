"""What code for a target asks of a processor, and processors that LLVM does not know."""

from __future__ import annotations

import platform
import sys

import pytest

import heddle
from heddle.runtime.native.llvm import llvm_binding
from heddle.runtime.processor import this_processor
from heddle.support.diagnostics import UsageError
from heddle.target import Target, needs
from heddle.target.features import CODE_FEATURES, implied_features, known_processors
from heddle.target.llvm_check import check_code_generation, try_target
from heddle.target.needs import _escaped

TRIPLE = "x86_64-unknown-linux-gnu"
BASE = {"cmov", "sse", "sse2"}
V2 = BASE | {"popcnt", "sse3", "ssse3", "sse4.1", "sse4.2"}
V3 = V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


def needs_of(options: str) -> set[str]:
    return set(Target(f"llvm -mtriple={TRIPLE} {options}").needs.features)


def test_levels_need_what_the_abi_says() -> None:
    """Source: System V ABI, AMD64 supplement, table of micro-architecture levels."""
    for level, expected in (("", BASE), ("-v2", V2), ("-v3", V3), ("-v4", V4)):
        assert needs_of(f"-mcpu=x86-64{level}") == expected


@pytest.mark.parametrize("cpu", [name for name in known_processors() if name != "core-avx2"])
def test_our_own_table_is_part_of_what_llvm_says(cpu: str) -> None:
    """LLVM is asked by name: as a target, this machine's own name means what this machine has."""
    of_code = set(implied_features(TRIPLE, cpu)) & set(CODE_FEATURES["x86_64"])
    assert of_code <= needs.needs_of(TRIPLE, cpu, "", False).features


def test_options_add_and_remove_features_and_what_hangs_on_them() -> None:
    assert needs_of("-mcpu=x86-64-v4 -mattr=-avx512f") == V3
    assert needs_of("-mcpu=x86-64-v4 -mattr=avx512bf16") == V4 | {"avx512bf16"}
    assert needs_of("-mcpu=x86-64 -mattr=+avx2") >= {"avx", "avx2", "sse4.2"}
    assert needs_of("-mcpu=x86-64 -mattr=+aes") >= BASE  # of no weight: code must ask for it by name


def test_the_processors_between_the_levels() -> None:
    assert needs_of("-mcpu=haswell") == V3
    assert needs_of("-mcpu=znver4") - V4 >= {"avx512bf16", "gfni", "sse4a"}
    assert needs_of("-mcpu=sapphirerapids") - V4 >= {"avx512bf16", "avx512fp16", "avxvnni"}
    assert not needs_of("-mcpu=tremont") & {"avx", "bmi", "lzcnt"}


def test_other_machines() -> None:
    arm = Target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v2").needs
    assert (arm.platform, arm.features) == ("aarch64-linux", {"neon", "fp-armv8", "lse", "sve", "sve2"})
    assert Target("llvm -mtriple=aarch64-linux-gnu").needs.features == {"neon", "fp-armv8"}
    assert Target("llvm -mtriple=riscv64-unknown-linux-gnu").needs.features == frozenset()


def test_this_machine_can_run_what_is_compiled_for_it() -> None:
    for target in (
        Target("llvm"),
        Target.native(),
        Target("llvm -mattr=-avx512f"),
        Target("llvm -mattr=+aes"),
    ):
        assert this_processor().runs(target.needs), target


@pytest.mark.skipif(platform.machine() != "x86_64", reason="LLVM tells what this processor has")
def test_every_feature_can_be_found_out() -> None:
    reported = llvm_binding().get_host_cpu_features()
    assert set(CODE_FEATURES["x86_64"]) <= set(reported)


@pytest.mark.parametrize("cpu", ["bogus", "pentium4", "i686", "athlon-xp", 'a"b', "x86-64-v5"])
def test_processors_that_llvm_does_not_know_are_an_error_and_no_end(cpu: str) -> None:
    target = Target({"kind": "llvm", "mtriple": TRIPLE, "mcpu": cpu})
    with pytest.raises(UsageError, match="H0105"):
        heddle.compile(heddle.IRModule(), target)
    with pytest.raises(UsageError, match="H0105"):
        _ = target.needs


@pytest.mark.parametrize(
    ("options", "code", "part"),
    [
        ("-mtriple=foo", "H0106", "No available targets"),
        ("-mtriple=nvptx64", "H0106", "'nvptx64' is no processor"),
        ("-mtriple=amdgcn-amd-amdhsa", "H0106", "'amdgcn-amd-amdhsa' is no processor"),
        ("-mtriple=spirv64", "H0106", "'spirv64' is no processor"),
        ("-mtriple=avr", "H0106", "'avr' is no processor"),
        ("-mtriple=x86_64h-apple-macosx -mcpu=nosuch", "H0105", "no processor 'nosuch'"),
        ("-mtriple=aarch64-linux-gnu -mcpu=neoverse-w2", "H0105", "did you mean"),
        ("-mtriple=riscv64-unknown-linux-gnu -mcpu=generic-rv32", "H0105", "requires an RV64 CPU"),
        (f"-mtriple={TRIPLE} -mcpu=x86-64 -mattr=-64bit", "H0107", "the triple decides about '64bit'"),
        (f"-mtriple={TRIPLE} -mcpu=x86-64 -mattr=+soft-float", "H0107", "about 'soft-float'"),
        (f"-mtriple={TRIPLE} -mcpu=x86-64 -mattr=+16bit-mode", "H0107", "about '16bit-mode'"),
        (f"-mtriple={TRIPLE} -mcpu=x86-64 -mattr=+avx512bf61", "H0107", "did you mean 'avx512bf16'?"),
        (f"-mtriple={TRIPLE} -mcpu=x86-64 -mattr=-sse2", "H0107", "SSE2 disabled"),
        (f"-mtriple={TRIPLE} -mcpu=x86-64 -mattr=+help", "H0107", "no processor feature 'help'"),
        (f"""-mtriple={TRIPLE} -mcpu=x86-64 '-mattr=+a"b'""", "H0107", "is no name"),
    ],
)
def test_targets_that_llvm_cannot_make_code_for_are_an_error_and_no_end(
    options: str, code: str, part: str, capfd: pytest.CaptureFixture[str]
) -> None:
    target = Target(f"llvm {options}")
    for call in (lambda: target.needs, lambda: heddle.compile(heddle.IRModule(), target)):
        with pytest.raises(UsageError) as caught:
            call()
        assert caught.value.code == code and part in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_without_other_processes_only_what_is_known_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    assert Target("llvm").needs is not None
    try_target.cache_clear()
    with pytest.raises(UsageError, match="none can be started here"):
        _ = Target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a57").needs
    check_code_generation.cache_clear()
    try_target.cache_clear()


def test_texts_for_llvm_are_ascii() -> None:
    assert _escaped('a"1é²') == "a\\221\\C3\\A9\\C2\\B2"


@pytest.mark.parametrize("cpu", ["generic", "nocona", "core2", "tremont", "knl", "znver5"])
def test_processors_that_llvm_knows(cpu: str) -> None:
    assert needs_of(f"-mcpu={cpu}") >= {"sse2"} - ({"sse2"} if cpu == "generic" else set())


def test_names_of_processors() -> None:
    assert Target("llvm -mcpu=x86-64-v4 -mattr=avx512bf16,-fma").processor_name == "x86-64-v4+avx512bf16-fma"
    assert Target("llvm").processor_name == this_processor().cpu
    assert Target("llvm -mtriple=aarch64-linux-gnu").processor_name == "aarch64"
