"""Encode a column of any library as integer codes of a list of values, and decode it.

Where possible by the dictionary encoding of the library: that of Arrow for strings, Enum of polars, categories of
pandas. Codes are unsigned; the code ``len(values)`` marks a value that is not in the list.

Internal: import nothing from here outside of skdp.
"""

from skdp.coding._dates import dates_like, held_dates, time_type, to_dates
from skdp.coding._decode import decoder
from skdp.coding._encode import ColumnError, ValueCoder, is_missing, kind_of, plain, shielded
from skdp.coding._lists import flatten_lists, flatten_pairs
from skdp.coding._read import as_objects, distinct_values, to_numbers

__all__ = [
    "ColumnError",
    "ValueCoder",
    "as_objects",
    "dates_like",
    "decoder",
    "distinct_values",
    "flatten_lists",
    "flatten_pairs",
    "held_dates",
    "is_missing",
    "kind_of",
    "plain",
    "shielded",
    "time_type",
    "to_dates",
    "to_numbers",
]
