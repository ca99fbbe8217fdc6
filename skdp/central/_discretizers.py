"""Columns cut into bins at private quantiles."""

from __future__ import annotations

from fractions import Fraction
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags

from skdp.base import Bounds, level_of_the_caller
from skdp.central._base import CentralTransformer, Columns, Plan
from skdp.central.statistics import Batches, plan_quantiles
from skdp.oracles import check_size
from skdp.pages import warn
from skdp.privacy import Mu, PrivacyLedger, Rho, Share
from skdp.randomness import ByteSource

MAX_BINS = 10_000


class DPKBinsDiscretizer(CentralTransformer):
    """Replace each number by its bin between quantiles that are released with differential privacy.

    The output is the number of the bin, from 0. Bins of equal width cost nothing: declare an `Interval`.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0. A share of a
        budget in rho or mu (`skdp.privacy.Rho`, `skdp.privacy.Mu`) gets the exponential mechanism.
    n_bins : int, default=5
        The number of bins of each column, from 2 to 10,000.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain
        The smallest and largest value of all columns, or of each, from public knowledge: the outer edges.
        Values outside belong to the outer bins.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person, all of which are protected: noise is proportional to it. With ``groups``,
        `fit` drops further rows at random; without, the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    bin_edges_ : list of ndarray of float
        The edges of each column, ascending, the bounds among them. A bin includes its left edge, the last one also its
        right edge. Quantiles that coincide are one edge, and `fit` warns.
    n_bins_ : ndarray of int, shape (n_features,)
        The resulting number of bins.
    bounds_ : ndarray of shape (n_features, 2)
        The declared bounds.
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit`, about the edges.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names if all of them are strings.

    See Also
    --------
    sklearn.preprocessing.KBinsDiscretizer : Its edges are the data.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record changes the
    distribution of `bin_edges_` by at most epsilon, ``delta = 0``; replacing one by 2 epsilon. `fit` reads the values
    of all columns, and their number is protected too: a missing value adds nothing, and a table without rows is
    answered. **The edges are private, the output of** `transform` **is not**: each of its rows is a function of the
    input row, without noise. Its dtype is not private, either: bins are integers, or floats if a value is missing.
    Where values may be missing, declare None to a local transformer that comes next, and the dtype of its reports does
    not depend on that.

    The middle edge is chosen by the exponential mechanism, and the other edges in the same way on both sides of it
    ([1]_), with epsilon / (d l) on each of l levels for d columns. Two bins have one level, and four, eight and sixteen
    bins have two, three and four. The candidates are 10,000 even steps between the bounds, such that all whole numbers
    between whole bounds are among them; if there are more whole numbers, these alone, up to 100,000.

    A missing value stays missing (nan).

    References
    ----------
    .. [1] H. Kaplan, S. Schnapp, U. Stemmer (2022). Differentially private approximate quantiles. ICML.

    Examples
    --------
    >>> from skdp import DPKBinsDiscretizer
    >>> from skdp.datasets import load_adult
    >>> ages = load_adult().frame[["age"]]
    >>> bins = DPKBinsDiscretizer(epsilon=1.0, n_bins=4, bounds=(0, 100), random_state=0).fit(ages)
    >>> bins.bin_edges_
    [array([  0.,  28.,  37.,  48., 100.])]
    >>> bins.transform(ages.head(4))["age"].tolist(), ages["age"].head(4).tolist()
    ([2, 3, 2, 3], [39, 50, 38, 53])
    """

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        n_bins: int = 5,
        bounds: Bounds | None = None,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.n_bins = n_bins
        self.bounds = bounds
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _plan(self, rows: Batches, share: Share, bounds: Any) -> Plan:
        n_bins = check_size(self.n_bins, most=MAX_BINS, name="n_bins")
        probabilities = [Fraction(index, n_bins) for index in range(1, n_bins)]
        quantiles = plan_quantiles(rows, bounds, probabilities, share)
        return Plan.of_quantiles(quantiles)

    def _release(self, plan: Plan, source: ByteSource) -> None:
        edges = plan.exact.draw_with_bounds(source)
        self.bin_edges_ = list(map(np.unique, edges))
        self.n_bins_ = np.array([column.size - 1 for column in self.bin_edges_])
        has_merged = self.n_bins_ < self.n_bins
        if has_merged.any():
            names = list(compress(self.guarantee_.scope, has_merged))
            warn(
                f"the edges of {names} coincide, so that there are fewer bins than "
                f"n_bins={self.n_bins}. Decrease n_bins",
                UserWarning,
                about="guide/preprocessing",
                stacklevel=level_of_the_caller(),
            )

    def _transform_columns(self, columns: Columns) -> Columns:
        binned: Columns = []
        for column, edges in zip(columns, self.bin_edges_, strict=True):
            bins: NDArray[Any] = np.searchsorted(edges[1:-1], column, side="right")
            is_missing = np.isnan(column)
            # Without missing values, bins keep their integer dtype.
            if is_missing.any():
                bins = np.where(is_missing, np.nan, bins)
            binned.append(bins)
        return binned

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags
