"""Ways to add nodes to a graph, a module for each family of operators."""
