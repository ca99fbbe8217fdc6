"""The encoders: what each of them reports, its parameters, and its oracle."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal

from skdp.base import HandleUnknown, ReportStrategy, check_choice
from skdp.local._oracle_encoder import Categories, OracleEncoder, Output, Shares
from skdp.local.protocol import ReportProtocol
from skdp.oracles import (
    ORACLES,
    FrequencyOracle,
    LocalHashing,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
    check_size,
    choose_oracle,
)
from skdp.privacy import PrivacyLedger


class RandomizedResponseEncoder(OracleEncoder):
    """Randomise each value: a record reveals little, and counts can be estimated.

    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> people = pd.DataFrame({"sex": ["f", "m"] * 500})
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]})
    >>> counts = encoder.estimate_counts(encoder.fit_transform(people))

    A report is the true value with probability ``e^eps / (e^eps + k - 1)``, otherwise
    one of the k - 1 other declared values, each equally likely ([1]_). The output has
    the columns and names of the input, so that `OneHotEncoder` can follow.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together, > 0.
    strategy : {"split", "joint", "sample"}, default="split"
        Whether columns share epsilon, are one attribute, or a record draws one of them.
    shares : "uniform", "proportional" or mapping, default="uniform"
        How "split" divides epsilon among the columns.
    categories : "auto", list of array-like, mapping or Domain, default="auto"
        The values of each column; "auto" takes those that a dtype declares, and reads
        the data of other columns, with a `PrivacyLeakWarning`.
    handle_unknown : {"error", "uniform"} or a declared value, default="error"
        What replaces a value that is not declared; an error shows that one occurs.
    memoize : bool, default=False
        Whether a record repeats its report; `transform` then needs ``record_id``.
    secret_key : bytes, optional
        With `memoize`, such as ``SecretKey.generate()``: at least 16 bytes.
    ledger : PrivacyLedger, optional
        Charged with `guarantee_` at each call of `transform`, before any draw.
    random_state : int, optional
        None is secure. An int is reproducible, and not private: for tests only.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        The guarantee of one call of `transform` for one record.
    domain_ : Domain
        The declared values of each column.
    oracles_ : tuple of RandomizedResponse
        The mechanism of each column, or of all ("joint").

    See Also
    --------
    UnaryEncodingTransformer : Less error if a column has many values.

    Notes
    -----
    **Privacy.** Local model: for each record, under replacement of its values in the
    fitted columns. Each `transform` is a new release unless it is memoised. The guide
    page "What all encoders share" explains the parameters and what is not covered.

    References
    ----------
    .. [1] P. Kairouz, S. Oh, P. Viswanath (2016). Extremal mechanisms for local
       differential privacy. JMLR 17.
    """

    _mechanism = "k-ary randomised response"
    _reports_values = True

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
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
        self.strategy = strategy
        self.shares = shares
        self.categories = categories
        self.handle_unknown = handle_unknown
        self.memoize = memoize
        self.secret_key = secret_key
        self.ledger = ledger
        self.random_state = random_state

    def _make_oracle(self, k: int, epsilon: Any) -> RandomizedResponse:
        return RandomizedResponse(k, epsilon)


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
    epsilon : float or None, default=1.0
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
    memoize, secret_key : optional
        As for `RandomizedResponseEncoder`.
    instantaneous_epsilon : float, optional
        With `memoize`: the privacy loss of a single report, less than epsilon. A second
        round flips each permanent bit anew in each report.
    ledger, random_state : optional
        As for `RandomizedResponseEncoder`.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        The guarantee of one call of `transform` for one record.
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
        epsilon: float | None = 1.0,
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
                "p and q decide epsilon: give either epsilon, or p and q with "
                "epsilon=None"
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
    epsilon : float, default=1.0
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
        The guarantee of one call of `transform` for one record.
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
       under locally differential privacy. IEEE Transactions on Information Theory
       64(8).
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
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together, > 0.
    n_buckets : int, optional
        The number g of buckets; 2 is binary local hashing (BLH). By default the one
        with the least error, near e^eps + 1 (OLH).
    strategy, shares, categories, handle_unknown : optional
        As for `RandomizedResponseEncoder`; under "sample" the columns that a record
        does not report hold zeros.
    memoize : bool, default=False
        As for `RandomizedResponseEncoder`, with buckets for values: the seed is a
        function of key, record and column, and the values of a bucket share a permanent
        report ([2]_). All permanent reports of a record cost at most g times epsilon.
    secret_key : bytes, optional
        As for `RandomizedResponseEncoder`.
    ledger, random_state : optional
        As for `RandomizedResponseEncoder`.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        The guarantee of one call of `transform` for one record.
    domain_ : Domain
        The declared values of each column.
    oracles_ : tuple of LocalHashing
        The mechanism of each column, or of all ("joint").

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
        epsilon: float = 1.0,
        *,
        n_buckets: int | None = None,
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
        self.n_buckets = n_buckets
        self.strategy = strategy
        self.shares = shares
        self.categories = categories
        self.handle_unknown = handle_unknown
        self.memoize = memoize
        self.secret_key = secret_key
        self.ledger = ledger
        self.random_state = random_state

    def _make_oracle(self, k: int, epsilon: Any) -> LocalHashing:
        return LocalHashing(k, epsilon, n_buckets=self.n_buckets)


class FrequencyOracleEncoder(OracleEncoder):
    """Report each column by the oracle with the least error, or by one that is named.

    >>> import pandas as pd
    >>> from skdp import FrequencyOracleEncoder
    >>> domain = {"sex": ["F", "M"], "zip": range(100_000)}
    >>> people = {"sex": ["F", "M"], "zip": [10_001, 94_105]}
    >>> encoder = FrequencyOracleEncoder(2.0, categories=domain)
    >>> encoder.fit(pd.DataFrame(people)).oracle_
    ['randomized_response', 'local_hashing']

    Which oracle is best depends on epsilon and on the number of values only: the exact
    mean squared error of each is known in closed form, for all data alike. The output
    columns are those of the oracle: the position of the category for randomised
    response, bits for unary encoding and subset selection, seed and bucket for hashing.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together, > 0.
    oracle : str, default="auto"
        ``"auto"``, or the name of an oracle, such as ``"randomized_response"``,
        ``"subset_selection"``, ``"optimized_unary_encoding"`` or
        ``"local_hashing"``.
    max_report_bytes : int or None, default=1024
        With "auto", the most bytes of a report of a column, bits packed; None for no
        limit. The columns of the output are wider: a byte a bit, eight for a seed.
    strategy, shares, categories, handle_unknown : optional
        As for `RandomizedResponseEncoder`; under "sample" the columns that a record
        does not report hold zeros.
    output : {"bits", "unbiased"}, default="bits"
        ``"bits"``: the reports as they are, bits or not. ``"unbiased"``: features as of
        `UnaryEncodingTransformer`, by an oracle with a bit for each value.
    memoize : bool, default=False
        As for `RandomizedResponseEncoder` (where a column is hashed, read "buckets" for
        "values"). What changes the choice of the oracle draws permanent reports again.
    secret_key : bytes, optional
        As for `RandomizedResponseEncoder`.
    ledger, random_state : optional
        As for `RandomizedResponseEncoder`.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        The guarantee of one call of `transform` for one record.
    domain_ : Domain
        The declared values of each column.
    oracle_ : list of str
        The name of the oracle of each attribute.
    oracles_ : tuple of FrequencyOracle
        The oracle of each column, or of all ("joint").
    expected_error_ : list of float
        For each attribute, the mean over its values of n times the variance of an
        estimated frequency.

    See Also
    --------
    recommend_plan : Whether to report columns jointly, apart, or some of them.

    Notes
    -----
    **Privacy.** Local model: for each record, under replacement of its values in the
    fitted columns. Each `transform` is a new release unless it is memoised. The guide
    page "What all encoders share" explains the parameters and what is not covered.
    """

    _mechanism = "frequency oracle"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        oracle: str = "auto",
        max_report_bytes: int | None = 1024,
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
        self.oracle = oracle
        self.max_report_bytes = max_report_bytes
        self.strategy = strategy
        self.shares = shares
        self.categories = categories
        self.handle_unknown = handle_unknown
        self.output = output
        self.memoize = memoize
        self.secret_key = secret_key
        self.ledger = ledger
        self.random_state = random_state

    def _check_parameters(self) -> Fraction | None:
        epsilon = super()._check_parameters()
        check_choice("oracle", self.oracle, ("auto", *ORACLES))
        if self.max_report_bytes is not None:
            check_size(self.max_report_bytes, least=1, name="max_report_bytes")
        self._candidates()
        self._chosen: dict[FrequencyOracle, str] = {}
        return epsilon

    def _candidates(self) -> list[str]:
        """Name the oracles that can do what is asked for."""
        names = [*ORACLES] if self.oracle == "auto" else [self.oracle]
        if self.output == "unbiased":
            names = [name for name in names if ORACLES[name](2, 1.0).has_bits]
            if not names:
                raise ValueError(
                    "output='unbiased' requires an oracle with a bit for each value, "
                    f"got oracle={self.oracle!r}. Use 'subset_selection'."
                )
        return names

    def _make_oracle(self, k: int, epsilon: Any) -> FrequencyOracle:
        # An oracle that is named is taken at any size.
        limit = self.max_report_bytes if self.oracle == "auto" else None
        name, oracle = choose_oracle(
            k, epsilon, max_report_bytes=limit, among=self._candidates()
        )
        # Only `fit` needs the names, and sets the attribute.
        vars(self).get("_chosen", {})[oracle] = name
        return oracle

    def _set_fitted(self, protocol: ReportProtocol) -> None:
        super()._set_fitted(protocol)
        fields: Any = protocol.fields
        self.oracle_ = [self._chosen[field.first_round] for field in fields]
        # Oracles are equal only if they are the same object: copies are not found.
        del self._chosen
        self.expected_error_ = [oracle.mean_squared_error for oracle in self.oracles_]
