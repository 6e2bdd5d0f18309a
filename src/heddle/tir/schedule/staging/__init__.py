"""Rewrites of buffers and of how blocks reach them."""
