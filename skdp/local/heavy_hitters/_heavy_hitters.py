"""The frequent words of an open vocabulary, by growing their prefixes."""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from skdp.base import (
    CallCounter,
    OnSite,
    all_or_nothing,
    check_confidence_level,
    check_ledger,
    check_random_state,
    coins,
    read_array,
    refuse_protected_levels,
    warn_of_levels,
    warn_of_loss,
)
from skdp.frames import Table, is_frame, read_table
from skdp.local.heavy_hitters._growing import Candidate, grow
from skdp.local.heavy_hitters._words import WordCoder, check_words
from skdp.local.protocol import read_report_table
from skdp.oracles import PrefixHashing, check_size
from skdp.privacy import PrivacyGuarantee, PrivacyLedger, Shuffled, check_epsilon, search_advice, spend
from skdp.privacy.shuffle import any_pair
from skdp.typing import ColumnLike, TableLike


class HeavyHitters(OnSite, BaseEstimator):
    """Find the most frequent words of an open vocabulary from private reports.

    No list of candidates is needed: public groups of records report prefixes of different lengths by local hashing, and
    the server grows the frequent prefixes from group to group (prefix extending method, [1]_). `report` is the client's
    side; `fit` is the server's, which never sees a word.

    Parameters
    ----------
    epsilon : float or Shuffled, default=1.0
        Privacy loss of one record; finite and > 0. Smaller is more private. Or what the reports of many persons shall
        guarantee together, if they are shuffled first: `Shuffled`. Of such reports, `guarantee_` states the epsilon of
        one, the largest that reaches it; give this number to clients with another version of skdp.
    n_top : int, default=10
        How many words to find.
    max_length : int, default=16
        The number of symbols of the longest words, from 1 to 128; longer ones are cut, and counted with the others of
        the same beginning. Long words need more groups, and more groups mean larger errors.
    alphabet : str, optional
        The characters that occur in words, such as ``string.ascii_lowercase``; every other character is taken for one
        and the same, U+FFFD. None: the symbols are the bytes of UTF-8. A small alphabet needs fewer bits, hence fewer
        groups.
    first_bits : int, default=16
        The length of the first group's prefix, in bits, from 1 to 16.
    step_bits : int, default=16
        By how many bits prefixes grow from one group to the next, from 1 to 16. A longer step means fewer groups and
        smaller errors.
    n_candidates : int, optional
        How many prefixes are kept in each step, at least `n_top`; by default 2 to 10 times as many, the fewer the
        larger epsilon, and at least 16. More of them find a little more. The time of `fit` is proportional to it.
    confidence_level : float, default=0.95
        The probability that all intervals hold at once, between 0 and 1.
    ledger : PrivacyLedger, optional
        Charged with `guarantee_` at each call of `report`, before any randomness is drawn.
    random_state : int, optional
        None uses secure randomness. An int gives a reproducible stream, for tests and experiments only: with it,
        the noise can be undone.

    Attributes
    ----------
    top_ : pandas.DataFrame
        After `fit`: ``value, count, std_error, lower, upper``, at most `n_top` words, the largest estimated count
        first. The intervals hold for all words that were considered, at once (Bonferroni, normal approximation), and a
        word whose ``lower`` is not above 0 is left out. The estimate of a given word is unbiased, but those of the top
        words are a little too large on average.
    n_reports_ : int
        After `fit`: the number of reports.

    Raises
    ------
    TypeError, ValueError
        By `report` and `fit`, for a parameter out of range.

    See Also
    --------
    RapporEncoder : Counts words that the server can list.

    Notes
    -----
    **Privacy.** Local model: holds against every recipient of the reports, for each record, under replacement of its
    word; epsilon as stated by `guarantee_`, at most the parameter, ``delta = 0``. A record reports one prefix of its
    word, with the whole of epsilon; group and hash function are drawn without looking at the word, so they may be
    public. Every call of `report` is a new release: m reports of a record cost m times epsilon. `fit` works on reports
    only: it is free. The row index passes through: reset it before publishing if it identifies a person.

    A report holds its hash function, about one bit for each bit of a word: a random Toeplitz matrix over GF(2) and a
    shift, which hash independently any two given prefixes of any length. The function is linear, so that a
    Walsh-Hadamard transform, or for a large epsilon Gaussian elimination, counts what supports each of the 65,536
    extensions of a prefix by 16 bits. The first group is half as large as each of the others. Where the end of a word
    is in the prefix of a group, its report is one of the word itself: the groups from that one on are counted together,
    so short words have smaller errors than long ones. A count c out of n, estimated from the n' reports of the groups
    that identify the word, has the variance
    ``(n / n')² ((c' p (1 - p) + (n' - c') q (1 - q)) / (p - q)² + c' (1 - c / n) (n - n') / (n - 1))``
    with c' = c n' / n: of the randomness, and of the groups that the records happen to be in.

    References
    ----------
    .. [1] T. Wang, N. Li, S. Jha (2021). Locally differentially private heavy hitter identification. IEEE TDSC 18(2),
       arXiv:1708.06674.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.local import HeavyHitters
    >>> words = pd.Series(["red", "green", "blue"]).repeat([20_000, 12_000, 8_000])
    >>> finder = HeavyHitters(2.0, n_top=3, max_length=6, random_state=0)
    >>> reports = finder.report(words)
    >>> reports.columns.tolist()
    ['group', 'bucket', 'hash_0', 'hash_1']
    >>> finder.fit(reports).top_.round(-2)
       value    count  std_error    lower    upper
    0    red  20500.0      300.0  19400.0  21700.0
    1  green  11800.0      300.0  10300.0  13400.0
    2   blue   8100.0      300.0   7000.0   9300.0
    """

    def __init__(
        self,
        epsilon: float | Shuffled = 1.0,
        *,
        n_top: int = 10,
        max_length: int = 16,
        alphabet: str | None = None,
        first_bits: int = 16,
        step_bits: int = 16,
        n_candidates: int | None = None,
        confidence_level: float = 0.95,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.n_top = n_top
        self.max_length = max_length
        self.alphabet = alphabet
        self.first_bits = first_bits
        self.step_bits = step_bits
        self.n_candidates = n_candidates
        self.confidence_level = confidence_level
        self.ledger = ledger
        self.random_state = random_state

    @property
    def guarantee_(self) -> PrivacyGuarantee:  # numpydoc ignore=RT01
        """What one report promises; known before `fit`, since clients never fit."""
        return self._guarantee(self._protocol()[1])

    def _guarantee(self, protocol: PrefixHashing) -> PrivacyGuarantee:
        return PrivacyGuarantee(
            protocol.epsilon, mechanism="local hashing of a prefix", secure=self.random_state is None
        )

    def _protocol(self) -> tuple[WordCoder, PrefixHashing]:
        """Check all that client and server share."""
        epsilon = _local_epsilon(self.epsilon) if isinstance(self.epsilon, Shuffled) else check_epsilon(self.epsilon)
        coder = WordCoder(self.max_length, self.alphabet)
        first, step = (
            check_size(bits, least=1, most=16, name=name)
            for name, bits in (("first_bits", self.first_bits), ("step_bits", self.step_bits))
        )
        check_ledger(self.ledger)
        check_random_state(self.random_state)
        return coder, PrefixHashing(epsilon, coder.n_bits, first_bits=first, step_bits=step)

    def _search(self, protocol: PrefixHashing) -> tuple[int, int, float]:
        """Check what the server alone uses."""
        n_top = check_size(self.n_top, least=1, name="n_top")
        # The time of `fit` is proportional to candidates times buckets; with few buckets, errors are large.
        usual = max(16, n_top * min(10, max(2, 64 // protocol.inner.k)))
        kept = usual if self.n_candidates is None else self.n_candidates
        kept = check_size(kept, least=n_top, name="n_candidates")
        return n_top, kept, check_confidence_level(self.confidence_level)

    def report(self, words: ColumnLike | TableLike) -> Any:
        """Privatise words: the client's side, which needs no `fit`.

        Parameters
        ----------
        words : series, dataframe of one column, or array-like of shape (n_samples,)
            True words, one a record.

        Returns
        -------
        dataframe of the library of the words, or ndarray of shape (n_samples, n_columns)
            The reports: ``group``, ``bucket`` and the hash function ``seed_0, …``.

        Raises
        ------
        TypeError, ValueError
            If the words are no strings, are missing, or are none at all, or a parameter is out of range.
        BudgetExceeded
            If the ledger does not cover the release.
        """
        coder, protocol = self._protocol()
        self._search(protocol)
        table = _read_words(words)
        refuse_protected_levels(words, table.names, what="words")
        warn_of_levels(words)
        values = _listed(table.columns[0])
        if not values:
            raise ValueError("Found 0 words; at least 1 is required")
        check_words(values)
        protocol.check_size(len(values))
        vectors = coder.vectors(values)
        guarantee = self._guarantee(protocol)
        if not isinstance(self.epsilon, Shuffled):
            warn_of_loss(guarantee.epsilon)
        with search_advice():
            spend(self.ledger, guarantee, type(self).__name__, n_rows=len(values))
        if not hasattr(self, "_calls"):
            self._calls = CallCounter()
        source = coins(self.random_state, type(self).__name__, self._calls.advance(), "report")
        reports = protocol.report(vectors, source)
        return table.rebuild(list(reports.T), protocol.columns)

    @all_or_nothing
    def fit(self, reports: TableLike, y: ColumnLike | None = None) -> Self:
        """Find the frequent words: the server's side.

        Parameters
        ----------
        reports : what `report` returns
            Privatised words; the reports of several calls may be put one below the other.
        y : None
            Ignored.

        Returns
        -------
        self
            With `top_`.

        Raises
        ------
        TypeError, ValueError
            If the reports come from a client with other parameters, a group has none, or a parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        coder, protocol = self._protocol()
        n_top, kept, level = self._search(protocol)
        rows = _read_reports(reports, protocol)
        groups = [rows[rows[:, 0] == group] for group in range(len(protocol.lengths))]
        if not all(map(len, groups)):
            raise ValueError(f"each of the {len(groups)} groups needs a report; got {len(rows)} reports in all")
        found = grow(coder, protocol, groups, kept)
        words = _estimates(coder, protocol, found, len(rows), level)
        self.top_ = words[words["lower"] > 0].head(n_top).reset_index(drop=True)
        self.n_reports_ = len(rows)
        return self


@lru_cache(maxsize=64)  # each report of a client asks for it
def _local_epsilon(wanted: Shuffled) -> float:
    return wanted.local_epsilon(lambda local: (any_pair(local),))


def _estimates(coder: WordCoder, protocol: PrefixHashing, found: list[Candidate], n: int, level: float) -> pd.DataFrame:
    sizes = np.array([candidate.n for candidate in found], float)
    inside = protocol.estimate([candidate.support for candidate in found], sizes)
    shares = np.clip(np.nan_to_num(inside / sizes), 0, 1)
    variance = protocol.variance(shares * sizes, sizes)
    variance += sizes * shares * (1 - shares) * (n - sizes) / max(n - 1, 1)
    std_error = np.sqrt(variance) * n / sizes
    # The level is shared among the lengths of words. Words of a length are first considered in one step, and are known
    # before its group is read, and so is their number: there are fewer short words.
    n_lengths = coder.max_length + 1
    tails = [(1 - level) / (2 * n_lengths * candidate.rivals) for candidate in found]
    reach = np.array([-NormalDist().inv_cdf(tail) for tail in tails]) * std_error
    counts = inside * n / sizes
    table = {
        "value": np.array([coder.word(candidate.string) for candidate in found], object),
        "count": counts,
        "std_error": std_error,
        "lower": np.nan_to_num(counts) - reach,
        "upper": np.nan_to_num(counts) + reach,
    }
    return pd.DataFrame(table)


def _read_words(words: Any) -> Table:
    series = nw.from_native(words, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return read_table(series.to_frame().to_native())
    if is_frame(words):
        table = read_table(words)
        if len(table.names) != 1:
            raise ValueError(f"words must be one column, got {len(table.names)}")
        return table
    array = read_array(words, "words")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"words must be 1-D, got an array of {array.ndim} dimensions")
    return read_table(array[:, None])


def _listed(column: Any) -> list[Any]:
    return (
        column.tolist()
        if isinstance(column, np.ndarray | pd.Series)
        else nw.from_native(column, series_only=True).to_list()
    )


def _read_reports(reports: Any, protocol: PrefixHashing) -> NDArray[np.uint32]:
    table = read_report_table(reports, protocol.columns)
    rows = np.column_stack([np.asarray(column) for column in table.columns])
    if rows.dtype.kind not in "iuf" or not protocol.valid(rows) or (rows.dtype.kind == "f" and bool((rows % 1).any())):
        raise ValueError("the reports are not ones of these parameters; are they those of the client?")
    return rows.astype(np.uint32)
