"""Guarantees, their conversion and composition, and shuffled reports."""
