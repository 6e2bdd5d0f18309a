"""Native support: the thread pool, kernel scratch, memory pools, values of compiled programs, and the glue
between Python and kernels, all emitted through LLVM from the texts beside this file.
"""
