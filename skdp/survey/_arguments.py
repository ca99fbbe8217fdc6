"""Arguments of a fit: targets, weights and clusters, checked without a value in an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.survey._likelihood import HiddenModel, Numbers


def check_given(y: Any) -> None:
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")


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
    codes, _ = pd.factorize(np.asarray(clusters))
    if len(codes) != n_rows:
        raise ValueError(
            f"clusters must have {n_rows} entries, one a row, got {len(codes)}"
        )
    # pandas gives missing values this code.
    if (codes < 0).any():
        raise ValueError("clusters must have no missing values")
    return np.asarray(codes)


def read_weights(sample_weight: Any, n_rows: int) -> Numbers:
    if sample_weight is None:
        return np.ones(n_rows)
    weights = read_numbers("sample_weight", sample_weight)
    if weights.shape != (n_rows,) or not np.isfinite(weights).all():
        raise ValueError(f"sample_weight must hold {n_rows} finite numbers, one a row")
    if (weights < 0).any() or not weights.any():
        raise ValueError("sample_weight must be at least 0, and not all weights zero")
    return weights


def check_enough(cluster_codes: NDArray[np.intp] | None, model: HiddenModel) -> None:
    """Refuse fewer clusters than terms, whose scores do not vary in all directions."""
    if cluster_codes is None:
        return
    n_clusters = int(cluster_codes.max()) + 1
    if n_clusters <= model.n_features:
        raise ValueError(
            f"clusters must be more than the {model.n_features} terms of the model, "
            f"for errors to be known; got {n_clusters}"
        )
