"""Synthetic tables from private marginals: graphical models, their inference, and their samples."""

from skdp.synthesis._answers import ModelCount
from skdp.synthesis._classifier import MarginalClassifier
from skdp.synthesis._inference import synthetic_inference
from skdp.synthesis._persistence import LEFT_OUT as LEFT_OUT
from skdp.synthesis._persistence import describe_fit as describe_fit
from skdp.synthesis._persistence import pack_parameter as pack_parameter
from skdp.synthesis._persistence import read_domain as read_domain
from skdp.synthesis._persistence import restore_fit as restore_fit
from skdp.synthesis._resampler import SyntheticResampler
from skdp.synthesis._rows import check_n_samples as check_n_samples
from skdp.synthesis._synthesizer import DPMarginalSynthesizer

__all__ = [
    "DPMarginalSynthesizer",
    "MarginalClassifier",
    "ModelCount",
    "SyntheticResampler",
    "synthetic_inference",
]
