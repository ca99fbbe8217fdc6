"""RAPPOR: Bloom filters whose bits are randomised twice, and the candidates that explain them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigvalsh
from scipy.optimize import nnls
from sklearn.linear_model import Lasso

from skdp.base import check_choice
from skdp.local.memo import (
    PermanentDraws,
    canonical,
    framed,
    keyed_coins,
    keyed_integers,
    to_bytes,
)
from skdp.local.protocol import Channel, Codes, Field, Randomness, Rows, Tail
from skdp.oracles import (
    MAX_REPORT_BYTES,
    BloomRandomizer,
    check_bits,
    lower_tail,
    upper_tail,
)
from skdp.randomness import bernoulli, uniform_integers
from skdp.tables import ColumnError

Method: TypeAlias = Literal["nnls", "lasso", "least_squares"]
METHODS = get_args(Method)


@dataclass(frozen=True, eq=False, repr=False)
class BloomField(Field):
    """Columns of text: the cohort of a record, and for each column the bits of a filter."""

    # A report is an array of the cohort, and then the bits of all columns. The sums
    # have a row for each cohort: its records, and the ones of each bit.

    columns: tuple[Any, ...]
    randomizer: BloomRandomizer
    epsilon: float
    takes_missing: bool = False
    """Whether a missing value is reported as a value."""
    is_permanent: bool = False

    @property
    def possible(self) -> str:  # type: ignore[override]
        return "cohorts"

    @property
    def unknown(self) -> bool:
        return self.takes_missing

    @property
    def shape(self) -> tuple[int, ...]:
        rappor = self.randomizer
        return rappor.n_cohorts, 1 + len(self.columns) * rappor.n_bits

    def names(self, inputs: Sequence[str] | None = None) -> list[str]:
        names = ["cohort"]
        for name in self.columns if inputs is None else inputs:
            names += [f"{name}_bit_{bit}" for bit in range(self.randomizer.n_bits)]
        return names

    def prepare(self, columns: Sequence[Any]) -> Codes:
        # The values themselves, as bytes: numbers of those that occur would be the same
        # in batches of other values.
        codes: Codes = [
            np.array(read_values(name, column, self.takes_missing), object)
            for name, column in zip(self.columns, columns, strict=True)
        ]
        self.randomizer.check_size(len(codes[0]) * len(codes))
        return codes

    def report(self, codes: Codes, randomness: Randomness) -> NDArray[Any]:
        rappor = self.randomizer
        n_reports = len(codes[0])
        cohorts = uniform_integers(randomness("cohort"), rappor.n_cohorts, n_reports)
        bits = []
        for name, values in zip(self.columns, codes, strict=True):
            filters = rappor.filters(cohorts, values.tolist())
            source = randomness("permanent", name)
            flips = bernoulli(source, rappor.flip, filters.size)
            bits.append(filters ^ flips.reshape(filters.shape))
        return self.report_again(self._together(cohorts, bits), randomness)

    def report_permanent(self, codes: Codes, draws: PermanentDraws) -> NDArray[Any]:
        rappor = self.randomizer
        cohorts = keyed_integers(draws.digests("cohort"), rappor.n_cohorts)
        bits = []
        for name, values in zip(self.columns, codes, strict=True):
            filters = rappor.filters(cohorts, values.tolist())
            purpose = framed(b"permanent", canonical(name))
            digests = draws.digests(purpose, draws.written(values.tolist()))
            bits.append(filters ^ keyed_coins(digests, rappor.flip, rappor.n_bits))
        return self._together(cohorts, bits)

    def _together(
        self, cohorts: NDArray[Any], bits: Sequence[NDArray[np.bool_]]
    ) -> NDArray[Any]:
        dtype = np.min_scalar_type(self.randomizer.n_cohorts - 1)
        reports = np.empty((len(cohorts), self.shape[1]), dtype)
        reports[:, 0] = cohorts
        for place, column_bits in enumerate(bits):
            reports[:, self._bits_of(place)] = column_bits
        return reports

    def _bits_of(self, place: int) -> slice:
        """Return the places of the bits of a column in a report."""
        start = 1 + place * self.randomizer.n_bits
        return slice(start, start + self.randomizer.n_bits)

    def report_again(self, reports: NDArray[Any], randomness: Randomness) -> Any:
        for place, name in enumerate(self.columns):
            column_bits = self._bits_of(place)
            bits = reports[:, column_bits].astype(bool)
            source = randomness("report", name)
            reports[:, column_bits] = self.randomizer.instantaneous(bits, source)
        return reports

    def permanent_parts(self) -> list[bytes]:
        rappor = self.randomizer
        return [
            str(number).encode()
            for number in (
                rappor.n_bits,
                rappor.n_hashes,
                rappor.n_cohorts,
                rappor.flip,
            )
        ]

    def write(
        self,
        reports: NDArray[Any],
        like: Sequence[Any],
        drawn: NDArray[np.bool_] | None,
    ) -> list[Any]:
        return [reports[:, 0], reports[:, 1:].astype(np.uint8, copy=False)]

    def read(self, columns: Sequence[Any], rows: Rows) -> NDArray[Any]:
        arrays = [np.asarray(column)[rows] for column in columns]
        cohorts = arrays[0]
        n_cohorts, width = self.shape
        is_number = cohorts.dtype.kind in "iuf"
        if (
            not is_number
            or not ((cohorts >= 0) & (cohorts < n_cohorts) & (cohorts % 1 == 0)).all()
        ):
            raise ValueError(
                f"the cohorts of the reports must be integers from 0 to {n_cohorts - 1}"
            )
        bits = check_bits(np.column_stack(arrays[1:]), width - 1)
        return self._together_read(cohorts, bits)

    def _together_read(
        self, cohorts: NDArray[Any], bits: NDArray[np.bool_]
    ) -> NDArray[Any]:
        dtype = np.min_scalar_type(self.randomizer.n_cohorts - 1)
        return np.column_stack([cohorts.astype(dtype), bits.astype(dtype)])

    def sums(self, reports: NDArray[Any]) -> NDArray[np.int64]:
        n_cohorts, width = self.shape
        cohorts = reports[:, 0]
        sizes = np.bincount(cohorts, minlength=n_cohorts)
        order = np.argsort(cohorts, kind="stable")
        sums = np.empty((n_cohorts, width), np.int64)
        for cohort, rows in enumerate(np.split(order, np.cumsum(sizes)[:-1])):
            sums[cohort] = reports[rows].sum(axis=0, dtype=np.int64)
        sums[:, 0] = sizes
        return sums

    def summed_parts(
        self, sums: NDArray[np.int64], size: int
    ) -> NDArray[np.int64] | None:
        ones = sums[:, 1:].sum(axis=0)
        return np.concatenate([sums[:, 0], ones, size - ones])

    def parameters(self) -> dict[str, Any]:
        rappor = self.randomizer
        return {
            "n_bits": rappor.n_bits,
            "n_hashes": rappor.n_hashes,
            "n_cohorts": rappor.n_cohorts,
            "flip": rappor.flip,
            "heads": list(rappor.heads),
        }

    def estimate(  # type: ignore[override]
        self,
        sums: NDArray[np.int64],
        size: int,
        n_reports: int,
        *,
        candidates: Any,
        method: Method = "nnls",
    ) -> pd.DataFrame:
        """Estimate the count of each candidate value."""
        check_choice("method", method, METHODS)
        several = len(self.columns) > 1
        is_mapping = isinstance(candidates, Mapping)
        lists = candidates if is_mapping else {self.columns[0]: candidates}
        if set(lists) - set(self.columns) or (several and not is_mapping):
            raise ValueError(
                "candidates must be a mapping of columns to lists; the columns are "
                f"{list(self.columns)}"
            )
        candidate_bytes = {
            name: self._candidates(name, values) for name, values in lists.items()
        }
        tables, labels = [], []
        for name, values in candidate_bytes.items():
            bit_columns = self._bits_of(self.columns.index(name))
            counts, errors = _decode_counts(
                self.randomizer, sums[:, bit_columns], sums[:, 0], values, method
            )
            tables.append(pd.DataFrame({"count": counts, "std_error": errors}))
            labels += [(name, value) for value in lists[name]]
        table = pd.concat(tables, ignore_index=True)
        if several:
            names = ["column", "candidate"]
            table.index = pd.MultiIndex.from_tuples(labels, names=names)
        else:
            values = [value for _, value in labels]
            table.index = pd.Index(values, dtype=object, name="candidate")
        return table

    def _candidates(self, name: Any, values: Any) -> list[bytes]:
        if isinstance(values, str) or not np.iterable(values):
            raise TypeError(
                f"candidates of column {name!r} must be a list, got "
                f"{type(values).__name__}"
            )
        try:
            candidate_bytes = to_bytes(list(values), missing=self.takes_missing)
        except ColumnError as error:
            raise ValueError(
                f"the list of candidates of column {name!r} {error}"
            ) from None
        if not candidate_bytes or len({*candidate_bytes}) < len(candidate_bytes):
            raise ValueError(
                f"candidates of column {name!r} must be different values, at least one"
            )
        return candidate_bytes

    def tails(self, sums: NDArray[np.int64], size: int) -> list[Tail]:
        # A bit is 1 with the probability `on` or `off`, of each record of a cohort.
        on, off = float(self.randomizer.on), float(self.randomizer.off)
        tails = []
        for place, name in enumerate(self.columns):
            ones = sums[:, self._bits_of(place)]
            choices = math.log(ones.size)
            low = high = 0.0
            for cohort_size, bits in zip(sums[:, 0].tolist(), ones, strict=True):
                if cohort_size:
                    n_records = float(cohort_size)
                    low = min(low, lower_tail(float(bits.min()), n_records, off))
                    high = min(high, upper_tail(float(bits.max()), n_records, on))
            tails += [(low, choices, repr(name)), (high, choices, repr(name))]
        return tails

    def channels(self, most_entries: int) -> list[Iterator[Channel]] | None:
        # Of two filters that differ in as many bits as any two can.
        bits, hashes = self.randomizer.n_bits, self.randomizer.n_hashes
        if bits > 12 or 2 << bits > most_entries:
            return None
        filters = [
            [int(bit < hashes) for bit in range(bits)],
            [int(bit >= bits - hashes) for bit in range(bits)],
        ]
        channel = self.randomizer.channel(filters, permanent=self.is_permanent)
        return [iter([channel]) for _ in self.columns]


def read_values(name: Any, column: Any, missing: bool) -> list[bytes]:
    try:
        return to_bytes(column, missing=missing)
    except ColumnError as error:
        advice = (
            "; set handle_missing='value' to report them as a value"
            if "missing" in str(error)
            else ""
        )
        raise ValueError(f"column {name!r} {error}{advice}") from None


def _decode_counts(
    rappor: BloomRandomizer,
    ones: NDArray[np.int64],
    n_reports: NDArray[np.int64],
    candidates: Sequence[bytes],
    method: Method,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Regress the debiased bit counts on the Bloom filters of the candidates."""
    gain, seen = float(rappor.on - rappor.off), np.flatnonzero(n_reports)
    if gain == 0 or seen.size == 0:
        return np.full(len(candidates), np.nan), np.full(len(candidates), np.inf)
    if 8 * seen.size * rappor.n_bits * (len(candidates) + 1) > MAX_REPORT_BYTES:
        raise ValueError(
            f"{len(candidates):,} candidates need more than {MAX_REPORT_BYTES:,} "
            "bytes; decode in parts"
        )
    problem = _Regression(rappor, ones[seen], n_reports[seen], seen, candidates)
    used = problem.lasso() if method == "lasso" else np.arange(len(candidates))
    inverse = problem.inverse(used)
    if method == "least_squares":
        if inverse is None:
            raise ValueError(
                "the bits do not distinguish these candidates; take fewer candidates, "
                "more cohorts or bits, or "
                "method='nnls' or 'lasso'"
            )
        shares = (
            inverse @ (problem.design[:, np.append(used, -1)].T @ problem.target)
        )[:-1]
    else:
        shares = problem.not_negative(used)
    counts, errors = np.zeros(len(candidates)), np.full(len(candidates), np.nan)
    counts[used] = shares * problem.n
    if inverse is not None:
        errors[used] = problem.std_errors(used, inverse, counts[used])
    return counts, errors


class _Regression:
    """One row a bit of a cohort, one column a candidate, and a last column for all values that are no candidates."""

    # The debiased count of a bit is the number of records in the cohort that set it: on
    # average, over the cohorts that records draw, its share of all such records. Rows
    # are divided by the square root of the size of their cohort, which makes their
    # errors about equal. The values outside the list set any bit equally likely, over
    # the hash functions.

    def __init__(
        self,
        rappor: BloomRandomizer,
        ones: NDArray[np.int64],
        sizes: NDArray[np.int64],
        cohorts: NDArray[np.intp],
        candidates: Sequence[bytes],
    ) -> None:
        n_bits = rappor.n_bits
        self.n, self.sizes = int(sizes.sum()), sizes
        self.filters = np.zeros((cohorts.size, n_bits, len(candidates) + 1))
        self.filters[:, :, -1] = 1 - (1 - 1 / n_bits) ** rappor.n_hashes
        for row, cohort in enumerate(cohorts.tolist()):
            for column, value in enumerate(candidates):
                self.filters[row, rappor.places(cohort, value), column] = 1
        gain, off = float(rappor.on - rappor.off), rappor.off
        expected = np.array([float(off * size) for size in sizes.tolist()])
        debiased = (ones - expected[:, None]) / gain
        weights = np.sqrt(sizes)[:, None]
        self.design = (self.filters * weights[:, :, None]).reshape(
            -1, len(candidates) + 1
        )
        self.target = (debiased / weights).ravel()
        own, other = (
            float(share * (1 - share)) / gain**2 for share in (rappor.on, rappor.off)
        )
        set_share = np.clip(debiased / sizes[:, None], 0, 1).ravel()
        self.noise = set_share * own + (1 - set_share) * other
        self.most_noise = max(own, other)

    def lasso(self) -> NDArray[np.intp]:
        """Choose candidates by a lasso whose penalty exceeds the noise of every candidate that does not occur."""
        # The noise of the bits is known, so the penalty needs no cross-validation:
        # sqrt(2 ln M) standard deviations, for M candidates. The last column is
        # projected out rather than penalised.
        rest, design = self.design[:, -1], self.design[:, :-1]
        share = rest / (rest @ rest)
        design = design - np.outer(rest, share @ design)
        target = self.target - rest * (share @ self.target)
        size = math.sqrt(self.most_noise) * float(
            np.linalg.norm(design, axis=0).max(initial=0)
        )
        alpha = size * math.sqrt(2 * math.log(max(2, design.shape[1]))) / len(target)
        model = Lasso(alpha=alpha, positive=True, fit_intercept=False, max_iter=100_000)
        return np.flatnonzero(model.fit(design, target).coef_ > 0)

    def not_negative(self, used: NDArray[np.intp]) -> NDArray[np.float64]:
        design, target = self.design[:, np.append(used, -1)], self.target
        if design.shape[0] > design.shape[1]:
            basis, design = np.linalg.qr(design)
            target = basis.T @ target
        return nnls(design, target)[0][:-1]

    def inverse(self, used: NDArray[np.intp]) -> NDArray[np.float64] | None:
        """Return the inverse of the normal equations; None if they have none."""
        design = self.design[:, np.append(used, -1)]
        if design.shape[0] < design.shape[1]:
            return None
        normal = design.T @ design
        values = eigvalsh(normal)
        if values[0] <= 1e-9 * values[-1]:
            return None
        return cho_solve(cho_factor(normal), np.eye(len(normal)))

    def std_errors(
        self,
        used: NDArray[np.intp],
        inverse: NDArray[np.float64],
        counts: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the errors of unconstrained least squares: of the randomness, and of the cohorts that records draw."""
        columns = np.append(used, -1)
        solve = inverse @ self.design[:, columns].T
        variance = (solve**2 @ self.noise) * self.n**2
        mean, square = np.zeros((2, len(columns), len(used)))
        parts = np.split(solve, len(self.sizes), axis=1)
        for part, filters, size in zip(parts, self.filters, self.sizes, strict=True):
            # What one record of each candidate (a column) adds to each count (a row),
            # if it is in this cohort.
            effect = part @ filters[:, used] * (self.n / math.sqrt(size))
            mean += effect * (size / self.n)
            square += effect**2 * (size / self.n)
        variance += (square - mean**2) @ np.clip(counts, 0, self.n)
        return np.sqrt(variance[:-1])
