"""One column of any library <-> integer codes of a list of values.

The dictionary encoding of the column's own library does the work: Arrow's for Arrow strings, polars' Enum, pandas'
categories and hash index. Codes are unsigned; the code ``len(values)`` marks what is not among the values.
"""

from skdp.coding._decode import decode
from skdp.coding._encode import ValueCoder, distinct_values, to_numbers
from skdp.coding._kinds import is_missing, kind_of, plain

__all__ = [
    "ValueCoder",
    "decode",
    "distinct_values",
    "is_missing",
    "kind_of",
    "plain",
    "to_numbers",
]
