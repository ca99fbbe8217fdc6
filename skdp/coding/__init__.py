"""Encode a column of any library as integer codes of a list of values, and decode it.

Where possible by the dictionary encoding of the library: that of Arrow for strings,
Enum of polars, categories of pandas. Codes are unsigned; the code ``len(values)`` marks
a value that is not in the list.

Internal: import nothing from here outside of skdp.
"""

from skdp.coding._columns import ANY as ANY
from skdp.coding._columns import KIND_NAMES as KIND_NAMES
from skdp.coding._columns import as_objects as as_objects
from skdp.coding._columns import distinct_values as distinct_values
from skdp.coding._columns import flatten_lists as flatten_lists
from skdp.coding._columns import held_by as held_by
from skdp.coding._columns import kind_of_dtype as kind_of_dtype
from skdp.coding._columns import library_of as library_of
from skdp.coding._columns import name_of_dtype as name_of_dtype
from skdp.coding._columns import objects_of as objects_of
from skdp.coding._columns import to_dates as to_dates
from skdp.coding._columns import to_numbers as to_numbers
from skdp.coding._decode import dates_like as dates_like
from skdp.coding._decode import decoder as decoder
from skdp.coding._decode import held_dates as held_dates
from skdp.coding._decode import time_type as time_type
from skdp.coding._encode import ValueCoder as ValueCoder
from skdp.coding._values import ColumnError as ColumnError
from skdp.coding._values import is_missing as is_missing
from skdp.coding._values import is_whole_number as is_whole_number
from skdp.coding._values import kind_of as kind_of
from skdp.coding._values import plain as plain
from skdp.coding._values import shielded as shielded
