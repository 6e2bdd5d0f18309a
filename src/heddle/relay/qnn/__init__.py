"""Relay's quantised operators and their passes."""
