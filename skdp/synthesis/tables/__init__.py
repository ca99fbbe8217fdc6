"""From a table to the codes of its domain, and back."""

from skdp.synthesis.tables._decode import assemble, check_decodable, decode, public_template
from skdp.synthesis.tables._discovery import (
    check_not_named,
    check_share,
    count_open_columns,
    count_others,
    find_values,
    undeclared,
    warn_undiscovered,
)
from skdp.synthesis.tables._draws import Order, ends_of, middles, values_of
from skdp.synthesis.tables._records import (
    CodedRecords,
    LargeRecords,
    Policy,
    Records,
    check_policy,
    find_codes,
    lag,
    open_rows,
    read_codes,
    read_declared,
    with_target,
)
from skdp.synthesis.tables._shapes import Shape, Shapes, find_points, fine_grid

__all__ = [
    "CodedRecords",
    "LargeRecords",
    "Order",
    "Policy",
    "Records",
    "Shape",
    "Shapes",
    "assemble",
    "check_decodable",
    "check_not_named",
    "check_policy",
    "check_share",
    "count_open_columns",
    "count_others",
    "decode",
    "ends_of",
    "find_codes",
    "find_points",
    "find_values",
    "fine_grid",
    "lag",
    "middles",
    "open_rows",
    "public_template",
    "read_codes",
    "read_declared",
    "undeclared",
    "values_of",
    "warn_undiscovered",
    "with_target",
]
