"""What a compiled program needs to run: dtypes, devices, tensors, packed functions, modules, artefacts, threads."""
