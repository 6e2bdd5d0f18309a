"""What Relay calls the operators, and what its arguments are for their records."""
