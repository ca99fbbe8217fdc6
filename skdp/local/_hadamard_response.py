"""Hadamard response for the columns of a table."""

from __future__ import annotations

from typing import Any

from skdp.local._oracle_encoder import Categories, OracleEncoder, Shares
from skdp.oracles import HadamardResponse
from skdp.privacy import PrivacyLedger
from skdp.typing import HandleUnknown, ReportStrategy


class HadamardResponseEncoder(OracleEncoder):
    """Report one index for each column: the smallest reports, and counts of very many values in little time.

    The index supports half of the values of a block, as a row of a Hadamard matrix says ([1]_). The output has one
    column of whole numbers for each column, of the same name.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together; finite and > 0.
    n_blocks : int, optional
        The number of blocks, a power of two; by default the best one.
    strategy : {"split", "joint", "sample"}, default="split"
        As for `RandomizedResponseEncoder`; under "sample" the columns that a record does not report hold zeros.
    shares : "uniform", "proportional" or mapping, default="uniform"
        As for `RandomizedResponseEncoder`.
    categories : "auto", list of array-like, mapping or Domain, default="auto"
        As for `RandomizedResponseEncoder`.
    handle_unknown : {"error", "uniform"} or a declared value, default="error"
        As for `RandomizedResponseEncoder`.
    memoize : bool, default=False
        As for `RandomizedResponseEncoder`.
    secret_key : bytes, optional
        As for `RandomizedResponseEncoder`.
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
        epsilon: float = 1.0,
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
