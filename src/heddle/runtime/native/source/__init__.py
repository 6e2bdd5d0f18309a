"""Sources of the native library, in a typed subset of Python. They are imported only to regenerate the
library's LLVM IR, never when models run."""
