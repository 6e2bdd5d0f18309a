"""The configuration of a paged cache: sizes, layer kinds, rotary embedding, kernels. It is checked once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

from heddle.runtime.device import CPU, Device
from heddle.runtime.dtype import DataType
from heddle.runtime.function import Function
from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import TrapTypeError, TrapValueError
from heddle.support.frozen import frozen
from heddle.vm.codes import V0402, V0707

Kernel = Callable[..., Any]
DEFAULT_LAYER_WINDOW = 1024
EMPTY_LSE = -1e30
"""The log-sum-exp of an empty set of tokens: far below every real value, and finite, so that merging needs no
special case."""
BACKENDS = ("tirx", "tir")
"""The backend names that a kernel may have. TVM also knows external libraries, which Heddle does not
support.
"""


class AttnKind(IntEnum):
    """The attention of a layer: over key and value heads (multi-head, multi-query or grouped-query), over
    compressed keys (MLA), or over heads with a sliding window of `layer_window` tokens."""

    MHA = 0
    MLA = 1
    MHA_SLIDING = 3


class RopeMode(IntEnum):
    """When rotary embedding is applied: never, before keys are stored, or each time keys are read."""

    NONE = 0
    NORMAL = 1
    INLINE = 2


_SIZES = (
    "sequences", "tokens", "tokens a step", "tokens a page", "tokens of a layer's window", "query heads",
    "key heads", "key features", "value features",
)  # fmt: skip


@frozen(slots=False)
class CacheConfig:
    """The sizes of a cache: counts of sequences, tokens, heads and features. `layer_begin` is the number of
    the first layer in this cache. `kinds` are the kinds of this cache's layers."""

    num_seqs: int
    num_tokens: int
    prefill_chunk: int
    page_size: int
    is_sliding: bool
    layer_window: int
    layer_begin: int
    kinds: tuple[AttnKind, ...]
    num_qo_heads: int
    num_kv_heads: int
    qk_dim: int
    v_dim: int
    rope_mode: RopeMode
    rope_scale: float
    rope_theta: float
    rope_factors: Tensor | None
    dtype: DataType
    device: Device

    @property
    def num_pages(self) -> int:
        """The number of pages: enough for all tokens, plus one page to copy to when a sequence forks, plus
        pages for sequences whose window starts and ends inside pages."""
        return -(-self.num_tokens // self.page_size) + 1 + (2 * self.num_seqs if self.is_sliding else 0)

    def page_shape(self, kind: AttnKind) -> tuple[int, ...]:
        """Return the shape of one page, that is, without the leading number of pages."""
        if kind is AttnKind.MLA:
            return (self.page_size, self.qk_dim)
        return (2, self.num_kv_heads, self.page_size, self.qk_dim)

    @property
    def rotary_mode(self) -> int:
        """The value of the attention kernels' `rotary_mode` argument."""
        return int(self.rope_mode is RopeMode.INLINE)


@frozen(slots=False)
class CacheKernels:
    """The kernels of a cache; None for a kernel that it does not need. `heddle.frontend.nn.llm` documents
    their parameters."""

    append: Kernel | None
    append_mla: Kernel | None
    ragged: Kernel | None
    prefill: Kernel | None
    decode: Kernel | None
    prefill_sliding: Kernel | None
    decode_sliding: Kernel | None
    tree_paged: Kernel | None
    tree_ragged: Kernel | None
    mla_prefill: Kernel | None
    merge: Kernel | None
    merge_values: Kernel | None
    split_rotary: Kernel | None
    copy_page: Kernel | None
    debug_get: Kernel | None
    compact: Kernel | None

    def need(self, name: str) -> Kernel:
        """Return a kernel by name. Raises: TrapValueError V0707 if it was not given."""
        found: Kernel | None = getattr(self, name)
        if found is None:
            raise TrapValueError(V0707, f"the cache was created without the kernel {name!r}")
        return found


def bad_config(message: str) -> TrapValueError:
    """Return the error for an invalid configuration, or for an operation that the configuration does not
    support."""
    return TrapValueError(V0707, message)


def parse_kernel(what: str, value: Any) -> Kernel | None:
    """Check that a value is a function or None."""
    if value is None:
        return None
    if isinstance(value, Function):
        return value.call
    if not callable(value):
        raise TrapTypeError(V0402, f"{what}: expected a function, got {type(value).__name__}")
    found: Kernel = value
    return found


def parse_attention(what: str, value: Any) -> Kernel | None:
    """Return the kernel of a list (backend, function, ...); None for an empty list."""
    if not isinstance(value, (tuple, list)):
        raise TrapTypeError(
            V0402, f"{what}: expected a list of backend and function, got {type(value).__name__}"
        )
    if not value:
        return None
    if value[0] not in BACKENDS or len(value) < 2:
        raise bad_config(f"{what}: expected ['tirx', function], got {list(value)!r}")
    return parse_kernel(what, value[1])


def parse_config(
    sizes: Sequence[int],
    layers: Sequence[int],
    heads: tuple[int, int, int, int],
    kinds: Sequence[int],
    rope: tuple[int, float, float, Any],
    init: Any,
) -> CacheConfig:
    """Return the configuration from the constructor's arguments. Raises: TrapValueError V0707, TrapTypeError
    V0402."""
    if len(sizes) not in (5, 6):
        raise bad_config(f"expected 5 or 6 sizes, got {len(sizes)}")
    window = int(sizes[5]) if len(sizes) == 6 else DEFAULT_LAYER_WINDOW
    for name, size in zip(_SIZES, (*sizes[:4], window, *heads), strict=True):
        if size < 1:
            raise bad_config(f"expected a positive number of {name}, got {size}")
    if heads[0] % heads[1]:
        raise bad_config(f"expected a multiple of {heads[1]} query heads, got {heads[0]}")
    own = _own_kinds(layers, kinds)
    if heads[2] != heads[3] and any(kind is not AttnKind.MLA for kind in own):
        raise bad_config(f"keys and values share pages: expected {heads[2]} value features, got {heads[3]}")
    if not isinstance(init, Tensor):
        raise TrapTypeError(V0402, f"the initial tensor: expected a tensor, got {type(init).__name__}")
    if init.device.device_type != CPU:
        raise bad_config(f"caches lie in the CPU's memory, got {init.device}")
    return CacheConfig(
        num_seqs=sizes[0],
        num_tokens=sizes[1],
        prefill_chunk=sizes[2],
        page_size=sizes[3],
        is_sliding=bool(sizes[4]),
        layer_window=window,
        layer_begin=layers[0],
        kinds=own,
        num_qo_heads=heads[0],
        num_kv_heads=heads[1],
        qk_dim=heads[2],
        v_dim=heads[3],
        rope_mode=_rope_mode(rope[0], bool(sizes[4]), rope[3]),
        rope_scale=float(rope[1]),
        rope_theta=float(rope[2]),
        rope_factors=rope[3],
        dtype=init.dtype,
        device=init.device,
    )


def _rope_mode(mode: int, is_sliding: bool, factors: Tensor | None) -> RopeMode:
    """Return the RoPE mode. Positions change with sliding windows, so keys can then be rotated only when they
    are read."""
    if mode not in tuple(RopeMode):
        raise bad_config(f"expected rope mode 0, 1 or 2, got {mode}")
    used = RopeMode.INLINE if is_sliding and mode == RopeMode.NORMAL else RopeMode(mode)
    if factors is not None and used is not RopeMode.NORMAL:
        raise bad_config("external rope factors need rope mode 1 and no sliding windows")
    return used


def _own_kinds(layers: Sequence[int], kinds: Sequence[int]) -> tuple[AttnKind, ...]:
    if len(layers) != 2 or not 0 <= layers[0] < layers[1] <= len(kinds):
        raise bad_config(f"expected a range of the {len(kinds)} layers, got {list(layers)}")
    unknown = [kind for kind in kinds if kind not in tuple(AttnKind)]
    if unknown:
        raise bad_config(f"expected layer kinds 0 (MHA), 1 (MLA) or 3 (MHA_SLIDING), got {unknown[0]}")
    return tuple(AttnKind(kind) for kind in kinds[layers[0] : layers[1]])
