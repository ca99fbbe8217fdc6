"""Parts shared by all estimators: input tables, bounds, domains, randomness, ledger and output format.

Internal: import nothing from here outside of skdp.
"""

from skdp.base._draft import draft_domain, draft_domain_toml
from skdp.base._estimator import (
    DECLARED,
    TARGET,
    CallCounter,
    CallRandomness,
    all_or_nothing,
    as_asked,
    check_confidence_level,
    check_ledger,
    check_names,
    check_random_state,
    coins,
    declares_missing,
    domains_of_dtypes,
    level_of_the_caller,
    read_array,
    read_domain,
    read_input,
    target_column,
    target_of,
    warn_of_observed,
)
from skdp.base._heard import heard
from skdp.base._numbers import floats_between, read_bounds, read_numbers, together
from skdp.base._probabilities import ProbabilisticClassifier
from skdp.base._site import SITE as SITE
from skdp.base._site import OnSite
from skdp.base._table_file import (
    LARGEST_WHOLE,
    MISSING_TEXTS,
    ZONED,
    date_dtype,
    declares_zone,
    encoding_error,
    parse_dates,
    read_frame,
    type_of_values,
    type_texts,
)
from skdp.base._whole_table import rows_and_target, split_target

__all__ = [
    "DECLARED",
    "LARGEST_WHOLE",
    "MISSING_TEXTS",
    "TARGET",
    "ZONED",
    "CallCounter",
    "CallRandomness",
    "OnSite",
    "ProbabilisticClassifier",
    "all_or_nothing",
    "as_asked",
    "check_confidence_level",
    "check_ledger",
    "check_names",
    "check_random_state",
    "coins",
    "date_dtype",
    "declares_missing",
    "declares_zone",
    "domains_of_dtypes",
    "draft_domain",
    "draft_domain_toml",
    "encoding_error",
    "floats_between",
    "heard",
    "level_of_the_caller",
    "parse_dates",
    "read_array",
    "read_bounds",
    "read_domain",
    "read_frame",
    "read_input",
    "read_numbers",
    "rows_and_target",
    "split_target",
    "target_column",
    "target_of",
    "together",
    "type_of_values",
    "type_texts",
    "warn_of_observed",
]
