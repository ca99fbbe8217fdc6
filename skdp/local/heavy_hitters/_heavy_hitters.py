"""The frequent words of an open vocabulary, by growing their prefixes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.base import BaseEstimator

from skdp.base import (
    CallCounter,
    OnSite,
    all_or_nothing,
    check_confidence_level,
    check_ledger,
    check_random_state,
    coins,
    one_column,
    refuse_protected_levels,
    warn_of_levels,
    warn_of_loss,
)
from skdp.coding import objects_of
from skdp.local.heavy_hitters._prefixes import (
    Candidate,
    PrefixProtocol,
    WordCoder,
    check_words,
    grow,
)
from skdp.local.protocol import read_report_table
from skdp.oracles import check_bytes, check_size, support_variance
from skdp.privacy import (
    PrivacyGuarantee,
    PrivacyLedger,
    Shuffled,
    check_epsilon,
    search_advice,
    spend,
)
from skdp.privacy.shuffle import any_pair
from skdp.typing import ColumnLike, TableLike


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
    epsilon : float or Shuffled, default=1.0
        Privacy loss of one record, > 0. Of `Shuffled`, `guarantee_` states the epsilon
        of one report; give this number to clients with another version of skdp.
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
        How many prefixes are kept in each step, at least `n_top` and by default at
        least 16. More of them find a little more. The time of `fit` is proportional to
        it.
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
        epsilon: float | Shuffled = 1.0,
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
    def guarantee_(self) -> PrivacyGuarantee:  # numpydoc ignore=RT01
        """What one report promises; known before `fit`, since clients never fit."""
        epsilon = self._protocol().oracle.epsilon
        return PrivacyGuarantee(
            epsilon,
            mechanism="local hashing of a prefix",
            secure=self.random_state is None,
        )

    def _protocol(self) -> PrefixProtocol:
        """Check all that client and server share."""
        epsilon = self.epsilon
        if isinstance(epsilon, Shuffled):
            epsilon = epsilon.local_epsilon(lambda local: (any_pair(local),))
        check_ledger(self.ledger)
        check_random_state(self.random_state)
        return PrefixProtocol(
            check_epsilon(epsilon), WordCoder(self.max_length, self.alphabet)
        )

    def _search(self, protocol: PrefixProtocol) -> tuple[int, int, float]:
        """Check what the server alone uses."""
        n_top = check_size(self.n_top, least=1, name="n_top")
        # The time of `fit` is proportional to candidates times buckets; with few buckets, errors are large.
        usual = max(16, n_top * min(10, max(2, 64 // protocol.oracle.k)))
        n_candidates = usual if self.n_candidates is None else self.n_candidates
        n_candidates = check_size(n_candidates, least=n_top, name="n_candidates")
        return n_top, n_candidates, check_confidence_level(self.confidence_level)

    def report(self, words: ColumnLike | TableLike) -> Any:
        """Privatise words: the client's side, which needs no `fit`.

        Parameters
        ----------
        words : series, dataframe of one column, or array-like of shape (n_samples,)
            True words, one a record.

        Returns
        -------
        dataframe of the library of the words, or ndarray of shape (n_samples, n_columns)
            The reports: ``group``, ``bucket`` and the hash function ``hash_0, …``.

        Raises
        ------
        TypeError, ValueError
            If the words are no strings, are missing, or are none at all, or a parameter is out of range.
        BudgetExceeded
            If the ledger does not cover the release.
        """
        protocol = self._protocol()
        self._search(protocol)
        table = one_column(words, "words")
        refuse_protected_levels(words, table.names, what="words")
        warn_of_levels(words)
        values = objects_of(table.columns[0])
        if not values:
            raise ValueError("Found 0 words; at least 1 is required")
        check_words(values)
        check_bytes(len(values), len(protocol.columns), np.dtype(np.int64).itemsize)
        symbols = protocol.coder.symbols(values)
        guarantee = self.guarantee_
        if not isinstance(self.epsilon, Shuffled):
            warn_of_loss(guarantee.epsilon)
        with search_advice():
            spend(self.ledger, guarantee, type(self).__name__, n_rows=len(values))
        if not hasattr(self, "_calls"):
            self._calls = CallCounter()
        source = coins(
            self.random_state, type(self).__name__, self._calls.advance(), "report"
        )
        return table.rebuild(list(protocol.report(symbols, source).T), protocol.columns)

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
        protocol = self._protocol()
        n_top, n_candidates, level = self._search(protocol)
        rows = _read_reports(reports, protocol)
        groups = [
            rows[rows[:, 0] == group] for group in range(len(protocol.coder.steps))
        ]
        if not all(map(len, groups)):
            raise ValueError(
                f"each of the {len(groups)} groups needs a report; got {len(rows)} reports in all"
            )
        words = _estimates(
            protocol, grow(protocol, groups, n_candidates), len(rows), level
        )
        self.top_ = words[words["lower"] > 0].head(n_top).reset_index(drop=True)
        self.n_reports_ = len(rows)
        return self


def _estimates(
    protocol: PrefixProtocol, candidates: list[Candidate], n: int, level: float
) -> pd.DataFrame:
    """Estimate the counts of whole words, with intervals that hold for all words that were considered."""
    rows = [
        (candidate.support, candidate.n, candidate.n_rivals) for candidate in candidates
    ]
    support, sizes, n_rivals = np.array(rows, float).reshape(-1, 3).T
    inside = protocol.estimate(support, sizes)
    shares = np.clip(np.nan_to_num(inside / sizes), 0, 1)
    variance = support_variance(protocol.p, protocol.q, shares * sizes, sizes)
    variance += sizes * shares * (1 - shares) * (n - sizes) / max(n - 1, 1)
    std_error = np.sqrt(variance) * n / sizes
    # The level is shared among the lengths of words. Words of a length are first considered in one step, and are known
    # before its group is read, and so is their number: there are fewer short words.
    reach = (
        -ndtri((1 - level) / (2 * (protocol.coder.max_length + 1) * n_rivals))
        * std_error
    )
    counts = inside * n / sizes
    words = np.array(
        [protocol.coder.word(candidate.symbols) for candidate in candidates], object
    )
    lower, upper = np.nan_to_num(counts) - reach, np.nan_to_num(counts) + reach
    return pd.DataFrame(
        {
            "value": words,
            "count": counts,
            "std_error": std_error,
            "lower": lower,
            "upper": upper,
        }
    )


def _read_reports(reports: Any, protocol: PrefixProtocol) -> NDArray[np.int64]:
    rows = np.column_stack(
        [
            np.asarray(column)
            for column in read_report_table(reports, protocol.columns).columns
        ]
    )
    limits = [len(protocol.coder.steps), protocol.oracle.k] + protocol.hash_family.r * [
        1 << protocol.hash_family.n_bits
    ]
    if (
        rows.dtype.kind not in "iuf"
        or not ((rows >= 0) & (rows < np.array(limits)) & (rows % 1 == 0)).all()
    ):
        raise ValueError(
            "the reports are not ones of these parameters; are they those of the client?"
        )
    return rows.astype(np.int64)
