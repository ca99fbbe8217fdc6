"""Plot of estimated counts with intervals, and of the true counts if known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skdp.base import AxesLike, TableLike
from skdp.evaluation.displays._style import (
    COLOURS,
    INK,
    PanelDisplay,
    check_count,
    check_table,
    import_pyplot,
    interval_label,
    label_rows,
    new_grid,
    tidy_axes,
)
from skdp.local import ReportTally, ReportTransformer
from skdp.oracles import Postprocess

_ORDER = {"estimate": 0, "true count": 2}  # of the legend


class CountEstimateDisplay(PanelDisplay):
    """Bar plot of estimated counts with intervals, and of the true counts if known, with a panel for each column.

    It is recommended to use `from_estimator` or `from_estimates` to create one. Unbiased counts may be negative and are
    drawn so.

    Parameters
    ----------
    estimates : DataFrame
        ``count, lower, upper``, indexed by value, by (column, category) for several columns, or by the values of a
        joint of columns, as returned by `estimate_counts`.
    true_counts : Series, optional
        The true counts under the same labels; a label that it leaves out has the count 0.
    confidence_level : float, optional
        The coverage of the intervals, for the legend.

    Attributes
    ----------
    estimates : DataFrame
        The estimates, with a column ``true`` if it is known.
    figure_ : matplotlib Figure
        The figure that was drawn last.
    axes_ : ndarray of matplotlib Axes
        Its panels.

    Raises
    ------
    TypeError, ValueError
        If the estimates lack a column or rows, or the true counts do not fit.

    Notes
    -----
    **Privacy.** Estimates from reports are post-processing, without privacy cost. True counts are not protected: a
    figure with them is for data that is not sensitive.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.local import RandomizedResponseEncoder
    >>> people = pd.DataFrame({"sex": ["Female"] * 300 + ["Male"] * 700})
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["Female", "Male"]}, random_state=0)
    >>> reports = encoder.fit_transform(people)
    >>> display = CountEstimateDisplay.from_estimator(encoder, reports, true_counts=people["sex"].value_counts())
    >>> display.estimates["true"].tolist()
    [300.0, 700.0]
    >>> [axes.get_title(loc="left") for axes in display.axes_]
    ['sex']
    """

    def __init__(
        self,
        estimates: pd.DataFrame,
        *,
        true_counts: pd.Series | None = None,
        confidence_level: float | None = None,
    ) -> None:
        columns = ("count", "lower", "upper")
        check_table(estimates, "estimates", columns, numbers=columns)
        if estimates.empty:
            raise ValueError("estimates must have at least one row")
        self.estimates = estimates.copy()
        if true_counts is not None:
            self.estimates["true"] = _match(true_counts, estimates.index)
        self.confidence_level = confidence_level

    @classmethod
    def from_estimator(
        cls,
        encoder: ReportTransformer,
        reports: TableLike | ReportTally,
        *,
        true_counts: pd.Series | None = None,
        postprocess: Postprocess = "none",
        confidence_level: float = 0.95,
        max_values: int = 20,
        ax: AxesLike | None = None,
    ) -> CountEstimateDisplay:
        """Estimate the counts from reports and draw them.

        Parameters
        ----------
        encoder : local transformer
            Fitted, with a method `estimate_counts`.
        reports : array-like or dataframe, as returned by the encoder's `transform`, or ReportTally
            Privatised rows, or their sums.
        true_counts : Series, optional
            See the class.
        postprocess : {"none", "clip", "simplex", "power"}, default="none"
            As for `estimate_counts`. The intervals are those of the unbiased estimates.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.
        max_values, ax : optional
            See `plot`.

        Returns
        -------
        CountEstimateDisplay
            The display, drawn.

        Raises
        ------
        ImportError, NotFittedError, TypeError, ValueError
            If matplotlib is not installed, the encoder is not fitted, or the reports, the true counts or a parameter do
            not fit.
        """
        import_pyplot()
        estimates = encoder.estimate_counts(
            reports, postprocess=postprocess, confidence_level=confidence_level
        )
        display = cls(
            estimates, true_counts=true_counts, confidence_level=confidence_level
        )
        return display.plot(max_values=max_values, ax=ax)

    @classmethod
    def from_estimates(
        cls,
        estimates: pd.DataFrame,
        *,
        true_counts: pd.Series | None = None,
        confidence_level: float | None = None,
        max_values: int = 20,
        ax: AxesLike | None = None,
    ) -> CountEstimateDisplay:
        """Draw counts that were estimated before.

        Parameters
        ----------
        estimates : DataFrame
            ``count, lower, upper``, as returned by `estimate_counts` or `estimate_joint_counts`.
        true_counts, confidence_level : optional
            See the class.
        max_values, ax : optional
            See `plot`.

        Returns
        -------
        CountEstimateDisplay
            The display, drawn.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, or the estimates, the true counts or a parameter do not fit.
        """
        import_pyplot()
        display = cls(
            estimates, true_counts=true_counts, confidence_level=confidence_level
        )
        return display.plot(max_values=max_values, ax=ax)

    def plot(
        self, *, max_values: int = 20, ax: AxesLike | None = None
    ) -> CountEstimateDisplay:
        """Draw the estimates.

        Parameters
        ----------
        max_values : int, default=20
            Number of values of a column to draw, at least 1: those with the largest estimates. The number of the others
            is stated.
        ax : matplotlib Axes or array-like of them, optional
            The axes to draw on, one for each column, or one for a joint. By default those of a new figure.

        Returns
        -------
        CountEstimateDisplay
            The display itself.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, the number of panels is wrong, or `max_values` is not an int or less than 1.
        """
        check_count(max_values, "max_values", least=1)
        import_pyplot()
        tables = _split(self.estimates)
        lines = max(2, *(min(len(table), max_values) for _, table in tables))
        sizes: dict[str, Any] = {
            "width": 4.6,
            "height": 1.1 + 0.28 * lines,
            "margin": 0.4,
            "h_pad": 0.1,
        }
        panels = self._use_panels(
            ax,
            len(tables),
            ", one for each column",
            lambda: new_grid(len(tables), **sizes),
        )
        for axes, (title, table) in zip(panels, tables, strict=True):
            self._draw(axes, title, table, max_values)
        pairs = zip(*panels[0].get_legend_handles_labels(), strict=True)
        named = sorted(pairs, key=lambda pair: _ORDER.get(pair[1], 1))
        handles, labels = zip(*named, strict=True)
        self._draw_legend(
            ax, handles, labels, loc="outside lower center", ncols=len(named)
        )
        return self

    def _draw(self, axes: Any, title: str, table: pd.DataFrame, most: int) -> None:
        left_out = len(table) - most
        if left_out > 0:
            order = np.argsort(
                -table["count"].fillna(-np.inf).to_numpy(), kind="stable"
            )
            table = table.iloc[np.sort(order[:most])]
            title = f"{title} ({left_out} smaller estimates not drawn)"
        places = np.arange(len(table))
        level = interval_label(self.confidence_level)
        axes.barh(
            places, table["count"], height=0.7, color=COLOURS[5], label="estimate"
        )
        # The interval of an unknown value has no ends.
        bounded = np.isfinite(table["lower"].to_numpy()) & np.isfinite(
            table["upper"].to_numpy()
        )
        known = table[bounded]
        axes.hlines(
            places[bounded],
            known["lower"],
            known["upper"],
            color=COLOURS[0],
            lw=2,
            label=level,
        )
        axes.plot(
            known["lower"],
            places[bounded],
            "|",
            known["upper"],
            places[bounded],
            "|",
            color=COLOURS[0],
            ms=7,
        )
        if "true" in table:
            axes.plot(
                table["true"],
                places,
                "D",
                color=COLOURS[1],
                mec="white",
                ms=5.5,
                label="true count",
            )
        axes.axvline(0, color=INK, lw=1)
        tidy_axes(axes)
        label_rows(axes, [_label(value) for value in table.index])
        axes.locator_params(axis="x", nbins=6)
        axes.set_xlabel("records")
        axes.set_title(
            title, loc="left", parse_math=False, color=INK, fontsize="medium"
        )


def _match(true_counts: Any, index: pd.Index) -> pd.Series:
    if not isinstance(true_counts, pd.Series):
        raise TypeError(
            f"true_counts must be a Series, got {type(true_counts).__name__}"
        )
    if not pd.api.types.is_numeric_dtype(true_counts.dtype):
        raise TypeError("true_counts must hold numbers")
    if true_counts.index.nlevels != index.nlevels:
        raise ValueError(
            f"true_counts must have labels of {index.nlevels} levels, got {true_counts.index.nlevels}"
        )
    by_label = dict(
        zip(_plain(true_counts.index), true_counts.to_numpy(dtype=float), strict=True)
    )
    labels = _plain(index)
    if len(by_label) < len(true_counts) or not set(by_label) <= set(labels):
        raise ValueError(
            "true_counts must have each label once, and only labels that estimates has"
        )
    return pd.Series([by_label.get(label, 0.0) for label in labels], index=index)


def _plain(index: pd.Index) -> list[Any]:
    """Read labels in a form that can be compared: a missing value is None, and an index of one level has no tuples."""
    index = index.get_level_values(0) if index.nlevels == 1 else index
    return [
        tuple(map(_plain_part, label))
        if isinstance(label, tuple)
        else _plain_label(label)
        for label in index
    ]


def _plain_part(part: Any) -> Any:
    """Read a part of a label of several; truth values are text."""
    # `estimate_counts` writes them as text if their level also holds the number 0 or 1, and as they are otherwise.
    return str(part) if isinstance(part, bool | np.bool_) else _plain_label(part)


def _plain_label(label: Any) -> Any:
    return None if pd.isna(label) else label


def _split(estimates: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Split estimates into one table for each column that was estimated separately."""
    index = estimates.index
    if list(index.names) == ["column", "category"]:
        columns = index.get_level_values("column")
        return [
            (str(name), estimates[columns == name].droplevel("column"))
            for name in columns.unique()
        ]
    return [
        (
            " × ".join("value" if name is None else str(name) for name in index.names),
            estimates,
        )
    ]


def _label(value: Any) -> str:
    parts = value if isinstance(value, tuple) else (value,)
    text = ", ".join("missing" if pd.isna(part) else str(part) for part in parts)
    return text if len(text) <= 40 else f"{text[:39]}…"
