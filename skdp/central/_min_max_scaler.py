"""Columns scaled to a given range."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.base import read_bounds, read_numbers
from skdp.central._base import Columns, InvertibleTransformer, Plan, check_flag
from skdp.central.statistics import Candidates, plan_quantiles, read_candidates, read_probability
from skdp.frames import LargeTable, Table
from skdp.privacy import PrivacyLedger
from skdp.typing import Bounds


class DPMinMaxScaler(InvertibleTransformer):
    """Scale each column to a given range, from public bounds or quantiles that are released with differential privacy.

    With bounds alone, nothing is read from the data and nothing is spent. The least and the greatest value of a column
    each belong to one person; quantiles near the ends, such as 0.001 and 0.999, stand for them.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of all columns together, finite and > 0; spent with `quantile_range` only.
    feature_range : tuple of two float, default=(0, 1)
        What the least and the greatest value become.
    bounds : pair of float, mapping of column name to pair, or array-like of shape (n_features, 2)
        The lowest and the highest value of all columns, or of each, from what is publicly known.
    quantile_range : tuple of two float, optional
        The quantiles that replace the bounds, ascending, between 0 and 1 (not in percent), for bounds far wider than
        nearly all values. Values beyond them are scaled beyond `feature_range`, unless `clip` is set.
    candidates : "integers", int, array-like of float, or mapping of column name to one of these, optional
        The possible quantiles, as in `DPQuantileBinarizer`.
    clip : bool, default=False
        Whether to move what `transform` would put outside of `feature_range` to its nearer end.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee against those who know it.

    Attributes
    ----------
    data_min_, data_max_ : ndarray of shape (n_features,)
        The bounds or the private quantiles.
    data_range_ : ndarray of shape (n_features,)
        Their difference.
    scale_, min_ : ndarray of shape (n_features,)
        `transform` returns ``X * scale_ + min_``. Quantiles that coincide are scaled as if they differed by 1.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`, about these numbers; epsilon is 0 for bounds alone, which use no value.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of columns; their names, if all of them are strings.

    See Also
    --------
    sklearn.preprocessing.MinMaxScaler : It shows the least and the greatest value of the data.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record changes the
    distribution of the quantiles by at most epsilon, ``delta = 0``; replacing one by 2 epsilon. `fit` reads the values
    of all columns, and their number is protected too: a missing value adds nothing, and a table without rows is
    answered. **The quantiles are private, the output of** `transform` **is not**: each of its rows is a function of the
    input row, without noise.

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
        bounds: Bounds | None = None,
        quantile_range: tuple[float, float] | None = None,
        candidates: Candidates | None = None,
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

    def _plan(self, table: Table, large: LargeTable | None, epsilon: Fraction) -> Plan:
        low, high = self._read_feature_range()
        probabilities = self._read_quantile_range()
        check_flag("clip", self.clip)
        bounds = read_bounds(self.bounds, table.names)
        candidates = read_candidates(self.candidates, table.names, bounds)

        def scale(ends: NDArray[np.float64]) -> None:
            self.data_min_, self.data_max_ = ends.T.copy()
            self.data_range_ = self.data_max_ - self.data_min_
            self.scale_ = (high - low) / np.where(self.data_range_ == 0, 1.0, self.data_range_)
            self.min_ = low - self.data_min_ * self.scale_

        if probabilities is None:
            read_numbers(table, missing=True)
            return Plan("public bounds", lambda source: scale(bounds), free=True)
        draw = plan_quantiles(table, large, candidates, probabilities, epsilon)
        return Plan("permute-and-flip", lambda source: scale(draw(source)))

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
