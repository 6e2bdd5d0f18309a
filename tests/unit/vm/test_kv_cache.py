"""The paged cache, fact by fact; `test_kv_cache_random` runs long programs."""

from __future__ import annotations

import numpy as np
import pytest
from heddle.relax.frontend.nn.llm import kv_cache as names

import heddle
from heddle.frontend.nn.llm.create import create_paged_kv_cache
from heddle.runtime import Shape, cpu, empty, tensor
from heddle.support.diagnostics import Trap, UsageError
from heddle.vm.builtins.kv_cache import AttnKind, RopeMode
from heddle.vm.relax import ExecBuilder, VirtualMachine

from .cache_model import Model, Sequence, attention, builtin, check_pages
from .test_kv_cache_random import DIM, H_KV, H_Q, PAGE, make


def call(name, *args):
    return builtin(name)(*args)


def add(cache, *ids):
    for i in ids:
        call("kv_state_add_sequence", cache, i)


def step(cache, model, ids, lengths, parents=None):
    """One checked step."""
    for i in ids:
        model.sequences.setdefault(i, Sequence())
    flat = None if parents is None else [node for mine in parents for node in mine]
    call("kv_state_begin_forward", cache, Shape(ids), Shape(lengths), flat)
    model.forward(cache, ids, lengths, parents)
    call("kv_state_end_forward", cache)
    for i in ids:
        model.sequences[i].slide()


@pytest.fixture
def plain():
    cache, model = make(np.random.default_rng(0), "normal")
    add(cache, 0)
    step(cache, model, [0], [11])
    return cache, model


# ---- 10.4: sequences


@pytest.mark.fact("10.4")
def test_unknown_and_duplicate_sequences(plain):
    cache, _ = plain
    for name, args in (
        ("kv_state_remove_sequence", (7,)),
        ("kv_state_fork_sequence", (7, 8)),
        ("kv_state_popn", (7, 1)),
        ("kv_state_begin_forward", (Shape([7]), Shape([1]))),
        ("attention_kv_cache_commit_accepted_token_tree_nodes", (Shape([7]), Shape([0]))),
        ("attention_kv_cache_debug_get_kv", (7, 0, 0, np.zeros(1), np.zeros(1))),
    ):
        with pytest.raises(RuntimeError, match=r"V0701.*no sequence 7(.|\n)*1 sequences: 0"):
            call(name, cache, *args)
    with pytest.raises(RuntimeError, match=r"V0702.*sequence 0 exists"):
        add(cache, 0)
    with pytest.raises(RuntimeError, match=r"V0702.*sequence 0 exists"):
        call("kv_state_fork_sequence", cache, 0, 0)


@pytest.mark.fact("10.4")
@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("kv_state_popn", (0, 12), "number of tokens between 0 and 11, got 12"),
        ("kv_state_popn", (0, -1), "between 0 and 11, got -1"),
        ("kv_state_fork_sequence", (0, 1, 12), "fork position between 0 and 11, got 12"),
        ("kv_state_fork_sequence", (0, 1, -2), "between 0 and 11, got -2"),
        ("kv_state_begin_forward", (Shape([0]), Shape([0])), "at least one token to append, got 0"),
        ("kv_state_begin_forward", (Shape([0, 0]), Shape([1, 1])), "each sequence once"),
        ("kv_state_begin_forward", (Shape([]), Shape([])), "at least one sequence"),
        ("kv_state_begin_forward", (Shape([0]), Shape([1, 1])), "length for each of 1 sequences, got 2"),
        ("kv_state_begin_forward", (Shape([0]), Shape([41])), "at most 40 tokens in a step, got 41"),
    ],
)
def test_counts_out_of_range_change_nothing(plain, name, args, message):
    """A number out of range is of the RuntimeError kind."""
    cache, model = plain
    with pytest.raises(RuntimeError, match=rf"V0703.*{message}"):
        call(name, cache, *args)
    step(cache, model, [0], [1])
    assert cache.total_length == 12


@pytest.mark.fact("10.4", "10.10")
def test_order_of_calls(plain):
    cache, _ = plain
    qkv, out = np.zeros((1, H_Q + 2 * H_KV, DIM), "f4"), np.zeros((1, H_Q, DIM), "f4")
    for name, args in (
        ("kv_state_end_forward", ()),
        ("attention_kv_cache_get_query_positions", ()),
        ("attention_kv_cache_attention_with_fused_qkv", (0, 1.0, qkv, out)),
    ):
        with pytest.raises(Trap, match=r"V0705.*expected begin_forward"):
            call(name, cache, *args)
    call("kv_state_begin_forward", cache, Shape([0]), Shape([1]))
    for name, args in (
        ("kv_state_begin_forward", (Shape([0]), Shape([1]))),
        ("kv_state_add_sequence", (1,)),
        ("kv_state_remove_sequence", (0,)),
        ("kv_state_fork_sequence", (0, 1)),
        ("kv_state_popn", (0, 1)),
        ("attention_kv_cache_commit_accepted_token_tree_nodes", (Shape([0]), Shape([0]))),
    ):
        with pytest.raises(Trap, match="V0705"):
            call(name, cache, *args)
    call("kv_state_clear", cache)
    assert cache.is_empty
    add(cache, 0)


@pytest.mark.fact("10.4")
def test_pages_are_handed_out_low_first_and_reused_last_first():
    cache, model = make(np.random.default_rng(1), "none")
    add(cache, 0, 1)
    step(cache, model, [0, 1], [2 * PAGE, PAGE])
    pages = lambda i: cache.sequences[i].leaf.pages  # noqa: E731 (a name for a look-up)
    assert (pages(0), pages(1)) == ([0, 1], [2])
    call("kv_state_remove_sequence", cache, 0)
    add(cache, 3)
    step(cache, model, [3], [3 * PAGE])
    assert pages(3) == [0, 1, 3]


# ---- 10.5: creation


def tvm_kernels(dtype="float32", page_size=PAGE, layers=2):
    """The kernels by TVM's names and signatures, compiled one by one."""
    args, rest = (H_KV, H_Q, DIM, dtype), ({}, page_size)
    kernels = {
        "append": names._kv_cache_transpose_append(H_KV, DIM, dtype, page_size),
        "ragged": names._attention_prefill_ragged_cpu(H_KV, H_Q, DIM, DIM, dtype, {}),
        "prefill": names._attention_prefill_cpu(*args, False, *rest),
        "decode": names._attention_decode_cpu(*args, False, *rest),
        "prefill_sliding": names._attention_prefill_cpu(*args, True, *rest),
        "decode_sliding": names._attention_decode_cpu(*args, True, *rest),
        "tree_paged": names.tree_attn_with_paged_kv_cache_cpu(*args, *rest),
        "tree": names.tree_attn_cpu(*args, {}),
        "merge": names._merge_state_inplace_cpu(dtype),
        "split": names.llama_rope_with_position_map(1e4, 1.0, DIM, H_Q, H_KV, dtype, {}),
        "copy": names._copy_single_page_cpu(H_KV, page_size, DIM, dtype),
        "debug": names._kv_cache_debug_get_kv(layers, H_KV, DIM, dtype),
        "compact": names._compact_kv_copy_cpu(H_KV, DIM, dtype, page_size),
    }
    return {name: heddle.build(func)[func.attrs["global_symbol"]] for name, func in kernels.items()}


def arguments(**changes):
    k = tvm_kernels()
    lists = ("ragged", "prefill", "decode", "prefill_sliding", "decode_sliding", "tree_paged", "tree")
    named = {
        "sizes": Shape([4, 100, 40, PAGE, 0]),
        "layers": Shape([0, 2]),
        "heads": H_Q,
        "kv_heads": H_KV,
        "qk_dim": DIM,
        "v_dim": DIM,
        "kinds": Shape([0, 0]),
        "transfer": False,
        "mode": 1,
        "scale": 1.0,
        "theta": 1e4,
        "factors": None,
        "init": empty((), "float32", cpu()),
        "append": k["append"],
        "append_mla": None,
        **{name: ["tirx", k[name]] for name in lists},
        "mla": [],
        "merge": [k["merge"]],
        "split": k["split"],
        "copy": k["copy"],
        "debug": k["debug"],
        "compact": k["compact"],
    }
    return list({**named, **changes}.values())


@pytest.mark.fact("10.5")
def test_create_with_the_kernels_named_as_in_tvm():
    """28 arguments, kernels as lists."""
    model = Model(np.random.default_rng(2), 2, H_Q, H_KV, DIM, "normal")
    model.theta, model.rope_scale = 1e4, 1.0
    cache = call("paged_attention_kv_cache_create", *arguments())
    assert call("attention_kv_cache_get_num_available_pages", cache) == 100 // PAGE + 1
    add(cache, 0)
    step(cache, model, [0], [9])
    step(cache, model, [0], [1])
    model.check_stored(cache, 0)
    assert cache.pages[0].shape == (26, 2, H_KV, PAGE, DIM)


@pytest.mark.fact("10.5", "10.9")
def test_last_kernel_is_for_token_trees_only():
    cache = call("paged_attention_kv_cache_create", *arguments(compact=None))
    model = Model(np.random.default_rng(3), 2, H_Q, H_KV, DIM, "normal")
    model.theta, model.rope_scale = 1e4, 1.0
    add(cache, 0)
    step(cache, model, [0], [3], [[-1, 0, 0]])
    with pytest.raises(ValueError, match=r"V0707.*without the kernel 'compact'"):
        call("attention_kv_cache_commit_accepted_token_tree_nodes", cache, Shape([0]), Shape([2]))


@pytest.mark.fact("10.5")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": Shape([4, 100, 40, PAGE])}, "V0707.*5 or 6 sizes, got 4"),
        ({"sizes": Shape([4, 100, 40, 0, 0])}, "V0707.*positive number of tokens a page, got 0"),
        ({"sizes": 3}, "V0402.*sizes: expected a shape, got int"),
        ({"layers": Shape([0, 3])}, "V0707.*range of the 2 layers"),
        ({"layers": Shape([1, 1])}, "V0707.*range of the 2 layers"),
        ({"kinds": Shape([0, 2])}, "V0707.*MHA_SLIDING.*got 2"),
        ({"heads": 5}, "V0707.*multiple of 2 query heads, got 5"),
        ({"v_dim": 16}, "V0707.*expected 8 value features, got 16"),
        ({"transfer": True}, "V0707.*transfer"),
        ({"mode": 3}, "V0707.*rope mode 0, 1 or 2, got 3"),
        ({"mode": 0, "factors": tensor(np.zeros(8, "f4"))}, "V0707.*factors need rope mode 1"),
        ({"factors": 1.5}, "V0402.*rope factors"),
        ({"init": 1}, "V0402.*initial tensor"),
        ({"prefill": ["flashinfer", print]}, "V0707.*paged prefill: expected .'tirx', function."),
        ({"prefill": None}, "V0402.*paged prefill: expected a list"),
        ({"decode": ["tirx", 7]}, "V0402.*decode: expected a function, got int"),
        ({"merge": print}, "V0402.*merges"),
    ],
)
def test_contradictory_configurations(changes, message):
    with pytest.raises(Trap, match=message):
        call("paged_attention_kv_cache_create", *arguments(**changes))


@pytest.mark.fact("10.5")
def test_wrong_number_of_arguments():
    for given, count in ((arguments()[:-1], 27), ([*arguments(), None, None], 30)):
        with pytest.raises(TypeError, match=rf"V0408.*28 or 29 arguments, got {count}"):
            call("paged_attention_kv_cache_create", *given)
    assert call("paged_attention_kv_cache_create", *arguments(), None).is_empty
    with pytest.raises(TypeError, match=r"V0402.*argument 29: expected None, got int"):
        call("paged_attention_kv_cache_create", *arguments(), 1)


@pytest.mark.fact("10.5")
def test_number_of_pages():
    """There are ceil(tokens / page) + 1, and 2 for each sequence with sliding windows."""
    for is_sliding, expected in ((False, 11), (True, 27)):
        cache, _ = make(np.random.default_rng(0), "normal", is_sliding, tokens=38)
        assert cache.num_free_pages == expected
        # With a sliding window and rope on, the rope mode is forced to inline.
        assert cache.config.rope_mode is (RopeMode.INLINE if is_sliding else RopeMode.NORMAL)


@pytest.mark.fact("10.5")
def test_part_of_the_layers():
    """The layer range."""
    cache = create_paged_kv_cache(
        max_batch_size=2,
        max_total_seq_len=20,
        prefill_chunk_size=8,
        num_hidden_layers=5,
        num_attention_heads=H_Q,
        num_key_value_heads=H_KV,
        qk_head_dim=DIM,
        page_size=PAGE,
        layer_range=(3, 5),
    )
    add(cache, 0)
    call("kv_state_begin_forward", cache, Shape([0]), Shape([1]))
    qkv, out = np.ones((1, H_Q + 2 * H_KV, DIM), "f4"), np.zeros((1, H_Q, DIM), "f4")
    for layer in (3, 4):
        call("attention_kv_cache_attention_with_fused_qkv", cache, layer, 1.0, qkv, out)
        np.testing.assert_allclose(out, 1)
    for layer in (2, 5):
        with pytest.raises(Trap, match=rf"V0703.*layer from 3 to 4, got {layer}"):
            call("attention_kv_cache_attention_with_fused_qkv", cache, layer, 1.0, qkv, out)


@pytest.mark.fact("10.5")
def test_what_the_constructor_with_kernels_refuses():
    options = {
        "max_batch_size": 2,
        "max_total_seq_len": 20,
        "prefill_chunk_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": H_Q,
        "num_key_value_heads": H_KV,
        "qk_head_dim": DIM,
    }
    for changes, message in (
        ({"attn_kind": "mhx"}, "N0402.*mha, mla or mha_sliding"),
        ({"attn_kind": ["mha"]}, "N0402.*2 attention kinds"),
        ({"attn_kind": ["mha", "mla"]}, "N0402.*cannot be mixed"),
        ({"num_attention_heads": 3}, "N0402.*multiple of 2 query heads"),
        ({"rope_scaling": {"rope_type": "x"}}, "N0401.*'x'"),
    ):
        with pytest.raises(UsageError, match=message):
            create_paged_kv_cache(**{**options, **changes})


# ---- 10.6: forking and popping


@pytest.mark.fact("10.6")
def test_forks_share_whole_pages_and_copy_a_part_filled_one(plain):
    """Of 11 tokens in pages of 4, two pages are shared and the third is copied."""
    cache, model = plain
    free = cache.num_free_pages
    call("kv_state_fork_sequence", cache, 0, 1)
    model.fork(0, 1, -1)
    assert cache.num_free_pages == free - 1
    call("kv_state_fork_sequence", cache, 0, 2, 8)
    model.fork(0, 2, 8)
    assert cache.num_free_pages == free - 1
    assert cache.sequences[1].leaf.parent is cache.sequences[2].leaf.parent
    step(cache, model, [0, 1, 2], [1, 1, 1])
    step(cache, model, [2, 0, 1], [5, 2, 3])
    for i in (0, 1, 2):
        model.check_stored(cache, i)


@pytest.mark.fact("10.6")
def test_popping_into_a_shared_block_leaves_it_to_the_others(plain):
    """It is done by forking."""
    cache, model = plain
    call("kv_state_fork_sequence", cache, 0, 1)
    model.fork(0, 1, -1)
    for i, count in ((1, 6), (0, 11)):
        call("kv_state_popn", cache, i, count)
        tokens = model.sequences[i].tokens
        del tokens[len(tokens) - count :]
        model.check_stored(cache, 0)
        model.check_stored(cache, 1)
        check_pages(cache)
    step(cache, model, [0, 1], [3, 2])


@pytest.mark.fact("10.6")
def test_deep_families_of_sequences():
    """At most two parts a sequence, deeper blocks are concatenated."""
    cache, model = make(np.random.default_rng(4), "normal")
    add(cache, 0)
    step(cache, model, [0], [9])
    for child in range(1, 9):
        call("kv_state_fork_sequence", cache, child - 1, child)
        model.fork(child - 1, child, -1)
        step(cache, model, [child], [5])
    assert len(cache.sequences[8].leaf.path()) > 4
    step(cache, model, list(range(9)), [1] * 9)
    step(cache, model, [8, 3, 5], [3, 1, 2])
    for i in (4, 0, 8, 1, 2, 3, 5, 6, 7):
        call("kv_state_remove_sequence", cache, i)
        check_pages(cache)
    assert call("attention_kv_cache_empty", cache)


@pytest.mark.fact("10.6")
def test_neighbours_read_a_shared_prefix_together():
    """One entry for the prefix, whose queries are those of both sequences."""
    cache, model = make(np.random.default_rng(5), "none")
    add(cache, 0)
    step(cache, model, [0], [2 * PAGE])
    for child in (1, 2):
        call("kv_state_fork_sequence", cache, 0, child)
        model.fork(0, child, -1)
    call("kv_state_begin_forward", cache, Shape([1, 2, 0]), Shape([1, 2, 1]))
    prefix = cache._plan.prefix
    assert prefix.q_indptr.numpy().tolist() == [0, 4]
    assert prefix.page_values.numpy().tolist() == cache.sequences[1].leaf.parent.pages
    call("kv_state_end_forward", cache)


@pytest.mark.fact("10.4")
def test_full_cache():
    """Exhausted pages are refused before anything changes."""
    cache, model = make(np.random.default_rng(6), "none", tokens=3 * PAGE)
    add(cache, 0, 1)
    step(cache, model, [0], [2 * PAGE])
    with pytest.raises(Trap, match=r"V0704.*expected 4 free pages for 10 tokens, got 2 of 4"):
        call("kv_state_begin_forward", cache, Shape([0, 1]), Shape([5, 5]))
    step(cache, model, [0, 1], [4, 3])
    with pytest.raises(Trap, match=r"V0704.*expected 1 free pages, got 0 of 4"):
        call("kv_state_fork_sequence", cache, 1, 2)
    assert 2 not in cache.sequences.by_id
    step(cache, model, [1], [1])
    call("kv_state_fork_sequence", cache, 1, 2)  # full pages need no copy


# ---- 10.7: attention


@pytest.mark.fact("10.7")
def test_rows_beyond_the_step_do_not_count(plain):
    """... and what does not fit."""
    cache, _ = plain
    call("kv_state_begin_forward", cache, Shape([0]), Shape([2]))
    fused = H_Q + 2 * H_KV
    for qkv, out, message in (
        (
            np.zeros((1, fused, DIM), "f4"),
            np.zeros((2, H_Q, DIM), "f4"),
            "qkv: expected at least 2 rows, got 1",
        ),
        (
            np.zeros((2, fused, DIM), "f4"),
            np.zeros((1, H_Q, DIM), "f4"),
            "out: expected at least 2 rows, got 1",
        ),
        (np.zeros((2, fused, DIM), "f2"), np.zeros((2, H_Q, DIM), "f4"), "qkv: expected dtype float32"),
        (
            np.zeros((2, fused - 1, DIM), "f4"),
            np.zeros((2, H_Q, DIM), "f4"),
            r"qkv: expected shape \(any, 8, 8\)",
        ),
        (np.zeros((2, fused, DIM), "f4"), np.zeros((2, H_Q), "f4"), r"out: expected shape \(any, 4, 8\)"),
    ):
        with pytest.raises(ValueError, match=rf"V070[38].*{message}"):
            call("attention_kv_cache_attention_with_fused_qkv", cache, 0, 1.0, qkv, out)
    with pytest.raises(TypeError, match=r"V0402.*expected a paged cache, got str"):
        call("attention_kv_cache_empty", "cache")


@pytest.mark.fact("10.7")
def test_attention_in_pieces_is_the_same(plain):
    """Self attention merged with attention over the pages through log-sum-exp."""
    cache, model = plain
    rng = np.random.default_rng(8)
    tokens = model.sequences[0].tokens
    q, k, v = (rng.standard_normal((3, h, DIM)).astype("f4") for h in (H_Q, H_KV, H_KV))
    call("kv_state_begin_forward", cache, Shape([0]), Shape([3]))
    pairs = [(np.zeros((3, H_Q, DIM), "f4"), np.zeros((3, H_Q), "f4")) for _ in range(2)]
    call("attention_kv_cache_self_attention", cache, 1, 0.5, q, k, v, *pairs[0])
    call("attention_kv_cache_cross_attention", cache, 1, 0.5, q, *pairs[1])
    merged = call("attention_kv_cache_merge_attn_output_inplace", cache, *pairs[0], *pairs[1])
    keys = np.concatenate([np.stack([model.stored_key(t, 1) for t in tokens]), k.astype("f8")])
    values = np.concatenate([np.stack([t.v[1] for t in tokens]), v]).astype("f8")
    seen = np.arange(14)[None] <= np.arange(11, 14)[:, None]
    np.testing.assert_allclose(
        merged[0].numpy(), attention(q.astype("f8"), keys, values, 0.5, seen), rtol=1e-4, atol=1e-4
    )


@pytest.mark.fact("10.7")
def test_attention_over_nothing():
    """Nothing cached gives zeros, and merging with it changes nothing."""
    cache, _ = make(np.random.default_rng(9), "none")
    add(cache, 0)
    call("kv_state_begin_forward", cache, Shape([0]), Shape([2]))
    out, lse = np.ones((2, H_Q, DIM), "f4"), np.zeros((2, H_Q), "f4")
    call("attention_kv_cache_cross_attention", cache, 0, 1.0, np.ones((2, H_Q, DIM), "f4"), out, lse)
    assert not out.any() and (lse < -1e29).all()


# ---- 10.8: sliding windows


@pytest.mark.fact("10.8")
@pytest.mark.parametrize("sink", [0, 3, PAGE])
def test_window_of_a_sequence(sink):
    """What falls out is dropped by pages, the sink stays."""
    cache, model = make(np.random.default_rng(10), "normal", is_sliding=True)
    add(cache, 0)
    call("attention_kv_cache_enable_sliding_window_for_seq", cache, 0, 10, sink)
    model.sequences[0] = Sequence(window=10, sink=sink)
    for length in (7, 1, 9, *[1] * 14, 13):
        step(cache, model, [0], [length])
        model.check_stored(cache, 0)
        assert len(cache.sequences[0].leaf.pages) <= -(-10 // PAGE) + 2
    call("kv_state_popn", cache, 0, 8)
    del model.sequences[0].tokens[2:]
    model.check_stored(cache, 0)
    step(cache, model, [0], [3])


@pytest.mark.fact("10.8")
def test_shared_prefix_counts_as_sink():
    cache, model = make(np.random.default_rng(11), "none", is_sliding=True)
    add(cache, 0)
    step(cache, model, [0], [10])
    call("kv_state_fork_sequence", cache, 0, 1, 9)
    model.fork(0, 1, 9)
    call("attention_kv_cache_enable_sliding_window_for_seq", cache, 1, 12, 2)
    seq = model.sequences[1]
    seq.window, seq.sink = 12, 8
    for _ in range(6):
        step(cache, model, [1, 0], [3, 1])
    assert [t.position for t in seq.tokens[:9]] != list(range(9))  # the ninth was not in a full page
    assert [t.position for t in seq.tokens[:8]] == list(range(8))
    model.check_stored(cache, 1)


@pytest.mark.fact("10.8")
def test_windows_that_are_refused():
    """Once per sequence, sink < window, window > 0."""
    cache, model = make(np.random.default_rng(12), "none", is_sliding=True)
    add(cache, 0, 1)
    step(cache, model, [0], [13])
    call("kv_state_fork_sequence", cache, 0, 2)
    enable = builtin("attention_kv_cache_enable_sliding_window_for_seq")
    for seq, window, sink, message in (
        (1, 0, 0, "V0703.*window of at least 1"),
        (1, 5, 5, "V0703.*smaller sink, got window 5 and sink 5"),
        (1, 5, -1, "V0703"),
        (2, 12, 0, "V0703.*shares its first 12 tokens"),
        (9, 5, 1, "V0701"),
    ):
        with pytest.raises(RuntimeError, match=message):
            enable(cache, seq, window, sink)
    enable(cache, 1, 5, 2)
    with pytest.raises(RuntimeError, match=r"V0705.*a sliding window already"):
        enable(cache, 1, 6, 2)
    step(cache, model, [1], [9])
    with pytest.raises(Trap, match=r"V0703.*fork position of at most 2 \(its sink\), got 5"):
        call("kv_state_fork_sequence", cache, 1, 3)
    with pytest.raises(Trap, match=r"V0705.*cannot take a token tree"):
        call("kv_state_begin_forward", cache, Shape([1]), Shape([2]), Shape([-1, -1]))
    with pytest.raises(ValueError, match=r"V0707.*without support for sliding"):
        enable(make(np.random.default_rng(0), "none")[0], 0, 5, 1)
    windows, _ = make(np.random.default_rng(0), "none", True, kinds=[AttnKind.MHA_SLIDING])
    add(windows, 0)
    with pytest.raises(ValueError, match=r"V0707.*window of their own"):
        enable(windows, 0, 5, 1)


@pytest.mark.fact("10.5")
def test_layers_with_windows_look_back_so_far_only():
    """Kind 3 and the sixth size; also across shared blocks."""
    kinds = [AttnKind.MHA, AttnKind.MHA_SLIDING]
    cache, model = make(np.random.default_rng(13), "normal", kinds=kinds, layer_window=6)
    add(cache, 0)
    step(cache, model, [0], [10])
    call("kv_state_fork_sequence", cache, 0, 1, 9)
    model.fork(0, 1, 9)
    step(cache, model, [0, 1], [9, 1])
    step(cache, model, [1, 0], [1, 1])
    with pytest.raises(Trap, match=r"V0707.*plain multi-head"):
        call("kv_state_begin_forward", cache, Shape([0]), Shape([2]), Shape([-1, -1]))
    call("kv_state_begin_forward", cache, Shape([0]), Shape([1]))
    q, lse = np.zeros((1, H_Q, DIM), "f4"), np.zeros((1, H_Q), "f4")
    with pytest.raises(Trap, match=r"V0707.*layer 1 has a window"):
        call("attention_kv_cache_cross_attention", cache, 1, 1.0, q, q.copy(), lse)


# ---- 10.9: token trees


@pytest.mark.fact("10.9")
def test_tree_then_commit(plain):
    """The path from root to leaf is kept; -1 drops all."""
    cache, model = plain
    add(cache, 1)
    step(cache, model, [1], [3])
    trees = [[-1, 0, 0, 1, 1, 2], [-1, -1, 0]]
    step(cache, model, [0, 1], [6, 3], trees)
    step(cache, model, [0], [2], [[3, 5]])  # the tree grows
    np.testing.assert_array_equal(cache.total_length, 11 + 8 + 3 + 3)
    commit = builtin("attention_kv_cache_commit_accepted_token_tree_nodes")
    for bad, message in (
        ((Shape([0]), Shape([8])), "V0706.*leaf from -1 to 7, got 8"),
        ((Shape([0]), Shape([-2])), "V0706.*got -2"),
        ((Shape([0]), Shape([1, 2])), "V0703.*leaf for each of 1"),
    ):
        with pytest.raises(Trap, match=message):
            commit(cache, *bad)
    commit(cache, Shape([0, 1]), Shape([7, -1]))
    seq = model.sequences[0]
    seq.tokens = [*seq.tokens[:11], *(seq.tokens[11 + node] for node in (0, 2, 5, 7))]
    seq.parents = model.sequences[1].parents = None
    del model.sequences[1].tokens[3:]
    model.check_stored(cache, 0)
    model.check_stored(cache, 1)
    with pytest.raises(Trap, match=r"V0705.*no token tree to commit"):
        commit(cache, Shape([0]), Shape([0]))
    step(cache, model, [0, 1], [1, 1])


@pytest.mark.fact("10.9")
def test_trees_that_wait_for_a_commit(plain):
    """A commit must come before the next non-tree forward."""
    cache, model = plain
    step(cache, model, [0], [2], [[-1, -1]])
    for name, args in (
        ("kv_state_begin_forward", (Shape([0]), Shape([1]))),
        ("kv_state_fork_sequence", (0, 1)),
        ("kv_state_popn", (0, 1)),
    ):
        with pytest.raises(Trap, match=r"V0705.*token tree"):
            call(name, cache, *args)
    call("kv_state_remove_sequence", cache, 0)
    assert cache.is_empty


@pytest.mark.fact("10.9")
@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([-1, 1], "V0706.*node 1 of the token tree has parent 1, expected -1 to 0"),
        ([-1, -2], "V0706.*parent -2"),
        ([-1], "V0703.*expected 2 parents in the token trees, got 1"),
    ],
)
def test_malformed_trees(plain, parents, message):
    cache, model = plain
    with pytest.raises(Trap, match=message):
        call("kv_state_begin_forward", cache, Shape([0]), Shape([2]), Shape(parents))
    step(cache, model, [0], [1])


@pytest.mark.fact("10.9")
def test_trees_need_keys_rotated_when_stored():
    cache, model = make(np.random.default_rng(14), "inline")
    add(cache, 0)
    step(cache, model, [0], [3], [[-1, 0, 1]])  # a chain is no branching tree
    with pytest.raises(ValueError, match=r"V0707.*rotated when they are stored"):
        call("kv_state_begin_forward", cache, Shape([0]), Shape([2]), Shape([0, 0]))


# ---- 10.10: looking inside


@pytest.mark.fact("10.10")
def test_reading_back(plain):
    cache, model = plain
    model.check_stored(cache, 0, 3, 9)
    k = np.zeros((2, 4, H_KV, DIM), "f4")
    read = builtin("attention_kv_cache_debug_get_kv")
    for start, end, target, message in (
        (0, 12, k, "V0703.*an end between 0 and 11, got 12"),
        (5, 4, k, "V0703.*a start between 0 and 4, got 5"),
        (0, 5, k, r"V0708.*shape \(2, 5, 2, 8\), got \(2, 4, 2, 8\)"),
        (0, 4, k.astype("f2"), "V0708.*dtype float32"),
    ):
        with pytest.raises(Trap, match=message):
            read(cache, 0, start, end, target, target)
    with pytest.raises(ValueError, match=r"V0707.*another form"):
        call("attention_kv_cache_debug_get_kv_mla", cache, 0, 0, 4, k)
    assert call("attention_kv_cache_get_total_sequence_length", cache) == 11


@pytest.mark.fact("10.10")
def test_every_page_is_free_after_all_sequences_are_removed(plain):
    cache, _ = plain
    call("kv_state_fork_sequence", cache, 0, 1, 6)
    assert not call("attention_kv_cache_empty", cache)
    for i in (0, 1):
        call("kv_state_remove_sequence", cache, i)
    assert call("attention_kv_cache_empty", cache)
    assert call("attention_kv_cache_get_num_available_pages", cache) == 61


# ---- latent attention


@pytest.fixture
def latent():
    return create_paged_kv_cache(
        max_batch_size=4,
        max_total_seq_len=120,
        prefill_chunk_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        qk_head_dim=24,
        v_head_dim=16,
        attn_kind="mla",
        mla_original_qk_head_dim=12,
        mla_original_v_head_dim=16,
        page_size=PAGE,
        rope_mode=RopeMode.NONE,
    )


@pytest.mark.fact("10.5", "10.7")
def test_latent_attention(latent):
    """MLA in pieces; decode finds the new token in its page, prefill merges."""
    rng, stored = np.random.default_rng(15), {0: [], 1: [], 2: []}
    add(latent, 0, 1)
    for number, (ids, lengths) in enumerate(
        [([0, 1], [9, 3]), ([0, 1], [1, 1]), ([0], [4]), ([2, 0, 1], [1, 1, 1]), ([2, 0], [6, 2])]
    ):
        if number == 3:
            call("kv_state_fork_sequence", latent, 0, 2, 10)
            stored[2] = stored[0][:10]
        total, is_decode = sum(lengths), max(lengths) == 1
        kv = rng.standard_normal((2, total, 24)).astype("f4")
        call("kv_state_begin_forward", latent, Shape(ids), Shape(lengths))
        for layer in range(2):
            q = rng.standard_normal((total, 4, 24)).astype("f4")
            out, lse = np.zeros((total, 4, 16), "f4"), np.zeros((total, 4), "f4")
            if is_decode:
                assert call("attention_kv_cache_append_mla_kv", latent, layer, kv[layer]) is latent
            call("attention_kv_cache_cross_attention", latent, layer, 0.3, q, out, lse)
            row = 0
            for i, length in zip(ids, lengths, strict=True):
                keys = [token[layer] for token in stored[i]]
                keys += list(kv[layer, row : row + length]) if is_decode else []
                rows = slice(row, row + length)
                if keys:
                    k = np.stack(keys)[:, None].astype("f8")
                    seen = np.ones((length, len(keys)), bool)
                    expected = attention(q[rows].astype("f8"), k, k[..., :16], 0.3, seen)
                    np.testing.assert_allclose(out[rows], expected, rtol=1e-4, atol=1e-4)
                row += length
            if not is_decode:
                call("attention_kv_cache_append_mla_kv", latent, layer, kv[layer])
        call("kv_state_end_forward", latent)
        row = 0
        for i, length in zip(ids, lengths, strict=True):
            stored[i] = stored[i] + [kv[:, row + j] for j in range(length)]
            row += length
    for i, tokens in stored.items():
        got = np.zeros((2, len(tokens), 24), "f4")
        call("attention_kv_cache_debug_get_kv_mla", latent, i, 0, len(tokens), got)
        np.testing.assert_array_equal(got, np.stack(tokens, 1))


@pytest.mark.fact("10.7")
def test_latent_self_attention_has_sizes_of_its_own(latent):
    rng = np.random.default_rng(16)
    add(latent, 0, 1)
    call("kv_state_begin_forward", latent, Shape([0, 1]), Shape([5, 2]))
    q, k, v = (rng.standard_normal((7, 4, d)).astype("f4") for d in (12, 12, 16))
    out, lse = np.zeros((7, 4, 16), "f4"), np.zeros((7, 4), "f4")
    call("attention_kv_cache_self_attention", latent, 0, 0.2, q, k, v, out, lse)
    for rows in (slice(0, 5), slice(5, 7)):
        n = rows.stop - rows.start
        expected = attention(*(x[rows].astype("f8") for x in (q, k, v)), 0.2, np.tri(n, dtype=bool))
        np.testing.assert_allclose(out[rows], expected, rtol=1e-4, atol=1e-4)
    fused = np.zeros((7, 12, 24), "f4")
    with pytest.raises(Trap, match=r"V0707.*layer 0 has latent attention"):
        call("attention_kv_cache_attention_with_fused_qkv", latent, 0, 1.0, fused, out)
    with pytest.raises(Trap, match=r"V0708.*kv: expected shape \(any, 24\)"):
        call("attention_kv_cache_append_mla_kv", latent, 0, np.zeros((7, 16), "f4"))


# ---- from a program


@pytest.mark.fact("10.10")
def test_a_program_that_decodes():
    """The builtins are called from bytecode by name."""
    cache, _ = make(np.random.default_rng(17), "normal")
    add(cache, 0)
    ib = ExecBuilder()
    with ib.function("decode", num_inputs=4):
        ids, lengths = ib.convert_constant(Shape([0])), ib.convert_constant(Shape([1]))
        ib.emit_call("vm.builtin.kv_state_begin_forward", [ib.r(0), ids, lengths])
        for layer in range(2):
            ib.emit_call(
                "vm.builtin.attention_kv_cache_attention_with_fused_qkv",
                [ib.r(0), ib.imm(layer), ib.r(3), ib.r(1), ib.r(2)],
            )
        ib.emit_call("vm.builtin.kv_state_end_forward", [ib.r(0)])
        ib.emit_ret(ib.r(2))
    vm = VirtualMachine(ib.get(), cpu())
    qkv = np.ones((1, H_Q + 2 * H_KV, DIM), "f4")
    out = vm["decode"](cache, qkv, np.zeros((1, H_Q, DIM), "f4"), 0.5)
    np.testing.assert_allclose(out.numpy(), 1, rtol=1e-6)
    assert cache.total_length == 1
