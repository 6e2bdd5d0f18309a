"""Observe a machine: profiles, recordings, and a debugger that also runs backwards."""
