"""Signing on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.command_line import DENSE, heddle

pytest.importorskip("typer", reason="the command line needs the extra cli")
pytest.importorskip("cryptography", reason="signatures need the extra sign")


def test_a_model_is_signed_required_and_changed(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(DENSE)
    for words in (
        ("compile", "m.py", "-o", "m.heddle"),
        ("keygen", "key"),
        ("sign", "m.heddle", "--key", "key"),
        ("verify", "m.heddle", "--key", "key.pub"),
    ):
        done = heddle(*words, cwd=tmp_path)
        assert done.code == 0, done.err
    run = ("run", "m.heddle", "--repeat", 0)
    required = heddle(*run, "--require-signature", "key.pub", cwd=tmp_path)
    assert (required.code, "note:" in required.err) == (0, False), required.err
    assert "note: m.heddle holds machine code" in heddle(*run, cwd=tmp_path).err
    assert "note:" not in heddle(*run, "--trust", cwd=tmp_path).err
    model = tmp_path / "m.heddle"
    model.write_bytes(model.read_bytes()[:-1] + b"x")
    heddle(*run, "--require-signature", "key.pub", cwd=tmp_path).failed_with("F0113", "not what the owner")
    heddle("verify", "m.heddle", "--key", "key.pub", cwd=tmp_path).failed_with("F0113")
    heddle("debug", "m.heddle", "--require-signature", "key.pub", "-c", "q", cwd=tmp_path).failed_with(
        "F0113"
    )
    heddle("run", "m.py", "--require-signature", "key.pub", cwd=tmp_path).failed_with("D0301", "not compiled")
