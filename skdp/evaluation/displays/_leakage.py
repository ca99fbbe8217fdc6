"""Plots of the results of attacks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

import pandas as pd

from skdp.base import check_confidence_level
from skdp.evaluation._attribute_inference import AttackResult
from skdp.evaluation.displays._style import (
    COLOURS,
    INK,
    MARKERS,
    PanelDisplay,
    import_pyplot,
    label_rows,
    legend_entry,
    new_grid,
    series_style,
    tidy_axes,
)

if TYPE_CHECKING:  # an optional dependency
    from matplotlib.axes import Axes

ATTACKS = ("with the report", "without the report")

# What is drawn beside the accuracies of each release.
_REFERENCES = {
    "baseline": ("prior: most frequent value", ":"),
    "bayes_bound": ("bound for the report alone", "--"),
}

# What may be drawn value by value: its label, and what it is if nothing is learned.
_MEASURES = {
    "precision": ("share of the guesses of the value that are right", None),
    "auc": ("area under the ROC curve", 0.5),
    "lift": ("lift in the first 1 % of the rows", 1.0),
}
_OF_AUC = {
    "auc": "attack with the report",
    "auc_without_report": "attack without the report",
    "auc_of_report": "best guess from the report alone",
}


class LeakageDisplay(PanelDisplay):
    """Plot of the accuracy of attacks, with and without the report, with the prior and the Bayes bound.

    With a `measure`, it is a plot of what is learned of each value of the protected column, the rarest first: accuracy
    hides what is learned of rare values.

    Parameters
    ----------
    results : AttackResult, or mapping of epsilon or name to AttackResult
        The results of `attribute_inference`, by epsilons or names of releases, in their order.
    confidence_level : float, default=0.95
        Coverage of the intervals of accuracies, between 0 and 1.

    Attributes
    ----------
    data : pandas.DataFrame
        A row for each release and attack: ``release, attack, accuracy, lower, upper, baseline, bayes_bound``.
    values : pandas.DataFrame
        A row for each release and value: ``release, value``, and the columns of `AttackResult.values`.
    figure_ : matplotlib Figure
        The figure that was drawn last.
    axes_ : ndarray of matplotlib Axes
        Its panel.

    Raises
    ------
    TypeError, ValueError
        If there is no result, one is of another kind, or the confidence level is out of range.

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
    >>> display = LeakageDisplay(results).plot()
    >>> display.data[["release", "attack", "accuracy", "lower"]].round(2)
         release              attack  accuracy  lower
    0  published     with the report       1.0   0.96
    1  published  without the report       0.4   0.30
    """

    def __init__(
        self,
        results: AttackResult | Mapping[Any, AttackResult],
        *,
        confidence_level: float = 0.95,
    ) -> None:
        level = check_confidence_level(confidence_level)
        rows = []
        values = []
        # The intervals are over the rows; the prior and the bound are known.
        for release, result in _check_results(results).items():
            if len(result.values):
                table = result.values.rename_axis("value").reset_index()
                values.append(table.assign(release=release))
            # Without reports that are known there is one attack only.
            accuracies = result.accuracy, result.accuracy_without_report
            for attack, accuracy in zip(ATTACKS, accuracies, strict=True):
                if accuracy is None:
                    continue
                is_blind = attack == ATTACKS[1]
                lower, upper = result.interval(level, without_report=is_blind)
                rows.append(
                    {
                        "release": release,
                        "attack": attack,
                        "accuracy": accuracy,
                        "lower": lower,
                        "upper": upper,
                        "baseline": result.baseline,
                        "bayes_bound": result.bayes_bound,
                    }
                )
        self.data = pd.DataFrame(rows)
        self.values = pd.DataFrame()
        if values:
            self.values = pd.concat(values, ignore_index=True)

    def plot(
        self, *, measure: str = "accuracy", ax: Axes | None = None
    ) -> LeakageDisplay:
        """Draw the accuracies, or a measure of each value.

        Parameters
        ----------
        measure : str, default="accuracy"
            ``"accuracy"``, or a column of `AttackResult.values`, with its interval: ``"auc"`` (of a single release also
            without the report, and of the report alone), ``"lift"`` or ``"precision"``.
        ax : matplotlib Axes, optional
            The axes to draw on; by default those of a new figure.

        Returns
        -------
        LeakageDisplay
            The display itself.

        Raises
        ------
        ImportError, ValueError
            If matplotlib is not installed, there is no such measure, or more than one panel.
        """
        # A result that was made by hand may have no table of values.
        measures = ["accuracy"]
        if len(self.values):
            measures += _MEASURES
        if measure not in measures:
            raise ValueError(f"measure must be one of {measures}, got {measure!r}")
        import_pyplot()
        if measure == "accuracy":
            handles = self._plot_accuracies(ax)
        else:
            handles = self._plot_values(measure, ax)
        tidy_axes(self.axes_[0])
        self._draw_legend(ax, handles, loc="outside upper center", ncols=2)
        return self

    def _plot_accuracies(self, ax: Any) -> list[Any]:
        """Draw the accuracies of the releases, side by side."""
        releases = list(dict.fromkeys(self.data["release"]))
        width = 2.6 + 0.9 * max(len(releases), 3)
        (axes,) = self._use_panels(
            ax, 1, "", lambda: new_grid(1, width=width, height=4.2, margin=0)
        )
        data = self.data.assign(place=self.data["release"].map(releases.index))
        handles = []
        for number, attack in enumerate(ATTACKS):
            part = data[data["attack"] == attack]
            if part.empty:
                continue
            reach = (part[["lower", "upper"]].sub(part["accuracy"], axis=0)).abs()
            bars = axes.errorbar(
                # A little to the left or to the right, so that intervals do not overlap.
                part["place"] + 0.12 * (2 * number - 1),
                part["accuracy"],
                reach.to_numpy().T,
                fmt=MARKERS[number],
                color=COLOURS[number],
                ls="none",
                lw=1.2,
                ms=6,
                capsize=3,
                label=f"attack {attack}",
                zorder=3,
            )
            handles.append(bars)
        handles += _draw_references(axes, data.drop_duplicates("release"))
        names = map(_release_name, releases)
        axes.set_xticks(range(len(releases)), list(names), parse_math=False)
        axes.set_xlim(-0.6, len(releases) - 0.4)
        if isinstance(releases[0], Real):
            axes.set_xlabel("epsilon")
        axes.set_ylabel("protected values guessed right (share)")
        # From the tenth below the lowest end, so that small gains can be seen.
        lowest = self.data[["lower", "baseline"]].to_numpy(float).min()
        axes.set_ylim(max(0.0, math.floor(10 * lowest - 0.5) / 10), 1.02)
        return handles

    def _plot_values(self, measure: str, ax: Any) -> list[Any]:
        """Draw a measure of each value, the rarest first."""
        # One order of the values for all releases, which may differ in their rows.
        shares = self.values.groupby("value", sort=False)["share"].mean()
        shares = shares.sort_values(kind="stable")
        height = 1.4 + 0.36 * len(shares)
        (axes,) = self._use_panels(
            ax, 1, "", lambda: new_grid(1, width=6.4, height=height, margin=0)
        )
        title, no_gain = _MEASURES[measure]
        handles = []
        if no_gain is not None:
            style = {"color": INK, "ls": ":", "lw": 1.2}
            handles.append(axes.axvline(no_gain, label="nothing is learned", **style))
        # Beside a single release, what an attack without it learns.
        series = self._series(measure)
        for number, (label, column, rows) in enumerate(series):
            # Within the row of a value, from -.25 to .25.
            shift = 0.5 * ((number + 0.5) / len(series) - 0.5)
            heights = rows["value"].map(shares.index.get_loc) + shift
            style = series_style(number)
            handles += axes.plot(rows[column], heights, label=label, ls="none", **style)
            if f"{column}_lower" in rows:
                ends = rows[f"{column}_lower"], rows[f"{column}_upper"]
                axes.hlines(heights, *ends, color=style["color"], lw=1.2)
        # How rare a value is says how much a guess of it means.
        labels = map("{}  ({:.2g} %)".format, shares.index, 100 * shares)
        label_rows(axes, list(labels))
        axes.set_xlabel(title)
        return handles

    def _series(self, measure: str) -> list[tuple[str, str, pd.DataFrame]]:
        """List what is drawn of a measure: a label, a column, and the rows of a release."""
        series = []
        tables = self.values.groupby("release", sort=False)
        for release, rows in tables:
            prefix = "epsilon " if isinstance(release, Real) else ""
            series.append((prefix + _release_name(release), measure, rows))
        # A single release has room for what the attack and the best guess learn without
        # other columns.
        if measure == "auc" and len(tables) == 1:
            columns = [column for column in _OF_AUC if rows[column].notna().any()]
            return [(_OF_AUC[column], column, rows) for column in columns]
        return series


def _draw_references(axes: Any, releases: pd.DataFrame) -> list[Any]:
    """Draw the prior and the bound of each release."""
    handles = []
    # A dash as wide as the dots of a release, as each has its own.
    for column, (label, dash) in _REFERENCES.items():
        if releases[column].isna().all():
            continue
        style = {"ls": dash, "color": INK, "lw": 1.6}
        place = releases["place"]
        axes.hlines(releases[column], place - 0.35, place + 0.35, **style)
        handles.append(legend_entry(label, **style))
    return handles


def _release_name(release: Any) -> str:
    """Write the name of a release, or its epsilon."""
    return f"{release:g}" if isinstance(release, Real) else str(release)


def _check_results(results: Any) -> dict[Any, AttackResult]:
    """Check the results of an attack, or of several by name."""
    if isinstance(results, AttackResult):
        results = {"release": results}
    is_mapping = isinstance(results, Mapping)
    if not is_mapping or not all(
        isinstance(result, AttackResult) for result in results.values()
    ):
        raise TypeError(
            "results must be an AttackResult or a mapping to such, got "
            f"{type(results).__name__}"
        )
    if not results:
        raise ValueError("results are empty")
    return dict(results)
