"""Local hashing for the columns of a table."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from skdp.local._oracle_encoder import Categories, OracleEncoder, Shares
from skdp.oracles import LocalHashing, hashing_for_two_rounds
from skdp.privacy import PrivacyLedger
from skdp.typing import HandleUnknown, ReportStrategy


class LocalHashingEncoder(OracleEncoder):
    """Report a public seed and a randomised bucket: small reports for columns with very many values.

    Each report hashes the value into g buckets with a function of its own, and randomises the bucket ([1]_). The output
    has two columns of whole numbers for each column, ``<column>_seed`` and ``<column>_bucket``.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together; finite and > 0.
    n_buckets : int, optional
        The number g of buckets; 2 is binary local hashing (BLH). By default the one with the least error: near
        e^eps + 1 (optimised local hashing, OLH), where eps is `instantaneous_epsilon` if there are two rounds. All
        permanent reports of a record, of any values, cost g times epsilon at most: with fewer buckets that
        is less, and the error larger.
    strategy : {"split", "joint", "sample"}, default="split"
        As for `RandomizedResponseEncoder`; under "sample" the columns that a record does not report hold zeros.
    shares : "uniform", "proportional" or mapping, default="uniform"
        As for `RandomizedResponseEncoder`.
    categories : "auto", list of array-like, mapping or Domain, default="auto"
        As for `RandomizedResponseEncoder`.
    handle_unknown : {"error", "uniform"} or a declared value, default="error"
        As for `RandomizedResponseEncoder`.
    memoize : bool, default=False
        As for `RandomizedResponseEncoder`; the seed is a function of key, record and column, and the permanent report
        one of the bucket: values of a bucket share it ("LOLOHA", [2]_).
    secret_key : bytes, optional
        As for `RandomizedResponseEncoder`.
    instantaneous_epsilon : float, optional
        As for `RandomizedResponseEncoder`: the bucket is randomised once more at each report. Both rounds together
        have the error of one round with this epsilon.
    ledger : PrivacyLedger, optional
        Charged with `guarantee_` at each call of `transform`, before any randomness is drawn.
    random_state : int, optional
        None uses secure randomness. An int gives a reproducible stream, for tests and experiments only.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        What a call of `transform` promises for one record; with `memoize`, what all calls together promise.
    domain_ : Domain
        The declared values of every column.
    categories_ : list of ndarray
        The same as a list.
    oracles_ : tuple of FrequencyOracle
        The protocol of each attribute.
    permanent_oracles_ : tuple of FrequencyOracle
        With `memoize`, the protocol of the permanent reports; `oracles_` are those of a single report.
    instantaneous_guarantee_ : PrivacyGuarantee
        With `instantaneous_epsilon`, what a single report promises.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Their names, if X had string names.

    Raises
    ------
    TypeError, ValueError
        By `fit`, for a parameter out of range or a domain that does not fit.

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
        epsilon: float = 1.0,
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
        return hashing_for_two_rounds(k, epsilon, again) if self.n_buckets is None else self._make_oracle(k, epsilon)
