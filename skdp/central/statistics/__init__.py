"""Integer sums, quantiles and counts, with exact noise."""

from skdp.central.statistics._batches import Batches as Batches
from skdp.central.statistics._batches import append_weights as append_weights
from skdp.central.statistics._batches import find_missing as find_missing
from skdp.central.statistics._batches import limit_persons as limit_persons
from skdp.central.statistics._batches import read_persons as read_persons
from skdp.central.statistics._batches import read_private_rows as read_private_rows
from skdp.central.statistics._batches import rows_within as rows_within
from skdp.central.statistics._batches import select_columns as select_columns
from skdp.central.statistics._batches import split_off_column as split_off_column
from skdp.central.statistics._batches import split_persons as split_persons
from skdp.central.statistics._calibrated_noise import MAX_NOISY_COUNT as MAX_NOISY_COUNT
from skdp.central.statistics._calibrated_noise import Noise as Noise
from skdp.central.statistics._calibrated_noise import add_drawn as add_drawn
from skdp.central.statistics._calibrated_noise import choice_name as choice_name
from skdp.central.statistics._calibrated_noise import choose as choose
from skdp.central.statistics._calibrated_noise import cube_std as cube_std
from skdp.central.statistics._calibrated_noise import to_float as to_float
from skdp.central.statistics._calibrated_noise import warn_user as warn_user
from skdp.central.statistics._categories import SEARCH_PART as SEARCH_PART
from skdp.central.statistics._categories import CategorySearch as CategorySearch
from skdp.central.statistics._categories import check_types as check_types
from skdp.central.statistics._categories import choose_noise as choose_noise
from skdp.central.statistics._categories import count_texts as count_texts
from skdp.central.statistics._categories import draw_frequent as draw_frequent
from skdp.central.statistics._categories import encode_texts as encode_texts
from skdp.central.statistics._categories import find_threshold as find_threshold
from skdp.central.statistics._categories import find_undeclared as find_undeclared
from skdp.central.statistics._categories import plan_categories as plan_categories
from skdp.central.statistics._categories import sort_values as sort_values
from skdp.central.statistics._categories import (
    undeclared_columns_error as undeclared_columns_error,
)
from skdp.central.statistics._marginal_counts import count_cells as count_cells
from skdp.central.statistics._marginal_counts import count_marginals as count_marginals
from skdp.central.statistics._marginal_counts import declared_domain as declared_domain
from skdp.central.statistics._marginal_counts import encode_columns as encode_columns
from skdp.central.statistics._marginal_counts import encode_declared as encode_declared
from skdp.central.statistics._marginal_counts import is_ordered as is_ordered
from skdp.central.statistics._marginal_counts import join_codes as join_codes
from skdp.central.statistics._marginal_counts import make_frame as make_frame
from skdp.central.statistics._marginal_counts import make_index as make_index
from skdp.central.statistics._marginal_counts import (
    make_label_decoders as make_label_decoders,
)
from skdp.central.statistics._marginal_counts import (
    make_undeclared_error as make_undeclared_error,
)
from skdp.central.statistics._marginal_counts import select_domain as select_domain
from skdp.central.statistics._times import DURATION as DURATION
from skdp.central.statistics._times import convert_bounds as convert_bounds
from skdp.central.statistics._times import find_times as find_times
from skdp.central.statistics._times import format_ranges as format_ranges
from skdp.central.statistics._times import to_times as to_times
