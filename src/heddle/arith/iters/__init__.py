"""Iterator maps."""
