"""Columns scaled to a given range."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Real
from typing import Any, Self

import numpy as np

from skdp.base import all_or_nothing, read_bounds, read_numbers
from skdp.central._base import CentralTransformer, Columns
from skdp.central.statistics import rank_columns, ranked_quantiles, read_candidates, read_probability
from skdp.privacy import PrivacyLedger


class DPMinMaxScaler(CentralTransformer):
    """Scale each column to a given range, from public bounds or quantiles that are released with differential privacy.

    With bounds alone, nothing is read from the data and nothing is spent. The least and the greatest value of a column
    are somebody's; quantiles near the ends, such as 0.001 and 0.999, stand for them.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of all columns together, finite and > 0; spent with `quantile_range` only.
    feature_range : tuple of two float, default=(0, 1)
        What the least and the greatest value become.
    bounds : pair of float, mapping of column name to pair, or array-like of shape (n_features, 2)
        The lowest and the highest value of all columns, or of each, from what is publicly known.
    quantile_range : tuple of two float, optional
        Which quantiles take the place of the bounds, ascending, between 0 and 1 (not in percent). Values beyond them
        remain, and are scaled beyond `feature_range`, unless `clip` is set: choose them where the bounds are far wider
        than nearly all values, and mind that what is cut off is not noise.
    candidates : "integers", int, array-like of float, or mapping of column name to one of these, optional
        What a quantile may be: ``"integers"`` stands for all whole numbers between the bounds, an int for a number of
        equal steps between them, from 1 to a million. By default up to 10,000 steps, such that all whole numbers
        between whole bounds are among their ends; for these numbers alone, if there are more, up to 100,000. Fewer
        candidates make a more accurate choice. The dtype of a column has no influence: in pandas, it may show that a
        value is missing.
    clip : bool, default=False
        Whether to move what `transform` would put outside of `feature_range` to its nearer end.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn.
    random_state : None or int, default=None
        None for secure coins; an int for reproducible experiments, and no promise to who knows it.

    Attributes
    ----------
    data_min_, data_max_ : ndarray of shape (n_features,)
        The bounds or the private quantiles.
    data_range_ : ndarray of shape (n_features,)
        Their difference.
    scale_, min_ : ndarray of shape (n_features,)
        ``X * scale_ + min_`` is what `transform` returns. Where the quantiles fall together, they are scaled as if one
        apart.
    guarantee_ : PrivacyGuarantee
        What was promised for this `fit`, about these numbers; epsilon is 0 for bounds alone, for which no value is used
        and nobody needs to be trusted.
    n_features_in_ : int
        The number of columns.
    feature_names_in_ : ndarray of str
        Their names, if all of them are strings.

    See Also
    --------
    sklearn.preprocessing.MinMaxScaler : It shows the least and the greatest value of the data.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record changes the law of
    the quantiles by at most epsilon, ``delta = 0``; replacing one by 2 epsilon. `fit` reads the values of all columns,
    and how many there are is protected too: a missing value adds nothing, and a table without rows is answered. **The
    quantiles are private, the output of** `transform` **is not**: each row of it is a function of the row that came in,
    without noise.

    Each of the two quantiles of d columns is chosen by permute-and-flip [1]_ with epsilon / (2 d).

    References
    ----------
    .. [1] R. McKenna, D. Sheldon (2020). Permute-and-flip: a new mechanism for differentially private selection.
       NeurIPS.

    Examples
    --------
    >>> from skdp import DPMinMaxScaler
    >>> from skdp.datasets import load_adult
    >>> ages = load_adult().frame[["age"]]
    >>> scaler = DPMinMaxScaler(bounds=(0, 100)).fit(ages)
    >>> scaler.transform(ages.head(2))["age"].tolist(), scaler.guarantee_.epsilon
    ([0.39, 0.5], 0.0)
    >>> scaler = DPMinMaxScaler(
    ...     epsilon=1.0, bounds=(0, 100), quantile_range=(0.01, 0.99), candidates="integers", random_state=0
    ... ).fit(ages)
    >>> scaler.data_min_, scaler.data_max_
    (array([17.]), array([74.]))
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        feature_range: tuple[float, float] = (0, 1),
        bounds: Any = None,
        quantile_range: tuple[float, float] | None = None,
        candidates: Any = None,
        clip: bool = False,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.feature_range = feature_range
        self.bounds = bounds
        self.quantile_range = quantile_range
        self.candidates = candidates
        self.clip = clip
        self.ledger = ledger
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Take the bounds, or release the quantiles.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Numbers; values may be missing, or infinite, which is clipped.
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
            If a parameter is out of range, bounds or candidates do not fit the columns, or X is 1-D, sparse or not
            numeric.
        BudgetExceeded
            If the ledger does not cover it.
        """
        epsilon = self._check_promise()
        low, high = self._read_feature_range()
        probabilities = self._read_quantile_range()
        if not isinstance(self.clip, bool | np.bool_):
            raise TypeError(f"clip must be True or False, got {type(self.clip).__name__}")
        table, large = self._open_table(X)
        ends = read_bounds(self.bounds, table.names)
        candidates = read_candidates(self.candidates, table.names, ends)
        if probabilities is None:
            read_numbers(table, missing=True)
            self._spend_nothing(table.names, "public bounds")
        else:
            ranks = rank_columns(table, large, candidates)
            source = self._spend(table.names, "permute-and-flip")
            ends = ranked_quantiles(ranks, probabilities, candidates, epsilon, source)
        self.data_min_, self.data_max_ = ends.T.copy()
        self.data_range_ = self.data_max_ - self.data_min_
        self.scale_ = (high - low) / np.where(self.data_range_ == 0, 1.0, self.data_range_)
        self.min_ = low - self.data_min_ * self.scale_
        return self

    def inverse_transform(self, X: Any) -> Any:
        """Undo `transform`, but for what was clipped.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Scaled rows.

        Returns
        -------
        same kind as X
            The rows in their own units.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If X has other columns, or is not numeric.
        """
        return self._invert(X, self._invert_columns)

    def _transform_columns(self, columns: Columns) -> Columns:
        scaled = [column * scale + shift for column, scale, shift in zip(columns, self.scale_, self.min_, strict=True)]
        return [np.clip(column, *self._read_feature_range()) for column in scaled] if self.clip else scaled

    def _invert_columns(self, columns: Columns) -> Columns:
        return [(column - shift) / scale for column, scale, shift in zip(columns, self.scale_, self.min_, strict=True)]

    def _read_feature_range(self) -> tuple[float, float]:
        low, high = _pair("feature_range", self.feature_range)
        for end in (low, high):
            if isinstance(end, bool | np.bool_) or not isinstance(end, Real):
                raise TypeError(f"feature_range must be two numbers, got {type(end).__name__}")
        low, high = float(low), float(high)
        if not (math.isfinite(high - low) and low < high):
            raise ValueError(f"feature_range must be finite and ascending, got {self.feature_range}")
        return low, high

    def _read_quantile_range(self) -> list[Fraction] | None:
        if self.quantile_range is None:
            return None
        low, high = (read_probability(end, "quantile_range") for end in _pair("quantile_range", self.quantile_range))
        if low >= high:
            raise ValueError(f"quantile_range must be ascending, got {self.quantile_range}")
        return [low, high]


def _pair(name: str, value: Any) -> tuple[Any, Any]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"{name} must be a pair (low, high), got {type(value).__name__}")
    return value[0], value[1]
