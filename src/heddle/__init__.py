"""Heddle: a compiler and virtual machine for machine-learning models."""
