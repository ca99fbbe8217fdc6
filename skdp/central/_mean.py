"""The means of numeric columns, by one of five mechanisms."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from skdp.base import check_choice, check_confidence_level, level_of_the_caller
from skdp.central._base import CentralStatistic, Plan, Unknown
from skdp.central.frameworks import (
    MOST_CHUNKS,
    TEST_SHARE,
    SmoothNoise,
    adaptive_mean,
    chunk_means,
    proposed_mean,
    read_number,
    read_positive_delta,
    smooth_beta,
    smooth_mean,
    totals_losses,
)
from skdp.central.statistics import (
    GRID,
    BoundedColumn,
    ColumnSums,
    Estimate,
    integer_noise,
    joint_noise,
    largest_sum,
    losses_of,
    n_numbers,
    noisy_sum_count,
    sum_columns,
    two_sums,
)
from skdp.exact import exp_bounds
from skdp.frames import LargeTable, Table
from skdp.oracles import check_size
from skdp.privacy import Loss, Mu, PrivacyLedger, Rho, Share, check_delta
from skdp.randomness import ByteSource
from skdp.typing import Bounds

Mechanism = Literal["two_sums", "noisy_sum_count", "propose_test_release", "smooth_sensitivity", "sample_and_aggregate"]
_BY_SUMS = ("two_sums", "noisy_sum_count")
"""The mechanisms that need only sums, and so work on large tables."""

Draw = Callable[[ByteSource], list[Estimate]]
Losses = tuple[Loss, ...]


class DPMean(CentralStatistic):
    """The means of numeric columns, under differential privacy for the whole record.

    Use ``mechanism="two_sums"``: it has a pure guarantee, needs nothing but bounds, and is the most accurate. The
    others are those of the textbooks, in forms that keep their guarantee.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0. A share of a budget in rho or mu (`skdp.privacy.Rho`,
        `skdp.privacy.Mu`) gets Gaussian noise where that is less.
    delta : float, default=0.0
        Failure probability, in [0, 1). ``"propose_test_release"`` needs one above 0; ``"smooth_sensitivity"`` draws
        Laplace noise with it and Student's t without; the others do not use it, and `guarantee_` then says 0.
    mechanism : str, default="two_sums"
        One of:

        - ``"two_sums"``: noisy sums of the distances to both bounds, jointly for all columns [1]_.
        - ``"noisy_sum_count"``: a noisy sum over a noisy count, each with half of epsilon.
        - ``"propose_test_release"``: noise for a proposed sensitivity or for `min_n` values, after a private test that
          there are enough; without either the noise is for a private lower bound of their number, and nothing is
          refused [2]_.
        - ``"smooth_sensitivity"``: noise in proportion to the smooth sensitivity [3]_.
        - ``"sample_and_aggregate"``: the noisy mean of the means of `n_chunks` random chunks, of those that have a
          value [3]_.

        Only the first two work on large tables; the third takes no Rho or Mu.
    missing : {"ignore", "error"}, default="ignore"
        What `fit` does with a missing value: it adds nothing to the mean of its column; or it is an error, as is an
        infinite value, which reveals that there is one. ``"two_sums"`` then has one count for all columns, and its
        noise is less: by a third for five columns.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or "private"
        The lowest and the highest value of all columns, or of each, from what is publicly known. Values outside are
        clipped to them, on both sides.
        ``"private"``, for all columns or in place of a pair, finds bounds that hold nearly all values.
    bounds_share : float, default=0.2
        The share of epsilon that finds bounds, if some are private.
    min_n : int, optional
        The publicly expected number of values of each column, at least 1. ``"propose_test_release"`` proposes it;
        ``"smooth_sensitivity"`` is tuned to it, and private whether or not it is right.
    proposed_sensitivity : float, optional
        For ``"propose_test_release"``, instead of `min_n`: the proposed bound on how far one record moves the mean, in
        the unit of the columns, > 0. It stands for ``min_n = ceil((high - low) / proposed_sensitivity)``.
    n_chunks : int, default=1000
        For ``"sample_and_aggregate"``.
    confidence_level : float, default=0.95
        The coverage of `interval_`, between 0 and 1.
    max_rows_per_person : int, default=1
        The most rows of one person, all of which the guarantee is for: noise is in proportion to it. Further rows are
        left out if `fit` is given ``groups``; without, the number is taken on trust.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee against those who know it.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The noisy means, between the bounds; nan where the test refused.
    std_error_ : ndarray of shape (n_features,)
        The standard deviation of the noise, relative to the mean of the clipped values of this table, not of a
        population. With ``"smooth_sensitivity"`` it is private: given is that
        for `min_n` values, or nan. With ``"sample_and_aggregate"`` it leaves out the difference between the mean of the
        chunks and the mean. Infinite where private bounds are not found.
    interval_ : ndarray of shape (n_features, 2)
        An interval of the given coverage for each mean, cut to the bounds; with the same reservations. From minus to
        plus infinity where private bounds are not found.
    released_ : bool
        False if a mean was refused, of which `fit` warns.
    bounds_ : ndarray of shape (n_features, 2)
        The bounds: those declared, or found.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of columns; their names, if all of them are strings.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record changes the
    distribution of all that is released by at most ``(epsilon, delta)``; replacing one by
    ``(2 epsilon, (1 + e**epsilon) delta)``. `fit` reads the values of all columns, and their number is protected too: a
    missing value adds nothing, and a table without rows is answered. Delta is 0 for ``"two_sums"``,
    ``"noisy_sum_count"`` and ``"sample_and_aggregate"``, and for ``"smooth_sensitivity"`` without one. ``"two_sums"``
    releases all columns together; the others spend epsilon / d and delta / d on each of d columns. Values are placed on
    a grid of 2**30 steps between the bounds and summed as integers, and noise is drawn exactly.

    Private bounds come from two looks at the number of values in cells that cover all floats and grow with the distance
    from a centre: 64,353 cells around 0, with a sixteenth of the share of epsilon, and then 32,177 around the median
    that these show (16,089 if the bounds that they show are wide), or 16,089 around 0 again if the values are few or
    not far from 0. A record is in one cell of each of d columns at most, so noise of scale d over its share of epsilon
    protects all counts of a look together. The bounds hold all cells that are clearly not empty (after [4]_). Tails
    that agree with the noisy counts estimate what would be clipped beyond, and the bounds end where the mean square of
    that and of the noise is least; a bound next to 0 may be 0. Some 30 d values between a number and its double, over
    the share, are needed to find any, and 1,000 d for close bounds of values far from 0, compared with their spread.
    Where none are found, no error can be stated: `std_error_` is infinite. Where they are, `interval_` is for the mean
    of the values clipped to them; how far clipping moves it is not known, and has no limit. At epsilon 1, 95 %
    intervals hold the mean of 1,000, 10,000 or 100,000 values themselves in about 95 % of fits if they are normal or
    uniform; in 53, 85 and 91 % if their logarithms are standard normal; and in 9, 31 and 25 % if they follow a Pareto
    law of exponent 1.5, whose variance is infinite.

    References
    ----------
    .. [1] M. Hardt, K. Talwar (2010). On the geometry of differential privacy. STOC.
    .. [2] C. Dwork, J. Lei (2009). Differential privacy and robust statistics. STOC.
    .. [3] K. Nissim, S. Raskhodnikova, A. Smith (2007). Smooth sensitivity and sampling in private data analysis. STOC.
    .. [4] R. J. Wilson, C. Y. Zhang, W. Lam, D. Desfontaines, D. Simmons-Marengo, B. Gipson (2020). Differentially
       private SQL with bounded user contribution. PoPETs.

    Examples
    --------
    >>> from skdp.datasets import load_adult
    >>> ages = load_adult().frame[["age"]]
    >>> mean = DPMean(epsilon=0.1, bounds=(0, 100), random_state=0).fit(ages)
    >>> mean.mean_.round(2), ages.to_numpy().mean().round(2)
    (array([38.59]), np.float64(38.58))
    >>> print(mean.guarantee_)
    epsilon = 0.1, central model, adding or removing one record's values of: age,
    NOT SECURE: the randomness comes from a seed

    Bounds that nobody knows:

    >>> found = DPMean(epsilon=0.1, bounds="private", random_state=0).fit(ages)
    >>> found.mean_.round(1), found.bounds_
    (array([38.6]), array([[16., 96.]]))
    """

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float = 0.0,
        mechanism: Mechanism = "two_sums",
        missing: Unknown = "ignore",
        bounds: Bounds | None = None,
        bounds_share: float = 0.2,
        min_n: int | None = None,
        proposed_sensitivity: float | None = None,
        n_chunks: int = 1000,
        confidence_level: float = 0.95,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.missing = missing
        self.bounds = bounds
        self.bounds_share = bounds_share
        self.min_n = min_n
        self.proposed_sensitivity = proposed_sensitivity
        self.n_chunks = n_chunks
        self.confidence_level = confidence_level
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _plan(self, table: Table, large: LargeTable | None, share: Share, bounds: Any) -> Plan:
        level = check_confidence_level(self.confidence_level)
        check_choice("mechanism", self.mechanism, get_args(Mechanism))
        check_choice("missing", self.missing, get_args(Unknown))
        if large is not None and self.mechanism not in _BY_SUMS:
            raise TypeError(
                f"mechanism={self.mechanism!r} needs the values, and skdp.engines only adds up: use one of "
                f"{_BY_SUMS}, or collect the frame first"
            )
        columns = sum_columns(table, large, bounds, missing=self.missing == "ignore")
        draw, delta, losses = self._mechanism(columns, share, level)
        name = self.mechanism.replace("_", " ")
        return Plan(name, lambda source: self._set(table, columns, draw(source)), delta, losses)

    def _leave_open(self, hidden: NDArray[np.bool_]) -> None:
        answered = hidden & ~np.isnan(self.mean_)
        self.std_error_[answered] = np.inf
        self.interval_[answered] = -np.inf, np.inf

    def _mechanism(self, columns: Sequence[ColumnSums], share: Share, level: float) -> tuple[Draw, Fraction, Losses]:
        """Check the parameters of the mechanism; return a function that draws, the delta that it spends, and losses."""
        delta = check_delta(self.delta)
        min_n = None if self.min_n is None else check_size(self.min_n, least=1, most=1 << 62, name="min_n")
        chunks = check_size(self.n_chunks, least=1, most=MOST_CHUNKS, name="n_chunks")
        part, nothing = share / len(columns), Fraction(0)
        if self.mechanism == "two_sums":
            shared = self.missing == "error"
            noise = joint_noise(share, GRID, n_numbers(len(columns), squares=False, shared_count=shared))
            draw = partial(two_sums, columns, noise, level, shared_count=shared)
            return draw, nothing, losses_of([noise])
        if self.mechanism == "noisy_sum_count":
            noises = [integer_noise(part / 2, sensitivity) for one in columns for sensitivity in (largest_sum(one), 1)]
            draw = partial(noisy_sum_count, columns, noises, level)
            return draw, nothing, losses_of(noises)
        held = [column for column in columns if isinstance(column, BoundedColumn)]  # all: there is no large table here
        if self.mechanism == "sample_and_aggregate":
            draw_means = partial(chunk_means, held, part, chunks, level)
            return draw_means, nothing, totals_losses(share, len(columns))
        # A person is as many rows, one after the other: epsilons add, and each delta grows with those before it.
        pure = part.pure / share.rows
        part_delta = delta / (len(columns) * share.rows * (exp_bounds(part.pure)[1] if share.rows > 1 else 1))
        if self.mechanism == "smooth_sensitivity":
            beta = smooth_beta(pure, part_delta, min_n)
            smooth = SmoothNoise.calibrated(pure, part_delta, beta)
            return (lambda source: [smooth_mean(one, smooth, beta, min_n, level, source) for one in held]), delta, ()
        if share.given is not None:
            raise ValueError(f"mechanism={self.mechanism!r} needs an epsilon and a delta, got epsilon={self.epsilon}")
        read_positive_delta(self.delta)
        parts = TEST_SHARE * pure, (1 - TEST_SHARE) * pure, part_delta
        proposals = self._read_proposals(held, min_n)
        if proposals is None:
            return (lambda source: [adaptive_mean(one, *parts, level, source) for one in held]), delta, ()
        pairs = list(zip(held, proposals, strict=True))
        return (lambda source: [proposed_mean(one, *parts, n, level, source) for one, n in pairs]), delta, ()

    def _read_proposals(self, columns: list[BoundedColumn], min_n: int | None) -> list[int] | None:
        """Return the proposed number of values of each column, None without a proposal."""
        if self.proposed_sensitivity is None:
            return None if min_n is None else [min_n] * len(columns)
        if min_n is not None:
            raise ValueError("min_n and proposed_sensitivity are two forms of one proposal: give one of them")
        bound = read_number(self.proposed_sensitivity, "proposed_sensitivity")
        if bound <= 0:
            raise ValueError(f"proposed_sensitivity must be a finite number > 0, got {self.proposed_sensitivity}")
        return [math.ceil((Fraction(one.high) - Fraction(one.low)) / bound) for one in columns]

    def _set(self, table: Table, columns: Sequence[ColumnSums], estimates: Sequence[Estimate]) -> None:
        pairs = list(zip(columns, estimates, strict=True))
        self.mean_ = np.array([column.value(one.mean) for column, one in pairs])
        self.std_error_ = np.array([column.error(one.std_error) for column, one in pairs])
        self.interval_ = np.array([(column.value(one.lower), column.value(one.upper)) for column, one in pairs])
        refused = [name for name, mean in zip(table.names, self.mean_, strict=True) if np.isnan(mean)]
        self.released_ = not refused
        if refused:
            warnings.warn(
                f"the private test refused to release the mean of {refused}: there may be fewer values than proposed "
                f"(min_n={self.min_n}, proposed_sensitivity={self.proposed_sensitivity}). What it cost is spent. "
                "Without a proposal, nothing is refused",
                UserWarning,
                stacklevel=level_of_the_caller(),
            )
