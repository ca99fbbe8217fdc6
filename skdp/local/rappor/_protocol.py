"""The protocol of RAPPOR: Bloom filters whose bits are randomised twice, and the candidates that explain them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigvalsh
from scipy.optimize import nnls
from sklearn.linear_model import Lasso

from skdp.base import check_choice
from skdp.coding import ColumnError
from skdp.frames import Table
from skdp.local._tally import ReportTally, check_tally
from skdp.local.memo import (
    SecretKey,
    canonical,
    framed,
    keyed_coins,
    keyed_digests,
    keyed_integers,
    to_bytes,
)
from skdp.local.protocol import (
    Channel,
    Codes,
    Randomness,
    ReportProtocol,
    Reports,
    joined_counts,
)
from skdp.oracles import (
    MAX_REPORT_BYTES,
    BloomRandomizer,
    check_bits,
    lower_tail,
    upper_tail,
)
from skdp.privacy import PrivacyGuarantee
from skdp.randomness import bernoulli, uniform_integers

Method: TypeAlias = Literal["nnls", "lasso", "least_squares"]
METHODS = get_args(Method)


@dataclass(frozen=True, eq=False, repr=False)
class RapporProtocol(ReportProtocol):
    """A cohort, and for each column the bits of a filter."""

    randomizer: BloomRandomizer
    guarantee: PrivacyGuarantee
    missing: bool
    key: SecretKey | None = None

    @property
    def report_columns(self) -> list[str]:
        return self.names(self.columns)

    @property
    def permanent_key(self) -> bytes | None:
        return self.key

    def names(self, inputs: Any) -> list[str]:
        """Name the report columns after the columns of the input."""
        return [
            "cohort",
            *(
                f"{name}_bit_{bit}"
                for name in inputs
                for bit in range(self.randomizer.n_bits)
            ),
        ]

    def prepare(self, table: Table) -> Codes:
        # The values themselves, as bytes: numbers of those that occur would be the same in batches of other values.
        pairs = zip(self.columns, table.columns, strict=True)
        values: Codes = [
            np.array(read_values(name, column, self.missing), object)
            for name, column in pairs
        ]
        self.randomizer.check_size(len(values[0]) * len(values))
        return values

    def randomise(
        self, codes: Codes, records: list[bytes], randomness: Randomness
    ) -> Reports:
        cohorts = self._cohorts(records, len(codes[0]), randomness)
        reports: Reports = [cohorts]
        for name, values in zip(self.columns, codes, strict=True):
            bits = self._permanent(name, values.tolist(), cohorts, records, randomness)
            reports.append(
                self.randomizer.instantaneous(bits, randomness("report", name))
            )
        return reports

    def _cohorts(
        self, records: list[bytes], rows: int, randomness: Randomness
    ) -> NDArray[np.unsignedinteger]:
        count = self.randomizer.n_cohorts
        if self.key is None:
            return uniform_integers(randomness("cohort"), count, rows)
        digests = keyed_digests(self.key, ("cohort", *self._purpose), records)
        return keyed_integers(digests, count).astype(np.min_scalar_type(count - 1))

    def _permanent(
        self,
        name: Any,
        values: list[bytes],
        cohorts: NDArray[Any],
        records: list[bytes],
        randomness: Randomness,
    ) -> NDArray[np.bool_]:
        rappor = self.randomizer
        bits = rappor.filters(cohorts, values)
        if self.key is None:
            bits ^= bernoulli(
                randomness("permanent", name), rappor.flip, bits.size
            ).reshape(bits.shape)
        else:
            purpose: tuple[str | bytes, ...] = (
                "permanent",
                *self._purpose,
                canonical(name),
            )
            digests = keyed_digests(
                self.key, purpose, list(map(framed, records, values))
            )
            bits ^= keyed_coins(digests, rappor.flip, rappor.n_bits)
        return bits

    @property
    def _purpose(self) -> tuple[str, ...]:
        """Which permanent random bits are meant: the same ones must never flip the bits of two different filters."""
        rappor = self.randomizer
        return tuple(
            map(str, (rappor.n_bits, rappor.n_hashes, rappor.n_cohorts, rappor.flip))
        )

    def write(self, reports: Reports, table: Table) -> Any:
        return table.rebuild(reports, self.report_columns)

    def read(self, reports: Any) -> Reports:
        table = self.report_table(reports)
        rappor, columns = (
            self.randomizer,
            [np.asarray(column) for column in table.columns],
        )
        cohorts = columns[0]
        fitting = cohorts.dtype.kind in "iuf" and bool(
            ((cohorts >= 0) & (cohorts < rappor.n_cohorts)).all()
        )
        if not fitting or (cohorts.dtype.kind == "f" and bool((cohorts % 1).any())):
            raise ValueError(
                f"the cohorts of the reports must be integers from 0 to {rappor.n_cohorts - 1}"
            )
        starts = range(1, len(columns), rappor.n_bits)
        blocks = (
            np.column_stack(columns[start : start + rappor.n_bits]) for start in starts
        )
        return [
            cohorts.astype(np.intp),
            *(check_bits(block, rappor.n_bits) for block in blocks),
        ]

    def tally(self, reports: Reports) -> ReportTally:
        (cohorts, *columns), count = reports, self.randomizer.n_cohorts
        sizes = np.bincount(cohorts, minlength=count)
        ones = [count_ones(cohorts, bits, count) for bits in columns]
        return self._tally_of(np.column_stack([sizes, *ones]))

    def report_counts(self, reports: Reports) -> NDArray[np.int64]:
        return self.tallied_counts(self.tally(reports))

    def tallied_counts(self, tally: ReportTally) -> NDArray[np.int64]:
        sizes, ones = self._split(tally)
        ones, n_reports = ones.sum(axis=1), tally.n_reports
        return joined_counts(
            n_reports, [sizes, ones.ravel(), (n_reports - ones).ravel()]
        )

    def empty_tally(self) -> ReportTally:
        return self._tally_of(np.zeros(self._shape, np.int64))

    @property
    def _shape(self) -> tuple[int, int]:
        """Of the sums: a row a cohort; its records, and the ones of the bits of each column."""
        rappor = self.randomizer
        return rappor.n_cohorts, 1 + len(self.columns) * rappor.n_bits

    def _tally_of(self, counts: NDArray[np.int64]) -> ReportTally:
        n_reports = int(counts[:, 0].sum())
        return ReportTally(self.meaning, (counts,), (n_reports,), n_reports)

    def _split(self, tally: ReportTally) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the records of each cohort, and the ones of each column: (n_columns, n_cohorts, n_bits)."""
        (counts,) = tally.counts
        shape = (len(counts), len(self.columns), self.randomizer.n_bits)
        return counts[:, 0], counts[:, 1:].reshape(shape).swapaxes(0, 1)

    def estimate(  # type: ignore[override]
        self, tally: ReportTally, candidates: Any, *, method: Method = "nnls"
    ) -> pd.DataFrame:
        """Estimate the count of each candidate value."""
        check_choice("method", method, METHODS)
        lists = (
            candidates
            if isinstance(candidates, Mapping)
            else {self.columns[0]: candidates}
        )
        if set(lists) - set(self.columns) or (
            len(self.columns) > 1 and not isinstance(candidates, Mapping)
        ):
            raise ValueError(
                f"candidates must be a mapping of columns to lists; the columns are {list(self.columns)}"
            )
        written = {
            name: self._candidates(name, values) for name, values in lists.items()
        }
        check_tally(tally, self.meaning)
        sizes, ones = self._split(tally)
        found = [
            _decode_counts(
                self.randomizer,
                ones[self.columns.index(name)],
                sizes,
                values,
                method,
            )
            for name, values in written.items()
        ]
        index = pd.Index(
            [value for values in lists.values() for value in values],
            dtype=object,
            name="candidate",
        )
        if len(self.columns) > 1:
            pairs = [
                (name, value) for name, values in lists.items() for value in values
            ]
            index = pd.MultiIndex.from_tuples(pairs, names=["column", "candidate"])
        counts, errors = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return pd.DataFrame({"count": counts, "std_error": errors}, index=index)

    def _candidates(self, name: Any, values: Any) -> list[bytes]:
        if isinstance(values, str) or not np.iterable(values):
            raise TypeError(
                f"candidates of column {name!r} must be a list, got {type(values).__name__}"
            )
        try:
            written = to_bytes(list(values), missing=self.missing)
        except ColumnError as error:
            raise ValueError(
                f"the list of candidates of column {name!r} {error}"
            ) from None
        if not written or len({*written}) < len(written):
            raise ValueError(
                f"candidates of column {name!r} must be different values, at least one"
            )
        return written

    def tails(
        self, tally: ReportTally, columns: Sequence[Any] | None = None
    ) -> list[tuple[float, float, str]]:
        # A bit is 1 with the probability `on` or `off`, of each record of a cohort.
        on, off = float(self.randomizer.on), float(self.randomizer.off)
        cohort_sizes, ones_of = self._split(tally)
        known = np.flatnonzero(cohort_sizes)
        found = []
        for name, ones in zip(self.columns, ones_of, strict=True):
            if columns is not None and name not in columns:
                continue
            choices, least, most = (
                math.log(ones.size),
                ones.min(axis=1),
                ones.max(axis=1),
            )
            sizes = [(cohort, float(cohort_sizes[cohort])) for cohort in known.tolist()]
            low = min(
                (lower_tail(float(least[cohort]), size, off) for cohort, size in sizes),
                default=0.0,
            )
            high = min(
                (upper_tail(float(most[cohort]), size, on) for cohort, size in sizes),
                default=0.0,
            )
            found += [(low, choices, repr(name)), (high, choices, repr(name))]
        return found

    @property
    def meaning(self) -> dict[str, Any]:
        """What a server must know to read the reports."""
        field = {
            **self._plain,
            "shape": list(self._shape),
            "possible": "cohorts",
        }
        return {"encoder": "RapporEncoder", "n_sampled": None, "fields": [field]}

    @property
    def _plain(self) -> dict[str, Any]:
        rappor = self.randomizer
        return {
            "columns": list(self.columns),
            "n_bits": rappor.n_bits,
            "n_hashes": rappor.n_hashes,
            "n_cohorts": rappor.n_cohorts,
            "flip": rappor.flip,
            "heads": list(rappor.heads),
        }

    def channels(self, most_entries: int) -> list[Iterator[Channel]] | None:
        # Of two filters that differ in as many bits as any two can.
        bits, hashes = self.randomizer.n_bits, self.randomizer.n_hashes
        if bits > 12 or 2 << bits > most_entries:
            return None
        filters = [
            [int(bit < hashes) for bit in range(bits)],
            [int(bit >= bits - hashes) for bit in range(bits)],
        ]
        channel = self.randomizer.channel(filters, permanent=self.key is not None)
        return [iter([channel]) for _ in self.columns]

    def parameters(self) -> dict[str, Any]:
        return {"encoder": "RapporEncoder", **self._plain, "missing": self.missing}

    def without_secrets(self) -> RapporProtocol:
        return replace(self, key=None)


def count_ones(
    cohorts: NDArray[Any], bits: NDArray[np.bool_], n_cohorts: int
) -> NDArray[np.int64]:
    """Count the ones of each bit in each cohort."""
    rows = np.split(
        np.argsort(cohorts, kind="stable"),
        np.cumsum(np.bincount(cohorts, minlength=n_cohorts))[:-1],
    )
    return np.array([bits[part].sum(axis=0, dtype=np.int64) for part in rows])


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
            f"{len(candidates):,} candidates need more than {MAX_REPORT_BYTES:,} bytes; decode in parts"
        )
    problem = _Regression(rappor, ones[seen], n_reports[seen], seen, candidates)
    used = problem.lasso() if method == "lasso" else np.arange(len(candidates))
    inverse = problem.inverse(used)
    if method == "least_squares":
        if inverse is None:
            raise ValueError(
                "the bits do not distinguish these candidates; take fewer candidates, more cohorts or bits, or "
                "method='nnls' or 'lasso'"
            )
        found = (inverse @ (problem.design[:, np.append(used, -1)].T @ problem.target))[
            :-1
        ]
    else:
        found = problem.not_negative(used)
    counts, errors = np.zeros(len(candidates)), np.full(len(candidates), np.nan)
    counts[used] = found * problem.n
    if inverse is not None:
        errors[used] = problem.std_errors(used, inverse, counts[used])
    return counts, errors


class _Regression:
    """One row a bit of a cohort, one column a candidate, and a last column for all values that are no candidates."""

    # The debiased count of a bit is the number of records in the cohort that set it: on average, over the cohorts that
    # records draw, its share of all such records. Rows are divided by the square root of the size of their cohort,
    # which makes their errors about equal. The values outside the list set any bit equally likely, over the hash
    # functions.

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
        # The noise of the bits is known, so the penalty needs no cross-validation: sqrt(2 ln M) standard deviations,
        # for M candidates. The last column is projected out rather than penalised.
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
            # What one record of each candidate (a column) adds to each count (a row), if it is in this cohort.
            effect = part @ filters[:, used] * (self.n / math.sqrt(size))
            mean += effect * (size / self.n)
            square += effect**2 * (size / self.n)
        variance += (square - mean**2) @ np.clip(counts, 0, self.n)
        return np.sqrt(variance[:-1])
