"""Errors of estimated counts."""

from __future__ import annotations

from numbers import Real
from typing import Any, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skdp.base import check_choice, read_array
from skdp.tables import is_missing, plain

Numbers = NDArray[np.float64]


def count_error(true: ArrayLike, estimate: ArrayLike, *, metric: str = "l1") -> float:
    """Compute the distance between true and estimated counts.

    Parameters
    ----------
    true, estimate : array-like of shape (n_cells,), or DataFrame with a column "count"
        True and estimated counts; of the DataFrame of `estimate_counts`, the column "count". Two pandas Series are
        matched by label, otherwise by position.
    metric : {"l1", "l2", "total_variation"}, default="l1"
        "l1": the sum of the absolute errors. "l2": the Euclidean distance, which weighs large errors more.
        "total_variation": half the sum of the absolute differences between the shares, which is the largest error in
        the share of any set of cells: 0 to 1, or more where unbiased estimates are negative.

    Returns
    -------
    float
        The distance, at least 0.

    Raises
    ------
    ValueError
        If the counts are not 1-D, of different lengths or labels, not numeric, missing or infinite; for
        "total_variation", if either do not add up to a positive number.

    See Also
    --------
    percent_error : The error of each count.

    Notes
    -----
    **Privacy.** The result depends on the true counts and is not protected: for data that is not sensitive.

    The expected "l2" error of a local transformer's unbiased estimates, its root mean square, is
    ``np.sqrt(encoder.count_variances(counts).sum())``.

    Examples
    --------
    >>> count_error([50, 30, 20], [45, 36, 19])
    12.0
    >>> count_error([50, 30, 20], [47, 34, 20], metric="l2")
    5.0
    >>> count_error([50, 30, 20], [4, 4, 2], metric="total_variation")
    0.1

    Two Series may have their rows in different orders:

    >>> import pandas as pd
    >>> true = pd.Series({"no": 7, "yes": 3})
    >>> count_error(true, pd.Series({"yes": 3.5, "no": 6.5}))
    1.0

    The table of `estimate_counts` is read by its column "count":

    >>> from skdp import RandomizedResponseEncoder
    >>> encoder = RandomizedResponseEncoder(1.0, categories=[["no", "yes"]], random_state=0)
    >>> reports = encoder.fit_transform(pd.DataFrame({"smokes": ["no"] * 7 + ["yes"] * 3}))
    >>> round(count_error(true, encoder.estimate_counts(reports)), 1)
    4.0
    """
    check_choice("metric", metric, ("l1", "l2", "total_variation"))
    true_counts, estimates, _ = _pair(true, estimate)
    if metric == "total_variation":
        true_counts = _shares(true_counts, "true")
        estimates = _shares(estimates, "estimate")
    difference = estimates - true_counts
    if metric == "l2":
        return float(np.linalg.norm(difference))
    distance = float(np.abs(difference).sum())
    return distance / 2 if metric == "total_variation" else distance


@overload
def percent_error(true: float, estimate: float) -> float: ...
@overload
def percent_error(true: pd.Series, estimate: ArrayLike) -> pd.Series: ...
@overload
def percent_error(
    true: ArrayLike, estimate: ArrayLike
) -> float | pd.Series | Numbers: ...
def percent_error(true: ArrayLike, estimate: ArrayLike) -> float | pd.Series | Numbers:
    """Compute each error as a percentage of the true count.

    Parameters
    ----------
    true, estimate : float or array-like of shape (n_cells,), or DataFrame with a column "count"
        True counts, at least 0, and estimated ones, as for `count_error`.

    Returns
    -------
    float, Series or ndarray
        ``100 * |estimate - true| / true``: a float for two numbers, a Series (labelled as `true`, or as `estimate` if
        `true` has no labels) for Series, an ndarray otherwise. Where the true count is 0 it is 0 if the estimate is 0
        too, and infinite if it is not.

    Raises
    ------
    ValueError
        If the counts are of different lengths or labels, not numeric, missing or infinite, have more than one
        dimension, or if a true count is negative.

    Notes
    -----
    **Privacy.** The result depends on the true counts and is not protected: for data that is not sensitive.

    Examples
    --------
    >>> percent_error(3_650, 3_504)
    4.0
    >>> percent_error([100, 0, 0], [110, 0, 5])
    array([10.,  0., inf])
    """
    true_counts, estimates, index = _pair(true, estimate, scalars=True)
    if (true_counts < 0).any():
        raise ValueError("true counts must be at least 0")
    # Of a count of 0, any other estimate is infinitely far off.
    error = np.abs(estimates - true_counts)
    percent = np.where(error == 0, 0.0, np.inf)  # where the true count is 0
    np.divide(100 * error, true_counts, out=percent, where=true_counts > 0)
    if index is not None:
        return pd.Series(percent, index=index, name="percent_error")
    return percent if percent.ndim else float(percent)


def _pair(
    true: Any, estimate: Any, *, scalars: bool = False
) -> tuple[Numbers, Numbers, pd.Index | None]:
    """Read both sides in the same order; also return the labels, if there are any."""
    true, estimate = _select_counts(true), _select_counts(estimate)
    true_counts = _read_numbers(true, "true")
    estimates = _read_numbers(estimate, "estimate")
    if true_counts.shape != estimates.shape:
        raise ValueError(
            "true and estimate must have the same shape, got "
            f"{true_counts.shape} and {estimates.shape}"
        )
    n_dimensions = true_counts.ndim
    if n_dimensions > 1 or (n_dimensions == 0 and not scalars):
        raise ValueError(
            f"true and estimate must be 1-D, got {n_dimensions} dimensions"
        )
    index = None
    if isinstance(true, pd.Series):
        index = true.index
        if isinstance(estimate, pd.Series):
            estimates = estimates[_positions(true.index, estimate.index)]
    elif isinstance(estimate, pd.Series):
        index = estimate.index
    return true_counts, estimates, index


def _select_counts(counts: Any) -> Any:
    """Return the column "count" of a DataFrame; return other counts as they are."""
    if isinstance(counts, pd.DataFrame) and "count" in counts.columns:
        return counts["count"]
    return counts


def _read_numbers(values: Any, name: str) -> Numbers:
    array = (
        values.to_numpy() if isinstance(values, pd.Series) else read_array(values, name)
    )
    if array.dtype == object:
        # NumPy would convert "3" to a number.
        if not all(_is_number(cell) or is_missing(cell) for cell in array.flat):
            raise ValueError(
                f"{name} must be numeric, a number or 1-D array-like, got "
                f"{type(values).__name__}"
            )
        array = np.where(pd.isna(array), np.nan, array)
    elif array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be numeric, got dtype {array.dtype}")
    numbers = array.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} holds a missing or infinite number")
    return numbers


def _is_number(cell: Any) -> bool:
    return isinstance(cell, Real) and not isinstance(cell, bool)


def _positions(true: pd.Index, estimate: pd.Index) -> NDArray[np.intp]:
    """Find the position of each true label among the labels of the estimate."""
    # Two indices may have the same labels in another order, or of another dtype.
    if true.equals(estimate) and true.is_unique:
        return np.arange(len(true))
    true_labels = labels_of(true)
    position_of = {label: place for place, label in enumerate(labels_of(estimate))}
    if len(set(true_labels)) < len(true_labels) or len(position_of) < len(estimate):
        raise ValueError(
            "true and estimate are matched by label; one of them has a label twice"
        )
    if position_of.keys() != set(true_labels):
        raise ValueError(
            "true and estimate are matched by label; reindex them to the same labels"
        )
    return np.array([position_of[label] for label in true_labels], dtype=np.intp)


def labels_of(index: pd.Index) -> list[Any]:
    """Return labels as Python objects."""
    # A categorical index, a str one and one of objects may have the same labels, and so
    # may None and nan, which pandas does not match with each other.
    if index.nlevels > 1:
        return [tuple(map(_plain_part, label)) for label in index]
    return [plain(label) for label in index.get_level_values(0)]


def _plain_part(part: Any) -> Any:
    """Return a part of a label of several; truth values are text."""
    # `estimate_counts` writes truth values as text if their level also holds the number
    # 0 or 1, and as they are otherwise. As text everywhere, they match true counts that
    # are labelled either way.
    value = plain(part)
    return str(value) if isinstance(value, bool) else value


def _shares(counts: Numbers, name: str) -> Numbers:
    total = counts.sum()
    if not (np.isfinite(total) and total > 0):
        raise ValueError(
            f"the counts of {name} must add up to a positive number to be a "
            "distribution"
        )
    return counts / total
