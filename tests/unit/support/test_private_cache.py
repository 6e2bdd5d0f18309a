"""The folder of machine code: nobody else puts anything there, and no crash leaves anything wrong."""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from heddle.support import private_cache
from heddle.support.diagnostics import HeddleWarning, UsageError
from heddle.support.parts import Part
from heddle.support.private_cache import KEY_NAME, PAGE_BYTES, SIZE_NAME, PrivateCache
from heddle.support.settings import read_settings

MODES = {"group": 0o770, "others": 0o707, "all": 0o777}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "a" / "cache"


def fresh(folder: Path, limit_bytes: int = 1 << 20) -> PrivateCache:
    return PrivateCache(folder, limit_bytes)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_what_is_written_is_read_by_another_process(folder: Path) -> None:
    fresh(folder).write("k", b"code")
    assert fresh(folder).read("k") == b"code"
    assert fresh(folder).read("other") is None


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o077])
def test_nobody_else_may_write_or_read_whatever_the_mask_is(folder: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        fresh(folder).write("k", b"code")
    finally:
        os.umask(before)
    assert [mode_of(path) for path in (folder.parent, folder)] == [0o700, 0o700]
    assert {path.name: mode_of(path) for path in folder.iterdir()} == dict.fromkeys(
        ("k", KEY_NAME, SIZE_NAME), 0o600
    )


@pytest.mark.parametrize("which", MODES)
@pytest.mark.parametrize("place", ["folder", "parent"])
def test_a_folder_that_others_write_is_off_with_one_note(folder: Path, which: str, place: str) -> None:
    fresh(folder).write("k", b"code")
    (folder if place == "folder" else folder.parent).chmod(MODES[which])
    cache = fresh(folder)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert cache.read("k") is None
        cache.write("k", b"other")
        assert cache.files() == []
    assert [warning.category for warning in seen] == [HeddleWarning]
    assert "warning[S0501]" in str(seen[0].message)
    assert "others can write" in str(seen[0].message)
    assert "the cache is off" in str(seen[0].message)
    with pytest.raises(UsageError, match="S0501"):
        cache.check()


def test_a_sticky_parent_will_do(folder: Path) -> None:
    folder.parent.mkdir()
    folder.parent.chmod(0o1777)
    fresh(folder).write("k", b"code")
    assert fresh(folder).read("k") == b"code"


def test_a_link_in_the_folder_s_place_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.parent.mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.warns(HeddleWarning, match="it is a link"):
        fresh(folder).write("k", b"code")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("what", ["folder", "parent", "file"])
def test_another_owner_is_refused(folder: Path, what: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("giving files away needs root")
    fresh(folder).write("k", b"code")
    os.chown({"folder": folder, "parent": folder.parent, "file": folder / "k"}[what], 12345, -1)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert fresh(folder).read("k") is None
    assert len(seen) == (0 if what == "file" else 1)


def replaced_by_link(path: Path) -> None:
    moved = path.rename(path.parent.parent / "moved")
    path.symlink_to(moved)


def replaced_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replaced_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Any] = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "cut in the head": lambda path: path.write_bytes(path.read_bytes()[:20]),
    "empty": lambda path: path.write_bytes(b""),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "one bit": lambda path: path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1])),
    "writable by others": lambda path: path.chmod(0o666),
    "a link": replaced_by_link,
    "a pipe": replaced_by_pipe,
    "a folder": replaced_by_folder,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_is_not_ours_is_no_file(folder: Path, damage: str) -> None:
    fresh(folder).write("k", b"code")
    DAMAGES[damage](folder / "k")
    assert fresh(folder).read("k") is None
    assert fresh(folder).unusable() == ([] if damage == "a folder" else ["k"])
    if damage != "a folder":
        fresh(folder).write("k", b"again")
        assert fresh(folder).read("k") == b"again"


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name != "a folder"])
def test_a_key_that_is_not_ours_is_made_anew(folder: Path, damage: str) -> None:
    fresh(folder).write("k", b"code")
    DAMAGES[damage](folder / KEY_NAME)
    cache = fresh(folder)
    assert damage in ("one bit",) or cache.read("k") is None
    cache.write("k", b"again")
    assert fresh(folder).read("k") == b"again"
    assert mode_of(folder / KEY_NAME) == 0o600


def test_files_of_another_key_or_name_are_not_believed(folder: Path, tmp_path: Path) -> None:
    fresh(folder).write("k", b"code")
    fresh(folder).write("l", b"other")
    other = tmp_path / "other"
    fresh(other).write("k", b"evil")
    (folder / "l").write_bytes((folder / "k").read_bytes())
    assert fresh(folder).read("l") is None
    (folder / "k").write_bytes((other / "k").read_bytes())
    assert fresh(folder).read("k") is None


def test_least_recently_used_files_go(folder: Path) -> None:
    """Each file counts as whole pages, whoever wrote it."""
    limit = 10 * PAGE_BYTES
    for number in range(8):
        fresh(folder, limit).write(f"k{number}", bytes(1000))
        os.utime(folder / f"k{number}", (number, number))
    assert fresh(folder, limit).read("k0") is not None  # used now
    fresh(folder, limit).write("k8", bytes(2 * PAGE_BYTES))
    assert {file.name for file in fresh(folder).files()} == {"k0", "k8", "k7", "k6", "k5", "k4", "k3"}


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The names that the cache asks about, where 8 files are a sample."""
    asked: list[Any] = []
    ask = os.stat

    def noted(path: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("dir_fd") is not None:
            asked.append(path)
        return ask(path, *args, **kwargs)

    monkeypatch.setattr(private_cache, "_SAMPLE", 8)
    monkeypatch.setattr(os, "stat", noted)
    return asked


def test_of_many_files_a_sample_is_looked_at_when_some_must_go(folder: Path, looked_at: list[Any]) -> None:
    """It took minutes to remove a tenth of 300,000 files at once on a slow disk."""
    limit, count = 200 * PAGE_BYTES, 200
    for number in range(count):
        fresh(folder, limit).write(f"k{number}", b"x")
        os.utime(folder / f"k{number}", (number, number))
    looked_at.clear()
    for number in range(count, count + 30):
        fresh(folder, limit).write(f"k{number}", b"x")
        os.utime(folder / f"k{number}", (number, number))
        names = {path.name for path in folder.glob("k[0-9]*")}
        assert len(names) <= count and f"k{number}" in names
        assert (folder / "size").stat().st_size == len(names)
    assert 0 < len(looked_at) <= 8 * 30
    assert all(f"k{number}" in names for number in range(count - 1, count + 30))


def test_a_size_that_is_wrong_by_far_is_counted_anew(folder: Path, looked_at: list[Any]) -> None:
    """Files that somebody removed, or wrote again, do not make others go."""
    limit = 200 * PAGE_BYTES
    for number in range(40):
        fresh(folder, limit).write(f"k{number}", b"x")
    os.truncate(folder / "size", 1000)
    fresh(folder, limit).write("k40", b"x")
    assert len(list(folder.glob("k[0-9]*"))) == (folder / "size").stat().st_size == 41


def test_a_large_file_takes_the_place_of_many_small_ones(folder: Path, looked_at: list[Any]) -> None:
    limit = 200 * PAGE_BYTES
    for number in range(200):
        fresh(folder, limit).write(f"k{number}", b"x")
    fresh(folder, limit).write("large", bytes(100 * PAGE_BYTES))
    files = fresh(folder, limit).files()
    assert sum(file.room_bytes for file in files) <= limit and files[0].name == "large"
    assert (folder / "size").stat().st_size * PAGE_BYTES == sum(file.room_bytes for file in files)


def _is_too_large(size: Path) -> None:
    os.truncate(size, 1 << 40)


def _is_empty(size: Path) -> None:
    os.truncate(size, 0)


def _is_missing(size: Path) -> None:
    size.unlink()


def _is_a_pipe(size: Path) -> None:
    size.unlink()
    os.mkfifo(size)


def _is_a_link(size: Path) -> None:
    size.rename(size.parent / "aside")
    size.symlink_to(size.parent / "aside")


@pytest.mark.parametrize("damage", [_is_too_large, _is_empty, _is_missing, _is_a_pipe, _is_a_link])
def test_parts_that_a_dead_process_left_go(folder: Path, damage: Callable[[Path], None]) -> None:
    """When the folder is full, and when nobody knows how full it is."""
    fresh(folder).write("k", b"code")
    dead = folder / f".k.{0:016x}.part"
    dead.write_bytes(b"x")
    with Part(folder / "k") as living:
        damage(folder / "size")
        fresh(folder).write("l", b"code")
        assert not dead.exists()
        assert len(list(folder.glob(".k.*.part"))) == 1
        living.write(b"x")
    assert list(folder.glob(".*")) == []


def test_clearing_takes_files_parts_and_key(folder: Path) -> None:
    cache = fresh(folder)
    cache.write("k", b"code")
    (folder / f".k.{0:016x}.part").write_bytes(b"x")
    assert cache.clear() == 1
    assert list(folder.iterdir()) == []
    cache.write("k", b"code")
    assert fresh(folder).read("k") == b"code"


CALLS = (
    "open",
    "write",
    "fchmod",
    "stat",
    "link",
    "replace",
    "unlink",
    "close",
    "utime",
    "mkdir",
    "ftruncate",
)


def _dies_at(folder: Path, call: str, count: int) -> None:
    """A process that ends inside its `count`-th call of a function of the system's."""
    real, seen = getattr(os, call), [0]

    def counted(*args: Any, **kwargs: Any) -> Any:
        seen[0] += 1
        if seen[0] == count:
            os._exit(9)
        return real(*args, **kwargs)

    setattr(private_cache.os, call, counted)
    cache = fresh(folder, 2 * PAGE_BYTES)
    for name in ("a", "b", "c"):
        cache.write(name, name.encode() * 1000)
        cache.read("a")
    os._exit(0)


@pytest.mark.parametrize("call", CALLS)
def test_a_process_that_is_killed_leaves_nothing_wrong(folder: Path, call: str) -> None:
    context = get_context("fork")
    count, ended = 0, 9
    while ended == 9:
        count += 1
        process = context.Process(target=_dies_at, args=(folder, call, count))
        process.start()
        process.join()
        ended = process.exitcode or 0
        cache = fresh(folder)
        for file in cache.files():
            assert cache.read(file.name) == file.name.encode() * 1000
        assert cache.unusable() == []
        cache.write("mine", b"mine" * 1000)
        assert fresh(folder).read("mine") == b"mine" * 1000
        cache.clear()
    assert ended == 0
    assert count > 1


def _writes(folder: Path, number: int) -> None:
    cache = fresh(folder, 20_000)
    for turn in range(50):
        name = f"k{(number + turn) % 7}"
        cache.write(name, name.encode() * 1000)
        found = fresh(folder, 20_000).read(f"k{turn % 7}")
        if found not in (None, f"k{turn % 7}".encode() * 1000):
            os._exit(1)
    os._exit(0)


def test_processes_share_a_folder(folder: Path) -> None:
    context = get_context("fork")
    processes = [context.Process(target=_writes, args=(folder, number)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0, 0]
    assert fresh(folder).unusable() == []
    assert fresh(folder).read("k0") in (None, b"k0" * 1000)


ENVIRONMENTS: dict[str, tuple[dict[str, str], str]] = {
    "named": ({"HEDDLE_CACHE_DIR": "/x", "HOME": "/h"}, "/x"),
    "by the desktop's rule": ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/heddle"),
    "a relative rule does not count": ({"XDG_CACHE_HOME": "x", "HOME": "/h"}, "/h/.cache/heddle"),
    "at home": ({"HOME": "/h"}, "/h/.cache/heddle"),
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_where_it_is(name: str) -> None:
    env, expected = ENVIRONMENTS[name]
    assert read_settings(env).cache_dir == Path(expected)


def test_without_a_home_each_user_has_a_folder() -> None:
    folder = read_settings({}).cache_dir
    assert folder.name == f"heddle-cache-{os.geteuid()}"


@pytest.mark.parametrize(
    ("text", "size"), [("", 2 << 30), ("1000", 1000), ("5M", 5 << 20), ("2GiB", 2 << 31 >> 1)]
)
def test_its_size(text: str, size: int) -> None:
    assert read_settings({"HEDDLE_CACHE_SIZE": text}).cache_limit_bytes == size


@pytest.mark.parametrize("text", ["x", "-1", "1.5G", "1 0", "²"])
def test_a_bad_size_is_named(text: str) -> None:
    with pytest.raises(UsageError, match=r"S0301.*HEDDLE_CACHE_SIZE"):
        read_settings({"HEDDLE_CACHE_SIZE": text})


def test_a_folder_that_is_not_full_is_not_listed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listing it takes seconds where it has some 100,000 files, and each process would."""
    fresh(folder).write("first", b"x")

    def forbidden(path: Any) -> Any:
        raise AssertionError("listed")

    monkeypatch.setattr(os, "scandir", forbidden)
    monkeypatch.setattr(os, "listdir", forbidden)
    for number in range(20):
        fresh(folder).write(f"more{number}", bytes(number * 1000))
        assert fresh(folder).read(f"more{number}") is not None
    monkeypatch.undo()
    pages = sum(-(-file.size_bytes // PAGE_BYTES) for file in fresh(folder).files())
    assert (folder / "size").stat().st_size == pages


def test_a_seal_covers_pieces_as_they_were_and_those_that_last_as_they_are(folder: Path) -> None:
    """A chunk of both kinds is read at once."""
    chunk = private_cache._CHUNK_BYTES
    given, lasting = bytearray(b"g" * 100), bytearray(2 * chunk)

    def sealed(name: str) -> Callable[[], None]:
        put = fresh(folder, 1 << 30).sealed(
            name, memoryview(given), memoryview(lasting), is_lasting=lambda part: part.obj is lasting
        )
        assert put is not None
        return put

    put = sealed("same")
    lasting[-1] = 1  # it should not be, but tells what is read when
    put()
    assert fresh(folder, 1 << 30).read("same") == bytes(given + lasting)
    for name, changed in (("given", given), ("near", lasting)):
        put = sealed(name)
        changed[0] ^= 1
        put()
        assert fresh(folder, 1 << 30).read(name) is None
