"""Target descriptions: spellings, round trips, what code generation asks, errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import heddle.target.target as target_module
from heddle.runtime.needs import may_use_tiles, usable_features
from heddle.support.diagnostics import UsageError
from heddle.target import Target, host
from heddle.target.host import _data_caches

SPELLINGS = [
    "llvm",
    "llvm -mcpu=skylake-avx512 -num-cores=8",
    "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -mattr=+neon,-crypto",
    "c -vector-width=256 -opt-level=1",
]


@pytest.mark.parametrize("text", SPELLINGS)
def test_text_and_dict_round_trip(text: str) -> None:
    target = Target(text)
    assert Target(str(target)) == target
    assert Target(target.export()) == target
    assert hash(Target(str(target))) == hash(target)


def test_host_is_kept_through_the_round_trip() -> None:
    target = Target("llvm -mcpu=znver4", host="llvm -mcpu=haswell -mattr=+fma,+avx2")
    assert target.host is not None
    assert Target(str(target)) == target
    assert target.without_host() == Target("llvm -mcpu=znver4")
    assert Target("llvm").with_host("c").host == Target("c")


def test_options_are_typed() -> None:
    target = Target({"kind": "llvm", "num-cores": "4", "mattr": ["+fma"]})
    assert target.attrs["num-cores"] == 4
    assert target.mattr == ("+fma",)
    assert target.kind.name == "llvm"
    assert Target({"kind": "llvm", "mattr": ["+fma,+avx2", "-bmi"]}).mattr == ("+fma", "+avx2", "-bmi")


def test_vector_width_follows_processor_and_options() -> None:
    assert Target("llvm -mcpu=skylake-avx512").vector_width_bits == 512
    assert Target("llvm -mcpu=skylake-avx512 -mattr=-avx512f").vector_width_bits == 256
    assert Target("llvm -mcpu=x86-64").vector_width_bits == 128
    assert Target("llvm -mtriple=aarch64-linux-gnu").vector_width_bits == 128
    assert Target("llvm -mtriple=riscv64-linux-gnu -mattr=+v").vector_width_bits == 128
    assert Target("llvm -mtriple=riscv64-linux-gnu").vector_width_bits == 64  # no vectors
    assert Target("llvm -mcpu=znver5 -vector-width=256").vector_width_bits == 256


def test_plain_llvm_is_this_machine() -> None:
    target = Target("llvm")
    assert (target.mcpu, target.mtriple) == (host().cpu, host().triple)
    assert target.is_host_cpu
    assert Target.from_device("cpu").mcpu == host().cpu
    assert not Target("llvm -mcpu=pentium4").is_host_cpu


def test_current_target_nests() -> None:
    assert Target.current() is None
    with Target("llvm") as outer:
        with Target("c") as inner:
            assert Target.current() is inner
        assert Target.current() is outer
    with pytest.raises(UsageError) as caught:
        Target.current(allow_none=False)
    assert caught.value.code == "H0104"


@pytest.mark.parametrize(
    ("text", "code", "part"),
    [
        ("lllvm", "H0102", "did you mean 'llvm'?"),
        ("llvm -mcup=x", "H0103", "did you mean 'mcpu'?"),
        ("c -libs=cublas", "H0103", "--> target:1:3"),
        ("c -opt-level=2 -libs=cublas", "H0103", "^^^^^"),
        ("llvm -libs=mkl", "H0103", "no target calls libraries for operators"),
        ("llvm -keys=cpu", "H0103", "leave it out"),
        ({"kind": "llvm", "tag": "mine"}, "H0103", "target option 'tag'"),
        ("c -mcpu=znver4", "H0103", "-march"),
        ("llvm -device=arm_cpu", "H0103", "-mcpu"),
        ("llvm mcpu", "H0101", "expected a target option"),
        ("-mcpu=x", "H0101", "starts with its kind"),
        ("llvm -mcpu", "H0101", "-mcpu has no value"),
        ("llvm -mcpu= -mattr=+avx", "H0101", "-mcpu has no value"),
        ("llvm -mcpu -mattr=+avx", "H0101", "write -mcpu=VALUE"),
        ("llvm -mattr", "H0101", "--> target:1:6"),
        ("llvm -num-cores", "H0101", "-num-cores has no value"),
        ("llvm -mcpu=a -mcpu=b", "H0101", "twice: 'a' and 'b'"),
        ("llvm -system-lib -mcpu=znver3", "H0103", "system_lib_prefix"),
        ("", "H0101", "starts with its kind"),
        ("llvm -num-cores=many", "H0101", "expects a number, got 'many'"),
        ('{"kind": ', "H0101", "malformed target"),
        pytest.param('{"a": ' * 100_000, "H0101", "malformed target", id="deep"),
        ('{"kind": "llvm", "num-cores": 1e999}', "H0101", "expects a number, got inf"),
        ({"kind": "llvm", "num-cores": None}, "H0101", "expects a number, got None"),
        ({"kind": "llvm", "num-cores": True}, "H0101", "expects a number, got True"),
        ({"kind": "llvm", "mattr": 5}, "H0101", "expects a list of texts or one with commas, got 5"),
        ({"kind": "llvm", "mattr": [5]}, "H0101", "expects a list of texts"),
        ({"kind": "llvm", "mcpu": None}, "H0101", "expects a text, got None"),
        ({"kind": "llvm", "host": 3}, "H0101", "a target is a text or a mapping, got int"),
        ({"kind": "llvm", "host": {"kind": "c", "host": {"kind": "c"}}}, "H0101", "no host of its own"),
        ({"kind": "llvm", 5: 3}, "H0101", "have texts as names"),
        ({"llvm"}, "H0101", "got set"),
        ("llvm -opt-level=9", "H0101", "from 0 to 3, got 9"),
        ("llvm -opt-level=-1", "H0101", "from 0 to 3, got -1"),
        ("llvm -num-cores=-3", "H0101", "got -3"),
        ("llvm -vector-width=-8", "H0101", "got -8"),
        ("llvm -vector-width=100", "H0101", "expects a power of two, got 100"),
        ("llvm -l1-cache-bytes=0", "H0101", "got 0"),
    ],
)
def test_wrong_targets_are_explained(text: Any, code: str, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        Target(text)
    assert caught.value.code == code
    assert part in str(caught.value)


def test_cache_sizes_are_read_from_the_system(tmp_path: Path) -> None:
    for index, (kind, level, size) in enumerate(
        [("Data", 1, "48K"), ("Instruction", 1, "32K"), ("Unified", 2, "1M")]
    ):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        for name, text in (("type", kind), ("level", str(level)), ("size", size)):
            (folder / name).write_text(text + "\n")
    assert _data_caches(tmp_path) == {1: 48 << 10, 2: 1 << 20}
    assert _data_caches(tmp_path / "missing") == {}


@pytest.mark.parametrize("granted", [True, False])
def test_tile_registers_count_only_where_the_system_grants_them(granted: bool) -> None:
    asked = []

    def answer() -> bool:
        asked.append(True)
        return granted

    given = "+avx2,+amx-tile,+amx-bf16,-amx-fp16,+fma"
    expected = given if granted else "+avx2,-amx-tile,-amx-bf16,-amx-fp16,+fma"
    assert usable_features(given, answer) == expected and asked == [True]
    for other in ("+avx2,-amx-tile,+fma", ""):
        assert usable_features(other, answer) == other
    assert asked == [True]


def test_a_processor_whose_tiles_are_refused_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = replace(host(), cpu="sapphirerapids", features="+avx512f,-amx-tile,-amx-bf16,-amx-int8")
    monkeypatch.setattr(target_module, "host_machine", lambda: machine)
    assert not any(name.startswith("amx") for name in Target("llvm").feature_set)
    assert "amx-bf16" in Target("llvm -mcpu=graniterapids").feature_set
    assert "amx-bf16" not in Target("llvm -mcpu=graniterapids -mtriple=i686-linux-gnu").feature_set


def test_the_system_answers_the_same_question_alike() -> None:
    granted = may_use_tiles()
    assert may_use_tiles() == granted
    assert granted or "amx-tile" not in Target("llvm").feature_set
