"""Faults of the system at every call: `python -m tests.fuzz.faults [--most N] [NAME ...]`.

A scenario does one thing that Heddle does with files. For every number n a child does it, and the n-th call
of the system that changes files (or reads them) meets a fault: the process is killed, or the call fails, or
it does less than it was asked for. Afterwards there is what was there before or what should be there, whole;
an error is coded and nobody's but the system's; the next one who does it succeeds and leaves no parts.
"""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save_model

import heddle
from heddle.codegen.cache import KernelCache
from heddle.driver.cli.guard import guarded
from heddle.driver.compile import build
from heddle.driver.debug import write_json
from heddle.frontend.onnx import from_onnx
from heddle.runtime import cpu
from heddle.runtime.module import load_module
from heddle.runtime.signature import make_keys, sign_file, verify_file
from heddle.runtime.tensor_cache import dump_tensor_cache, load_tensor_cache
from heddle.script import from_source
from heddle.support.private_cache import KEY_NAME, PAGE_BYTES, PrivateCache
from heddle.vm.relax import VirtualMachine
from tests.fuzz.interposed import Action, Calls, Ended, Fault, Interposer, is_interposed, numbers, start

CHANGES = Calls.WRITES | Calls.NAMES
WRITE_FAULTS = (
    Fault(CHANGES | Calls.REMOVALS, Action.KILL),
    *(Fault(CHANGES, Action.FAIL, code) for code in (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR)),
    *(Fault(CHANGES, Action.FAIL_ON, code) for code in (errno.ENOSPC, errno.EROFS)),
    Fault(Calls.REMOVALS, Action.FAIL, errno.EIO),
    Fault(Calls.WRITES, Action.SHORT),
)
READ_FAULTS = (
    *(Fault(Calls.READS, Action.FAIL, code) for code in (errno.EIO, errno.EINTR, errno.EMFILE)),
    Fault(Calls.READS, Action.FAIL_ON, errno.EIO),
    Fault(Calls.READS, Action.SHORT),
    Fault(Calls.READS, Action.END),
)
_SOURCE = """
@R.function
def main(x: R.Tensor(("n", 8), "float32")):
    return R.add(R.exp(x), R.const({addend}, "float32"))
"""
_X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)


@dataclass(frozen=True)
class Scenario:
    """`prepare` makes the old state of an empty folder, `act` the new one; `check` raises where there is
    neither. `faults` are those that it is tried with."""

    name: str
    prepare: Callable[[Path], object]
    act: Callable[[Path], object]
    check: Callable[[Path], object]
    faults: tuple[Fault, ...]


def _executable(addend: float) -> Any:
    mod = heddle.IRModule({"main": from_source(_SOURCE.format(addend=addend))})
    return build(mod, "llvm", cache=KernelCache(None))


@cache
def _executables() -> tuple[Any, Any]:
    return _executable(1.0), _executable(2.0)


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not any(part.endswith(".part") for part in path.relative_to(folder).parts)
    }


def _parts(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*.part")]


def _same_files(prepare: Callable[[Path], object], act: Callable[[Path], object]) -> Callable[[Path], None]:
    """A check that there are the files of before or those of after, byte by byte."""

    @cache
    def states() -> list[dict[str, bytes]]:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            prepare(folder)
            before = _files(folder)
            act(folder)
            return [before, _files(folder)]

    def check(folder: Path) -> None:
        found = _files(folder)
        if found not in states():
            sizes = {name: len(data) for name, data in found.items()}
            raise AssertionError(f"neither old nor new: {sizes}")

    return check


def _written(name: str, write: Callable[[Path, int], object]) -> Scenario:
    """`write(folder, 0)` makes the old files, `write(folder, 1)` the new ones."""

    def prepare(folder: Path) -> None:
        write(folder, 0)

    def act(folder: Path) -> None:
        write(folder, 1)

    return Scenario(name, prepare, act, _same_files(prepare, act), WRITE_FAULTS)


# ---- what is tried


def _keys(folder: Path) -> None:
    make_keys(folder / "key")


def _check_keys(folder: Path) -> None:
    """A private key has its public one."""
    if (folder / "key").exists():
        (folder / "signed").write_bytes(b"x")
        sign_file(folder / "signed", folder / "key")
        verify_file(folder / "signed", folder / "key.pub")
        for name in ("signed", "signed.sig", "key", "key.pub"):
            (folder / name).unlink()


def _sign(folder: Path, version: int) -> None:
    if not version:
        make_keys(folder / "key")
        (folder / "m.heddle").write_bytes(b"old")
        sign_file(folder / "m.heddle", folder / "key")
        (folder / "m.heddle").write_bytes(b"new")
    else:
        sign_file(folder / "m.heddle", folder / "key")


def _check_signed(folder: Path) -> None:
    text = (folder / "m.heddle.sig").read_bytes()
    if (len(text), text.count(b"\n")) != (108, 2):
        raise AssertionError(f"no whole signature: {text!r}")


def _fill_cache(folder: Path) -> None:
    for name in "ab":
        PrivateCache(folder / "cache", 1 << 20).write(name, name.encode() * 1000)


def _use_cache(folder: Path) -> None:
    cache = PrivateCache(folder / "cache", 3 * PAGE_BYTES)
    for name in "abcd":
        cache.write(name, name.encode() * 1000)
        found = cache.read(name)
        if found not in (None, name.encode() * 1000):
            raise AssertionError(f"{name}: {found[:20]!r}")


def _check_cache(folder: Path) -> None:
    """What is believed is right; of another key than the present one, nothing is."""
    cache = PrivateCache(folder / "cache", 1 << 20)
    for file in cache.files():
        found = cache.read(file.name)
        if found not in (None, file.name.encode() * 1000):
            raise AssertionError(f"{file.name}: {found[:20]!r}")
    if not (folder / "cache" / KEY_NAME).exists() and cache.files():
        raise AssertionError("files without a key")
    _use_cache(folder)
    if PrivateCache(folder / "cache", 1 << 20).read("d") is None:
        raise AssertionError("the cache keeps nothing any more")


def _params(folder: Path, version: int) -> None:
    values = {name: np.full((50, 7), 10 * version + at, np.float32) for at, name in enumerate("abc")}
    if version:
        values["d"] = np.ones(3, np.float32)
    dump_tensor_cache(values, folder, "raw", shard_cap_mb=1, update_if_exists=bool(version))


def _check_params(folder: Path) -> None:
    found = load_tensor_cache(folder, cpu())[0]
    versions = {float(found[name].numpy()[0, 0]) - at for at, name in enumerate("abc")}
    if versions not in ({0.0}, {10.0}) or ("d" in found) != (versions == {10.0}):
        raise AssertionError(f"a mixture of versions: {versions}")


def _onnx_with_files(folder: Path) -> Path:
    """A model with weights in its file and in another."""
    rng, info = np.random.default_rng(0), helper.make_tensor_value_info
    stored = [
        numpy_helper.from_array(rng.standard_normal((8, 300)).astype(np.float32), "w"),
        numpy_helper.from_array(rng.standard_normal(300).astype(np.float32), "b"),
    ]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])]
    inputs, outputs = [info("x", TensorProto.FLOAT, ["n", 8])], [info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    save_model(proto, folder / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=2000)
    return folder / "m.onnx"


def _wanted() -> Any:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((8, 300)).astype(np.float32)
    return _X @ w + rng.standard_normal(300).astype(np.float32)


def _import(folder: Path) -> None:
    executable = build(from_onnx(folder / "m.onnx"), "llvm", cache=_memory_cache())
    got = VirtualMachine(executable, cpu())["main"](_X).numpy()
    np.testing.assert_allclose(got, _wanted(), rtol=1e-4, atol=1e-5)


@cache
def _memory_cache() -> KernelCache:
    """So that a scenario's time is not LLVM's."""
    return KernelCache(None)


def _load(folder: Path) -> None:
    got = VirtualMachine(load_module(folder / "m.heddle"), cpu())["main"](_X).numpy()
    np.testing.assert_allclose(got, np.exp(_X) + 1, rtol=1e-5)


def _nothing(folder: Path) -> None:
    del folder


SCENARIOS: Mapping[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        _written("artefact", lambda folder, at: _executables()[at].export_library(folder / "m.heddle")),
        _written("library", lambda folder, at: _executables()[at].export_library(folder / "m.so")),
        _written("archive", lambda folder, at: _executables()[at].export_library(folder / "m.a")),
        _written("recording", lambda folder, at: write_json(folder / "p.json", [at] * 100_000)),
        Scenario("keys", _nothing, _keys, _check_keys, WRITE_FAULTS),
        Scenario(
            "signature",
            lambda folder: _sign(folder, 0),
            lambda folder: _sign(folder, 1),
            _check_signed,
            WRITE_FAULTS,
        ),
        Scenario("cache", _fill_cache, _use_cache, _check_cache, (*WRITE_FAULTS, *READ_FAULTS)),
        Scenario(
            "parameters",
            lambda folder: _params(folder, 0),
            lambda folder: _params(folder, 1),
            _check_params,
            WRITE_FAULTS,
        ),
        Scenario("import", _onnx_with_files, _import, _nothing, READ_FAULTS),
        Scenario(
            "load",
            lambda folder: _executables()[0].export_library(folder / "m.heddle"),
            _load,
            _nothing,
            READ_FAULTS,
        ),
    )
}


# ---- the machine


def _judged(scenario: Scenario, fault: Fault, ended: Ended, folder: Path) -> str | None:
    """What is wrong with an outcome, if anything is."""
    if ended.code not in ((-9,) if fault.action is Action.KILL and ended.is_struck else (0, 1)):
        return f"ended with {ended.code}"
    if "fault of Heddle" in ended.err or "Traceback" in ended.err:
        return "an uncoded error"
    if ended.code == 1 and not ended.err.startswith("error["):
        return "no coded message"
    if ended.code > 0 and not ended.is_struck:
        return "failed of its own accord"
    try:
        scenario.check(folder)
        if not fault.calls & Calls.REMOVALS and _parts(folder):
            return f"parts of a process that ended in order: {_parts(folder)}"
        scenario.act(folder)
        scenario.check(folder)
        if _parts(folder):
            return f"parts that the next one left: {_parts(folder)}"
    except Exception as error:
        return f"afterwards {type(error).__name__}: {error}"
    return None


def _prepare(scenario: Scenario, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    scenario.prepare(folder)


def try_all(
    interposer: Interposer, scenario: Scenario, fault: Fault, most: int, tried: list[int]
) -> Iterator[str]:
    """Findings: one child for every call, or for `most` of them. The last child meets no fault. `tried` gets
    the numbers of those that met one."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made, "work")

        def act(number: int) -> int:
            return guarded(lambda: interposer.met(fault, number, lambda: scenario.act(folder)))

        _prepare(scenario, folder)
        total = interposer.count(fault.calls, lambda: scenario.act(folder))
        for number in (*numbers(total, most), total + 1000):
            _prepare(scenario, folder)
            ended = interposer.fork(number, partial(act, number))
            tried += [number] * ended.is_struck
            wrong = _judged(scenario, fault, ended, folder)
            if wrong is not None:
                what = f"{fault.action.name} {errno.errorcode.get(fault.error, '')}"
                yield f"{scenario.name} {what} at {number} of {total}: {wrong}\n{ended.err}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=", ".join(SCENARIOS))
    parser.add_argument("--most", type=int, default=1 << 30, help="calls of a scenario that are tried")
    parser.add_argument("--kinds", type=int, default=1 << 30, help="kinds of faults of a scenario")
    args = parser.parse_args()
    if not is_interposed():
        done = start("tests.fuzz.faults", *sys.argv[1:])
        print(done.stdout, end="")
        return done.returncode
    interposer, found = Interposer(), 0
    os.environ["HEDDLE_CACHE"] = "0"
    for name in args.names or SCENARIOS:
        tried: list[int] = []
        for fault in SCENARIOS[name].faults[: args.kinds]:
            for finding in try_all(interposer, SCENARIOS[name], fault, args.most, tried):
                found += 1
                print(finding, flush=True)
        print(f"{name}: {len(tried)} faults", flush=True)
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
