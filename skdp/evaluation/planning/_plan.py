"""The epsilon, or the number of rows, at which a number is known well enough."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from functools import cache
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from skdp.base import ColumnName, Privileged, check_choice, check_confidence_level
from skdp.central import DPHistogram
from skdp.evaluation.planning._display import PlanDisplay
from skdp.evaluation.planning._widths import (
    Question,
    amount_of,
    check_estimator,
    crossing,
    declared_domain,
    epsilon_of,
    losses_of,
    width_at,
)
from skdp.markup import html_facts
from skdp.privacy import Shuffled, check_epsilon

if TYPE_CHECKING:  # an optional dependency
    from matplotlib.axes import Axes

_LEAST, _MOST = 2.0**-10, 2.0**6
"""The amounts of epsilon between which is searched."""

_MOST_ROWS = 1 << 40
_WORDS = {
    "count": "a count",
    "frequency": "a frequency",
    "parity": "a parity difference",
}
_POINTS = 9
"""Of the curve, from a quarter of what was found to four times as much."""


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
        epsilon = (
            f"epsilon = {self.epsilon:.3g}"
            if isinstance(self.epsilon, Real)
            else str(self.epsilon)
        )
        rows = "" if self.n_rows is None else f" and {self.n_rows:,} rows"
        verb = "are" if self.n_rows is not None else "is"
        wanted = _WORDS.get(self.of, self.of)
        if self.epsilon_range is not None:
            low, high = (
                f"{end:.3g}" if math.isfinite(end) else "more than was tried"
                for end in self.epsilon_range
            )
            level = f"{100 * self.confidence_level:g} % interval: {low} to {high}"
            return f"{epsilon} is enough for {wanted} within {self.within:g} of no privacy ({level})"
        level = f"{100 * self.confidence_level:g} % interval: ± {self.half_width:.3g}"
        return f"{epsilon}{rows} {verb} enough for {wanted} within ± {self.within:g} ({level})"

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
    rows: Literal["sampled", "fixed"] = "sampled",
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
    rows : {"sampled", "fixed"}, default="sampled"
        For "parity": as for `debiased_fairness`.
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
    (0.68, 0.02)

    How many people at epsilon 1?

    >>> plan_epsilon(encoder, within=0.02, of="frequency", epsilon=1.0).n_rows
    8842
    """
    if (
        isinstance(within, bool)
        or not isinstance(within, Real)
        or not 0 < within < math.inf
    ):
        raise ValueError(f"within must be a finite number > 0, got {within!r}")
    if isinstance(source, pd.DataFrame):
        given = {
            "epsilon": epsilon,
            "n_rows": n_rows,
            "columns": columns,
            "share": share,
            "privileged": privileged,
        }
        if others := [name for name, value in given.items() if value is not None]:
            raise ValueError(
                f"{others[0]} is not for a curve of scores, whose rows and epsilons are given"
            )
        return _plan_of_curve(
            source, of, float(within), check_confidence_level(confidence_level)
        )
    check_estimator(source, of)
    guesses = {"privileged": privileged, "share": share, "rates": rates, "rows": rows}
    question = Question(
        of,
        check_confidence_level(confidence_level),
        *_read_guesses(source, of, columns, guesses),
    )
    if of != "count" and within >= 1:
        raise ValueError(f"within must be below 1 for {_WORDS[of]}, got {within!r}")
    _check_given(source, of, epsilon, n_rows)
    if epsilon is None:
        return _plan_of_epsilon(source, question, float(within), n_rows)
    given = epsilon_of(source, float(check_epsilon(epsilon)))
    width = width_at(source, given, question)
    found = _least_rows(width, float(within))
    if found is None:
        raise ValueError(
            f"no number of rows up to {_MOST_ROWS:,} is enough at this epsilon"
        )
    found = max(found, _fewest(source))
    numbers = sorted(
        {max(1, round(found * factor)) for factor in np.geomspace(1 / 4, 4, _POINTS)}
    )
    curve = pd.DataFrame(
        {"n_rows": numbers, "half_width": [width(number) for number in numbers]}
    )
    return EpsilonPlan(
        of, float(within), given, found, width(found), question.level, curve
    )


def _read_guesses(
    source: Any, of: str, columns: Any, guesses: dict[str, Any]
) -> tuple[Any, ...]:
    """Check the columns and the public guesses, as a `Question` takes them."""
    share, rates, known = (
        guesses["share"],
        guesses["rates"],
        declared_domain(source).columns,
    )
    chosen = (
        None
        if columns is None
        else list(columns)
        if isinstance(columns, list)
        else [columns]
    )
    if chosen is not None and (
        not chosen or any(name not in list(known) for name in chosen)
    ):
        raise ValueError(f"columns must be some of {list(known)}, got {chosen}")
    if not isinstance(rates, tuple | list) or len(rates) != 2:
        raise ValueError(
            f"rates must be two numbers, of the unprivileged and of the privileged, got {rates!r}"
        )
    for name, value in (("share", share), *(("each of rates", rate) for rate in rates)):
        if value is not None and not (
            isinstance(value, Real) and 0 <= float(value) <= 1
        ):
            raise ValueError(f"{name} must be a number from 0 to 1, got {value!r}")
    check_choice("rows", guesses["rows"], ["sampled", "fixed"])
    if of != "parity":
        return share, chosen, {}
    if share is None or guesses["privileged"] is None or not 0 < share < 1:
        raise ValueError(
            "of='parity' needs `privileged`, its values, and `share`, a guess of their share, between 0 and 1"
        )
    return share, chosen, guesses


def _check_given(source: Any, of: str, epsilon: Any, n_rows: Any) -> None:
    """Refuse to plan both of epsilon and the number of rows, or none."""
    if epsilon is not None:
        check_epsilon(epsilon)
    if n_rows is not None and (
        isinstance(n_rows, bool) or not isinstance(n_rows, Integral) or n_rows < 1
    ):
        raise ValueError(f"n_rows must be an integer of at least 1, got {n_rows!r}")
    if n_rows is not None and n_rows < _fewest(source):
        raise ValueError(
            f"n_rows must be at least {_fewest(source):,}, the number of reports of {source.epsilon}"
        )
    if epsilon is not None and n_rows is not None:
        raise ValueError("epsilon and n_rows are both given: there is nothing to plan")
    if epsilon is not None and of == "count":
        raise ValueError(
            "the error of a count does not fall with the number of rows: plan them for of='frequency'"
        )
    matters = of != "count" or not isinstance(source, DPHistogram)
    if epsilon is None and n_rows is None and matters:
        other = (
            "" if of == "count" else ", or epsilon if the number of rows is asked for"
        )
        raise ValueError(f"of={of!r} needs n_rows{other}")


def _fewest(source: Any) -> int:
    """Return the number of rows without which an epsilon does not hold."""
    return source.epsilon.n if isinstance(source.epsilon, Shuffled) else 1


def _plan_of_epsilon(
    source: Any, question: Question, within: float, n_rows: int | None
) -> EpsilonPlan:
    @cache
    def width(amount: float) -> float:
        return width_at(source, epsilon_of(source, amount), question)(n_rows or 1)

    found = _least_amount(width, within)
    if found is None:
        raise ValueError(
            _impossible(
                width_at(source, epsilon_of(source, _MOST), question),
                question.of,
                within,
            )
        )
    amounts = [
        amount
        for amount in np.geomspace(found / 4, found * 4, _POINTS).tolist()
        if amount <= _MOST
    ]
    curve = pd.DataFrame({"epsilon": amounts, "half_width": list(map(width, amounts))})
    epsilon = epsilon_of(source, found)
    return EpsilonPlan(
        question.of, within, epsilon, n_rows, width(found), question.level, curve
    )


def _least_amount(width: Callable[[float], float], within: float) -> float | None:
    """Return about the least amount at which a width is small enough, rounded up to three digits."""
    high = 1.0
    while not width(high) <= within:
        high *= 2
        if high > _MOST:
            return None
    low = high / 2
    while width(low) <= within and low >= _LEAST:
        low, high = low / 2, low
    while high > 1.0005 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if width(middle) <= within else (middle, high)
    rounded = high
    for _ in range(3):
        rounded = _round_up(rounded)
        if width(rounded) <= within:
            return rounded
        rounded *= 1.0001
    return high  # where another strategy, with a larger error, is the best one from here on


def _round_up(amount: float) -> float:
    exact = Decimal(amount)
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - 2), ROUND_CEILING))


def _least_rows(width: Callable[[int], float], within: float) -> int | None:
    """Return the least number of rows at which a width, which falls with it, is small enough."""
    high = 1
    while not width(high) <= within:
        high *= 2
        if high > _MOST_ROWS:
            return None
    low = high // 2
    while high > low + 1:
        middle = (low + high) // 2
        low, high = (low, middle) if width(middle) <= within else (middle, high)
    return high


def _impossible(width: Callable[[int], float], of: str, within: float) -> str:
    """Write the error of a wish that no epsilon fulfils, with the number of rows that would be enough."""
    text = f"no epsilon up to {_MOST:g} gives {_WORDS[of]} within {within:g}"
    if of == "count" and width(1) == width(_MOST_ROWS):
        return f"{text}, as its interval ends at whole numbers: the shortest is ± {width(1):.3g}"
    text += ", as a part of its error is that of a sample"
    if of == "count":
        most = _least_rows(lambda n_rows: -width(n_rows), -within)
        return f"{text}: with at most {(most or 1) - 1:,} rows it is possible"
    least = _least_rows(width, within)
    return text if least is None else f"{text}: it needs at least {least:,} rows"


def _plan_of_curve(
    curve: pd.DataFrame, metric: str, within: float, level: float
) -> EpsilonPlan:
    losses = losses_of(curve, metric, level)
    found, *ends = (
        crossing(losses, column, within) for column in ("half_width", "lower", "upper")
    )
    if not math.isfinite(found):
        best = losses["half_width"].min()
        raise ValueError(
            f"no epsilon of the curve is enough: the closest {metric} is {best:.3g} from that without noise"
        )
    reached = float(
        np.interp(math.log(found), np.log(losses["epsilon"]), losses["half_width"])
    )
    return EpsilonPlan(
        metric, within, found, None, reached, level, losses, (ends[0], ends[1])
    )
