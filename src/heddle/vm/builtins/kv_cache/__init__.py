"""Key-value caches and recurrent states: the data that language model programs keep between steps.

`docs/kv_cache.md` explains pages, blocks and sequences with a drawing.
"""

from heddle.vm.builtins.kv_cache.config import EMPTY_LSE, AttnKind, CacheConfig, RopeMode
from heddle.vm.builtins.kv_cache.paged import PagedKVCache
from heddle.vm.builtins.kv_cache.state import KVState

__all__ = ["EMPTY_LSE", "AttnKind", "CacheConfig", "KVState", "PagedKVCache", "RopeMode"]
