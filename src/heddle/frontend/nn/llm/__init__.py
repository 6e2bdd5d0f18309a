"""Language models: the kernels behind key-value caches, and caches made with them."""
