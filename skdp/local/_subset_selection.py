"""Subset selection for the columns of a table."""

from __future__ import annotations

from typing import Any

from skdp.local._oracle_encoder import Categories, OracleEncoder, Output, Shares
from skdp.oracles import SubsetSelection
from skdp.privacy import PrivacyLedger
from skdp.typing import HandleUnknown, ReportStrategy


class SubsetSelectionEncoder(OracleEncoder):
    """Report a random set of categories, which holds the true one more often than not: the least error of all.

    Of k categories, w are reported; a set that holds the true one is e^eps times likelier than one that does not
    ([1]_). The output has one 0/1 column a category, ``<column>_<category>``, with w ones in each row.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together; finite and > 0.
    subset_size : int, optional
        The size w of the sets of every column; by default the best one, near k / (e^eps + 1).
    strategy : {"split", "joint", "sample"}, default="split"
        As for `RandomizedResponseEncoder`; under "sample" the columns that a record does not report hold zeros.
    shares : "uniform", "proportional" or mapping, default="uniform"
        As for `RandomizedResponseEncoder`.
    categories : "auto", list of array-like, mapping or Domain, default="auto"
        As for `RandomizedResponseEncoder`.
    handle_unknown : {"error", "uniform"} or a declared value, default="error"
        As for `RandomizedResponseEncoder`.
    output : {"bits", "unbiased"}, default="bits"
        As for `UnaryEncodingTransformer`.
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
    UnaryEncodingTransformer : Independent bits.

    Notes
    -----
    **Privacy.** As for `RandomizedResponseEncoder`: local model, for each record, under replacement of its values in
    the fitted columns; epsilon as stated by `guarantee_`, ``delta = 0``; each call of `transform` is a new release
    unless it is memoised. A set leaves as bits: a list in the order of drawing would show which member is true.

    References
    ----------
    .. [1] M. Ye, A. Barg (2018). Optimal schemes for discrete distribution estimation under locally differential
       privacy. IEEE Transactions on Information Theory 64(8).

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import SubsetSelectionEncoder
    >>> people = pd.DataFrame({"colour": ["red", "blue", "blue"]})
    >>> encoder = SubsetSelectionEncoder(1.0, categories={"colour": ["red", "green", "blue", "black", "white"]})
    >>> sets = encoder.fit_transform(people)
    >>> sets.sum(axis=1).tolist()
    [1, 1, 1]
    """

    _mechanism = "subset selection"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        subset_size: int | None = None,
        strategy: ReportStrategy = "split",
        shares: Shares = "uniform",
        categories: Categories = "auto",
        handle_unknown: HandleUnknown = "error",
        output: Output = "bits",
        memoize: bool = False,
        secret_key: bytes | None = None,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.subset_size = subset_size
        self.strategy = strategy
        self.shares = shares
        self.categories = categories
        self.handle_unknown = handle_unknown
        self.output = output
        self.memoize = memoize
        self.secret_key = secret_key
        self.ledger = ledger
        self.random_state = random_state

    def _make_oracle(self, k: int, epsilon: Any) -> SubsetSelection:
        return SubsetSelection(k, epsilon, subset_size=self.subset_size)
