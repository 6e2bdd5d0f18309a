"""The page's script is what its sources in `web/` say, and knows the facts that the compiler gives."""

from __future__ import annotations

import json
import re
from dataclasses import fields, is_dataclass
from hashlib import sha256
from pathlib import Path

import pytest

from heddle.driver.page import facts

ROOT = Path(__file__).parents[3]
WEB = ROOT / "web"
BUNDLE = Path(facts.__file__).parent / "bundle"
OTHERS = ("build.mjs", "package.json", "package-lock.json", "tsconfig.json")


def digests(folder: Path, names: list[str]) -> dict[str, str]:
    return {name: sha256((folder / name).read_bytes()).hexdigest() for name in sorted(names)}


def test_the_bundle_is_of_these_sources() -> None:
    kept = json.loads((BUNDLE / "digests.json").read_text())
    sources = [*OTHERS, *(f"src/{path.name}" for path in (WEB / "src").iterdir())]
    assert kept["sources"] == digests(WEB, sources), "run `make web`"


def test_the_bundle_is_what_was_built() -> None:
    kept = json.loads((BUNDLE / "digests.json").read_text())
    names = [path.name for path in BUNDLE.iterdir() if path.name != "digests.json"]
    assert kept["built"] == digests(BUNDLE, names), "run `make web`"


def test_works_of_others_are_named() -> None:
    notice, packages = (ROOT / "NOTICE").read_text(), json.loads((WEB / "package.json").read_text())
    for name, version in packages["dependencies"].items():
        assert f"{name} {version}" in notice.replace("uPlot", "uplot")
    for name in re.findall(r"LICENSE-\w+\.\w+", notice):
        assert (BUNDLE / name).stat().st_size > 500


def interfaces() -> dict[str, list[str]]:
    """The fields of the interfaces of `facts.ts`, in order."""
    text = (WEB / "src" / "facts.ts").read_text()
    found = re.findall(r"export interface (\w+) \{(.*?)\}\n?(?=\n|export|$)", text, re.DOTALL)
    return {name: re.findall(r"(\w+): ", body) for name, body in found}


@pytest.mark.parametrize(
    "name", [name for name, value in vars(facts).items() if is_dataclass(value) and isinstance(value, type)]
)
def test_script_and_compiler_mean_the_same_facts(name: str) -> None:
    assert interfaces()[name] == [each.name for each in fields(getattr(facts, name))]


def test_the_version_is_the_same() -> None:
    text = (WEB / "src" / "facts.ts").read_text()
    assert f"VERSION = {facts.VERSION};" in text
