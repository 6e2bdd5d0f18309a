"""Convert graph loops (recursive functions) to loops of a single loop function."""
