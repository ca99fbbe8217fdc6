"""Plot of the functions of an additive model, with their errors."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.base import AxesLike, check_confidence_level
from skdp.domain import Interval
from skdp.evaluation._common import check_count
from skdp.evaluation.displays._style import (
    COLOURS,
    INK,
    PanelDisplay,
    import_pyplot,
    interval_label,
    label_rows,
    new_grid,
    series_style,
    tidy_axes,
    title_panel,
)

_FIELDS = ("bins", "values", "std_error", "counts", "is_supported")

# The smallest proportion of missing records for which a dot is drawn: the value of an
# empty bin is only noise.
_MIN_MISSING = 0.02

# Characters of a title that a panel of 3.6 inches has room for beside its labels.
_TITLE_WIDTH = 32


class ShapeDisplay(PanelDisplay):
    """Plot of the functions of an additive model with their errors, with a panel for each column.

    Bins of numbers are drawn as steps, other values as dots. Errors hold given the functions of the other columns. Bins
    without a reliable error are hatched. `from_estimator` draws the functions of a model.

    Parameters
    ----------
    shapes : mapping of column name to Shape
        The functions, as `skdp.DPAdditiveClassifier.shape_` and `skdp.DPAdditiveRegressor.shape_` return them.
    classes : sequence, optional
        The classes, of a classifier. If there are two, the functions are added to the logit of the second.
    confidence_level : float, default=0.95
        The coverage of the bands.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure that was drawn last.
    axes_ : ndarray of matplotlib Axes
        Its panels.

    Raises
    ------
    TypeError, ValueError
        If there is no function, there are not as many classes as functions of a column, or `confidence_level` is not
        between 0 and 1.

    Notes
    -----
    **Privacy.** The functions are released by `fit`: a figure of them is post-processing, without privacy cost.

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
    >>> [axes.get_title(loc="left") for axes in display.axes_]
    ['age', 'sex']
    """

    def __init__(
        self,
        shapes: Mapping[Any, Any],
        *,
        classes: Sequence[Any] | None = None,
        confidence_level: float = 0.95,
    ) -> None:
        if not isinstance(shapes, Mapping):
            raise TypeError(
                "shapes must be a mapping of column names to shapes, got "
                f"{type(shapes).__name__}"
            )
        if not shapes:
            raise ValueError("shapes must hold at least one function")
        for shape in shapes.values():
            if not all(hasattr(shape, field) for field in _FIELDS):
                raise TypeError(
                    f"shapes must be those of an additive model, with {_FIELDS}, got "
                    f"{type(shape).__name__}"
                )
            if classes is not None:
                _check_classes(shape, classes)
        self.shapes = dict(shapes)
        self.classes = classes
        self.confidence_level = check_confidence_level(confidence_level)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        features: Sequence[Any] | None = None,
        *,
        confidence_level: float = 0.95,
        max_values: int = 20,
        ax: AxesLike | None = None,
    ) -> ShapeDisplay:
        """Draw the functions of a fitted additive model.

        Parameters
        ----------
        estimator : DPAdditiveClassifier or DPAdditiveRegressor
            The model.
        features : sequence of column names, optional
            The columns to draw; by default all.
        confidence_level : float, default=0.95
            The coverage of the bands.
        max_values, ax : optional
            See `plot`.

        Returns
        -------
        ShapeDisplay
            The display, drawn.

        Raises
        ------
        ImportError, NotFittedError, TypeError, ValueError
            If matplotlib is not installed, the model is not fitted, has no functions, or has no such column, or a
            parameter does not fit.
        """
        import_pyplot()
        if not hasattr(estimator, "shape_"):
            raise TypeError(
                f"estimator must be an additive model, got {type(estimator).__name__}"
            )
        check_is_fitted(estimator)
        if isinstance(features, str):
            raise TypeError(
                f"features must be a list of column names, as [{features!r}], got a str"
            )
        if features is None:
            features = estimator.guarantee_.scope[: estimator.n_features_in_]
        shapes = {feature: estimator.shape_(feature) for feature in features}
        classes = getattr(estimator, "classes_", None)
        display = cls(shapes, classes=classes, confidence_level=confidence_level)
        return display.plot(max_values=max_values, ax=ax)

    def plot(self, *, max_values: int = 20, ax: AxesLike | None = None) -> ShapeDisplay:
        """Draw the functions.

        Parameters
        ----------
        max_values : int, default=20
            Number of declared values of a column to draw, at least 1: those with the most records. The number of the
            others is stated.
        ax : matplotlib Axes or array-like of them, optional
            The axes to draw on, one for each column. By default those of a new figure.

        Returns
        -------
        ShapeDisplay
            The display itself.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, the number of panels is wrong, or `max_values` is not an int or less than 1.
        """
        check_count(max_values, "max_values", least=1)
        import_pyplot()
        most = 6
        for shape in self.shapes.values():
            if not isinstance(shape.bins, Interval):
                most = max(most, min(len(shape.values), max_values))
        n_panels = len(self.shapes)
        panels = self._use_panels(
            ax,
            n_panels,
            ", one for each function",
            lambda: new_grid(n_panels, width=3.6, height=1.2 + 0.24 * most, margin=0.4),
        )
        handles: list[Any] = []
        for axes, (name, shape) in zip(panels, self.shapes.items(), strict=True):
            handles = self._draw_panel(axes, name, shape, max_values)
        if any(patch.get_hatch() for axes in panels for patch in axes.patches):
            handles.append(_hatched_patch())
        options: dict[str, Any] = {}
        if self.classes is not None and len(self.classes) > 2:
            options["title"] = self._band_label
        self._draw_legend(
            ax,
            handles,
            loc="outside lower center",
            ncols=min(len(handles), 3),
            **options,
        )
        return self

    def _draw_panel(
        self, axes: Any, name: Any, shape: Any, max_values: int
    ) -> list[Any]:
        """Draw the function of a column, and return what the legend explains."""
        n_hidden = 0
        if not isinstance(shape.bins, Interval):
            n_hidden = max(len(shape.values) - max_values, 0)
        # In the order of the values.
        order = np.argsort(-shape.counts, kind="stable")
        places = np.sort(order[: len(order) - n_hidden])
        handles = self._draw(axes, shape, places)
        _hatch(axes, shape, places)
        tidy_axes(axes)
        title = f"{name} ({n_hidden} rarer values not drawn)" if n_hidden else name
        title_panel(axes, textwrap.fill(str(title), _TITLE_WIDTH))
        if isinstance(shape.bins, Interval):
            axes.set_ylabel(self._added, parse_math=False)
            axes.axhline(0, color=INK, lw=1)
        else:
            axes.set_xlabel(self._added, parse_math=False)
            axes.axvline(0, color=INK, lw=1)
            labels = [shape.bins.labels[place] for place in places]
            label_rows(axes, [_label(label) for label in labels])
        return handles

    @property
    def _added(self) -> str:
        """Say what a function is added to."""
        if self.classes is None:
            return "added to the prediction"
        if len(self.classes) == 2:
            return f"added to the logit of '{self.classes[1]}'"
        return "added to the logit of the class"

    @property
    def _band_label(self) -> str:
        return f"{interval_label(self.confidence_level)}, other columns given"

    def _draw(self, axes: Any, shape: Any, places: NDArray[np.intp]) -> list[Any]:
        """Draw a function, or one for each class, and return what the legend explains."""
        from scipy.stats import norm

        reach = norm.ppf((1 + self.confidence_level) / 2)
        values = shape.values.reshape(len(shape.values), -1)[places]
        errors = reach * shape.std_error.reshape(len(shape.values), -1)[places]
        handles = []
        for output in range(values.shape[1]):
            label = self._band_label
            if values.shape[1] > 1 and self.classes is not None:
                label = str(self.classes[output])
            function = values[:, output], errors[:, output]
            if isinstance(shape.bins, Interval):
                _draw_steps(axes, shape, *function, label, output)
            else:
                _draw_dots(axes, *function, label, output)
            # The handle just added is the last: the panel also has those of earlier
            # outputs.
            panel_handles, _ = axes.get_legend_handles_labels()
            handles += panel_handles[-1:]
        return handles


def _check_classes(shape: Any, classes: Sequence[Any]) -> None:
    n_expected = 2 if shape.values.ndim == 1 else shape.values.shape[1]
    if len(classes) != n_expected:
        raise ValueError(
            f"classes must be {n_expected}, as shapes are of so many, got {len(classes)}"
        )


_HATCH = {"facecolor": "none", "edgecolor": INK, "alpha": 0.25, "hatch": "///"}


def _hatched_patch() -> Any:
    """Return the legend entry of bins that are not supported."""
    from matplotlib.patches import Patch

    return Patch(**_HATCH, label="interval may be too short")


def _hatch(axes: Any, shape: Any, places: NDArray[np.intp]) -> None:
    """Hatch the bins that are not supported."""
    style = _HATCH | {"lw": 0}
    for row, place in enumerate(places):
        if shape.is_supported[place]:
            continue
        if not isinstance(shape.bins, Interval):
            axes.axhspan(row - 0.5, row + 0.5, **style)
        elif place < len(shape.bins.edges) - 1:
            low, high = shape.bins.edges[place : place + 2]
            axes.axvspan(low, high, **style)


def _label(value: Any) -> str:
    return "missing" if value is None else str(value)


def _draw_steps(
    axes: Any,
    shape: Any,
    values: NDArray[np.float64],
    errors: NDArray[np.float64],
    label: str,
    place: int,
) -> None:
    """Draw a function of a number or a date, and a dot beside it for missing ones, if there are some."""
    bins = shape.bins
    # Without records, noise alone may count more than the least share of them.
    has_missing = (
        shape.counts[-1] > _MIN_MISSING * shape.counts.sum() and shape.is_supported[-1]
    )
    style = series_style(place)
    colour = COLOURS[place % len(COLOURS)]
    edges = np.array(bins.edges)
    n_bins = len(edges) - 1
    low, high = values - errors, values + errors
    axes.fill_between(
        edges,
        np.append(low[:n_bins], low[n_bins - 1]),
        np.append(high[:n_bins], high[n_bins - 1]),
        step="post",
        color=colour,
        alpha=0.25,
        lw=0,
    )
    axes.stairs(
        values[:n_bins], edges, color=colour, lw=1.6, baseline=None, label=label
    )
    # If at least half of the edges are within this share of a range, at its beginning,
    # it is drawn by its logarithm.
    crowded = 0.1
    if isinstance(bins.edges[0], float):
        middle = float(np.median(edges[1:-1])) if n_bins > 1 else edges[-1]
        if edges[0] >= 0 and middle - edges[0] <= crowded * (edges[-1] - edges[0]):
            _scale_by_logarithm(axes, edges)
        axes.set_xlim(edges[0], edges[-1])
    if len(values) > n_bins and has_missing:
        # Outside of the range, in shares of the width of the panel.
        axes.errorbar(
            [1.06],
            values[n_bins:],
            errors[n_bins:],
            transform=axes.get_yaxis_transform(),
            clip_on=False,
            capsize=2,
            **style,
        )
    if len(values) > n_bins and has_missing and place == 0:
        axes.text(
            1.06,
            -0.02,
            "missing",
            transform=axes.transAxes,
            rotation=90,
            ha="center",
            va="top",
            fontsize="small",
        )


def _scale_by_logarithm(axes: Any, edges: NDArray[np.float64]) -> None:
    """Scale an axis from 0 or a number above it, with ticks at powers of ten."""
    # It is linear up to the first edge above 0.
    linear = float(edges[edges > 0][0])
    axes.set_xscale("symlog", linthresh=linear)
    powers = 10.0 ** np.arange(np.ceil(np.log10(linear)), np.log10(edges[-1]) + 0.01)
    # Ticks at powers of ten, whose labels fit into a panel of 3.6 inches.
    most_powers = 4
    # Labels of more powers would overlap, and so would those in the linear part and at 0.
    step = -(-len(powers) // most_powers)
    powers = powers[::-1][::step][::-1]
    ticks = powers[powers >= edges[0]]
    if edges[0] == 0:
        ticks = np.append(0.0, ticks)
    axes.set_xticks(ticks)


def _draw_dots(
    axes: Any,
    values: NDArray[np.float64],
    errors: NDArray[np.float64],
    label: str,
    place: int,
) -> None:
    """Draw a function of declared values, one below the other."""
    # The labels of values are those of the panel, set once for all outputs.
    axes.errorbar(
        values,
        np.arange(len(values)),
        xerr=errors,
        ls="",
        ms=5,
        capsize=2,
        label=label,
        **series_style(place),
    )
