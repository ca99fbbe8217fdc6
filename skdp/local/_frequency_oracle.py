"""The best oracle for each column of a table, and the best strategy for several columns, from the closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from skdp.base import check_choice, read_domain
from skdp.domain import Domain, DomainLike
from skdp.frames import is_frame, read_table
from skdp.local._oracle_encoder import Categories, OracleEncoder, Output, Shares, attribute_epsilons
from skdp.local.protocol import OracleProtocol, margin_error
from skdp.oracles import ORACLES, FrequencyOracle, check_size, choose_oracle, names_with
from skdp.privacy import PrivacyLedger, Shuffled, check_epsilon
from skdp.typing import HandleUnknown, ReportStrategy, TableLike

Target: TypeAlias = Literal["joint", "margins"]


class FrequencyOracleEncoder(OracleEncoder):
    """Report each column by the oracle with the least error, or by one that is named.

    Which oracle is best depends on epsilon and on the number of values only: the exact mean squared error of each is
    known in closed form, for all data alike (for Hadamard response of several blocks, for uniform data). With a second
    round of noise, it is the error of both rounds that decides.

    Parameters
    ----------
    epsilon : float or Shuffled, default=1.0
        Privacy loss of one record over all columns together; finite and > 0.
    oracle : str, default="auto"
        ``"auto"``, or a name of `skdp.oracles.ORACLES`, such as ``"randomized_response"``, ``"subset_selection"``,
        ``"optimized_unary_encoding"``, ``"local_hashing"``, ``"hadamard_response"`` or ``"count_mean_sketch"``.
    max_report_bytes : int or None, default=1024
        With "auto", only oracles whose report of a column fits into this many bytes, bits packed, are considered; None
        for no limit. The columns of the output are wider: a byte for each bit, eight for a seed.
    strategy, shares, categories, handle_unknown : optional
        As for `RandomizedResponseEncoder`; under "sample" the columns that a record does not report hold zeros.
    output : {"bits", "unbiased"}, default="bits"
        ``"bits"``: the reports as they are, bits or not. ``"unbiased"``: a feature matrix with a column a category, as
        for `UnaryEncodingTransformer`. It needs an oracle with a bit for each value, so "auto" considers subset
        selection and unary encoding only; with sets of one value the former is randomised response.
    memoize : bool, default=False
        As for `RandomizedResponseEncoder`; every oracle can be memoised, subset selection at the least time. The oracle
        is part of what permanent reports depend on: what changes the choice draws them again.
    secret_key : bytes, optional
        As for `RandomizedResponseEncoder`.
    instantaneous_epsilon : float, optional
        As for `RandomizedResponseEncoder`. A second round is known for randomised response, unary encoding and local
        hashing, so "auto" considers these only.
    ledger, random_state : optional
        As for `RandomizedResponseEncoder`.

    Attributes
    ----------
    oracle_ : list of str
        The name of the oracle of each attribute.
    expected_error_ : list of float
        For each attribute, the mean over its values of n times the variance of an estimated frequency. A count-mean
        sketch adds up to n times ``oracles_[i].error_floor``, for its collisions; the standard errors of
        `estimate_counts` have them.
    guarantee_, instantaneous_guarantee_, domain_, categories_, oracles_, permanent_oracles_
        As for `RandomizedResponseEncoder`.
    n_features_in_, feature_names_in_
        As for `RandomizedResponseEncoder`.

    Raises
    ------
    TypeError, ValueError
        By `fit`, for a parameter out of range, a domain that does not fit, or an oracle that has no bits or no second
        round where one is asked for.

    See Also
    --------
    recommend_strategy : Whether to report columns jointly, apart, or one of them.

    Notes
    -----
    **Privacy.** As for `RandomizedResponseEncoder`: local model, for each record, under replacement of its values in
    the fitted columns; epsilon as stated by `guarantee_`, ``delta = 0``; each call of `transform` is a new release
    unless it is memoised. Where a column is hashed, read "buckets" for "values" in repeated collection.

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
            names = _those_of(names, "has_bits", "output='unbiased' needs an oracle with a bit for each value")
        if self.instantaneous_epsilon is not None:
            names = _those_of(names, "has_second_round", "instantaneous_epsilon needs an oracle with a second round")
        return names

    def _choose(self, k: int, epsilon: Any, again: Fraction | None) -> FrequencyOracle:
        limit = self.max_report_bytes if self.oracle == "auto" else None
        name, oracle = choose_oracle(k, epsilon, again=again, max_report_bytes=limit, among=self._candidates())
        vars(self).get("_chosen", {})[oracle] = name  # only `fit` needs it
        return oracle

    def _make_oracle(self, k: int, epsilon: Any) -> FrequencyOracle:
        return self._choose(k, epsilon, None)

    def _make_first_round(self, k: int, epsilon: Any, again: Fraction) -> FrequencyOracle:
        return self._choose(k, epsilon, again)

    def _set_fitted(self, protocol: OracleProtocol) -> None:
        super()._set_fitted(protocol)
        self.oracle_ = [self._chosen[oracle] for oracle in protocol.permanent or protocol.oracles]
        del self._chosen  # oracles are equal only if they are the same object
        self.expected_error_ = [oracle.mean_squared_error for oracle in self.oracles_]


def _those_of(names: list[str], ability: str, need: str) -> list[str]:
    able = names_with(ability)
    left = [name for name in names if name in able]
    if not left:
        raise ValueError(f"{need}, one of {able}, got {names[0]!r}")
    return left


def recommend_strategy(
    domain: DomainLike | TableLike,
    epsilon: float,
    *,
    target: Target = "joint",
    oracle: str = "auto",
    shares: Shares = "uniform",
) -> pd.DataFrame:
    """Compare the expected errors of reporting columns jointly, apart, or one of them.

    Parameters
    ----------
    domain : Domain, mapping, list of array-like, or dataframe
        The columns and their values, as the `categories` of an encoder. A dataframe stands for ``categories="auto"``:
        its dtypes declare them, or they are read from the data with a warning.
    epsilon : float
        The privacy loss of a record over all columns.
    target : {"joint", "margins"}, default="joint"
        What is wanted: the frequencies of all combinations of values, or those of each column.
    oracle : str, default="auto"
        The oracle, as for `FrequencyOracleEncoder`; "auto" takes the best one for each attribute, of any report size.
    shares : "uniform", "proportional" or mapping, default="uniform"
        How "split" divides epsilon.

    Returns
    -------
    pandas.DataFrame
        A row a strategy, the best one first: ``oracles`` (which), ``error``, the mean over the cells of n times the
        variance of a frequency, ``error_floor``, the part of the mean squared error that does not fall with n,
        ``reason``, and under "margins" the error for each column. The error is the same for all data, but for "sample",
        whose sampling error is that of uniform data. Joint frequencies cannot be had from "sample": nan. The floor is 0
        but for "count_mean_sketch", whose hash functions are shared: it is that of records that are all equal, the
        worst data, and the mean squared error of a frequency is up to ``error / n + error_floor``. The order is that of
        ``error``; with very many reports, the floor decides.

    Warns
    -----
    PrivacyLeakWarning
        If categories are read from the data of a dataframe.

    See Also
    --------
    recommend_plan : The same for tables with numbers, with weights, groups of columns, and reasons.

    Notes
    -----
    **Privacy.** Computed from the domain alone, which is public if it is declared.

    Under "split", the mean square of a joint cell is the product of those of its columns. A margin of joint reports is
    the sum of a slice of cells, whose covariances are counted too.

    Examples
    --------
    >>> from skdp import Domain, recommend_strategy
    >>> domain = Domain({"sex": ["F", "M"], "job": range(5)})
    >>> recommend_strategy(domain, 1.0, oracle="randomized_response")[["error"]].round(1)
              error
    strategy
    joint       4.1
    split      53.7
    sample      NaN
    """
    domain = declared_domain_of(domain)
    if target not in get_args(Target):
        raise ValueError(f"target must be 'joint' or 'margins', got {target!r}")
    make = _maker(oracle)
    whole = check_epsilon(epsilon)
    rows = [
        _joint(domain, whole, target, make),
        _split(domain, whole, target, make, shares),
        _sample(domain, whole, target, make),
    ]
    table = pd.DataFrame(rows).set_index("strategy")
    return table.sort_values("error", kind="stable")


def declared_domain_of(declared: Any) -> Domain:
    """Return the domain that is declared in one of several forms."""
    if isinstance(declared, Domain):
        return declared
    if isinstance(declared, Mapping):
        return Domain(declared)
    if isinstance(declared, str):
        raise ValueError(
            f"domain must be a declaration or a dataframe, got {declared!r}: which table to read is unknown"
        )
    if isinstance(declared, Sequence | np.ndarray):
        return Domain({f"x{place}": values for place, values in enumerate(declared)})
    if is_frame(declared):
        return read_domain(read_table(declared), "auto", name="domain")
    raise TypeError(f"domain must be a Domain, mapping, list or dataframe, got {type(declared).__name__}")


def _maker(oracle: str) -> Callable[[int, Any], tuple[str, FrequencyOracle]]:
    if isinstance(oracle, str) and oracle == "auto":
        return choose_oracle
    if not isinstance(oracle, str) or oracle not in ORACLES:
        raise ValueError(f"oracle must be one of {('auto', *ORACLES)}, got {oracle!r}")
    return lambda k, epsilon: (oracle, ORACLES[oracle](k, epsilon))


def _row(
    strategy: str,
    names: Sequence[str],
    domain: Domain,
    errors: list[float],
    floors: list[float],
    target: str,
    reason: str,
) -> dict[str, Any]:
    row: dict[str, Any] = {"strategy": strategy, "oracles": ", ".join(names)}
    if target == "joint":
        return row | {"error": errors[0], "error_floor": floors[0], "reason": reason}
    error, floor = (np.average(values, weights=domain.sizes) for values in (errors, floors))
    row |= {"error": error, "error_floor": floor, "reason": reason}
    return row | dict(zip(domain.columns, errors, strict=True))


def _joint(domain: Domain, epsilon: Fraction, target: str, make: Callable[..., Any]) -> dict[str, Any]:
    name, oracle = make(domain.size, epsilon)
    reason = f"one report of {domain.size:,} cells has all of epsilon"
    if target == "joint":
        return _row("joint", [name], domain, [oracle.mean_squared_error], [oracle.error_floor], target, reason)
    errors = [margin_error(oracle, size) for size in domain.sizes]
    # If all records are equal, the errors of the cells by collisions are uncorrelated, and those of a value add up.
    floors = [oracle.error_floor * domain.size / size for size in domain.sizes]
    return _row("joint", [name], domain, errors, floors, target, reason)


def _split(domain: Domain, epsilon: Fraction, target: str, make: Callable[..., Any], shares: Any) -> dict[str, Any]:
    attributes = [(column,) for column in domain.columns]
    parts = attribute_epsilons(epsilon, attributes, domain.sizes, "split", shares)
    pairs = [make(size, part) for size, part in zip(domain.sizes, parts, strict=True)]
    names, oracles = zip(*pairs, strict=True)
    floors = [oracle.error_floor for oracle in oracles]
    reason = f"each of {len(parts)} reports has a part of epsilon, at least {float(min(filter(None, parts))):.3g}"
    if target == "margins":
        errors = [oracle.mean_squared_error for oracle in oracles]
        return _row("split", names, domain, errors, floors, target, reason)
    # k times the mean square of a cell of a column is k n MSE + 1, whatever the true value.
    squares = math.prod(oracle.k * oracle.mean_squared_error + 1 for oracle in oracles)
    floor = math.prod(oracle.k * oracle.error_floor + 1 for oracle in oracles)
    reason += "; a cell multiplies their errors"
    return _row("split", names, domain, [(squares - 1) / domain.size], [(floor - 1) / domain.size], target, reason)


def _sample(domain: Domain, epsilon: Fraction, target: str, make: Callable[..., Any]) -> dict[str, Any]:
    d = len(domain.columns)
    names, oracles = zip(*(make(size, epsilon) for size in domain.sizes), strict=True)
    if target == "joint":
        return _row("sample", names, domain, [math.nan], [math.nan], target, "no record reports two columns")
    errors = [d * oracle.mean_squared_error + (d - 1) / oracle.k * (1 - 1 / oracle.k) for oracle in oracles]
    floors = [oracle.error_floor for oracle in oracles]
    reason = f"a record makes 1 of {d} reports, with all of epsilon"
    return _row("sample", names, domain, errors, floors, target, reason)
