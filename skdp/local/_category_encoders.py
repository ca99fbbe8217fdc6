"""Encoders of categorical columns, one for each type of frequency oracle."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal

from skdp.base import check_choice
from skdp.local._oracle_encoder import (
    Categories,
    HandleUnknown,
    OracleEncoder,
    ReportStrategy,
)
from skdp.local.protocol._protocol import ReportProtocol, make_guarantee
from skdp.oracles import (
    ORACLES,
    FrequencyOracle,
    LocalHashing,
    RandomizedResponse,
    SubsetSelection,
    TwoRoundUnaryEncoding,
    UnaryEncoding,
    choose_oracle,
)
from skdp.privacy import PrivacyLedger, check_epsilon


class RandomizedResponseEncoder(OracleEncoder):
    """Privatize categorical columns with k-ary randomized response.

    A report is the true value with probability
    ``e**epsilon / (e**epsilon + k - 1)``, and otherwise one of the k - 1 other values
    of the domain, chosen uniformly at random [1]_. The output has the columns of the
    input, so that `OneHotEncoder` can follow.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together, > 0.

    categories : "auto", list of array-like, dict or Domain, default="auto"
        Values of each column. A `Domain` may contain further columns, which are
        ignored. "auto" uses the values that a dtype declares and infers all other
        values from the data, with a `PrivacyLeakWarning`. None among the values
        declares missing.

    strategy : {"split", "joint", "sample"}, default="split"
        How epsilon is allocated to the columns.

        - "split" reports each column with a fraction of epsilon.
        - "joint" reports the combination of all columns as one value.
        - "sample" reports one random column per record.

    handle_unknown : {"error", "uniform"} or value, default="error"
        How to handle a value outside the domain. "error" raises `ValueError`, which
        reveals that such a value occurs. "uniform" replaces it by a random value of the
        domain, which biases the estimates toward equal counts. Any other argument must
        be a value of every column, and replaces it.

    memoize : bool, default=False
        If True, a record repeats its report while its value stays the same (permanent
        randomized response). `transform` then requires `person`.

    secret_key : bytes, default=None
        Key of at least 16 bytes, required if ``memoize=True``. Use
        ``SecretKey.generate()``.

    ledger : PrivacyLedger, default=None
        Ledger that is charged with `guarantee_` at each call of `transform`.

    random_state : int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the
        reports are then not private.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        Privacy guarantee of one call of `transform`. If ``memoize=True``, it covers all
        calls while the values stay the same.

    domain_ : Domain
        Domain of the fitted columns.

    categories_ : list of ndarray
        Values of each column, as in `OneHotEncoder`. Bins of an `Interval` are text.

    oracles_ : tuple of RandomizedResponse
        Frequency oracle of each column, or of their combination if
        ``strategy="joint"``.

    protocol_ : ReportProtocol
        Parameters that client and server share.

    See Also
    --------
    UnaryEncodingTransformer : Reports bits; smaller errors for many values.
    FrequencyOracleEncoder : Selects the oracle with the smallest error.
    OnFitOnly : Privatizes the training data only.

    Notes
    -----
    **Privacy.** Local model, for each record, under replacement of its values in the
    fitted columns. Other columns and the row index are not protected. Each call of
    `transform` is a new release unless ``memoize=True``.
    Epsilon is computed from integer probabilities and rounded up; delta is 0.

    References
    ----------
    .. [1] P. Kairouz, S. Oh, P. Viswanath (2016). Extremal mechanisms for local
       differential privacy. Journal of Machine Learning Research 17.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> people = pd.DataFrame({"sex": ["f", "m"] * 500})
    >>> encoder = RandomizedResponseEncoder(
    ...     1.0, categories={"sex": ["f", "m"]}, random_state=0
    ... )
    >>> reports = encoder.fit_transform(people)
    >>> print(encoder.estimate_counts(reports).round())
         count  std_error  lower  upper
    sex
    f    509.0       30.0  449.0  568.0
    m    491.0       30.0  432.0  551.0
    """

    _mechanism = "k-ary randomized response"
    _reports_values = True

    def _make_oracle(self, k: int, epsilon: Any) -> RandomizedResponse:
        return RandomizedResponse(k, epsilon)


class UnaryEncodingTransformer(OracleEncoder):
    """Privatize categorical columns with unary encoding.

    A report has a bit for each category: 1 with probability p for the true category,
    and with probability q for each other category, so that
    ``e**epsilon = p (1 - q) / ((1 - p) q)`` [1]_. The output has a 0/1 column
    ``<column>_<category>`` for each category, and ``<column>_missing`` if missing is
    declared.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together, > 0.

    categories : "auto", list of array-like, dict or Domain, default="auto"
        See `RandomizedResponseEncoder`.

    variant : {"optimized", "symmetric"}, default="optimized"
        Choice of p and q for epsilon. "optimized" (OUE) has p = 1/2 and the smallest
        error for rare values, "symmetric" (SUE) has q = 1 - p. For p = 3/4 and q = 1/4,
        the example of textbooks, set ``variant="symmetric"`` and
        ``epsilon=2 * math.log(3)``.

    instantaneous_epsilon : float, default=None
        Privacy loss of a single report if ``memoize=True``, smaller than epsilon. Each
        release then flips the bits of the permanent report again, with new noise.

    strategy, handle_unknown : optional
        See `RandomizedResponseEncoder`. With ``strategy="sample"``, a record has zeros
        in the columns that it does not report.

    memoize, secret_key : optional
        See `RandomizedResponseEncoder`.

    ledger, random_state : optional
        See `RandomizedResponseEncoder`.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        Privacy guarantee of one call of `transform`. If ``memoize=True``, it covers all
        calls while the values stay the same.

    instantaneous_guarantee_ : PrivacyGuarantee
        Privacy guarantee of a single report. Exists with `instantaneous_epsilon` only.

    domain_ : Domain
        Domain of the fitted columns.

    categories_ : list of ndarray
        Values of each column, as in `OneHotEncoder`. Bins of an `Interval` are text.

    oracles_ : tuple of UnaryEncoding
        Frequency oracle of each column, or of their combination if
        ``strategy="joint"``.

    protocol_ : ReportProtocol
        Parameters that client and server share.

    See Also
    --------
    RandomizedResponseEncoder : Smaller errors for few values or a large epsilon.
    SubsetSelectionEncoder : Bits with errors that are never larger.

    Notes
    -----
    **Privacy.** Local model, for each record, under replacement of its values in the
    fitted columns. Other columns and the row index are not protected. Each call of
    `transform` is a new release unless ``memoize=True``.

    References
    ----------
    .. [1] T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private
       protocols for frequency estimation. USENIX Security.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import UnaryEncodingTransformer
    >>> people = pd.DataFrame({"town": ["A", "B"] * 500})
    >>> encoder = UnaryEncodingTransformer(
    ...     1.0, categories={"town": ["A", "B", "C"]}, random_state=0
    ... )
    >>> reports = encoder.fit_transform(people)
    >>> list(reports)
    ['town_A', 'town_B', 'town_C']
    >>> print(encoder.estimate_counts(reports).round())
          count  std_error  lower  upper
    town
    A     524.0       65.0  397.0  651.0
    B     489.0       65.0  363.0  616.0
    C    -108.0       61.0 -227.0   11.0
    """

    _mechanism = "unary encoding"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        categories: Categories = "auto",
        variant: Literal["optimized", "symmetric"] = "optimized",
        instantaneous_epsilon: float | None = None,
        strategy: ReportStrategy = "split",
        handle_unknown: HandleUnknown = "error",
        memoize: bool = False,
        secret_key: bytes | None = None,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            epsilon,
            categories=categories,
            strategy=strategy,
            handle_unknown=handle_unknown,
            memoize=memoize,
            secret_key=secret_key,
            ledger=ledger,
            random_state=random_state,
        )
        self.variant = variant
        self.instantaneous_epsilon = instantaneous_epsilon

    def _check_parameters(self) -> Fraction:
        epsilon = super()._check_parameters()
        if self.instantaneous_epsilon is None:
            return epsilon
        if not self.memoize:
            raise ValueError(
                "`instantaneous_epsilon` requires memoize=True, got memoize=False."
            )
        name = "instantaneous_epsilon"
        if check_epsilon(self.instantaneous_epsilon, name=name) >= epsilon:
            raise ValueError(
                "`instantaneous_epsilon` must be smaller than epsilon, got "
                f"{self.instantaneous_epsilon} and {self.epsilon}."
            )
        return epsilon

    def _make_oracle(self, k: int, epsilon: Any) -> UnaryEncoding:
        """Make the oracle of k values; with `instantaneous_epsilon`, it has two rounds of noise.

        The first round spends `epsilon` once, for the permanent bits of a record. The
        second round adds fresh noise to these bits, so a single report has only the same
        fraction of `instantaneous_epsilon`.
        """
        oracle = UnaryEncoding(k, epsilon, variant=self.variant)
        if self.instantaneous_epsilon is None:
            return oracle
        fraction = epsilon / check_epsilon(self.epsilon)
        report_epsilon = fraction * check_epsilon(self.instantaneous_epsilon)
        return TwoRoundUnaryEncoding(oracle, report_epsilon)

    def _set_fitted(self, protocol: ReportProtocol) -> None:
        """Set the fitted attributes; with `instantaneous_epsilon`, also the guarantee of a single report.

        A report is permanent bits of the record with fresh noise. `guarantee_` is for
        any number of reports, and `instantaneous_guarantee_` for an attacker who gets
        one report only.
        """
        super()._set_fitted(protocol)
        # Remove the attribute of an earlier fit with other parameters.
        self.__dict__.pop("instantaneous_guarantee_", None)
        if self.instantaneous_epsilon is not None:
            self.instantaneous_guarantee_ = make_guarantee(
                self.oracles_,
                protocol.sampling,
                scope=protocol.columns,
                mechanism=self._mechanism,
                secure=self.random_state is None,
            )


class SubsetSelectionEncoder(OracleEncoder):
    """Privatize categorical columns with subset selection.

    A report is a random set of w of the k categories, where w has the smallest error and is
    near ``k / (e**epsilon + 1)``. A set that contains the true category is ``e**epsilon``
    times as likely as a set that does not [1]_. The output has a 0/1 column
    ``<column>_<category>`` for each category, with w ones in each row.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together, > 0.

    categories : "auto", list of array-like, dict or Domain, default="auto"
        See `RandomizedResponseEncoder`.

    strategy, handle_unknown : optional
        See `RandomizedResponseEncoder`. With ``strategy="sample"``, a record has zeros
        in the columns that it does not report.

    memoize, secret_key, ledger, random_state : optional
        See `RandomizedResponseEncoder`.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        Privacy guarantee of one call of `transform`. If ``memoize=True``, it covers all
        calls while the values stay the same.

    domain_ : Domain
        Domain of the fitted columns.

    categories_ : list of ndarray
        Values of each column, as in `OneHotEncoder`. Bins of an `Interval` are text.

    oracles_ : tuple of SubsetSelection
        Frequency oracle of each column, or of their combination if
        ``strategy="joint"``.

    protocol_ : ReportProtocol
        Parameters that client and server share.

    See Also
    --------
    UnaryEncodingTransformer : Independent bits.

    Notes
    -----
    **Privacy.** Local model, for each record, under replacement of its values in the
    fitted columns. Other columns and the row index are not protected. Each call of
    `transform` is a new release unless ``memoize=True``.

    References
    ----------
    .. [1] M. Ye, A. Barg (2018). Optimal schemes for discrete distribution estimation
       under locally differential privacy. IEEE Transactions on Information Theory
       64(8).

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import SubsetSelectionEncoder
    >>> people = pd.DataFrame({"town": ["A", "B"] * 500})
    >>> encoder = SubsetSelectionEncoder(
    ...     1.0, categories={"town": ["A", "B", "C"]}, random_state=0
    ... )
    >>> reports = encoder.fit_transform(people)
    >>> print(encoder.estimate_counts(reports).round())
          count  std_error  lower  upper
    town
    A     470.0       39.0  393.0  546.0
    B     470.0       39.0  393.0  546.0
    C      61.0       36.0  -10.0  131.0
    """

    _mechanism = "subset selection"

    def _make_oracle(self, k: int, epsilon: Any) -> SubsetSelection:
        return SubsetSelection(k, epsilon)


class LocalHashingEncoder(OracleEncoder):
    """Privatize categorical columns with local hashing.

    A report is the seed of a random hash function, which is public, and the bucket of
    the true value among about ``e**epsilon + 1`` buckets, which have the smallest error
    (OLH), privatized by randomized response [1]_. Reports are
    small for any number k of values. The output has the columns ``<column>_seed`` and
    ``<column>_bucket``. The estimation from n records computes n k hashes.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together, > 0.

    categories : "auto", list of array-like, dict or Domain, default="auto"
        See `RandomizedResponseEncoder`.

    strategy, handle_unknown : optional
        See `RandomizedResponseEncoder`. With ``strategy="sample"``, a record has zeros
        in the columns that it does not report.

    memoize : bool, default=False
        See `RandomizedResponseEncoder`. The hash function of a record and column is
        permanent, and values in the same bucket have the same permanent report [2]_. So
        the privacy loss of all reports of a record is at most g times epsilon.

    secret_key, ledger, random_state : optional
        See `RandomizedResponseEncoder`.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        Privacy guarantee of one call of `transform`. If ``memoize=True``, it covers all
        calls while the values stay the same.

    domain_ : Domain
        Domain of the fitted columns.

    categories_ : list of ndarray
        Values of each column, as in `OneHotEncoder`. Bins of an `Interval` are text.

    oracles_ : tuple of LocalHashing
        Frequency oracle of each column, or of their combination if
        ``strategy="joint"``.

    protocol_ : ReportProtocol
        Parameters that client and server share.

    See Also
    --------
    HeavyHitters : Finds frequent strings of an open vocabulary.

    Notes
    -----
    **Privacy.** Local model, for each record, under replacement of its values in the
    fitted columns. Other columns and the row index are not protected. Each call of
    `transform` is a new release unless ``memoize=True``.

    References
    ----------
    .. [1] T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private
       protocols for frequency estimation. USENIX Security.
    .. [2] H. Arcolezi et al. (2023). Frequency estimation of evolving data under local
       differential privacy. EDBT.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import LocalHashingEncoder
    >>> visits = pd.DataFrame({"page": [7] * 6_000 + [8] * 4_000})
    >>> encoder = LocalHashingEncoder(
    ...     2.0, categories={"page": range(1_000)}, random_state=0
    ... )
    >>> reports = encoder.fit_transform(visits)
    >>> list(reports)
    ['page_seed', 'page_bucket']
    >>> print(encoder.estimate_counts(reports).loc[[7, 8]].round())
           count  std_error   lower   upper
    page
    7     5807.0      112.0  5586.0  6027.0
    8     4031.0      105.0  3825.0  4236.0
    """

    _mechanism = "local hashing"

    def _make_oracle(self, k: int, epsilon: Any) -> LocalHashing:
        return LocalHashing(k, epsilon)


class FrequencyOracleEncoder(OracleEncoder):
    """Privatize categorical columns with the oracle that has the smallest error.

    The mean squared error of an oracle is a closed form of epsilon and the number of
    values, so the choice depends on no data. The columns of the output depend on the
    oracle: the code of the category for randomized response, bits for unary encoding
    and subset selection, seed and bucket for local hashing.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together, > 0.

    categories : "auto", list of array-like, dict or Domain, default="auto"
        See `RandomizedResponseEncoder`.

    oracle : str, default="auto"
        Name of the oracle of all columns: "randomized_response", "subset_selection",
        "optimized_unary_encoding", "symmetric_unary_encoding" or
        "local_hashing". "auto" selects the oracle of each column among those with
        reports of at most 1,024 bytes.

    strategy, handle_unknown : optional
        See `RandomizedResponseEncoder`. With ``strategy="sample"``, a record has zeros
        in the columns that it does not report.

    memoize : bool, default=False
        See `RandomizedResponseEncoder` and, for columns with local hashing,
        `LocalHashingEncoder`. Permanent reports change if another oracle is selected.

    secret_key, ledger, random_state : optional
        See `RandomizedResponseEncoder`.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        Privacy guarantee of one call of `transform`. If ``memoize=True``, it covers all
        calls while the values stay the same.

    domain_ : Domain
        Domain of the fitted columns.

    categories_ : list of ndarray
        Values of each column, as in `OneHotEncoder`. Bins of an `Interval` are text.

    oracles_ : tuple of FrequencyOracle
        Frequency oracle of each column, or of their combination if
        ``strategy="joint"``.

    protocol_ : ReportProtocol
        Parameters that client and server share.

    oracle_ : list of str
        Name of the oracle of each attribute.

    expected_error_ : list of float
        Mean over the values of an attribute of n times the variance of an estimated
        frequency.

    See Also
    --------
    LocalTableEncoder.plan : Compares strategies before data are collected.

    Notes
    -----
    **Privacy.** Local model, for each record, under replacement of its values in the
    fitted columns. Other columns and the row index are not protected. Each call of
    `transform` is a new release unless ``memoize=True``.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import FrequencyOracleEncoder
    >>> domain = {"sex": ["F", "M"], "zip": range(100_000)}
    >>> people = {"sex": ["F", "M"], "zip": [10_001, 94_105]}
    >>> encoder = FrequencyOracleEncoder(2.0, categories=domain)
    >>> encoder.fit(pd.DataFrame(people)).oracle_
    ['randomized_response', 'local_hashing']
    """

    _mechanism = "frequency oracle"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        categories: Categories = "auto",
        oracle: str = "auto",
        strategy: ReportStrategy = "split",
        handle_unknown: HandleUnknown = "error",
        memoize: bool = False,
        secret_key: bytes | None = None,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            epsilon,
            categories=categories,
            strategy=strategy,
            handle_unknown=handle_unknown,
            memoize=memoize,
            secret_key=secret_key,
            ledger=ledger,
            random_state=random_state,
        )
        self.oracle = oracle

    def _check_parameters(self) -> Fraction:
        check_choice("oracle", self.oracle, ("auto", *ORACLES))
        return super()._check_parameters()

    def _make_fields(self, *args: Any) -> Any:
        # The name of each oracle, until `_set_fitted` sets the fitted attributes.
        self._names: dict[FrequencyOracle, str] = {}
        return super()._make_fields(*args)

    def _make_oracle(self, k: int, epsilon: Any) -> FrequencyOracle:
        """Make the oracle of k values: the chosen one, or with "auto" the oracle with the smallest error."""
        if self.oracle == "auto":
            name, oracle = choose_oracle(k, epsilon)
        else:
            name, oracle = self.oracle, ORACLES[self.oracle](k, epsilon)
        self._names[oracle] = name
        return oracle

    def _set_fitted(self, protocol: ReportProtocol) -> None:
        """Set the fitted attributes: also the name and the mean squared error of each oracle."""
        super()._set_fitted(protocol)
        self.oracle_ = [self._names[oracle] for oracle in self.oracles_]
        del self._names
        self.expected_error_ = [oracle.mean_squared_error for oracle in self.oracles_]
