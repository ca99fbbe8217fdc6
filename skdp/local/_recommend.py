"""Which strategy to take for several columns, from the closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from skdp.base import read_domain
from skdp.domain import Domain
from skdp.frames import is_frame, read_table
from skdp.local._oracle_encoder import Shares, attribute_epsilons
from skdp.oracles import ORACLES, FrequencyOracle, choose_oracle
from skdp.privacy import check_epsilon

Target: TypeAlias = Literal["joint", "margins"]


def recommend_strategy(
    domain: Any, epsilon: float, *, target: Target = "joint", oracle: str = "auto", shares: Shares = "uniform"
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
        variance of a frequency, ``error_floor``, the part of the mean squared error that does not fall with n, and
        under "margins" the error for each column. The error is the same for all data, but for "sample", whose sampling
        error is that of uniform data. Joint frequencies cannot be had from "sample": nan. The floor is 0 but for
        "count_mean_sketch", whose hash functions are shared: it is that of records that are all equal, the worst data,
        and the mean squared error of a frequency is up to ``error / n + error_floor``. The order is that of ``error``;
        with very many reports, the floor decides.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range.

    Warns
    -----
    PrivacyLeakWarning
        If categories are read from the data of a dataframe.

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
    domain = _read_domain(domain)
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


def _read_domain(declared: Any) -> Domain:
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
    strategy: str, names: Sequence[str], domain: Domain, errors: list[float], floors: list[float], target: str
) -> dict[str, Any]:
    row: dict[str, Any] = {"strategy": strategy, "oracles": ", ".join(names)}
    if target == "joint":
        return row | {"error": errors[0], "error_floor": floors[0]}
    error, floor = (np.average(values, weights=domain.sizes) for values in (errors, floors))
    return row | {"error": error, "error_floor": floor} | dict(zip(domain.columns, errors, strict=True))


def _joint(domain: Domain, epsilon: Fraction, target: str, make: Callable[..., Any]) -> dict[str, Any]:
    name, oracle = make(domain.size, epsilon)
    if target == "joint":
        return _row("joint", [name], domain, [oracle.mean_squared_error], [oracle.error_floor], target)
    errors = [margin_error(oracle, size) for size in domain.sizes]
    # If all records are equal, the errors of the cells by collisions are uncorrelated, and those of a value add up.
    floors = [oracle.error_floor * domain.size / size for size in domain.sizes]
    return _row("joint", [name], domain, errors, floors, target)


def _split(domain: Domain, epsilon: Fraction, target: str, make: Callable[..., Any], shares: Any) -> dict[str, Any]:
    attributes = [(column,) for column in domain.columns]
    parts = attribute_epsilons(epsilon, attributes, domain.sizes, "split", shares)
    pairs = [make(size, part) for size, part in zip(domain.sizes, parts, strict=True)]
    names, oracles = zip(*pairs, strict=True)
    floors = [oracle.error_floor for oracle in oracles]
    if target == "margins":
        return _row("split", names, domain, [oracle.mean_squared_error for oracle in oracles], floors, target)
    # k times the mean square of a cell of a column is k n MSE + 1, whatever the true value.
    squares = math.prod(oracle.k * oracle.mean_squared_error + 1 for oracle in oracles)
    floor = math.prod(oracle.k * oracle.error_floor + 1 for oracle in oracles)
    return _row("split", names, domain, [(squares - 1) / domain.size], [(floor - 1) / domain.size], target)


def _sample(domain: Domain, epsilon: Fraction, target: str, make: Callable[..., Any]) -> dict[str, Any]:
    d = len(domain.columns)
    names, oracles = zip(*(make(size, epsilon) for size in domain.sizes), strict=True)
    if target == "joint":
        return _row("sample", names, domain, [math.nan], [math.nan], target)
    errors = [d * oracle.mean_squared_error + (d - 1) / oracle.k * (1 - 1 / oracle.k) for oracle in oracles]
    floors = [oracle.error_floor for oracle in oracles]
    return _row("sample", names, domain, errors, floors, target)


def margin_error(oracle: FrequencyOracle, n_groups: int) -> float:
    """Return the mean over equal groups of values of n times the variance of the frequency of a group."""
    size = oracle.k // n_groups
    p, q = float(oracle.p), float(oracle.q)
    with_true, without = oracle.pair_supports
    # The number of supported values of a group, for a record of the group and for another one.
    inside = p * (1 - p) + (size - 1) * q * (1 - q)
    inside += 2 * (size - 1) * (with_true - p * q) + (size - 1) * (size - 2) * (without - q * q)
    outside = size * q * (1 - q) + size * (size - 1) * (without - q * q)
    return (inside + (n_groups - 1) * outside) / n_groups / (p - q) ** 2
