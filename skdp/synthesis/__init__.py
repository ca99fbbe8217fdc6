"""Synthetic tables from private marginals: graphical models, their inference, and their samples."""

from skdp.synthesis._answers import ModelCount
from skdp.synthesis._classifier import MarginalClassifier
from skdp.synthesis._inference import synthetic_inference
from skdp.synthesis._quality import changes_by_fair as changes_by_fair
from skdp.synthesis._quality import changes_of_rows as changes_of_rows
from skdp.synthesis._quality import derived_columns as derived_columns
from skdp.synthesis._quality import marginal_quality as marginal_quality
from skdp.synthesis._quality import number_quality as number_quality
from skdp.synthesis._resampler import SyntheticResampler
from skdp.synthesis._rows import check_n_samples as check_n_samples
from skdp.synthesis._synthesizer import DPMarginalSynthesizer
from skdp.synthesis.model import MOST_EVEN as MOST_EVEN

__all__ = [
    "DPMarginalSynthesizer",
    "MarginalClassifier",
    "ModelCount",
    "SyntheticResampler",
    "synthetic_inference",
]
