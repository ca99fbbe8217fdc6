"""The protocol shared by client and server: from rows to reports, and from reports to estimates."""

from skdp.local.protocol._columns import SAMPLED as SAMPLED
from skdp.local.protocol._columns import concat_columns as concat_columns
from skdp.local.protocol._columns import parse_report_table as parse_report_table
from skdp.local.protocol._columns import stack_columns as stack_columns
from skdp.local.protocol._debias import check_sample_weight as check_sample_weight
from skdp.local.protocol._debias import debias_reports as debias_reports
from skdp.local.protocol._debias import estimate_joint_counts as estimate_joint_counts
from skdp.local.protocol._debias import (
    estimate_weighted_frequencies as estimate_weighted_frequencies,
)
from skdp.local.protocol._debias import reject_column_name as reject_column_name
from skdp.local.protocol._estimation import InferenceTarget as InferenceTarget
from skdp.local.protocol._estimation import check_columns as check_columns
from skdp.local.protocol._estimation import (
    compute_marginal_error as compute_marginal_error,
)
from skdp.local.protocol._estimation import estimate_counts as estimate_counts
from skdp.local.protocol._estimation import find_fields as find_fields
from skdp.local.protocol._field import Channel as Channel
from skdp.local.protocol._field import ColumnCodes as ColumnCodes
from skdp.local.protocol._field import Field as Field
from skdp.local.protocol._field import Randomness as Randomness
from skdp.local.protocol._field import Reports as Reports
from skdp.local.protocol._field import RowSelection as RowSelection
from skdp.local.protocol._oracle_fields import CategoryField as CategoryField
from skdp.local.protocol._oracle_fields import OracleField as OracleField
from skdp.local.protocol._oracle_fields import ValueField as ValueField
from skdp.local.protocol._oracle_fields import (
    make_sampled_guarantee as make_sampled_guarantee,
)
from skdp.local.protocol._oracle_fields import (
    make_total_guarantee as make_total_guarantee,
)
from skdp.local.protocol._protocol import ReportProtocol as ReportProtocol
from skdp.local.protocol._sampling import SampledCounts as SampledCounts
from skdp.local.protocol._sampling import Sampling as Sampling
from skdp.local.protocol._sampling import check_column_weights as check_column_weights
