"""Builds the documentation site: `python -m tools.site [FOLDER]`, by default `build/site`.

The pages of docs/, those beside the README, one page for each public module, and diagrams.
Sphinx with warnings as errors: a link that leads nowhere ends it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.site import api, diagrams

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"`[^`]*`(?!\])|\[([^\]\[]*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^(```|~~~)")
_PARTS: dict[str, Sequence[str]] = {
    "Start": (
        "readme",
        "first-hour",
        "tour",
        "pytorch",
        "serving",
        "debugging",
        "inspect-html",
        "jit",
        "precision",
    ),
    "Guides": tuple(
        f"guides/{name}"
        for name in ("deploying", "dynamic-shapes", "memory", "extending", "from-tvm", "from-onnx-runtime")
    ),
    "Machines": ("vm", "relay", "kv_cache", "isa-relax", "isa-relay"),
    "Inside": ("architecture", "diagrams", "systems", "semantics", "schedule", "passes", "ops", "glossary"),
    "Reference": (
        "onnx-support",
        "quantization",
        "c-target",
        "settings",
        "limits",
        "diagnostics",
        "threat-model",
    ),
    "Project": ("contributing", "security", "changelog"),
}
_OWN = {f"{name.upper()}.md": name for name in ("readme", "contributing", "security", "changelog")}


def _copied(text: str, page: Path, pages: dict[Path, str], at: str) -> str:
    """The text of a page with links to other pages as they lie in the site; names of files stay as text."""

    def linked(match: re.Match[str]) -> str:
        words, target = match.groups()
        if target is None or re.match(r"[a-z]+:", target) or target.startswith("#"):
            return match.group(0)
        path, _, anchor = target.partition("#")
        meant = (page.parent / path).resolve()
        if meant in pages:
            up = "../" * at.count("/")
            return f"[{words}]({up}{pages[meant]}.md{'#' + anchor if anchor else ''})"
        if not meant.exists():
            raise SystemExit(f"{page.relative_to(ROOT)} links to {target}, which is not there")
        return words if words.startswith("`") else f"{words} (`{meant.relative_to(ROOT)}`)"

    lines, is_code = [], False
    for line in text.split("\n"):
        is_code ^= bool(_FENCE.match(line.lstrip()))
        lines.append(line if is_code else _LINK.sub(linked, line))
    return "\n".join(lines)


def write_sources(folder: Path) -> None:
    """All that Sphinx reads. The folder is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    docs = ROOT / "docs"
    pages = {path.resolve(): str(path.relative_to(docs).with_suffix("")) for path in docs.rglob("*.md")}
    pages |= {(ROOT / name).resolve(): own for name, own in _OWN.items()}
    for path, name in pages.items():
        target = folder / f"{name}.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_copied(path.read_text(), path, pages, name))
    for picture in (path for path in docs.rglob("*") if path.suffix in (".png", ".svg")):
        target = folder / picture.relative_to(docs)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, target)
    names = api.modules()
    (folder / "api").mkdir()
    for name in names:
        (folder / "api" / f"{name}.md").write_text(api.page(name))
    (folder / "diagrams.md").write_text(_diagrams_page())
    records = sorted(name for name in pages.values() if name.startswith("adr/"))
    (folder / "index.md").write_text(_index(sorted(set(pages.values()) - set(records)), names, records))
    shutil.copyfile(Path(__file__).with_name("conf.py"), folder / "conf.py")


def _diagrams_page() -> str:
    lines = ["# Diagrams", ""]
    for diagram in (diagrams.house(ROOT), *diagrams.FIXED.values()):
        lines += [f"## {diagram.title}", "", "```{raw} html", diagrams.svg(diagram), "```", ""]
    return "\n".join(lines)


def _index(pages: Sequence[str], modules: Sequence[str], records: Sequence[str]) -> str:
    listed = {name for part in _PARTS.values() for name in part}
    missing, unknown = {*pages, "diagrams"} - listed, listed - {*pages, "diagrams"}
    if missing or unknown:
        raise SystemExit(
            f"pages that no part names: {sorted(missing)}; names without a page: {sorted(unknown)}"
        )
    lines = ["# Heddle", "", "A compiler and virtual machine for machine-learning models.", ""]
    trees = {
        **_PARTS,
        "API": [f"api/{name}" for name in modules],
        "Decisions": list(records),
    }
    for title, names in trees.items():
        lines += ["```{toctree}", ":maxdepth: 1", f":caption: {title}", "", *names, "```", ""]
    return "\n".join(lines)


def build(folder: Path) -> Path:
    """Write the sources and build the site. Raises: CalledProcessError where Sphinx warns."""
    source, made = folder / "source", folder / "html"
    write_sources(source)
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-b",
        "html",
        str(source),
        str(made),
    ]
    subprocess.run(command, check=True)
    return made / "index.html"


if __name__ == "__main__":
    print(build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"))
