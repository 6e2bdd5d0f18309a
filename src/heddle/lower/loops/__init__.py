"""Loops of graphs, which are functions that call themselves, as loops of one loop function."""
