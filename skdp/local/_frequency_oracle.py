"""The best oracle for each column of a table."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Self

from skdp.local._report_columns import ReportColumns
from skdp.oracles import ORACLES, FrequencyOracle, check_size, choose_oracle
from skdp.privacy import PrivacyLedger


class FrequencyOracleEncoder(ReportColumns):
    """Report each column by the oracle with the least error, or by one that is named.

    Which oracle is best depends on epsilon and on the number of values only: the exact mean squared error of each is
    known in closed form, for all data alike (for Hadamard response of several blocks, for uniform data).

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together; finite and > 0.
    oracle : str, default="auto"
        ``"auto"``, or one of ``"randomized_response"``, ``"subset_selection"``, ``"optimized_unary_encoding"``,
        ``"symmetric_unary_encoding"``, ``"threshold_unary_encoding"``, ``"local_hashing"``,
        ``"binary_local_hashing"``, ``"hadamard_response"``, ``"count_mean_sketch"``.
    max_report_bytes : int or None, default=1024
        With "auto", only oracles whose report of a column fits into so many bytes, bits packed, are considered; None
        for no limit. The columns of the output are wider: a byte for each bit, eight for a seed.
    strategy : {"split", "joint", "sample"}, default="split"
        As for `RandomizedResponseEncoder`; under "sample" the columns that a record does not report hold zeros.
    shares : "uniform", "proportional" or mapping, default="uniform"
        As for `RandomizedResponseEncoder`.
    categories : "auto", list of array-like, mapping or Domain, default="auto"
        As for `RandomizedResponseEncoder`.
    handle_unknown : {"error", "uniform"} or a declared value, default="error"
        As for `RandomizedResponseEncoder`.
    ledger : PrivacyLedger, optional
        Charged with `guarantee_` at each call of `transform`, before any coin is drawn.
    random_state : int, optional
        None draws secure coins. An int gives a reproducible stream, for tests and experiments only.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        What a call of `transform` promises for one record, computed from the integer probabilities and rounded up.
    domain_ : Domain
        The declared values of every column.
    categories_ : list of ndarray
        The same as a list.
    oracles_ : tuple of FrequencyOracle
        The protocol of each attribute.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Their names, if X had string names.

    Raises
    ------
    TypeError, ValueError
        By `fit`, for a parameter out of range or a domain that does not fit.
    oracle_ : list of str
        The name of the oracle of each attribute.
    expected_error_ : list of float
        For each attribute, the mean over its values of n times the variance of an estimated frequency.

    See Also
    --------
    recommend_strategy : Whether to report columns jointly, apart, or one of them.

    Notes
    -----
    **Privacy.** Local model: holds against whoever receives the output, for each record, under replacement of the
    record's values in the fitted columns; epsilon as stated by `guarantee_`, ``delta = 0``. `fit` reads column names
    and dtypes, and the data only where ``categories="auto"`` finds no declared dtype. Every call of `transform` is a
    new release. Other columns of the same person are not in the output, are not protected, and may reveal these ones;
    the row index passes through.

    The output columns are those of the oracle: whole numbers (the position of the category) for randomised response,
    bits for unary encoding and subset selection, seed and bucket for hashing, function and index for the sketch, an
    index for Hadamard response.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import FrequencyOracleEncoder
    >>> people = pd.DataFrame({"sex": ["F", "M"], "zip": [10_001, 94_105]})
    >>> encoder = FrequencyOracleEncoder(2.0, categories={"sex": ["F", "M"], "zip": range(100_000)}).fit(people)
    >>> encoder.oracle_
    ['randomized_response', 'local_hashing']
    """

    _mechanism = "frequency oracle"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        oracle: str = "auto",
        max_report_bytes: int | None = 1024,
        strategy: str = "split",
        shares: Any = "uniform",
        categories: Any = "auto",
        handle_unknown: Any = "error",
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
        self.ledger = ledger
        self.random_state = random_state

    def _check_parameters(self) -> Fraction | None:
        if not isinstance(self.oracle, str) or (self.oracle != "auto" and self.oracle not in ORACLES):
            raise ValueError(f"oracle must be one of {('auto', *ORACLES)}, got {self.oracle!r}")
        if self.max_report_bytes is not None:
            check_size(self.max_report_bytes, least=1, name="max_report_bytes")
        self._chosen: list[str] = []
        return super()._check_parameters()

    def _make_oracle(self, k: int, epsilon: Any) -> FrequencyOracle:
        if self.oracle == "auto":
            name, oracle = choose_oracle(k, epsilon, max_report_bytes=self.max_report_bytes)
        else:
            name, oracle = self.oracle, ORACLES[self.oracle](k, epsilon)
        self._chosen.append(name)
        return oracle

    def fit(self, X: Any, y: Any = None) -> Self:  # numpydoc ignore=GL08
        super().fit(X, y)
        self.oracle_ = self._chosen
        self.expected_error_ = [oracle.mean_squared_error for oracle in self.oracles_]
        return self

    fit.__doc__ = ReportColumns.fit.__doc__
