"""Transformers that privatise each record by itself: the local model, in which nobody needs to be trusted."""

from skdp.local._frequency_oracle import FrequencyOracleEncoder
from skdp.local._hadamard_response import HadamardResponseEncoder
from skdp.local._heavy_hitters import HeavyHitters
from skdp.local._local_hashing import LocalHashingEncoder
from skdp.local._numeric_perturber import NumericPerturber
from skdp.local._numeric_tally import NumericTally
from skdp.local._on_fit_only import OnFitOnly
from skdp.local._permanent import SecretKey
from skdp.local._posterior_features import PosteriorFeatures
from skdp.local._randomized_response import RandomizedResponseEncoder
from skdp.local._rappor import RapporEncoder
from skdp.local._rappor_tally import RapporTally
from skdp.local._recommend import recommend_strategy
from skdp.local._subset_selection import SubsetSelectionEncoder
from skdp.local._tally import ReportTally
from skdp.local._unary_encoding import UnaryEncodingTransformer

__all__ = [
    "FrequencyOracleEncoder",
    "HadamardResponseEncoder",
    "HeavyHitters",
    "LocalHashingEncoder",
    "NumericPerturber",
    "NumericTally",
    "OnFitOnly",
    "PosteriorFeatures",
    "RandomizedResponseEncoder",
    "RapporEncoder",
    "RapporTally",
    "ReportTally",
    "SecretKey",
    "SubsetSelectionEncoder",
    "UnaryEncodingTransformer",
    "recommend_strategy",
]
