"""Heddle: a compiler and virtual machine for machine-learning models."""

__version__ = "0.1.0"
