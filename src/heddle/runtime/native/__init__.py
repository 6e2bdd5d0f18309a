"""The native runtime library: the thread pool, scratch memory of kernels, memory pools, values of compiled
programs, and the calls between Python and kernels. LLVM compiles it from the IR texts in this folder."""
