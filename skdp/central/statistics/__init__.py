"""Integer sums, quantiles and counts, with exact noise."""

from skdp.central.statistics._cells import (
    CellTally,
    count_cells,
    count_large,
    declared_domain,
    find_codes,
    find_missing,
    is_ordered,
    part_of,
)
from skdp.central.statistics._moments import REFUSED, Estimate, cube_moments, noisy_sum_count, ratio, two_sums
from skdp.central.statistics._quantiles import (
    Candidates,
    equal_steps,
    plan_quantiles,
    read_candidates,
    read_probability,
)
from skdp.central.statistics._ranges import (
    LARGEST,
    CountEstimate,
    Hierarchy,
    count_std,
    find_range,
    interval_reach,
    plan_hierarchy,
)
from skdp.central.statistics._sums import GRID, BoundedColumn, ColumnSums, sum_columns, to_places, to_value

__all__ = [
    "GRID",
    "LARGEST",
    "REFUSED",
    "BoundedColumn",
    "Candidates",
    "CellTally",
    "ColumnSums",
    "CountEstimate",
    "Estimate",
    "Hierarchy",
    "count_cells",
    "count_large",
    "count_std",
    "cube_moments",
    "declared_domain",
    "equal_steps",
    "find_codes",
    "find_missing",
    "find_range",
    "interval_reach",
    "is_ordered",
    "noisy_sum_count",
    "part_of",
    "plan_hierarchy",
    "plan_quantiles",
    "ratio",
    "read_candidates",
    "read_probability",
    "sum_columns",
    "to_places",
    "to_value",
    "two_sums",
]
