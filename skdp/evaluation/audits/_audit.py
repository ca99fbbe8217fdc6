"""A lower bound of epsilon from draws of a release, to refute claims."""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from numbers import Number
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    draw_seed,
    read_bounds,
    rows_and_target,
)
from skdp.domain import Domain
from skdp.evaluation._common import check_count
from skdp.evaluation.audits._events import (
    DEFAULT_CALLS,
    DEFAULT_ROWS,
    Bound,
    Draw,
    epsilon_lower_bound,
    find_bound,
    first_error,
    row_draws,
)
from skdp.evaluation.audits._outputs import (
    FORM,
    read_call,
    read_columns,
    read_state,
    stack_calls,
)
from skdp.exact import log_upper
from skdp.local import OnFitOnly, ReportProtocol
from skdp.privacy import check_delta, check_epsilon
from skdp.tables import convert_frame, is_frame

# The largest probability that a true claim is refuted.
FALSE_ALARM = 1e-6

# Calls of each table that choose an event, and the numbers of calls that may test it.
N_CHOOSING_CALLS = 16
TESTING_CALLS = [128, 256, 512, 1024]

# An event of calls is tested if it separates nearly all of the choosing ones.
MIN_CALL_SCORE = 2.0

# Larger channels are not summed exactly.
MAX_CHANNEL_ENTRIES = 1 << 18

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
    secure: bool = True

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

    Some draws choose an event S and two neighbours D and D'. Other draws count it. By
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
    neighbours : pair of tables, optional
        Two public tables that differ in one record, pandas DataFrames unless the release
        is a callable. Estimators of the central model and
        callables need them. By default, tables of one record each from the declared
        values of a local transformer; all pairs are tried.
    epsilon, delta : float, optional
        The claim. By default the `guarantee_` of the estimator; with `epsilon`, delta is
        0 by default.
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
          columns;
        - ``secure``: False if the random bits of the estimator come from its own seed.

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
    reject proves nothing**: other neighbours or events, or more draws, might refute the
    claim.

    A local transformer is tested twice, each at half of the level: by the rows of large
    tables of equal rows, and by some hundred single calls on tables of two rows. The
    calls show dtypes, index, attributes, warnings, errors and printed text, and the
    attributes and pickle of a clone after its release; they refute claims up to about
    3.8.
    Events are made of the values of each column, their bins, and the lowest set bit of
    floats; of all columns together; of the sum of their log ratios; and of the values
    that hashed reports support.

    Several reports of one record, other libraries of tables, and events that happen in
    one of a hundred calls are not tried. Use `check_privatizer` for these, or a
    callable that releases a record several times.

    With two neighbours and a million draws, the power is above 0.999999 to refute a
    claim of 1 for binary randomized response with epsilon 1.03.

    References
    ----------
    .. [1] H. Arcolezi, S. Gambs (2024). Revealing the true cost of locally
       differentially private protocols: an auditing perspective. PoPETs 2024(4).

    Examples
    --------
    >>> from skdp import RandomizedResponseEncoder
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"smokes": ["yes", "no"]})
    >>> result = audit_epsilon(encoder, n_draws=100_000, random_state=0)
    >>> result.rejected, result.epsilon_exact, round(result.epsilon_lower, 1)
    (False, 1.0, 0.9)
    >>> audit_epsilon(encoder, epsilon=0.8, n_draws=100_000, random_state=0).rejected
    True
    """
    if n_draws is not None:
        check_count(n_draws, "n_draws", least=100)
    _check_pair(neighbours)
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
    bound = _test(audited, claimed, claimed_delta, n_draws)
    return AuditResult(
        epsilon_lower=bound.lower,
        epsilon_claimed=claimed,
        epsilon_exact=exact_epsilon(audited.fitted),
        delta=claimed_delta,
        n_draws=bound.n_draws,
        event=bound.event,
        secure=not _has_seed(release),
    )


@dataclass(frozen=True)
class _Audited:
    """A release, and its neighbouring tables."""

    tables: list[Any]
    # Releases a table, of which each row is a draw if it has one row.
    release: Callable[[Any], Any]
    each_row: bool
    fitted: Any = None
    # Releases tables of two rows once, with the state of the estimator.
    call: Callable[[Any], Any] | None = None
    is_central: bool = False


def _test(
    audited: _Audited,
    claimed: float,
    delta: float,
    n_draws: int | None,
) -> Bound:
    """Bound epsilon by rows and by single calls."""
    tables = audited.tables
    if not audited.each_row:
        draw = _call_draws(audited.release, tables)
        n = n_draws or DEFAULT_CALLS
        return find_bound(draw, len(tables), n, delta=delta, level=FALSE_ALARM)
    bounds = []
    rows = row_draws(audited.release, tables, audited.fitted)
    # Single calls show which tables are refused.
    with suppress(Exception):
        for position in range(len(tables)):
            rows(position, 2)
        n_rows = n_draws or DEFAULT_ROWS
        bounds.append(
            find_bound(rows, len(tables), n_rows, delta=delta, level=FALSE_ALARM / 2)
        )
    call = audited.call or audited.release
    failure: ValueError | None = None
    for pair in _tables_of_two_rows(tables):
        n_calls = _count_testing_calls(claimed, delta, FALSE_ALARM / 4)
        if bounds and (bounds[-1].lower > claimed or n_calls is None):
            break
        try:
            calls = _call_draws(call, pair)
        except ValueError as error:
            # Both tables of a pair may have a row that is refused.
            failure = error
            continue
        bound = find_bound(
            calls,
            2,
            2 * (n_calls or TESTING_CALLS[-1]),
            delta=delta,
            level=FALSE_ALARM / 4,
            n_choice=N_CHOOSING_CALLS,
            min_score=MIN_CALL_SCORE,
        )
        bounds.append(bound)
    if failure is not None and not bounds:
        raise failure
    best = max(bounds, key=lambda bound: bound.lower)
    return Bound(best.lower, sum(bound.n_draws for bound in bounds), best.event)


def _count_testing_calls(claimed: float, delta: float, level: float) -> int | None:
    """Return the smallest number of calls by which an event that always shows refutes a claim."""
    for size in TESTING_CALLS:
        hits, trials = (size, 0), (size, size)
        if epsilon_lower_bound(hits, trials, delta=delta, level=level) > claimed + 0.3:
            return size
    return None


def _tables_of_two_rows(tables: Sequence[pd.DataFrame]) -> list[list[pd.DataFrame]]:
    """Pair tables of two rows that differ in the last, or in the first one."""
    first, middle, last = tables[0], tables[len(tables) // 2], tables[-1]
    return [
        [pd.concat([middle, end], ignore_index=True) for end in (first, last)],
        [pd.concat([end, first], ignore_index=True) for end in (first, last)],
    ]


def _call_draws(release: Callable[[Any], Any], tables: Sequence[Any]) -> Draw:
    """Return draws by single calls."""

    def draw(position: int, n: int) -> dict[str, Any]:
        calls = [read_call(lambda: release(tables[position])) for _ in range(n)]
        return stack_calls(calls)

    errors = [first_error(draw(position, 2), FORM) for position in range(len(tables))]
    if None not in errors:
        raise ValueError(
            f"every release of the neighbouring tables failed ({errors[0]})"
        )
    return draw


# The audited release and its guarantee.


def _check_pair(neighbours: Any) -> None:
    """Check that there are two tables."""
    if neighbours is None:
        return
    is_list = isinstance(neighbours, Sequence | np.ndarray)
    if is_frame(neighbours) or isinstance(neighbours, str) or not is_list:
        raise TypeError(
            f"neighbours must be a pair of tables, got {type(neighbours).__name__}"
        )
    if len(neighbours) != 2:
        raise ValueError(
            "neighbours must be two tables that differ in one record, got "
            f"{len(neighbours)}"
        )


def _read_callable(release: Any, neighbours: Any, random_state: Any) -> _Audited:
    """Prepare a function from a table to its release."""
    if not callable(release):
        raise TypeError(
            f"release must be a transformer or a callable, got {type(release).__name__}"
        )
    if neighbours is None:
        raise ValueError("neighbours are required for a callable, got None.")
    if random_state is not None:
        raise ValueError(
            "random_state is for estimators; a callable draws its own random bits"
        )
    return _Audited(list(neighbours), release, False)


def _convert_to_pandas(table: Any) -> pd.DataFrame:
    """Return a table as pandas."""
    if isinstance(table, pd.DataFrame):
        return table
    if is_frame(table):
        return convert_frame(table, "pandas")
    frame = pd.DataFrame(table)
    return frame.rename(columns="x{}".format)


def _count_differing(left: pd.DataFrame, right: pd.DataFrame) -> int:
    """Count the rows in which two tables differ; all, if their numbers of rows do."""
    if len(left) != len(right):
        return max(len(left), len(right))
    rows = zip(left.to_numpy(object), right.to_numpy(object), strict=True)
    return sum(repr(list(a)) != repr(list(b)) for a, b in rows)


def _read_estimator(estimator: Any, neighbours: Any, seed: int | None) -> _Audited:
    """Prepare an estimator, without its ledger."""
    if isinstance(estimator, type):
        name = estimator.__name__
        raise TypeError(
            f"release must be an estimator or a callable, got the class {name}. Pass "
            f"{name}(...)."
        )
    # Its `set_params` refuses the parameters of the estimator in it.
    if isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    composed = ("steps", "transformers", "transformer_list")
    if any(hasattr(estimator, name) for name in composed):
        raise TypeError(
            f"a {type(estimator).__name__} has no one guarantee_. Audit its private "
            "step, or audit_epsilon(lambda rows: clone(it).fit_transform(rows), "
            "neighbours=..., epsilon=...)."
        )
    clones = _Clones(estimator, seed)
    is_local = hasattr(estimator, "transform") or hasattr(estimator, "report")
    if not is_local or getattr(estimator, "protects_rows", None) is False:
        return _read_central(estimator, neighbours, clones)
    if neighbours is None:
        tables = _make_records(estimator)
    else:
        tables = list(map(_convert_to_pandas, neighbours))
    fitted = _fit_once(estimator, tables[0], clones)
    if getattr(getattr(fitted, "guarantee_", None), "trust", "local") != "local":
        return _read_central(estimator, neighbours, clones)
    n_differing = 1 if neighbours is None else _count_differing(*tables)
    if n_differing != 1:
        raise ValueError(
            "neighbours must differ in exactly one row, got tables that differ in "
            f"{n_differing}"
        )
    each_row = len(tables[0]) == 1
    if isinstance(estimator, OnFitOnly):
        # Its `transform` releases unprotected rows on purpose.
        return _Audited(tables, fitted.fit_transform, each_row, fitted.transformer_)
    release = _release_by(fitted)
    if not hasattr(estimator, "get_params"):
        return _Audited(tables, release, each_row, fitted)
    if not each_row:
        return _Audited(tables, lambda table: _release_by(clones())(table), False)

    def release_with_state(table: Any) -> Any:
        fresh = clones()
        if hasattr(fresh, "fit_transform"):
            # `fit_transform` must not remember or return the rows, either.
            released = fresh.fit_transform(table, **_record_ids(fresh, table))
        else:
            released = _release_by(fresh)(table)
        # The state may be random, so the rows are one part by themselves.
        rows = repr([column.tolist() for column in read_columns(released).values()])
        return {"released": released, "the rows": rows} | read_state(fresh)

    return _Audited(tables, release, True, fitted, call=release_with_state)


def _release_by(fitted: Any) -> Callable[[Any], Any]:
    """Return the release of a fitted local transformer, or of a client of heavy hitters."""

    def release(table: Any) -> Any:
        if not hasattr(fitted, "transform"):
            return fitted.report(table)
        return fitted.transform(table, **_record_ids(fitted, table))

    return release


_ids = itertools.count()


def _record_ids(estimator: Any, table: Any) -> dict[str, list[str]]:
    """Return new record ids where reports are permanent."""
    if not _list_parameters(estimator, "secret_key", only_set=True):
        return {}
    return {"record_id": [f"record {next(_ids)}" for _ in range(len(table))]}


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
            fitted.fit(*rows_and_target(fitted, table))
    return fitted


def _read_central(estimator: Any, neighbours: Any, clones: _Clones) -> _Audited:
    """Prepare the fitted attributes of fresh clones."""
    if neighbours is None:
        raise TypeError(
            f"neighbours are required for {type(estimator).__name__}, whose fitted "
            "attributes are audited: two tables that differ in one record."
        )

    def learn(table: Any) -> dict[str, Any]:
        fitted = clones()
        fitted.fit(*rows_and_target(fitted, table))
        released = {}
        for name, value in vars(fitted).items():
            is_public = name.endswith("_") and not name.startswith("_")
            is_readable = isinstance(value, _READABLE) or is_frame(value)
            if is_public and is_readable and name != "guarantee_":
                released[name] = value
        return released

    tables = list(map(_convert_to_pandas, neighbours))
    fitted = clones()
    with warnings.catch_warnings(action="ignore"):
        fitted.fit(*rows_and_target(fitted, tables[0]))
    return _Audited(tables, learn, False, fitted, is_central=True)


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


def _has_seed(estimator: Any) -> bool:
    """Return True if the random bits of an estimator come from a seed, and not from a secret key."""
    if _list_parameters(estimator, "secret_key", only_set=True):
        return False
    return bool(_list_parameters(estimator, "random_state", only_set=True))


def _read_claim(audited: _Audited) -> tuple[float, float]:
    """Return the epsilon and the delta of the guarantee."""
    guarantee = getattr(audited.fitted, "guarantee_", None)
    if guarantee is None:
        raise ValueError("epsilon is required: there is no guarantee_ to read it from.")
    n_rows = set(map(len, audited.tables))
    if guarantee.relation == "replace_values":
        public = [table.drop(columns=[*guarantee.scope]) for table in audited.tables]
        if not public[0].equals(public[1]):
            raise ValueError(
                "neighbours must differ in the values of one record in the columns "
                f"{list(guarantee.scope)}. All other columns and the number of rows are "
                "public."
            )
    elif audited.is_central:
        guarantee = guarantee.to("replace" if len(n_rows) == 1 else "add_remove")
    return float(guarantee.epsilon), float(guarantee.delta)


# Neighbouring tables of one record, made from declared values.


def _make_records(estimator: Any) -> list[pd.DataFrame]:
    """Make tables of one record each, any two of which are neighbours."""
    parameters: dict[str, Any] = {}
    if hasattr(estimator, "get_params"):
        parameters = estimator.get_params(deep=False)
    for name in ("encoder", "transformer", "estimator"):
        inner = parameters.get(name)
        if hasattr(inner, "get_params"):
            return _make_records(getattr(inner, "estimator", inner))
    columns = _list_values(estimator, parameters)
    rows = list(zip(*map(_choose_values, columns.values()), strict=True))
    # Values outside the domain are protected, too, where they are accepted.
    if parameters.get("handle_unknown", "error") != "error":
        rows.append(tuple(map(_make_undeclared_value, columns.values())))
        rows.append((None,) * len(columns))
    frame = pd.DataFrame(rows, columns=list(columns), dtype=object).infer_objects()
    return [frame.iloc[[row]].reset_index(drop=True) for row in range(len(frame))]


def _list_values(estimator: Any, parameters: Mapping[str, Any]) -> dict[Any, list[Any]]:
    """List values of each column for neighbouring records: categories, or numbers inside and outside of the bounds."""
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
        for name, (low, high) in zip(names, read_bounds(bounds, names), strict=True):
            numbers = [low, high, (low + high) / 2, 2 * high - low]
            columns[name] = list(map(float, numbers))
    if not columns:
        raise ValueError(
            "`neighbours` is required for an estimator without declared values. Pass it, or "
            "declare `categories` or `bounds`."
        )
    return columns


def _choose_values(values: list[Any]) -> list[Any]:
    """Choose six values: both ends, their neighbours, and the middle; some twice if there are fewer."""
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
        fields = protocol.channels(MAX_CHANNEL_ENTRIES) or []
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
