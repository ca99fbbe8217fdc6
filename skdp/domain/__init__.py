"""The declared values of each column, and their integer codes."""

from skdp.domain._attributes import DEFAULT_BINS as DEFAULT_BINS
from skdp.domain._attributes import MAX_OPEN_END as MAX_OPEN_END
from skdp.domain._attributes import OTHER as OTHER
from skdp.domain._attributes import Categories, Interval
from skdp.domain._attributes import FoundCategories as FoundCategories
from skdp.domain._attributes import Release as Release
from skdp.domain._attributes import close_interval as close_interval
from skdp.domain._attributes import drop_bins as drop_bins
from skdp.domain._attributes import dtype_of_attribute as dtype_of_attribute
from skdp.domain._attributes import find_decoder as find_decoder
from skdp.domain._attributes import has_single_values as has_single_values
from skdp.domain._attributes import is_mixed as is_mixed
from skdp.domain._attributes import list_values as list_values
from skdp.domain._attributes import name_column_in_errors as name_column_in_errors
from skdp.domain._attributes import read_texts as read_texts
from skdp.domain._attributes import to_text as to_text
from skdp.domain._attributes import to_typed as to_typed
from skdp.domain._attributes import type_of_attribute as type_of_attribute
from skdp.domain._attributes import widen_interval as widen_interval
from skdp.domain._bins import MAX_WHOLE_NUMBER as MAX_WHOLE_NUMBER
from skdp.domain._bins import format_edge as format_edge
from skdp.domain._bins import make_edge_array as make_edge_array
from skdp.domain._bins import round_numbers as round_numbers
from skdp.domain._column_drafts import check_draft as check_draft
from skdp.domain._column_drafts import domains_of_dtypes as domains_of_dtypes
from skdp.domain._column_drafts import draft_columns as draft_columns
from skdp.domain._column_drafts import draft_values as draft_values
from skdp.domain._domain import Domain
from skdp.domain._domain import DomainLike as DomainLike
from skdp.domain._domain import add_guarantee as add_guarantee
from skdp.domain._domain import check_closed as check_closed
from skdp.domain._domain import copy_guarantee as copy_guarantee
from skdp.domain._expressions import Expression as Expression
from skdp.domain._toml import guarantee_fields as guarantee_fields

__all__ = ["Categories", "Domain", "Interval"]
