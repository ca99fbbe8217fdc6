"""Columns cut into bins of equal width, or at private quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import compress
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags

from skdp.base import Bounds, check_choice, level_of_the_caller, read_bounds
from skdp.central._base import (
    CentralTransformer,
    Columns,
    Plan,
    quantile_plan,
)
from skdp.central.statistics import (
    Batches,
    Candidates,
    plan_quantiles,
    read_candidates,
    read_values,
    warn_of_objects,
)
from skdp.domain import cut_evenly
from skdp.oracles import check_size
from skdp.pages import warn
from skdp.privacy import Mu, PrivacyLedger, Rho, Share
from skdp.randomness import ByteSource

Strategy = Literal["quantile", "uniform"]
Encoding = Literal["ordinal", "onehot-dense"]
_MAX_BINS = 10_000


class DPKBinsDiscretizer(CentralTransformer):
    """Put each number into a bin, between public edges or quantiles that are released with differential privacy.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0; ``strategy="uniform"`` spends nothing of it. A share of a
        budget in rho or mu (`skdp.privacy.Rho`, `skdp.privacy.Mu`) gets the exponential mechanism.
    n_bins : int, default=5
        The number of bins of each column, from 2 to 10,000.
    strategy : {"quantile", "uniform"}, default="quantile"
        ``"quantile"``: about as many values in each bin. ``"uniform"``: bins of equal width, without any cost.
    encode : {"ordinal", "onehot-dense"}, default="ordinal"
        ``"ordinal"``: the number of the bin, from 0, in the columns of the input. ``"onehot-dense"``: a column of 0 and
        1 for each bin, named ``<column>_<bin>``.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain
        The smallest and largest value of all columns, or of each, from public knowledge: the outer edges.
        Values outside belong to the outer bins.
    candidates : "integers", int, array-like of float, or mapping of column name to one of these, optional
        The possible inner edges: ``"integers"`` for all whole numbers between the bounds, an int for a number of equal
        steps between them, from 1 to a million. By default up to 10,000 steps, such that all whole numbers between
        whole bounds are among their ends; if there are more, these numbers alone, up to 100,000. Fewer candidates make
        a more accurate choice. The dtype of a column has no influence: in pandas, it may show that a value is missing.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person, all of which are protected: noise is proportional to it. Further rows are
        left out if `fit` is given ``groups``; without, the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that each `fit` charges, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee if it is known.

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
        The guarantee of this `fit`, about the edges; epsilon is 0 for uniform bins, which use no value.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of columns; their names, if all of them are strings.

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

    The middle edge is chosen by the exponential mechanism, and the others in the same way on both sides of it ([1]_),
    with epsilon / (d l) on each of l levels for d columns. Two bins have one level, and four, eight and sixteen bins
    have two, three and four.

    A missing value stays missing (nan); it is in none of the columns of ``"onehot-dense"``.

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
    >>> uniform = DPKBinsDiscretizer(n_bins=4, strategy="uniform", bounds=(0, 100)).fit(ages)
    >>> uniform.bin_edges_, uniform.guarantee_.epsilon
    ([array([  0.,  25.,  50.,  75., 100.])], 0.0)
    """

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        n_bins: int = 5,
        strategy: Strategy = "quantile",
        encode: Encoding = "ordinal",
        bounds: Bounds | None = None,
        candidates: Candidates | None = None,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.n_bins = n_bins
        self.strategy = strategy
        self.encode = encode
        self.bounds = bounds
        self.candidates = candidates
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _is_free(self, names: Sequence[Any]) -> bool:
        return self.strategy == "uniform"

    def _plan(self, rows: Batches, share: Share, bounds: Any) -> Plan:
        n_bins = check_size(self.n_bins, most=_MAX_BINS, name="n_bins")
        check_choice("strategy", self.strategy, get_args(Strategy))
        check_choice("encode", self.encode, get_args(Encoding))
        ends = read_bounds(bounds, rows.names)
        candidates = read_candidates(self.candidates, rows.names, ends)
        if self.strategy == "uniform":
            warn_of_objects(rows.table)
            read_values(rows.table)
            return Plan(ends, mechanism="uniform bins", free=True)
        probabilities = [Fraction(index, n_bins) for index in range(1, n_bins)]
        quantiles = plan_quantiles(rows, candidates, probabilities, share)
        return quantile_plan(quantiles, ends)

    def _release(self, plan: Plan, source: ByteSource) -> None:
        if plan.free:
            edges = [cut_evenly(low, high, self.n_bins) for low, high in plan.exact]
        else:
            quantiles, ends = plan.exact
            released = quantiles.draw(source)
            edges = list(np.column_stack([ends[:, :1], released, ends[:, 1:]]))
        self.bin_edges_ = list(map(np.unique, edges))
        self.n_bins_ = np.array([column.size - 1 for column in self.bin_edges_])
        merged = self.n_bins_ < self.n_bins
        if merged.any():
            names = list(compress(self.guarantee_.scope, merged))
            warn(
                f"the edges of {names} coincide, so that there are fewer bins than "
                f"n_bins={self.n_bins}. Decrease n_bins, or set strategy='uniform'",
                UserWarning,
                about="guide/preprocessing",
                stacklevel=level_of_the_caller(),
            )

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Name the columns of the output.

        Parameters
        ----------
        input_features : array-like of str, optional
            The names of the columns of X, by default those that `fit` saw.

        Returns
        -------
        ndarray of str objects
            Them, or ``<column>_<bin>`` for each bin.
        """
        names = super().get_feature_names_out(input_features)
        return (
            names
            if self.encode == "ordinal"
            else np.array(self._bin_names(names), object)
        )

    def _output_names(self) -> Sequence[Any]:
        names = super()._output_names()
        return names if self.encode == "ordinal" else self._bin_names(names)

    def _bin_names(self, names: Sequence[Any]) -> list[str]:
        bin_names = []
        for name, size in zip(names, self.n_bins_, strict=True):
            bin_names += [f"{name}_{place}" for place in range(size)]
        return bin_names

    def _transform_columns(self, columns: Columns) -> Columns:
        placed = []
        for column, edges in zip(columns, self.bin_edges_, strict=True):
            bins = _keep_missing(
                np.searchsorted(edges[1:-1], column, side="right"), column
            )
            if self.encode == "ordinal":
                placed.append(bins)
            else:
                for place in range(edges.size - 1):
                    placed.append((bins == place).astype(np.int8))
        return placed

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


def _keep_missing(codes: NDArray[Any], column: NDArray[np.float64]) -> NDArray[Any]:
    """Write nan where a column has one; without any, the codes keep their integer dtype."""
    missing = np.isnan(column)
    return np.where(missing, np.nan, codes) if missing.any() else codes
