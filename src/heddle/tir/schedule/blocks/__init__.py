"""Rewrites of blocks."""
