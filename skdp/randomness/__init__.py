"""From random bytes to exact draws.

A source gives bytes; a draw turns bytes into coins, integers or categories whose probabilities are exact. Nothing here
knows of privacy or of columns, and nothing uses ``u < p`` on floating-point numbers.
"""

from skdp.randomness._coins import bernoulli, bernoulli_ratio
from skdp.randomness._eight_coins import EightCoins
from skdp.randomness._geometric import discrete_laplace, geometric
from skdp.randomness._integers import categorical, uniform_integers
from skdp.randomness._sources import BLOCK, ONE, ByteSource, SecureSource, SeededSource

__all__ = [
    "BLOCK",
    "ONE",
    "ByteSource",
    "EightCoins",
    "SecureSource",
    "SeededSource",
    "bernoulli",
    "bernoulli_ratio",
    "categorical",
    "discrete_laplace",
    "geometric",
    "uniform_integers",
]
