"""Synthetic tables from private marginals: graphical models, their inference, and their samples."""

from skdp.synthesis._column_synthesizer import DPColumnSynthesizer
from skdp.synthesis._inference import synthetic_inference
from skdp.synthesis._linked import DPLinkedSynthesizer
from skdp.synthesis._marginal import DPMarginalSynthesizer
from skdp.synthesis._resampler import SyntheticResampler
from skdp.synthesis.answers._synthetic_rows import check_n_samples as check_n_samples

__all__ = [
    "DPColumnSynthesizer",
    "DPLinkedSynthesizer",
    "DPMarginalSynthesizer",
    "SyntheticResampler",
    "synthetic_inference",
]
