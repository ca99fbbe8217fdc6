"""Analyses of a table of noisy counts."""
