"""Local mechanisms for numbers."""

from skdp.oracles.numeric._hybrid import Duchi, Hybrid
from skdp.oracles.numeric._laplace import ClampedLaplace
from skdp.oracles.numeric._mechanism import (
    SUBSTEPS,
    NumericMechanism,
    bin_positions,
    check_steps,
    estimate_frequencies,
    mean_error,
    round_at_random,
)
from skdp.oracles.numeric._optimal import Optimal
from skdp.oracles.numeric._window import Piecewise, SquareWave
from skdp.oracles.numeric._windows import Windows

__all__ = [
    "SUBSTEPS",
    "ClampedLaplace",
    "Duchi",
    "Hybrid",
    "NumericMechanism",
    "Optimal",
    "Piecewise",
    "SquareWave",
    "Windows",
    "bin_positions",
    "check_steps",
    "estimate_frequencies",
    "mean_error",
    "round_at_random",
]
