"""Native support: the thread pool, kernel scratch, and the glue between Python and kernels, emitted through
LLVM.
"""

from heddle.runtime.native.glue import make_builtin
from heddle.runtime.native.library import kernel_symbol, link_objects, native_library, set_num_threads

__all__ = ["kernel_symbol", "link_objects", "make_builtin", "native_library", "set_num_threads"]
