"""Watching a machine: profiles, recordings, and a debugger that goes both ways."""
