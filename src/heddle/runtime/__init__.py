"""What a compiled program needs to run: dtypes, devices, tensors, packed functions, modules, artefacts,
threads.

The public names of this package stand in `heddle.facade.table`; asking for one loads its module.
"""
