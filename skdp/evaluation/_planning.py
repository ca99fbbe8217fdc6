"""The epsilon, or the number of rows, at which a number is known well enough."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from numbers import Integral, Real
from statistics import NormalDist
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.isotonic import IsotonicRegression

from skdp.base import ColumnName, Privileged, check_choice, check_confidence_level
from skdp.central import DPHistogram, planned_half_width
from skdp.domain import Domain
from skdp.evaluation._comparisons import (
    Comparison,
    DesignRelease,
    Reported,
    check_design,
    half_width_of_power,
    power_of,
)
from skdp.evaluation._privacy_curve import compare_to_baseline
from skdp.evaluation.displays import interval_label
from skdp.local import (
    LocalTableEncoder,
    OracleEncoder,
    OracleField,
    ReportProtocol,
    ReportTally,
    estimate_counts,
)
from skdp.markup import html_facts
from skdp.metrics import parity_half_width
from skdp.privacy import WeakGuaranteeWarning, check_epsilon
from skdp.survey import ReportDesign

Numbers = NDArray[np.float64]

Quantity = Literal["count", "frequency", "parity", "difference", "coefficient"]
_COMPARED = ("difference", "coefficient")
_OF_DESIGNS = ("frequency", *_COMPARED)

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
    "difference": "a difference of two groups",
    "coefficient": "a coefficient",
}
# Where the curve of a plan is computed, as multiples of what was found; and for which
# numbers of rows that of power.
_FACTORS = np.geomspace(1 / 4, 4, 9)

# The shares of which the worst is taken in a sample; without one the variance is linear
# in the share, and 0 and 1 are enough.
_SHARES = tuple(np.linspace(0, 1, 11).tolist())


_AMOUNT_NAMES = ("epsilon", "rho", "mu")


def _amount_of(epsilon: Any) -> float:
    """Return the number in an epsilon."""
    for name in _AMOUNT_NAMES:
        epsilon = getattr(epsilon, name, epsilon)
    return float(epsilon)


def _end_text(epsilon: float) -> str:
    """Write an end of an interval."""
    return f"{epsilon:.3g}" if epsilon < np.inf else "more than was tried"


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
    effect: float | None = None
    power: float | None = None

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
        if self.power is not None:
            return (
                f"{text} {verb} enough to find {quantity} of {self.effect:.3g} with a "
                f"power of {self.power:.3g} (test at {1 - self.confidence_level:.3g})"
            )
        return (
            f"{text} {verb} enough for {quantity} within ± {self.within:g} "
            f"({level}: ± {self.half_width:.3g})"
        )

    __repr__ = __str__

    @property
    def reached_power(self) -> float | None:  # numpydoc ignore=RT01
        """How often the effect is found; None without one."""
        if self.power is None or self.effect is None:
            return None
        z = NormalDist().inv_cdf((1 + self.confidence_level) / 2)
        return power_of(self.effect, self.half_width / z, self.confidence_level)

    def _repr_html_(self) -> str:
        wanted = f"{self.of} within {self.within:.3g}"
        if self.power is not None:
            wanted = f"{self.of} of {self.effect:.3g}, power {self.power:.3g}"
        facts = [
            ("wanted", wanted),
            ("epsilon", f"{_amount_of(self.epsilon):.3g}"),
            ("rows", None if self.n_rows is None else f"{self.n_rows:,}"),
            ("reached", f"{self.half_width:.3g}"),
        ]
        return html_facts("Plan", facts)


def plan_epsilon(
    source: Any,
    *,
    within: float | None = None,
    power: float | None = None,
    of: str = "count",
    n_rows: int | None = None,
    columns: ColumnName | list[ColumnName] | None = None,
    share: float | None = None,
    privileged: Privileged | None = None,
    rates: tuple[float, float] = (0.5, 0.5),
    reported: Reported = "target",
    rows: Literal["population", "table"] = "population",
    confidence_level: float = 0.95,
) -> EpsilonPlan:
    """Find the least epsilon at which a number is known well enough, or an effect is found.

    Parameters
    ----------
    source : encoder of categories, LocalTableEncoder, DPHistogram, or result of `privacy_curve`
        What is going to release, fitted or not, with the values of its columns declared by name. Its epsilon says of
        which kind it is (a number, `Rho`, `Mu`); how large it is does not matter, and nothing is
        charged. Or a curve of scores.
    within : float, optional
        The largest half width of the interval of what is asked for, > 0. Of a curve, the largest distance to the mean
        score without noise.
    power : float, optional
        Of a difference or a coefficient, in place of `within`: how often a test shall find it, such as .8, if it is as
        `rates` say.
    of : str, default="count"
        ``"count"`` or ``"frequency"``: of a value, as `estimate_counts`, `estimate_frequencies` and
        `DPHistogram.to_frame` state them. ``"parity"``: the difference of the selection rates of two groups, by
        `debiased_fairness`. ``"difference"``: of the shares of a reported value in two groups that are known.
        ``"coefficient"``: the log odds ratio of `ReportLogisticRegression`. Of a curve, the name of a metric.
    n_rows : int, optional
        The number of rows; for counts of a histogram it does not matter.
    columns : column name or list of them, optional
        The columns that are asked for, each by itself. By default all; of ``strategy="joint"``, their combinations. One
        for differences and coefficients, whose value is its first.
    share : float, optional
        A public guess of the share of the records that have the value, or, of "parity", that are privileged, between 0
        and 1; the other values are taken to be equally frequent. By default the worst share; "parity" needs one. Of
        differences and coefficients, the share of the second group, or of the rows that have the value of a reported
        predictor; half by default. Of a `DPHistogram`, it changes nothing, as noise does not depend on counts.
    privileged : value or list of values, optional
        For "parity": as for `debiased_fairness`.
    rates : tuple of float, default=(0.5, 0.5)
        For "parity": public guesses of the selection rates of the unprivileged and of the privileged; by default those
        with the widest interval. For "difference" and "coefficient": guesses of the shares of the target in the first
        and the second group, or of rows without and with the value of a reported predictor.
    reported : {"target", "predictor"}, default="target"
        For "coefficient": what is reported; the other one, of two groups or classes, is known.
    rows : {"population", "table"}, default="population"
        For "frequency" and "parity": whose share it is, that of the population from which the rows are drawn at
        random, or of the rows themselves. Counts, and shares of a `DPHistogram`, are those of the table.
    confidence_level : float, default=0.95
        The coverage of each interval, between 0 and 1; tests are at the level of the rest.

    Returns
    -------
    EpsilonPlan
        A plan that can be printed, with the attributes

        - ``epsilon``: what to give the estimator, a number that is rounded up to three digits, or a `Rho` or `Mu`;
        - ``n_rows``: the number of rows; None if it does not matter;
        - ``of``, ``within``, ``power``, ``confidence_level``: what was asked for; of `power`, ``within`` is the half
          width that it needs, and ``effect`` the difference or log odds ratio of the guesses;
        - ``half_width``: what is reached, at most ``within``;
        - ``curve``: a table of ``half_width`` at other values of ``epsilon``, or of ``n_rows`` if this was asked for;
          with `power`, of ``half_width`` and ``power`` at other values of both.
          Of a curve of scores, the distance to the score without noise, and its interval's ends, ``lower, upper``;
        - ``epsilon_range``: of a curve of scores, the epsilons by ``lower`` and by ``upper``; infinite if no epsilon of
          the curve is enough; otherwise None.

    Raises
    ------
    TypeError
        If the source has no counts to plan, or its values are not declared by name.
    ValueError
        If a parameter is out of range or missing, or no epsilon is enough: the error says how many rows would be.

    See Also
    --------
    plan_rows : The number of rows, where epsilon is given.
    skdp.evaluation.compare_to_baseline : The differences of the scores of a curve.
    recommend_plan : Which strategy has the least error.
    privacy_statement : Before `fit`, what a pipeline is set to spend.

    Notes
    -----
    **Privacy.** Computed from what is declared and from public guesses: nothing is released or charged. A curve of
    scores is computed from true rows and is not protected, nor is a plan that is made from it; the same holds for
    guesses that were read from the data.

    The half width is that of the interval that the library is going to state, computed by the same functions from the
    expected reports. In a single release it is a little wider or narrower, since the variance is estimated. The error
    of a count does not fall with the number of rows (of reports, it grows), so that rows are planned for other numbers.

    Differences and coefficients have the variance of unbiased estimates: exact for a difference, by the delta method
    for a log odds ratio. It assumes that each group has many reports of both values: where a group is a hundredth of
    the people, a planned power of .8 was .70 and .94 in simulations (rates .1 and .3, .3 and .1). Of
    randomised response it is that of maximum likelihood; other reports say a little more. Other predictors are not
    counted: one that depends on this one, with a squared correlation of r, takes 1 / (1 - r) times as many rows.

    Of a curve, the distance of the mean score to that of the baseline is fitted to fall with epsilon, and a
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
    """
    level = check_confidence_level(confidence_level)
    if isinstance(source, pd.DataFrame):
        options = {
            "power": power,
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
        return _plan_of_curve(source, of, _check_within(within), level)
    if isinstance(source, ReportDesign):
        raise TypeError(
            "a ReportDesign has its epsilon, which does not say how well a share is "
            "known: plan_rows takes the design"
        )
    question = _read_question(
        source,
        of=of,
        within=within,
        power=power,
        columns=columns,
        share=share,
        privileged=privileged,
        rates=rates,
        reported=reported,
        rows=rows,
        level=level,
    )
    if n_rows is None and (of != "count" or not isinstance(source, DPHistogram)):
        raise ValueError(f"of={of!r} needs n_rows; plan_rows finds it for an epsilon")
    if n_rows is not None:
        _check_n_rows(source, n_rows)
    return _plan_of_epsilon(source, question, n_rows)


def plan_rows(
    source: Any,
    *,
    epsilon: float | None = None,
    within: float | None = None,
    power: float | None = None,
    of: str = "frequency",
    columns: ColumnName | list[ColumnName] | None = None,
    share: float | None = None,
    privileged: Privileged | None = None,
    rates: tuple[float, float] = (0.5, 0.5),
    reported: Reported = "target",
    rows: Literal["population", "table"] = "population",
    confidence_level: float = 0.95,
) -> EpsilonPlan:
    """Find the least number of rows at which a number is known well enough, or an effect is found.

    Parameters
    ----------
    source : encoder of categories, LocalTableEncoder, DPHistogram, or ReportDesign
        What is going to release, as for `plan_epsilon`. Or a design of two values without group and unknown number,
        for frequencies, differences and coefficients: `share` and `rates` are then of its second value, such as "yes".
    epsilon : float, optional
        The epsilon that is given; of `Rho` and `Mu`, their number. A design has its own.
    within : float, optional
        The largest half width of the interval of what is asked for, > 0.
    power : float, optional
        Of a difference or a coefficient, in place of `within`: how often a test shall find it, such as .8, if it is as
        `rates` say.
    of : {"frequency", "parity", "difference", "coefficient"}, default="frequency"
        As for `plan_epsilon`.
    columns : column name or list of them, optional
        As for `plan_epsilon`.
    share : float, optional
        As for `plan_epsilon`.
    privileged : value or list of values, optional
        As for `plan_epsilon`.
    rates : tuple of float, default=(0.5, 0.5)
        As for `plan_epsilon`.
    reported : {"target", "predictor"}, default="target"
        As for `plan_epsilon`.
    rows : {"population", "table"}, default="population"
        As for `plan_epsilon`.
    confidence_level : float, default=0.95
        As for `plan_epsilon`.

    Returns
    -------
    EpsilonPlan
        As of `plan_epsilon`.

    Raises
    ------
    TypeError
        If the source has no counts to plan, or its values are not declared by name.
    ValueError
        If a parameter is out of range or missing, or no number of rows is enough.

    See Also
    --------
    plan_epsilon : The epsilon, where the number of rows is given.

    Notes
    -----
    **Privacy.** Computed from what is declared and from public guesses: nothing is released or charged.

    Examples
    --------
    How many people are needed for the share of smokers within two percentage points at epsilon 1?

    >>> from skdp import RandomizedResponseEncoder, plan_rows
    >>> encoder = RandomizedResponseEncoder(categories={"smokes": ["yes", "no"]})
    >>> plan_rows(encoder, epsilon=1.0, within=0.02).n_rows
    11239

    And to find that 35 in 100 of the young smoke, and 25 of the others, in four of five surveys?

    >>> plan = plan_rows(encoder, epsilon=1.0, of="difference", rates=(0.25, 0.35), power=0.8)
    >>> plan.n_rows
    3542

    By forced responses, which need more people than an encoder of the same epsilon:

    >>> from skdp.survey import ReportDesign
    >>> dice = ReportDesign.forced("smokes", yes=2 / 12, no=1 / 12)
    >>> plan_rows(dice, of="difference", rates=(0.05, 0.1), power=0.8).n_rows
    3860
    """
    level = check_confidence_level(confidence_level)
    question = _read_question(
        source,
        of=of,
        within=within,
        power=power,
        columns=columns,
        share=share,
        privileged=privileged,
        rates=rates,
        reported=reported,
        rows=rows,
        level=level,
    )
    if of == "count":
        raise ValueError(
            "the error of a count does not fall with the number of rows: plan them for "
            "of='frequency'"
        )
    if isinstance(source, ReportDesign):
        if epsilon is not None:
            raise ValueError("epsilon is that of the ReportDesign: leave it out")
        return _plan_of_rows(source, question, source.epsilon)
    if epsilon is None:
        raise ValueError("epsilon must be given, but for a ReportDesign")
    return _plan_of_rows(source, question, float(check_epsilon(epsilon)))


def _check_within(within: Any) -> float:
    is_number = isinstance(within, Real) and not isinstance(within, bool)
    if not is_number or not 0 < within < math.inf:
        raise ValueError(f"within must be a finite number > 0, got {within!r}")
    return float(within)


def _read_question(
    source: Any,
    *,
    of: str,
    within: Any,
    power: Any,
    columns: Any,
    share: Any,
    privileged: Any,
    rates: Any,
    reported: Any,
    rows: Any,
    level: float,
) -> _Question:
    """Check what is asked for, and how well it shall be known."""
    _check_estimator(source, of)
    names = _read_columns(source, columns)
    _check_guesses(share, rates, rows)
    if isinstance(source, ReportDesign) and rows != "population":
        raise ValueError(f"rows must be 'population' for a ReportDesign, got {rows!r}")
    parity: dict[str, Any] = {}
    comparison = None
    if of == "parity":
        if share is None or privileged is None or not 0 < share < 1:
            raise ValueError(
                "of='parity' needs `privileged`, its values, and `share`, a guess of "
                "their share, between 0 and 1"
            )
        parity = {"privileged": privileged, "rates": rates, "rows": rows}
        parity["share"] = share
    if of in _COMPARED:
        names = [_compared_column(source, names)]
        comparison = _read_comparison(of, share, rates, reported, rows)
    # Counts are those of the table.
    whose = "table" if of == "count" else rows
    if power is None:
        wanted = _check_within(within)
        if of not in ("count", "coefficient") and wanted >= 1:
            raise ValueError(f"within must be below 1 for {_WORDS[of]}, got {within!r}")
    else:
        if comparison is None or within is not None:
            raise ValueError(
                "power is for of='difference' or 'coefficient', in place of within"
            )
        wanted = _width_of_power(comparison, power, level)
    return _Question(of, level, wanted, share, names, parity, whose, comparison, power)


def _compared_column(source: Any, names: list[Any] | None) -> Any:
    """Return the column whose value is compared."""
    names = names or list(_declared_domain(source).columns)
    if len(names) != 1:
        raise ValueError(
            f"columns must be the one column whose value is compared, got {names}"
        )
    return names[0]


def _read_comparison(
    of: str, share: Any, rates: Any, reported: Any, rows: str
) -> Comparison:
    """Check the guesses of two groups."""
    check_choice("reported", reported, get_args(Reported))
    if rows != "population":
        raise ValueError(f"rows must be 'population' for {_WORDS[of]}, got {rows!r}")
    share = 0.5 if share is None else float(share)
    if not 0 < share < 1:
        raise ValueError(f"share must be between 0 and 1, got {share!r}")
    first, second = map(float, rates)
    if of == "coefficient" and not (0 < first < 1 and 0 < second < 1):
        raise ValueError(
            f"rates must be between 0 and 1 for a coefficient, got {rates!r}"
        )
    return Comparison.of(of, share, (first, second), reported)


def _width_of_power(comparison: Comparison, power: Any, level: float) -> float:
    """Return the half width at which a test finds an effect as often as wanted."""
    is_number = isinstance(power, Real) and not isinstance(power, bool)
    # Even without any effect, a test finds one at its level.
    if not is_number or not 1 - level < power < 1:
        raise ValueError(
            f"power must be between {1 - level:.3g}, the level of the test, and 1; got "
            f"{power!r}"
        )
    if comparison.effect == 0:
        raise ValueError("rates must differ, or there is no effect to find")
    return half_width_of_power(comparison.effect, float(power), level)


def _check_estimator(estimator: Any, of: str) -> None:
    """Refuse what has no counts to plan."""
    if of not in get_args(Quantity):
        raise ValueError(f"of must be one of {get_args(Quantity)}, got {of!r}")
    if isinstance(estimator, ReportDesign):
        if of not in _OF_DESIGNS:
            raise ValueError(
                f"of must be one of {_OF_DESIGNS} for a ReportDesign, got {of!r}"
            )
        check_design(estimator)
        return
    kinds: tuple[type, ...] = (OracleEncoder, LocalTableEncoder, DPHistogram)
    expected = "an encoder of categories or tables, or a DPHistogram"
    if of == "parity" or of in _COMPARED:
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


def _check_n_rows(source: Any, n_rows: Any) -> None:
    is_integer = isinstance(n_rows, Integral) and not isinstance(n_rows, bool)
    if not is_integer or n_rows < 1:
        raise ValueError(f"n_rows must be an integer of at least 1, got {n_rows!r}")


def _plan_of_epsilon(
    source: Any, question: _Question, n_rows: int | None
) -> EpsilonPlan:
    """Find the least amount of epsilon at which the interval is narrow enough."""
    within = question.within

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
    if question.power is None:
        widths = list(map(half_width, amounts))
        curve = pd.DataFrame({"epsilon": amounts, "half_width": widths})
    else:
        assert n_rows is not None
        curve = _curve_of_power(source, question, amounts, n_rows)
    epsilon = _with_amount(source, amount)
    return _plan(question, epsilon, n_rows, half_width(amount), curve)


def _plan_of_rows(source: Any, question: _Question, amount: float) -> EpsilonPlan:
    """Find the least number of rows at which the interval is narrow enough."""
    epsilon = _with_amount(source, amount)
    release = _release_of(source, epsilon, question)
    n_rows = _least_rows(lambda n: release.half_width(n) <= question.within)
    if n_rows is None:
        raise ValueError(
            f"no number of rows up to {_MOST_ROWS:,} is enough at this epsilon"
        )
    if question.power is None:
        numbers = _row_numbers(n_rows, _FACTORS)
        widths = list(map(release.half_width, numbers))
        curve = pd.DataFrame({"n_rows": numbers, "half_width": widths})
    else:
        amounts: Any = amount * _FACTORS
        if isinstance(source, ReportDesign):
            amounts = [amount]
        curve = _curve_of_power(source, question, amounts, n_rows)
    return _plan(question, epsilon, n_rows, release.half_width(n_rows), curve)


def _plan(
    question: _Question,
    epsilon: Any,
    n_rows: int | None,
    half_width: float,
    curve: pd.DataFrame,
) -> EpsilonPlan:
    comparison = question.comparison
    return EpsilonPlan(
        of=question.of,
        within=question.within,
        epsilon=epsilon,
        n_rows=n_rows,
        half_width=half_width,
        confidence_level=question.level,
        curve=curve,
        effect=None if comparison is None else comparison.effect,
        power=question.power,
    )


def _row_numbers(n_rows: int, factors: Sequence[float] | Numbers) -> list[int]:
    numbers = np.rint(n_rows * np.asarray(factors)).astype(int)
    return np.unique(np.maximum(1, numbers)).tolist()


def _curve_of_power(
    source: Any, question: _Question, amounts: Sequence[float] | Numbers, n_rows: int
) -> pd.DataFrame:
    """Return half widths and power for several epsilons and numbers of rows."""
    assert question.comparison is not None
    z = NormalDist().inv_cdf((1 + question.level) / 2)
    curve = []
    row_factors = (0.25, 0.5, 1.0, 2.0, 4.0)
    for amount in amounts:
        epsilon = _with_amount(source, float(amount))
        release = _release_of(source, epsilon, question)
        for number in _row_numbers(n_rows, row_factors):
            width = release.half_width(number)
            power = power_of(question.comparison.effect, width / z, question.level)
            curve.append((float(amount), number, width, power))
    return pd.DataFrame(curve, columns=["epsilon", "n_rows", "half_width", "power"])


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
    within: float
    share: float | None
    columns: list[Any] | None
    parity: Mapping[str, Any]
    rows: str
    comparison: Comparison | None
    power: float | None


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
            width = planned_half_width(self.estimator, self.domain, question.level)
            return width / n_rows if question.of == "frequency" else width
        if question.of == "parity":
            return parity_half_width(
                self.estimator,
                n_rows,
                columns=question.columns,
                level=question.level,
                **question.parity,
            )
        if question.comparison is not None:
            assert question.columns is not None
            (column,) = question.columns
            error = question.comparison.std_error(self.estimator, column, n_rows)
            return NormalDist().inv_cdf((1 + question.level) / 2) * error
        return _width_of_reports(self.estimator.protocol_, n_rows, question)


def _release_of(
    source: Any, epsilon: Any, question: _Question
) -> _Release | DesignRelease:
    if isinstance(source, ReportDesign):
        return DesignRelease(
            source, question.share, question.comparison, question.level
        )
    return _Release.of(source, epsilon, question)


def _with_amount(estimator: Any, amount: float) -> Any:
    """Return the epsilon of an estimator with another amount: a number, or a rho or mu with its delta."""
    epsilon = estimator.epsilon
    if not is_dataclass(epsilon):
        return amount
    name = next(name for name in _AMOUNT_NAMES if hasattr(epsilon, name))
    return replace(epsilon, **{name: amount})  # type: ignore[type-var]


def _declared_domain(estimator: Any) -> Domain:
    """Return the declared values of an estimator, by the names of the columns."""
    if isinstance(estimator, ReportDesign):
        return Domain({estimator.column: estimator.values})
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
