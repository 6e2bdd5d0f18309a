"""The house's rules, checked on the source tree."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from heddle.support.distribution import DISTRIBUTION
from tests.arch.tree import ROOT, SOURCE, SourceFile, functions, source_files

pytestmark = pytest.mark.whole("a change of any file may break a rule")

MAX_FILE_LINES = 800
LONG_FILE_LINES = 450
"""From here on the module's docstring says why, in a line `Over 450 lines: ...`."""
MAX_FUNCTION_LINES = 80
HIDDEN_IMPORTS_IN = ("driver", "facade", "__main__.py")
OPTIONAL = (
    *("onnx", "onnxruntime", "torch", "typer", "rich", "pytest", "ziglang", "cryptography", "PIL", "textual"),
    *("pygments", "black"),
)
"""Packages of extras: they may be imported where they are needed."""
RARELY_NEEDED = ("difflib", "html", "shutil", "tempfile")
"""Modules of the standard library that take time and memory to load, and that few processes need. They may be
imported where they are needed, too: `import heddle` shall cost no more than what everybody needs."""
BANNED_NAMES = ("utils.py", "misc.py", "common.py", "helpers.py")
BROAD_EXCEPTS = {
    "ir/transform.py": 1,
    "driver/bisect/case.py": 1,
    "driver/cli/guard.py": 1,
    "driver/jit/background.py": 2,
    "driver/jit/worker.py": 1,
    "driver/session/batching.py": 1,
    "frontend/torch_export.py": 1,
    "lower/default_schedule.py": 1,
    "support/on_threads.py": 1,
    "vm/builtins/images.py": 1,
}
"""Where a bug becomes a report: the pass runner, bisecting, the command line, schedule rules, which give
way, and requests of other threads and processes, whose callers get the error. And where Pillow fails on
damaged files, and PyTorch's exporters on models, which they do in as many ways as there are formats and
models."""


def _found(rule: Iterator[str]) -> str:
    return "\n".join(rule)


def test_rooms_import_only_rooms_above_them() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    if not program.exists():
        program = Path(shutil.which("lint-imports") or "")
    if not program.is_file():
        pytest.skip("import-linter is not installed (extra dev)")
    done = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def _compared_dialects(tree: ast.Module) -> Iterator[int]:
    """Lines that compare a dialect's name with a text."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Compare)
            and isinstance(node.left, ast.Attribute)
            and node.left.attr == "dialect"
        ):
            if any(isinstance(other, ast.Constant) for other in node.comparators):
                yield node.lineno


def test_passes_state_their_dialects_once() -> None:
    """`lower/` and `driver/` ask `Pass.functions`, `lower/normal_form.py` and `is_relay`."""
    found = {
        f"{file.name}:{line}"
        for file in source_files()
        if file.room in ("lower", "driver", "codegen")
        for line in _compared_dialects(file.tree)
    }
    assert not found
    assert list(_compared_dialects(ast.parse("a.dialect == 'relax'\nb.dialect == c\n"))) == [1]


def _long_files() -> Iterator[str]:
    for file in source_files():
        count = file.text.count("\n")
        says_why = "\nOver 450 lines: " in (ast.get_docstring(file.tree) or "")
        if count > MAX_FILE_LINES:
            yield f"{file.name}: {count} lines"
        elif says_why != (count > LONG_FILE_LINES):
            yield f"{file.name}: {count} lines" + (
                ", and says why it is over 450" if says_why else " without a reason"
            )


def test_files_are_short() -> None:
    assert not _found(_long_files())


def _long_functions() -> Iterator[str]:
    for file in source_files():
        for func in functions(file.tree):
            count = (func.end_lineno or func.lineno) - func.lineno + 1
            if count > MAX_FUNCTION_LINES and not _is_table(func):
                yield f"{file.name}:{func.lineno} {func.name}: {count} lines"


def _is_table(func: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Declarations one after the other, which are read like a table."""
    kinds = (ast.Expr, ast.Assign, ast.AnnAssign)
    return "declare" in func.name and all(isinstance(statement, kinds) for statement in func.body)


def test_functions_are_short() -> None:
    assert not _found(_long_functions())


def _hidden_imports() -> Iterator[str]:
    for file in source_files():
        if file.room in HIDDEN_IMPORTS_IN:
            continue
        for func in functions(file.tree):
            for node in ast.walk(func):
                for name in _imported(node):
                    if name.split(".")[0] not in (*OPTIONAL, *RARELY_NEEDED):
                        yield f"{file.name}:{node.lineno} imports {name} inside {func.name}"  # type: ignore[attr-defined]


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or "."] if isinstance(node, ast.ImportFrom) else []


def test_imports_stand_at_the_top() -> None:
    assert not _found(_hidden_imports())


def imports_without_reason(text: str, tree: ast.Module) -> Iterator[int]:
    """Lines of imports inside functions that no comment gives a reason for: on the line, or on the first of
    the lines of imports that it belongs to."""
    lines = text.split("\n")
    inside = {node.lineno: node for func in functions(tree) for node in ast.walk(func) if _imported(node)}
    last_line, has_reason = -1, False
    for number, node in sorted(inside.items()):
        end = node.end_lineno or number
        own = any("#" in line for line in lines[number - 1 : end])
        has_reason = own or (has_reason and number == last_line + 1)
        last_line = end
        if not has_reason:
            yield number


def test_imports_inside_functions_have_a_reason() -> None:
    found = [
        f"{file.name}:{line}"
        for file in source_files()
        for line in imports_without_reason(file.text, file.tree)
    ]
    assert found == [], "say in a comment on the line why it does not stand at the top"
    text = "def f():\n    import a  # b\n    import c\n\n    import d\n"
    assert list(imports_without_reason(text, ast.parse(text))) == [5]


def _busy_inits() -> Iterator[str]:
    for file in source_files():
        if not file.name.endswith("__init__.py") or file.name == "__init__.py":
            continue
        for node in file.tree.body:
            if not _belongs_in_facade(node):
                yield f"{file.name}:{node.lineno} {type(node).__name__}"


def _belongs_in_facade(node: ast.stmt) -> bool:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return True
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)
    return False


def test_inits_are_facades() -> None:
    assert not _found(_busy_inits())


def test_no_catch_all_file_names() -> None:
    assert not [file.name for file in source_files() if file.name.rpartition("/")[2] in BANNED_NAMES]


def _broad_excepts() -> Iterator[str]:
    for file in source_files():
        allowed = BROAD_EXCEPTS.get(file.name, 0)
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ExceptHandler) and _is_broad(node):
                allowed -= 1
                if allowed < 0:
                    yield f"{file.name}:{node.lineno}"


def _is_broad(node: ast.ExceptHandler) -> bool:
    return node.type is None or ast.unparse(node.type) in ("Exception", "BaseException")


def test_no_broad_excepts() -> None:
    assert not _found(_broad_excepts())


EVALUATED = {"support/frozen.py": "compiles __init__ from the names of fields, as dataclasses does"}


def _unsafe_calls() -> Iterator[str]:
    for file in source_files():
        if file.name in EVALUATED:
            continue
        for node in ast.walk(file.tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("eval", "exec")
            ):
                yield f"{file.name}:{node.lineno} {node.func.id}"
            for name in _imported(node):
                if name.split(".")[0] in ("pickle", "marshal", "shelve"):
                    yield f"{file.name}:{node.lineno} imports {name}"  # type: ignore[attr-defined]


def test_nothing_is_evaluated_or_unpickled() -> None:
    assert not _found(_unsafe_calls())


def test_llvm_ir_is_written_as_text() -> None:
    """Nothing of ours imports llvmlite's IR builder (llvmlite.binding does so itself)."""
    names = [name for file in source_files() for node in ast.walk(file.tree) for name in _imported(node)]
    assert not [name for name in names if name.startswith("llvmlite.ir")]


WRITERS = {
    "support/parts.py": "the writer itself",
    "support/private_cache.py": "a count of pages, to which processes append; the loss of it costs a listing",
    "driver/cli/entry.py": "standard streams that the process was started without",
    "driver/cli/guard.py": "standard output whose reader has gone",
    "codegen/llvm/object_code.py": "the pipe of a worker's answers",
    "codegen/c_source.py": "a temporary folder, for a compiler",
    "runtime/shared_library.py": "a temporary folder, for a linker",
}
"""Files of ours that may open another for writing; all others go through `heddle.support.files`."""
_WRITING_CALLS = (
    "write_text",
    "write_bytes",
    "tofile",
    "savez",
    "savez_compressed",
    "savetxt",
    "mkstemp",
    "NamedTemporaryFile",
    "copyfile",
    "copy2",
    "copyfileobj",
    "rename",
    "renames",
    "symlink",
    "symlink_to",
)


def _writes(tree: ast.Module) -> Iterator[int]:
    """Lines that write a file otherwise than by `heddle.support.files`."""
    ours = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "heddle.support.files"
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND"):
            yield node.lineno
        if isinstance(node, ast.Call) and _is_writing_call(node, ours):
            yield node.lineno


def _is_writing_call(node: ast.Call, ours: set[str]) -> bool:
    func = node.func
    name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
    if name in _WRITING_CALLS:
        return not (isinstance(func, ast.Name) and name in ours)
    if isinstance(func, ast.Attribute) and ast.unparse(func) in ("os.replace", "os.link", "shutil.move"):
        return True
    if name not in ("open", "fdopen"):
        return False
    modes = [arg.value for arg in (*node.args, *(key.value for key in node.keywords)) if _is_mode(arg)]  # type: ignore[attr-defined]
    return any(set("wax+") & set(mode) for mode in modes)


def _is_mode(node: ast.AST) -> bool:
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_text and re.fullmatch(r"[rwaxbt+]{1,4}", node.value) is not None  # type: ignore[attr-defined]


def test_files_are_written_in_one_way() -> None:
    """`support/files.py` writes by parts; that its own descriptors are writable, it may say."""
    writers = {file.name for file in source_files() if any(_writes(file.tree))}
    assert writers == {*WRITERS, "support/files.py"}


@pytest.mark.parametrize(
    "text",
    [
        "open(path, 'w')",
        "path.open(mode='ab')",
        "os.fdopen(os.open(path, os.O_RDONLY), 'r+b')",
        "path.write_text(text)",
        "os.open(path, os.O_CREAT)",
        "os.replace(a, b)",
        "from elsewhere import write_bytes\nwrite_bytes(path, b'')",
        "np.savez(path, x)",
    ],
)
def test_other_ways_are_found(text: str) -> None:
    assert list(_writes(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    ["open(path)", "path.open('rb')", "from heddle.support.files import write_bytes\nwrite_bytes(path, b'')"],
)
def test_reading_is_no_writing(text: str) -> None:
    assert not list(_writes(ast.parse(text)))


def _names_left_in_braces() -> Iterator[str]:
    for file in source_files():
        for node in ast.walk(file.tree):
            for part in node.values if isinstance(node, ast.JoinedStr) else ():
                if isinstance(part, ast.Constant) and re.search(r"(?<!\{)\{[a-z_][\w.]*\}(?!\})", part.value):
                    yield f"{file.name}:{part.lineno} {part.value!r}"


def test_each_line_of_a_message_is_filled_in() -> None:
    """Of strings that are joined, each with a name in braces is an f-string."""
    assert not _found(_names_left_in_braces())


ENVIRONMENT_READERS = ("support/settings.py",)


def _environment_reads(file: SourceFile) -> list[str]:
    return re.findall(r"\bos\.(?:environ|getenv)\b", file.text)


def test_environment_is_read_in_one_place() -> None:
    readers = [file.name for file in source_files() if _environment_reads(file)]
    assert sorted(readers) == sorted(ENVIRONMENT_READERS)


def test_the_distributions_name_is_said_once() -> None:
    """Under another name pip would install somebody else's package."""
    project = (ROOT / "pyproject.toml").read_text()
    assert f'\nname = "{DISTRIBUTION}"\n' in project
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    wrong = re.compile(r"pip install '?heddle\b(?!-)|\bheddle\[")
    assert not [str(page) for page in pages if wrong.search(page.read_text())]


def test_native_sources_are_packaged() -> None:
    """Everything below src/heddle goes into the wheel; so what is not Python must be meant to."""
    bundle = SOURCE / "driver" / "page" / "bundle"  # its files are listed in digests.json
    other = {
        path.suffix
        for path in SOURCE.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc") and path.parent != bundle
    }
    assert other <= {".ll", ".h", ".rly", ".typed"}


_CLOCKS = ("time.time", "time.perf_counter", "time.monotonic", "time.process_time")


def _time_limits(text: str) -> list[int]:
    """Lines of a test that fail on a slow machine: a deadline of hypothesis, an assertion on a clock."""
    lines = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.keyword) and node.arg == "deadline" and ast.unparse(node.value) != "None":
            lines.append(node.value.lineno)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines += _asserted_times(node)
    return lines


def _asserted_times(func: ast.FunctionDef | ast.AsyncFunctionDef) -> list[int]:
    """Assertions on a clock, or on a variable of the function that was computed from one."""
    known: set[str] = set()

    def is_time(node: ast.AST) -> bool:
        return any(
            (isinstance(part, ast.Call) and ast.unparse(part.func) in _CLOCKS)
            or (isinstance(part, ast.Name) and part.id in known)
            for part in ast.walk(node)
        )

    statements = sorted((n for n in ast.walk(func) if isinstance(n, ast.stmt)), key=lambda n: n.lineno)
    for node in statements:
        if isinstance(node, ast.Assign) and is_time(node.value):
            known |= {name.id for t in node.targets for name in ast.walk(t) if isinstance(name, ast.Name)}
    return [node.lineno for node in statements if isinstance(node, ast.Assert) and is_time(node.test)]


def test_no_test_depends_on_the_machines_speed() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line in _time_limits(path.read_text())
    ]
    assert not found


@pytest.mark.parametrize(
    "text",
    [
        "@settings(deadline=200)\ndef test(): pass",
        "def test():\n    assert time.monotonic() - x < 3",
        "def test():\n    a = time.perf_counter()\n    b = time.perf_counter() - a\n    assert b < 3",
    ],
)
def test_time_limits_are_found(text: str) -> None:
    assert _time_limits(text)
