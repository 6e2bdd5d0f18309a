"""The simplifier: rules, linear normal forms, division, comparison."""
