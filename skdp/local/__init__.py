"""Transformers that randomise each record by itself: the local model, which needs no trusted curator."""

from skdp.local._base import LocalTransformer as LocalTransformer
from skdp.local._estimation import ReportEstimator as ReportEstimator
from skdp.local._frequency_oracle import FrequencyOracleEncoder
from skdp.local._hadamard_response import HadamardResponseEncoder
from skdp.local._local_hashing import LocalHashingEncoder
from skdp.local._on_fit_only import OnFitOnly
from skdp.local._posterior_features import PosteriorFeatures
from skdp.local._randomized_response import RandomizedResponseEncoder
from skdp.local._recommend import recommend_strategy
from skdp.local._report_columns import SAMPLED as SAMPLED
from skdp.local._report_columns import read_report_table as read_report_table
from skdp.local._report_columns import read_sampled as read_sampled
from skdp.local._row_reports import Drawn as Drawn
from skdp.local._row_reports import RowReports as RowReports
from skdp.local._row_reports import Write as Write
from skdp.local._stored_tally import StoredTally as StoredTally
from skdp.local._subset_selection import SubsetSelectionEncoder
from skdp.local._tallies import NumericTally, RapporTally, ReportTally
from skdp.local._unary_encoding import UnaryEncodingTransformer
from skdp.local.heavy_hitters import HeavyHitters
from skdp.local.memo import SecretKey
from skdp.local.numeric import NumericPerturber
from skdp.local.rappor import RapporEncoder

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
