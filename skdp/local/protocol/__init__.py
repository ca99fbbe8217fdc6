"""What client and server agree on: how a row becomes a report, and how reports become estimates."""

from skdp.local.protocol._columns import (
    SAMPLED,
    attributes_of,
    named_characters,
    plain_values,
    read_sampled,
    read_whole_numbers,
    value_labels,
)
from skdp.local.protocol._estimation import (
    check_columns,
    combine_samples,
    count_variances,
    estimate_joint_counts,
    estimate_together,
    margin_error,
    split_counts,
)
from skdp.local.protocol._oracles import OracleProtocol, ValueProtocol
from skdp.local.protocol._protocol import (
    Channel,
    Codes,
    Randomness,
    ReportProtocol,
    Reports,
    Tally,
    read_report_table,
)
from skdp.local.protocol._sampling import SampledCounts, Sampling, drawn_parts, shuffled_parts, whole_weights

__all__ = [
    "SAMPLED",
    "Channel",
    "Codes",
    "OracleProtocol",
    "Randomness",
    "ReportProtocol",
    "Reports",
    "SampledCounts",
    "Sampling",
    "Tally",
    "ValueProtocol",
    "attributes_of",
    "check_columns",
    "combine_samples",
    "count_variances",
    "drawn_parts",
    "estimate_joint_counts",
    "estimate_together",
    "margin_error",
    "named_characters",
    "plain_values",
    "read_report_table",
    "read_sampled",
    "read_whole_numbers",
    "shuffled_parts",
    "split_counts",
    "value_labels",
    "whole_weights",
]
