"""Synthetic tables from private marginals: graphical models, their inference, and their samples."""

from skdp.synthesis._column_synthesizer import DPColumnSynthesizer
from skdp.synthesis._counts import ModelCount
from skdp.synthesis._inference import synthetic_inference
from skdp.synthesis._linked_synthesizer import DPLinkedSynthesizer
from skdp.synthesis._resampler import SyntheticResampler
from skdp.synthesis._rows import check_n_samples as check_n_samples
from skdp.synthesis._synthesizer import DPMarginalSynthesizer

__all__ = [
    "DPColumnSynthesizer",
    "DPLinkedSynthesizer",
    "DPMarginalSynthesizer",
    "ModelCount",
    "SyntheticResampler",
    "synthetic_inference",
]
