"""What client and server agree on: how a row becomes a report, and how reports become estimates."""

from skdp.local.protocol._columns import SAMPLED as SAMPLED
from skdp.local.protocol._columns import attributes_of as attributes_of
from skdp.local.protocol._columns import concat_columns as concat_columns
from skdp.local.protocol._columns import named_characters as named_characters
from skdp.local.protocol._columns import plain_values as plain_values
from skdp.local.protocol._columns import read_report_table as read_report_table
from skdp.local.protocol._columns import read_sampled as read_sampled
from skdp.local.protocol._columns import read_whole_numbers as read_whole_numbers
from skdp.local.protocol._columns import value_labels as value_labels
from skdp.local.protocol._counts import ReleasedCounts as ReleasedCounts
from skdp.local.protocol._counts import fold as fold
from skdp.local.protocol._counts import joined_counts as joined_counts
from skdp.local.protocol._estimation import check_columns as check_columns
from skdp.local.protocol._estimation import combine_samples as combine_samples
from skdp.local.protocol._estimation import count_variances as count_variances
from skdp.local.protocol._estimation import (
    estimate_joint_counts as estimate_joint_counts,
)
from skdp.local.protocol._estimation import estimate_together as estimate_together
from skdp.local.protocol._estimation import margin_error as margin_error
from skdp.local.protocol._estimation import split_counts as split_counts
from skdp.local.protocol._oracles import OracleProtocol as OracleProtocol
from skdp.local.protocol._oracles import sums_of_oracle as sums_of_oracle
from skdp.local.protocol._possible import (
    UnverifiedReportsWarning as UnverifiedReportsWarning,
)
from skdp.local.protocol._possible import check_releases as check_releases
from skdp.local.protocol._possible import check_together as check_together
from skdp.local.protocol._possible import refuse_impossible as refuse_impossible
from skdp.local.protocol._protocol import Channel as Channel
from skdp.local.protocol._protocol import Codes as Codes
from skdp.local.protocol._protocol import Randomness as Randomness
from skdp.local.protocol._protocol import ReportProtocol as ReportProtocol
from skdp.local.protocol._protocol import Reports as Reports
from skdp.local.protocol._protocol import Tally as Tally
from skdp.local.protocol._sampling import SampledCounts as SampledCounts
from skdp.local.protocol._sampling import Sampling as Sampling
from skdp.local.protocol._sampling import drawn_parts as drawn_parts
from skdp.local.protocol._sampling import shuffled_parts as shuffled_parts
from skdp.local.protocol._sampling import whole_weights as whole_weights
from skdp.local.protocol._values import ValueProtocol as ValueProtocol
