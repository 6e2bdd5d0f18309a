"""What every room stands on: spans, diagnostics, registries, names, files, settings. Standard library
only.
"""
