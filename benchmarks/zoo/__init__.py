"""Networks of all kinds that users bring, compiled once with free sizes and measured at several.

`python -m benchmarks.zoo` measures the half that we tune to. A name's hash says which half it is in, so that
nobody chooses; the other half (`--half validation`) is run when work is thought to be done.
"""
