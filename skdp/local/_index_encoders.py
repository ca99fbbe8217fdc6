"""The encoders with small reports for columns with very many values: Hadamard response and local hashing."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from skdp.base import HandleUnknown, ReportStrategy
from skdp.local._oracle_encoder import Categories, OracleEncoder, Shares
from skdp.oracles import HadamardResponse, LocalHashing, hashing_for_two_rounds
from skdp.privacy import PrivacyLedger, Shuffled


class HadamardResponseEncoder(OracleEncoder):
    """Report one index a column: the smallest reports, and fast counts of many values.

    >>> import pandas as pd
    >>> from skdp import HadamardResponseEncoder
    >>> visits = pd.DataFrame({"page": [7] * 6_000 + [8] * 4_000})
    >>> encoder = HadamardResponseEncoder(2.0, categories={"page": range(1_000)})
    >>> counts = encoder.estimate_counts(encoder.fit_transform(visits))

    The index supports half of the values of a block, as a row of a Hadamard matrix
    says ([1]_). The output has one column of whole numbers for each column, of the same
    name. Counts of k values from n reports take time n + k log k.

    Parameters
    ----------
    epsilon : float or Shuffled, default=1.0
        Privacy loss of one record over all columns together, > 0.
    n_blocks : int, optional
        The number of blocks, a power of two; by default the best one.
    strategy, shares, categories, handle_unknown : optional
        As for `RandomizedResponseEncoder`; under "sample" the columns that a record
        does not report hold zeros.
    memoize, secret_key, ledger, random_state : optional
        As for `RandomizedResponseEncoder`.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        What a call of `transform` promises for one record.
    domain_ : Domain
        The declared values of each column.
    oracles_ : tuple of HadamardResponse
        The mechanism of each column, or of all ("joint").

    See Also
    --------
    LocalHashingEncoder : A smaller error, and counts in time n k.

    Notes
    -----
    **Privacy.** Local model: for each record, under replacement of its values in the
    fitted columns. Each `transform` is a new release unless it is memoised. The guide
    page "What all encoders share" explains the parameters and what is not covered.

    References
    ----------
    .. [1] J. Acharya, Z. Sun, H. Zhang (2019). Hadamard response: estimating
       distributions privately, efficiently, and with little communication. AISTATS.
    """

    _mechanism = "Hadamard response"

    def __init__(
        self,
        epsilon: float | Shuffled = 1.0,
        *,
        n_blocks: int | None = None,
        strategy: ReportStrategy = "split",
        shares: Shares = "uniform",
        categories: Categories = "auto",
        handle_unknown: HandleUnknown = "error",
        memoize: bool = False,
        secret_key: bytes | None = None,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.n_blocks = n_blocks
        self.strategy = strategy
        self.shares = shares
        self.categories = categories
        self.handle_unknown = handle_unknown
        self.memoize = memoize
        self.secret_key = secret_key
        self.ledger = ledger
        self.random_state = random_state

    def _make_oracle(self, k: int, epsilon: Any) -> HadamardResponse:
        return HadamardResponse(k, epsilon, n_blocks=self.n_blocks)


class LocalHashingEncoder(OracleEncoder):
    """Report a public seed and a random bucket: small reports if values are many.

    >>> import pandas as pd
    >>> from skdp import LocalHashingEncoder
    >>> visits = pd.DataFrame({"page": [7] * 6_000 + [8] * 4_000})
    >>> encoder = LocalHashingEncoder(2.0, categories={"page": range(1_000)})
    >>> counts = encoder.estimate_counts(encoder.fit_transform(visits))

    Each report hashes the value into g buckets by a function of its own, drawn without
    looking at the value, and randomises the bucket ([1]_). The output has the columns
    ``<column>_seed`` (public) and ``<column>_bucket``. Counts take n k hashes.

    Parameters
    ----------
    epsilon : float or Shuffled, default=1.0
        Privacy loss of one record over all columns together, > 0.
    n_buckets : int, optional
        The number g of buckets; 2 is binary local hashing (BLH). By default the one
        with the least error, near e^eps + 1 (OLH), where eps is `instantaneous_epsilon`
        if there are two rounds.
    strategy, shares, categories, handle_unknown : optional
        As for `RandomizedResponseEncoder`; under "sample" the columns that a record
        does not report hold zeros.
    memoize : bool, default=False
        As for `RandomizedResponseEncoder`, with buckets for values: the seed is a
        function of key, record and column, and the values of a bucket share a permanent
        report ([2]_). All permanent reports of a record cost at most g times epsilon.
    secret_key : bytes, optional
        As for `RandomizedResponseEncoder`.
    instantaneous_epsilon : float, optional
        As for `RandomizedResponseEncoder`: the bucket is randomised once more at each
        report. Both rounds have the error of one round with this epsilon.
    ledger, random_state : optional
        As for `RandomizedResponseEncoder`.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        What a call of `transform` promises for one record.
    domain_ : Domain
        The declared values of each column.
    oracles_ : tuple of LocalHashing
        The mechanism of each column, or of all ("joint").

    See Also
    --------
    HadamardResponseEncoder : Faster counts, with a larger error.

    Notes
    -----
    **Privacy.** Local model: for each record, under replacement of its values in the
    fitted columns. Each `transform` is a new release unless it is memoised. The guide
    page "What all encoders share" explains the parameters and what is not covered.

    References
    ----------
    .. [1] T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private
       protocols for frequency estimation. USENIX Security.
    .. [2] H. Arcolezi et al. (2023). Frequency estimation of evolving data under local
       differential privacy. EDBT.
    """

    _mechanism = "local hashing"

    def __init__(
        self,
        epsilon: float | Shuffled = 1.0,
        *,
        n_buckets: int | None = None,
        strategy: ReportStrategy = "split",
        shares: Shares = "uniform",
        categories: Categories = "auto",
        handle_unknown: HandleUnknown = "error",
        memoize: bool = False,
        secret_key: bytes | None = None,
        instantaneous_epsilon: float | None = None,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.n_buckets = n_buckets
        self.strategy = strategy
        self.shares = shares
        self.categories = categories
        self.handle_unknown = handle_unknown
        self.memoize = memoize
        self.secret_key = secret_key
        self.instantaneous_epsilon = instantaneous_epsilon
        self.ledger = ledger
        self.random_state = random_state

    def _make_oracle(self, k: int, epsilon: Any) -> LocalHashing:
        return LocalHashing(k, epsilon, n_buckets=self.n_buckets)

    def _make_first_round(self, k: int, epsilon: Any, again: Fraction) -> LocalHashing:
        return (
            hashing_for_two_rounds(k, epsilon, again)
            if self.n_buckets is None
            else self._make_oracle(k, epsilon)
        )
