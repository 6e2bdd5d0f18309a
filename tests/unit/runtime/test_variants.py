"""Files with several variants: what is stored once, which one a machine takes, malformed tables."""

from __future__ import annotations

import itertools
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heddle.runtime import KernelModule, Variant, VariantsModule, load_module, variants_in
from heddle.runtime import module as module_room
from heddle.runtime import variants as variants_room
from heddle.runtime.artefact import open_artefact, parse_artefact, read_artefact
from heddle.runtime.artefact_file import write_artefact
from heddle.runtime.module import modules_from_sections, variant_from_sections
from heddle.runtime.needs import Needs, Processor, platform_of, write_needs
from heddle.runtime.processor import this_processor
from heddle.runtime.variant_table import (
    VARIANTS,
    StoredVariant,
    by_preference,
    choose,
    part_name,
    read_variants,
    sections_of,
    variants_sections,
)
from heddle.runtime.wire import Writer
from heddle.support.diagnostics import FormatError, MissingNameError, UsageError
from heddle.vm.isa import FuncKind
from heddle.vm.program import FunctionRow, Program
from heddle.vm.relax import VMExecutable
from heddle.vm.relax.isa import RELAX

LINUX = "x86_64-linux"
V2 = ("popcnt", "sse4.2")
V3 = (*V2, "avx", "avx2", "fma")
V4 = (*V3, "avx512f", "avx512vl")


def needs(*features: str, platform: str = LINUX) -> Needs:
    return Needs(platform, frozenset(features))


def processor(*features: str, triple: str = "x86_64-unknown-linux-gnu") -> Processor:
    return Processor(triple, "some", ",".join([*(f"+{name}" for name in features), "-sgx"]))


def row(name: str, wanted: Needs) -> StoredVariant:
    return StoredVariant(name, f"llvm -mcpu={name}", wanted, {})


ROWS = [
    row("v2", needs(*V2)),
    row("arm", needs("neon", "sve", "lse", platform="aarch64-linux")),
    row("v4", needs(*V4)),
    row("v3", needs(*V3)),
    row("v3 of another system", needs(*V3, platform="x86_64-darwin")),
]


# The choice


@pytest.mark.parametrize("order", [*itertools.islice(itertools.permutations(ROWS), 0, 120, 7)])
def test_the_best_that_runs_is_taken_in_whatever_order_they_were_given(order: list[StoredVariant]) -> None:
    rows = by_preference(order)
    for features, expected in (
        (V2, "v2"),
        (V3, "v3"),
        ((*V3, "avx512f"), "v3"),
        (V4, "v4"),
        ((*V4, "amx-tile"), "v4"),
    ):
        assert choose(rows, processor(*features)).name == expected
    assert choose(rows, processor("neon", "sve", "lse", triple="arm64-linux-gnu")).name == "arm"
    darwin = processor(*V4, triple="x86_64-apple-darwin23")
    assert choose(rows, darwin).name == "v3 of another system"


def test_those_with_as_many_features_keep_the_given_order() -> None:
    rows = [row("a", needs("x", "y")), row("b", needs("y", "z")), row("c", needs("x", "y", "z"))]
    assert [each.name for each in by_preference(rows)] == ["c", "a", "b"]
    assert choose(by_preference(rows), processor("y", "z")).name == "b"


def test_where_none_fits_each_reason_is_told() -> None:
    with pytest.raises(FormatError) as caught:
        choose(by_preference(ROWS), processor("popcnt", "avx"))
    text = str(caught.value)
    assert caught.value.code == "F0112"
    for words in (
        "some (x86_64-linux)",
        "v4 needs avx2, avx512f, avx512vl, fma, sse4.2",
        "v3 needs avx2, fma, sse4.2",
        "v2 needs sse4.2",
        "arm is for aarch64-linux",
        "the processor has avx, popcnt",
    ):
        assert words in text, text


def test_a_system_that_tells_nothing_refuses_nothing_but_other_platforms() -> None:
    silent = Processor("aarch64-apple-darwin23", "apple-m1", "")
    assert silent.runs(needs("neon", platform="aarch64-darwin"))
    assert not silent.runs(needs("neon", platform="aarch64-linux"))
    assert silent.runs(Needs())


@pytest.mark.parametrize(
    ("triple", "platform"),
    [
        ("x86_64-unknown-linux-gnu", "x86_64-linux"),
        ("amd64-linux", "x86_64-linux"),
        ("arm64-apple-macosx14.0", "aarch64-darwin"),
        ("wasm32-unknown-unknown", "wasm32"),
        ("riscv64-unknown-linux-gnu", "riscv64-linux"),
    ],
)
def test_platforms_of_triples(triple: str, platform: str) -> None:
    assert platform_of(triple) == platform


# The file


def kernels(wanted: Needs, *objects: bytes) -> KernelModule:
    return KernelModule(objects, ["f"], "llvm -mcpu=some", needs=wanted)


BIG = random.Random(3).randbytes(70001)


def three() -> VariantsModule:
    """One that this machine cannot run, one that it can, one without wishes; the first two share bytes."""
    own = Needs(this_processor().platform)
    return VariantsModule(
        [
            Variant("plain", "llvm", own, kernels(own, b"plain", b"")),
            Variant("good", "llvm -mcpu=good", own, kernels(own, BIG, b"good")),
            Variant("far", "llvm -mcpu=far", needs("no-such"), kernels(needs("no-such"), b"far", BIG, BIG)),
        ]
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    three().export_library(tmp_path / "m.heddle")
    return tmp_path / "m.heddle"


def test_a_file_gives_each_variant_back(path: Path) -> None:
    made = three()
    assert made.names == ("far", "plain", "good")
    for variant in made.variants:
        loaded = load_module(path, variant=variant.name)
        assert isinstance(loaded, KernelModule) and isinstance(variant.module, KernelModule)
        assert loaded.variant == variant.name
        assert (loaded.objects, loaded.target, loaded.needs) == (
            variant.module.objects,
            variant.module.target,
            variant.module.needs,
        )
    assert load_module(path).variant == "plain"
    assert made.select() is made.select("plain") is made.variants[1].module


def test_equal_bytes_are_stored_once(path: Path) -> None:
    data = path.read_bytes()
    assert data.count(BIG) == 2  # twice in one variant: no file makes a reader hold more than its bytes
    rows = {info.name: info for info in variants_in(path)}
    assert [info.is_chosen for info in rows.values()] == [False, True, False]
    assert rows["far"].missing == (("no-such",) if this_processor().platform == LINUX else (LINUX,))
    assert rows["good"].size_bytes > len(BIG) > rows["good"].own_bytes
    assert rows["far"].own_bytes > len(BIG)
    assert variants_in(path)[1].target == "llvm"


def test_a_damaged_variant_is_refused_and_the_others_load(path: Path) -> None:
    image = bytearray(path.read_bytes())
    table = open_artefact(path)
    used = {info.name: sections_of(table, info) for info in read_variants(table)}
    image[used["good"]["0/object.1"].offset] ^= 1
    path.write_bytes(image)
    assert load_module(path).variant == "plain"
    assert load_module(path, variant="far").variant == "far"
    with pytest.raises(FormatError, match=r"F0104.*'part.\d+' at byte \d+ is damaged"):
        load_module(path, variant="good")
    with pytest.raises(FormatError, match="F0104"):
        read_artefact(path)


def test_a_damaged_table_is_refused_by_all(path: Path) -> None:
    image = bytearray(path.read_bytes())
    image[open_artefact(path)[VARIANTS].offset + 11] ^= 4
    path.write_bytes(image)
    for variant in (None, "plain", "far"):
        with pytest.raises(FormatError, match="F0104"):
            load_module(path, variant=variant)
    with pytest.raises(FormatError, match="F0104"):
        variants_in(path)


def test_every_flipped_byte_is_a_typed_error_or_another_variants(tmp_path: Path) -> None:
    made = three()
    small = [replace(each, module=kernels(each.needs, each.name.encode())) for each in made.variants]
    VariantsModule(small).export_library(tmp_path / "x")
    image, loads = (tmp_path / "x").read_bytes(), 0
    for at in range(len(image)):
        damaged = bytearray(image)
        damaged[at] ^= 1 << at % 8
        with pytest.raises(FormatError):
            parse_artefact(memoryview(bytes(damaged)))
        (tmp_path / "y").write_bytes(damaged)
        try:
            assert load_module(tmp_path / "y").objects == (b"plain",)
            loads += 1
        except FormatError:
            continue
    assert 0 < loads < len(image) / 4


def test_none_that_fits_and_none_of_a_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"(?s)U0508.*'goood'.*far, plain, good.*did you mean 'good'"):
        load_module(path, variant="goood")
    with pytest.raises(UsageError, match="U0508"):
        three().select("none")
    other = processor("neon", triple="riscv64-unknown-linux-gnu")
    monkeypatch.setattr(module_room, "this_processor", lambda: other)
    monkeypatch.setattr(variants_room, "this_processor", lambda: other)
    for load in (lambda: load_module(path), lambda: three().select(), lambda: three()["f"]):
        with pytest.raises(FormatError, match=r"(?s)F0112.*far is for .*plain is for .*good is for "):
            load()
    assert load_module(path, variant="far").variant == "far"
    assert not any(info.is_chosen for info in variants_in(path))


def test_a_file_with_one_program_has_no_variants(tmp_path: Path) -> None:
    kernels(Needs(), b"x").export_library(tmp_path / "one")
    assert variants_in(tmp_path / "one") == []
    assert load_module(tmp_path / "one").variant == ""
    with pytest.raises(UsageError, match=r"U0508.*there are none"):
        load_module(tmp_path / "one", variant="x")


@pytest.mark.parametrize("name", ["m.so", "m.SO"])
def test_a_library_has_no_variants(tmp_path: Path, name: str) -> None:
    try:
        kernels(Needs()).export_library(tmp_path / name)
    except UsageError as error:
        pytest.skip(str(error))
    assert (tmp_path / name).read_bytes()[:4] == b"\x7fELF" or not sys.platform.startswith("linux")
    assert variants_in(tmp_path / name) == []
    assert load_module(tmp_path / name).variant_target == ""


def test_a_variant_says_what_it_was_compiled_for(path: Path) -> None:
    assert load_module(path, variant="good").variant_target == "llvm -mcpu=good"


def test_a_module_of_variants_is_no_part_of_another(tmp_path: Path) -> None:
    outer = kernels(Needs())
    outer.import_module(three())
    with pytest.raises(UsageError, match=r"(?s)U0503.*far, plain, good.*select\('far'\)\)"):
        outer.export_library(tmp_path / "x")


def test_functions_that_are_missing_are_not_suggested() -> None:
    own = Needs(this_processor().platform)
    program = VMExecutable(Program(RELAX, (FunctionRow(FuncKind.VM, "main", 0, 0, 0, 0),), (), (), ()))
    several = VariantsModule([Variant("plain", "llvm", own, program)])
    for module in (program, several):
        assert "main" in module.function_names() and not module.implements_function("main")
        with pytest.raises(MissingNameError, match=r"(?s)U0501.*VirtualMachine\(.*\)\['main'\]") as caught:
            module["main"]
        assert "did you mean" not in str(caught.value)
        with pytest.raises(MissingNameError, match=r"(?s)no function 'mian'.*did you mean 'main'"):
            module["mian"]


@pytest.mark.parametrize("name", ["m.so", "m.a", "m.dylib", "m.SO"])
def test_a_library_of_several_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"(?s)U0509.*far, plain, good.*select\('far'\)"):
        three().export_library(tmp_path / name)
    with pytest.raises(UsageError, match="U0509"):
        three().export_library(tmp_path / "m.heddle", fcompile=lambda output, files: None)
    assert list(tmp_path.iterdir()) == []


def test_variants_have_names_of_their_own() -> None:
    one = three().variants[0]
    for variants in ([], [one, one]):
        with pytest.raises(UsageError, match="U0508"):
            VariantsModule(variants)


def test_code_of_another_processor_is_refused_before_it_runs() -> None:
    wanted = Needs(this_processor().platform, frozenset({"no-such", "sse2", "another"}))
    with pytest.raises(FormatError, match=r"(?s)F0111.*'llvm -mcpu=some'.*lacks: another.*no-such"):
        kernels(wanted, b"not even object code")["f"]


def test_code_of_another_platform_is_refused_by_its_name() -> None:
    here = this_processor().platform
    with pytest.raises(FormatError, match=rf"F0111.*'llvm -mcpu=some', are for no-such, and .*{here}"):
        kernels(Needs("no-such"), b"not even object code")["f"]


def test_code_without_a_system_is_for_each_of_its_machine() -> None:
    assert processor().is_for(Needs("x86_64")) and not processor().is_for(Needs("aarch64"))
    assert not processor().is_for(Needs("x86_64-darwin"))


# Tables that were made by hand


def table(*rows: tuple[str, list[tuple[str, int]]]) -> bytes:
    writer = Writer()
    writer.u64(len(rows))
    for name, parts in rows:
        writer.text(name)
        writer.text("llvm")
        write_needs(writer, Needs())
        writer.u64(len(parts))
        for own_name, number in parts:
            writer.text(own_name)
            writer.u64(number)
    return writer.bytes()


GOOD = [("modules", 0), ("0/kernels", 1)]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "holds no variant"),
        ([("a", GOOD), ("a", GOOD)], "one name"),
        ([("a", [*GOOD, ("x", 1)])], "a section or a part twice"),
        ([("a", [*GOOD, ("modules", 2)])], "a section or a part twice"),
        ([("a", [*GOOD, ("x", 3)])], "part of number 3: there are 3"),
        ([("a", [*GOOD, ("x", 1 << 63)])], "there are 3"),
        ([("a", GOOD)], "are not those of the file"),
        ([("a", [("0/kernels", 2)]), ("b", GOOD)], "no section 'modules'"),
    ],
)
def test_malformed_tables(rows: list[Any], words: str, tmp_path: Path) -> None:
    parts = {name: bytes(data) for name, data in written(kernels(Needs())).items()}
    write_artefact(tmp_path / "x", {VARIANTS: table(*rows), **parts, "part.2": b"rest"})
    with pytest.raises(FormatError, match=words):
        load_module(tmp_path / "x")


def written(module: KernelModule) -> dict[str, Any]:
    """The parts of a module that is the only variant."""
    sections = module_room.module_sections(module)
    made = variants_sections([(row("a", Needs()), sections)])
    made.pop(VARIANTS)
    assert list(made) == [part_name(number) for number in range(len(sections))]
    return made


def test_variants_do_not_lie_in_variants(tmp_path: Path) -> None:
    """What a variant calls `variants` is a section like any other."""
    parts = written(kernels(Needs()))
    inner = table(("a", GOOD))
    outer = table(("a", [*GOOD, (VARIANTS, 2)]))
    write_artefact(tmp_path / "x", {VARIANTS: outer, **parts, "part.2": inner})
    sections = open_artefact(tmp_path / "x")
    assert load_module(tmp_path / "x").variant == "a"
    assert variant_from_sections(sections, "a").kind == "llvm"
    with pytest.raises(FormatError, match="F0105"):
        modules_from_sections(sections)


def test_a_chain_of_variants_costs_no_more_than_the_file(tmp_path: Path) -> None:
    """Thousands of variants of the same bytes: only one of them is read."""
    module = kernels(Needs(LINUX, frozenset({"no-such"})), BIG)
    sections = module_room.module_sections(module)
    rows = [(row(f"v{number}", needs("no-such")), sections) for number in range(3000)]
    write_artefact(tmp_path / "x", variants_sections(rows))
    assert (tmp_path / "x").read_bytes().count(BIG) == 1
    assert load_module(tmp_path / "x", variant="v2999").variant == "v2999"
    with pytest.raises(FormatError) as caught:
        choose(read_variants(open_artefact(tmp_path / "x")), processor())
    assert "and 2992 more" in str(caught.value) and len(str(caught.value)) < 1500
