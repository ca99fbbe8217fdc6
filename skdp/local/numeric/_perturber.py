"""Noise for the numeric columns of a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    Bounds,
    TableLike,
    as_asked,
    check_choice,
    read_bounds,
    read_input,
    read_numbers,
)
from skdp.domain import Domain, Interval
from skdp.exact import round_up
from skdp.local._tally import ReportTally, check_tally
from skdp.local._transformer import ReportTransformer
from skdp.local.memo import Memo, MemoisedReports
from skdp.local.numeric._estimation import (
    DistributionOptions,
    estimate_distributions,
)
from skdp.local.numeric._field import NumberField
from skdp.local.protocol import (
    ReportProtocol,
    Sampling,
    drawn_pair,
    refuse_impossible,
    whole_weights,
)
from skdp.oracles import ClampedLaplace, NumericMechanism, Optimal, Windows, check_size
from skdp.oracles.numeric import check_steps, mean_error
from skdp.privacy import PrivacyGuarantee, PrivacyLedger, Shuffled, check_epsilon
from skdp.privacy.shuffle import Released, ReportPair, any_pair
from skdp.tables import Table

_DESCRIPTIONS = {
    "optimal": "optimal mechanism",
    "square_wave": "square wave mechanism",
    "distribution": "mixture of windows",
    "laplace": "clamped discrete Laplace noise",
}
"""The mechanisms by name, as guarantees describe them."""

_LEAST_SHARE = 1
"""The least epsilon of a column that is tried with several columns a record; less noise in fewer is always better."""


class NumericPerturber(MemoisedReports, OneToOneFeatureMixin, ReportTransformer):
    """Add noise to numbers: a record reveals little, and means can be estimated.

    >>> import pandas as pd
    >>> from skdp import NumericPerturber
    >>> people = pd.DataFrame({"age": [20, 30, 40, 70] * 250})
    >>> perturber = NumericPerturber(1.0, bounds={"age": (0, 100)})
    >>> mean = perturber.estimate_mean(perturber.fit_transform(people))

    A number is clipped to its bounds, rounded at random to one of `grid_size` + 1
    positions, and reported as a number: an unbiased estimate of the true one, which may
    well lie outside the bounds. The output has the columns and names of the input. The
    guide page "Numbers in the local model" compares the mechanisms.

    Parameters
    ----------
    epsilon : float or Shuffled, default=1.0
        Privacy loss of one record over all columns together, > 0.
    mechanism : str or list, default="optimal"
        ``"optimal"``: the most accurate mean ([1]_), for an epsilon of at most 8 a
        column. ``"square_wave"`` ([2]_) and ``"distribution"``, a mixture of windows,
        are made for `estimate_distribution`. ``"laplace"``: clamped discrete Laplace
        noise ([3]_). A list of the `outcomes` of an optimal mechanism repeats it.
    bounds : (low, high), mapping, or array-like of shape (n_features, 2)
        Public bounds of all columns or, by name, of each: required, and never read from
        the data. A number outside of them is moved to the nearer one.
    grid_size : int, default=1024
        The number of steps between the bounds, from 1 to 65,536; finite, so that each
        probability is known exactly.
    strategy : {"split", "sample"}, default="split"
        Whether each record reports all columns, with equal shares of epsilon, or a few
        of them, drawn at random ([4]_); the others are missing.
    n_sampled : int or "auto", default="auto"
        With "sample", how many columns a record reports; "auto" takes the number with
        the least error of the means, mostly about epsilon / 4. Not with a list of
        outcomes.
    weights : "uniform" or mapping, default="uniform"
        With "sample", public weights: a column is reported with a probability in
        proportion to its weight, which is at most the sum of the weights over
        `n_sampled`.
    memoize : bool, default=False
        Whether a record repeats its report; `transform` then needs ``record_id``. Not
        with ``"distribution"``, and with an optimal mechanism by its outcomes only.
    secret_key : bytes, optional
        With `memoize`, such as ``SecretKey.generate()``: at least 16 bytes.
    ledger : PrivacyLedger, optional
        Charged with `guarantee_` at each call of `transform`, before any draw.
    random_state : int, optional
        None is secure. An int is reproducible, and not private: for tests only.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        What a call of `transform` promises for one record.
    bounds_ : ndarray of shape (n_features, 2)
        The bounds of each column.
    report_values_ : list of ndarray
        The numbers that may be reported in each column, ascending.
    mechanism_ : NumericMechanism
        The mechanism on the positions of the grid; all columns share it.
    n_sampled_ : int
        How many columns a record reports.
    inclusion_ : ndarray of shape (n_features,)
        The probability that a record reports each column; 1 under "split".

    See Also
    --------
    RandomizedResponseEncoder : For categories; with an `Interval`, for numbers in bins.

    Notes
    -----
    **Privacy.** Local model: for each record, under replacement of its values in the
    fitted columns. `fit` checks that numbers are finite, and keeps nothing of them; an
    error shows that one is not. Which columns a record reports is drawn without looking
    at a value, so it may be seen, and only their epsilons add up. Each `transform` is a
    new release unless it is memoised. The guide page "What all encoders share" explains
    what is not covered.

    References
    ----------
    .. [1] P. Kairouz, S. Oh, P. Viswanath (2016). Extremal mechanisms for local
       differential privacy. JMLR 17.
    .. [2] Z. Li et al. (2020). Estimating numerical distributions under local
       differential privacy. SIGMOD.
    .. [3] A. Ghosh, T. Roughgarden, M. Sundararajan (2012). Universally
       utility-maximizing privacy mechanisms. SIAM J. Comput. 41(6).
    .. [4] N. Wang et al. (2019). Collecting and analyzing multidimensional data with
       local differential privacy. ICDE.
    """

    bounds_: NDArray[np.float64]
    mechanism_: NumericMechanism
    report_values_: list[NDArray[np.float64]]

    def __init__(
        self,
        epsilon: float | Shuffled = 1.0,
        *,
        mechanism: str | Sequence[Sequence[int]] = "optimal",
        bounds: Bounds | None = None,
        grid_size: int = 1024,
        strategy: Literal["split", "sample"] = "split",
        n_sampled: int | Literal["auto"] = "auto",
        weights: Literal["uniform"] | Mapping[Any, float] = "uniform",
        memoize: bool = False,
        secret_key: bytes | None = None,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.mechanism = mechanism
        self.bounds = bounds
        self.grid_size = grid_size
        self.strategy = strategy
        self.n_sampled = n_sampled
        self.weights = weights
        self.memoize = memoize
        self.secret_key = secret_key
        self.ledger = ledger
        self.random_state = random_state

    def _make_protocol(self, table: Table) -> ReportProtocol:
        self._check_parameters()
        bounds = read_bounds(self.bounds, table.names)
        weights = whole_weights(self.weights, table.names)
        description = _DESCRIPTIONS[
            self.mechanism if isinstance(self.mechanism, str) else "optimal"
        ]
        epsilon = self._local_epsilon(
            lambda local, released: self._pairs(local, released, weights)
        )
        size, mechanism = self._best_size(epsilon, weights)
        share, sampling = epsilon / size, None
        if size < len(weights):
            sampling = Sampling(weights, size)
            description += f" of {size} of {len(weights)} columns, drawn at random"
        self._mechanism = description
        fields = tuple(
            NumberField(name, (float(low), float(high)), mechanism, share)
            for name, (low, high) in zip(table.names, bounds, strict=True)
        )
        memo = None
        if self.memoize:
            assert self.secret_key is not None
            memo = Memo(self.secret_key, type(self).__name__, fields)
            description += (
                ", memoised: epsilon per distinct position of a column on the grid, "
                f"at most {mechanism.steps + 1} of "
                "them"
            )
        # The shares of the columns that are reported add up to epsilon, and no share is exceeded.
        guarantee = PrivacyGuarantee(
            min(round_up(size * Fraction(mechanism.epsilon)), round_up(epsilon)),
            scope=table.names,
            mechanism=description,
            secure=self.random_state is None or memo is not None,
            losses=(mechanism.loss,) * size,
        )
        chosen: dict[str, Any] = {}
        outcomes = mechanism.parameters().get("outcomes")
        if outcomes is not None:
            chosen["mechanism"] = outcomes
        if self.strategy == "sample":
            chosen["n_sampled"] = size
        protocol = ReportProtocol(
            "NumericPerturber",
            fields,
            guarantee,
            sampling,
            states_sample=False,  # the other columns are missing
            memo=memo,
            chosen=chosen,
        )
        read_numbers(table, truth=False)
        return protocol

    def _best_size(
        self, epsilon: Fraction, weights: tuple[int, ...]
    ) -> tuple[int, NumericMechanism]:
        """Return how many columns a record reports, and the mechanism of each."""
        if self.strategy == "split":
            return len(weights), self._make(epsilon / len(weights))
        most = sum(weights) // max(weights)  # a record reports a column once at most
        if not isinstance(self.n_sampled, str):
            if self.n_sampled > most:
                raise ValueError(
                    f"n_sampled must be at most {most}, got {self.n_sampled}: a "
                    f"record reports each of {len(weights)} "
                    "columns at most once, in proportion to the weights"
                )
            return self.n_sampled, self._make(epsilon / self.n_sampled)
        sizes = {*range(1, min(most, math.ceil(epsilon / _LEAST_SHARE)) + 1), most}
        tried = [(size, self._make(epsilon / size)) for size in sorted(sizes)]
        errors = [
            sum(
                mean_error(mechanism, float(share))
                for share in Sampling(weights, size).inclusions
            )
            for size, mechanism in tried
        ]
        return tried[int(np.argmin(errors))]

    def _make(self, share: Fraction) -> NumericMechanism:
        if not isinstance(self.mechanism, str):
            return Optimal(self.grid_size, share, outcomes=self.mechanism)
        if self.mechanism == "optimal":
            return Optimal(self.grid_size, share)
        if self.mechanism == "laplace":
            return ClampedLaplace(self.grid_size, share)
        return Windows(
            self.grid_size, share, repeating=self.mechanism == "distribution"
        )

    def _pairs(
        self, epsilon: float, released: Released, weights: tuple[int, ...]
    ) -> tuple[ReportPair, ...]:
        """Return what shuffling protects of a report with a local epsilon."""
        # The others solve a program for each epsilon.
        is_enumerated = self.mechanism in ("square_wave", "laplace")
        size = len(weights) if self.strategy == "split" else self.n_sampled
        if isinstance(size, str):
            if not is_enumerated:
                return (any_pair(epsilon),)
            size, released = (
                self._best_size(Fraction(epsilon), weights)[0],
                "reports",
            )  # one part, whatever the size
        share = Fraction(epsilon) / size
        pair = self._make(share).shuffle_pair() if is_enumerated else any_pair(share)
        sampling = None if size == len(weights) else Sampling(weights, size)
        parts = drawn_pair([pair] * len(weights), sampling, released)
        assert parts is not None  # as all are alike
        return parts

    def shuffle_pairs_at(
        self, epsilon: float, released: Released
    ) -> tuple[ReportPair, ...]:
        check_is_fitted(self)
        return self._pairs(
            epsilon, released, whole_weights(self.weights, self.protocol_.columns)
        )

    def _set_fitted(self, protocol: ReportProtocol) -> None:
        fields = cast(tuple[NumberField, ...], protocol.fields)
        self.bounds_ = np.array([field.bounds for field in fields])
        self.mechanism_ = fields[0].mechanism
        self.report_values_ = [field.numbers for field in fields]
        self.n_sampled_ = protocol.n_sampled or len(fields)
        self.inclusion_ = np.ones(len(fields))
        if protocol.sampling is not None:
            self.inclusion_ = np.array(protocol.sampling.inclusions, float)

    def _check_parameters(self) -> None:
        check_epsilon(
            self.epsilon.epsilon if isinstance(self.epsilon, Shuffled) else self.epsilon
        )
        has_outcomes = not isinstance(self.mechanism, str)
        if has_outcomes:
            _check_outcomes(self.mechanism)
        else:
            check_choice("mechanism", self.mechanism, tuple(_DESCRIPTIONS))
        if self.memoize and self.mechanism == "optimal":
            raise ValueError(
                "permanent reports need outcomes that stay the same, got "
                "mechanism='optimal': fit once without "
                "memoize, and use mechanism=list(perturber.mechanism_.outcomes) from "
                "then on, or 'laplace'"
            )
        if self.memoize and self.mechanism == "distribution":
            raise ValueError(
                "permanent reports need a mechanism without a program, got "
                "'distribution': use 'square_wave'"
            )
        check_steps(self.grid_size)
        if not isinstance(self.strategy, str) or self.strategy not in (
            "split",
            "sample",
        ):
            raise ValueError(
                f"strategy must be 'split' or 'sample', got {self.strategy!r}"
            )
        if self.strategy == "split" and (self.n_sampled, self.weights) != (
            "auto",
            "uniform",
        ):
            raise ValueError("n_sampled and weights require strategy='sample'")
        if not isinstance(self.n_sampled, str):
            check_size(self.n_sampled, least=1, name="n_sampled")
        elif self.n_sampled != "auto" or (has_outcomes and self.strategy == "sample"):
            raise ValueError(
                "n_sampled must be a number, or 'auto' with a named mechanism, got "
                f"{self.n_sampled!r}"
            )
        self._check_memo()

    def encode(self, X: TableLike) -> Any:
        """Clip the numbers of a table to their bounds, without noise. Not private.

        For rows that need no protection: `OnFitOnly` uses it.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values, in the columns of `fit`.

        Returns
        -------
        same kind as X
            What the reports of `transform` are on average.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if X has other columns, or holds anything but finite numbers.

        Notes
        -----
        **Privacy.** None: the output is the truth. Nothing is charged.
        """
        table = self._read(X)
        return as_asked(self, self.protocol_.encode(table, self.randomness(0)))

    @property
    def declared_domain(self) -> Domain | None:  # numpydoc ignore=RT01
        """The declared bounds of the columns, before or after `fit`."""
        if hasattr(self, "bounds_"):
            pairs = dict(zip(self.guarantee_.scope, self.bounds_.tolist(), strict=True))
        elif isinstance(self.bounds, Mapping):
            pairs = dict(self.bounds)
        else:
            raise ValueError(
                "the columns of a CSV file are declared by name: bounds must be a "
                "mapping"
            )
        return Domain({name: Interval(*pair, bins=1) for name, pair in pairs.items()})

    def declared_row(self, sample: Table, names: Sequence[Any]) -> pd.DataFrame:
        return pd.DataFrame(
            {
                name: [0.0]
                for name in (self.bounds if isinstance(self.bounds, Mapping) else names)
            }
        )

    def tally(self, reports: Any) -> ReportTally:
        check_is_fitted(self)
        read_input(self, reports, reset=False)  # they have the form of the input
        return super().tally(reports)

    def estimate_mean(
        self, reports: Any, *, confidence_level: float = 0.95
    ) -> pd.DataFrame:
        """Estimate the mean of each column, of the values clipped to their bounds.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``mean, std_error, lower, upper`` for each column. The mean is that of the reports, without bias. The
            standard error is their standard deviation (at least the smallest that the mechanism has) over the root of
            their number: right for the mean of the population that the records are drawn from, and for the mean of
            these very records too large rather than too small. The interval is a normal approximation, and not cut to
            the bounds.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another transformer, or the parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        tally = self._tally_of(reports)
        means = [
            field.estimate(counts, size, size, confidence_level=confidence_level)
            for field, counts, size in self._sums_by_field(tally)
        ]
        refuse_impossible(self.protocol_, tally)
        return pd.concat(means)

    def estimate_distribution(
        self,
        reports: Any,
        *,
        n_bins: int | None = None,
        spacing: float | Mapping[Any, float] | None = None,
        smooth: bool = True,
        confidence_level: float = 0.95,
    ) -> pd.DataFrame:
        """Estimate how the values of each column are distributed over bins of equal width.

        By default by expectation maximisation on the exact channel, averaged over neighbours at each update ("EMS",
        as for the square wave mechanism), until nothing moves. That is regularised, not the likeliest distribution, and
        biased where many records have one value. With `spacing`, the likeliest distribution replaces it where reports
        show such values. The intervals are not those of this estimate: they hold for any distribution.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        n_bins : int, optional
            The number of bins between the bounds, at most `grid_size`; by default 32, or fewer on a smaller grid. An
            interval takes about 0.1 seconds.
        spacing : float, or mapping of column name to float, optional
            Declares that all values are the lower bound plus a multiple of it, as is publicly known: 1 for ages in
            years. It divides the range of the bounds into at most `grid_size` parts. By default, values may be
            anywhere.
        smooth : bool, default=True
            Whether to smooth. With `spacing`, the likeliest distribution replaces the smoothed one where its
            log-likelihood is larger by more than the number of its parameters (Akaike's information criterion): twice
            the number of values that have a share, less one. If not, it is always the likeliest distribution: over the
            bins, uniform within each, or over the declared values, to 0.001 of log-likelihood (for all reports
            together). Under much noise that has a few high bins and nothing between them, the more so the more bins
            there are.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``left, right, frequency, std_error, lower, upper``: the edges of each bin, and the share of the values in
            it, indexed by bin for one column and by (column, bin) for several; a bin holds its left edge, and the last
            one both. If smoothed, the frequencies are the nearest to this estimate that the intervals of 95 % allow.
            The standard error is the distance from the frequency to the further end of this interval, over 1.96: it
            holds the noise and what the reports leave open, and 1.96 of it on both sides of the frequency hold the
            interval. For a column that no record reports, frequencies are nan and standard errors infinite.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another transformer, or a parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.

        The interval of a bin is a mean of weights of the reports, plus or minus a quantile of its error. Of a record
        with any value, the weight is on average at least 1 in the bin and 0 elsewhere, for the upper end, and at most
        that for the lower one ([1]_). So an interval covers at least as often as stated, whether the values are smooth
        or a few numbers, but for the quantile, which is that of the normal distribution. The weights for one half of
        the reports are chosen by the other half, so that they do not follow its noise; the halves are drawn with a
        fixed seed. On grids of more than 1,024 steps, the weights are checked at 1,025 of them.

        This has a price. Without `spacing`, nothing says on which side of an edge between two bins a number is that
        is close to it: where many records have the value of an edge (half of all people work 40 hours), the
        intervals of both bins hold their share. Declare `spacing`, or move the edge. With it, each value is a place
        of its own. It is believed: if values are others, intervals may be wrong.

        References
        ----------
        .. [1] M. Kuusela, P. Stark (2017). Shape-constrained uncertainty quantification in unfolding steeply falling
           elementary particle spectra. Annals of Applied Statistics 11(3).
        """
        tally = self._tally_of(reports)
        options = DistributionOptions(n_bins, spacing, smooth, confidence_level)
        fields, counts, _ = zip(*self._sums_by_field(tally), strict=True)
        shares = estimate_distributions(fields, counts, options)
        refuse_impossible(self.protocol_, tally)
        return shares

    def _tally_of(self, reports: Any) -> ReportTally:
        check_is_fitted(self)
        return reports if isinstance(reports, ReportTally) else self.tally(reports)

    def _sums_by_field(
        self, tally: ReportTally
    ) -> list[tuple[NumberField, NDArray[np.int64], int]]:
        """Return each field, its sums, and the number of records that report it."""
        check_tally(tally, self.protocol_.meaning)
        if tally.n_reports == 0:
            raise ValueError(
                "Found a tally of 0 sample(s) (rows); at least 1 is required"
            )
        fields = cast(tuple[NumberField, ...], self.protocol_.fields)
        return list(zip(fields, tally.counts, tally.sizes, strict=True))

    def channel(self) -> list[list[list[Fraction]]]:
        """Return the exact probabilities of the reports, given the position on the grid.

        Returns
        -------
        list
            A table for each column: a row a position, from the lower to the upper bound; a column a report, in the
            order of `report_values_`; each entry a Fraction. There are more than ``grid_size**2`` of them, so this is
            for small grids.
        """
        check_is_fitted(self)
        fields = cast(tuple[NumberField, ...], self.protocol_.fields)
        return [field.channel() for field in fields]


def _check_outcomes(mechanism: Any) -> None:
    """Refuse what is neither a name nor a list; `Optimal` checks what is in a list."""
    is_list = isinstance(mechanism, list | tuple)
    if is_list and not any(isinstance(outcome, str) for outcome in mechanism):
        return
    description = repr(mechanism) if is_list else type(mechanism).__name__
    raise ValueError(
        f"mechanism must be one of {tuple(_DESCRIPTIONS)}, not in a list, or the list "
        f"of the outcomes of an optimal mechanism, got {description}"
    )


def numeric_mechanism(mechanism: str, grid_size: int, share: Any) -> NumericMechanism:
    """Return a mechanism by its name, for a column with a share of epsilon; the parameters are checked."""
    perturber = NumericPerturber(share, mechanism=mechanism, grid_size=grid_size)
    perturber._check_parameters()
    return perturber._make(check_epsilon(share))
