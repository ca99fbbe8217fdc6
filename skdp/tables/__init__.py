"""Tables of any library in, tables of the same library out: columns as values and as integer codes, and metadata.

A column is encoded by the functions of its library where possible: `index_in` of Arrow for strings, Enum of polars,
`get_indexer` of pandas. Codes are unsigned; the code ``len(values)`` marks a value that is not in the list.

Internal: import nothing from here outside of skdp.
"""

from skdp.tables._codes import ValueCoder as ValueCoder
from skdp.tables._codes import column_of as column_of
from skdp.tables._codes import decoder as decoder
from skdp.tables._codes import dtype_of as dtype_of
from skdp.tables._codes import empty_column as empty_column
from skdp.tables._codes import kind_of_values as kind_of_values
from skdp.tables._codes import number_dtype as number_dtype
from skdp.tables._columns import ANY as ANY
from skdp.tables._columns import ORDERED_KINDS as ORDERED_KINDS
from skdp.tables._columns import ColumnError as ColumnError
from skdp.tables._columns import call_safely as call_safely
from skdp.tables._columns import distinct_values as distinct_values
from skdp.tables._columns import flatten_lists as flatten_lists
from skdp.tables._columns import is_declarable as is_declarable
from skdp.tables._columns import is_missing as is_missing
from skdp.tables._columns import is_whole_number as is_whole_number
from skdp.tables._columns import kind_of as kind_of
from skdp.tables._columns import kind_of_dtype as kind_of_dtype
from skdp.tables._columns import kinds_of as kinds_of
from skdp.tables._columns import library_of as library_of
from skdp.tables._columns import name_of_dtype as name_of_dtype
from skdp.tables._columns import objects_of as objects_of
from skdp.tables._columns import plain as plain
from skdp.tables._columns import present as present
from skdp.tables._columns import to_dates as to_dates
from skdp.tables._columns import to_numbers as to_numbers
from skdp.tables._columns import to_objects as to_objects
from skdp.tables._frames import MAX_REPORTS as MAX_REPORTS
from skdp.tables._frames import LargeTable as LargeTable
from skdp.tables._frames import Summary as Summary
from skdp.tables._frames import Table as Table
from skdp.tables._frames import convert_frame as convert_frame
from skdp.tables._frames import flatten_index as flatten_index
from skdp.tables._frames import is_frame as is_frame
from skdp.tables._frames import lazy_error as lazy_error
from skdp.tables._frames import missing_for_nan as missing_for_nan
from skdp.tables._frames import open_large as open_large
from skdp.tables._frames import read_table as read_table
from skdp.tables._metadata import ATTRS_KEY as ATTRS_KEY
from skdp.tables._metadata import PROTOCOL_KEY as PROTOCOL_KEY
from skdp.tables._metadata import carried_text as carried_text
from skdp.tables._metadata import carries_notes as carries_notes
from skdp.tables._metadata import pandas_note as pandas_note
from skdp.tables._metadata import schema_with_protocol as schema_with_protocol
from skdp.tables._metadata import text_of as text_of
from skdp.tables._metadata import with_protocol as with_protocol
