"""Standardisation by private means and variances."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags

from skdp.base import all_or_nothing, level_of_the_caller
from skdp.central._base import CentralTransformer, Columns
from skdp.central.statistics import GRID, cube_moments, sum_columns
from skdp.privacy import PrivacyLedger


class DPStandardScaler(CentralTransformer):
    """Standardise columns by means and variances that are private for the whole record.

    A value x becomes ``(x - mean) / scale``, as by scikit-learn's `StandardScaler`. The means and the variances of all
    columns come from one draw of noise of a single epsilon.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of all columns together, finite and > 0.
    with_mean : bool, default=True
        Whether the means are subtracted.
    with_std : bool, default=True
        Whether the values are divided by the standard deviations. Without, the noise of the means is about half as
        large.
    bounds : pair of float, mapping of column name to pair, or array-like of shape (n_features, 2)
        The lowest and the highest value of all columns, or of each, from what is publicly known. `fit` clips values
        outside; `transform` does not.
    missing : {"error", "ignore"}, default="error"
        ``"error"``: a missing or infinite value is an error, in `fit` and in `transform`, which shows that there is
        one. ``"ignore"``: in `fit`, a missing value adds nothing to the statistics of its column, and an infinite one
        is clipped; `transform` leaves both. Each column then needs a count of its own, and the noise is larger: by a
        third for five columns.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn.
    random_state : None or int, default=None
        None for secure coins; an int for reproducible experiments, and no promise to who knows it.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The noisy means, between the bounds; their middle where the noise hides whether there is any value.
    mean_std_error_ : ndarray of shape (n_features,)
        The standard deviation of their noise.
    var_ : ndarray of shape (n_features,)
        The noisy variances: at least the standard deviation of their noise, below which nothing is known, and at most a
        quarter of the squared width of the bounds, the largest one possible. None without `with_std`.
    scale_ : ndarray of shape (n_features,)
        The noisy standard deviations: the roots of `var_`; never 0. None without `with_std`.
    scale_std_error_ : ndarray of shape (n_features,)
        About the standard deviation of their noise. None without `with_std`.
    drowned_ : ndarray of bool, shape (n_features,)
        Where the noise leaves nothing of the variance: `var_` is then the one of a uniform law between the bounds,
        which is public. This is warned of. None without `with_std`.
    guarantee_ : PrivacyGuarantee
        What was promised for this `fit`.
    n_features_in_ : int
        The number of columns.
    feature_names_in_ : ndarray of str
        Their names, if all of them are strings.

    See Also
    --------
    DPMean : Means with intervals.
    DPSimpleImputer : Fills in missing values first.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. What is private are the statistics: adding or
    removing a record changes the law of all fitted attributes by at most ``(epsilon, 0)``; replacing one by
    ``(2 epsilon, 0)``. **The output of `transform` is the rows themselves**, moved and scaled: no noise is added to it,
    and it is as private as X. `fit` reads the values of all columns, and how many rows there are is protected too:
    there is no ``n_samples_seen_``, and a table without rows is answered. What is not covered is that an error under
    ``missing="error"`` shows that some value is missing.

    Values are placed on a grid of 2**30 steps between the bounds. One record changes the number of rows, and for each
    column the sum of the places and that of their squares, shifted and scaled to ``[-1, 1]``, by at most 1 each. So
    noise of the density ``e**(-epsilon max|z|)`` in D = 2 d + 1 dimensions protects all of them ([1]_, [2]_); it is
    drawn exactly, and gives each the variance ``(D + 1) (D + 2) / (3 epsilon**2)``. D is d + 1 without `with_std`, and
    3 d and 2 d with ``missing="ignore"``.

    References
    ----------
    .. [1] M. Hardt, K. Talwar (2010). On the geometry of differential privacy. STOC.
    .. [2] T. Steinke, J. Ullman (2016). Between pure and approximate differential privacy. Journal of Privacy and
       Confidentiality 7(2).

    Examples
    --------
    >>> from skdp import DPStandardScaler
    >>> from skdp.datasets import load_adult
    >>> people = load_adult().frame[["age", "hours-per-week"]]
    >>> bounds = {"age": (0, 100), "hours-per-week": (0, 100)}
    >>> scaler = DPStandardScaler(epsilon=0.5, bounds=bounds, random_state=0).fit(people)
    >>> scaler.mean_.round(2), people.to_numpy().mean(axis=0).round(2)
    (array([38.59, 40.42]), array([38.58, 40.44]))
    >>> scaler.scale_.round(2), people.to_numpy().std(axis=0).round(2)
    (array([13.64, 12.33]), array([13.64, 12.35]))
    >>> print(scaler.guarantee_.to("replace"))
    epsilon = 1, central model, replacing one record's values of: age, hours-per-week, NOT SECURE: ...
    """

    var_: NDArray[np.float64] | None
    scale_: NDArray[np.float64] | None
    scale_std_error_: NDArray[np.float64] | None
    drowned_: NDArray[np.bool_] | None

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        with_mean: bool = True,
        with_std: bool = True,
        bounds: Any = None,
        missing: str = "error",
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.with_mean = with_mean
        self.with_std = with_std
        self.bounds = bounds
        self.missing = missing
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "ignore"
        return tags

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Release the means and the variances of a table.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Numbers.
            Or, with `skdp.engines`, a large table, of which only sums are read: a Polars LazyFrame, a DuckDB relation,
            a pyarrow Dataset, or a Dask or Spark DataFrame.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted transformer.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, the bounds do not fit the columns, X is 1-D, sparse or not numeric, or
            values are missing that may not.
        BudgetExceeded
            If the ledger does not cover it.

        Warns
        -----
        UserWarning
            If the noise drowns a variance.
        """
        epsilon = self._check_promise()
        if not isinstance(self.missing, str) or self.missing not in ("error", "ignore"):
            raise ValueError(f"missing must be 'error' or 'ignore', got {self.missing!r}")
        for name in ("with_mean", "with_std"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise TypeError(f"{name} must be True or False, got {type(getattr(self, name)).__name__}")
        if not (self.with_mean or self.with_std):
            raise ValueError("with_mean and with_std are both False: there is nothing to scale by")
        table, large = self._open_table(X)
        columns = sum_columns(table, large, self.bounds, missing=self.missing == "ignore")
        source = self._spend(table.names, "cube")
        shared = self.missing == "error"
        moments = cube_moments(columns, epsilon, source, squares=bool(self.with_std), shared_count=shared)
        half_widths = np.array([(column.high - column.low) / 2 for column in columns])
        self.mean_ = np.array([column.value(GRID * one.mean) for column, one in zip(columns, moments, strict=True)])
        self.mean_std_error_ = half_widths * [one.mean_error for one in moments]
        self.var_ = self.scale_ = self.scale_std_error_ = self.drowned_ = None
        if self.with_std:
            roots = np.sqrt([one.variance for one in moments])
            self.scale_ = half_widths * roots
            with np.errstate(over="ignore"):  # the squared width of the widest bounds is infinite
                self.var_ = self.scale_**2
            self.scale_std_error_ = half_widths * [one.variance_error for one in moments] / (2 * roots)
            self.drowned_ = np.array([one.drowned for one in moments])
            drowned = [name for name, one in zip(table.names, moments, strict=True) if one.drowned]
            if drowned:
                warnings.warn(
                    f"the noise drowns the variance of {drowned}: scale_ is that of a uniform law between the bounds. "
                    "There are too few rows for this epsilon",
                    UserWarning,
                    stacklevel=level_of_the_caller(),
                )
        return self

    def inverse_transform(self, X: Any) -> Any:
        """Turn standardised rows back.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            What `transform` returned.

        Returns
        -------
        same kind as X
            The rows, in the units of the bounds.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If X has other columns, or is not numeric.
        """

        def invert(columns: Columns) -> Columns:
            return [
                column * scale + mean for column, mean, scale in zip(columns, *self._shift_and_scale(), strict=True)
            ]

        return self._invert(X, invert)

    def _transform_columns(self, columns: Columns) -> Columns:
        if self.missing == "error":
            for name, column in zip(self.guarantee_.scope, columns, strict=True):
                if not np.isfinite(column).all():
                    raise ValueError(f"column {name!r} holds a missing value, a NaN or an inf; see missing=")
        return [(column - mean) / scale for column, mean, scale in zip(columns, *self._shift_and_scale(), strict=True)]

    def _shift_and_scale(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what `transform` subtracts and what it divides by."""
        nothing = np.zeros(self.n_features_in_)
        return (self.mean_ if self.with_mean else nothing, nothing + 1 if self.scale_ is None else self.scale_)
