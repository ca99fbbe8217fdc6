"""The best oracle for each column of a table, from the closed forms."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from skdp.base import HandleUnknown, ReportStrategy, check_choice
from skdp.local._oracle_encoder import Categories, OracleEncoder, Output, Shares
from skdp.local.protocol import ReportProtocol
from skdp.oracles import ORACLES, FrequencyOracle, check_size, choose_oracle, names_with
from skdp.privacy import PrivacyLedger, Shuffled


class FrequencyOracleEncoder(OracleEncoder):
    """Report each column by the oracle with the least error, or by one that is named.

    >>> import pandas as pd
    >>> from skdp import FrequencyOracleEncoder
    >>> domain = {"sex": ["F", "M"], "zip": range(100_000)}
    >>> people = {"sex": ["F", "M"], "zip": [10_001, 94_105]}
    >>> encoder = FrequencyOracleEncoder(2.0, categories=domain).fit(pd.DataFrame(people))
    >>> encoder.oracle_
    ['randomized_response', 'local_hashing']

    Which oracle is best depends on epsilon and on the number of values only: the exact
    mean squared error of each is known in closed form, for all data alike (for Hadamard
    response of several blocks, for uniform data). With a second round of noise, the
    error of both rounds decides. The output columns are those of the oracle: the
    position of the category for randomised response, bits for unary encoding and subset
    selection, seed and bucket for hashing, an index for Hadamard response.

    Parameters
    ----------
    epsilon : float or Shuffled, default=1.0
        Privacy loss of one record over all columns together, > 0.
    oracle : str, default="auto"
        ``"auto"``, or the name of an oracle, such as ``"randomized_response"``,
        ``"subset_selection"``, ``"optimized_unary_encoding"``, ``"local_hashing"`` or
        ``"hadamard_response"``.
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
    instantaneous_epsilon : float, optional
        As for `RandomizedResponseEncoder`, by an oracle that has a second round:
        randomised response, unary encoding and local hashing.
    ledger, random_state : optional
        As for `RandomizedResponseEncoder`.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        What a call of `transform` promises for one record.
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
        epsilon: float | Shuffled = 1.0,
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
        instantaneous_epsilon: float | None = None,
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
        self.instantaneous_epsilon = instantaneous_epsilon
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
            names = _those_of(
                names,
                "has_bits",
                "output='unbiased' needs an oracle with a bit for each value",
            )
        if self.instantaneous_epsilon is not None:
            names = _those_of(
                names,
                "has_second_round",
                "instantaneous_epsilon needs an oracle with a second round",
            )
        return names

    def _choose(self, k: int, epsilon: Any, again: Fraction | None) -> FrequencyOracle:
        limit = self.max_report_bytes if self.oracle == "auto" else None
        name, oracle = choose_oracle(
            k, epsilon, again=again, max_report_bytes=limit, among=self._candidates()
        )
        vars(self).get("_chosen", {})[oracle] = name  # only `fit` needs it
        return oracle

    def _make_oracle(self, k: int, epsilon: Any) -> FrequencyOracle:
        return self._choose(k, epsilon, None)

    def _make_first_round(
        self, k: int, epsilon: Any, again: Fraction
    ) -> FrequencyOracle:
        return self._choose(k, epsilon, again)

    def _set_fitted(self, protocol: ReportProtocol) -> None:
        super()._set_fitted(protocol)
        fields: Any = protocol.fields
        self.oracle_ = [self._chosen[field.first_round] for field in fields]
        del self._chosen  # oracles are equal only if they are the same object
        self.expected_error_ = [oracle.mean_squared_error for oracle in self.oracles_]


def _those_of(names: list[str], ability: str, need: str) -> list[str]:
    able = names_with(ability)
    left = [name for name in names if name in able]
    if not left:
        raise ValueError(f"{need}, one of {able}, got {names[0]!r}")
    return left
