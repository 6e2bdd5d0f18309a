"""Store named tensors in a folder, in the format of TVM's `tvmjs.dump_tensor_cache`: `tensor-cache.json` and
shards of raw bytes.

    {"metadata": {...},
     "records": [{"dataPath": "params_shard_0.bin", "format": "raw-shard", "nbytes": 96, "md5sum": "...",
                  "records": [{"name": "w", "shape": [4, 6], "dtype": "float32", "format": "raw",
                               "nbytes": 96, "byteOffset": 0}, ...]}, ...]}

The format of a record is "raw", or "f32-to-bf16" for float32 values that are stored as bfloat16 (rounded to
nearest even). Sizes are in bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from heddle.runtime.codes import F0201, F0202, F0203, U0302
from heddle.runtime.device import Device
from heddle.runtime.dtype import DataType, dtype_of
from heddle.runtime.tensor import Tensor, tensor
from heddle.support.diagnostics import FormatError, HeddleError, IRTypeError, UsageError
from heddle.support.files import write_bytes
from heddle.support.reading import read_bytes

INDEX = "tensor-cache.json"
FORMATS = ("raw", "f32-to-bf16")
_Array = np.ndarray[Any, Any]
_Record = dict[str, Any]
Params = Mapping[str, Any] | Iterable[Any]


def float32_to_bfloat16_bits(values: Any) -> _Array:
    """Round float32 values to bfloat16 (to nearest even). Return the bits as uint16. NaN stays NaN."""
    found: _Array = np.asarray(values, np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)
    return found


def bfloat16_bits_to_float32(bits: Any) -> _Array:
    """Return the float32 values of bfloat16 bits (uint16)."""
    found: _Array = (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)
    return found


# ---- writing


def dump_tensor_cache(
    params: Params,
    cache_dir: str | os.PathLike[str],
    encode_format: str = "f32-to-bf16",
    meta_data: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None,
    shard_cap_mb: int = 32,
    show_progress: bool = True,
    update_if_exists: bool = False,
) -> None:
    """Write tensors to a folder. `params` maps names to arrays, or is a sequence of (name, array) pairs, or a
    list of arrays, which are named `param_0`, ...

    A shard holds up to `shard_cap_mb` MiB. A tensor larger than half of that has a shard of its own. With
    `update_if_exists`, an existing cache is updated: records of the same size are overwritten in place, other
    records are added, and a record of another size is replaced. `show_progress` is accepted for TVM's sake;
    nothing is printed.

    The update is atomic: changed shards are written to new files, then the index is replaced, then the old
    shards are deleted. A reader, or a run after a crash, sees the old or the new cache.

    Raises: UsageError U0302 for another `encode_format`, S0101 if the folder cannot be written; IRTypeError
    U0302 for values that are not tensors; FormatError F02.. for a damaged cache that is to be updated.
    """
    if encode_format not in FORMATS:
        raise UsageError(U0302, f"expected a format {' or '.join(FORMATS)}, got {encode_format!r}")
    folder = Path(cache_dir)
    folder.mkdir(parents=True, exist_ok=True)
    index = read_index(folder) if update_if_exists and (folder / INDEX).exists() else {"records": []}
    shards: list[_Record] = index["records"]
    old = _shards_of(folder)
    taken = old | {shard["dataPath"] for shard in shards}
    fresh = _rewrite(folder, shards, _encoded(params, encode_format), taken)
    for number, parts in enumerate(_grouped(fresh, shard_cap_mb << 20)):
        name = _free_name(number, taken)
        shards.append(_write_shard(folder, name, parts))
    meta = meta_data() if callable(meta_data) else meta_data
    metadata = {**index.get("metadata", {}), **(meta or {})}
    metadata["ParamSize"] = sum(len(shard["records"]) for shard in shards)
    metadata["ParamBytes"] = sum(float(record["nbytes"]) for shard in shards for record in shard["records"])
    text = json.dumps({"metadata": metadata, "records": shards}, indent=4)
    write_bytes(folder / INDEX, text.encode())
    for name in old.difference(shard["dataPath"] for shard in shards):
        (folder / name).unlink(missing_ok=True)


def _shards_of(folder: Path) -> set[str]:
    """Return the file names of the shards of an existing cache. Only names of the form that this module
    writes count.
    """
    try:
        names = {shard["dataPath"] for shard in read_index(folder)["records"]}
        return {name for name in names if re.fullmatch(r"params_shard_\d+\.bin", name)}
    except FormatError:
        return set()


def _named(params: Params) -> Iterator[tuple[str, Any]]:
    if isinstance(params, Mapping):
        yield from params.items()
        return
    for position, item in enumerate(params):
        if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
            yield item
        else:
            yield f"param_{position}", item


def _encoded(params: Params, encode_format: str) -> Iterator[tuple[_Record, bytes]]:
    """Yield records without an offset, each with its bytes."""
    for name, value in _named(params):
        array: _Array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
        dtype = value.dtype if isinstance(value, Tensor) else _element(name, array)
        narrow = encode_format == "f32-to-bf16" and dtype == "float32"
        shape = list(array.shape)
        stored = float32_to_bfloat16_bits(array) if narrow else array
        data = np.ascontiguousarray(stored).tobytes()
        yield (
            {
                "name": name,
                "shape": shape,
                "dtype": str(dtype),
                "format": "f32-to-bf16" if narrow else "raw",
                "nbytes": len(data),
            },
            data,
        )


def _element(name: str, array: _Array) -> DataType:
    try:
        return dtype_of(array.dtype)
    except HeddleError as error:
        raise IRTypeError(
            U0302, f"parameter {name!r}: numpy dtype {array.dtype} has no equivalent"
        ) from error


def _rewrite(
    folder: Path, shards: list[_Record], given: Iterable[tuple[_Record, bytes]], taken: set[str]
) -> list[tuple[_Record, bytes]]:
    """Overwrite records of the same name and size, in shards with new file names. Return the other
    records.
    """
    known = {record["name"]: (shard, record) for shard in shards for record in shard["records"]}
    changed: dict[str, tuple[_Record, bytearray]] = {}
    fresh = []
    for made, data in given:
        shard, record = known.get(made["name"], ({}, {}))
        if record.get("nbytes") == made["nbytes"]:
            path = shard["dataPath"]
            if path not in changed:
                content = (folder / path).read_bytes()
                _check_digest(folder / path, shard, content)
                changed[path] = (shard, bytearray(content))
            offset = record["byteOffset"]
            changed[path][1][offset : offset + len(data)] = data
            record.update(made)
        else:
            if record:
                shard["records"].remove(record)
            fresh.append((made, data))
    for shard, content in changed.values():
        shard["md5sum"] = _digest(content)
        shard["dataPath"] = _free_name(0, taken)
        write_bytes(folder / shard["dataPath"], bytes(content))
    return fresh


def _grouped(given: Iterable[tuple[_Record, bytes]], cap_bytes: int) -> Iterator[list[tuple[_Record, bytes]]]:
    pending: list[tuple[_Record, bytes]] = []
    size = 0
    for made, data in given:
        if len(data) * 2 >= cap_bytes:
            yield [(made, data)]
            continue
        if pending and size + len(data) > cap_bytes:
            yield pending
            pending, size = [], 0
        pending.append((made, data))
        size += len(data)
    if pending:
        yield pending


def _free_name(number: int, taken: set[str]) -> str:
    while f"params_shard_{number}.bin" in taken:
        number += 1
    name = f"params_shard_{number}.bin"
    taken.add(name)
    return name


def _write_shard(folder: Path, name: str, parts: list[tuple[_Record, bytes]]) -> _Record:
    content, records = bytearray(), []
    for made, data in parts:
        records.append({**made, "byteOffset": len(content)})
        content += data
    write_bytes(folder / name, bytes(content))
    return {
        "dataPath": name,
        "format": "raw-shard",
        "nbytes": len(content),
        "records": records,
        "md5sum": _digest(content),
    }


def _digest(content: bytes | bytearray) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


# ---- reading


def _check_digest(path: Path, shard: _Record, content: bytes) -> None:
    """Check the digest of a shard if the index has one."""
    wanted = shard.get("md5sum", "").lower()
    if wanted and _digest(content) != wanted:
        raise FormatError(
            F0202,
            f"shard {path}: expected bytes of the md5 sum {wanted}, got {_digest(content)}",
            help="the file was changed or damaged after it was written: copy or convert the weights again",
        )


def read_index(folder: Path) -> dict[str, Any]:
    """Return the checked contents of the index. Raises: FormatError F0201, F0202, F0203."""
    try:
        index = json.loads(read_bytes(folder / INDEX))
    except OSError as error:
        raise FormatError(F0201, f"cannot read {folder / INDEX}: {error.strerror}") from error
    except ValueError as error:
        raise FormatError(F0201, f"{folder / INDEX} is no JSON: {error}") from error
    shards = index.get("records") if isinstance(index, dict) else None
    if not isinstance(shards, list) or not isinstance(index.get("metadata", {}), dict):
        raise FormatError(F0201, f"{folder / INDEX} has no list of records")
    for shard in shards:
        _check_shard(shard)
    return {**index, "records": shards}


_SHARD_FIELDS: dict[str, type] = {"dataPath": str, "format": str, "nbytes": int, "records": list}
_RECORD_FIELDS: dict[str, type] = {
    "name": str,
    "shape": list,
    "dtype": str,
    "format": str,
    "nbytes": int,
    "byteOffset": int,
}


def _check_fields(what: str, value: Any, fields: Mapping[str, type]) -> None:
    if not isinstance(value, dict):
        raise FormatError(F0201, f"{what}: expected an object, got {type(value).__name__}")
    for name, kind in fields.items():
        if type(value.get(name)) is not kind:
            got = type(value.get(name)).__name__
            raise FormatError(F0201, f"{what}: expected {name!r} of type {kind.__name__}, got {got}")


def _check_shard(shard: Any) -> None:
    _check_fields("shard", shard, _SHARD_FIELDS)
    path = shard["dataPath"]
    if not path or Path(path).name != path or path in (".", "..") or "\\" in path or "\0" in path:
        raise FormatError(F0203, f"shard {path!r} is no plain file name")
    if not isinstance(shard.get("md5sum", ""), str):
        got = type(shard["md5sum"]).__name__
        raise FormatError(F0201, f"shard {path!r}: expected 'md5sum' of type str, got {got}")
    if shard["format"] != "raw-shard":
        raise FormatError(F0201, f"shard {path!r}: expected format 'raw-shard', got {shard['format']!r}")
    for record in shard["records"]:
        _check_fields(f"record of {path!r}", record, _RECORD_FIELDS)
        _check_record(record, shard)


def _check_record(record: _Record, shard: _Record) -> None:
    name, shape = record["name"], record["shape"]
    if not all(type(size) is int and size >= 0 for size in shape):
        raise FormatError(F0202, f"parameter {name!r}: expected sizes in its shape, got {shape}")
    try:
        dtype = DataType(record["dtype"])
    except HeddleError as error:
        raise FormatError(F0202, f"parameter {name!r}: unknown dtype {record['dtype']!r}") from error
    if record["format"] not in FORMATS or (record["format"] == "f32-to-bf16" and dtype != "float32"):
        raise FormatError(F0202, f"parameter {name!r}: no format {record['format']!r} for {dtype}")
    wanted = prod(shape) * (2 if record["format"] == "f32-to-bf16" else dtype.itemsize)
    if record["nbytes"] != wanted:
        raise FormatError(F0202, f"parameter {name!r}: expected {wanted} bytes, got {record['nbytes']}")
    if not 0 <= record["byteOffset"] <= shard["nbytes"] - wanted:
        raise FormatError(
            F0202,
            f"parameter {name!r}: {wanted} bytes at offset {record['byteOffset']} leave its shard of "
            f"{shard['nbytes']}",
        )


def tensors_of_cache(folder: Path, index: Mapping[str, Any], device: Device) -> Iterator[tuple[str, Tensor]]:
    """Yield the named tensors of a checked index, one shard at a time. Raises: FormatError F0202."""
    for shard in index["records"]:
        path = folder / shard["dataPath"]
        try:
            content = read_bytes(path)
        except OSError as error:
            raise FormatError(F0202, f"cannot read shard {path}: {error.strerror}") from error
        if len(content) != shard["nbytes"]:
            raise FormatError(F0202, f"shard {path}: expected {shard['nbytes']} bytes, got {len(content)}")
        _check_digest(path, shard, content)
        for record in shard["records"]:
            yield record["name"], _decoded(record, content, device)


def _decoded(record: _Record, content: bytes, device: Device) -> Tensor:
    first = record["byteOffset"]
    data = content[first : first + record["nbytes"]]
    if record["format"] == "f32-to-bf16":
        values = bfloat16_bits_to_float32(np.frombuffer(data, np.uint16))
    else:
        values = np.frombuffer(data, DataType(record["dtype"]).numpy())
    return tensor(values.reshape(record["shape"]), device)


def load_tensor_cache(
    cache_dir: str | os.PathLike[str], device: Device
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Load all tensors of a folder. Return a dictionary by name, and the metadata. `cache_dir` may also be
    the index file.

    Raises: FormatError F02..; UsageError U0202 for a device that cannot be reached.
    """
    given = Path(cache_dir)
    folder = given if given.is_dir() else given.parent
    index = read_index(folder)
    return dict(tensors_of_cache(folder, index, device)), dict(index.get("metadata", {}))
