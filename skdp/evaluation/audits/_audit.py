"""A lower bound of epsilon from draws of a release, to refute claims."""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from numbers import Integral, Number
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from skdp.base import check_confidence_level, draw_seed, rows_and_target, split_target
from skdp.evaluation._common import check_count, result_facts, shown_progress
from skdp.evaluation.audits._releases import (
    Audited,
    count_rows,
    declared_values,
    differ_outside,
    differing_rows,
    make_records,
)
from skdp.evaluation.audits._search import default_draws, search
from skdp.exact import log_upper
from skdp.local import (
    Channel,
    OnFitOnly,
    ReportProtocol,
)
from skdp.markup import html_facts
from skdp.privacy import check_delta, check_epsilon
from skdp.tables import is_frame

_COMPOSED = ("steps", "transformers", "transformer_list")
_METHODS = ("transform", "report", "fit", "fit_resample")
_READABLE = (Number, str, bool, type(None), np.ndarray, list, tuple, dict)


@dataclass(frozen=True)
class AuditResult:
    """The result of an audit."""

    epsilon_lower: float
    epsilon_claimed: float
    confidence_level: float
    n_draws: int
    epsilon_exact: float | None = None
    epsilon_reach: float = 0.0
    delta: float = 0.0
    event: str = ""
    neighbours: tuple[int, int] | None = None
    secure: bool = True
    findings: tuple[str, ...] = ()

    @property
    def rejected(self) -> bool:
        """Whether the claim is refuted: the bound, or the exact value, is above it."""
        # An exact value of infinity refutes any claim.
        largest = max(self.epsilon_lower, self.epsilon_exact or 0.0)
        return largest > self.epsilon_claimed

    @property
    def passed(self) -> bool:
        """Whether the claim is not refuted, which proves nothing."""
        return not self.rejected

    def _repr_html_(self) -> str:
        verdict = "not refuted, which proves nothing"
        if self.rejected:
            verdict = "REJECTED: the promise is false"
        facts = [("verdict", verdict), *result_facts(self)]
        if not self.secure:
            facts.append(("random bits", "NOT SECURE: from a seed"))
        return html_facts("Audit", facts)


def audit_epsilon(
    release: BaseEstimator | Callable[..., Any],
    neighbours: Sequence[Any] | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    n_draws: int | None = None,
    n_reports: int | None = None,
    confidence_level: float = 1 - 1e-6,
    each_row: bool = False,
    statistic: Callable[[Any], Any] | None = None,
    exact: bool = True,
    random_state: int | None = None,
    progress: bool = False,
) -> AuditResult:
    """Compute a lower bound on the epsilon of a release from many draws of it.

    The hypothesis that is tested is ``P(S | D) <= e^epsilon P(S | D') + delta`` for all events S and the neighbours
    that are tried. A first part of the draws (a tenth, if they are many) chooses a pair of neighbours and an event; the
    others, which are independent of that choice, count it. By the bounds of Clopper and Pearson,
    ``ln((P(S | D) - delta) / P(S | D'))`` is at least the result with probability `confidence_level` ([1]_). An event
    is a set of whole outputs: values, order, dtypes, names, index, attributes, warnings and errors.

    Parameters
    ----------
    release : estimator or callable
        A local transformer (fitted or not, of any package), or a function from a table to its release, such as
        ``lambda rows: DPMean(epsilon=1.0, bounds=(0, 1)).fit(rows).mean_``. Of `OnFitOnly`, only `fit_transform` is
        audited, as its `transform` releases unprotected rows; of an estimator of the central model, such as `DPMean` or
        `DPMarginalSynthesizer`, the numbers and arrays among its fitted attributes; of `SyntheticResampler`, the rows.
        Where a target is needed, it is the last column of a table.
    neighbours : pair of tables, optional
        Two public tables that differ in one record: for a local transformer, in exactly one row; for a central
        estimator, one may have a row less. Needed for these and a callable. By default, tables of one record each from
        the declared domain of a transformer: all of them if they are at most 16, otherwise those of the first, middle
        and last values, and of undeclared and missing values where these are accepted. All pairs are tried.
    epsilon, delta : float, optional
        The claim; by default that of `guarantee_` of a transformer. A callable needs epsilon. If epsilon is given,
        delta is 0 by default.
    n_draws : int, optional
        Draws over all tables, at least 100: 1,000,000 rows by default, or 10,000 calls where a release is one draw.
    n_reports : int, optional
        The number of reports of each record; all its reports are one output. By default 4 for transformers that memoise
        their reports, and so claim epsilon for any number of them, otherwise 1. m fresh reports claim m times epsilon.
    confidence_level : float, default=1 - 1e-6
        The probability that the lower bound is right, between 0 and 1.
    each_row : bool, default=False
        For a callable: whether the rows of a table are privatised independently, so that a table of m equal rows gives
        m draws at once. It is assumed of transformers.
    statistic : callable, optional
        A function from a release to a table of further columns, as an attacker might compute them: for instance whether
        a hashed report supports some value.
    exact : bool, default=True
        Whether to compute `epsilon_exact` where the probabilities are known.
    random_state : int, optional
        A seed for a transformer, which makes the audit reproducible; it does not count as insecure.
    progress : bool, default=False
        Whether to show a progress bar on standard error, with the time that is left.

    Returns
    -------
    AuditResult
        The outcome, with the attributes

        - ``rejected``: whether the claim is refuted, as the bound or the exact value is above it; ``passed``: whether
          it is not, which proves nothing;
        - ``epsilon_lower``: the lower bound, wrong with probability at most ``1 - confidence_level``;
          ``epsilon_claimed``, ``delta``, ``confidence_level``: what it was tested for;
        - ``epsilon_exact``: the exact value, from the exact probabilities of the reports; None if they are unknown or
          too many. It checks the arithmetic, and the bound checks the implementation;
        - ``epsilon_reach``: the largest bound that this number of draws could have given; ``n_draws``: their number,
          rows and single calls;
        - ``event``: what distinguishes the tables best, by names of columns, never a value; ``neighbours``: the places
          of the two tables among those that were tried, the event being likelier under the first;
        - ``secure``: False if the audited randomness comes from an int seed; ``findings``: further findings, as text.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, there are no neighbours to try, or these are equal or differ in more than one
        row, the claim is unknown, or every release fails; also for a Pipeline, which has no one claim.

    Notes
    -----
    **Privacy.** Tables are invented or given, and must be public: the audit releases them many times. A ledger of the
    transformer is not charged.

    A true claim is refuted with probability ``1 - confidence_level`` at most, provided that the draws are independent.
    **Passing proves nothing**: other neighbours, other events or more draws might refute it. A difference that always
    shows, but only in the form of single calls, refutes claims up to about 4.

    A transformer, and a callable with ``each_row=True``, is tested twice, each at half the level: by the rows of large
    tables, and by some hundred single calls, whose form is examined too, with warnings, log records and what is
    printed. Some calls use `fit_transform` of fresh clones; tables of two rows, which show whether rows are sorted or
    share random bits; tables of seven different rows, also of polars and pyarrow; or look at what a clone keeps after a
    release: its attributes, its pickle and its text. What happens in one of a hundred
    calls only, `skdp.testing.check_privatizer` sees. Events are made of the values of
    each column, their bins, and the lowest set bit, which floating-point noise may
    reveal ([2]_); of pairs of columns and all columns together;
    of the sum of the columns' log ratios; and of the values that hashed reports support.

    For two neighbours and 10^6 draws the power is above .999999 to refute a claim of 1 for binary randomised response
    with epsilon 1.03.

    References
    ----------
    .. [1] H. Arcolezi, S. Gambs (2024). Revealing the true cost of locally differentially private protocols: an
       auditing perspective. PoPETs 2024(4).
    .. [2] I. Mironov (2012). On significance of the least significant bits for differential privacy. CCS.

    Examples
    --------
    >>> from skdp import RandomizedResponseEncoder
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"smokes": ["yes", "no"]})
    >>> result = audit_epsilon(encoder, n_draws=100_000, random_state=0)
    >>> result.passed, result.epsilon_exact, round(result.epsilon_lower, 1)
    (True, 1.0, 0.9)
    >>> audit_epsilon(encoder, epsilon=0.8, n_draws=100_000, random_state=0).rejected
    True
    """
    random_state = draw_seed(random_state)
    check_confidence_level(confidence_level)
    if n_reports is not None:
        check_count(n_reports, "n_reports", least=1)
    if n_draws is not None:
        check_count(n_draws, "n_draws", least=100)
    if statistic is not None and not callable(statistic):
        raise TypeError(
            "statistic must be a callable, or None, got " + type(statistic).__name__
        )
    _check_pair(neighbours)
    options: dict[str, Any] = {"statistic": statistic, "random_state": random_state}
    if any(hasattr(release, name) for name in _METHODS):
        if isinstance(release, type):
            name = release.__name__
            raise TypeError(
                "release must be a transformer or a callable, got the class "
                f"{name}: give {name}(...)"
            )
        audited = of_transformer(release, neighbours, n_reports=n_reports, **options)
        findings = _findings(release, audited)
        secure = audited.keyed or not _is_seeded(release)
    else:
        audited = _of_callable(
            release, neighbours, n_reports=n_reports, each_row=each_row, **options
        )
        findings = []
        secure = True
    if epsilon is None:
        claimed, claimed_delta = _claim(audited)
    else:
        # A claim of epsilon alone is one of pure differential privacy.
        claimed, claimed_delta = float(check_epsilon(epsilon, zero=True)), 0.0
    if delta is not None:
        claimed_delta = float(check_delta(delta))
    exact_value = None
    # Several reports have the product of their channels, which is not computed.
    if exact and n_reports in (None, 1):
        exact_value = exact_epsilon(audited.fitted)
    total = n_draws or default_draws(audited)
    with shown_progress(total, progress, "draw") as advance:
        bound = search(
            replace(audited, advance=advance),
            n_draws,
            claimed,
            delta=claimed_delta,
            level=1 - confidence_level,
        )
    if claimed > bound.reach:
        findings.append(
            f"{bound.n_draws} draws refute no claim above {bound.reach:.2f}: increase "
            "n_draws, or see epsilon_exact"
        )
    event = bound.event
    return AuditResult(
        epsilon_lower=bound.epsilon_lower,
        epsilon_claimed=claimed,
        confidence_level=confidence_level,
        n_draws=bound.n_draws,
        epsilon_exact=exact_value,
        epsilon_reach=bound.reach,
        delta=claimed_delta,
        event="" if event is None else event.name,
        neighbours=None if event is None else (event.likelier, event.unlikelier),
        secure=secure,
        findings=tuple(findings),
    )


# Checks of parameters.


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


def _check_replaced(tables: Sequence[Any]) -> None:
    """Check that two tables differ in exactly one row."""
    left, right = map(count_rows, tables)
    if left != right:
        raise ValueError(
            f"neighbours must have equally many rows, got {left} and {right}"
        )
    n_differing = differing_rows(tables)
    if n_differing != 1:
        raise ValueError(
            "neighbours must differ in exactly one row, got tables that differ in "
            f"{n_differing}"
        )


def _check_distinct(tables: Sequence[Any]) -> None:
    """Check that two tables differ, as far as they can be read."""
    left, right = tables
    is_equal = left is right
    # Tables of an unknown kind can be read by the release only.
    with suppress(Exception):
        if count_rows(left) == count_rows(right):
            is_equal |= not differing_rows(tables)
    if is_equal:
        raise ValueError(
            "neighbours must differ in one record, got the same table twice"
        )


# The release and the promise of what is audited.


def _of_callable(
    release: Any,
    neighbours: Sequence[Any] | None,
    *,
    n_reports: int | None,
    each_row: bool,
    statistic: Callable[[Any], Any] | None,
    random_state: int | None,
) -> Audited:
    """Prepare a function from a table to its release."""
    if not callable(release):
        raise TypeError(
            f"release must be a transformer or a callable, got {type(release).__name__}"
        )
    if neighbours is None:
        raise ValueError(
            "give neighbours: two tables that differ in one record; a callable "
            "declares no domain"
        )
    if random_state is not None:
        raise ValueError(
            "random_state is for transformers; a callable draws its own random bits"
        )
    if each_row and any(count_rows(table) != 1 for table in neighbours):
        raise ValueError("with each_row=True, neighbours must be tables of one row")
    _check_distinct(neighbours)
    return Audited(
        release,
        list(neighbours),
        each_row,
        n_reports=n_reports or 1,
        statistic=statistic,
    )


def of_transformer(
    estimator: Any,
    neighbours: Any,
    *,
    n_reports: int | None,
    statistic: Callable[[Any], Any] | None,
    random_state: int | None,
) -> Audited:
    """Prepare an estimator: fitted on public tables, and without its ledger."""
    # Its `set_params` refuses the parameters of the estimator in it, and returns None.
    if isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    if any(hasattr(estimator, name) for name in _COMPOSED):
        raise TypeError(
            f"a {type(estimator).__name__} has no one guarantee_: audit its private "
            "step, or what it releases, with audit_epsilon(lambda rows: "
            "clone(it).fit_transform(rows), neighbours=..., epsilon=...)"
        )
    options: dict[str, Any] = {"n_reports": n_reports or 1, "statistic": statistic}
    # A client of heavy hitters has `report` in place of `transform`.
    is_local = hasattr(estimator, "transform") or hasattr(estimator, "report")
    if not is_local or getattr(estimator, "protects_rows", None) is False:
        return _of_central(estimator, neighbours, random_state, options)
    tables, changes = neighbours, {}
    if neighbours is None:
        tables, changes = make_records(estimator), _declared(estimator)
    fitted = _fitted(estimator, tables[0], changes, random_state)
    trust = getattr(getattr(fitted, "guarantee_", None), "trust", "local")
    if trust != "local":
        return _of_central(estimator, neighbours, random_state, options)
    if neighbours is not None:
        _check_replaced(neighbours)
    is_keyed = bool(_named(estimator, "secret_key", only_set=True))
    if is_keyed and n_reports is None:
        options["n_reports"] = 4  # the promise is for any number of them
    release = getattr(fitted, "transform" if hasattr(fitted, "transform") else "report")
    fresh: Callable[[], Any] | None = None
    fit_release = getattr(fitted, "fit_transform", None)
    if hasattr(estimator, "get_params"):
        fresh = _Clones(estimator, random_state, _declared(fitted))
        if fit_release is not None:
            fit_release = partial(_fit_fresh, fresh)
    each_row = all(count_rows(table) == 1 for table in tables)
    if isinstance(estimator, OnFitOnly):
        # Its `transform` releases unprotected rows on purpose.
        release, fit_release, fitted = fit_release, None, fitted.transformer_
        fresh = None
    can_keep = hasattr(estimator, "fit") or hasattr(estimator, "report")
    return Audited(
        release,
        list(tables),
        each_row,
        fitted=fitted,
        keyed=is_keyed,
        fit_release=fit_release,
        paired=each_row,
        fresh=fresh if each_row and can_keep else None,
        **options,
    )


def _fit_fresh(fresh: Callable[[], Any], table: Any, **ids: Any) -> Any:
    """Release a table by `fit_transform` of a fresh clone."""
    return fresh().fit_transform(table, **ids)


def _fitted(
    estimator: Any, table: Any, changes: dict[str, Any], random_state: int | None
) -> Any:
    """Return a fitted copy without a ledger; of one that is fitted, the copy of it."""
    # An audit of hundreds of releases must not use up a budget.
    changes = changes | dict.fromkeys(_named(estimator, "ledger", only_set=True))
    if random_state is not None:
        seeds = _named(estimator, "random_state")
        changes |= dict.fromkeys(seeds, random_state)
    if not changes and _is_fitted(estimator):
        return copy.deepcopy(estimator)  # whose random stream does not advance
    fitted = clone(estimator).set_params(**changes)
    if hasattr(fitted, "transform"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a table of one row
            fitted.fit(*rows_and_target(fitted, table))
    return fitted


def _of_central(
    estimator: Any,
    neighbours: Any,
    random_state: int | None,
    options: dict[str, Any],
) -> Audited:
    """Prepare the fitted attributes of fresh clones."""
    if neighbours is None:
        raise TypeError(
            f"{type(estimator).__name__} protects no rows in transform: what it "
            "promises is about what fit learns. Give neighbours, two tables that "
            "differ in one record, to audit its fitted attributes; or audit one, as "
            "in audit_epsilon(lambda rows: clone(it).fit(rows).mean_, neighbours=..., "
            "epsilon=...)"
        )
    fresh = _Clones(estimator, random_state, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of noise on small tables
        fitted = fresh()
        _fit(fitted, neighbours[0])

    def learn(table: Any) -> dict[str, Any]:
        fitted = fresh()
        # A resampler releases its rows as well.
        rows = dict(zip("Xy", _fit(fitted, table), strict=False))
        fields = vars(fitted).items()
        return rows | {name: x for name, x in fields if _is_released(name, x)}

    return Audited(
        learn, list(neighbours), False, fitted=fitted, central=True, **options
    )


def _fit(estimator: Any, table: Any) -> tuple[Any, ...]:
    """Fit, and return the rows that this releases, if any."""
    if hasattr(estimator, "fit_resample"):
        return tuple(estimator.fit_resample(*split_target(table)))
    estimator.fit(*rows_and_target(estimator, table))
    return ()


def _is_released(name: str, value: Any) -> bool:
    """Whether a fitted attribute is public and readable."""
    if not name.endswith("_") or name.startswith("_") or name == "guarantee_":
        return False
    return isinstance(value, _READABLE) or is_frame(value)


def _named(estimator: Any, name: str, *, only_set: bool = False) -> list[str]:
    """List the parameters of a name, also of wrapped estimators; without those that are None if asked for."""
    if not hasattr(estimator, "get_params"):
        return []
    keys = []
    for key, value in estimator.get_params().items():
        is_unset = only_set and value is None
        if key.split("__")[-1] == name and not is_unset:
            keys.append(key)
    return keys


def _declared(fitted: Any) -> dict[str, Any]:
    """Return what a transformer declares of the values of its columns, as a parameter, if it has one."""
    if not hasattr(fitted, "get_params"):
        return {}
    values = declared_values(fitted)
    if not values or "categories" not in fitted.get_params(deep=False):
        return {}
    return {"categories": values}


class _Clones:
    """Makes clones without a ledger, each with its own seed if there is one, or all would draw the same bits."""

    def __init__(
        self, estimator: Any, random_state: int | None, changes: dict[str, Any]
    ) -> None:
        self.estimator = estimator
        ledgers = _named(estimator, "ledger", only_set=True)
        self.changes = changes | dict.fromkeys(ledgers)
        self.seeds = _named(estimator, "random_state", only_set=random_state is None)
        given_seeds: list[Any] = [random_state]
        if random_state is None:
            parameters = estimator.get_params()
            given_seeds = [parameters[name] for name in self.seeds]
        # Far apart for seeds that are next to each other, as all clones count up.
        start = sum(int(seed) for seed in given_seeds if isinstance(seed, Integral))
        self.numbers = itertools.count(1_000_003 * start + 1)

    def __call__(self) -> Any:
        seed = next(self.numbers) % (1 << 32)
        changes = self.changes | dict.fromkeys(self.seeds, seed)
        return clone(self.estimator).set_params(**changes)


def _is_fitted(estimator: Any) -> bool:
    """Whether an estimator is fitted; one without `fit` always is."""
    if not hasattr(estimator, "fit"):
        return True
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _claim(audited: Audited) -> tuple[float, float]:
    """Return the epsilon and the delta of a guarantee, for all reports of a record."""
    if audited.fitted is None:
        raise ValueError(
            "give the epsilon that is claimed: a callable has no guarantee_"
        )
    guarantee = getattr(audited.fitted, "guarantee_", None)
    if guarantee is None:
        raise ValueError(
            "give the epsilon that is claimed: there is no guarantee_ to read it from"
        )
    if guarantee.relation == "replace_values":
        if differ_outside(audited.tables, guarantee.scope):
            raise ValueError(
                "neighbours must differ in the values of one record in the columns "
                f"{list(guarantee.scope)}, for which guarantee_ is; all others, and the "
                "number of rows, are public"
            )
    elif audited.central:
        n_rows = set(map(count_rows, audited.tables))
        # The relation of the two tables that were given.
        guarantee = guarantee.to("replace" if len(n_rows) == 1 else "add_remove")
    # Permanent reports are one release, however often they are made.
    n_losses = 1 if audited.keyed else audited.n_reports
    epsilon = Fraction(guarantee.epsilon) * n_losses
    return float(epsilon), float(guarantee.delta) * n_losses


def _findings(estimator: Any, audited: Audited) -> list[str]:
    """List what is to be known besides the bound."""
    findings = []
    if isinstance(estimator, OnFitOnly):
        findings.append(
            "only fit_transform was audited: transform releases unprotected rows"
        )
    if audited.central:
        finding = "only what fit learns was audited"
        protects_rows = getattr(estimator, "protects_rows", None)
        if hasattr(estimator, "transform") and not protects_rows:
            finding += ": transform protects no row"
        findings.append(finding)
    if not audited.keyed and _is_seeded(estimator):
        findings.append(
            "the random bits come from a seed: anyone who knows the seed can repeat "
            "them, and distinguish two records"
        )
    return findings


def _is_seeded(estimator: Any) -> bool:
    """Whether the random bits of an estimator, or of one that it wraps, come from a seed."""
    seeds = _named(estimator, "random_state", only_set=True)
    return bool(seeds) or getattr(estimator, "random_state", None) is not None


# The exact value.


def exact_epsilon(fitted: Any) -> float | None:
    """Return the largest logarithm of a ratio of probabilities, from the exact channel."""
    ratios = []
    for channels in _attributes(fitted):
        worst = Fraction(1)
        for channel in channels:
            if not _is_exact(channel):
                return None
            ratio = worst_ratio(channel)
            if ratio is None:
                return math.inf
            worst = max(worst, ratio)
        ratios.append(worst)
    if not ratios:
        return None
    # The attributes that a record reports together, with the largest ratios.
    ratios.sort(reverse=True)
    return log_upper(math.prod(ratios[: _n_sampled(fitted)], start=Fraction(1)))


def _is_exact(channel: Channel) -> bool:
    """Whether probabilities are fractions: floats are not exact."""
    shares = itertools.chain.from_iterable(channel)
    return all(isinstance(share, Fraction | int) for share in shares)


def _n_sampled(fitted: Any) -> int | None:
    """Return how many attributes a record reports, None for all."""
    protocol = getattr(fitted, "protocol_", None)
    if isinstance(protocol, ReportProtocol):
        return protocol.n_sampled
    return 1 if getattr(fitted, "strategy", None) == "sample" else None


def worst_ratio(channel: Channel) -> Fraction | None:
    """Return the largest ratio of the probabilities of a report under two true values; None if it is infinite."""
    worst = Fraction(1)
    for report in zip(*channel, strict=True):
        # Of one report: the least and the largest probability over all true values.
        low, high = Fraction(min(report)), Fraction(max(report))
        if high <= 0:
            continue
        if low <= 0:
            return None
        worst = max(worst, high / low)
    return worst


def _attributes(fitted: Any) -> list[Iterator[Channel]]:
    """List the channels of each attribute; there are several only where a public hash function decides."""
    protocol = getattr(fitted, "protocol_", None)
    if isinstance(protocol, ReportProtocol):
        # Of larger channels, exact sums would take minutes.
        # None for a protocol whose probabilities have no table.
        return protocol.channels(1 << 18) or []
    if hasattr(fitted, "channel"):
        return [iter([channel]) for channel in fitted.channel()]
    return []
