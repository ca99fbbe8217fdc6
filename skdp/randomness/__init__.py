"""Exact draws from random bytes.

Sources return bytes. Samplers convert them to Bernoulli variables, integers, categories or
noise with exact probabilities: no probability is rounded to a float.
"""

from skdp.randomness._draws import ONE as ONE
from skdp.randomness._draws import bernoulli, categorical, uniform_integers
from skdp.randomness._draws import bernoulli_ratio as bernoulli_ratio
from skdp.randomness._draws import check_size as check_size
from skdp.randomness._draws import check_type as check_type
from skdp.randomness._draws import notify_watcher as notify_watcher
from skdp.randomness._draws import subsets as subsets
from skdp.randomness._draws import uniform_below as uniform_below
from skdp.randomness._draws import watch_draws as watch_draws
from skdp.randomness._noise import Proposals as Proposals
from skdp.randomness._noise import cube_noise as cube_noise
from skdp.randomness._noise import (
    discrete_laplace,
    exponential_mechanism,
    permute_and_flip,
    rounded_gaussian,
)
from skdp.randomness._noise import piecewise_choices as piecewise_choices
from skdp.randomness._sources import BLOCK as BLOCK
from skdp.randomness._sources import ByteSource, SecureSource, SeededSource
from skdp.randomness._sources import draw_by_row as draw_by_row
from skdp.randomness._sources import restrict_source as restrict_source

__all__ = [
    "ByteSource",
    "SecureSource",
    "SeededSource",
    "bernoulli",
    "categorical",
    "discrete_laplace",
    "exponential_mechanism",
    "permute_and_flip",
    "rounded_gaussian",
    "uniform_integers",
]
