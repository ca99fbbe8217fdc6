"""RAPPOR: values of an open vocabulary as Bloom filters whose bits are randomised twice."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import nnls
from sklearn.linear_model import Lasso
from sklearn.utils.validation import check_is_fitted

from skdp.base import TableLike, check_choice, check_flag
from skdp.exact import log_upper
from skdp.local._memo import (
    Memo,
    PermanentDraws,
    canonical,
    check_key,
    framed,
    keyed_coins,
    keyed_integers,
    name_bytes,
    to_bytes,
)
from skdp.local._tally import ReportTally
from skdp.local._transformer import ReportTransformer
from skdp.local.protocol import (
    Channel,
    Codes,
    Field,
    Randomness,
    ReportProtocol,
    Rows,
)
from skdp.oracles import (
    MAX_REPORT_BYTES,
    BloomRandomizer,
    check_bits,
)
from skdp.privacy import (
    PrivacyGuarantee,
    PrivacyLedger,
    check_epsilon,
)
from skdp.randomness import bernoulli, uniform_integers
from skdp.tables import ColumnError, Table

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
    # Whether a missing value is reported as a value.
    takes_missing: bool = False
    is_permanent: bool = False

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
        codes: Codes = []
        for name, column in zip(self.columns, columns, strict=True):
            values = read_values(name, column, self.takes_missing)
            codes.append(np.array(values, object))
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
        numbers = rappor.n_bits, rappor.n_hashes, rappor.n_cohorts, rappor.flip
        return [str(number).encode() for number in numbers]

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
        is_valid = False
        if cohorts.dtype.kind in "iuf":
            is_in_range = (cohorts >= 0) & (cohorts < n_cohorts)
            is_valid = bool((is_in_range & (cohorts % 1 == 0)).all())
        if not is_valid:
            raise ValueError(
                f"the cohorts of the reports must be integers from 0 to {n_cohorts - 1}"
            )
        bits = check_bits(np.column_stack(arrays[1:]), width - 1)
        dtype = np.min_scalar_type(n_cohorts - 1)
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
        has_several = len(self.columns) > 1
        is_mapping = isinstance(candidates, Mapping)
        lists = candidates if is_mapping else {self.columns[0]: candidates}
        if set(lists) - set(self.columns) or (has_several and not is_mapping):
            raise ValueError(
                "candidates must be a mapping of columns to lists; the columns are "
                f"{list(self.columns)}"
            )
        # All lists are checked before the first is decoded.
        values_of = {name: self._candidates(name, lists[name]) for name in lists}
        tables = {}
        for name, values in values_of.items():
            ones = sums[:, self._bits_of(self.columns.index(name))]
            counts, errors = _decode_counts(
                self.randomizer, ones, sums[:, 0], values, method
            )
            index = pd.Index(list(lists[name]), dtype=object, name="candidate")
            columns = {"count": counts, "std_error": errors}
            tables[name] = pd.DataFrame(columns, index=index)
        if not has_several:
            return tables[self.columns[0]]
        return pd.concat(tables, names=["column", "candidate"])

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

    def channels(self, most_entries: int) -> list[Iterator[Channel]] | None:
        # Of two filters that differ in as many bits as any two can.
        bits, hashes = self.randomizer.n_bits, self.randomizer.n_hashes
        if bits > 12 or 2 << bits > most_entries:
            return None
        first = [1] * hashes + [0] * (bits - hashes)
        filters = [first, first[::-1]]
        channel = self.randomizer.channel(filters, permanent=self.is_permanent)
        return [iter([channel]) for _ in self.columns]


def read_values(name: Any, column: Any, missing: bool) -> list[bytes]:
    try:
        return to_bytes(column, missing=missing)
    except ColumnError as error:
        advice = ""
        if "missing" in str(error):
            advice = "; set handle_missing='value' to report them as a value"
        raise ValueError(f"column {name!r} {error}{advice}") from None


def _decode_counts(
    rappor: BloomRandomizer,
    ones: NDArray[np.int64],
    sizes: NDArray[np.int64],
    candidates: Sequence[bytes],
    method: Method,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Regress the debiased bit counts on the Bloom filters of the candidates."""
    # `ones` are counts of shape (n_cohorts, n_bits), `sizes` the records of a cohort.
    cohorts = np.flatnonzero(sizes)
    n_candidates = len(candidates)
    if rappor.on == rappor.off or cohorts.size == 0:
        return np.full(n_candidates, np.nan), np.full(n_candidates, np.inf)
    if 8 * cohorts.size * rappor.n_bits * (n_candidates + 1) > MAX_REPORT_BYTES:
        raise ValueError(
            f"{n_candidates:,} candidates need more than {MAX_REPORT_BYTES:,} bytes; "
            "decode in parts"
        )
    problem = _Regression(rappor, ones[cohorts], sizes[cohorts], cohorts, candidates)
    chosen = np.arange(n_candidates)
    if method == "lasso":
        chosen = problem.lasso()
    columns = np.append(chosen, -1)  # and the part of all other values
    design = problem.design[:, columns]
    inverse = _inverse(design.T @ design) if len(design) >= len(columns) else None
    if method != "least_squares":
        shares = nnls(design, problem.target)[0]
    elif inverse is None:
        raise ValueError(
            "the bits do not distinguish these candidates; take fewer candidates, more "
            "cohorts or bits, or method='nnls' or 'lasso'"
        )
    else:
        shares = inverse @ (design.T @ problem.target)
    counts = np.zeros(n_candidates)
    counts[chosen] = shares[:-1] * problem.n
    errors = np.full(n_candidates, np.nan)
    if inverse is not None:
        errors[chosen] = problem.std_errors(columns, inverse, counts[chosen])
    return counts, errors


def _inverse(normal: NDArray[np.float64]) -> NDArray[Any] | None:
    """Return the inverse of normal equations; None if floats do not tell it."""
    if np.linalg.cond(normal) > 1e9:
        return None
    return np.linalg.inv(normal)


class _Regression:
    """A row for each bit of a cohort, a column for each candidate, and one for others."""

    # The debiased count of a bit is the number of records in the cohort that set it: on
    # average, over the cohorts that records draw, its share of all such records. Rows
    # are divided by the square root of the size of their cohort, which makes their
    # errors about equal. The values outside the list, which the last column stands for,
    # set any bit equally likely, over the hash functions.

    def __init__(
        self,
        rappor: BloomRandomizer,
        ones: NDArray[np.int64],
        sizes: NDArray[np.int64],
        cohorts: NDArray[np.intp],
        candidates: Sequence[bytes],
    ) -> None:
        n_bits = rappor.n_bits
        self.n = int(sizes.sum())
        self.sizes = sizes
        self.filters = np.zeros((cohorts.size, n_bits, len(candidates) + 1))
        self.filters[:, :, -1] = 1 - (1 - 1 / n_bits) ** rappor.n_hashes
        for row, cohort in enumerate(cohorts.tolist()):
            for column, value in enumerate(candidates):
                self.filters[row, rappor.places(cohort, value), column] = 1

        # A bit that is set is reported with the probability `on`, another with `off`:
        # ones = off * size + (on - off) * count on average.
        gain = float(rappor.on - rappor.off)
        expected = [float(rappor.off * size) for size in sizes.tolist()]
        set_counts = (ones - np.array(expected)[:, np.newaxis]) / gain
        weights = np.sqrt(sizes)[:, np.newaxis]
        design = self.filters * weights[:, :, np.newaxis]
        self.design = design.reshape(-1, len(candidates) + 1)
        self.target = (set_counts / weights).ravel()

        # The variance of a row: that of a coin, over the square of the gain.
        noise_of_set = float(rappor.on * (1 - rappor.on)) / gain**2
        noise_of_unset = float(rappor.off * (1 - rappor.off)) / gain**2
        set_share = np.clip(set_counts / sizes[:, np.newaxis], 0, 1).ravel()
        self.noise = set_share * noise_of_set + (1 - set_share) * noise_of_unset
        self.most_noise = max(noise_of_set, noise_of_unset)

    def lasso(self) -> NDArray[np.intp]:
        """Choose candidates, so that none is chosen for its noise alone."""
        # The noise of the bits is known, so the penalty needs no cross-validation:
        # sqrt(2 ln M) standard deviations, for M candidates (D. Donoho, I. Johnstone
        # 1994). The column of other values is projected out rather than penalised.
        others = self.design[:, -1]
        direction = others / np.linalg.norm(others)
        design = self.design[:, :-1]
        design = design - np.outer(direction, direction @ design)
        target = self.target - direction * (direction @ self.target)
        n_candidates = design.shape[1]
        largest = float(np.linalg.norm(design, axis=0).max())
        universal = math.sqrt(2 * math.log(max(2, n_candidates)))
        alpha = math.sqrt(self.most_noise) * largest * universal / len(target)
        model = Lasso(alpha=alpha, positive=True, fit_intercept=False, max_iter=100_000)
        return np.flatnonzero(model.fit(design, target).coef_ > 0)

    def std_errors(
        self,
        columns: NDArray[np.intp],
        inverse: NDArray[Any],
        counts: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the errors of least squares: of noise, and of the drawn cohorts."""
        chosen = columns[:-1]
        solve = inverse @ self.design[:, columns].T  # (n_columns, n_rows)
        variance = solve**2 @ self.noise * self.n**2
        # The variance of what one record of each candidate adds to each count, over the
        # cohorts that it may be in: (n_columns, n_chosen).
        mean = np.zeros((len(columns), len(chosen)))
        square = np.zeros((len(columns), len(chosen)))
        parts = np.split(solve, len(self.sizes), axis=1)
        for part, filters, size in zip(parts, self.filters, self.sizes, strict=True):
            effect = part @ filters[:, chosen] * (self.n / math.sqrt(size))
            mean += effect * (size / self.n)
            square += effect**2 * (size / self.n)
        variance += (square - mean**2) @ np.clip(counts, 0, self.n)
        return np.sqrt(variance[:-1])


class RapporEncoder(ReportTransformer):
    """Report each value as a Bloom filter whose bits are randomised twice ("RAPPOR").

    >>> import pandas as pd
    >>> from skdp import RapporEncoder
    >>> visits = pd.DataFrame({"home": ["a.example"] * 3_000 + ["b.example"] * 1_000})
    >>> encoder = RapporEncoder(4.0, n_bits=32)
    >>> reports = encoder.fit_transform(visits)
    >>> counts = encoder.decode(reports, ["a.example", "b.example", "c.example"])

    No domain is declared: any text, number or boolean is hashed into a filter, and the
    server asks for the counts of candidates. The permanent round flips every bit with
    probability f/2; the instantaneous round reports a permanent 1 as 1 with probability
    q, and a permanent 0 as 1 with probability p ([1]_). The output has the columns
    ``cohort`` and ``<column>_bit_<number>``. The guide page "Collect from the same
    people again" has both guarantees.

    Parameters
    ----------
    epsilon : float or None, default=1.0
        Privacy loss of the permanent bits of one record over all columns together, > 0;
        None with f.
    f : float, optional
        Twice the probability that the permanent round flips a bit, between 0 and 1.
    p, q : float, default=0.5, 0.75
        The instantaneous round, ``0 <= p < q <= 1``; p = 0 and q = 1 leave it out.
    n_bits : int, default=128
        The size of the filter, from 2 to 65,536.
    n_hashes : int, default=2
        The number of hash functions, from 1 to `n_bits`. Two values differ in up to
        twice as many bits, over which epsilon is spread.
    n_cohorts : int, default=8
        The number of groups of records with hash functions of their own: values that
        share bits in one cohort are distinguished in another.
    handle_missing : {"error", "value"}, default="error"
        Whether missing values are refused, which shows that one occurs, or are one more
        value (candidate None).
    secret_key : bytes, optional
        At least 16 bytes, such as ``SecretKey.generate()``: a record repeats its
        permanent bits, and `transform` needs ``record_id``.
    constant_values : bool, default=False
        With a key, whether the values of a record are the same in all calls. Then the
        ledger is charged once, at the first call; otherwise at each.
    ledger : PrivacyLedger, optional
        Charged with `guarantee_` at each call of `transform`, before any draw.
    random_state : int, optional
        None is secure. An int is reproducible, and not private: for tests only.
        Permanent bits with a key depend on the key instead.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        What a call of `transform` spends: `permanent_guarantee_` with a secret key,
        else `instantaneous_guarantee_`.
    permanent_guarantee_ : PrivacyGuarantee
        What all reports of the same values together promise where a key keeps the bits.
    instantaneous_guarantee_ : PrivacyGuarantee
        What a single report promises; never more epsilon than `permanent_guarantee_`.
    randomizer_ : BloomRandomizer
        The protocol, with its exact probabilities.

    See Also
    --------
    HeavyHitters : Finds the frequent words without a list of candidates.

    Notes
    -----
    **Privacy.** Local model: for each record, under replacement of its values in the
    fitted columns, against everybody without the key; columns add up. Without a key
    both rounds are fresh: m calls cost m times `instantaneous_guarantee_`. With one,
    all calls together cost `permanent_guarantee_` for each distinct value that a record
    has had; whether and when a value changes is not hidden. Encoders with other
    `n_bits`, `n_hashes`, `n_cohorts` or f cost extra. `fit` keeps column names only.
    The guide page "What all encoders share" explains what is not covered.

    References
    ----------
    .. [1] Ú. Erlingsson, V. Pihur, A. Korolova (2014). RAPPOR: randomized aggregatable
       privacy-preserving ordinal response. CCS.
    """

    _without_instantaneous: ClassVar[Mapping[str, float]] = {"p": 0.0, "q": 1.0}
    """The parameters that leave the instantaneous round out."""

    def __init__(
        self,
        epsilon: float | None = 1.0,
        *,
        f: float | None = None,
        p: float = 0.5,
        q: float = 0.75,
        n_bits: int = 128,
        n_hashes: int = 2,
        n_cohorts: int = 8,
        handle_missing: Literal["error", "value"] = "error",
        secret_key: bytes | None = None,
        constant_values: bool = False,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.f = f
        self.p = p
        self.q = q
        self.n_bits = n_bits
        self.n_hashes = n_hashes
        self.n_cohorts = n_cohorts
        self.handle_missing = handle_missing
        self.secret_key = secret_key
        self.constant_values = constant_values
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = self.handle_missing == "value"
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _make_protocol(self, table: Table) -> ReportProtocol:
        self._check_parameters()
        is_permanent = self.secret_key is not None
        if is_permanent:
            for name in table.names:
                name_bytes(name, "a secret_key")  # refused if it cannot be written
        epsilon = None
        if self.epsilon is not None:
            epsilon = check_epsilon(self.epsilon)
        rappor = self._randomizer(epsilon, len(table.names), self.f)
        missing = self.handle_missing == "value"
        for name, column in zip(table.names, table.columns, strict=True):
            read_values(name, column, missing)
        guarantee = self._promise(rappor, table.names, permanent=is_permanent)
        field = BloomField(
            table.names, rappor, guarantee.epsilon, missing, is_permanent
        )
        memo = None
        if self.secret_key is not None:
            memo = Memo(self.secret_key, "RapporEncoder", [field])
        return ReportProtocol("RapporEncoder", (field,), guarantee, memo=memo)

    def _randomizer(
        self, epsilon: float | Fraction | None, n_columns: int, f: float | None = None
    ) -> BloomRandomizer:
        share = None if epsilon is None else Fraction(epsilon) / n_columns
        return BloomRandomizer(
            self.n_bits,
            self.n_hashes,
            self.n_cohorts,
            epsilon=share,
            f=f,
            p=self.p,
            q=self.q,
        )

    def _promise(
        self, rappor: BloomRandomizer, names: tuple[Any, ...], *, permanent: bool
    ) -> PrivacyGuarantee:
        ratio = rappor.permanent_ratio if permanent else rappor.report_ratio
        return PrivacyGuarantee(
            log_upper(ratio ** len(names)),
            scope=names,
            mechanism="RAPPOR, permanent bits" if permanent else "RAPPOR, one report",
            secure=self.random_state is None,
            losses=rappor.losses(permanent=permanent) * len(names),
        )

    def _set_fitted(self, protocol: ReportProtocol) -> None:
        field: Any = protocol.fields[0]
        rappor = field.randomizer
        names = protocol.columns
        self.randomizer_ = rappor
        self.permanent_guarantee_ = self._promise(rappor, names, permanent=True)
        self.instantaneous_guarantee_ = self._promise(rappor, names, permanent=False)
        # Reports of constant values with a key are charged at the first call only.
        is_permanent = protocol.permanent_key is not None
        self._once = is_permanent and bool(self.constant_values)
        self._charged = False

    def _check_parameters(self) -> None:
        check_choice("handle_missing", self.handle_missing, ("error", "value"))
        check_flag("constant_values", self.constant_values)
        check_key(self.secret_key)

    def _charge(self, run: str | None = None) -> None:
        if self._charged:
            return
        super()._charge(run)
        self._charged = self._once

    def _check_budget(self, run: str | None = None) -> None:
        if not self._charged:
            super()._check_budget(run)

    def _declared_row(self, sample: Table, names: Sequence[Any]) -> pd.DataFrame:
        return pd.DataFrame({name: [""] for name in names})

    def decode(
        self,
        reports: TableLike | ReportTally,
        candidates: Sequence[Hashable] | Mapping[Any, Sequence[Hashable]],
        *,
        method: Method = "nnls",
    ) -> pd.DataFrame:
        """Estimate how many records truly have each candidate value.

        The counts of ones, freed of the expected noise, are regressed on the filters of the candidates (a row a bit of
        a cohort), together with a constant part for all values that are no candidates.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, one a record, or their sums.
        candidates : list, or mapping of column to list
            The values to count; a mapping if there are several columns.
        method : {"nnls", "lasso", "least_squares"}, default="nnls"
            ``"nnls"``: least squares with counts that are not negative. ``"lasso"``: a lasso with counts that are not
            negative chooses the candidates that occur, and "nnls" counts these; for long lists, also longer than there
            are bits. ``"least_squares"``: unbiased, possibly negative.

        Returns
        -------
        pandas.DataFrame
            ``count, std_error``, indexed by candidate for one column, by (column, candidate) for several. The standard
            error is that of unconstrained least squares on the candidates that are counted: of the randomness of both
            rounds, and of the cohorts that the records of each candidate happen to be in. It is nan for a candidate
            that the lasso did not choose, and for all if the bits do not distinguish them. It does not include how
            values outside the list collide with candidates: of 8 cohorts, one unlisted value that half of 300,000
            records have makes the errors 2.7 times the stated ones. List every frequent value.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another encoder, a candidate is repeated or of a kind that cannot
            be reported, or "least_squares" cannot distinguish the candidates.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable with other candidates.

        Records that report several times in `reports` count as many, and the errors are then too small, since the
        permanent bits are the same.
        """
        check_is_fitted(self)
        tally = reports if isinstance(reports, ReportTally) else self.tally(reports)
        return self.protocol_.estimate(tally, candidates=candidates, method=method)
