"""Frequent strings of an open vocabulary, by the prefix extending method."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import Bytes, ColumnLike, Indices, Integers, TableLike
from skdp.base import (
    NORMAL,
    CallCounter,
    PrivateEstimator,
    check_confidence_level,
    check_index_levels,
    check_ledger,
    check_random_state,
    make_source,
    restore_on_error,
    to_single_column,
    warn_of_epsilon,
    warn_of_levels,
)
from skdp.local.protocol._count_estimation import MAX_ESTIMATION_NUMBERS
from skdp.local.protocol._report_columns import (
    parse_integers,
    parse_report_table,
    stack_columns,
)
from skdp.oracles import RandomizedResponse
from skdp.privacy import PrivacyGuarantee, PrivacyLedger, check_epsilon
from skdp.randomness import ByteSource, check_size, check_type, uniform_integers
from skdp.tables import to_object_list

# Modulus of the polynomial hash of the symbols before a step, a Mersenne prime.
PREFIX_HASH_PRIME = (1 << 31) - 1


class HeavyHitters(PrivateEstimator):
    """Find the most frequent strings of an open vocabulary.

    Each record reports one prefix of its string with local hashing. The server extends
    the frequent prefixes step by step (prefix extending method [1]_), so no list of
    candidates is required. `report` is the client and `fit` is the server, which
    receives reports only.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record, > 0.

    n_top : int, default=10
        Maximum number of strings to find.

    max_length : int, default=16
        Maximum number of symbols of a string, from 1 to 128. Longer strings are
        truncated. The errors grow with it.

    alphabet : str, default=None
        Characters of the strings, such as ``string.ascii_lowercase``. Other characters
        are replaced by U+FFFD. None uses the bytes of UTF-8. A smaller alphabet has
        smaller errors.

    confidence_level : float, default=0.95
        Simultaneous coverage probability of all intervals.

    ledger : PrivacyLedger, default=None
        Ledger that is charged with `guarantee_` at each call of `report`.

    random_state : int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the
        reports are then not private.

    Attributes
    ----------
    top_ : pandas.DataFrame
        Columns 'value', 'count', 'std_error', 'lower' and 'upper', with the largest
        count first. Strings whose `lower` is not positive are excluded.

    n_reports_ : int
        Number of reports seen during `fit`.

    See Also
    --------
    RapporEncoder : Counts candidates that the server can list.

    Notes
    -----
    **Privacy.** Local model, for each record, under replacement of its string. The
    group and the hash function of a report are public. Each call of `report` is a new
    release. `fit` uses no privacy budget. The row index passes through: reset it before
    publication if it identifies a person.

    The intervals are Bonferroni-corrected normal approximations for all considered
    strings. The counts of the top strings are slightly too large on average, because
    the largest estimates are selected.

    References
    ----------
    .. [1] T. Wang, N. Li, S. Jha (2021). Locally differentially private heavy hitter
       identification. IEEE Transactions on Dependable and Secure Computing 18(2).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import HeavyHitters
    >>> words = np.repeat(["red", "green", "blue"], [5_000, 3_000, 2_000])
    >>> finder = HeavyHitters(4.0, n_top=3, max_length=6, random_state=0)
    >>> finder = finder.fit(finder.report(words))
    >>> print(finder.top_.round())
       value   count  std_error   lower   upper
    0    red  4932.0       94.0  4400.0  5464.0
    1  green  2978.0      117.0  2315.0  3641.0
    2   blue  2037.0      102.0  1464.0  2611.0
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        n_top: int = 10,
        max_length: int = 16,
        alphabet: str | None = None,
        confidence_level: float = 0.95,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.n_top = n_top
        self.max_length = max_length
        self.alphabet = alphabet
        self.confidence_level = confidence_level
        self.ledger = ledger
        self.random_state = random_state

    @property
    def guarantee_(self) -> PrivacyGuarantee:
        """Privacy guarantee of one report. Available before `fit`."""
        return PrivacyGuarantee(
            self._make_protocol().oracle.epsilon,
            mechanism="local hashing of a prefix",
            secure=self.random_state is None,
        )

    def _make_protocol(self) -> PrefixProtocol:
        """Check the parameters, and return the protocol of client and server."""
        check_ledger(self.ledger)
        check_random_state(self.random_state)
        check_confidence_level(self.confidence_level)
        check_size(self.n_top, min_val=1, name="n_top")
        coder = WordCoder(self.max_length, self.alphabet)
        return PrefixProtocol(check_epsilon(self.epsilon), coder)

    def report(self, words: ColumnLike | TableLike) -> Any:
        """Privatize strings on the client, without `fit`.

        Parameters
        ----------
        words : series, dataframe of one column, or array-like of shape (n_samples,)
            True string of each record.

        Returns
        -------
        dataframe in the library of the words, or ndarray
            Reports of shape (n_samples, n_columns), with the columns ``group``,
            ``bucket`` and the hash function ``hash_0, …``.

        Raises
        ------
        TypeError, ValueError
            If the words are not strings, are missing or empty, or a parameter is out of
            range.
        BudgetExceeded
            If the ledger does not cover the release.
        """
        protocol = self._make_protocol()
        # A charge is never refunded, so all errors are raised before it.
        table = to_single_column(words, "words")
        check_index_levels(words, table.names, what="words")
        warn_of_levels(words)
        values = to_object_list(table.columns[0])
        check_words(values)
        symbols = protocol.coder.encode(values)
        guarantee = self.guarantee_
        warn_of_epsilon(guarantee.epsilon, self.epsilon)
        name = type(self).__name__
        if self.ledger is not None:
            self.ledger.charge(guarantee, name)
        if not hasattr(self, "_calls"):
            self._calls = CallCounter()
        source = make_source(self.random_state, name, self._calls.advance(), "report")
        reports = protocol.report(symbols, source)
        return table.rebuild(list(reports.T), protocol.columns)

    @restore_on_error
    def fit(self, reports: TableLike, y: ColumnLike | None = None) -> Self:
        """Find the frequent strings in reports, on the server.

        Parameters
        ----------
        reports : output of `report`
            Privatized strings. Reports of several calls can be concatenated.
        y : None
            Ignored.

        Returns
        -------
        self
            With `top_`.

        Raises
        ------
        TypeError, ValueError
            If the reports come from a client with other parameters, a group has no
            report, or a parameter is out of range.

        Notes
        -----
        Each report counts once, because a report contains a part of a word. For survey
        weights, declare the words found, and collect them with another encoder.

        **Privacy.** Post-processing of reports uses no budget.
        """
        protocol = self._make_protocol()
        rows = parse_reports(reports, protocol)
        n_groups = len(protocol.coder.steps)
        groups = [rows[rows[:, 0] == group] for group in range(n_groups)]
        if not all(map(len, groups)):
            raise ValueError(
                f"`reports` must have a row for each of the {n_groups} groups, got "
                f"{len(rows)} rows."
            )
        # Each step keeps more than `n_top` prefixes, because the count of the prefix of a
        # frequent word may be underestimated.
        n_candidates = 2 * max(8, self.n_top)
        words = extend_prefixes(protocol, groups, n_candidates)
        # Bonferroni: each step considers all tails of all candidates.
        n_considered = n_candidates * n_groups << protocol.coder.step_bits
        level = 1 - (1 - self.confidence_level) / n_considered
        estimates = estimate_words(protocol, groups, words, level)
        is_frequent = estimates["lower"] > 0
        self.top_ = estimates[is_frequent].head(self.n_top).reset_index(drop=True)
        self.n_reports_ = len(rows)
        return self


def check_words(words: Sequence[Any]) -> None:
    """Check that there are words, and that all of them are strings."""
    if not words:
        raise ValueError("Found 0 words; at least 1 is required.")
    other_types = {type(word).__name__ for word in words if not isinstance(word, str)}
    if other_types:
        raise TypeError(
            "`words` must be strings, and not missing; got "
            f"{', '.join(sorted(other_types))}."
        )


def parse_reports(reports: TableLike, protocol: PrefixProtocol) -> Integers:
    """Check a table of reports, and return it as integers; shape (n_reports, n_columns).

    The columns are the group, the bucket and the words of the hash function.
    `protocol.limits` has an upper bound of each column, which is excluded.
    """
    table = parse_report_table(reports, protocol.columns)
    rows = parse_integers(stack_columns(table.columns))
    if ((rows < 0) | (rows >= np.array(protocol.limits))).any():
        raise ValueError(
            "`reports` must be integers in the range of the groups, buckets and hash "
            "functions of these parameters. Use the parameters of the client."
        )
    return rows.astype(np.int64)


class WordCoder:
    """Encoder of words as sequences of symbols.

    A symbol is a byte of UTF-8 or the number of a character in the alphabet, and 0 after
    the end of a word. Prefixes are extended by several symbols in one step.
    """

    def __init__(self, max_length: int, alphabet: str | None) -> None:
        # `symbol_bits` is the number of bits of a symbol, and `step_bits` the number of
        # bits of the symbols that one step adds to a prefix.
        self.max_length = check_size(
            max_length, min_val=1, max_val=128, name="max_length"
        )
        self.alphabet = alphabet
        self.n_symbols = 255  # the bytes of UTF-8
        if alphabet is not None:
            _check_alphabet(alphabet)
            # The largest symbol replaces all other characters.
            self.n_symbols = len(alphabet) + 1
        self.symbol_bits = self.n_symbols.bit_length()
        # The server counts all combinations of the symbols of a step, at most 2**16.
        step = min(16 // self.symbol_bits, self.max_length)
        self.step_bits = step * self.symbol_bits
        # Lengths of the prefixes before and after each step.
        self.steps = list(pairwise([*range(0, self.max_length, step), self.max_length]))

    def encode(self, words: Sequence[str]) -> Bytes:
        """Encode words as symbols, of shape (n_words, max_length)."""
        padded = [
            self._encode_word(word).ljust(self.max_length, b"\0") for word in words
        ]
        symbols = np.frombuffer(b"".join(padded), np.uint8)
        return symbols.reshape(-1, self.max_length)

    def _encode_word(self, word: str) -> bytes:
        """Encode a word as at most `max_length` bytes, one for each symbol.

        Symbols are the bytes of UTF-8, or the numbers of the characters in the
        alphabet, from 1.
        """
        if self.alphabet is None:
            # Decoding drops the incomplete last character of a truncated word.
            truncated = word.encode("utf-8", "replace")[: self.max_length]
            return truncated.decode("utf-8", "ignore").encode()
        # `find` returns -1 for a character outside the alphabet. Modulo n_symbols, this is
        # the index after the last character.
        indices = [self.alphabet.find(char) for char in word[: self.max_length]]
        return bytes([index % self.n_symbols + 1 for index in indices])

    def decode(self, symbols: Bytes) -> str:
        """Decode the symbols of one word."""
        content = symbols[symbols > 0]
        if self.alphabet is None:
            return content.tobytes().decode("utf-8", "replace")
        characters = self.alphabet + "\N{REPLACEMENT CHARACTER}"
        return "".join(characters[symbol - 1] for symbol in content)

    def encode_prefixes(self, symbols: Bytes, before: int, length: int) -> Integers:
        """Encode prefixes as integers: a hash of the first `before` symbols, then the other symbols.

        A step extends prefixes of `before` symbols to `length` symbols. `symbols` has
        the shape (n_prefixes, at least `length`).
        """
        # The higher bits are a public polynomial hash. Two polynomials of degree 127 have
        # equal values for at most 127 of the 2**31 - 1 bases.
        numbers = np.zeros(len(symbols), np.int64)
        base = 1_327_217_885  # 2**31 divided by the golden ratio
        for index in range(before):
            numbers = (numbers * base + symbols[:, index] + 1) % PREFIX_HASH_PRIME
        # The lower bits are the symbols of the step.
        numbers <<= self.step_bits
        for index in range(before, length):
            shift = (length - 1 - index) * self.symbol_bits
            numbers += symbols[:, index].astype(np.int64) << shift
        return numbers

    def list_tails(self, n: int) -> tuple[Integers, Bytes]:
        """List the combinations of n symbols that a step can append to a prefix.

        Return them as integers (n_tails,), and as symbols (n_tails, n).
        """
        numbers = np.arange(1 << n * self.symbol_bits)
        shifts = np.arange(n - 1, -1, -1) * self.symbol_bits
        tails = (numbers[:, np.newaxis] >> shifts) & ((1 << self.symbol_bits) - 1)
        # After the symbol 0, the end of a word, only 0 can follow.
        is_ordered = ((tails[:, :-1] > 0) | (tails[:, 1:] == 0)).all(axis=1)
        is_valid = is_ordered & (tails <= self.n_symbols).all(axis=1)
        return numbers[is_valid], tails[is_valid].astype(np.uint8)


def _check_alphabet(alphabet: str) -> None:
    """Check that an alphabet is a string of distinct characters."""
    check_type("alphabet", alphabet, str, "None or a str")
    n_characters = len({*alphabet})
    # Symbols are bytes. The symbol 0 pads words, and one symbol replaces all other
    # characters.
    if n_characters < len(alphabet) or not 1 <= n_characters <= 254:
        raise ValueError(
            "`alphabet` must have from 1 to 254 distinct characters, got "
            f"{n_characters} distinct of {len(alphabet)} characters."
        )


# Public hash functions of integers x into 2**r buckets. A seed is r random words. Bit i of
# the bucket of x is the parity of (x AND word i), a linear map over GF(2). For x != y, the
# buckets differ by the bucket of x XOR y != 0, which is uniform, so x and y collide with
# probability 2**-r.


def draw_seeds(source: ByteSource, n: int, n_words: int, n_bits: int) -> Integers:
    """Draw the seeds of n hash functions: words of `n_bits` bits, of shape (n, n_words)."""
    words = source.bytes(8 * n * n_words).view("<u8") & np.uint64((1 << n_bits) - 1)
    return words.astype(np.int64).reshape(n, n_words)


def hash_numbers(seeds: Integers, numbers: Integers | int) -> Integers:
    """Hash one number, or a number for each seed, into a bucket for each seed; shape (n_seeds,).

    `seeds` has a word for each bit of a bucket, of shape (n_seeds, n_words).
    """
    buckets = np.zeros(len(seeds), np.int64)
    for bit, words in enumerate(seeds.T):
        parity = np.bitwise_count(words & numbers).astype(np.int64) & 1
        buckets |= parity << bit
    return buckets


def sort_words(
    seeds: Integers, buckets: Integers, n_tail: int
) -> Iterator[tuple[NDArray[np.uint32], Integers]]:
    """Yield the sums of words of blocks of reports for `count_tail_matches`.

    `seeds` has the r words of the hash function of each report, of shape (n_reports,
    r), and `buckets` its reported hash of r bits. Each of the 2**r sums modulo 2 of the
    words of a report has a tail of `n_tail` bits and 31 higher bits. A block has the
    higher bits, sorted by tail, and the end of each tail.
    """
    n_words = seeds.shape[1]
    step = max(1, MAX_ESTIMATION_NUMBERS >> n_words)
    for start in range(0, len(seeds), step):
        words = np.zeros((1, len(seeds[start : start + step])), np.int64)
        for bit, word in enumerate(seeds[start : start + step].T):
            signs = buckets[start : start + step] >> bit & 1
            # The tail moves to the high bits, as the key of the sort.
            moved = word >> n_tail | signs << 31 | (word & (1 << n_tail) - 1) << 32
            words = np.concatenate([words, words ^ moved])
        ordered = np.sort(words, axis=None)
        counts = np.bincount(ordered >> 32, minlength=1 << n_tail)
        yield ordered.astype(np.uint32), np.cumsum(counts)


def count_tail_matches(
    blocks: Sequence[Any], head: int, n_words: int, n_tail: int
) -> Integers:
    """Count the reports whose bucket is the hash of head + tail, for each tail of `n_tail` bits; shape (2**n_tail,).

    `blocks` is the output of `sort_words`. The head is an integer whose lowest `n_tail`
    bits are 0. With n reports, the time is O(n 2**r), and not O(n 2**n_tail).
    """
    # Let h be the hash function of a report with bucket y, and d = h(x) XOR y, which is 0 if
    # x matches. Over all u of r bits, the sum of (-1)**parity(u AND d) is 2**r if d is 0,
    # and 0 otherwise. Let w be the XOR of the words that u selects. For x = head + tail,
    # parity(u AND d) = parity(u AND y) XOR parity(w AND head) XOR parity(w AND tail). The
    # signs of the first two parities are summed over reports and u for each tail of w. Bit
    # 31 of the higher bits is parity(u AND y).
    sums = np.zeros(1 << n_tail, np.int64)
    selected = np.uint32(head >> n_tail | 1 << 31)
    for high_words, ends in blocks:
        n_odd = np.zeros(len(high_words) + 1, np.int32)
        np.cumsum(np.bitwise_count(high_words & selected) & 1, out=n_odd[1:])
        sums += np.diff(ends - 2 * n_odd[ends], prepend=0)
    # The product with the matrix of (-1)**parity(w AND tail) gives the matches. It is a
    # Kronecker product: each step applies its factor to the first bit of the index, and
    # moves this bit to the end.
    for _ in range(n_tail):
        first, second = np.split(sums, 2)
        sums = np.column_stack([first + second, first - second]).ravel()
    return sums >> n_words


class PrefixProtocol:
    """Parameters of the prefix extending method that client and server share.

    A record draws a group and a hash function independently of its word, so they are
    public. It reports the hash of the prefix of the group by randomized response, with
    all of epsilon.
    """

    def __init__(self, epsilon: Fraction, coder: WordCoder) -> None:
        # `n_words` is the number of bits of a bucket, and the number of words of a hash
        # function. Bit i of a bucket is the parity of the bits of the prefix that word
        # i, of `n_bits` bits, selects. `oracle` randomizes the bucket.
        self.coder = coder
        # Nearly all prefixes do not occur. With g buckets, the variance of their count is
        # proportional to (e^epsilon + g - 1)**2 / (g - 1), with the minimum at g - 1 =
        # e^epsilon.
        n_buckets = math.exp(min(float(epsilon), 7)) + 1
        # With buckets of r bits, the server takes 2**r steps per report.
        self.n_words = min(round(math.log2(n_buckets)), 7)
        self.oracle = RandomizedResponse(1 << self.n_words, epsilon)
        # Probabilities that a report matches its prefix, and any other prefix.
        self.p = self.oracle.p
        self.q = Fraction(1, self.oracle.k)
        self.n_bits = PREFIX_HASH_PRIME.bit_length() + coder.step_bits
        # Columns of a report, and their upper bounds, which are excluded.
        hashes = [f"hash_{bit}" for bit in range(self.n_words)]
        self.columns = ["group", "bucket", *hashes]
        seed_limits = [1 << self.n_bits] * self.n_words
        self.limits = [len(coder.steps), self.oracle.k, *seed_limits]

    def report(self, symbols: Bytes, source: ByteSource) -> Integers:
        """Randomize words, given as symbols of shape (n, max_length): a report for each word.

        A row of the result has the group, the reported bucket and the words of the hash
        function. The group is the step whose prefix the record reports.
        """
        n = len(symbols)
        n_groups = len(self.coder.steps)
        # The first group has half the probability of the other groups, because later steps
        # compare more prefixes: the integer 0 is the first group, 1 and 2 are the second.
        integers = uniform_integers(source, 2 * n_groups - 1, n).astype(np.int64)
        groups = (integers + 1) // 2
        seeds = draw_seeds(source, n, self.n_words, self.n_bits)
        numbers = np.empty(n, np.int64)
        for group, step in enumerate(self.coder.steps):
            rows = np.flatnonzero(groups == group)
            numbers[rows] = self.coder.encode_prefixes(symbols[rows], *step)
        buckets = hash_numbers(seeds, numbers).astype(np.uint64)
        reported = self.oracle.report(buckets, source).astype(np.int64)
        return np.column_stack([groups, reported, seeds])

    def count_matches(self, reports: Integers, number: int) -> int:
        """Count the reports of a group whose bucket is the hash of an encoded prefix."""
        buckets = hash_numbers(reports[:, 2:], number)
        return int(np.count_nonzero(buckets == reports[:, 1]))


def extend_prefixes(
    protocol: PrefixProtocol, groups: Sequence[Integers], n_candidates: int
) -> Bytes:
    """Find candidate words: extend the prefixes with the most matching reports step by step.

    `groups` has the reports of each step, of shape (n_reports, n_columns), and at most
    `n_candidates` prefixes are kept in a step. The result has the symbols of the words,
    of shape (n_words, max_length).
    """
    coder = protocol.coder
    prefixes = np.zeros((1, coder.max_length), np.uint8)
    for reports, (before, length) in zip(groups, coder.steps, strict=True):
        numbers, tails = coder.list_tails(length - before)
        seeds = np.asfortranarray(reports[:, 2:])
        heads = coder.encode_prefixes(prefixes, before, length)
        blocks = list(sort_words(seeds, reports[:, 1], coder.step_bits))
        extended, matches = [], []
        for prefix, head in zip(prefixes, heads.tolist(), strict=True):
            counts = count_tail_matches(blocks, head, protocol.n_words, coder.step_bits)
            counts = counts[numbers]
            if before and prefix[before - 1] == 0:
                # A word that has ended can only be extended by zeros, which is tail 0.
                counts = counts[:1]
            chosen = find_largest(counts, n_candidates)
            words = np.repeat(prefix[np.newaxis], len(chosen), axis=0)
            words[:, before:length] = tails[chosen]
            extended.append(words)
            matches.append(counts[chosen])
        best = find_largest(np.concatenate(matches), n_candidates)
        prefixes = np.concatenate(extended)[best]
    return prefixes


def find_largest(counts: Integers, n: int) -> Indices:
    """Return the indices of the n largest counts in descending order, the first of equal counts first."""
    largest = np.partition(counts, max(0, counts.size - n))[-n:]
    indices = np.flatnonzero(counts >= largest[0])
    return indices[np.argsort(-counts[indices], kind="stable")[:n]]


def estimate_words(
    protocol: PrefixProtocol,
    groups: Sequence[Integers],
    words: Bytes,
    confidence_level: float,
) -> pd.DataFrame:
    """Estimate the counts of words from the groups whose prefixes contain the whole word.

    `groups` has the reports of each step, and `words` the symbols of the words,
    (n_words, max_length). The table has the counts, standard errors and confidence
    intervals.
    """
    coder = protocol.coder
    # For each word, the sums over the groups of matching reports and of all reports.
    matches, n_reports = np.zeros((2, len(words)))
    for reports, (before, length) in zip(groups, coder.steps, strict=True):
        numbers = coder.encode_prefixes(words, before, length)
        is_complete = words[:, length - 1] == 0  # symbol 0 fills shorter words
        if length == coder.max_length:
            is_complete[:] = True
        for row in np.flatnonzero(is_complete):
            matches[row] += protocol.count_matches(reports, numbers[row])
            n_reports[row] += len(reports)
    n = sum(map(len, groups))
    gain = float(protocol.p - protocol.q)
    counts = (matches - n_reports * float(protocol.q)) / gain
    proportions = np.clip(counts / n_reports, 0, 1)
    # Variance of the noise. A record with the word matches with probability p, and other
    # records with probability q.
    p, q = float(protocol.p), float(protocol.q)
    variances = proportions * p * (1 - p) + (1 - proportions) * q * (1 - q)
    variances *= n_reports / gain**2
    # Variance of sampling: the groups are a sample of the n records without replacement.
    sampling = (n - n_reports) / max(n - 1, 1)
    variances += n_reports * proportions * (1 - proportions) * sampling
    errors = np.sqrt(variances) * n / n_reports
    counts = counts * n / n_reports
    lower, upper = NORMAL.confidence_interval(counts, errors, confidence_level)
    table = pd.DataFrame(
        {
            "value": pd.Series([coder.decode(word) for word in words], dtype=object),
            "count": counts,
            "std_error": errors,
            "lower": lower,
            "upper": upper,
        }
    )
    return table.sort_values("count", ascending=False, kind="stable")
