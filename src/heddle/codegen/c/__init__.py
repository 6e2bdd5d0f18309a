"""Portable C99 from lowered loop functions and from programs of the machine."""
