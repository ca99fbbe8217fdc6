"""The target, weights and clusters of rows, as a fit is given them."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import column_or_1d

from skdp.local.protocol import refuse_name
from skdp.survey._likelihood import HiddenModel, Numbers
from skdp.survey._warnings import warn_of_few_clusters

_FEW_CLUSTERS = 20
"""Below 20 to 50 of them, the sandwich's errors are too small (Cameron and Miller 2015,
section VI)."""


def is_series(y: Any) -> bool:
    """Whether y is a series that has a name: of pandas or polars."""
    return nw.dependencies.is_into_series(y) and hasattr(y, "to_frame")


def check_given(y: Any) -> None:
    """Refuse a fit without a target, in the words of scikit-learn."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")


def refuse_complex(name: str, values: Any) -> None:
    # scikit-learn's error of complex numbers holds the numbers.
    if np.asarray(values).dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} must hold real numbers")


def one_column(name: str, values: Any) -> NDArray[Any]:
    """Return values as an array of one axis; an error must not quote one of them."""
    refuse_complex(name, values)
    return np.asarray(column_or_1d(values, warn=True))


def read_numbers(name: str, values: Any) -> Numbers:
    """Return values as floats; an error must not quote one of them."""
    array = np.asarray(values)
    numbers = None
    if array.dtype.kind in "biuf":
        numbers = array.astype(float)
    elif array.dtype.kind == "O":
        try:
            numbers = array.astype(float)
        except (TypeError, ValueError):
            numbers = None
    if numbers is None:
        raise ValueError(f"{name} must hold numbers, got {array.dtype}")
    return numbers


def read_clusters(clusters: Any, n_rows: int) -> NDArray[np.intp] | None:
    """Return the number of the cluster of each row; None if there are none."""
    if clusters is None:
        return None
    refuse_name("clusters", clusters)
    codes, _ = pd.factorize(np.asarray(clusters))
    if len(codes) != n_rows:
        raise ValueError(
            f"clusters must have {n_rows} entries, one a row, got {len(codes)}"
        )
    # pandas gives missing values this code.
    if (codes < 0).any():
        raise ValueError("clusters must have no missing values")
    return np.asarray(codes)


def count_clusters(
    cluster_codes: NDArray[np.intp] | None, model: HiddenModel
) -> int | None:
    """Return the number of clusters, as many as errors need; None if there are none."""
    if cluster_codes is None:
        return None
    n_clusters = len(np.unique(cluster_codes[model.weights > 0]))
    # The scores of fewer clusters than terms do not vary in all directions.
    if n_clusters <= model.n_features:
        raise ValueError(
            f"clusters must be more than the {model.n_features} terms of the model, "
            f"for errors to be known; got {n_clusters}"
        )
    if n_clusters < _FEW_CLUSTERS:
        warn_of_few_clusters(n_clusters, _FEW_CLUSTERS)
    return n_clusters


def read_weights(sample_weight: Any, n_rows: int) -> Numbers:
    if sample_weight is None:
        return np.ones(n_rows)
    refuse_name("sample_weight", sample_weight)
    weights = read_numbers("sample_weight", sample_weight)
    if weights.shape != (n_rows,) or not np.isfinite(weights).all():
        raise ValueError(f"sample_weight must hold {n_rows} finite numbers, one a row")
    if (weights < 0).any() or not weights.any():
        raise ValueError("sample_weight must be at least 0, and not all weights zero")
    # Weights that are all alike say what none say.
    if (weights == weights[0]).all():
        return np.ones(n_rows)
    # Of a design only ratios matter: a mean of 1 keeps limits and comparisons of the fit
    # at the scale of rows.
    ratios = weights / weights.max()
    scaled: Numbers = ratios * (np.count_nonzero(ratios) / ratios.sum())
    return scaled
