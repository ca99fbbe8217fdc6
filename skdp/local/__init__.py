"""Transformers of the local model: each record is randomized independently, without a trusted curator."""

from skdp.local._heavy_hitters import HeavyHitters
from skdp.local._memo import Memo as Memo
from skdp.local._memo import SecretKey
from skdp.local._memo import encode_person_ids as encode_person_ids
from skdp.local._memo import join_parts as join_parts
from skdp.local._numeric import NumericPerturber
from skdp.local._oracle_encoder import (
    FrequencyOracleEncoder,
    LocalHashingEncoder,
    RandomizedResponseEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.local._oracle_encoder import OracleEncoder as OracleEncoder
from skdp.local._protocol_file import check_attached_protocol as check_attached_protocol
from skdp.local._protocol_file import read_and_tally as read_and_tally
from skdp.local._rappor import RapporEncoder
from skdp.local._set_encoder import SetValuedEncoder
from skdp.local._table_encoder import LocalTableEncoder
from skdp.local._tally import ReportTally, shuffle_reports
from skdp.local._transformer import ReportTransformer
from skdp.local._transformer import warn_of_reports as warn_of_reports
from skdp.local._wrappers import OnFitOnly, PosteriorFeatures
from skdp.local.protocol._count_estimation import SampledCounts as SampledCounts
from skdp.local.protocol._count_estimation import (
    check_sample_weight as check_sample_weight,
)
from skdp.local.protocol._count_estimation import (
    reject_column_name as reject_column_name,
)
from skdp.local.protocol._fields import CategoryField as CategoryField
from skdp.local.protocol._fields import Field
from skdp.local.protocol._protocol import ReportProtocol
from skdp.local.protocol._protocol import Sampling as Sampling
from skdp.local.protocol._report_columns import SAMPLED as SAMPLED

__all__ = [
    "Field",
    "FrequencyOracleEncoder",
    "HeavyHitters",
    "LocalHashingEncoder",
    "LocalTableEncoder",
    "NumericPerturber",
    "OnFitOnly",
    "PosteriorFeatures",
    "RandomizedResponseEncoder",
    "RapporEncoder",
    "ReportProtocol",
    "ReportTally",
    "ReportTransformer",
    "SecretKey",
    "SetValuedEncoder",
    "SubsetSelectionEncoder",
    "UnaryEncodingTransformer",
    "shuffle_reports",
]
