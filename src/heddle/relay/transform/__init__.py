"""Passes of the relay dialect, one to a file."""
