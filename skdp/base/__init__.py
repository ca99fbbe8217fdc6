"""Parts shared by all estimators: input tables, bounds, domains, randomness, ledger and output format.

Internal: import nothing from here outside of skdp.
"""

from skdp.base._declared import declares_missing as declares_missing
from skdp.base._declared import read_domain as read_domain
from skdp.base._declared import undeclared_error as undeclared_error
from skdp.base._input import apply_set_output as apply_set_output
from skdp.base._input import check_names as check_names
from skdp.base._input import check_row_order as check_row_order
from skdp.base._input import check_same_order as check_same_order
from skdp.base._input import one_column as one_column
from skdp.base._input import read_array as read_array
from skdp.base._input import read_input as read_input
from skdp.base._input import read_numbers as read_numbers
from skdp.base._input import refuse_protected_levels as refuse_protected_levels
from skdp.base._input import refuse_shared_name as refuse_shared_name
from skdp.base._input import rows_and_target as rows_and_target
from skdp.base._input import target_of as target_of
from skdp.base._input import warn_of_levels as warn_of_levels
from skdp.base._parameters import AxesLike as AxesLike
from skdp.base._parameters import Bounds as Bounds
from skdp.base._parameters import ColumnLike as ColumnLike
from skdp.base._parameters import ColumnName as ColumnName
from skdp.base._parameters import HandleUnknown as HandleUnknown
from skdp.base._parameters import Label as Label
from skdp.base._parameters import OnSite as OnSite
from skdp.base._parameters import PathType as PathType
from skdp.base._parameters import Privileged as Privileged
from skdp.base._parameters import ProbabilisticClassifier as ProbabilisticClassifier
from skdp.base._parameters import ReportStrategy as ReportStrategy
from skdp.base._parameters import SavedByArguments as SavedByArguments
from skdp.base._parameters import TableLike as TableLike
from skdp.base._parameters import all_or_nothing as all_or_nothing
from skdp.base._parameters import check_confidence_level as check_confidence_level
from skdp.base._parameters import check_declared as check_declared
from skdp.base._parameters import check_flag as check_flag
from skdp.base._parameters import check_ledger as check_ledger
from skdp.base._parameters import check_random_state as check_random_state
from skdp.base._parameters import floats_between as floats_between
from skdp.base._parameters import list_names as list_names
from skdp.base._parameters import read_bounds as read_bounds
from skdp.base._randomness import CallCounter as CallCounter
from skdp.base._randomness import CallRandomness as CallRandomness
from skdp.base._randomness import coins as coins
from skdp.base._randomness import draw_seed as draw_seed
from skdp.base._randomness import one_thread as one_thread
from skdp.base._warnings import collect_output as collect_output
from skdp.base._warnings import level_of_the_caller as level_of_the_caller
from skdp.base._warnings import warn_of_epsilon as warn_of_epsilon
from skdp.base._warnings import warn_of_release as warn_of_release
from skdp.base._warnings import warn_of_released_size as warn_of_released_size
from skdp.privacy import check_choice as check_choice
