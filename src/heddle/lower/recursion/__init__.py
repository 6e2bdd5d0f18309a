"""Convert functions that recurse over values of data types to loops and batched kernels."""
