"""Building blocks of neural networks."""
