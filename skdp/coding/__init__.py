"""Encode a column of any library as integer codes of a list of values, and decode it.

Where possible by the dictionary encoding of the library: that of Arrow for strings, Enum of polars, categories of
pandas. Codes are unsigned; the code ``len(values)`` marks a value that is not in the list.

Internal: import nothing from here outside of skdp.
"""

from skdp.coding._dates import dates_like as dates_like
from skdp.coding._dates import held_dates as held_dates
from skdp.coding._dates import time_type as time_type
from skdp.coding._dates import to_dates as to_dates
from skdp.coding._decode import decoder as decoder
from skdp.coding._encode import ColumnError as ColumnError
from skdp.coding._encode import ValueCoder as ValueCoder
from skdp.coding._encode import is_missing as is_missing
from skdp.coding._encode import kind_of as kind_of
from skdp.coding._encode import plain as plain
from skdp.coding._encode import shielded as shielded
from skdp.coding._kinds import ANY as ANY
from skdp.coding._kinds import KIND_NAMES as KIND_NAMES
from skdp.coding._kinds import check_dtype as check_dtype
from skdp.coding._kinds import kind_of_dtype as kind_of_dtype
from skdp.coding._kinds import name_of_dtype as name_of_dtype
from skdp.coding._lists import flatten_lists as flatten_lists
from skdp.coding._read import as_objects as as_objects
from skdp.coding._read import distinct_values as distinct_values
from skdp.coding._read import objects_of as objects_of
from skdp.coding._read import to_numbers as to_numbers
