"""Scalar expressions. Every module of the room comes with `ops`, which Python's operators on nodes call."""

from heddle.prim import ops

__all__ = ["ops"]
