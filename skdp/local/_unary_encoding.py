"""Unary encoding for the columns of a table."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from skdp.local._oracle_encoder import Categories, OracleEncoder, Output, Shares
from skdp.oracles import UnaryEncoding
from skdp.privacy import PrivacyLedger
from skdp.typing import HandleUnknown, ReportStrategy


class UnaryEncodingTransformer(OracleEncoder):
    """Report a randomised bit for each category: less error than randomised response when a column has many values.

    The bit of the true category is 1 with probability p, every other bit with probability q, so that
    ``e^eps = p (1 - q) / ((1 - p) q)`` ([1]_). The output has one 0/1 column a category, ``<column>_<category>``
    (``<column>_missing`` where missing is declared).

    Parameters
    ----------
    epsilon : float or None, default=1.0
        Privacy loss of one record over all columns together; finite and > 0. None if p and q are given.
    variant : {"optimized", "symmetric", "threshold"}, default="optimized"
        How epsilon becomes p and q: ``"optimized"`` (OUE) has p = 1/2 and the least error for rare values,
        ``"symmetric"`` (SUE) has q = 1 - p, ``"threshold"`` (THE) thresholds Laplace noise.
    p, q : float, optional
        The two probabilities themselves, 0 < q < p < 1, for every column; then epsilon must be None, and follows.
    strategy : {"split", "joint", "sample"}, default="split"
        As for `RandomizedResponseEncoder`; under "sample" the columns that a record does not report hold zeros.
    shares : "uniform", "proportional" or mapping, default="uniform"
        As for `RandomizedResponseEncoder`.
    categories : "auto", list of array-like, mapping or Domain, default="auto"
        As for `RandomizedResponseEncoder`.
    handle_unknown : {"error", "uniform"} or a declared value, default="error"
        As for `RandomizedResponseEncoder`.
    output : {"bits", "unbiased"}, default="bits"
        ``"unbiased"`` gives ``(bit - q) / (p - q)`` instead of the bits: a feature matrix whose column means are the
        estimated frequencies.
    memoize : bool, default=False
        As for `RandomizedResponseEncoder`.
    secret_key : bytes, optional
        As for `RandomizedResponseEncoder`.
    instantaneous_epsilon : float, optional
        As for `RandomizedResponseEncoder`: each bit is flipped once more at each report.
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
    RandomizedResponseEncoder : One label a column; less error for few values or a large epsilon.
    SubsetSelectionEncoder : Bits as well, never with a larger error than the optimised bits.

    Notes
    -----
    **Privacy.** As for `RandomizedResponseEncoder`: local model, for each record, under replacement of its values in
    the fitted columns; epsilon as stated by `guarantee_`, ``delta = 0``; each call of `transform` is a new release
    unless it is memoised.

    References
    ----------
    .. [1] T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private protocols for frequency estimation.
       USENIX Security.

    Examples
    --------
    With p = 3/4 and q = 1/4, epsilon is ln 9.

    >>> from skdp import UnaryEncodingTransformer
    >>> from skdp.datasets import load_adult
    >>> adult = load_adult(dropna=True)
    >>> people = adult.data[["occupation"]]
    >>> occupations = adult.domain.select(people.columns)
    >>> encoder = UnaryEncodingTransformer(epsilon=None, p=0.75, q=0.25, categories=occupations, random_state=0)
    >>> bits = encoder.fit_transform(people)
    >>> print(encoder.guarantee_)
    epsilon = 2.19723, local model, replacing one record's values of: occupation, NOT SECURE: ...
    >>> bits.shape, bits.columns[:2].tolist()
    ((30162, 14), ['occupation_Adm-clerical', 'occupation_Armed-Forces'])
    >>> encoder.estimate_counts(bits).loc[["Sales", "Armed-Forces"]].round(0)
                   count  std_error   lower   upper
    occupation
    Sales         3637.0      150.0  3342.0  3932.0
    Armed-Forces    19.0      150.0  -276.0   314.0
    """

    _mechanism = "unary encoding"

    def __init__(
        self,
        epsilon: float | None = 1.0,
        *,
        variant: str = "optimized",
        p: float | None = None,
        q: float | None = None,
        strategy: ReportStrategy = "split",
        shares: Shares = "uniform",
        categories: Categories = "auto",
        handle_unknown: HandleUnknown = "error",
        output: Output = "bits",
        memoize: bool = False,
        secret_key: bytes | None = None,
        instantaneous_epsilon: float | None = None,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.variant = variant
        self.p = p
        self.q = q
        self.strategy = strategy
        self.shares = shares
        self.categories = categories
        self.handle_unknown = handle_unknown
        self.output = output
        self.memoize = memoize
        self.secret_key = secret_key
        self.instantaneous_epsilon = instantaneous_epsilon
        self.ledger = ledger
        self.random_state = random_state

    def _check_epsilon(self) -> Fraction | None:
        return None if self.epsilon is None else super()._check_epsilon()

    def _make_oracle(self, k: int, epsilon: Any) -> UnaryEncoding:
        if self.epsilon is not None and (self.p is not None or self.q is not None):
            raise ValueError("p and q decide epsilon: give either epsilon, or p and q with epsilon=None")
        return UnaryEncoding(k, epsilon, variant=self.variant, p=self.p, q=self.q)
