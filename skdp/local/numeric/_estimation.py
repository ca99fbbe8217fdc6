"""What a server does with privatised numbers: means, distributions, and how likely each report is."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.base import check_confidence_level, check_names, read_input, read_numbers
from skdp.domain import Interval
from skdp.local._tallies import NumericTally
from skdp.oracles import NumericMechanism, check_size
from skdp.oracles.numeric import bin_positions, estimate_frequencies
from skdp.privacy import PrivacyGuarantee

_BINS = 32
_CELLS = 512
"""The smoothing of neighbours must not reach far: about so many bins are estimated, and merged in the end."""


class NumericEstimation:
    """The server's methods of `NumericPerturber`."""

    bounds_: NDArray[np.float64]
    guarantee_: PrivacyGuarantee
    mechanism_: NumericMechanism
    report_values_: list[NDArray[np.float64]]
    _share: Fraction
    _values: list[NDArray[np.float64]]

    def _protocol(self) -> dict[str, Any]:
        """Say what a report means."""
        mechanism = self.mechanism_
        return {
            "encoder": "NumericPerturber",
            "columns": list(self.guarantee_.scope),
            "mechanism": type(mechanism).__name__,
            "grid_size": mechanism.steps,
            "epsilon of a column": str(self._share),
            "bounds": (self.bounds_ + 0.0).tolist(),
            "n_values": [len(values) for values in self.report_values_],
        }

    def _own_names(self) -> list[Any]:
        return list(self.guarantee_.scope)

    def _empty_tally(self) -> NumericTally:
        return NumericTally(tuple(np.zeros(len(values), np.int64) for values in self.report_values_), self._protocol())

    def tally(self, reports: Any) -> NumericTally:
        """Sum up reports: how often each number was reported.

        Parameters
        ----------
        reports : same kind as what `transform` returns
            Privatised rows.

        Returns
        -------
        NumericTally
            The sums; tallies of several batches add.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If the reports come from another transformer.

        Notes
        -----
        **Privacy.** Post-processing of reports: free.

        Examples
        --------
        >>> import pandas as pd
        >>> from skdp import NumericPerturber
        >>> people = pd.DataFrame({"age": [20.0] * 5_000 + [50.0] * 5_000})
        >>> perturber = NumericPerturber(2.0, bounds=(0, 100), random_state=0).fit(people)
        >>> days = [perturber.tally(perturber.transform(people)) for day in range(2)]
        >>> perturber.estimate_mean(days[0] + days[1]).round(1)
                mean  std_error  lower  upper
        column
        age     35.6        0.4   34.8   36.3
        """
        check_is_fitted(self)
        return NumericTally(tuple(self._count_reports(reports)), self._protocol())

    def estimate_mean(self, reports: Any, *, confidence_level: float = 0.95) -> pd.DataFrame:
        """Estimate the mean of each column, of the values clipped to their bounds.

        Parameters
        ----------
        reports : what `transform` returns, or NumericTally
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
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If the reports come from another transformer, or the parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        check_is_fitted(self)
        reach = -NormalDist().inv_cdf((1 - check_confidence_level(confidence_level)) / 2)
        steps = self.mechanism_.steps
        extremes = self.mechanism_.variances([0, steps // 2])
        rows = []
        for counts, values, (low, high) in zip(self._counts(reports), self.report_values_, self.bounds_, strict=True):
            n = int(counts.sum())
            mean = counts @ values / n
            least, most = np.sort(extremes) * ((high - low) / steps) ** 2
            # Reports that happen to agree, or a single one, do not say how much they vary: the mechanism does.
            variance = max(least, counts @ (values - mean) ** 2 / (n - 1)) if n > 1 else most
            std_error = np.sqrt(variance / n)
            rows.append((mean, std_error, mean - reach * std_error, mean + reach * std_error))
        index = pd.Index(self.guarantee_.scope, name="column", tupleize_cols=False)
        return pd.DataFrame(rows, columns=["mean", "std_error", "lower", "upper"], index=index)

    def estimate_distribution(self, reports: Any, *, n_bins: int | None = None, smooth: bool = True) -> pd.DataFrame:
        """Estimate how the values of each column are distributed over bins of equal width.

        By default a smooth distribution that explains the reports on the exact channel: expectation maximisation,
        averaged over neighbours at each update, as the square wave mechanism has it ("EMS"), until nothing moves. That
        is regularised, not the likeliest distribution, and biased where the distribution has spikes. There are no
        standard errors; to learn how sure it is, repeat it on resampled reports, which is free.

        Parameters
        ----------
        reports : what `transform` returns, or NumericTally
            Privatised rows, or their sums.
        n_bins : int, optional
            The number of bins between the bounds, at most `grid_size`; by default 32, or fewer on a smaller grid.
        smooth : bool, default=True
            Whether to smooth. If not, it is the likeliest distribution over the bins, to 0.001 of log-likelihood (for
            all reports together). Under much noise that has a few high bins and nothing between them, the more so the
            more bins there are.

        Returns
        -------
        pandas.DataFrame
            ``left, right, frequency``: the edges of each bin, and the share of the values in it, indexed by bin for one
            column and by (column, bin) for several.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If the reports come from another transformer, a parameter is out of range, or the mechanism reports nothing
            but two numbers (Duchi's, and the hybrid one up to epsilon = 0.61), which tell the mean only.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        check_is_fitted(self)
        steps = self.mechanism_.steps
        bins = check_size(min(_BINS, steps) if n_bins is None else n_bins, least=1, most=steps, name="n_bins")
        if self.mechanism_.n_reports == 2 < bins + 1:
            raise ValueError(
                "two numbers are all that is reported, and they tell the mean but not the distribution; use "
                "mechanism='square_wave'"
            )
        cells = bins * max(1, min(_CELLS, steps) // bins) if smooth and bins > 1 else bins
        channel = self.mechanism_.spread(bin_positions(steps, cells))
        parts = []
        for name, counts, values, distinct, (low, high) in zip(
            self.guarantee_.scope,
            self._counts(reports),
            self._values,
            self.report_values_,
            self.bounds_,
            strict=True,
        ):
            merged = _merge(channel.T, values, distinct).T
            frequencies = estimate_frequencies(merged, counts, smooth=smooth)
            interval = Interval(low, high, bins=bins)
            table = {
                "left": interval.edges[:-1],
                "right": interval.edges[1:],
                "frequency": frequencies.reshape(bins, -1).sum(axis=1),
            }
            parts.append(pd.DataFrame(table, index=pd.Index(interval.labels, name=name)))
        return parts[0] if len(parts) == 1 else pd.concat(parts, keys=self.guarantee_.scope, names=["column", "bin"])

    def _counts(self, reports: Any) -> Sequence[NDArray[np.int64]]:
        if not isinstance(reports, NumericTally):
            return self._count_reports(reports)
        if reports.protocol != self._protocol():
            raise ValueError("the tally comes from a perturber with different parameters or columns")
        if reports.n_reports == 0:
            raise ValueError("Found a tally of 0 sample(s) (rows); at least 1 is required")
        return reports.counts

    def _count_reports(self, reports: Any) -> list[NDArray[np.int64]]:
        """Count how often each possible number was reported, and refuse any other."""
        table = read_input(self, reports, reset=False)
        check_names(self, table, self.guarantee_.scope)
        return [self._count_numbers(place, numbers) for place, numbers in enumerate(read_numbers(table))]

    def _count_numbers(
        self, place: int, numbers: NDArray[np.float64], counts: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Count the reports of a column, or add up how often each of them occurs."""
        values = self.report_values_[place]
        above = np.clip(np.searchsorted(values, numbers), 1, len(values) - 1)
        nearest = above - (numbers - values[above - 1] < values[above] - numbers)
        # Reports may have been written with fewer digits.
        if (np.abs(values[nearest] - numbers) > 1e-6 * (values[-1] - values[0])).any():
            name = self.guarantee_.scope[place]
            raise ValueError(f"column {name!r} holds numbers that are not reports of this transformer")
        if counts is None:
            return np.bincount(nearest, minlength=len(values))
        total = np.zeros(len(values), np.int64)
        np.add.at(total, nearest, counts)
        return total

    def channel(self) -> list[list[list[Fraction]]]:
        """Return the exact probabilities of the reports, given the position on the grid.

        Returns
        -------
        list
            A table for each column: a row a position, from the lower to the upper bound; a column a report, in the
            order of `report_values_`; each entry a Fraction. There are more than ``grid_size**2`` of them, so this is
            for small grids.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        table = self.mechanism_.channel()
        merged = []
        for values, distinct in zip(self._values, self.report_values_, strict=True):
            places = np.searchsorted(distinct, values).tolist()
            rows = []
            for row in table:
                entries = [Fraction(0)] * len(distinct)
                for place, share in zip(places, row, strict=True):
                    entries[place] += share
                rows.append(entries)
            merged.append(rows)
        return merged


def _merge(
    table: NDArray[np.float64], values: NDArray[np.float64], distinct: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Add up the rows of reports that are the same number, as some are where floats have no room for more."""
    merged = np.zeros((len(distinct), table.shape[1]))
    np.add.at(merged, np.searchsorted(distinct, values), table)
    return merged
