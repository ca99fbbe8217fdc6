"""Recommend how the columns of a table share epsilon, from what is declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from skdp.base import TableLike, check_choice, read_bounds, read_domain
from skdp.domain import Domain, DomainLike
from skdp.local.table._costs import Costs, Purpose
from skdp.local.table._plan import TablePlan, make_plan
from skdp.privacy import check_epsilon
from skdp.tables import is_frame, read_table

Strategy: TypeAlias = Literal[
    "auto", "split", "joint", "sample", "weighted", "groups", "overlapping"
]
OracleChoice: TypeAlias = Literal["auto", "randomized_response"]
Importance: TypeAlias = Literal["uniform"] | Mapping[Any, float]

# The errors of all pairs of columns are computed for each candidate of a plan.
_MOST_COLUMNS_OF_PAIRS = 64


def recommend_plan(
    domain: DomainLike | TableLike | None,
    epsilon: float,
    *,
    bounds: Mapping[Any, tuple[float, float]] | None = None,
    purpose: Purpose = "margins",
    weights: Importance = "uniform",
    strategy: Strategy = "auto",
    oracle: OracleChoice = "auto",
    mechanism: str = "optimal",
    grid_size: int = 1024,
) -> TablePlan:
    """Compare how the columns of a table may share epsilon, and return the best plan.

    >>> from skdp import recommend_plan
    >>> plan = recommend_plan({name: range(9) for name in "abcd"}, 8.0)
    >>> plan.strategies["error"].round(3).to_dict()
    {'groups': 0.11, 'weighted': 0.171, 'sample': 0.299, 'split': 0.474, 'joint': 0.773}
    >>> plan.reports[["columns", "cells", "inclusion"]]
      columns  cells  inclusion
    0   c x d     81        0.5
    1   a x b     81        0.5

    Parameters
    ----------
    domain : Domain, mapping, list of array-like, dataframe, or None
        The columns of categories and their values, as the `categories` of an encoder;
        None for a table of numbers. A dataframe stands for ``categories="auto"``: its
        dtypes declare them, or they are read from the data with a warning.
    epsilon : float
        The privacy loss of a record over all columns.
    bounds : mapping of column name to (low, high), optional
        The columns of numbers.
    purpose, weights, strategy, oracle, mechanism, grid_size : optional
        As for `LocalTableEncoder`.

    Returns
    -------
    TablePlan
        The plan. ``strategies`` is a table of all strategies, the best one first:
        ``error``, n times the mean squared error of what the purpose asks for (infinite
        if it cannot be had), ``times``, the same as a multiple of the best one,
        ``n_reported``, how many reports a record makes, and ``reason``. ``reports`` has
        a row for each report: ``columns``, ``report`` (its oracle or mechanism),
        ``cells``, ``epsilon``, ``inclusion``, the probability that a record makes it,
        and ``error``, the mean over its cells. ``strategy`` is the one that was chosen.

    Warns
    -----
    PrivacyLeakWarning
        If categories are read from the data of a dataframe.

    See Also
    --------
    LocalTableEncoder : Reports by such a plan.

    Notes
    -----
    **Privacy.** Computed from the declaration alone.
    """
    sizes: dict[Any, int] = {}
    if domain is not None:
        sizes = sizes_of(declared_domain_of(domain))
    checked_bounds = check_bounds(bounds)
    return plan_of(
        check_epsilon(epsilon),
        sizes,
        checked_bounds,
        [*sizes, *checked_bounds],
        purpose=purpose,
        weights=weights,
        strategy=strategy,
        oracle=oracle,
        mechanism=mechanism,
        grid_size=grid_size,
    )


def declared_domain_of(declared: Any) -> Domain:
    """Return the domain that is declared in one of several forms."""
    if isinstance(declared, Domain):
        return declared
    if isinstance(declared, Mapping):
        return Domain(declared)
    if isinstance(declared, str):
        raise ValueError(
            f"domain must be a declaration or a dataframe, got {declared!r}: which "
            "table to read is unknown"
        )
    if isinstance(declared, Sequence | np.ndarray):
        return Domain({f"x{number}": values for number, values in enumerate(declared)})
    if is_frame(declared):
        return read_domain(read_table(declared), "auto", name="domain")
    raise TypeError(
        "domain must be a Domain, mapping, list or dataframe, got "
        f"{type(declared).__name__}"
    )


def plan_of(
    epsilon: Fraction,
    sizes: Mapping[Any, int],
    bounds: Mapping[Any, Any],
    names: Sequence[Any],
    *,
    purpose: Any,
    weights: Any,
    strategy: Any,
    oracle: Any,
    mechanism: Any,
    grid_size: Any,
) -> TablePlan:
    """Check the parameters, and make the plan."""
    check_choice("purpose", purpose, get_args(Purpose))
    check_choice("strategy", strategy, get_args(Strategy))
    check_choice("oracle", oracle, get_args(OracleChoice))
    if not isinstance(mechanism, str):
        raise TypeError(
            "mechanism must be the name of a mechanism of NumericPerturber, got "
            f"{type(mechanism).__name__}"
        )
    _check_columns(sizes, bounds, purpose)
    # A model needs values in columns like those of the input.
    if purpose == "model":
        oracle = "randomized_response"
    costs = Costs(
        epsilon,
        sizes,
        _read_importance(weights, names),
        purpose=purpose,
        oracle=oracle,
        mechanism=mechanism,
        grid_size=grid_size,
    )
    return make_plan(costs, strategy)


def _check_columns(
    sizes: Mapping[Any, int], bounds: Mapping[Any, Any], purpose: str
) -> None:
    """Check that columns are declared, once each, and as many as the purpose needs."""
    n_columns = len(sizes) + len(bounds)
    if n_columns == 0:
        raise ValueError("declare the values or the bounds of at least one column")
    repeated = [name for name in sizes if name in bounds]
    if repeated:
        raise ValueError(
            f"both the values and the bounds of {repeated} are declared; a column has "
            "values or numbers"
        )
    too_many = n_columns > _MOST_COLUMNS_OF_PAIRS
    if purpose == "pairs" and (len(sizes) < 2 or too_many):
        raise ValueError(
            "purpose='pairs' is for at least 2 columns of categories, and "
            f"{_MOST_COLUMNS_OF_PAIRS} in all, got {len(sizes)} of categories and "
            f"{len(bounds)} of numbers"
        )
    if bounds:
        read_bounds(dict(bounds), tuple(bounds))


def sizes_of(domain: Domain | None) -> dict[Any, int]:
    """Return the number of values of each column of categories."""
    if domain is None:
        return {}
    return dict(zip(domain.columns, domain.sizes, strict=True))


def _read_importance(weights: Any, names: Sequence[Any]) -> dict[Any, float]:
    if isinstance(weights, str) and weights == "uniform":
        return dict.fromkeys(names, 1.0)
    if not isinstance(weights, Mapping) or set(weights) != set(names):
        description = type(weights).__name__
        if isinstance(weights, str):
            description = repr(weights)
        if isinstance(weights, Mapping):
            description = f"one of {list(weights)}"
        raise ValueError(
            f"weights must be 'uniform' or a mapping of all columns {list(names)} to "
            f"numbers, got {description}"
        )
    importance = {}
    for name in names:
        title = f"the weight of column {name!r}"
        importance[name] = float(check_epsilon(weights[name], name=title))
    return importance


def check_bounds(bounds: Any) -> dict[Any, Any]:
    """Check that bounds are a mapping, or none."""
    if bounds is None:
        return {}
    if not isinstance(bounds, Mapping):
        raise TypeError(
            "bounds must be a mapping of column name to (low, high), got "
            f"{type(bounds).__name__}"
        )
    return dict(bounds)
