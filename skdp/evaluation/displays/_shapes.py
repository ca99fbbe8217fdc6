"""Plot of the functions of an additive model, with confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdp.base import AxesLike, ColumnName
from skdp.domain import Interval, make_edge_array
from skdp.evaluation._style import (
    INK,
    MAX_VALUES,
    PanelDisplay,
    choose_series_style,
    draw_plain_text,
    format_label,
    label_rows,
    make_legend_entry,
    tidy_axes,
)

# Style of bins whose standard error is not reliable.
HATCH = {"facecolor": "none", "edgecolor": INK, "alpha": 0.25, "hatch": "///", "lw": 0}


class ShapeDisplay(PanelDisplay):
    """Plot of the functions of an additive model, with one panel for each column.

    Use `from_estimator` to create the display. Bins of numbers are drawn as steps, and
    other values as dots, with 95 % intervals given the other functions. Bins whose
    standard error is not reliable are hatched.

    Parameters
    ----------
    shapes : mapping of column name to ShapeFunction
        Functions, as returned by `skdp.DPAdditiveClassifier.shape_`.
    classes : sequence, default=None
        Classes of a classifier.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes
        Axes with the panels.
    figure_ : matplotlib Figure
        Figure containing the panels.

    Notes
    -----
    **Privacy.** The functions are released by `fit`. The figure is post-processing.

    Examples
    --------
    >>> from skdp import DPAdditiveRegressor
    >>> from skdp.datasets import load_adult
    >>> from skdp.evaluation import ShapeDisplay
    >>> people = load_adult().data
    >>> model = DPAdditiveRegressor(
    ...     1.0,
    ...     bounds={"age": (0, 100)},
    ...     categories={"sex": ["Female", "Male"]},
    ...     target_bounds=(0, 100),
    ...     random_state=0,
    ... ).fit(people[["age", "sex"]], people["hours-per-week"])
    >>> display = ShapeDisplay.from_estimator(model)
    >>> [axes.get_title(loc="left") for axes in display.ax_]
    ['age', 'sex']
    """

    def __init__(
        self, shapes: Mapping[Any, Any], *, classes: Sequence[Any] | None = None
    ) -> None:
        if not isinstance(shapes, Mapping) or not shapes:
            raise TypeError(
                "`shapes` must be a mapping of at least one column name to a shape, got "
                f"{type(shapes).__name__}."
            )
        self.shapes = shapes
        self.classes = classes

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        features: Sequence[ColumnName] | None = None,
        *,
        ax: AxesLike | None = None,
    ) -> ShapeDisplay:
        """Plot the functions of a fitted model.

        Parameters
        ----------
        estimator : DPAdditiveClassifier or DPAdditiveRegressor
            Fitted model.
        features : list of column names, default=None
            Columns to draw. If None, all columns are drawn.
        ax : matplotlib Axes or array of Axes, default=None
            Axes to draw on, one for each column. If None, a new figure is created.

        Returns
        -------
        ShapeDisplay
            Object that stores the figure.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, the estimator is not an additive model, or a
            column is unknown.
        NotFittedError
            If the model is not fitted.
        """
        if not hasattr(type(estimator), "shape_"):
            raise TypeError(
                "`estimator` must be an additive model, got "
                f"{type(estimator).__name__}."
            )
        check_is_fitted(estimator)
        if isinstance(features, str):
            raise TypeError(
                f"`features` must be a list of column names, such as [{features!r}], "
                "got str."
            )
        if features is None:
            # The scope also contains the target.
            features = estimator.guarantee_.scope[: estimator.n_features_in_]
        shapes = {feature: estimator.shape_(feature) for feature in features}
        return cls(shapes, classes=getattr(estimator, "classes_", None)).plot(ax)

    @draw_plain_text
    def plot(self, ax: AxesLike | None = None) -> ShapeDisplay:
        """Plot the functions.

        Parameters
        ----------
        ax : matplotlib Axes or array of Axes, default=None
            As for `from_estimator`.

        Returns
        -------
        ShapeDisplay
            Object that stores the figure.
        """
        panels = self._use_panels(ax, len(self.shapes))
        axis_label = "added to the prediction"
        labels = ["95 % interval"]
        if self.classes is not None and len(self.classes) == 2:
            axis_label = f"added to the logit of '{self.classes[1]}'"
        elif self.classes is not None:
            # With more than two classes, each class has a function.
            axis_label = "added to the logit of the class"
            labels = [f"{label}, 95 % interval" for label in self.classes]
        for axes, (name, shape) in zip(panels, self.shapes.items(), strict=True):
            if isinstance(shape.bins, Interval):
                _draw_steps(axes, shape)
                axes.set_ylabel(axis_label)
                axes.axhline(0, color=INK, lw=1)
            else:
                _draw_dots(axes, shape)
                axes.set_xlabel(axis_label)
                axes.axvline(0, color=INK, lw=1)
            tidy_axes(axes, str(name))
        handles = []
        for index, label in enumerate(labels):
            handles.append(make_legend_entry(label, **choose_series_style(index)))
        if any(patch.get_hatch() for axes in panels for patch in axes.patches):
            from matplotlib.patches import Patch

            handles.append(Patch(**HATCH, label="interval may be too short"))
        self._draw_legend(ax, handles)
        return self


def _select_bins(shape: Any, bins: Any) -> tuple[Any, Any]:
    """Return the values and margins of error (95 %) of some bins; shape (n_bins, n_outputs).

    There is one output for regression and two classes, and otherwise one for each class.
    """
    values = shape.values.reshape(len(shape.values), -1)[bins]
    std_errors = shape.std_error.reshape(len(shape.values), -1)[bins]
    return values, 1.96 * std_errors


def _draw_steps(axes: Any, shape: Any) -> None:
    """Draw the function of a column of numbers or dates as steps, with one line per output.

    `shape` has the bins, and for each bin the values, standard errors and whether it is supported.
    """
    edges = make_edge_array(shape.bins.edges, shape.bins.dtype)
    # The last entry of a shape, for missing numbers, is not drawn.
    n_bins = len(edges) - 1
    values, errors = _select_bins(shape, slice(n_bins))
    for output, (value, error) in enumerate(zip(values.T, errors.T, strict=True)):
        color = choose_series_style(output)["color"]
        # The band between the two steps is the interval of each bin.
        low, high = value - error, value + error
        axes.stairs(high, edges, baseline=low, fill=True, color=color, alpha=0.25)
        axes.stairs(value, edges, color=color, lw=1.6, baseline=None)
    # Bins whose standard error is not reliable are hatched.
    for unsupported in np.flatnonzero(~shape.is_supported[:n_bins]):
        axes.axvspan(edges[unsupported], edges[unsupported + 1], **HATCH)


def _draw_dots(axes: Any, shape: Any) -> None:
    """Draw the function of a column of categories as dots, for the values with most records.

    `shape` has the categories, and for each of them the number of records, values and standard errors.
    """
    drawn = np.sort(np.argsort(-shape.counts, kind="stable")[:MAX_VALUES])
    values, errors = _select_bins(shape, drawn)
    for output, (value, error) in enumerate(zip(values.T, errors.T, strict=True)):
        axes.errorbar(
            value,
            np.arange(len(value)),
            xerr=error,
            ls="",
            ms=5,
            capsize=2,
            **choose_series_style(output),
        )
    label_rows(axes, [format_label(shape.bins.labels[bin_]) for bin_ in drawn])
    for row in np.flatnonzero(~shape.is_supported[drawn]):
        axes.axhspan(row - 0.5, row + 0.5, **HATCH)
