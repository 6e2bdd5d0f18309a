"""Signed files: what is loaded is what was signed, every byte of it."""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import numpy as np
import pytest

import heddle
from heddle.runtime.module import load_module
from heddle.runtime.signature import make_keys, sign_file, verify_file
from heddle.script.parser import parse
from heddle.support.diagnostics import FormatError, UsageError

pytest.importorskip("cryptography", reason="signatures need the extra sign")
MODEL = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            y = R.add(x, R.const([1, 2, 3, 4], "float32"))
            R.output(y)
        return y
"""


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    private = tmp_path / "key"
    return private, make_keys(private)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.heddle"
    heddle.compile(parse(MODEL)).export_library(path)
    return path


def test_a_signed_model_loads_and_runs(model: Path, keys: tuple[Path, Path]) -> None:
    assert sign_file(model, keys[0]) == Path(f"{model}.sig")
    loaded = load_module(model, public_key=keys[1])
    machine = heddle.relax.VirtualMachine(loaded, heddle.cpu())
    np.testing.assert_array_equal(machine["main"](np.zeros(4, "float32")).numpy(), [1, 2, 3, 4])
    assert load_module(model) is not None


def test_the_private_key_is_private(keys: tuple[Path, Path]) -> None:
    assert stat.S_IMODE(keys[0].stat().st_mode) == 0o600
    with pytest.raises(UsageError, match="S0101"):
        make_keys(keys[0])


def test_every_byte_counts(model: Path, keys: tuple[Path, Path]) -> None:
    sign_file(model, keys[0])
    whole = model.read_bytes()
    rng = np.random.default_rng(0)
    for at in (0, len(whole) - 1, *(int(x) for x in rng.integers(0, len(whole), 200))):
        model.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(FormatError, match="F0113"):
            load_module(model, public_key=keys[1])
    for changed in (whole[:-1], whole + b"\0", b""):
        model.write_bytes(changed)
        with pytest.raises(FormatError, match="F0113"):
            verify_file(model, keys[1])
    model.write_bytes(whole)
    verify_file(model, keys[1])


def test_another_key_and_no_signature(model: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"F0113.*not signed"):
        load_module(model, public_key=keys[1])
    sign_file(model, keys[0])
    with pytest.raises(FormatError, match=r"F0113.*not what the owner"):
        load_module(model, public_key=make_keys(tmp_path / "other"))


@pytest.mark.parametrize("text", [b"", b"x", b"heddle signature 1", b"heddle signature 1\n!!", b"\xff" * 200])
def test_what_is_no_signature(model: Path, keys: tuple[Path, Path], text: bytes) -> None:
    Path(f"{model}.sig").write_bytes(text)
    with pytest.raises(FormatError, match=r"F0113.*holds no signature"):
        verify_file(model, keys[1])


def test_what_is_no_key(model: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    sign_file(model, keys[0])
    (tmp_path / "none").write_bytes(b"none")
    for wrong in (tmp_path / "none", keys[0]):
        with pytest.raises(UsageError, match="U0511"):
            verify_file(model, wrong)
    with pytest.raises(UsageError, match="U0511"):
        sign_file(model, keys[1])
    with pytest.raises(UsageError, match="S0102"):
        verify_file(model, tmp_path / "missing")


def test_a_key_on_an_unknown_curve(model: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    sign_file(model, keys[0])
    # The identifier of a curve is the arc 1.3.132.0.N: 10 is secp256k1, 16 is one that the library lacks.
    known = (
        "MFYwEAYHKoZIzj0CAQYFK4EEAAoDQgAE"
        + "eb5mfvncu6xVoGKVzocLBwKb/NstzijZWfKBWxb4F5hIOtp3JqPEZV2k+/wOEQio/Re0SKaFVBmcR9CP+xDUuA=="
    )
    unknown = known.replace("AAoD", "ABAD")
    for text, message in ((known, "another kind"), (unknown, "holds no public key")):
        (tmp_path / "curve.pub").write_text(f"-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n")
        with pytest.raises(UsageError, match=f"U0511.*{message}"):
            verify_file(model, tmp_path / "curve.pub")


def test_libraries_cannot_be_verified(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    with pytest.raises(UsageError, match="U0513"):
        load_module(tmp_path / "m.so", public_key=keys[1])


def test_keys_of_other_tools(model: Path, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    private, public = tmp_path / "o.pem", tmp_path / "o.pub"
    make = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(private)]
    if subprocess.run(make, check=False, capture_output=True).returncode:
        pytest.skip("this openssl has no Ed25519")
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    sign_file(model, private)
    verify_file(model, public)
    another = ["openssl", "genpkey", "-algorithm", "RSA", "-out", str(private)]
    subprocess.run(another, check=True, capture_output=True)
    with pytest.raises(UsageError, match=r"U0511.*another kind"):
        sign_file(model, private)
