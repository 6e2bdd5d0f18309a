"""Parameters on disk and in the process's pool."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest
from heddle.contrib import tvmjs
from hypothesis import given
from hypothesis import strategies as st

from heddle.runtime import cpu, tensor
from heddle.support.diagnostics import FormatError, IRTypeError, Trap, UsageError

from .cache_model import builtin


@pytest.fixture(autouse=True)
def empty_pool():
    builtin("tensor_cache.clear")()
    yield
    builtin("tensor_cache.clear")()


def load(folder):
    builtin("tensor_cache.load")(str(folder), cpu().device_type, 0)


def index_of(folder):
    return json.loads((folder / "tensor-cache.json").read_text())


def some_params(rng):
    return {
        "w_0": rng.standard_normal((3, 5)).astype("f4"),
        "w_1": rng.integers(-9, 9, 7).astype("i8"),
        "w_2": rng.standard_normal((2, 1, 3)).astype("f2"),
        "scalar": np.array(2.5, "f4"),
        "nothing": np.zeros((0, 4), "f4"),
        "brain": rng.standard_normal(5).astype(ml_dtypes.bfloat16),
        "flags": np.array([True, False]),
    }


@pytest.mark.fact("9.20")
@pytest.mark.parametrize("encode", ["raw", "f32-to-bf16"])
def test_dump_then_load(tmp_path, encode):
    params = some_params(np.random.default_rng(0))
    tvmjs.dump_tensor_cache(params, tmp_path, encode_format=encode, meta_data={"model": "m"})
    load(tmp_path)
    for name, value in params.items():
        got = builtin("tensor_cache.get")(name)
        assert (got.shape, got.dtype) == (value.shape, str(value.dtype))
        kept = (
            value.astype(ml_dtypes.bfloat16).astype("f4")
            if encode != "raw" and value.dtype == "f4"
            else value
        )
        np.testing.assert_array_equal(got.numpy(), kept)
    loaded, metadata = tvmjs.load_tensor_cache(tmp_path, cpu())
    assert set(loaded) == set(params)
    assert metadata["model"] == "m"


@pytest.mark.fact("9.20")
def test_form_of_the_index(tmp_path):
    """Per record: name, shape, dtype, format, nbytes, byteOffset; per shard: dataPath, format, nbytes."""
    tvmjs.dump_tensor_cache(
        {"a": np.zeros((2, 3), "f4"), "b": np.arange(5, dtype="i4")}, tmp_path, encode_format="f32-to-bf16"
    )
    (shard,) = index_of(tmp_path)["records"]
    assert (shard["dataPath"], shard["format"], shard["nbytes"]) == ("params_shard_0.bin", "raw-shard", 32)
    assert shard["records"] == [
        {
            "name": "a",
            "shape": [2, 3],
            "dtype": "float32",
            "format": "f32-to-bf16",
            "nbytes": 12,
            "byteOffset": 0,
        },
        {"name": "b", "shape": [5], "dtype": "int32", "format": "raw", "nbytes": 20, "byteOffset": 12},
    ]
    assert (tmp_path / "params_shard_0.bin").read_bytes()[12:] == np.arange(5, dtype="i4").tobytes()


def test_lists_tensors_and_metadata_from_a_function(tmp_path):
    values = [tensor(np.arange(3.0, dtype="f4")), np.arange(4)]
    tvmjs.dump_tensor_cache(values, tmp_path, "raw", meta_data=lambda: {"layers": 2})
    loaded, metadata = tvmjs.load_tensor_cache(tmp_path / "tensor-cache.json", cpu())
    assert loaded["param_0"].numpy().tolist() == [0, 1, 2]
    assert loaded["param_1"].dtype == "int64"
    assert metadata["layers"] == 2
    tvmjs.dump_tensor_cache(iter([("x", np.ones(2, "f4"))]), tmp_path, "raw")
    assert list(tvmjs.load_tensor_cache(tmp_path, cpu())[0]) == ["x"]


def test_shards_are_cut_at_the_cap(tmp_path):
    small, large = np.zeros(1 << 17, "f4"), np.zeros(1 << 18, "f4")
    tvmjs.dump_tensor_cache(
        {"a": small[:60000], "b": small[:60000], "c": large, "d": small[:100000], "e": small[:100000]},
        tmp_path,
        "raw",
        shard_cap_mb=1,
    )
    shards = index_of(tmp_path)["records"]
    assert sorted([record["name"] for record in shard["records"]] for shard in shards) == [
        ["a", "b", "d"],
        ["c"],
        ["e"],
    ]
    assert len(tvmjs.load_tensor_cache(tmp_path, cpu())[0]) == 5


@pytest.mark.fact("9.20")
@given(st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_upper_halves_are_rounded_to_nearest_even(values):
    array = np.array(values, "f4")
    bits = tvmjs._convert_f32_to_bf16(array)
    assert bits.dtype == np.uint16
    back = tvmjs._convert_bf16_to_f32(bits)
    words = array.view("u4").astype("u8")
    expected = ((words + 0x7FFF + ((words >> 16) & 1)) >> 16).astype("u2")
    nan = np.isnan(array)
    assert np.isnan(back[nan]).all()
    np.testing.assert_array_equal(bits[~nan], expected[~nan])


@pytest.mark.fact("9.20")
def test_update_rewrites_in_place_and_appends(tmp_path):
    """Update_if_exists."""
    rng = np.random.default_rng(1)
    params = {f"x_{i}": rng.standard_normal((4, i + 1)).astype("f4") for i in range(3)}
    tvmjs.dump_tensor_cache(params, tmp_path, "raw")
    places = {r["name"]: r["byteOffset"] for r in index_of(tmp_path)["records"][0]["records"]}
    changed = {
        "x_1": rng.standard_normal((8,)).astype("f4"),  # as many bytes
        "x_2": rng.standard_normal((5, 5)).astype("f4"),  # another size
        "x_3": rng.standard_normal(3).astype("f4"),  # new
    }
    tvmjs.dump_tensor_cache(changed, tmp_path, "raw", update_if_exists=True)
    first, second = index_of(tmp_path)["records"]
    assert {r["name"]: r["byteOffset"] for r in first["records"]} == {k: places[k] for k in ("x_0", "x_1")}
    assert [r["name"] for r in second["records"]] == ["x_2", "x_3"]
    load(tmp_path)
    for got, value in zip(
        builtin("param_array_from_cache")("x", -1), {**params, **changed}.values(), strict=True
    ):
        np.testing.assert_array_equal(got.numpy(), value)
    tvmjs.dump_tensor_cache({"y": np.ones(1)}, tmp_path, "raw")
    assert list(tvmjs.load_tensor_cache(tmp_path, cpu())[0]) == ["y"]


@pytest.mark.fact("9.20")
def test_pool():
    get, update = builtin("tensor_cache.get"), builtin("tensor_cache.update")
    a, b = tensor(np.zeros(2)), tensor(np.ones(2))
    assert get("a") is None
    update("a", a)
    assert get("a") is a
    with pytest.raises(ValueError, match=r"V0710.*'a' is in the cache already"):
        update("a", b)
    update("a", b, True)
    assert get("a") is b
    builtin("tensor_cache.remove")("a")
    builtin("tensor_cache.remove")("a")
    assert get("a") is None
    with pytest.raises(TypeError, match=r"V0402.*expected a tensor, got int"):
        update("c", 3)


@pytest.mark.fact("9.20")
def test_collecting_parameters():
    values = [tensor(np.array([i])) for i in range(5)]
    for i in (0, 1, 2, 4):
        builtin("tensor_cache.update")(f"p_{i}", values[i])
    assert list(builtin("param_array_from_cache")("p", -1)) == values[:3]
    assert list(builtin("param_array_from_cache")("p", 2)) == values[:2]
    assert list(builtin("param_array_from_cache")("q", -1)) == []
    assert list(builtin("param_array_from_cache_by_name")(["p_4", "p_0"])) == [values[4], values[0]]
    assert list(builtin("param_array_from_cache_by_name_unpacked")("p_4", "p_0")) == [values[4], values[0]]
    for module in (
        builtin("param_module_from_cache")("p", 2),
        builtin("param_module_from_cache_by_name")(["p_0", "p_1"]),
    ):
        assert list(module["get_params"]()) == values[:2]
    for call in (
        lambda: builtin("param_array_from_cache")("p", 4),
        lambda: builtin("param_array_from_cache_by_name")(["p_3"]),
        lambda: builtin("param_module_from_cache")("p", 4),
    ):
        with pytest.raises(Trap, match=r"V0709.*'p_3' is not in the cache(.|\n)*p_"):
            call()


def damaged(change):
    """An index after a change to its first shard or record."""

    def make(folder):
        index = index_of(folder)
        change(index, index["records"][0], index["records"][0]["records"][0])
        (folder / "tensor-cache.json").write_text(json.dumps(index))

    return make


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (damaged(lambda i, s, r: r.update(byteOffset=-4)), "F0202.*offset -4"),
        (damaged(lambda i, s, r: r.update(byteOffset=21)), "F0202.*24 bytes at offset 21 leave"),
        (damaged(lambda i, s, r: r.update(shape=[2, 4])), "F0202.*expected 32 bytes, got 24"),
        (damaged(lambda i, s, r: r.update(shape=[-2, -3])), "F0202.*expected sizes"),
        (damaged(lambda i, s, r: r.update(shape=[1 << 62, 8])), "F0202.*expected .* bytes"),
        (damaged(lambda i, s, r: r.update(dtype="float33")), "F0202.*unknown dtype 'float33'"),
        (damaged(lambda i, s, r: r.update(dtype="int32", format="f32-to-bf16")), "F0202.*no format"),
        (damaged(lambda i, s, r: r.update(format="zip")), "F0202.*no format 'zip'"),
        (damaged(lambda i, s, r: r.update(nbytes="24")), "F0201.*'nbytes' of type int, got str"),
        (damaged(lambda i, s, r: r.pop("name")), "F0201.*'name' of type str, got NoneType"),
        (damaged(lambda i, s, r: s.update(nbytes=1000)), "F0202.*expected 1000 bytes, got 44"),
        (damaged(lambda i, s, r: s.update(format="tar")), "F0201.*'raw-shard', got 'tar'"),
        (damaged(lambda i, s, r: s.update(dataPath="../secret")), "F0203.*no plain file name"),
        (damaged(lambda i, s, r: s.update(dataPath="/etc/passwd")), "F0203"),
        (damaged(lambda i, s, r: s.update(dataPath="..")), "F0203"),
        (damaged(lambda i, s, r: s.update(dataPath="gone.bin")), "F0202.*cannot read shard"),
        (damaged(lambda i, s, r: i.update(records={})), "F0201.*no list of records"),
        (lambda folder: (folder / "tensor-cache.json").write_text("{"), "F0201.*no JSON"),
        (lambda folder: (folder / "tensor-cache.json").write_text("[]"), "F0201"),
        (lambda folder: (folder / "tensor-cache.json").unlink(), "F0201.*cannot read"),
        (lambda folder: (folder / "params_shard_0.bin").write_bytes(b"123"), "F0202.*44 bytes, got 3"),
        (
            lambda folder: (folder / "params_shard_0.bin").write_bytes(bytes(44)),
            "F0202.*expected bytes of the md5",
        ),
        (damaged(lambda i, s, r: s.update(md5sum="0" * 32)), "F0202.*md5 sum 0000"),
        (damaged(lambda i, s, r: s.update(md5sum=5)), "F0201.*'md5sum' of type str, got int"),
    ],
)
def test_damaged_caches_are_refused_and_load_nothing(tmp_path, change, message):
    tvmjs.dump_tensor_cache({"a": np.zeros((2, 3), "f4"), "b": np.arange(5, dtype="i4")}, tmp_path, "raw")
    change(tmp_path)
    with pytest.raises(FormatError, match=message):
        load(tmp_path)
    assert builtin("tensor_cache.get")("b") is None


def test_an_index_may_have_no_digest_or_one_in_capitals(tmp_path):
    """Other writers' caches are read too."""
    for change in (
        damaged(lambda i, s, r: s.update(md5sum=s["md5sum"].upper())),
        damaged(lambda i, s, r: s.pop("md5sum")),
    ):
        tvmjs.dump_tensor_cache({"b": np.arange(5, dtype="i4")}, tmp_path, "raw")
        change(tmp_path)
        load(tmp_path)
        assert builtin("tensor_cache.get")("b").numpy().tolist() == [0, 1, 2, 3, 4]
        builtin("tensor_cache.clear")()


def test_a_damaged_shard_is_not_written_anew_as_if_it_were_right(tmp_path):
    params = {"a": np.zeros(3, "f4"), "b": np.arange(5, dtype="i4")}
    tvmjs.dump_tensor_cache(params, tmp_path, "raw")
    (tmp_path / "params_shard_0.bin").write_bytes(bytes(32))
    with pytest.raises(FormatError, match=r"F0202.*md5"):
        tvmjs.dump_tensor_cache({"a": np.ones(3, "f4")}, tmp_path, "raw", update_if_exists=True)


def test_what_cannot_be_dumped(tmp_path):
    with pytest.raises(UsageError, match=r"U0302.*got 'int4'"):
        tvmjs.dump_tensor_cache({}, tmp_path, "int4")
    with pytest.raises(IRTypeError, match=r"U0302.*'names'"):
        tvmjs.dump_tensor_cache({"names": np.array(["a"])}, tmp_path)
