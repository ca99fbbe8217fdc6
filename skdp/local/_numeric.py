"""Numbers: positions on a grid between public bounds, randomised; means and distributions."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import Any, Literal, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    Bounds,
    TableLike,
    apply_set_output,
    check_choice,
    check_confidence_level,
    read_bounds,
    read_numbers,
)
from skdp.domain import Domain, Interval
from skdp.exact import round_up
from skdp.local._distribution import estimate_distribution
from skdp.local._memo import Memo, MemoisedReports, PermanentDraws, name_bytes
from skdp.local._tally import ReportTally, check_tally
from skdp.local._transformer import ReportTransformer
from skdp.local.protocol import (
    Channel,
    Codes,
    Field,
    Randomness,
    ReportProtocol,
    Rows,
    Sampling,
    concat_columns,
    whole_weights,
)
from skdp.oracles import (
    SUBSTEPS,
    ClampedLaplace,
    NumericMechanism,
    Optimal,
    SquareWave,
    check_size,
    check_steps,
    mean_error,
    round_at_random,
)
from skdp.privacy import (
    PrivacyGuarantee,
    PrivacyLedger,
    PureLoss,
    ReportPair,
    check_epsilon,
)
from skdp.tables import Table

# The mechanisms by name, as guarantees describe them.
_DESCRIPTIONS = {
    "optimal": "optimal mechanism",
    "square_wave": "square wave mechanism",
    "laplace": "clamped discrete Laplace noise",
}
# Of the numbers that may be reported, for an engine to count them.
_MAX_COUNTED = 1 << 16
_BINS = 32


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class NumberField(Field):
    """A column of numbers on a grid between public bounds, reported by a mechanism."""

    # A report is a place in `numbers`.

    name: Any
    bounds: tuple[float, float]
    mechanism: NumericMechanism
    # The epsilon that was asked for.
    share: Fraction

    # The numbers that may be reported, ascending: a report is a place among them.
    numbers: NDArray[np.float64] = dataclasses.field(init=False)
    # The place of each report of the mechanism, of shape (n_reports,).
    places: NDArray[np.intp] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        # Some reports may be one number, where floats are too few.
        reported = _numbers(self.mechanism, *self.bounds)
        numbers, places = np.unique(reported, return_inverse=True)
        object.__setattr__(self, "numbers", numbers)
        object.__setattr__(self, "places", places)

    @property
    def columns(self) -> tuple[Any, ...]:  # type: ignore[override]
        return (self.name,)

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        return self.mechanism.epsilon

    @property
    def loss(self) -> PureLoss:
        """The privacy loss of a report."""
        return self.mechanism.loss

    @property
    def is_countable(self) -> bool:  # type: ignore[override]
        return len(self.numbers) <= _MAX_COUNTED

    @property
    def n_states(self) -> int:  # type: ignore[override]
        return self.mechanism.steps + 1

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.numbers),)

    def _read(self, columns: Sequence[Any], *, missing: bool = False) -> Any:
        """Read the column as floats."""
        table = Table(self.columns, tuple(columns), None)
        (numbers,) = read_numbers(table, missing=missing, truth=False)
        return numbers

    def prepare(self, columns: Sequence[Any]) -> Codes:
        # Parts of a step of the grid: the last use of floats before the noise.
        low, high = self.bounds
        position = (np.clip(self._read(columns), low, high) - low) / (high - low)
        parts = np.rint(position * (self.mechanism.steps * SUBSTEPS))
        return [parts.astype(np.int64)]

    def report(self, codes: Codes, randomness: Randomness) -> NDArray[Any]:
        source = randomness("report", self.name)
        positions = round_at_random(codes[0], source)
        return self._placed(self.mechanism.report(positions, source))

    def report_permanent(self, codes: Codes, draws: PermanentDraws) -> NDArray[Any]:
        return self._placed(draws.numbers(self.mechanism, codes[0]))

    def _placed(self, reports: NDArray[Any]) -> NDArray[Any]:
        # Mostly, the reports of the mechanism ascend and differ: they are their own
        # places.
        if (np.diff(self.places) == 1).all():
            return reports
        return self.places[reports]

    def permanent_parts(self) -> list[bytes]:
        # All that the probabilities of a report depend on. A mechanism that differs in
        # one of these parts has permanent reports of its own.
        mechanism = json.dumps(self.mechanism.parameters(), sort_keys=True)
        ends = np.array(self.bounds) + 0.0  # no -0.0, whose bytes are others
        return [
            str(self.share).encode(),
            mechanism.encode(),
            name_bytes(self.name, "memoize=True"),
            ends.astype(">f8").tobytes(),
        ]

    def write(
        self,
        reports: NDArray[Any],
        like: Sequence[Any],
        drawn: NDArray[np.bool_] | None,
    ) -> list[Any]:
        numbers = self.numbers[reports]
        return [numbers if drawn is None else np.where(drawn, numbers, np.nan)]

    def read(self, columns: Sequence[Any], rows: Rows) -> NDArray[Any]:
        is_sampled = not isinstance(rows, slice)
        numbers = self._read(columns, missing=is_sampled)[rows]
        if is_sampled and np.isnan(numbers).any():
            raise ValueError(f"column {self.name!r} is missing in rows that report it")
        # The nearer one of the two possible reports beside a number.
        above = np.searchsorted(self.numbers, numbers)
        above = np.clip(above, 1, len(self.numbers) - 1)
        lower, upper = self.numbers[above - 1], self.numbers[above]
        nearest = above - (numbers - lower < upper - numbers)
        # Reports may have been written with fewer digits.
        tolerance = 1e-6 * (self.numbers[-1] - self.numbers[0])
        if (np.abs(self.numbers[nearest] - numbers) > tolerance).any():
            raise ValueError(
                f"column {self.name!r} holds numbers that are not reports of this "
                "transformer"
            )
        return nearest

    def are_reported(self, columns: Sequence[Any]) -> NDArray[np.bool_]:
        return ~np.isnan(self._read(columns, missing=True))

    def sums(self, reports: NDArray[Any]) -> NDArray[np.int64]:
        return np.bincount(reports, minlength=len(self.numbers))

    def distinct_sums(
        self, reports: NDArray[Any], counts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        sums = np.zeros(self.shape, np.int64)
        np.add.at(sums, reports, counts)
        return sums

    def debias(
        self,
        reports: NDArray[Any],
        columns: Sequence[Any],
        cells: NDArray[np.intp] | None,
    ) -> NDArray[np.float64]:
        return self.numbers[reports].reshape(-1, 1)

    def estimate(  # type: ignore[override]
        self,
        sums: NDArray[np.int64],
        size: int,
        n_reports: int,
        *,
        confidence_level: float = 0.95,
    ) -> pd.DataFrame:
        """Estimate the mean from how often each number was reported."""
        n = int(sums.sum())
        mean = math.nan
        std_error = math.inf
        if n > 0:
            mean = float(sums @ self.numbers) / n
            std_error = math.sqrt(self._variance(sums, mean) / n)
        return self._row(mean, std_error, _reach(confidence_level))

    def _row(self, mean: float, std_error: float, reach: float) -> pd.DataFrame:
        """Show a mean; without a report, the interval is unbounded."""
        is_known = math.isfinite(std_error)
        lower = mean - reach * std_error if is_known else -math.inf
        upper = mean + reach * std_error if is_known else math.inf
        index = pd.Index(self.columns, name="column", tupleize_cols=False)
        row = {"mean": mean, "std_error": std_error, "lower": lower, "upper": upper}
        return pd.DataFrame(row, index=index)

    def _variance(self, sums: NDArray[np.int64], mean: float) -> float:
        """Return the variance of a report."""
        variances = self._variances()
        n = int(sums.sum())
        # Of few reports, the mechanism bounds the variance: from below, and that of a
        # single one from above.
        if n == 1:
            return float(variances.max())
        spread = sums @ (self.numbers - mean) ** 2 / (n - 1)
        return float(max(variances.min(), spread))

    def _variances(self) -> NDArray[np.float64]:
        """Return the variance that the mechanism adds at each position of the grid."""
        low, high = self.bounds
        steps = self.mechanism.steps
        scale = ((high - low) / steps) ** 2
        variances: NDArray[np.float64] = self.mechanism.variances(np.arange(steps + 1))
        return variances * scale

    def parameters(self) -> dict[str, Any]:
        low, high = self.bounds
        return {
            **self.mechanism.parameters(),
            "epsilon": str(self.share),
            # No -0.0, whose text is another.
            "bounds": [low + 0.0, high + 0.0],
        }

    def declared(self) -> Mapping[str, Mapping[Any, Any]]:
        return {"bounds": {self.name: self.bounds}}

    def shuffle_pair(self) -> ReportPair:
        return self.mechanism.shuffle_pair()

    def channels(self, most_entries: int) -> list[Iterator[Channel]] | None:
        is_small = (self.mechanism.steps + 1) ** 2 <= most_entries
        return [iter([self.channel()])] if is_small else None

    def channel(self) -> list[list[Fraction]]:
        """Return the probability of each number, given the position on the grid."""
        # Fractions, of shape (n_positions, n_reports); reports of one number add up.
        by_report = np.array(self.mechanism.channel(), dtype=object)
        by_number = np.full((len(self.numbers), len(by_report)), Fraction(0))
        np.add.at(by_number, self.places, by_report.T)
        table: list[list[Fraction]] = by_number.T.tolist()
        return table

    def encode(self, columns: Sequence[Any], randomness: Randomness) -> list[Any]:
        return [np.clip(self._read(columns), *self.bounds)]

    def check_encodable(self) -> None:
        pass


def estimate_means(
    protocol: ReportProtocol, tally: ReportTally, confidence_level: float
) -> dict[Any, pd.DataFrame]:
    """Estimate the mean of each column of numbers."""
    means = {}
    for place, field in enumerate(protocol.fields):
        if isinstance(field, NumberField):
            means[field.name] = field.estimate(
                tally.counts[place],
                tally.sizes[place],
                tally.n_reports,
                confidence_level=confidence_level,
            )
    return {name: means[name] for name in protocol.columns if name in means}


def _numbers(
    mechanism: NumericMechanism, low: float, high: float
) -> NDArray[np.float64]:
    """Return the number that each report stands for, rounded once."""
    start = Fraction(low)
    step = (Fraction(high) - start) / mechanism.steps
    # start + step * n / d as a quotient of two whole numbers, whose division rounds
    # correctly.
    constant = start.numerator * step.denominator
    factor = step.numerator * start.denominator
    denominator = start.denominator * step.denominator
    numbers = []
    try:
        for n, d in mechanism.quotients:
            numbers.append((constant * d + factor * n) / (denominator * d))
    except OverflowError:
        raise ValueError(
            "epsilon is too small, or the bounds are too far apart: the reports would "
            "overflow"
        ) from None
    return np.array(numbers)


def _reach(confidence_level: float) -> float:
    """Return how many standard errors an interval reaches to both sides."""
    return -NormalDist().inv_cdf((1 - check_confidence_level(confidence_level)) / 2)


class NumericPerturber(MemoisedReports, ReportTransformer):
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
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together, > 0.
    mechanism : str or list, default="optimal"
        ``"optimal"``: the most accurate mean ([1]_), for an epsilon of at most 8 a
        column. ``"square_wave"`` ([2]_) is made for `estimate_distribution`.
        ``"laplace"``: clamped discrete Laplace noise ([3]_). A list of the `outcomes`
        of an optimal mechanism repeats it.
    bounds : (low, high), mapping, Domain, or array-like of shape (n_features, 2)
        Public bounds of all columns or, by name, of each: required, and never read from
        the data. Of a Domain, the endpoints of each `Interval`. A number outside of them is moved to the nearer one.
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
        Whether a record repeats its report; `transform` then needs ``record_id``. With
        an optimal mechanism by its outcomes only.
    secret_key : bytes, optional
        With `memoize`, such as ``SecretKey.generate()``: at least 16 bytes.
    ledger : PrivacyLedger, optional
        Charged with `guarantee_` at each call of `transform`, before any draw.
    random_state : int, optional
        None is secure. An int is reproducible, and not private: for tests only.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        The guarantee of one call of `transform` for one record.
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
        epsilon: float = 1.0,
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
        epsilon = check_epsilon(self.epsilon)
        n_reported, mechanism = self._best_size(epsilon, weights)
        share = epsilon / n_reported
        fields = []
        for name, (low, high) in zip(table.names, bounds, strict=True):
            ends = float(low), float(high)
            fields.append(NumberField(name, ends, mechanism, share))
        sampling = None
        if n_reported < len(weights):
            sampling = Sampling(weights, n_reported)
        description = self._describe(n_reported, len(weights))
        self._mechanism = description
        memo = None
        if self.memoize:
            assert self.secret_key is not None
            memo = Memo(self.secret_key, type(self).__name__, fields)
            description += (
                ", memoised: epsilon per distinct position of a column on the grid, "
                f"at most {mechanism.steps + 1} of them"
            )
        # The shares of the columns that are reported add up to epsilon, and no share is
        # exceeded.
        together = min(
            round_up(n_reported * Fraction(mechanism.epsilon)), round_up(epsilon)
        )
        guarantee = PrivacyGuarantee(
            together,
            scope=table.names,
            mechanism=description,
            secure=self.random_state is None or memo is not None,
            losses=(mechanism.loss,) * n_reported,
        )
        # What `fit` found, for a transformer that repeats it.
        chosen: dict[str, Any] = {}
        outcomes = mechanism.parameters().get("outcomes")
        if outcomes is not None:
            chosen["mechanism"] = outcomes
        if self.strategy == "sample":
            chosen["n_sampled"] = n_reported
        read_numbers(table, truth=False)  # refuses what is no number
        return ReportProtocol(
            "NumericPerturber",
            tuple(fields),
            guarantee,
            sampling,
            states_sample=False,  # the other columns are missing
            memo=memo,
            chosen=chosen,
        )

    def _describe(self, n_reported: int, n_columns: int) -> str:
        """Name the mechanism for the guarantee."""
        description = _DESCRIPTIONS["optimal"]
        if isinstance(self.mechanism, str):
            description = _DESCRIPTIONS[self.mechanism]
        if n_reported < n_columns:
            description += f" of {n_reported} of {n_columns} columns, drawn at random"
        return description

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
                    f"record reports each of {len(weights)} columns at most once, in "
                    "proportion to the weights"
                )
            return self.n_sampled, self._make(epsilon / self.n_sampled)
        # Less noise in fewer columns is better than a share of epsilon below 1, but for
        # all columns, which need no draw.
        sizes = {*range(1, min(most, math.ceil(epsilon)) + 1), most}
        mechanisms = {size: self._make(epsilon / size) for size in sorted(sizes)}

        def error(size: int) -> float:
            inclusions = Sampling(weights, size).inclusions
            return sum(mean_error(mechanisms[size], float(p)) for p in inclusions)

        best = min(mechanisms, key=error)
        return best, mechanisms[best]

    def _make(self, share: Fraction) -> NumericMechanism:
        if not isinstance(self.mechanism, str):
            return Optimal(self.grid_size, share, outcomes=self.mechanism)
        if self.mechanism == "optimal":
            return Optimal(self.grid_size, share)
        if self.mechanism == "laplace":
            return ClampedLaplace(self.grid_size, share)
        return SquareWave(self.grid_size, share)

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
        check_epsilon(self.epsilon)
        has_outcomes = not isinstance(self.mechanism, str)
        if has_outcomes:
            _check_outcomes(self.mechanism)
        else:
            check_choice("mechanism", self.mechanism, tuple(_DESCRIPTIONS))
        if self.memoize and self.mechanism == "optimal":
            raise ValueError(
                "permanent reports need outcomes that stay the same, got "
                "mechanism='optimal': fit once without memoize, and use "
                "mechanism=list(perturber.mechanism_.outcomes) from then on, or "
                "'laplace'"
            )
        check_steps(self.grid_size)
        self._check_sampling(has_outcomes)
        self._check_memo()

    def _check_sampling(self, has_outcomes: bool) -> None:
        if self.strategy not in ("split", "sample"):
            raise ValueError(
                f"strategy must be 'split' or 'sample', got {self.strategy!r}"
            )
        is_sampled = self.strategy == "sample"
        # Weights may be a Series, whose comparison with a text is no truth value.
        is_uniform = isinstance(self.weights, str) and self.weights == "uniform"
        is_default = self.n_sampled == "auto" and is_uniform
        if not is_sampled and not is_default:
            raise ValueError("n_sampled and weights require strategy='sample'")
        if not isinstance(self.n_sampled, str):
            check_size(self.n_sampled, least=1, name="n_sampled")
        elif self.n_sampled != "auto" or (has_outcomes and is_sampled):
            raise ValueError(
                "n_sampled must be a number, or 'auto' with a named mechanism, got "
                f"{self.n_sampled!r}"
            )

    def _encode(self, X: TableLike) -> Any:
        """Clip the numbers of a table to their bounds, without noise: not private."""
        table = self._read(X)
        return apply_set_output(self, self.protocol_.encode(table, self._randomness(0)))

    def _declared_domain(self) -> Domain:
        """Return the declared bounds of the columns, before or after `fit`."""
        if hasattr(self, "bounds_"):
            pairs = dict(zip(self.guarantee_.scope, self.bounds_.tolist(), strict=True))
        elif isinstance(self.bounds, Mapping):
            pairs = dict(self.bounds)
        elif isinstance(self.bounds, Domain):
            return self.bounds
        else:
            raise ValueError(
                "bounds must be a mapping or a Domain: without a table, nothing else "
                "names the columns"
            )
        return Domain({name: Interval(*pair, bins=1) for name, pair in pairs.items()})

    def _declared_row(self, sample: Table, names: Sequence[Any]) -> pd.DataFrame:
        if isinstance(self.bounds, Mapping):
            names = list(self.bounds)
        elif isinstance(self.bounds, Domain):
            names = self.bounds.columns
        return pd.DataFrame({name: [0.0] for name in names})

    def estimate_mean(
        self, reports: Any, *, confidence_level: float = 0.95
    ) -> pd.DataFrame:
        """Estimate the population's mean of each column, of the values clipped to their bounds.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``mean, std_error, lower, upper`` for each column. The mean is the mean of
            the reports, without bias. The standard error is their standard deviation
            (at least the smallest that the mechanism has) over the root of their
            number: right for the mean of the population that the records are drawn
            from, and for the mean of these very records too large rather than too
            small. The interval is a normal approximation, and not cut to the bounds.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another transformer, or the
            parameter is out of range.

        See Also
        --------
        debias : Values of each record, for means with strata, clusters or weights.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        tally = self._tally_of(reports)
        self._sums_by_field(tally)
        means = estimate_means(self.protocol_, tally, confidence_level)
        return pd.concat(list(means.values()))

    def estimate_distribution(
        self,
        reports: Any,
        *,
        n_bins: int | None = None,
    ) -> pd.DataFrame:
        """Estimate how the values of each column are distributed over bins.

        By expectation maximisation on the exact channel, averaged over neighbours at
        each update ("EMS", as for the square wave mechanism), until nothing moves. That
        is regularised, not the likeliest distribution, and biased where many records
        have one value. It has no intervals: where the bins are known before the
        collection, `FrequencyOracleEncoder` with an `Interval` reports them without
        bias, and with intervals.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        n_bins : int, optional
            The number of bins of equal width between the bounds, at most `grid_size`;
            by default 32, or fewer on a smaller grid.

        Returns
        -------
        pandas.DataFrame
            ``left, right, frequency``: the edges of each bin, and the proportion of the
            values in it, indexed by bin for one column and by (column, bin) for
            several; a bin holds its left edge, and the last one both. For a column that
            no record reports, frequencies are nan.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another transformer, or a
            parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        tally = self._tally_of(reports)
        tables = {}
        for field, counts, _ in self._sums_by_field(tally):
            steps = field.mechanism.steps
            bins = min(_BINS, steps)
            if n_bins is not None:
                bins = check_size(n_bins, least=1, most=steps, name="n_bins")
            interval = Interval(*field.bounds, bins=bins)
            table = estimate_distribution(
                field.mechanism, field.places, counts, interval
            )
            # The name of a column may be a tuple, which `rename_axis` takes for several.
            table.index.name = field.name
            tables[field.name] = table
        if len(tables) == 1:
            return table
        return concat_columns(tables, level="bin")

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
