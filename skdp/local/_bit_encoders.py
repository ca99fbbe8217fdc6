"""The encoders that report bits: unary encoding and subset selection."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal

from skdp.base import HandleUnknown, ReportStrategy
from skdp.local._oracle_encoder import Categories, OracleEncoder, Output, Shares
from skdp.oracles import SubsetSelection, UnaryEncoding
from skdp.privacy import PrivacyLedger, Shuffled


class UnaryEncodingTransformer(OracleEncoder):
    """Report a random bit for each category: less error than labels if there are many.

    >>> import pandas as pd
    >>> from skdp import UnaryEncodingTransformer
    >>> people = pd.DataFrame({"town": ["A", "B"] * 500})
    >>> encoder = UnaryEncodingTransformer(1.0, categories={"town": list("ABCDEF")})
    >>> counts = encoder.estimate_counts(encoder.fit_transform(people))

    The bit of the true category is 1 with probability p, every other bit with
    probability q, so that ``e^eps = p (1 - q) / ((1 - p) q)`` ([1]_). The output has
    one 0/1 column a category, ``<column>_<category>``, and ``<column>_missing`` where
    missing is declared.

    Parameters
    ----------
    epsilon : float, Shuffled or None, default=1.0
        Privacy loss of one record over all columns together, > 0; None with p and q.
    variant : {"optimized", "symmetric"}, default="optimized"
        How epsilon becomes p and q. ``"optimized"`` (OUE) has p = 1/2 and the least
        error for rare values, ``"symmetric"`` (SUE) has q = 1 - p.
    p, q : float, optional
        The two probabilities, 0 < q < p < 1, for every column; they decide epsilon.
    strategy, shares, categories, handle_unknown : optional
        As for `RandomizedResponseEncoder`; under "sample" the columns that a record
        does not report hold zeros.
    output : {"bits", "unbiased"}, default="bits"
        ``"unbiased"`` gives ``(bit - q) / (p - q)`` instead of the bits: features whose
        column means are the estimated frequencies.
    memoize, secret_key, instantaneous_epsilon, ledger, random_state : optional
        As for `RandomizedResponseEncoder`; a second round flips each bit once more.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        What a call of `transform` promises for one record.
    domain_ : Domain
        The declared values of each column.
    oracles_ : tuple of UnaryEncoding
        The mechanism of each column, or of all ("joint").

    See Also
    --------
    RandomizedResponseEncoder : Less error for few values or a large epsilon.
    SubsetSelectionEncoder : Bits as well, never with a larger error.

    Notes
    -----
    **Privacy.** Local model: for each record, under replacement of its values in the
    fitted columns. Each `transform` is a new release unless it is memoised. The guide
    page "What all encoders share" explains the parameters and what is not covered.

    References
    ----------
    .. [1] T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private
       protocols for frequency estimation. USENIX Security.
    """

    _mechanism = "unary encoding"

    def __init__(
        self,
        epsilon: float | Shuffled | None = 1.0,
        *,
        variant: Literal["optimized", "symmetric"] = "optimized",
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
    """Report a random set of categories, which mostly holds the true one: least error.

    >>> import pandas as pd
    >>> from skdp import SubsetSelectionEncoder
    >>> people = pd.DataFrame({"town": ["A", "B"] * 500})
    >>> encoder = SubsetSelectionEncoder(1.0, categories={"town": list("ABCDEF")})
    >>> counts = encoder.estimate_counts(encoder.fit_transform(people))

    Of k categories, w are reported; a set that holds the true one is e^eps times
    likelier than one that does not ([1]_). The output has one 0/1 column a category,
    ``<column>_<category>``, with w ones in each row. It is bits, as a list in the order
    of drawing would show which member is true.

    Parameters
    ----------
    epsilon : float or Shuffled, default=1.0
        Privacy loss of one record over all columns together, > 0.
    subset_size : int, optional
        The size w of the sets; by default the best one, near k / (e^eps + 1).
    strategy, shares, categories, handle_unknown : optional
        As for `RandomizedResponseEncoder`; under "sample" the columns that a record
        does not report hold zeros.
    output : {"bits", "unbiased"}, default="bits"
        As for `UnaryEncodingTransformer`.
    memoize, secret_key, ledger, random_state : optional
        As for `RandomizedResponseEncoder`.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        What a call of `transform` promises for one record.
    domain_ : Domain
        The declared values of each column.
    oracles_ : tuple of SubsetSelection
        The mechanism of each column, or of all ("joint").

    See Also
    --------
    UnaryEncodingTransformer : Independent bits.

    Notes
    -----
    **Privacy.** Local model: for each record, under replacement of its values in the
    fitted columns. Each `transform` is a new release unless it is memoised. The guide
    page "What all encoders share" explains the parameters and what is not covered.

    References
    ----------
    .. [1] M. Ye, A. Barg (2018). Optimal schemes for discrete distribution estimation
       under locally differential privacy. IEEE Transactions on Information Theory 64(8).
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
