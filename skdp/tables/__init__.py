"""Tables of any library in, tables of the same library out: columns as values and as integer codes, and metadata.

A column is encoded by the functions of its library where possible: `index_in` of Arrow for strings, Enum of polars,
`get_indexer` of pandas. Codes are unsigned; the code ``len(values)`` marks a value that is not in the list.

Internal: import nothing from here outside of skdp.
"""

from skdp.tables._codes import ValueCoder as ValueCoder
from skdp.tables._codes import empty_column as empty_column
from skdp.tables._codes import find_dtype as find_dtype
from skdp.tables._codes import make_decoder as make_decoder
from skdp.tables._codes import number_dtype as number_dtype
from skdp.tables._codes import to_column as to_column
from skdp.tables._codes import type_of_declared as type_of_declared
from skdp.tables._columns import ANY_TYPE as ANY_TYPE
from skdp.tables._columns import ORDERED_TYPES as ORDERED_TYPES
from skdp.tables._columns import ColumnError as ColumnError
from skdp.tables._columns import call_safely as call_safely
from skdp.tables._columns import distinct_values as distinct_values
from skdp.tables._columns import drop_missing as drop_missing
from skdp.tables._columns import flatten_lists as flatten_lists
from skdp.tables._columns import has_categories as has_categories
from skdp.tables._columns import has_integer_dtype as has_integer_dtype
from skdp.tables._columns import has_order_of as has_order_of
from skdp.tables._columns import is_declarable as is_declarable
from skdp.tables._columns import is_missing as is_missing
from skdp.tables._columns import is_whole_number as is_whole_number
from skdp.tables._columns import library_of as library_of
from skdp.tables._columns import name_missing as name_missing
from skdp.tables._columns import name_of_dtype as name_of_dtype
from skdp.tables._columns import read_key as read_key
from skdp.tables._columns import to_dates as to_dates
from skdp.tables._columns import to_numbers as to_numbers
from skdp.tables._columns import to_object_list as to_object_list
from skdp.tables._columns import to_objects as to_objects
from skdp.tables._columns import to_python as to_python
from skdp.tables._columns import type_of_column as type_of_column
from skdp.tables._columns import type_of_value as type_of_value
from skdp.tables._columns import types_of_values as types_of_values
from skdp.tables._columns import unwrap as unwrap
from skdp.tables._frames import ATTRS_KEY as ATTRS_KEY
from skdp.tables._frames import PROTOCOL_KEY as PROTOCOL_KEY
from skdp.tables._frames import Table as Table
from skdp.tables._frames import attach_protocol as attach_protocol
from skdp.tables._frames import attach_schema_protocol as attach_schema_protocol
from skdp.tables._frames import check_readable as check_readable
from skdp.tables._frames import choose_library as choose_library
from skdp.tables._frames import convert_frame as convert_frame
from skdp.tables._frames import get_arrow_protocol as get_arrow_protocol
from skdp.tables._frames import get_protocol_text as get_protocol_text
from skdp.tables._frames import index_to_columns as index_to_columns
from skdp.tables._frames import is_frame as is_frame
from skdp.tables._frames import lazy_error as lazy_error
from skdp.tables._frames import nan_to_null as nan_to_null
from skdp.tables._frames import parse_pandas_metadata as parse_pandas_metadata
from skdp.tables._frames import wrap_table as wrap_table
