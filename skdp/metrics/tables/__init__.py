"""Errors of synthetic tables compared with real ones."""

from skdp.metrics.tables._marginals import marginal_error, marginal_errors, marginal_table, workload_error
from skdp.metrics.tables._range_queries import random_range_queries, range_query_error
from skdp.metrics.tables._train_on_synthetic import train_on_synthetic

__all__ = [
    "marginal_error",
    "marginal_errors",
    "marginal_table",
    "random_range_queries",
    "range_query_error",
    "train_on_synthetic",
    "workload_error",
]
