"""Synthetic tables from private marginals: graphical models, their inference, and their samples."""
