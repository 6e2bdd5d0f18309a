"""How gradients of operators are found: rules of the records, a file a family."""
