"""Losses of linear models, and inference from their noisy sums."""
