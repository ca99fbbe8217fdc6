"""Local mechanisms for numbers."""

from skdp.oracles.numeric._mechanism import SUBSTEPS as SUBSTEPS
from skdp.oracles.numeric._mechanism import ClampedLaplace as ClampedLaplace
from skdp.oracles.numeric._mechanism import NumericMechanism as NumericMechanism
from skdp.oracles.numeric._mechanism import Windows as Windows
from skdp.oracles.numeric._mechanism import bin_positions as bin_positions
from skdp.oracles.numeric._mechanism import check_steps as check_steps
from skdp.oracles.numeric._mechanism import estimate_frequencies as estimate_frequencies
from skdp.oracles.numeric._mechanism import mean_error as mean_error
from skdp.oracles.numeric._mechanism import round_at_random as round_at_random
from skdp.oracles.numeric._optimal import Optimal as Optimal
