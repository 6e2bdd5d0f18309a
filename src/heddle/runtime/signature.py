"""Sign and verify program files with Ed25519 keys.

The signature of FILE is stored beside it, in FILE.sig, so files of any kind and version can be signed:

    heddle signature 1
    <Base64 of the 64 bytes of an Ed25519 signature>

The signed message is the text `heddle signature 1`, a zero byte, and the BLAKE2b-512 digest of all bytes of
the file. Keys are standard PEM files (PKCS #8 and SubjectPublicKeyInfo), such as those of `openssl genpkey
-algorithm ed25519`.

**Source**: RFC 8032 (Ed25519), RFC 7693 (BLAKE2), RFC 8410 (keys). The package `cryptography` (the extra
`sign`) provides Ed25519.
"""

from __future__ import annotations

import base64
import binascii
import mmap
import os
from hashlib import blake2b
from pathlib import Path
from typing import Any

from heddle.runtime.codes import F0113, U0511, U0512
from heddle.support.diagnostics import FormatError, MissingDependencyError, UsageError
from heddle.support.distribution import pip_install
from heddle.support.files import check_new, write_bytes, write_secret
from heddle.support.reading import open_file, reading

SUFFIX = ".sig"
_TITLE = b"heddle signature 1"
_MAX_SMALL_FILE_BYTES = 1 << 16
PathLike = str | os.PathLike[str]


def make_keys(private: PathLike) -> Path:
    """Write a new private key that only this user can read, and the public key beside it (`.pub`). Return the
    path of the public key. Raises: UsageError S0101 if the path exists or cannot be written.
    """
    ed25519, serialization = _cryptography()
    key = ed25519.Ed25519PrivateKey.generate()
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    open_text = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    public = Path(f"{os.fspath(private)}.pub")
    check_new(private)
    # The private key is written last: if writing fails in between, the next attempt can start again.
    write_bytes(public, open_text)
    write_secret(private, secret)
    return public


def sign_file(path: PathLike, private: PathLike) -> Path:
    """Sign all bytes of a file. Return the path of the signature file.

    Raises: UsageError S0102 for a file that cannot be read, U0511 for an invalid key, S0101;
    MissingDependencyError U0512.
    """
    _, serialization = _cryptography()
    key = _key(private, lambda data: serialization.load_pem_private_key(data, None), "private")
    signature = key.sign(_message(_read(path)))
    made = Path(f"{os.fspath(path)}{SUFFIX}")
    write_bytes(made, _TITLE + b"\n" + base64.b64encode(signature) + b"\n")
    return made


def verify_file(path: PathLike, public: PathLike) -> None:
    """Check the signature of a file. Raises: as `verified_bytes`."""
    verified_bytes(path, public)


def verified_bytes(path: PathLike, public: PathLike) -> memoryview:
    """Read a file, check its signature with the public key, and return its bytes in page-aligned private
    memory. Use only these bytes: the file itself may change at any time.

    Raises: FormatError F0113 if there is no signature or it does not match the key and the bytes; UsageError
    S0102, U0511; MissingDependencyError U0512.
    """
    _, serialization = _cryptography()
    from cryptography.exceptions import InvalidSignature  # an extra that only signatures need

    key = _key(public, serialization.load_pem_public_key, "public")
    data = _read(path)
    signature = _signature_of(path)
    try:
        key.verify(signature, _message(data))
    except InvalidSignature as error:
        raise FormatError(
            F0113,
            f"{os.fspath(path)} is not what the owner of {os.fspath(public)} signed",
            help="it was changed, or another key signed it: do not load it",
        ) from error
    return data


def _message(data: memoryview) -> bytes:
    return _TITLE + b"\0" + blake2b(data).digest()


def _read(path: PathLike) -> memoryview:
    with reading(path), open_file(path) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        memory = memoryview(mmap.mmap(-1, size_bytes or 1))[:size_bytes]
        return memory[: file.readinto(memory)]


def _read_small(path: PathLike) -> bytes:
    with reading(path), open_file(path) as file:
        return file.read(_MAX_SMALL_FILE_BYTES)


def _signature_of(path: PathLike) -> bytes:
    place = Path(f"{os.fspath(path)}{SUFFIX}")
    if not place.is_file():
        raise FormatError(
            F0113,
            f"{os.fspath(path)} is not signed: there is no {place}",
            help=f"heddle sign {path} --key KEY",
        )
    title, _, text = _read_small(place).partition(b"\n")
    try:
        signature = base64.b64decode(text.strip(), validate=True)
    except (ValueError, binascii.Error):
        signature = b""
    if title != _TITLE or len(signature) != 64:
        raise FormatError(F0113, f"{place} holds no signature")
    return signature


def _key(path: PathLike, load: Any, kind: str) -> Any:
    ed25519, _ = _cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm  # an extra that only signatures need

    wanted = ed25519.Ed25519PrivateKey if kind == "private" else ed25519.Ed25519PublicKey
    data = _read_small(path)
    try:
        key = load(data)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UsageError(
            U0511, f"{os.fspath(path)} holds no {kind} key: {error}", help="heddle keygen KEY makes one"
        ) from error
    if not isinstance(key, wanted):
        raise UsageError(U0511, f"{os.fspath(path)} holds a key of another kind than Ed25519")
    return key


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization  # an extra that only signatures need
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise MissingDependencyError(
            U0512, "signatures need the package 'cryptography'", help=pip_install("sign")
        ) from error
    return ed25519, serialization
