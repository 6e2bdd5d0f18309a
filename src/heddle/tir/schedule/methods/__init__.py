"""The primitives of `Schedule`, by topic."""
