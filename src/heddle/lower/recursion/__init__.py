"""Functions that recurse over values of data types, as loops and batches of kernels."""
