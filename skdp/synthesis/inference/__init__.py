"""Estimates, intervals and tests of what a synthetic table shows."""

from skdp.synthesis.inference._synthetic_inference import synthetic_inference

__all__ = ["synthetic_inference"]
