"""Errors of estimated counts."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from skdp._arrays import Floats, Indices
from skdp.base import check_choice, to_array
from skdp.tables import to_python


def count_error(*, true: Any, estimate: Any, metric: str = "l1") -> float:
    """Compute the distance between true and estimated counts.

    Parameters
    ----------
    true, estimate : array-like of shape (n_cells,), or DataFrame with a column "count"
        True and estimated counts, or the DataFrame of `estimate_counts`, whose column
        "count" is used. Two pandas Series are matched by label, and other counts by
        position.
    metric : {"l1", "l2", "total_variation"}, default="l1"
        Distance to compute.

        - "l1" is the sum of the absolute errors.
        - "l2" is the Euclidean distance, which weights large errors more.
        - "total_variation" is half the sum of the absolute differences of the
          proportions, which is the largest error of the proportion of any set of cells.
          It is between 0 and 1, or larger if unbiased estimates are negative.

    Returns
    -------
    float
        The distance, at least 0.

    Raises
    ------
    ValueError
        If the counts are not 1-D, not numeric, missing or infinite, if they differ in
        length or labels, or if either sum is not positive for "total_variation".

    See Also
    --------
    skdp.Domain : Its `value_counts` are true counts with the labels of estimates.

    Notes
    -----
    **Privacy.** The result depends on the true counts and is not protected.

    The root mean square of the "l2" error of unbiased estimates of a local transformer
    is ``np.sqrt(encoder.count_variances(counts).sum())``.

    Examples
    --------
    >>> from skdp.metrics import count_error
    >>> count_error(true=[50, 30, 20], estimate=[45, 36, 19])
    12.0
    >>> count_error(true=[50, 30, 20], estimate=[47, 34, 20], metric="l2")
    5.0
    >>> count_error(true=[50, 30, 20], estimate=[4, 4, 2], metric="total_variation")
    0.1

    Two Series may have their rows in different orders:

    >>> import pandas as pd
    >>> true = pd.Series({"no": 7, "yes": 3})
    >>> count_error(true=true, estimate=pd.Series({"yes": 3.5, "no": 6.5}))
    1.0

    The table of `estimate_counts` is read by its column "count":

    >>> from skdp import RandomizedResponseEncoder
    >>> encoder = RandomizedResponseEncoder(1.0, categories=[["no", "yes"]], random_state=0)
    >>> reports = encoder.fit_transform(pd.DataFrame({"smokes": ["no"] * 7 + ["yes"] * 3}))
    >>> round(count_error(true=true, estimate=encoder.estimate_counts(reports)), 1)
    4.0
    """
    check_choice("metric", metric, ("l1", "l2", "total_variation"))
    true_counts, estimates = _match_counts(true, estimate)
    if true_counts.ndim != 1:
        raise ValueError(
            f"`true` and `estimate` must be 1-D, got {true_counts.ndim} dimensions."
        )
    if metric == "total_variation":
        true_counts = _normalize(true_counts, "true")
        estimates = _normalize(estimates, "estimate")
    difference = estimates - true_counts
    if metric == "l2":
        return float(np.linalg.norm(difference))
    distance = float(np.abs(difference).sum())
    return distance / 2 if metric == "total_variation" else distance


def _match_counts(true: Any, estimate: Any) -> tuple[Floats, Floats]:
    """Return true and estimated counts in the order of `true`."""
    true, estimate = _select_counts(true), _select_counts(estimate)
    true_counts = _convert_counts(true, "true")
    estimates = _convert_counts(estimate, "estimate")
    if true_counts.shape != estimates.shape:
        raise ValueError(
            "`true` and `estimate` must have the same shape, got "
            f"{true_counts.shape} and {estimates.shape}. Count the true values by "
            "Domain.value_counts, and compare separate columns one at a time."
        )
    # Arrays and lists have no labels and are matched by position.
    if isinstance(true, pd.Series) and isinstance(estimate, pd.Series):
        estimates = estimates[_match_labels(true.index, estimate.index)]
    return true_counts, estimates


def _select_counts(counts: Any) -> Any:
    """Return the column "count" of a DataFrame; return other counts unchanged."""
    # `estimate_counts` returns a table with standard errors and intervals beside it.
    if isinstance(counts, pd.DataFrame) and "count" in counts.columns:
        return counts["count"]
    return counts


def _convert_counts(values: Any, name: str) -> Floats:
    """Convert counts to an array of floats; raise an error unless all are finite numbers."""
    array = values if isinstance(values, pd.Series) else to_array(values, name)
    cells = np.asarray(array, object)
    is_absent = pd.isna(cells)
    for cell in cells[~is_absent]:
        # NumPy would convert "3" and True to numbers.
        if isinstance(cell, bool) or not isinstance(cell, Real):
            raise ValueError(
                f"`{name}` must be numeric, a number or 1-D array-like, got "
                f"{type(values).__name__}."
            )
    numbers = np.where(is_absent, np.nan, cells).astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(f"`{name}` must be finite, got a missing or infinite number.")
    return numbers


def _match_labels(true: pd.Index, estimate: pd.Index) -> Indices:
    """Return the index of each true label among the labels of the estimate."""
    labels, others = (
        pd.Index(convert_labels(index), dtype=object, tupleize_cols=False)
        for index in (true, estimate)
    )
    if not (labels.is_unique and others.is_unique):
        raise ValueError("`true` and `estimate` must have distinct labels.")
    indices = others.get_indexer(labels)
    if (indices < 0).any():
        raise ValueError(
            "`true` and `estimate` must have the same labels. Use "
            "`domain.value_counts(X)` for `true`."
        )
    return indices


def convert_labels(index: pd.Index) -> list[Any]:
    """Convert the labels of an index to Python objects, which can be compared by ``==``."""
    # pandas does not match None with nan, or a categorical index with text.
    if index.nlevels > 1:
        return [tuple(map(_convert_level_value, label)) for label in index]
    return list(map(to_python, index.get_level_values(0)))


def _convert_level_value(level_value: Any) -> Any:
    """Convert a value of one level of a MultiIndex to a Python object."""
    # `estimate_counts` writes booleans as text if the level also has the number 0 or 1.
    value = to_python(level_value)
    return str(value) if isinstance(value, bool) else value


def _normalize(counts: Floats, name: str) -> Floats:
    """Divide counts by their sum; raise an error if the sum is not positive."""
    # Unbiased estimates may be negative, and so may their sum.
    total = counts.sum()
    if total <= 0:
        raise ValueError(
            f"`{name}` must have counts with a positive sum, got 0 or less."
        )
    return counts / total
