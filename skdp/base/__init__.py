"""Parts shared by all estimators: input tables, bounds, domains, randomness, ledger and output format.

Internal: import nothing from here outside of skdp.
"""

from skdp.base._declared import count_undeclared as count_undeclared
from skdp.base._declared import declares_missing as declares_missing
from skdp.base._declared import make_domain as make_domain
from skdp.base._declared import undeclared_error as undeclared_error
from skdp.base._input import apply_set_output as apply_set_output
from skdp.base._input import check_index_levels as check_index_levels
from skdp.base._input import check_input as check_input
from skdp.base._input import check_names as check_names
from skdp.base._input import check_row_order as check_row_order
from skdp.base._input import check_same_order as check_same_order
from skdp.base._input import check_target_name as check_target_name
from skdp.base._input import get_target as get_target
from skdp.base._input import split_if_supervised as split_if_supervised
from skdp.base._input import to_array as to_array
from skdp.base._input import to_float_columns as to_float_columns
from skdp.base._input import to_single_column as to_single_column
from skdp.base._input import warn_of_levels as warn_of_levels
from skdp.base._messages import collect_output as collect_output
from skdp.base._messages import find_stack_level as find_stack_level
from skdp.base._messages import show_progress as show_progress
from skdp.base._messages import track as track
from skdp.base._messages import warn_of_epsilon as warn_of_epsilon
from skdp.base._messages import warn_of_release as warn_of_release
from skdp.base._messages import warn_of_released_size as warn_of_released_size
from skdp.base._parameters import AxesLike as AxesLike
from skdp.base._parameters import Bounds as Bounds
from skdp.base._parameters import ColumnLike as ColumnLike
from skdp.base._parameters import ColumnName as ColumnName
from skdp.base._parameters import Label as Label
from skdp.base._parameters import OrderedScore as OrderedScore
from skdp.base._parameters import PathType as PathType
from skdp.base._parameters import Privileged as Privileged
from skdp.base._parameters import ProbabilisticClassifier as ProbabilisticClassifier
from skdp.base._parameters import TableLike as TableLike
from skdp.base._parameters import check_column_name as check_column_name
from skdp.base._parameters import check_confidence_level as check_confidence_level
from skdp.base._parameters import check_declared as check_declared
from skdp.base._parameters import check_flag as check_flag
from skdp.base._parameters import check_ledger as check_ledger
from skdp.base._parameters import check_random_state as check_random_state
from skdp.base._parameters import find_bounds as find_bounds
from skdp.base._parameters import find_decimals as find_decimals
from skdp.base._parameters import has_float_resolution as has_float_resolution
from skdp.base._parameters import list_names as list_names
from skdp.base._parameters import parse_bounds as parse_bounds
from skdp.base._parameters import parse_ends as parse_ends
from skdp.base._parameters import restore_on_error as restore_on_error
from skdp.base._randomness import CallCounter as CallCounter
from skdp.base._randomness import draw_seed as draw_seed
from skdp.base._randomness import make_source as make_source
from skdp.base._threads import limit_blas_threads as limit_blas_threads
from skdp.base._threads import on_one_thread as on_one_thread
from skdp.privacy import check_choice as check_choice
