"""The epsilon, or the number of rows, at which a number is known well enough."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.isotonic import IsotonicRegression

from skdp.base import ColumnName, Privileged, check_choice, check_confidence_level
from skdp.central import DPHistogram, planned_half_width
from skdp.domain import Domain
from skdp.evaluation.curves import compare_to_baseline
from skdp.evaluation.displays import (
    COLOURS,
    INK,
    PanelDisplay,
    import_pyplot,
    interval_label,
    new_grid,
    tidy_axes,
)
from skdp.local import (
    LocalTableEncoder,
    OracleEncoder,
    OracleField,
    ReportProtocol,
    ReportTally,
    estimate_counts,
)
from skdp.markup import html_facts
from skdp.metrics.private_groups import parity_half_width
from skdp.privacy import Shuffled, WeakGuaranteeWarning, check_epsilon

if TYPE_CHECKING:  # an optional dependency
    from matplotlib.axes import Axes

Quantity = Literal["count", "frequency", "parity"]

# The amounts that are searched: all numbers of three digits from .001 to 64.
_MOST = 64.0
_AMOUNTS = [
    amount
    for amount in (np.arange(100, 1000) * 10.0 ** np.arange(-5, 0)[:, None]).ravel()
    if amount <= _MOST
]
_MOST_ROWS = 1 << 40
_WORDS = {
    "count": "a count",
    "frequency": "a frequency",
    "parity": "a parity difference",
}
# Where the curve of a plan is computed, as multiples of what was found.
_FACTORS = np.geomspace(1 / 4, 4, 9)

# The shares of which the worst is taken in a sample; without one the variance is linear
# in the share, and 0 and 1 are enough.
_SHARES = tuple(np.linspace(0, 1, 11).tolist())


@dataclass(frozen=True, eq=False, repr=False)
class EpsilonPlan:
    """The epsilon and the number of rows at which a number is known as well as was asked for."""

    of: str
    within: float
    epsilon: Any
    n_rows: int | None
    half_width: float
    confidence_level: float
    curve: pd.DataFrame
    epsilon_range: tuple[float, float] | None = None

    def __str__(self) -> str:
        text = str(self.epsilon)
        if isinstance(self.epsilon, Real):
            text = f"epsilon = {self.epsilon:.3g}"
        level = interval_label(self.confidence_level)
        quantity = _WORDS.get(self.of, self.of)
        if self.epsilon_range is not None:
            low, high = map(_end_text, self.epsilon_range)
            return (
                f"{text} is enough for {quantity} within {self.within:g} of no "
                f"privacy ({level}: {low} to {high})"
            )
        verb = "is"
        if self.n_rows is not None:
            text += f" and {self.n_rows:,} rows"
            verb = "are"
        return (
            f"{text} {verb} enough for {quantity} within ± {self.within:g} "
            f"({level}: ± {self.half_width:.3g})"
        )

    __repr__ = __str__

    def plot(self, *, ax: Axes | None = None) -> PlanDisplay:
        """Draw the half width, the one that was asked for, and what was found."""
        return PlanDisplay(self).plot(ax=ax)

    def _repr_html_(self) -> str:
        facts = [
            ("wanted", f"{self.of} within {self.within:g}"),
            ("epsilon", f"{amount_of(self.epsilon):.3g}"),
            ("rows", None if self.n_rows is None else f"{self.n_rows:,}"),
            ("reached", f"{self.half_width:.3g}"),
        ]
        return html_facts("Plan", facts)


class PlanDisplay(PanelDisplay):
    """Plot of the half width against epsilon, or the number of rows, with what was asked for and what was found."""

    def __init__(self, plan: EpsilonPlan) -> None:
        self.plan = plan

    def plot(self, *, ax: Axes | None = None) -> PlanDisplay:
        """Draw the half width, the one that was asked for, and what was found."""
        import_pyplot()
        plan = self.plan
        curve = plan.curve.replace([np.inf, -np.inf], np.nan)
        (axes,) = self._use_panels(
            ax, 1, "", lambda: new_grid(1, width=6.4, height=4, margin=0)
        )
        name = curve.columns[0]
        is_scores = plan.epsilon_range is not None
        style: dict[str, Any] = {"color": COLOURS[0]}
        style["marker"] = "." if is_scores else None
        handles = axes.plot(curve[name], curve["half_width"], label="reached", **style)
        if is_scores:
            label = interval_label(plan.confidence_level)
            ends = curve["lower"], curve["upper"]
            style = {"color": COLOURS[0], "alpha": 0.2, "lw": 0}
            handles.append(axes.fill_between(curve[name], *ends, label=label, **style))
        style = {"color": INK, "ls": "--", "lw": 1.2}
        handles.append(axes.axhline(plan.within, label="wanted", **style))
        if name == "epsilon":
            place: Any = amount_of(plan.epsilon)
            label = f"plan: epsilon = {place:.3g}"
            axes.set_xlabel("epsilon (smaller is more private)")
        else:
            place = plan.n_rows
            label = f"plan: {place:,}"
            axes.set_xlabel("rows")
        style = {"color": COLOURS[1], "marker": "s", "ms": 8, "ls": "none"}
        handles += axes.plot([place], [plan.half_width], label=label, **style)
        tidy_axes(axes)
        _scale_by_log(axes, "x")
        if is_scores:
            axes.set_ylabel(f"{plan.of}: distance to no privacy")
        else:
            _scale_by_log(axes, "y")
            axes.set_ylabel(f"{plan.of}: half width of its interval")
        self._draw_legend(axes, handles)
        return self


def _end_text(epsilon: float) -> str:
    """Write an end of an interval."""
    return f"{epsilon:.3g}" if epsilon < math.inf else "more than was tried"


def _scale_by_log(axes: Any, name: str) -> None:
    """Place ticks at 1, 2 and 5 times the powers of ten."""
    from matplotlib.ticker import LogLocator

    axes.set(**{f"{name}scale": "log"})
    axis = getattr(axes, f"{name}axis")
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:,.6g}")
    axis.set_minor_formatter("")


def plan_epsilon(
    source: Any,
    *,
    within: float,
    of: str = "count",
    epsilon: float | None = None,
    n_rows: int | None = None,
    columns: ColumnName | list[ColumnName] | None = None,
    share: float | None = None,
    privileged: Privileged | None = None,
    rates: tuple[float, float] = (0.5, 0.5),
    rows: Literal["population", "table"] = "population",
    confidence_level: float = 0.95,
) -> EpsilonPlan:
    """Find the least epsilon, or number of rows, at which a number is known well enough.

    Parameters
    ----------
    source : encoder of categories, LocalTableEncoder, DPHistogram, or result of `privacy_curve`
        What is going to release, fitted or not, with the values of its columns declared by name. Its epsilon says of
        which kind it is (a number, `Rho`, `Mu`, `Shuffled`); how large it is does not matter, and nothing is
        charged. Or a curve of scores.
    within : float
        The largest half width of the interval of what is asked for, > 0. Of a curve, the largest distance to the mean
        score without noise.
    of : str, default="count"
        ``"count"`` or ``"frequency"``: of a value, as `estimate_counts`, `estimate_frequencies` and
        `DPHistogram.to_frame` state them. ``"parity"``: the difference of the selection rates of two groups, by
        `debiased_fairness`. Of a curve, the name of a metric.
    epsilon : float, optional
        The epsilon that is given, if the number of rows is asked for.
    n_rows : int, optional
        The number of rows that is given, if epsilon is asked for; for counts of a histogram it does not matter. With
        `Shuffled`, at least its number of reports, as is what is found.
    columns : column name or list of them, optional
        The columns that are asked for, each by itself. By default all; of ``strategy="joint"``, their combinations.
    share : float, optional
        A public guess of the share of the records that have the value, or, of "parity", that are privileged, between 0
        and 1; the other values are taken to be equally frequent. By default the worst share; "parity" needs one.
    privileged : value or list of values, optional
        For "parity": as for `debiased_fairness`.
    rates : tuple of float, default=(0.5, 0.5)
        For "parity": public guesses of the selection rates of the unprivileged and of the privileged; by default those
        with the widest interval.
    rows : {"population", "table"}, default="population"
        For "frequency" and "parity": whose share it is, that of the population from which the rows are drawn at
        random, or of the rows themselves. Counts, and shares of a `DPHistogram`, are those of the table.
    confidence_level : float, default=0.95
        The coverage of each interval, between 0 and 1.

    Returns
    -------
    EpsilonPlan
        A plan that can be printed, with the attributes

        - ``epsilon``: what to give the estimator, a number that is rounded up to three digits, or a `Rho`, `Mu` or
          `Shuffled`;
        - ``n_rows``: the number of rows; None if it does not matter;
        - ``of``, ``within``, ``confidence_level``: what was asked for;
        - ``half_width``: what is reached, at most ``within``;
        - ``curve``: a table of ``half_width`` at other values of ``epsilon``, or of ``n_rows`` if this was asked for.
          Of a curve of scores, the distance to the score without noise, and its interval's ends, ``lower, upper``;
        - ``epsilon_range``: of a curve of scores, the epsilons by ``lower`` and by ``upper``; infinite if no epsilon of
          the curve is enough; otherwise None;

        and with the method ``plot(ax=None)``, which draws ``curve`` and what was found.

    Raises
    ------
    TypeError
        If the source has no counts to plan, or its values are not declared by name.
    ValueError
        If a parameter is out of range or missing, or no epsilon is enough: the error says how many rows would be.

    See Also
    --------
    skdp.evaluation.compare_to_baseline : The differences of the scores of a curve.
    recommend_plan : Which strategy has the least error.
    privacy_statement : Before `fit`, what a pipeline is set to spend.

    Notes
    -----
    **Privacy.** Computed from what is declared and from public guesses: nothing is released or charged. A curve of
    scores is computed from true rows and is not protected, nor is a plan that is made from it; the same holds for
    guesses that were read from the data.

    The half width is that of the interval that the library is going to state, computed by the same functions from the
    expected reports. In a single release it is a little wider or narrower, since the variance is
    estimated. The error of a count does not fall with the number of rows (of reports, it grows), so that rows are
    planned for frequencies and parity differences only.

    Of a curve of scores, the distance of the mean score to that of the baseline is fitted to fall with epsilon, and a
    line is drawn between neighbouring epsilons on a log axis. `epsilon_range` is where this line comes close enough, if
    it is moved by half the width of the intervals of `compare_to_baseline`.

    Examples
    --------
    Which epsilon is needed for the share of smokers among 20,000 people within two percentage points?

    >>> from skdp import RandomizedResponseEncoder, plan_epsilon
    >>> encoder = RandomizedResponseEncoder(categories={"smokes": ["yes", "no"]})
    >>> plan = plan_epsilon(encoder, within=0.02, of="frequency", n_rows=20_000)
    >>> plan.epsilon, round(plan.half_width, 4)
    (0.723, 0.02)

    How many people at epsilon 1?

    >>> plan_epsilon(encoder, within=0.02, of="frequency", epsilon=1.0).n_rows
    11239
    """
    is_number = isinstance(within, Real) and not isinstance(within, bool)
    if not is_number or not 0 < within < math.inf:
        raise ValueError(f"within must be a finite number > 0, got {within!r}")
    within = float(within)
    level = check_confidence_level(confidence_level)
    if isinstance(source, pd.DataFrame):
        options = {
            "epsilon": epsilon,
            "n_rows": n_rows,
            "columns": columns,
            "share": share,
            "privileged": privileged,
        }
        for name, option in options.items():
            if option is not None:
                raise ValueError(
                    f"{name} is not for a curve of scores, whose rows and epsilons are "
                    "given"
                )
        return _plan_of_curve(source, of, within, level)
    _check_estimator(source, of)
    names = _read_columns(source, columns)
    _check_guesses(share, rates, rows)
    parity: dict[str, Any] = {}
    if of == "parity":
        if share is None or privileged is None or not 0 < share < 1:
            raise ValueError(
                "of='parity' needs `privileged`, its values, and `share`, a guess of "
                "their share, between 0 and 1"
            )
        parity = {"privileged": privileged, "rates": rates, "rows": rows}
        parity["share"] = share
    # Counts are those of the table.
    whose = "table" if of == "count" else rows
    question = _Question(of, level, share, names, parity, whose)
    if of != "count" and within >= 1:
        raise ValueError(f"within must be below 1 for {_WORDS[of]}, got {within!r}")
    _check_amounts(source, of, epsilon, n_rows)
    if epsilon is None:
        return _plan_of_epsilon(source, question, within, n_rows)
    return _plan_of_rows(source, question, within, float(check_epsilon(epsilon)))


def _check_estimator(estimator: Any, of: str) -> None:
    """Refuse what has no counts to plan."""
    if of not in get_args(Quantity):
        raise ValueError(f"of must be one of {get_args(Quantity)}, got {of!r}")
    kinds: tuple[type, ...] = (OracleEncoder, LocalTableEncoder, DPHistogram)
    expected = "an encoder of categories or tables, or a DPHistogram"
    if of == "parity":
        kinds = (OracleEncoder,)
        expected = "an encoder of categories"
    if isinstance(estimator, type) or not isinstance(estimator, kinds):
        name = type(estimator).__name__
        if isinstance(estimator, type):
            name = f"the class {estimator.__name__}"
        raise TypeError(f"of={of!r} is planned for {expected}, got {name}")


def _read_columns(source: Any, columns: Any) -> list[Any] | None:
    """Return the columns that are asked for, as a list."""
    if columns is None:
        return None
    declared = list(_declared_domain(source).columns)
    names = columns if isinstance(columns, list) else [columns]
    if not names or not all(name in declared for name in names):
        raise ValueError(f"columns must be some of {declared}, got {names}")
    return list(names)


def _check_guesses(share: Any, rates: Any, rows: Any) -> None:
    """Check the public guesses."""
    if not isinstance(rates, tuple | list) or len(rates) != 2:
        raise ValueError(
            "rates must be two numbers, of the unprivileged and of the privileged, "
            f"got {rates!r}"
        )
    guesses = [("share", 0.5 if share is None else share)]
    guesses += [("each of rates", rate) for rate in rates]
    for name, guess in guesses:
        if not isinstance(guess, Real) or not 0 <= float(guess) <= 1:
            raise ValueError(f"{name} must be a number from 0 to 1, got {guess!r}")
    check_choice("rows", rows, ["population", "table"])


def _check_amounts(source: Any, of: str, epsilon: Any, n_rows: Any) -> None:
    """Refuse to plan both of epsilon and the number of rows, or none."""
    if epsilon is not None:
        check_epsilon(epsilon)
    if n_rows is not None:
        is_integer = isinstance(n_rows, Integral) and not isinstance(n_rows, bool)
        if not is_integer or n_rows < 1:
            raise ValueError(f"n_rows must be an integer of at least 1, got {n_rows!r}")
        if n_rows < _fewest_rows(source):
            raise ValueError(
                f"n_rows must be at least {_fewest_rows(source):,}, the number of "
                f"reports of {source.epsilon}"
            )
    if epsilon is not None and n_rows is not None:
        raise ValueError("epsilon and n_rows are both given: there is nothing to plan")
    if epsilon is not None and of == "count":
        raise ValueError(
            "the error of a count does not fall with the number of rows: plan them for "
            "of='frequency'"
        )
    depends_on_rows = of != "count" or not isinstance(source, DPHistogram)
    if epsilon is None and n_rows is None and depends_on_rows:
        choice = ", or epsilon if the number of rows is asked for"
        raise ValueError(f"of={of!r} needs n_rows{'' if of == 'count' else choice}")


def _fewest_rows(source: Any) -> int:
    """Return the number of rows without which an epsilon does not hold."""
    return source.epsilon.n if isinstance(source.epsilon, Shuffled) else 1


def _plan_of_epsilon(
    source: Any, question: _Question, within: float, n_rows: int | None
) -> EpsilonPlan:
    """Find the least amount of epsilon at which the interval is narrow enough."""

    def half_width(amount: float) -> float:
        release = _Release.of(source, _with_amount(source, amount), question)
        return release.half_width(n_rows or 1)

    # Bisection: the width falls with epsilon.
    # `key` is False up to some amount, and True from there on.
    place = bisect_left(_AMOUNTS, True, key=lambda amount: half_width(amount) <= within)
    if place == len(_AMOUNTS):
        best = _Release.of(source, _with_amount(source, _MOST), question)
        raise ValueError(_impossible(best, within))
    amount = float(_AMOUNTS[place])
    amounts = amount * _FACTORS
    amounts = amounts[amounts <= _MOST]
    widths = list(map(half_width, amounts))
    return EpsilonPlan(
        of=question.of,
        within=within,
        epsilon=_with_amount(source, amount),
        n_rows=n_rows,
        half_width=half_width(amount),
        confidence_level=question.level,
        curve=pd.DataFrame({"epsilon": amounts, "half_width": widths}),
    )


def _plan_of_rows(
    source: Any, question: _Question, within: float, amount: float
) -> EpsilonPlan:
    """Find the least number of rows at which the interval is narrow enough."""
    epsilon = _with_amount(source, amount)
    release = _Release.of(source, epsilon, question)
    n_rows = _least_rows(lambda n: release.half_width(n) <= within)
    if n_rows is None:
        raise ValueError(
            f"no number of rows up to {_MOST_ROWS:,} is enough at this epsilon"
        )
    # A shuffler promises its epsilon of that many reports.
    n_rows = max(n_rows, _fewest_rows(source))
    numbers = np.unique(np.maximum(1, np.rint(n_rows * _FACTORS))).astype(int).tolist()
    widths = list(map(release.half_width, numbers))
    return EpsilonPlan(
        of=question.of,
        within=within,
        epsilon=epsilon,
        n_rows=n_rows,
        half_width=release.half_width(n_rows),
        confidence_level=question.level,
        curve=pd.DataFrame({"n_rows": numbers, "half_width": widths}),
    )


def _least_rows(is_enough: Callable[[int], bool]) -> int | None:
    """Return the least number of rows that is enough, if all larger ones are."""
    # The first power of two that is enough, and then between it and the one before.
    for power in range(_MOST_ROWS.bit_length()):
        if is_enough(1 << power):
            numbers = range((1 << power) // 2 + 1, 1 << power)
            return numbers.start + bisect_left(numbers, True, key=is_enough)
    return None


def _impossible(best: _Release, within: float) -> str:
    """Write the error of a wish that no epsilon fulfils, with the number of rows that would be enough."""
    of = best.question.of
    text = f"no epsilon up to {_MOST:g} gives {_WORDS[of]} within {within:g}"
    shortest = best.half_width(1)
    if of == "count" and shortest == best.half_width(_MOST_ROWS):
        return (
            f"{text}, as its interval ends at whole numbers: the shortest is "
            f"± {shortest:.3g}"
        )
    text += ", as a part of its error is that of a sample"
    if of == "count":
        too_many = _least_rows(lambda n: best.half_width(n) > within) or 1
        return f"{text}: with at most {too_many - 1:,} rows it is possible"
    least = _least_rows(lambda n: best.half_width(n) <= within)
    return text if least is None else f"{text}: it needs at least {least:,} rows"


@dataclass(frozen=True)
class _Question:
    """What shall be known how well."""

    of: str
    level: float
    share: float | None
    columns: list[Any] | None
    parity: Mapping[str, Any]
    rows: str


@dataclass(frozen=True)
class _Release:
    """An estimator with an epsilon, and how well its release answers a question."""

    # Fitted to a declared row, but a histogram, which plans without.
    estimator: Any
    domain: Domain
    question: _Question

    @classmethod
    def of(cls, source: Any, epsilon: Any, question: _Question) -> _Release:
        # A plan charges nothing.
        estimator = clone(source).set_params(epsilon=epsilon, ledger=None)
        domain = _declared_domain(source)
        if not isinstance(estimator, DPHistogram):
            estimator.set_params(categories=domain)
            row = _declared_row(domain, getattr(estimator, "bounds", None))
            with warnings.catch_warnings(
                action="ignore", category=WeakGuaranteeWarning
            ):
                estimator.fit(row)
        return cls(estimator, domain, question)

    def half_width(self, n_rows: int) -> float:
        """Return half the width of the widest interval, for a number of rows."""
        question = self.question
        if isinstance(self.estimator, DPHistogram):
            share = 1.0 if question.share is None else question.share
            width = planned_half_width(
                self.estimator, self.domain, n_rows * share, question.level
            )
            return width / n_rows if question.of == "frequency" else width
        if question.of == "parity":
            return parity_half_width(
                self.estimator,
                n_rows,
                columns=question.columns,
                level=question.level,
                **question.parity,
            )
        return _width_of_reports(self.estimator.protocol_, n_rows, question)


def _with_amount(estimator: Any, amount: float) -> Any:
    """Return the epsilon of an estimator with another amount: a number, or a rho or mu with its delta."""
    epsilon = estimator.epsilon
    if not is_dataclass(epsilon):
        return amount
    name = next(name for name in _AMOUNT_NAMES if hasattr(epsilon, name))
    return replace(epsilon, **{name: amount})  # type: ignore[type-var]


def amount_of(epsilon: Any) -> float:
    """Return the number in an epsilon."""
    for name in _AMOUNT_NAMES:
        epsilon = getattr(epsilon, name, epsilon)
    return float(epsilon)


_AMOUNT_NAMES = ("epsilon", "rho", "mu")


def _declared_domain(estimator: Any) -> Domain:
    """Return the declared values of an estimator, by the names of the columns."""
    name = "domain" if isinstance(estimator, DPHistogram) else "categories"
    declared = getattr(estimator, "domain_", getattr(estimator, name))
    if isinstance(declared, Domain):
        return declared
    if isinstance(declared, Mapping):
        return Domain(declared)
    raise TypeError(
        f"{name} of {type(estimator).__name__} must be a mapping or a Domain: nothing "
        "else is known here"
    )


def _declared_row(domain: Domain, bounds: Any) -> pd.DataFrame:
    """Return a row of declared values, to fit to."""
    row = {}
    for name in domain.columns:
        row[name] = pd.Series([domain[name].values[0]], dtype=object)
    for name, (low, _) in (bounds or {}).items():
        row[name] = pd.Series([float(low)])
    return pd.DataFrame(row)


def _width_of_reports(
    protocol: ReportProtocol, n_rows: int, question: _Question
) -> float:
    """Return the largest half width that is stated of the expected reports."""
    shares: tuple[float, ...] = (0.0, 1.0)
    if question.share is not None:
        shares = (question.share,)
    elif protocol.n_sampled is not None or question.rows == "population":
        shares = _SHARES
    widest = 0.0
    for share in shares:
        for columns in _counted_groups(protocol, question.columns):
            # The library states the interval itself, of reports as they are on average.
            tally = _expected_tally(protocol, n_rows, share, columns)
            what: Any = question.of
            table = estimate_counts(
                protocol,
                tally,
                columns,
                confidence_level=question.level,
                what=what,
                rows=question.rows,
            )
            # Near 0 and n the interval of a sample is not symmetric: half of it is
            # stated, not the longer arm.
            width = (table["upper"] - table["lower"]).iloc[0] / 2
            widest = max(widest, float(width))
    return widest


def _counted_groups(
    protocol: ReportProtocol, columns: Sequence[Any] | None
) -> list[list[Any]]:
    """Return the columns whose values are counted together."""
    assert protocol.domain is not None
    if columns is None and protocol.strategy == "joint":
        return [list(protocol.columns)]
    return [[name] for name in columns or protocol.domain.columns]


def _expected_tally(
    protocol: ReportProtocol, n_rows: int, share: float, columns: Sequence[Any]
) -> ReportTally:
    """Return the sums of reports on average: the first combination of the columns has a share, the others are alike."""
    # The probability that a record reports a field.
    rates = [1.0] * len(protocol.fields)
    if protocol.sampling is not None:
        rates = [float(rate) for rate in protocol.sampling.inclusions]
    empty = protocol.empty_tally()
    counts: list[Any] = list(empty.counts)
    sizes: list[Any] = list(empty.sizes)
    for place, (field, rate) in enumerate(zip(protocol.fields, rates, strict=True)):
        if isinstance(field, OracleField):
            sizes[place] = n_rows * rate
            counts[place] = _expected_sums(field, sizes[place], share, columns)
    return replace(empty, counts=tuple(counts), sizes=tuple(sizes), n_reports=n_rows)


def _expected_sums(
    field: OracleField, size: float, share: float, columns: Sequence[Any]
) -> Any:
    """Return the expected sums of a field of which the first values of some columns have a share."""
    domain = field.domain
    oracle: Any = field.oracle
    # (n_columns, n_cells): the code of each column in each cell.
    codes = np.indices(domain.sizes).reshape(len(domain.columns), -1)
    is_asked = [name in columns for name in domain.columns]
    is_first = (codes[is_asked] == 0).all(axis=0)
    n_first = is_first.sum()
    n_further = max(len(is_first) - n_first, 1)
    shares = np.where(is_first, share / n_first, (1 - share) / n_further)
    # `estimate` is linear in the sums: the sums of which it is the expected counts.
    at_zero = oracle.estimate(np.zeros(oracle.k), size)
    at_one = oracle.estimate(np.ones(oracle.k), size)
    return (shares * size - at_zero) / (at_one - at_zero)


def _plan_of_curve(
    curve: pd.DataFrame, metric: str, within: float, level: float
) -> EpsilonPlan:
    """Find where the scores of a curve come close enough to those without noise."""
    losses = _losses(curve, metric, level)
    epsilon = _crossing(losses, "half_width", within)
    if not math.isfinite(epsilon):
        raise ValueError(
            f"no epsilon of the curve is enough: the closest {metric} is "
            f"{losses['half_width'].min():.3g} from that without noise"
        )
    ends = _crossing(losses, "lower", within), _crossing(losses, "upper", within)
    logs = np.log(losses["epsilon"])
    reached = float(np.interp(math.log(epsilon), logs, losses["half_width"]))
    return EpsilonPlan(metric, within, epsilon, None, reached, level, losses, ends)


def _losses(curve: pd.DataFrame, metric: str, level: float) -> pd.DataFrame:
    """Return how far the mean scores are from those without noise, fitted to fall with epsilon, and the intervals."""
    costs = compare_to_baseline(curve, confidence_level=level)
    metrics = costs["metric"].unique().tolist()
    if metric not in metrics:
        raise ValueError(
            f"of must be a metric of the curve, one of {metrics}, got {metric!r}"
        )
    costs = costs[(costs["metric"] == metric) & (costs["group"] == "all")]
    costs = costs[costs["difference"].notna()].sort_values("epsilon")
    if len(costs) < 2:
        raise ValueError(
            f"curve must have finite scores of {metric!r} at two epsilons or more"
        )
    # Noise in the scores must not make a larger epsilon look worse.
    falling = IsotonicRegression(increasing=False)
    fitted = falling.fit_transform(np.arange(len(costs)), costs["difference"].abs())
    reach = ((costs["upper"] - costs["lower"]) / 2).fillna(np.inf).to_numpy()
    return pd.DataFrame(
        {
            "epsilon": costs["epsilon"].to_numpy(),
            "half_width": fitted,
            "lower": np.maximum(fitted - reach, 0),
            "upper": fitted + reach,
        }
    )


def _crossing(losses: pd.DataFrame, column: str, within: float) -> float:
    """Return the least epsilon at which a loss is small enough, by a line between neighbours; inf if it never is."""
    # The ends of the intervals are not fitted: from where they are small, they count as
    # small.
    values = np.minimum.accumulate(losses[column].to_numpy())
    is_enough = values <= within
    epsilons = losses["epsilon"].to_numpy()
    if not is_enough.any():
        return math.inf
    place = int(is_enough.argmax())
    if place == 0:
        return float(epsilons[0])
    # A line over the logarithm of epsilon.
    high, low = values[place - 1], values[place]
    weight = (high - within) / (high - low)
    ratio = epsilons[place] / epsilons[place - 1]
    return float(epsilons[place - 1] * ratio**weight)
