"""Parts shared by all estimators: input tables, bounds, domains, randomness, ledger and output format.

Internal: import nothing from here outside of skdp.
"""

from skdp.base._draft import draft_domain as draft_domain
from skdp.base._draft import draft_domain_toml as draft_domain_toml
from skdp.base._estimator import DECLARED as DECLARED
from skdp.base._estimator import TARGET as TARGET
from skdp.base._estimator import CallCounter as CallCounter
from skdp.base._estimator import CallRandomness as CallRandomness
from skdp.base._estimator import all_or_nothing as all_or_nothing
from skdp.base._estimator import as_asked as as_asked
from skdp.base._estimator import check_choice as check_choice
from skdp.base._estimator import check_confidence_level as check_confidence_level
from skdp.base._estimator import check_flag as check_flag
from skdp.base._estimator import check_ledger as check_ledger
from skdp.base._estimator import check_names as check_names
from skdp.base._estimator import check_random_state as check_random_state
from skdp.base._estimator import coins as coins
from skdp.base._estimator import declares_missing as declares_missing
from skdp.base._estimator import domains_of_dtypes as domains_of_dtypes
from skdp.base._estimator import level_of_the_caller as level_of_the_caller
from skdp.base._estimator import read_array as read_array
from skdp.base._estimator import read_domain as read_domain
from skdp.base._estimator import read_input as read_input
from skdp.base._estimator import target_column as target_column
from skdp.base._estimator import target_of as target_of
from skdp.base._estimator import warn_of_observed as warn_of_observed
from skdp.base._heard import heard as heard
from skdp.base._numbers import floats_between as floats_between
from skdp.base._numbers import read_bounds as read_bounds
from skdp.base._numbers import read_numbers as read_numbers
from skdp.base._numbers import together as together
from skdp.base._probabilities import ProbabilisticClassifier as ProbabilisticClassifier
from skdp.base._row_index import named_levels as named_levels
from skdp.base._row_index import refuse_protected_levels as refuse_protected_levels
from skdp.base._row_index import warn_of_levels as warn_of_levels
from skdp.base._site import SITE as SITE
from skdp.base._site import OnSite as OnSite
from skdp.base._table_file import LARGEST_WHOLE as LARGEST_WHOLE
from skdp.base._table_file import MISSING_TEXTS as MISSING_TEXTS
from skdp.base._table_file import ZONED as ZONED
from skdp.base._table_file import date_dtype as date_dtype
from skdp.base._table_file import declares_zone as declares_zone
from skdp.base._table_file import encoding_error as encoding_error
from skdp.base._table_file import parse_dates as parse_dates
from skdp.base._table_file import read_frame as read_frame
from skdp.base._table_file import type_of_values as type_of_values
from skdp.base._table_file import type_texts as type_texts
from skdp.base._threads import one_thread as one_thread
from skdp.base._whole_table import rows_and_target as rows_and_target
from skdp.base._whole_table import split_target as split_target
