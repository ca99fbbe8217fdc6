"""The frequent words of an open vocabulary, by growing their prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from operator import itemgetter
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.base import BaseEstimator

from skdp.base import (
    CallCounter,
    ColumnLike,
    OnSite,
    TableLike,
    all_or_nothing,
    check_confidence_level,
    check_ledger,
    check_random_state,
    coins,
    one_column,
    refuse_protected_levels,
    warn_of_epsilon,
    warn_of_levels,
)
from skdp.local.protocol import read_report_table
from skdp.oracles import (
    LinearHash,
    RandomizedResponse,
    check_bytes,
    check_size,
    pure_error,
    support_variance,
)
from skdp.privacy import (
    PrivacyGuarantee,
    PrivacyLedger,
    check_epsilon,
    spend,
)
from skdp.randomness import ByteSource, uniform_integers
from skdp.tables import is_missing, objects_of

_MAX_SYMBOLS = 128
_MAX_CHARACTERS = 254
# Of the symbols by which prefixes grow, at most: the server counts the support of all
# their combinations.
_STEP_BITS = 16
# The public hash of longer prefixes is a polynomial modulo a prime, at 2**31 divided by
# the golden ratio.
_PRIME = (1 << 31) - 1
_BASE = 1_327_217_885
# The server takes 2**r steps a report. With more buckets, a large epsilon has less
# noise, which is little by then.
_MAX_BUCKET_BITS = 7


class HeavyHitters(OnSite, BaseEstimator):
    """Find the most frequent words of an open vocabulary from private reports.

    >>> import numpy as np
    >>> from skdp import HeavyHitters
    >>> words = np.repeat(["red", "green", "blue"], [5_000, 3_000, 2_000])
    >>> finder = HeavyHitters(4.0, n_top=3, max_length=6)
    >>> top = finder.fit(finder.report(words)).top_

    No list of candidates is needed: public groups of records report prefixes of
    different lengths by local hashing, and the server grows the frequent ones from
    group to group (prefix extending method, [1]_). `report` is the client's side; `fit`
    is the server's, which never sees a word. The guide page "The local model" has the
    errors.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record, > 0.
    n_top : int, default=10
        How many words to find.
    max_length : int, default=16
        The number of symbols of the longest words, from 1 to 128; longer ones are cut,
        and counted with all of the same beginning. Longer words have larger errors.
    alphabet : str, optional
        The characters that occur in words, such as ``string.ascii_lowercase``; all
        others are taken for U+FFFD. None: the bytes of UTF-8. Fewer symbols have
        smaller errors.
    n_candidates : int, optional
        The number of prefixes that each step extends, at least `n_top`. None: at least
        16. A larger number finds a few more words, and the time of `fit` is
        proportional to it.
    confidence_level : float, default=0.95
        The probability that all intervals hold at once, between 0 and 1.
    ledger : PrivacyLedger, optional
        Charged with `guarantee_` at each call of `report`, before any draw.
    random_state : int, optional
        None is secure. An int is reproducible, and not private: for tests only.

    Attributes
    ----------
    top_ : pandas.DataFrame
        After `fit`: ``value, count, std_error, lower, upper``, at most `n_top` words,
        the largest estimated count first. The intervals hold for all words that were
        considered, at once (Bonferroni, normal approximation); a word whose ``lower``
        is not above 0 is left out. The estimate of a given word is unbiased, but those
        of the top words are a little too large on average.
    n_reports_ : int
        After `fit`: the number of reports.

    See Also
    --------
    RapporEncoder : Counts words that the server can list.

    Notes
    -----
    **Privacy.** Local model: for each record, under replacement of its word. A record
    reports one prefix, with the whole of epsilon; group and hash function are drawn
    without looking at the word, so they may be public. Each `report` is a new release:
    m reports of a record cost m times epsilon. `fit` works on reports only, and is
    free. The row index passes through: reset it before publishing if it identifies a
    person.

    References
    ----------
    .. [1] T. Wang, N. Li, S. Jha (2021). Locally differentially private heavy hitter
       identification. IEEE TDSC 18(2), arXiv:1708.06674.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        n_top: int = 10,
        max_length: int = 16,
        alphabet: str | None = None,
        n_candidates: int | None = None,
        confidence_level: float = 0.95,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.n_top = n_top
        self.max_length = max_length
        self.alphabet = alphabet
        self.n_candidates = n_candidates
        self.confidence_level = confidence_level
        self.ledger = ledger
        self.random_state = random_state

    @property
    def guarantee_(self) -> PrivacyGuarantee:
        """What one report promises; known before `fit`, since clients never fit."""
        epsilon = self._protocol().oracle.epsilon
        return PrivacyGuarantee(
            epsilon,
            mechanism="local hashing of a prefix",
            secure=self.random_state is None,
        )

    def _protocol(self) -> PrefixProtocol:
        """Check all that client and server share."""
        check_ledger(self.ledger)
        check_random_state(self.random_state)
        coder = WordCoder(self.max_length, self.alphabet)
        return PrefixProtocol(check_epsilon(self.epsilon), coder)

    def _n_candidates(self, protocol: PrefixProtocol) -> int:
        """Check what the server alone uses; return how many prefixes a step keeps."""
        check_confidence_level(self.confidence_level)
        n_top = check_size(self.n_top, least=1, name="n_top")
        if self.n_candidates is not None:
            return check_size(self.n_candidates, least=n_top, name="n_candidates")
        # The time of `fit` is proportional to candidates times buckets; with few
        # buckets, errors are large.
        times_n_top = min(10, max(2, 64 // protocol.oracle.k))
        return max(16, n_top * times_n_top)

    def report(self, words: ColumnLike | TableLike) -> Any:
        """Privatise words: the client's side, which needs no `fit`.

        Parameters
        ----------
        words : series, dataframe of one column, or array-like of shape (n_samples,)
            True words, one a record.

        Returns
        -------
        dataframe of the library of the words, or ndarray
            The reports, of shape (n_samples, n_columns): ``group``, ``bucket`` and the
            hash function ``hash_0, …``.

        Raises
        ------
        TypeError, ValueError
            If the words are no strings, are missing, or are none at all, or a parameter
            is out of range.
        BudgetExceeded
            If the ledger does not cover the release.
        """
        protocol = self._protocol()
        self._n_candidates(protocol)
        table = one_column(words, "words")
        refuse_protected_levels(words, table.names, what="words")
        warn_of_levels(words)
        values = objects_of(table.columns[0])
        _check_words(values)
        check_bytes(len(values), len(protocol.columns), np.dtype(np.int64).itemsize)
        symbols = protocol.coder.symbols(values)
        guarantee = self.guarantee_
        warn_of_epsilon(guarantee.epsilon)
        name = type(self).__name__
        spend(self.ledger, guarantee, name)
        if not hasattr(self, "_calls"):
            self._calls = CallCounter()
        source = coins(self.random_state, name, self._calls.advance(), "report")
        reports = protocol.report(symbols, source)
        return table.rebuild(list(reports.T), protocol.columns)

    @all_or_nothing
    def fit(self, reports: TableLike, y: ColumnLike | None = None) -> Self:
        """Find the frequent words: the server's side.

        Parameters
        ----------
        reports : what `report` returns
            Privatised words; the reports of several calls may be put one below the
            other.
        y : None
            Ignored.

        Returns
        -------
        self
            With `top_`.

        Raises
        ------
        TypeError, ValueError
            If the reports come from a client with other parameters, a group has none,
            or a parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        protocol = self._protocol()
        n_candidates = self._n_candidates(protocol)
        rows = _read_reports(reports, protocol)
        n_groups = len(protocol.coder.steps)
        groups = [rows[rows[:, 0] == group] for group in range(n_groups)]
        if not all(map(len, groups)):
            raise ValueError(
                f"each of the {n_groups} groups needs a report; got {len(rows)} "
                "reports in all"
            )
        candidates = _grow(protocol, groups, n_candidates)
        words = _estimates(protocol, candidates, len(rows), self.confidence_level)
        is_frequent = words["lower"] > 0
        self.top_ = words[is_frequent].head(self.n_top).reset_index(drop=True)
        self.n_reports_ = len(rows)
        return self


def _check_words(values: Sequence[Any]) -> None:
    """Refuse what are no words, without showing it."""
    if not values:
        raise ValueError("Found 0 words; at least 1 is required")
    if all(issubclass(type(value), str) for value in values):
        return
    if any(is_missing(value) for value in values):
        raise ValueError(
            "words hold missing values (NaN); drop them, or replace them by a word of "
            "their own"
        )
    raise TypeError("words must be strings")


def _read_reports(reports: Any, protocol: PrefixProtocol) -> NDArray[np.int64]:
    try:
        table = read_report_table(reports, protocol.columns)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{error}; fit takes reports of the same parameters, which report(words) "
            "makes of words"
        ) from None
    rows = np.column_stack([np.asarray(column) for column in table.columns])
    is_valid = False
    if rows.dtype.kind in "iuf":
        is_whole = rows % 1 == 0
        is_in_range = (rows >= 0) & (rows < np.array(protocol.limits))
        is_valid = bool((is_whole & is_in_range).all())
    if not is_valid:
        raise ValueError(
            "the reports are not ones of these parameters; are they those of the "
            "client?"
        )
    return rows.astype(np.int64)


class WordCoder:
    """Writes words in symbols, up to a length; the symbol 0 ends a shorter word."""

    def __init__(self, max_length: int, alphabet: str | None) -> None:
        self.max_length = check_size(
            max_length, least=1, most=_MAX_SYMBOLS, name="max_length"
        )
        self._alphabet = alphabet
        self._symbols: dict[str, int] = {}
        self.n_symbols = 255  # the bytes of UTF-8
        if alphabet is not None:
            _check_alphabet(alphabet)
            self._symbols = {char: place + 1 for place, char in enumerate(alphabet)}
            # The largest symbol stands for all other characters.
            self.n_symbols = len(alphabet) + 1
        self.symbol_bits = self.n_symbols.bit_length()
        step = min(_STEP_BITS // self.symbol_bits, self.max_length)
        self.step_bits = step * self.symbol_bits
        # The number of symbols before and after the step of each group.
        ends = [*range(0, self.max_length, step), self.max_length]
        self.steps = list(pairwise(ends))

    def symbols(self, words: Sequence[str]) -> NDArray[np.uint8]:
        """Write words, in an array of shape (n, max_length)."""
        padded = [self._write(word).ljust(self.max_length, b"\0") for word in words]
        symbols = np.frombuffer(b"".join(padded), np.uint8)
        return symbols.reshape(-1, self.max_length)

    def _write(self, word: str) -> bytes:
        if self._alphabet is None:
            # What is too long is cut between two characters.
            cut = word.encode("utf-8", "replace")[: self.max_length]
            return cut.decode("utf-8", "ignore").encode()
        characters = word[: self.max_length]
        return bytes([self._symbols.get(char, self.n_symbols) for char in characters])

    def numbers(
        self, symbols: NDArray[np.uint8], before: int, length: int
    ) -> NDArray[np.int64]:
        """Return the prefixes of a length as numbers, whose last bits are the step."""
        # The first bits are a public hash of the symbols before the step. Two of them
        # are equal with a probability of at most 128 / 2**31, over the points of the
        # polynomial.
        numbers = np.zeros(len(symbols), np.int64)
        for place in range(before):
            numbers = (numbers * _BASE + symbols[:, place] + 1) % _PRIME
        numbers <<= self.step_bits
        for place in range(before, length):
            shift = (length - 1 - place) * self.symbol_bits
            numbers += symbols[:, place].astype(np.int64) << shift
        return numbers

    def tails(self, n: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """List the combinations of n symbols that words have, and their numbers."""
        numbers = np.arange(1 << n * self.symbol_bits)
        shifts = np.arange(n - 1, -1, -1) * self.symbol_bits
        tails = (numbers[:, np.newaxis] >> shifts) & ((1 << self.symbol_bits) - 1)
        # Behind the end of a word there is none.
        is_ended = (tails[:, :-1] > 0) | (tails[:, 1:] == 0)
        is_symbol = tails <= self.n_symbols
        possible = is_symbol.all(axis=1) & is_ended.all(axis=1)
        return numbers[possible], tails[possible].astype(np.uint8)

    def word(self, symbols: NDArray[np.uint8]) -> str:
        """Read a word."""
        content = symbols[symbols > 0].tobytes()
        if self._alphabet is None:
            return content.decode("utf-8", "replace")
        characters = self._alphabet + "\N{REPLACEMENT CHARACTER}"
        return "".join(characters[symbol - 1] for symbol in content)


def _check_alphabet(alphabet: Any) -> None:
    if not isinstance(alphabet, str):
        raise TypeError(
            f"alphabet must be None or a str, got {type(alphabet).__name__}"
        )
    n_characters = len({*alphabet})
    if n_characters < len(alphabet) or not 1 <= n_characters <= _MAX_CHARACTERS:
        raise ValueError(
            f"alphabet must have from 1 to {_MAX_CHARACTERS} different characters"
        )


class PrefixProtocol:
    """The client's side of the prefix extending method, and unbiased estimates."""

    # **Privacy.** Local model, replacement of the word. Group and hash function are
    # drawn independently of it, so they may be public; given these, the bucket is a
    # report of randomised response with the whole of epsilon.

    def __init__(self, epsilon: float | Fraction, coder: WordCoder) -> None:
        self.coder = coder
        sizes = 2 ** np.arange(1, _MAX_BUCKET_BITS + 1)
        oracles = [RandomizedResponse(k, epsilon) for k in sizes.tolist()]
        self.oracle = min(oracles, key=_error_of_absent)
        # The probabilities that a report matches its prefix, and another one, whose
        # bucket is any.
        self.p = self.oracle.p
        self.q = Fraction(1, self.oracle.k)
        n_bits = _PRIME.bit_length() + coder.step_bits
        r = (self.oracle.k - 1).bit_length()
        self.hash_family = LinearHash(n_bits, r)
        # Of a report: its columns, and the first number that each cannot have.
        self.columns = ["group", "bucket"]
        self.columns += [f"hash_{place}" for place in range(r)]
        self.limits = [len(coder.steps), self.oracle.k, *[1 << n_bits] * r]

    def report(
        self, symbols: NDArray[np.uint8], source: ByteSource
    ) -> NDArray[np.int64]:
        """Randomise words, into the columns group, bucket and hash function."""
        n = len(symbols)
        n_groups = len(self.coder.steps)
        # All groups but the first are twice as large: later prefixes are compared with
        # more others. A draw of 0 is of the first group, 1 and 2 of the second, ...
        draws = uniform_integers(source, 2 * n_groups - 1, n).astype(np.int64)
        groups = (draws + 1) // 2
        seeds = self.hash_family.draw(source, n)
        numbers = np.empty(n, np.int64)
        for group, (before, length) in enumerate(self.coder.steps):
            rows = np.flatnonzero(groups == group)
            numbers[rows] = self.coder.numbers(symbols[rows], before, length)
        buckets = self.hash_family(seeds, numbers).astype(np.uint64)
        reports = self.oracle.report(buckets, source).astype(np.int64)
        return np.column_stack([groups, reports, seeds])

    def support(
        self,
        reports: NDArray[np.int64],
        symbols: NDArray[np.uint8],
        step: tuple[int, int],
    ) -> int:
        """Count the reports of a group that match a word."""
        number = self.coder.numbers(symbols[np.newaxis], *step)
        return int((self.hash_family(reports[:, 2:], number) == reports[:, 1]).sum())

    def estimate(
        self, support: NDArray[np.float64], n: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Compute unbiased estimates of the number of reports of each prefix."""
        gain = float(self.p - self.q)
        if gain == 0:
            return np.full(n.shape, np.nan)
        return (support - n * float(self.q)) / gain


def _error_of_absent(oracle: RandomizedResponse) -> float:
    """Return the error of prefixes that do not occur, as nearly all of them."""
    return pure_error(1 << 20, oracle.p, Fraction(1, oracle.k))


@dataclass
class _Candidate:
    """A prefix, or a whole word, for which reports of one or several groups speak."""

    symbols: NDArray[np.uint8]  # (max_length,): those of a prefix, and then zeros
    is_word: bool = False
    support: int = 0
    n_reports: int = 0
    # How many words were first considered in the same step as this one.
    n_rivals: int = 0

    @property
    def share(self) -> float:
        """Of the reports, those that support it: the more, the larger its estimate."""
        return self.support / self.n_reports


def _grow(
    protocol: PrefixProtocol, groups: list[NDArray[np.int64]], n_candidates: int
) -> list[_Candidate]:
    """Extend the frequent prefixes, group by group, and return whole words."""
    candidates = [_Candidate(np.zeros(protocol.coder.max_length, np.uint8))]
    for reports, step in zip(groups, protocol.coder.steps, strict=True):
        words = []
        prefixes = []
        for candidate in candidates:
            if not candidate.is_word:
                prefixes.append(candidate)
                continue
            candidate.support += protocol.support(reports, candidate.symbols, step)
            candidate.n_reports += len(reports)
            words.append(candidate)
        candidates = words
        if prefixes:
            candidates += _extensions(
                protocol, reports, prefixes, step=step, n_candidates=n_candidates
            )
        candidates.sort(key=lambda candidate: -candidate.share)
        candidates = candidates[:n_candidates]
    return candidates


def _extensions(
    protocol: PrefixProtocol,
    reports: NDArray[np.int64],
    prefixes: list[_Candidate],
    *,
    step: tuple[int, int],
    n_candidates: int,
) -> list[_Candidate]:
    """Return the extensions of prefixes with the most support in a group."""
    coder = protocol.coder
    before, length = step
    numbers, tails = coder.tails(length - before)
    is_word = (tails[:, -1] == 0) | (length == coder.max_length)
    n_rivals = int(is_word.sum()) * len(prefixes)
    n_extensions = min(n_candidates, len(tails))
    buckets = reports[:, 1]
    seeds = np.asfortranarray(reports[:, 2:])
    best = []  # the support, the prefix, and the place of the tail
    for prefix in prefixes:
        (head,) = coder.numbers(prefix.symbols[np.newaxis], before, length)
        support = protocol.hash_family.count_matches(
            seeds, buckets, head, coder.step_bits
        )[numbers]
        places = np.argpartition(-support, n_extensions - 1)[:n_extensions].tolist()
        best += [(int(support[place]), prefix, place) for place in places]
    best.sort(key=itemgetter(0), reverse=True)
    extensions = []
    for n_supporting, prefix, place in best[:n_candidates]:
        symbols = prefix.symbols.copy()
        symbols[before:length] = tails[place]
        extension = _Candidate(
            symbols,
            is_word=bool(is_word[place]),
            support=n_supporting,
            n_reports=len(reports),
            n_rivals=n_rivals,
        )
        extensions.append(extension)
    return extensions


def _estimates(
    protocol: PrefixProtocol, candidates: list[_Candidate], n: int, level: float
) -> pd.DataFrame:
    """Estimate the counts of words, with intervals for all that were considered."""
    coder = protocol.coder
    candidate_table = pd.DataFrame(candidates)
    words = candidate_table["symbols"].map(coder.word)
    support = candidate_table["support"].to_numpy(float)
    n_reports = candidate_table["n_reports"].to_numpy(float)
    counts = protocol.estimate(support, n_reports)  # among the reports of its groups
    shares = np.clip(np.nan_to_num(counts / n_reports), 0, 1)
    variances = support_variance(protocol.p, protocol.q, shares * n_reports, n_reports)
    # The groups that tell of a word are a sample of the records, without replacement.
    sample_share = (n - n_reports) / max(n - 1, 1)
    variances += n_reports * shares * (1 - shares) * sample_share
    # The level is shared among the steps, and in each among the words that are first
    # considered in it: these are known before its group is read.
    n_intervals = len(coder.steps) * candidate_table["n_rivals"].to_numpy()
    reach = -ndtri((1 - level) / (2 * n_intervals))
    table = pd.DataFrame({"value": words.to_numpy(object)})
    table["count"] = counts * n / n_reports
    table["std_error"] = np.sqrt(variances) * n / n_reports
    middles = table["count"].fillna(0.0)
    table["lower"] = middles - reach * table["std_error"]
    table["upper"] = middles + reach * table["std_error"]
    return table.sort_values("count", ascending=False, kind="stable")
