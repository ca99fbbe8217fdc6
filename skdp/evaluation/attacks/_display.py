"""Plot of the accuracy of attacks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import ColumnLike, TableLike, check_confidence_level
from skdp.evaluation.attacks._attribute_inference import (
    AttackResult,
    attribute_inference,
)
from skdp.evaluation.displays import (
    COLOURS,
    INK,
    MARKERS,
    check_table,
    import_pyplot,
    label_epsilons,
    label_rows,
    tidy_axes,
)

if TYPE_CHECKING:  # an optional dependency
    from matplotlib.axes import Axes

_PRIOR, _BOUND = "prior: most frequent value", "bound for the report alone"
_ATTACKS = ("with the report", "without the report")
_COLUMNS = [
    "release",
    "attack",
    "accuracy",
    "lower",
    "upper",
    "baseline",
    "bayes_bound",
]
_MEASURES = {
    "precision": ("share of the guesses of the value that are right", None),
    "recall": ("share of its rows that are guessed", None),
    "auc": ("area under the ROC curve", 0.5),
    "lift": ("lift in the first 1 % of the rows", 1.0),
    "tpr_at_1pct": ("share found before 1 % of the others", 0.01),
    "tpr_at_01pct": ("share found before 0.1 % of the others", 0.001),
}
"""What may be drawn value by value, and what it is if nothing is learned."""
_OF_AUC = {
    "auc": "attack with the report",
    "auc_without_report": "attack without the report",
}
_OF_AUC |= {"auc_of_report": "best guess from the report alone"}
_DODGE = 0.12
"""The horizontal shift of a point, where releases have names."""


class LeakageDisplay:
    """Plot of the accuracy of attacks, with and without the report, with the prior and the Bayes bound.

    With a `measure`, it is a plot of what is learned of each value of the protected column, the rarest first: accuracy
    hides what is learned of rare values. It is recommended to use `from_results` or `from_release` to create one.

    Parameters
    ----------
    data : pandas.DataFrame
        A row for each release and attack: ``release`` (an epsilon or a name), ``attack``, ``accuracy``, ``lower``,
        ``upper``, ``baseline``, ``bayes_bound``.
    values : pandas.DataFrame, optional
        A row for each release and value: ``release``, ``value``, and the columns of `AttackResult.values`.

    Attributes
    ----------
    data, values : pandas.DataFrame
        The accuracies, and the measures of each value.
    figure_ : matplotlib Figure
        The figure that was drawn last.
    ax_ : matplotlib Axes
        Its panel.

    Raises
    ------
    TypeError, ValueError
        If the data are no DataFrame with these columns, numbers where numbers belong, and at least one row.

    See Also
    --------
    attribute_inference : The results that are drawn.

    Notes
    -----
    **Privacy.** The accuracies depend on true values and are not protected: the figure is for data that is not
    sensitive.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skdp.evaluation import LeakageDisplay, attribute_inference
    >>> rows = pd.DataFrame({"report": [0, 1] * 50, "other": [0, 0, 1, 1] * 25})
    >>> options = {"report": ["report"], "estimator": DecisionTreeClassifier(), "random_state": 0}
    >>> results = {"published": attribute_inference(rows, None, rows["report"], **options)}
    >>> display = LeakageDisplay.from_results(results)
    >>> display.data[["release", "attack", "accuracy", "lower"]].round(2)
         release              attack  accuracy  lower
    0  published     with the report       1.0   0.96
    1  published  without the report       0.4   0.30
    """

    def __init__(self, data: pd.DataFrame, values: pd.DataFrame | None = None) -> None:
        check_table(data, "data", _COLUMNS, numbers=_COLUMNS[2:])
        if data.empty:
            raise ValueError("data must have at least one row")
        unknown = set(data["attack"]) - set(_ATTACKS)
        if unknown:
            raise ValueError(
                f"the column attack of data must hold {' or '.join(map(repr, _ATTACKS))}"
            )
        if values is not None:
            check_table(
                values,
                "values",
                ["release", "value", "share", *_MEASURES],
                numbers=["share", *_MEASURES],
            )
        self.data, self.values = data, pd.DataFrame() if values is None else values

    @classmethod
    def from_results(
        cls,
        results: AttackResult | Mapping[Any, AttackResult],
        *,
        measure: str = "accuracy",
        confidence_level: float = 0.95,
        ax: Axes | None = None,
    ) -> LeakageDisplay:
        """Draw results of `attribute_inference`.

        Parameters
        ----------
        results : AttackResult, or mapping of epsilon or name to AttackResult
            The results, by finite epsilons > 0, which are drawn on a log axis, or by names of releases.
        measure : str, default="accuracy"
            See `plot`.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.
        ax : matplotlib Axes, optional
            See `plot`.

        Returns
        -------
        LeakageDisplay
            The display, drawn.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, the results are of another kind, or the confidence level is out of range.
        """
        import_pyplot()
        level = check_confidence_level(confidence_level)
        rows, values = [], []
        for release, result in _check_results(results).items():
            if len(result.values):
                values.append(
                    result.values.reset_index(names="value").assign(release=release)
                )
            accuracies = result.accuracy, result.accuracy_without_report
            for attack, accuracy in zip(_ATTACKS, accuracies, strict=True):
                if accuracy is not None:
                    low, high = result.interval(
                        level, without_report=attack == _ATTACKS[1]
                    )
                    rows.append(
                        (
                            release,
                            attack,
                            accuracy,
                            low,
                            high,
                            result.baseline,
                            result.bayes_bound,
                        )
                    )
        found = pd.concat(values, ignore_index=True) if values else None
        return cls(pd.DataFrame(rows, columns=_COLUMNS), found).plot(
            measure=measure, ax=ax
        )

    @classmethod
    def from_release(
        cls,
        X_released: TableLike,
        y: ColumnLike | None,
        sensitive: ColumnLike | TableLike,
        *,
        name: str = "release",
        measure: str = "accuracy",
        ax: Axes | None = None,
        **options: Any,
    ) -> LeakageDisplay:
        """Attack a release and draw the result.

        Parameters
        ----------
        X_released, y, sensitive : array-like
            As for `attribute_inference`.
        name : str, default="release"
            The name of the release.
        measure : str, default="accuracy"
            See `plot`.
        ax : matplotlib Axes, optional
            See `plot`.
        **options : dict
            Further parameters of `attribute_inference`.

        Returns
        -------
        LeakageDisplay
            The display, drawn.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, or as for `attribute_inference`.
        """
        import_pyplot()
        result = attribute_inference(X_released, y, sensitive, **options)
        return cls.from_results({name: result}, measure=measure, ax=ax)

    def plot(
        self, *, measure: str = "accuracy", ax: Axes | None = None
    ) -> LeakageDisplay:
        """Draw the accuracies, or a measure of each value.

        Parameters
        ----------
        measure : str, default="accuracy"
            ``"accuracy"``, or a column of `AttackResult.values`, with its interval: ``"auc"`` (of a single release also
            without the report, and of the report alone), ``"lift"``, ``"tpr_at_1pct"``, ``"tpr_at_01pct"``,
            ``"precision"`` or ``"recall"``.
        ax : matplotlib Axes, optional
            The axes to draw on; by default those of a new figure.

        Returns
        -------
        LeakageDisplay
            The display itself.

        Raises
        ------
        ImportError, ValueError
            If matplotlib is not installed, or there is no such measure.
        """
        pyplot = import_pyplot()
        if measure != "accuracy":
            return self._plot_values(measure, ax)
        releases = list(dict.fromkeys(self.data["release"]))
        by_epsilon = all(isinstance(release, Real) for release in releases)
        width = 6.4 if by_epsilon else 2.6 + 1.4 * max(len(releases), 2)
        axes: Any = (
            pyplot.subplots(figsize=(width, 4.2), layout="constrained")[1]
            if ax is None
            else ax
        )
        self.ax_, self.figure_ = axes, axes.figure
        tidy_axes(axes)
        places = dict(
            zip(
                releases,
                map(float, releases) if by_epsilon else range(len(releases)),
                strict=True,
            )
        )
        self._points(places, by_epsilon)
        self._references(places, by_epsilon)
        if by_epsilon:
            label_epsilons(axes, sorted(places.values()))
        else:
            axes.set_xticks(
                list(places.values()),
                [str(release) for release in releases],
                parse_math=False,
            )
            axes.set_xlim(-0.6, len(releases) - 0.4)
        axes.set_ylabel("protected values guessed right (share)")
        lowest = float(self.data[["lower", "baseline"]].to_numpy(float).min())
        axes.set_ylim(max(0.0, math.floor(10 * lowest - 0.5) / 10), 1.02)
        if ax is None:
            self.figure_.legend(loc="outside upper center", ncols=2, frameon=False)
        else:
            ax.legend(loc="best", frameon=False)
        return self

    def _plot_values(self, measure: str, ax: Any) -> LeakageDisplay:
        """Draw a measure of each value, the rarest first."""
        if measure not in _MEASURES or self.values.empty:
            known = ["accuracy", *([] if self.values.empty else _MEASURES)]
            raise ValueError(f"measure must be one of {known}, got {measure!r}")
        releases = self.values["release"].unique().tolist()
        shares = (
            self.values.groupby("value", sort=False)["share"]
            .mean()
            .sort_values(kind="stable")
        )
        places = {value: place for place, value in enumerate(shares.index)}
        marks = [
            (
                release,
                measure,
                f"epsilon {release:g}" if isinstance(release, Real) else str(release),
            )
            for release in releases
        ]
        if measure == "auc" and len(releases) == 1:
            marks = [
                (releases[0], column, label)
                for column, label in _OF_AUC.items()
                if self.values[column].notna().any()
            ]
        own = ax is None
        if own:
            size = (6.4, 1.4 + 0.36 * len(places))
            _, ax = import_pyplot().subplots(figsize=size, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        title, nothing = _MEASURES[measure]
        if nothing is not None:
            ax.axvline(nothing, color=INK, ls=":", lw=1.2, label="nothing is learned")
        for number, (release, column, label) in enumerate(marks):
            rows = self.values[self.values["release"] == release]
            shift = 0.5 * ((number + 0.5) / len(marks) - 0.5)
            style = {
                "marker": MARKERS[number % len(MARKERS)],
                "color": COLOURS[number % len(COLOURS)],
                "ls": "none",
            }
            heights = [places[value] + shift for value in rows["value"]]
            ax.plot(rows[column], heights, label=label, **style)
            if f"{column}_lower" in rows:
                ax.hlines(
                    heights,
                    rows[f"{column}_lower"],
                    rows[f"{column}_upper"],
                    color=style["color"],
                    lw=1.2,
                )
        tidy_axes(ax)
        label_rows(
            ax, [f"{value}  ({100 * share:.2g} %)" for value, share in shares.items()]
        )
        ax.set_xlabel(title)
        if own:
            self.figure_.legend(loc="outside upper center", ncols=2, frameon=False)
        else:
            ax.legend(loc="best", frameon=False)
        return self

    def _points(self, places: dict[Any, float], by_epsilon: bool) -> None:
        """Draw the accuracies and intervals of the two attacks side by side."""
        for style, attack in enumerate(_ATTACKS):
            part = self.data[self.data["attack"] == attack]
            if part.empty:
                continue
            self.ax_.errorbar(
                _dodge(
                    [places[release] for release in part["release"]],
                    2 * style - 1,
                    by_epsilon,
                ),
                part["accuracy"],
                np.abs(
                    part[["lower", "upper"]].to_numpy().T - part["accuracy"].to_numpy()
                ),
                fmt=MARKERS[style],
                color=COLOURS[style],
                ls="-" if by_epsilon else "none",
                lw=1.2,
                ms=6,
                capsize=3,
                label=f"attack {attack}",
                zorder=3,
            )

    def _references(self, places: dict[Any, float], by_epsilon: bool) -> None:
        """Draw the prior and the bound: lines over epsilon, or one for each release."""
        once = self.data.drop_duplicates("release")
        once = once.assign(
            place=[places[release] for release in once["release"]]
        ).sort_values("place")
        for column, dash, label in (
            ("baseline", ":", _PRIOR),
            ("bayes_bound", "--", _BOUND),
        ):
            style = {"ls": dash, "color": INK, "lw": 1.6, "label": label}
            if once[column].notna().any() and by_epsilon:
                self.ax_.plot(once["place"], once[column], **style)
            elif once[column].notna().any():
                self.ax_.hlines(
                    once[column], once["place"] - 0.35, once["place"] + 0.35, **style
                )


def _dodge(places: list[float], side: int, by_epsilon: bool) -> NDArray[np.float64]:
    """Shift points a little, so that intervals do not overlap."""
    x = np.array(places, float)
    return x * math.exp(side * _DODGE / 4) if by_epsilon else x + side * _DODGE


def _check_results(results: Any) -> dict[Any, AttackResult]:
    if isinstance(results, AttackResult):
        results = {"release": results}
    if not isinstance(results, Mapping):
        raise TypeError(
            f"results must be an AttackResult or a mapping to them, got {type(results).__name__}"
        )
    if not results:
        raise ValueError("results are empty")
    for release, result in results.items():
        if not isinstance(result, AttackResult):
            raise TypeError(
                f"results must be AttackResults, got {type(result).__name__}"
            )
        if isinstance(release, bool) or not isinstance(release, Real | str):
            raise TypeError(
                f"results must be named by epsilons or text, got {type(release).__name__}"
            )
        if isinstance(release, Real) and not (
            math.isfinite(float(release)) and float(release) > 0
        ):
            raise ValueError(f"an epsilon must be finite and > 0, got {release!r}")
    if len({isinstance(release, str) for release in results}) > 1:
        raise TypeError("results must be named by epsilons alone, or by text alone")
    return dict(results)
