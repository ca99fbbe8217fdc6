"""What client and server agree on: rows to reports, and reports to estimates."""

from skdp.local.protocol._columns import SAMPLED as SAMPLED
from skdp.local.protocol._columns import attributes_of as attributes_of
from skdp.local.protocol._columns import concat_columns as concat_columns
from skdp.local.protocol._columns import read_report_table as read_report_table
from skdp.local.protocol._estimation import ShareOf as ShareOf
from skdp.local.protocol._estimation import check_columns as check_columns
from skdp.local.protocol._estimation import count_variances as count_variances
from skdp.local.protocol._estimation import estimate_counts as estimate_counts
from skdp.local.protocol._estimation import fields_with as fields_with
from skdp.local.protocol._estimation import joint_counts as joint_counts
from skdp.local.protocol._estimation import margin_error as margin_error
from skdp.local.protocol._estimation import take_design as take_design
from skdp.local.protocol._field import Channel as Channel
from skdp.local.protocol._field import Codes as Codes
from skdp.local.protocol._field import Field as Field
from skdp.local.protocol._field import Randomness as Randomness
from skdp.local.protocol._field import Reports as Reports
from skdp.local.protocol._field import Rows as Rows
from skdp.local.protocol._field import Tail as Tail
from skdp.local.protocol._oracle_fields import CategoryField as CategoryField
from skdp.local.protocol._oracle_fields import OracleField as OracleField
from skdp.local.protocol._oracle_fields import ValueField as ValueField
from skdp.local.protocol._oracle_fields import fold as fold
from skdp.local.protocol._oracle_fields import guarantee_of_all as guarantee_of_all
from skdp.local.protocol._oracle_fields import guarantee_of_one as guarantee_of_one
from skdp.local.protocol._possible import (
    UnverifiedReportsWarning as UnverifiedReportsWarning,
)
from skdp.local.protocol._possible import check_releases as check_releases
from skdp.local.protocol._possible import check_together as check_together
from skdp.local.protocol._possible import refuse_impossible as refuse_impossible
from skdp.local.protocol._protocol import ReportProtocol as ReportProtocol
from skdp.local.protocol._sampling import SampledCounts as SampledCounts
from skdp.local.protocol._sampling import Sampling as Sampling
from skdp.local.protocol._sampling import drawn_pair as drawn_pair
from skdp.local.protocol._sampling import quantile as quantile
from skdp.local.protocol._sampling import read_weights as read_weights
from skdp.local.protocol._sampling import whole_weights as whole_weights
from skdp.local.protocol._weighted import PopulationSize as PopulationSize
from skdp.local.protocol._weighted import ReportVectors as ReportVectors
from skdp.local.protocol._weighted import SampleDesign as SampleDesign
from skdp.local.protocol._weighted import WeightedMeans as WeightedMeans
from skdp.local.protocol._weighted import WeightedMoments as WeightedMoments
from skdp.local.protocol._weighted import means_of_moments as means_of_moments
from skdp.local.protocol._weighted import read_design as read_design
from skdp.local.protocol._weighted import read_sample_weight as read_sample_weight
from skdp.local.protocol._weighted import refuse_name as refuse_name
from skdp.local.protocol._weighted import weighted_means as weighted_means
