"""Errors of synthetic tables compared with real ones."""

from skdp.metrics.tables._marginals import marginal_error as marginal_error
from skdp.metrics.tables._marginals import marginal_errors as marginal_errors
from skdp.metrics.tables._marginals import marginal_table as marginal_table
from skdp.metrics.tables._marginals import value_errors as value_errors
from skdp.metrics.tables._quality import compare_marginals as compare_marginals
from skdp.metrics.tables._quality import compare_numbers as compare_numbers
from skdp.metrics.tables._range_queries import (
    random_range_queries as random_range_queries,
)
from skdp.metrics.tables._range_queries import range_query_error as range_query_error
from skdp.metrics.tables._train_on_synthetic import (
    train_on_synthetic as train_on_synthetic,
)
