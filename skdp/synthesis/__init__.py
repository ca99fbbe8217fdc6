"""Synthetic tables from private marginals: graphical models, their inference, and their samples."""

from skdp.synthesis._resampler import SyntheticResampler
from skdp.synthesis._synthesizer import DPMarginalSynthesizer

__all__ = ["DPMarginalSynthesizer", "SyntheticResampler"]
