"""Relay programs beside their peers: recursion, data types, and whole networks on each executor."""
