"""From one column of any library to integer codes of a list of values, and back.

The dictionary encoding of the column's own library does the work: Arrow's for Arrow strings, polars' Enum, pandas'
categories and hash index. Codes are unsigned; the code ``len(values)`` marks a value that is not in the list.

Internal: import nothing from here outside of skdp.
"""

from skdp.coding._dates import dates_like, held_dates, time_type, to_dates
from skdp.coding._decode import decoder
from skdp.coding._encode import ValueCoder
from skdp.coding._kinds import ColumnError, is_missing, kind_of, plain, shielded
from skdp.coding._read import distinct_values, to_numbers

__all__ = [
    "ColumnError",
    "ValueCoder",
    "dates_like",
    "decoder",
    "distinct_values",
    "held_dates",
    "is_missing",
    "kind_of",
    "plain",
    "shielded",
    "time_type",
    "to_dates",
    "to_numbers",
]
