"""The encoders that report bits: unary encoding and subset selection."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal

from skdp.local._oracle_encoder import Categories, OracleEncoder, Output, Shares
from skdp.oracles import SubsetSelection, UnaryEncoding
from skdp.privacy import PrivacyLedger, Shuffled
from skdp.typing import HandleUnknown, ReportStrategy


class UnaryEncodingTransformer(OracleEncoder):
    """Report a randomised bit for each category: less error than randomised response when a column has many values.

    The bit of the true category is 1 with probability p, every other bit with probability q, so that
    ``e^eps = p (1 - q) / ((1 - p) q)`` ([1]_). The output has one 0/1 column a category, ``<column>_<category>``
    (``<column>_missing`` where missing is declared).

    Parameters
    ----------
    epsilon : float, Shuffled or None, default=1.0
        Privacy loss of one record over all columns together; finite and > 0. None if p and q are given.
    variant : {"optimized", "symmetric", "threshold"}, default="optimized"
        How epsilon becomes p and q: ``"optimized"`` (OUE) has p = 1/2 and the least error for rare values,
        ``"symmetric"`` (SUE) has q = 1 - p, ``"threshold"`` (THE) thresholds Laplace noise.
    p, q : float, optional
        The two probabilities themselves, 0 < q < p < 1, for every column; then epsilon must be None, and follows.
    strategy, shares, categories, handle_unknown : optional
        As for `RandomizedResponseEncoder`; under "sample" the columns that a record does not report hold zeros.
    output : {"bits", "unbiased"}, default="bits"
        ``"unbiased"`` gives ``(bit - q) / (p - q)`` instead of the bits: a feature matrix whose column means are the
        estimated frequencies.
    memoize, secret_key : optional
        As for `RandomizedResponseEncoder`.
    instantaneous_epsilon : float, optional
        As for `RandomizedResponseEncoder`: each bit is flipped once more at each report.
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
        epsilon: float | Shuffled | None = 1.0,
        *,
        variant: Literal["optimized", "symmetric", "threshold"] = "optimized",
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
            raise ValueError(
                "p and q decide epsilon: give either epsilon, or p and q with epsilon=None"
            )
        return UnaryEncoding(k, epsilon, variant=self.variant, p=self.p, q=self.q)


class SubsetSelectionEncoder(OracleEncoder):
    """Report a random set of categories, which holds the true one more often than not: the least error of all.

    Of k categories, w are reported; a set that holds the true one is e^eps times likelier than one that does not
    ([1]_). The output has one 0/1 column a category, ``<column>_<category>``, with w ones in each row.

    Parameters
    ----------
    epsilon : float or Shuffled, default=1.0
        Privacy loss of one record over all columns together; finite and > 0.
    subset_size : int, optional
        The size w of the sets of every column; by default the best one, near k / (e^eps + 1).
    strategy, shares, categories, handle_unknown : optional
        As for `RandomizedResponseEncoder`; under "sample" the columns that a record does not report hold zeros.
    output : {"bits", "unbiased"}, default="bits"
        As for `UnaryEncodingTransformer`.
    memoize, secret_key, ledger, random_state : optional
        As for `RandomizedResponseEncoder`.

    Attributes
    ----------
    guarantee_, domain_, categories_, oracles_, permanent_oracles_, n_features_in_, feature_names_in_
        As for `RandomizedResponseEncoder`.

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
        epsilon: float | Shuffled = 1.0,
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
