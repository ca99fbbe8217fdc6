"""A lower bound of epsilon from draws of a release, to refute claims."""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from numbers import Number
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skdp.base import draw_seed, parse_bounds, split_if_supervised
from skdp.domain import Domain
from skdp.evaluation._common import check_count
from skdp.evaluation.audits._events import Draw, find_bound, row_draws
from skdp.evaluation.audits._outputs import FAILURE, Draws, read_calls
from skdp.exact import log_upper
from skdp.local import ReportProtocol
from skdp.privacy import check_delta, check_epsilon
from skdp.tables import is_frame

_READABLE = (Number, str, bool, type(None), np.ndarray, list, tuple, dict)


@dataclass(frozen=True)
class AuditResult:
    """The result of an audit."""

    epsilon_lower: float
    epsilon_claimed: float
    epsilon_exact: float | None = None
    delta: float = 0.0
    n_draws: int = 0
    event: str = ""

    @property
    def rejected(self) -> bool:
        """True if the bound or the exact value exceeds the claim."""
        return max(self.epsilon_lower, self.epsilon_exact or 0.0) > self.epsilon_claimed


def audit_epsilon(
    release: BaseEstimator | Callable[..., Any],
    neighbours: Sequence[Any] | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    n_draws: int | None = None,
    random_state: int | None = None,
) -> AuditResult:
    """Compute a lower bound on the epsilon of a release from many draws of it.

    Some draws select an event S and two neighbors D and D', and other draws count S. By
    the bounds of Clopper and Pearson, ``ln((P(S | D) - delta) / P(S | D'))`` is at least
    the result with probability ``1 - 1e-6`` [1]_.

    Parameters
    ----------
    release : estimator or callable
        A local transformer of any package, an estimator of the central model, or a
        function from a table to its release. The rows of a transformer are assumed to
        be privatized independently; wrap a function of which this is true in
        `sklearn.preprocessing.FunctionTransformer`, so that a table of m equal rows
        gives m draws. The fitted attributes of an estimator of the central model are
        audited, if they are numbers or arrays. The last column of a table is the target
        if one is needed.
    neighbours : list of tables, optional
        Two public tables or more, any two of which differ in one record: pandas
        DataFrames, unless the release is a callable. All pairs are tried. Estimators of
        the central model and callables need them. By default, tables of one record each
        from the declared values of a local transformer.
    epsilon, delta : float, optional
        The claimed guarantee. By default the `guarantee_` of the estimator; if
        `epsilon` is given, delta is 0 by default.
    n_draws : int, optional
        Draws over all tables, at least 100. By default 1,000,000 rows, or 10,000 calls
        where a call is one draw.
    random_state : int, optional
        Seed for an estimator, which makes the audit reproducible.

    Returns
    -------
    AuditResult
        The outcome, with the attributes

        - ``rejected``: whether the claim is refuted;
        - ``epsilon_lower``: the lower bound; ``epsilon_claimed``, ``delta``: the
          claim;
        - ``epsilon_exact``: the exact value from the channel of a local transformer;
          None if it is unknown or too large;
        - ``n_draws``: the number of draws; ``event``: the event, by the names of
          columns.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, the claim or the neighbours are unknown, the
        tables are not neighbours, or every release fails; also for a Pipeline.

    See Also
    --------
    skdp.testing.check_privatizer : Checks of a local transformer.
    skdp.testing.replay_release : Exact losses of an estimator of the central model.

    Notes
    -----
    **Privacy.** The tables are invented or given, and must be public. The ledger of an
    estimator is not charged.

    A true claim is refuted with probability 1e-6 at most. **An audit that does not
    reject proves nothing**: other neighbors or events, or more draws, might refute the
    claim.

    Events are made of the values of each column, their bins, and the lowest set bit of
    floats; of all columns together; of the sum of their log ratios; of the values that
    hashed reports support; and of the types of errors.

    Only the values of a release are compared. `check_privatizer` checks dtypes, index,
    warnings, attributes and pickles. Several reports of one record are not tried; pass a
    callable that releases a record several times.

    With two neighbors and a million draws, the power is above 0.999999 to refute a
    claim of 1 for binary randomized response with epsilon 1.03.

    References
    ----------
    .. [1] H. Arcolezi, S. Gambs (2024). Revealing the true cost of locally
       differentially private protocols: an auditing perspective. PoPETs 2024(4).

    Examples
    --------
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.evaluation import audit_epsilon
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"smokes": ["yes", "no"]})
    >>> result = audit_epsilon(encoder, n_draws=100_000, random_state=0)
    >>> result.rejected, result.epsilon_exact, round(result.epsilon_lower, 1)
    (False, 1.0, 0.9)
    >>> audit_epsilon(encoder, epsilon=0.8, n_draws=100_000, random_state=0).rejected
    True
    """
    if n_draws is not None:
        check_count(n_draws, "n_draws", least=100)
    _check_neighbours(neighbours)
    is_estimator = any(
        hasattr(release, name) for name in ("transform", "report", "fit")
    )
    if is_estimator:
        audited = _read_estimator(release, neighbours, draw_seed(random_state))
    else:
        audited = _read_callable(release, neighbours, random_state)
    if epsilon is None:
        claimed, claimed_delta = _read_claim(audited)
    else:
        claimed, claimed_delta = float(check_epsilon(epsilon, zero=True)), 0.0
    if delta is not None:
        claimed_delta = float(check_delta(delta))
    _check_releases(audited)
    bound = find_bound(
        audited.draw,
        len(audited.tables),
        n_draws or audited.n_draws,
        delta=claimed_delta,
        level=1e-6,  # largest probability that a true claim is refuted
    )
    return AuditResult(
        epsilon_lower=bound.lower,
        epsilon_claimed=claimed,
        epsilon_exact=exact_epsilon(audited.fitted),
        delta=claimed_delta,
        n_draws=bound.n_draws,
        event=bound.event,
    )


@dataclass(frozen=True)
class _Audited:
    """A release, its neighboring tables, and the estimator that states its guarantee."""

    tables: list[Any]
    draw: Draw
    n_draws: int
    fitted: Any = None
    is_central: bool = False


def _audit_calls(
    release: Callable[[Any], Any], tables: Sequence[Any], **options: Any
) -> _Audited:
    """Audit a release of whole tables, of which each call is a draw."""

    def draw(table: int, n: int) -> Draws:
        with warnings.catch_warnings(action="ignore"):
            return read_calls(partial(release, tables[table]), n)

    return _Audited(list(tables), draw, 10_000, **options)


def _check_releases(audited: _Audited) -> None:
    """Check that at least one of the tables can be released."""
    samples = [audited.draw(table, 2) for table in range(len(audited.tables))]
    failures = [sample[FAILURE][0] for sample in samples if FAILURE in sample]
    if len(failures) == len(samples):
        raise ValueError(
            f"every release of the neighboring tables failed ({failures[0]})"
        )


# The audited release and its guarantee


def _check_neighbours(neighbours: Any) -> None:
    """Check that there are two tables or more."""
    if neighbours is None:
        return
    if not isinstance(neighbours, list | tuple):
        raise TypeError(
            f"neighbours must be a list of tables, got {type(neighbours).__name__}"
        )
    if len(neighbours) < 2:
        raise ValueError(
            "neighbours must be at least two tables, any two of which differ in one "
            f"record, got {len(neighbours)}"
        )


def _read_callable(release: Any, neighbours: Any, random_state: Any) -> _Audited:
    """Read a function from a table to its release."""
    if not callable(release):
        raise TypeError(
            f"release must be a transformer or a callable, got {type(release).__name__}"
        )
    if neighbours is None:
        raise ValueError("neighbours are required for a callable, got None.")
    if random_state is not None:
        raise ValueError(
            "random_state requires an estimator; a callable draws its own random bits"
        )
    return _audit_calls(release, neighbours)


def _read_estimator(estimator: Any, neighbours: Any, seed: int | None) -> _Audited:
    """Read an estimator, without its ledger."""
    if isinstance(estimator, type):
        name = estimator.__name__
        raise TypeError(
            f"release must be an estimator or a callable, got the class {name}. Pass "
            f"{name}(...)."
        )
    composed = ("steps", "transformers", "transformer_list")
    if any(hasattr(estimator, name) for name in composed):
        raise TypeError(
            f"a {type(estimator).__name__} has no guarantee_. Audit its "
            "private step, or audit_epsilon(lambda rows: clone(it).fit_transform(rows), "
            "neighbours=..., epsilon=...)."
        )
    clones = _Clones(estimator, seed)
    is_local = hasattr(estimator, "transform") or hasattr(estimator, "report")
    if not is_local or getattr(estimator, "protects_rows", None) is False:
        return _read_central(estimator, neighbours, clones)
    tables = _make_records(estimator) if neighbours is None else list(neighbours)
    fitted = _fit_once(estimator, tables[0], clones)
    if getattr(getattr(fitted, "guarantee_", None), "trust", "local") != "local":
        return _read_central(estimator, neighbours, clones)
    if neighbours is not None:
        _check_one_differs(tables)
    if len(tables[0]) > 1 and hasattr(estimator, "get_params"):
        return _audit_calls(lambda table: _release(clones(), table), tables)
    draw = row_draws(partial(_release, fitted), tables, fitted)
    return _Audited(tables, draw, 1_000_000, fitted)


def _check_one_differs(tables: Sequence[pd.DataFrame]) -> None:
    """Check that all tables differ from the first one in one row."""
    first = tables[0].to_numpy(object)
    for table in tables[1:]:
        rows = table.to_numpy(object)
        if rows.shape != first.shape:
            raise ValueError("neighbours must have the same numbers of rows")
        # Values are compared by their texts, so that nan equals nan.
        pairs = zip(first.tolist(), rows.tolist(), strict=True)
        n_differing = sum(repr(one) != repr(other) for one, other in pairs)
        if n_differing != 1:
            raise ValueError(
                "neighbours must differ in exactly one row, got tables that differ in "
                f"{n_differing}"
            )


_record_numbers = itertools.count()


def _release(estimator: Any, table: Any) -> Any:
    """Release a table by a local transformer, or by a client of heavy hitters."""
    if not hasattr(estimator, "transform"):
        return estimator.report(table)
    options = {}
    if _list_parameters(estimator, "secret_key", only_set=True):
        # New records, whose permanent reports are independent.
        options["record_id"] = [next(_record_numbers) for _ in range(len(table))]
    if not _is_fitted(estimator):
        estimator.fit(table)
    return estimator.transform(table, **options)


class _Clones:
    """Makes clones without a ledger, each with its own seed if there is one."""

    def __init__(self, estimator: Any, seed: int | None) -> None:
        self.estimator = estimator
        self.ledgers = _list_parameters(estimator, "ledger", only_set=True)
        self.seeds = _list_parameters(estimator, "random_state", only_set=seed is None)
        if seed is None and self.seeds:
            seed = draw_seed(estimator.get_params()[self.seeds[0]])
        self.rng = np.random.default_rng(seed)

    def __call__(self) -> Any:
        changes: dict[str, Any] = dict.fromkeys(self.ledgers)
        for name in self.seeds:
            changes[name] = int(self.rng.integers(1 << 32))
        return clone(self.estimator).set_params(**changes)


def _fit_once(estimator: Any, table: Any, clones: _Clones) -> Any:
    """Return a fitted copy; a copy of an estimator that is fitted, without ledger and seed."""
    if not (clones.ledgers or clones.seeds) and _is_fitted(estimator):
        return copy.deepcopy(estimator)
    fitted = clones()
    if hasattr(fitted, "transform"):
        with warnings.catch_warnings(action="ignore"):
            fitted.fit(*split_if_supervised(fitted, table))
    return fitted


def _read_central(estimator: Any, neighbours: Any, clones: _Clones) -> _Audited:
    """Read the fitted attributes of fresh clones."""
    if neighbours is None:
        raise TypeError(
            f"neighbours are required for {type(estimator).__name__}, whose fitted "
            "attributes are audited: two tables that differ in one record."
        )

    def fit(table: Any) -> Any:
        fitted = clones()
        with warnings.catch_warnings(action="ignore"):
            return fitted.fit(*split_if_supervised(fitted, table))

    return _audit_calls(
        lambda table: _read_attributes(fit(table)),
        neighbours,
        fitted=fit(neighbours[0]),
        is_central=True,
    )


def _read_attributes(fitted: Any) -> dict[str, Any]:
    """Return the fitted attributes with numbers, texts or tables."""
    attributes = {}
    for name, value in vars(fitted).items():
        is_public = name.endswith("_") and not name.startswith("_")
        is_readable = isinstance(value, _READABLE) or is_frame(value)
        if is_public and is_readable and name != "guarantee_":
            attributes[name] = value
    return attributes


def _list_parameters(estimator: Any, name: str, *, only_set: bool = False) -> list[str]:
    """List the parameters with a name, also of wrapped estimators."""
    if not hasattr(estimator, "get_params"):
        return []
    parameters = estimator.get_params().items()
    return [
        key
        for key, value in parameters
        if key.split("__")[-1] == name and not (only_set and value is None)
    ]


def _is_fitted(estimator: Any) -> bool:
    """Return True if an estimator is fitted, or has no `fit`."""
    if not hasattr(estimator, "fit"):
        return True
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _read_claim(audited: _Audited) -> tuple[float, float]:
    """Return the epsilon and the delta of the guarantee."""
    guarantee = getattr(audited.fitted, "guarantee_", None)
    if guarantee is None:
        raise ValueError("epsilon is required for a release without guarantee_.")
    n_rows = set(map(len, audited.tables))
    if guarantee.relation == "replace_values":
        first, *others = (t.drop(columns=[*guarantee.scope]) for t in audited.tables)
        if not all(map(first.equals, others)):
            raise ValueError(
                "neighbours must differ in the values of one record in the columns "
                f"{list(guarantee.scope)}. All other columns and the number of rows are "
                "public."
            )
    elif audited.is_central:
        guarantee = guarantee.to("replace" if len(n_rows) == 1 else "add_remove")
    return float(guarantee.epsilon), float(guarantee.delta)


# Neighboring tables of one record, made from declared values.


def _make_records(estimator: Any) -> list[pd.DataFrame]:
    """Make tables of one record each, any two of which are neighbours."""
    parameters: dict[str, Any] = {}
    if hasattr(estimator, "get_params"):
        parameters = estimator.get_params(deep=False)
    columns = _list_values(estimator, parameters)
    rows = list(zip(*map(_choose_values, columns.values()), strict=True))
    # Values outside the domain are protected, too, where they are accepted.
    if parameters.get("handle_unknown", "error") != "error":
        rows.append(tuple(map(_make_undeclared_value, columns.values())))
        rows.append((None,) * len(columns))
    frame = pd.DataFrame(rows, columns=list(columns), dtype=object).infer_objects()
    return [frame.iloc[[row]].reset_index(drop=True) for row in range(len(frame))]


def _list_values(estimator: Any, parameters: Mapping[str, Any]) -> dict[Any, list[Any]]:
    """List values of each column for neighboring records: categories, or numbers inside and outside of the bounds."""
    columns: dict[Any, list[Any]] = {}
    declared = getattr(estimator, "domain_", parameters.get("categories"))
    if isinstance(declared, list | tuple):
        declared = {f"x{position}": values for position, values in enumerate(declared)}
    if isinstance(declared, Mapping | Domain):
        domain = declared if isinstance(declared, Domain) else Domain(declared)
        columns = {name: list(domain[name].values) for name in domain.columns}
    bounds = parameters.get("bounds")
    if bounds is not None:
        names = [f"x{position}" for position in range(len(np.atleast_2d(bounds)))]
        names = list(bounds) if isinstance(bounds, Mapping) else names
        for name, (low, high) in zip(names, parse_bounds(bounds, names), strict=True):
            numbers = [low, high, (low + high) / 2, 2 * high - low]
            columns[name] = list(map(float, numbers))
    if not columns:
        raise ValueError(
            "`neighbours` is required for an estimator without declared values. Pass it, or "
            "declare `categories` or `bounds`."
        )
    return columns


def _choose_values(values: list[Any]) -> list[Any]:
    """Choose six values: the first and the last, their neighbours, and the middle; some twice if there are fewer."""
    k = len(values)
    positions = range(6) if k <= 6 else [0, 1, k // 2, k // 2 + 1, k - 2, k - 1]
    return [values[position % k] for position in positions]


def _make_undeclared_value(values: Sequence[Any]) -> Any:
    """Return a value that is not declared."""
    present = [value for value in values if value is not None]
    if all(isinstance(value, int | float | np.number) for value in present):
        return 2 * max(map(abs, present), default=0) + 1
    return "undeclared" + "".join(map(str, present[:1]))


# The exact value.


def exact_epsilon(fitted: Any) -> float | None:
    """Return the largest logarithm of a ratio of probabilities, from the exact channels."""
    protocol = getattr(fitted, "protocol_", None)
    if isinstance(protocol, ReportProtocol):
        # Larger channels are not summed exactly.
        fields = protocol.channels(1 << 18) or []
        n_sampled = protocol.n_sampled
    else:
        # Transformers of other packages have one channel for each column.
        channel = getattr(fitted, "channel", None)
        fields = [iter([one]) for one in channel()] if callable(channel) else []
        n_sampled = None
    ratios = []
    for channels in fields:
        worst = Fraction(1)
        # The public part of a report, such as a hash function, chooses a channel.
        for one in channels:
            for report in zip(*one, strict=True):
                if not all(isinstance(p, Fraction | int) for p in report):
                    return None
                low, high = min(report), max(report)
                if low <= 0 < high:
                    return math.inf
                worst = max(worst, Fraction(high, low) if high > 0 else worst)
        ratios.append(worst)
    if not ratios:
        return None
    # A record reports the sampled fields together.
    ratios.sort(reverse=True)
    return log_upper(math.prod(ratios[:n_sampled], start=Fraction(1)))
