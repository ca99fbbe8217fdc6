"""From random bytes to exact draws.

Sources give bytes; the other functions turn them into coins (Bernoulli draws), integers or categories of exact
probability. Nothing here depends on privacy or on columns, and no code compares ``u < p`` in floating point.
"""

from skdp.randomness._cube import cube_noise
from skdp.randomness._discrete_noise import discrete_gaussian, discrete_laplace, geometric
from skdp.randomness._draws import bernoulli, bernoulli_ratio, categorical, eight_coins, uniform_integers
from skdp.randomness._draws import watched as watched
from skdp.randomness._real import bernoulli_exp
from skdp.randomness._rounded_noise import rounded_gaussian, rounded_laplace, rounded_student_t
from skdp.randomness._selection import exponential_mechanism, permute_and_flip, unimodal_choice
from skdp.randomness._sources import BLOCK, MOST_ROWS, ONE, ByteSource, RowStreams, SecureSource, SeededSource
from skdp.randomness._sources import DigestSource as DigestSource
from skdp.randomness._subsets import subsets
from skdp.randomness._word_table import WordTable

__all__ = [
    "BLOCK",
    "MOST_ROWS",
    "ONE",
    "ByteSource",
    "RowStreams",
    "SecureSource",
    "SeededSource",
    "WordTable",
    "bernoulli",
    "bernoulli_exp",
    "bernoulli_ratio",
    "categorical",
    "cube_noise",
    "discrete_gaussian",
    "discrete_laplace",
    "eight_coins",
    "exponential_mechanism",
    "geometric",
    "permute_and_flip",
    "rounded_gaussian",
    "rounded_laplace",
    "rounded_student_t",
    "subsets",
    "uniform_integers",
    "unimodal_choice",
]
