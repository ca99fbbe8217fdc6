"""RAPPOR: words of an open vocabulary as the randomized bits of Bloom filters."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import Floats, Integers, Mask, TableLike
from skdp.exact import log_upper
from skdp.local._memo import (
    Memo,
    PermanentDraws,
    check_key,
    encode_column,
    encode_column_name,
)
from skdp.local._tally import ReportTally
from skdp.local._transformer import ReportTransformer
from skdp.local.protocol._fields import (
    Channel,
    ColumnCodes,
    Field,
    Randomness,
    RowSelection,
)
from skdp.local.protocol._protocol import ReportProtocol, make_guarantee
from skdp.local.protocol._report_columns import parse_integers, stack_columns
from skdp.oracles import (
    TwoRoundUnaryEncoding,
    UnaryEncoding,
)
from skdp.privacy import PrivacyGuarantee, PrivacyLedger, check_epsilon
from skdp.randomness import (
    ONE,
    ByteSource,
    bernoulli,
    check_size,
    draw_by_row,
    uniform_integers,
)
from skdp.tables import Table


@dataclass(frozen=True, eq=False, repr=False)
class BloomField(Field):
    """Column of words, reported as a public cohort and the randomized bits of a Bloom filter.

    Reports have the shape (n, 1 + n_bits): the cohort, and the bits. Sums have the shape
    (n_cohorts, 1 + n_bits): for each cohort, the number of reports and of ones of each bit.
    """

    name: Any
    n_hashes: int
    n_cohorts: int
    # Oracle that flips the bits of the filter. With two rounds, the first one makes the
    # permanent bits, and the second one flips these bits again.
    oracle: UnaryEncoding

    @property
    def columns(self) -> tuple[Any, ...]:  # type: ignore[override]
        return (self.name,)

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        # `worst_ratio` is for one-hot vectors, which differ in two bits. Each word sets at
        # most `n_hashes` bits, so two filters differ in at most 2 n_hashes bits.
        return log_upper(self.oracle.permanent.worst_ratio**self.n_hashes)

    @property
    def n_bits(self) -> int:
        """Number of bits of a filter."""
        return self.oracle.k

    @property
    def shape(self) -> tuple[int, ...]:
        return self.n_cohorts, 1 + self.n_bits

    def names(self, inputs: Sequence[str] | None = None) -> list[Any]:
        prefix = self.name if inputs is None else inputs[0]
        bits = [f"{prefix}_bit_{bit}" for bit in range(self.n_bits)]
        return [f"{prefix}_cohort", *bits]

    def prepare(self, columns: Sequence[Any]) -> ColumnCodes:
        # Return one array of the words as bytes.
        words = encode_column(f"Column {self.name!r}", columns[0])
        return [np.array(words, object)]

    def report(self, codes: ColumnCodes, randomness: Randomness) -> NDArray[Any]:
        # Return a random cohort for each word, and the bits of its Bloom filter in this
        # cohort, each flipped with a probability of `_flip` in units of 2**-64.
        (words,) = codes
        source = randomness("cohort", self.name)
        cohorts = uniform_integers(source, self.n_cohorts, len(words))
        bits = self.make_filters(cohorts, words)
        bits = self._flip_bits(bits, randomness("report", self.name))
        return np.column_stack([cohorts, bits])

    @property
    def _flip(self) -> int:
        """Probability that the first round flips a bit, in units of 2**-64."""
        return int(self.oracle.permanent.q * ONE)

    def report_permanent(
        self, codes: ColumnCodes, draws: PermanentDraws
    ) -> NDArray[Any]:
        # Return a row for each record: its cohort, and the bits of the Bloom filter of
        # its word, each flipped with a probability of `_flip` in units of 2**-64. The
        # random bits are keyed hashes, so they are equal in all releases.
        (words,) = codes
        # The cohort depends on the record only, and not on its word.
        cohorts = draws.integers("cohort", self.n_cohorts)
        bits = self.make_filters(cohorts, words)
        digests = draws.digests("bits", draws.digest_values(words.tolist()))
        bits = draw_by_row(self._flip_bits, digests, bits, head=0, width=self.n_bits)
        return np.column_stack([cohorts, bits])

    def _flip_bits(self, bits: Mask, source: ByteSource) -> Mask:
        """Flip each bit with a probability of `_flip` in units of 2**-64."""
        return bits ^ bernoulli(source, self._flip, bits.size).reshape(bits.shape)

    def report_again(self, reports: NDArray[Any], randomness: Randomness) -> Any:
        # Add the noise of the second round to the permanent bits, for one release.
        source = randomness("report", self.name)
        bits = self.oracle.report_again(reports[:, 1:], source)
        return np.column_stack([reports[:, 0], bits])

    def encode_permanent_context(self) -> list[bytes]:
        # The parameters of the second round are excluded, because the permanent bits do
        # not depend on them.
        parameters = self._parameters(self.oracle.permanent)
        return [encode_column_name(self.name, "secret_key"), repr(parameters).encode()]

    def make_filters(self, cohorts: NDArray[Any], words: Iterable[bytes]) -> Mask:
        """Make the Bloom filter of each word in its cohort, of shape (n_words, n_bits)."""
        pairs = list(zip(cohorts.tolist(), words, strict=True))
        places = {pair: place for place, pair in enumerate(dict.fromkeys(pairs))}
        set_bits = np.array([self.hash_word(*pair) for pair in places], np.intp)
        rows = np.array([places[pair] for pair in pairs], np.intp)
        indices = set_bits.reshape(-1, self.n_hashes)[rows]
        filters = np.zeros((len(pairs), self.n_bits), bool)
        np.put_along_axis(filters, indices, True, axis=1)
        return filters

    def hash_word(self, cohort: int, word: bytes) -> NDArray[np.unsignedinteger]:
        """Compute the indices of the bits that a word sets in its cohort; shape (n_hashes,)."""
        # The hash functions must not change between versions, because stored reports use
        # them. A digest of SHA-256 has four numbers of 64 bits.
        digests = b""
        for block in range(math.ceil(self.n_hashes / 4)):
            message = b"skdp bloom filter %d %d " % (cohort, block) + word
            digests += hashlib.sha256(message).digest()
        return np.frombuffer(digests, ">u8")[: self.n_hashes] % np.uint64(self.n_bits)

    def write(
        self,
        reports: NDArray[Any],
        like: Sequence[Any],
        drawn: Mask | None,
    ) -> list[Any]:
        # Return the column of cohorts, and the bits, of shape (n_reports, n_bits).
        return [reports[:, 0], reports[:, 1:].astype(np.uint8, copy=False)]

    def read(self, columns: Sequence[Any], rows: RowSelection) -> NDArray[Any]:
        # Return the cohort and the bits of the given rows, in an array of shape (n, 1 +
        # n_bits).
        block = parse_integers(stack_columns(columns)[rows])
        self.oracle.read(block[:, 1:])
        if not np.isin(block[:, 0], np.arange(self.n_cohorts)).all():
            raise ValueError(
                f"Column '{self.name}_cohort' must have integers from 0 to "
                f"{self.n_cohorts - 1}. Pass the output of `transform`."
            )
        return block.astype(np.min_scalar_type(self.n_cohorts - 1), copy=False)

    def sums(self, reports: NDArray[Any]) -> Integers:
        # Return the number of reports and the ones of each bit by cohort; (n_cohorts, 1 + n_bits).
        cohorts = reports[:, 0]
        sums = np.zeros(self.shape, np.int64)
        sums[:, 0] = np.bincount(cohorts, minlength=self.n_cohorts)
        # The indices of the reports of each cohort.
        members = np.split(np.argsort(cohorts, kind="stable"), np.cumsum(sums[:-1, 0]))
        for ones, rows in zip(sums[:, 1:], members, strict=True):
            reports[rows, 1:].sum(axis=0, out=ones)
        return sums

    def parameters(self) -> dict[str, Any]:
        return self._parameters(self.oracle)

    def _parameters(self, oracle: UnaryEncoding) -> dict[str, Any]:
        hashes = {"n_hashes": self.n_hashes, "n_cohorts": self.n_cohorts}
        return oracle.parameters() | hashes

    def estimate(  # type: ignore[override]
        self, sums: Integers, size: int, n_reports: int, *, candidates: Sequence[Any]
    ) -> pd.DataFrame:
        """Estimate the counts of candidate words and their standard errors.

        `sums` has the shape (n_cohorts, 1 + n_bits): the number of reports of each
        cohort, and the numbers of ones of each bit. `candidates` maps the column to
        words; words that are not candidates are not estimated.
        """
        words = encode_column(f"`candidates` of {self.name!r}", candidates[self.name])
        if not words or len({*words}) < len(words):
            raise ValueError(
                f"`candidates` of {self.name!r} must have at least one word and no "
                "repeated words."
            )
        cohorts = np.flatnonzero(sums[:, 0])
        filters = []
        for cohort in cohorts:
            filters.append(self.make_filters(np.full(len(words), cohort), words))
        counts, errors = np.full((2, len(words)), np.nan)
        if filters:
            # (n_cohorts, n_bits, n_candidates)
            design = np.stack(filters).swapaxes(1, 2).astype(float)
            counts, errors = decode_counts(design, sums[cohorts], self.oracle)
        index = pd.Index(list(candidates[self.name]), dtype=object, name="candidate")
        return pd.DataFrame({"count": counts, "std_error": errors}, index=index)

    def channels(self, max_entries: int) -> list[Iterator[Channel]] | None:
        # Exact probabilities of all reports under two words; None if there are too many
        # reports.
        # A row of the channel has 2**n_bits fractions: less than a second for 12 bits.
        if self.n_bits > 12 or 2 << self.n_bits > max_entries:
            return None
        # The worst case: two filters without a common bit, if there are enough bits.
        first = [1] * self.n_hashes + [0] * (self.n_bits - self.n_hashes)
        filters = [first, first[::-1]]
        return [iter([self.oracle.permanent.channel_of_bits(filters)])]


def decode_counts(
    filters: Floats, sums: Integers, oracle: UnaryEncoding
) -> tuple[Floats, Floats]:
    """Select candidates by a lasso, and count them by nonnegative least squares.

    `filters` are the bits of the candidates, of shape (n_cohorts, n_bits,
    n_candidates), and `sums` has the shape (n_cohorts, 1 + n_bits): the number of
    reports of each cohort, and the numbers of ones. Return the counts and their
    standard errors, which are NaN for candidates that are not selected.
    """
    # Imported here, because it would be a seventh of the import time of all encoders.
    from sklearn.linear_model import Lasso, LinearRegression

    n_cohorts, n_bits, n_candidates = filters.shape
    design = filters.reshape(-1, n_candidates)
    sizes = sums[:, :1]
    n = int(sizes.sum())
    gain = float(oracle.p - oracle.q)
    # The target of the regression: the unbiased proportion of the filters of a cohort that
    # set a bit. The variance of its noise is q p / (p - q)^2 / size for set and unset bits,
    # because p = 1 - q.
    target = ((sums[:, 1:] / sizes - float(oracle.q)) / gain).ravel()
    noise = float(oracle.q * oracle.p) / gain**2 / np.repeat(sizes, n_bits)

    # The intercept represents all other words, which set all bits equally often. The
    # penalty is sqrt(2 ln n_candidates) standard deviations of the noise in the correlation
    # of a candidate with the target, the universal threshold (Donoho, Johnstone 1994).
    norms = np.linalg.norm(design - design.mean(axis=0), axis=0)
    threshold = math.sqrt(2 * math.log(max(2, n_candidates)) * noise.max())
    alpha = max(threshold * norms.max() / len(design), np.finfo(float).tiny)
    lasso = Lasso(alpha=alpha, positive=True, max_iter=100_000)
    selected = np.flatnonzero(lasso.fit(design, target).coef_ > 0)
    counts, errors = np.zeros(n_candidates), np.full(n_candidates, np.nan)
    if selected.size == 0:
        return counts, errors
    regression = LinearRegression(positive=True).fit(design[:, selected], target)
    counts[selected] = n * regression.coef_

    # Least squares is the linear map `solve` of the target, (n_selected, n_cohorts *
    # n_bits), which gives the variance of the noise in the counts. It is not unique if
    # candidates have equal bits; their errors stay NaN.
    centered = design[:, selected] - design[:, selected].mean(axis=0)
    if np.linalg.matrix_rank(centered) == selected.size:
        solve = np.linalg.pinv(centered)
        # A record is in a random cohort. effects[i, j, c] is the change of the proportion
        # of candidate i by a record with candidate j in cohort c, times the cohort's size.
        by_cohort = solve.reshape(-1, n_cohorts, n_bits)
        effects = np.einsum("icb,cbj->ijc", by_cohort, filters[:, :, selected])
        cohort_variances = (effects / sizes[:, 0]).var(axis=2) @ counts[selected]
        errors[selected] = n * np.sqrt(solve**2 @ noise + cohort_variances)
    return counts, errors


class RapporEncoder(ReportTransformer):
    """Privatize words of an open vocabulary with RAPPOR.

    A word sets `n_hashes` bits of a Bloom filter, and randomized response flips each bit.
    The server estimates the counts of candidate words [1]_. The output has the columns
    ``<column>_cohort`` and ``<column>_bit_<number>``.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together, > 0. With a `secret_key`, it
        covers all reports of the record while its words stay the same.

    instantaneous_epsilon : float, default=None
        Privacy loss of a single report, smaller than `epsilon`; requires a
        `secret_key`. Each report flips the permanent bits again with fresh noise.

    n_bits : int, default=128
        Size of the Bloom filter, from 2 to 65,536.

    n_hashes : int, default=2
        Number of hash functions, from 1 to `n_bits`. Two words differ in up to ``2 *
        n_hashes`` bits, among which epsilon is divided.

    n_cohorts : int, default=8
        Number of random groups of records, from 1 to 65,536. Each cohort has other hash
        functions, so words with equal bits in one cohort differ in other cohorts.

    secret_key : bytes, default=None
        At least 16 bytes, such as ``SecretKey.generate()``. The bits of a record are then
        permanent, and `transform` requires ``person``.

    ledger : PrivacyLedger, default=None
        Ledger that is charged with `guarantee_` at each call of `transform`.

    random_state : int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the
        reports are then not private. Permanent bits depend on the key instead.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        Privacy guarantee of one call of `transform` for one record. With a
        `secret_key`, of all calls while the words of the record stay the same.

    instantaneous_guarantee_ : PrivacyGuarantee
        Privacy guarantee of a single report. Exists with `instantaneous_epsilon` only.

    See Also
    --------
    HeavyHitters : Find the frequent words without a list of candidates.

    Notes
    -----
    **Privacy.** Local model: for each record, under replacement of its words in the
    fitted columns, against everybody without the key. Without a key, each call of
    `transform` is a new release. With a key, `guarantee_` applies to each distinct word
    of a record, and does not protect the time at which the word changes. `fit` keeps
    column names only. :doc:`/guide/encoders` states the limits.

    References
    ----------
    .. [1] Ú. Erlingsson, V. Pihur, A. Korolova (2014). RAPPOR: randomized aggregatable
       privacy-preserving ordinal response. CCS.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RapporEncoder
    >>> visits = pd.DataFrame({"home": ["a.example"] * 3_000 + ["b.example"] * 1_000})
    >>> encoder = RapporEncoder(4.0, n_bits=32, random_state=0)
    >>> reports = encoder.fit_transform(visits)
    >>> encoder.decode(reports, ["a.example", "b.example"]).round()
                count  std_error
    candidate
    a.example  3044.0       44.0
    b.example   916.0       44.0
    """

    _takes_categories = True

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        instantaneous_epsilon: float | None = None,
        n_bits: int = 128,
        n_hashes: int = 2,
        n_cohorts: int = 8,
        secret_key: bytes | None = None,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.instantaneous_epsilon = instantaneous_epsilon
        self.n_bits = n_bits
        self.n_hashes = n_hashes
        self.n_cohorts = n_cohorts
        self.secret_key = secret_key
        self.ledger = ledger
        self.random_state = random_state

    def _make_protocol(self, table: Table) -> ReportProtocol:
        """Build the protocol: each word sets `n_hashes` bits of a Bloom filter, whose bits are randomized.

        The first round is the noise of permanent bits, and the second round the fresh
        noise of a single report, with `instantaneous_epsilon`. The filters of two words
        differ in at most `n_hashes` pairs of bits, so each pair has an equal fraction
        of the epsilon of its column.
        """
        key = check_key(self.secret_key)
        n_bits = check_size(self.n_bits, max_val=1 << 16, name="n_bits")
        n_hashes = check_size(self.n_hashes, min_val=1, max_val=n_bits, name="n_hashes")
        n_cohorts = check_size(
            self.n_cohorts, min_val=1, max_val=1 << 16, name="n_cohorts"
        )
        epsilon = check_epsilon(self.epsilon)
        n_pairs = n_hashes * len(table.names)
        oracle = UnaryEncoding(n_bits, epsilon / n_pairs, variant="symmetric")
        if self.instantaneous_epsilon is not None:
            report_epsilon = check_epsilon(
                self.instantaneous_epsilon, name="instantaneous_epsilon"
            )
            if key is None or report_epsilon >= epsilon:
                raise ValueError(
                    "`instantaneous_epsilon` requires a secret_key, and must be "
                    f"smaller than `epsilon={self.epsilon}`, got "
                    f"{self.instantaneous_epsilon}."
                )
            oracle = TwoRoundUnaryEncoding(oracle, report_epsilon / n_pairs)
        fields = []
        for name, column in zip(table.names, table.columns, strict=True):
            # Raises an error for missing values, and for values that are not text,
            # numbers or booleans.
            encode_column(f"Column {name!r}", column)
            fields.append(BloomField(name, n_hashes, n_cohorts, oracle))
        memo = None if key is None else Memo(key, type(self).__name__, fields)
        guarantee = make_guarantee(
            [oracle.permanent] * n_pairs,
            scope=table.names,
            mechanism="RAPPOR" if key is None else "RAPPOR, permanent bits",
            secure=self.random_state is None or key is not None,
        )
        return ReportProtocol(type(self).__name__, tuple(fields), guarantee, memo=memo)

    def _set_fitted(self, protocol: ReportProtocol) -> None:
        """Set `instantaneous_guarantee_`, the guarantee against an attacker who gets a single report of a record."""
        self.__dict__.pop("instantaneous_guarantee_", None)
        if self.instantaneous_epsilon is not None:
            fields: Any = protocol.fields
            oracles = [field.oracle for field in fields] * self.n_hashes
            self.instantaneous_guarantee_: PrivacyGuarantee = make_guarantee(
                oracles,
                scope=protocol.columns,
                mechanism="RAPPOR, one report",
                secure=self.random_state is None,
            )

    def _declared_row(self, names: Sequence[Any]) -> pd.DataFrame:
        return pd.DataFrame({name: [""] for name in names})

    def decode(
        self,
        reports: TableLike | ReportTally,
        candidates: Sequence[Hashable] | Mapping[Any, Sequence[Hashable]],
    ) -> pd.DataFrame:
        """Estimate the number of records with each candidate word.

        A lasso selects the candidates that occur, and nonnegative least squares counts
        them. An intercept represents all words that are not candidates.

        Parameters
        ----------
        reports : output of `transform`, or ReportTally
            Privatized rows, one for each record, or their sums.

        candidates : list, or dict of column name to list
            Words to count. Several columns require a dict.

        Returns
        -------
        pandas.DataFrame
            Columns 'count' and 'std_error', indexed by candidate for one column, by
            (column, candidate) for several. The standard error is of least squares on
            the selected candidates; it is nan for all other candidates, whose count is
            0.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another encoder, or a list of
            candidates is empty, has a repeated word, or has a value of an unsupported type.

        Notes
        -----
        Each record counts once, because a candidate is selected by the bits of all reports.
        For survey weights, declare the values, see `UnaryEncodingTransformer`.

        **Privacy.** Post-processing of reports uses no budget.

        The standard error does not include words outside the list that have common bits
        with candidates. List all frequent words. Permanent reports of one record are not
        independent. Decode one report of each record.
        """
        check_is_fitted(self)
        tally = reports if isinstance(reports, ReportTally) else self.tally(reports)
        columns = self.protocol_.columns
        lists = candidates
        if not isinstance(candidates, Mapping) and len(columns) == 1:
            lists = {columns[0]: candidates}
        if not isinstance(lists, Mapping) or set(lists) != set(columns):
            raise ValueError(
                "`candidates` must be a dict with a list of values for each column "
                f"{list(columns)}, got {type(candidates).__name__}."
            )
        return self.protocol_.estimate(tally, candidates=lists)
