"""The encoders with small reports for columns with very many values: Hadamard response and local hashing."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from skdp.local._oracle_encoder import Categories, OracleEncoder, Shares
from skdp.oracles import HadamardResponse, LocalHashing, hashing_for_two_rounds
from skdp.privacy import PrivacyLedger, Shuffled
from skdp.typing import HandleUnknown, ReportStrategy


class HadamardResponseEncoder(OracleEncoder):
    """Report one index for each column: the smallest reports, and counts of very many values in little time.

    The index supports half of the values of a block, as a row of a Hadamard matrix says ([1]_). The output has one
    column of whole numbers for each column, of the same name.

    Parameters
    ----------
    epsilon : float or Shuffled, default=1.0
        Privacy loss of one record over all columns together; finite and > 0.
    n_blocks : int, optional
        The number of blocks, a power of two; by default the best one.
    strategy, shares, categories, handle_unknown : optional
        As for `RandomizedResponseEncoder`; under "sample" the columns that a record does not report hold zeros.
    memoize, secret_key, ledger, random_state : optional
        As for `RandomizedResponseEncoder`.

    Attributes
    ----------
    guarantee_, domain_, categories_, oracles_, permanent_oracles_, n_features_in_, feature_names_in_
        As for `RandomizedResponseEncoder`.

    See Also
    --------
    LocalHashingEncoder : A smaller error, and counts in time n k.

    Notes
    -----
    **Privacy.** As for `RandomizedResponseEncoder`: local model, for each record, under replacement of its values in
    the fitted columns; epsilon as stated by `guarantee_`, ``delta = 0``; each call of `transform` is a new release
    unless it is memoised.

    References
    ----------
    .. [1] J. Acharya, Z. Sun, H. Zhang (2019). Hadamard response: estimating distributions privately, efficiently, and
       with little communication. AISTATS.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import HadamardResponseEncoder
    >>> visits = pd.DataFrame({"page": [7] * 6_000 + [8] * 4_000})
    >>> encoder = HadamardResponseEncoder(2.0, categories={"page": range(1_000)}, random_state=0)
    >>> encoder.estimate_counts(encoder.fit_transform(visits)).nlargest(2, "count").index.tolist()
    [7, 8]
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
    """Report a public seed and a randomised bucket: small reports for columns with very many values.

    Each report hashes the value into g buckets with a function of its own, and randomises the bucket ([1]_). The output
    has two columns of whole numbers for each column, ``<column>_seed`` and ``<column>_bucket``.

    Parameters
    ----------
    epsilon : float or Shuffled, default=1.0
        Privacy loss of one record over all columns together; finite and > 0.
    n_buckets : int, optional
        The number g of buckets; 2 is binary local hashing (BLH). By default the one with the least error: near
        e^eps + 1 (optimised local hashing, OLH), where eps is `instantaneous_epsilon` if there are two rounds. All
        permanent reports of a record, of any values, cost g times epsilon at most: with fewer buckets that
        is less, and the error larger.
    strategy, shares, categories, handle_unknown : optional
        As for `RandomizedResponseEncoder`; under "sample" the columns that a record does not report hold zeros.
    memoize : bool, default=False
        As for `RandomizedResponseEncoder`; the seed is a function of key, record and column, and the permanent report
        one of the bucket: values of a bucket share it ("LOLOHA", [2]_).
    secret_key : bytes, optional
        As for `RandomizedResponseEncoder`.
    instantaneous_epsilon : float, optional
        As for `RandomizedResponseEncoder`: the bucket is randomised once more at each report. Both rounds together
        have the error of one round with this epsilon.
    ledger, random_state : optional
        As for `RandomizedResponseEncoder`.

    Attributes
    ----------
    guarantee_, instantaneous_guarantee_, domain_, categories_, oracles_, permanent_oracles_
        As for `RandomizedResponseEncoder`.
    n_features_in_, feature_names_in_
        As for `RandomizedResponseEncoder`.

    See Also
    --------
    HadamardResponseEncoder : Small reports too, and counts in time n + k log k instead of n k, with a larger error.

    Notes
    -----
    **Privacy.** As for `RandomizedResponseEncoder`: local model, for each record, under replacement of its values in
    the fitted columns; epsilon as stated by `guarantee_`, ``delta = 0``; each call of `transform` is a new release
    unless it is memoised. For repeated collection read "buckets" for "values". The seed is drawn without looking at
    the value and is public.

    Estimating the counts of k values from n reports takes n k hashes.

    References
    ----------
    .. [1] T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private protocols for frequency estimation.
       USENIX Security.
    .. [2] H. Arcolezi, C. Pinzón, C. Palamidessi, S. Gambs (2023). Frequency estimation of evolving data under local
       differential privacy. EDBT.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import LocalHashingEncoder
    >>> visits = pd.DataFrame({"page": [7] * 6_000 + [8] * 4_000})
    >>> encoder = LocalHashingEncoder(2.0, categories={"page": range(1_000)}, random_state=0)
    >>> reports = encoder.fit_transform(visits)
    >>> reports.columns.tolist()
    ['page_seed', 'page_bucket']
    >>> encoder.estimate_counts(reports).nlargest(2, "count").index.tolist()
    [7, 8]
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
