"""The quality of a synthetic table on a page: columns, worst pairs, numbers, and what is not to be used."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from skdp.base import AxesLike, TableLike, check_choice
from skdp.domain import DomainLike
from skdp.evaluation._common import check_count, check_table
from skdp.evaluation.displays._marginals import cut_numbers
from skdp.evaluation.displays._style import (
    COLOURS,
    INK,
    PanelDisplay,
    draw_legend,
    import_pyplot,
    label_rows,
    legend_entry,
    tidy_axes,
    title_panel,
)
from skdp.metrics import compare_marginals, compare_numbers
from skdp.synthesis import (
    DPMarginalSynthesizer,
    derived_columns,
    marginal_quality,
    number_quality,
)
from skdp.tables import frame_like, is_frame, objects_of, read_table

_MARGINAL_NUMBERS = ("n_cells", "n_uncertain", "error", "noise", "uncertain")
_MARGINAL_COLUMNS = (
    "column",
    "second_column",
    *_MARGINAL_NUMBERS,
    "measured",
    "supported",
)
_NUMBER_NUMBERS = ("reference", "synthetic", "lower", "upper", "std")
_NUMBER_COLUMNS = ("column", "statistic", *_NUMBER_NUMBERS, "measured_within")

_SOURCES = {
    "measured": "Model and its noisy counts",
    "real": "Real rows: not for release",
}
_NOISE = {"measured": "noise alone", "real": "chance alone"}
_UNCERTAIN = {
    "measured": "values with an error as large as their count",
    "real": "values off by their whole share or more",
}


_GREY = "#cccccc"
# Of each statistic, its name in the key and its mark.
_STATISTICS = {
    "mean": ("mean", "D"),
    "quantile 0.1": ("10 %", "<"),
    "quantile 0.5": ("median", "o"),
    "quantile 0.9": ("90 %", ">"),
}


class TableQualityDisplay(PanelDisplay):
    """Plot of how good a synthetic table is, and what is not to be used of it.

    `from_estimator` compares the model of a synthesizer with the noisy counts that it was fitted to, without any real
    row; `from_tables` compares synthetic rows with the real ones. Panels show the total-variation distance of each
    column (half the sum of the absolute differences of the shares, from 0 to 1) and of the worst pairs, beside what
    noise or chance alone would make, and the differences of the means and quantiles of numbers. What is not to be used
    is named below each panel.

    Parameters
    ----------
    marginals : dataframe
        A row for each column, and for each pair of them: ``column`` and ``second_column`` (missing for one column);
        ``n_cells``; ``n_uncertain``, the number of cells whose error is at least their count; the ``error``, a
        distance; the ``noise``, about what it would be by noise or chance alone; ``uncertain``, the share of the
        synthetic records in cells of such errors; whether it was ``measured``; and whether it is ``supported``:
        measured, not most of its records in such cells, and by a model, its error at most twice the noise.
    numbers : dataframe, optional
        A row for each statistic of each column of numbers: the ``column``; the ``statistic``; its value by the
        ``reference``, and by the ``synthetic`` table or model; ``lower`` and ``upper``, an interval of 95 % for what
        noise or chance alone would make (nan if private bins do not say how well they are known); the ``std`` of the
        reference, 0 if its numbers do not differ; and ``measured_within``, false if numbers are only spread evenly
        within bins. Dates are days since 1970 there; where a column has any, ``reference_date``, ``synthetic_date``,
        ``lower_date`` and ``upper_date`` have them as dates.
    source : {"measured", "real"}, default="real"
        What the reference is, for titles: noisy counts, or real rows.

    Attributes
    ----------
    marginals, numbers : dataframe
        The figures that are drawn, of the kind of the tables that were compared.
    unsupported : dataframe
        The rows of `marginals` that are not supported, the largest ``error`` beyond ``noise`` first.
    notes : list of str
        What is not to be used, not compared, or known without an error, in words.
    figure_ : matplotlib Figure
        The figure that was drawn last.
    axes_ : ndarray of matplotlib Axes
        Its panels: columns, pairs and numbers, where there are any.

    Raises
    ------
    TypeError, ValueError
        If a table lacks a column or rows, does not hold numbers where it must, or `source` is another one.

    See Also
    --------
    MarginalDisplay : Chosen marginals of two tables in full.
    skdp.DPMarginalSynthesizer.marginal : Counts by the model, each with its error.

    Notes
    -----
    A pair that was not measured follows from other pairs: columns are taken as independent, given those between them.
    Its error is how far its dependence by the model (the distance from independent columns) is from its noisy score,
    where that is more than chance; the distance of the pair itself is at least that, but for noise.

    Columns that follow from others by `relations` are not modelled: they are left out, and `notes` say so.

    With ``bins="private"``, noisy counts find the bins and where numbers lie within them. That noise is not in the
    counts of the model, so no interval is drawn for means and quantiles of such columns.

    With `from_estimator`, an error is that of the model from noisy counts: with the noise it says how well these were
    fitted, and the noise how well they are known. Where a pair was measured, the model is mostly closer to the true
    counts than the noise; one with an error of more than twice the noise contradicts its own counts, and is not
    supported. With `from_tables`, chance is that of two samples of the same law. Where numbers are not
    declared as an `Interval`, more than 30 different ones are cut into bins.

    **Privacy.** `from_estimator` is post-processing of what `fit` has released: free, and as public as the model.
    `from_tables` shows real data without protection, which its title says: for the curator only.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import DPMarginalSynthesizer
    >>> from skdp.evaluation import TableQualityDisplay
    >>> people = pd.DataFrame({"sex": ["F", "F", "M", "M"] * 250, "smokes": ["no", "no", "yes", "no"] * 250})
    >>> domain = {"sex": ["F", "M", "X"], "smokes": ["no", "yes"]}
    >>> synthesizer = DPMarginalSynthesizer(domain=domain, random_state=0).fit(people)
    >>> display = TableQualityDisplay.from_estimator(synthesizer)
    >>> display.marginals[["column", "second_column", "n_cells", "measured", "supported"]]
       column second_column  n_cells  measured  supported
    0     sex           NaN        3      True       True
    1  smokes           NaN        2      True       True
    2     sex        smokes        6      True       True
    >>> display.notes
    ['values with an error as large as their count: 1 of 3 of sex']
    """

    def __init__(
        self,
        marginals: Any,
        numbers: Any = None,
        *,
        source: Literal["measured", "real"] = "real",
    ) -> None:
        self._marginals = _read_frame(
            marginals, "marginals", _MARGINAL_COLUMNS, _MARGINAL_NUMBERS
        )
        self._numbers = None
        if numbers is not None:
            self._numbers = _read_frame(
                numbers, "numbers", _NUMBER_COLUMNS, _NUMBER_NUMBERS
            )
        check_choice("source", source, list(_SOURCES))
        self.marginals = marginals
        self.numbers = numbers
        self.source = source
        self._derived: list[str] = []

    @classmethod
    def from_estimator(
        cls,
        synthesizer: DPMarginalSynthesizer,
        *,
        max_columns: int = 40,
        max_pairs: int = 12,
        ax: AxesLike | None = None,
    ) -> TableQualityDisplay:
        """Compare a fitted model with the noisy counts that it was fitted to.

        Parameters
        ----------
        synthesizer : DPMarginalSynthesizer
            Fitted. Nothing but what it has released is read.
        max_columns, max_pairs, ax : optional
            See `plot`.

        Returns
        -------
        TableQualityDisplay
            The display, drawn.

        Raises
        ------
        NotFittedError
            Before the synthesizer's `fit`.
        ImportError, TypeError, ValueError
            If matplotlib is not installed, or a parameter is of another type or out of range.
        """
        import_pyplot()
        if not isinstance(synthesizer, DPMarginalSynthesizer):
            raise TypeError(
                "synthesizer must be a DPMarginalSynthesizer, got "
                f"{type(synthesizer).__name__}"
            )
        marginals = marginal_quality(synthesizer)
        numbers = number_quality(synthesizer)
        display = cls(marginals, numbers, source="measured")
        display._derived = derived_columns(synthesizer)
        return display.plot(max_columns=max_columns, max_pairs=max_pairs, ax=ax)

    @classmethod
    def from_tables(
        cls,
        real: TableLike,
        synthetic: TableLike,
        *,
        domain: DomainLike | None = None,
        max_columns: int = 40,
        max_pairs: int = 12,
        ax: AxesLike | None = None,
    ) -> TableQualityDisplay:
        """Compare synthetic rows with real ones, which is not for release.

        Parameters
        ----------
        real : dataframe or 2-D array-like of shape (n_real, n_columns)
            The real rows: a pandas, polars or pyarrow table, or an array.
        synthetic : dataframe or 2-D array-like of shape (n_synthetic, n_columns)
            The synthetic rows, of the same columns.
        domain : Domain or mapping of column name to values or Interval, optional
            The values of columns. For a column that `domain` leaves out, those that occur; more than 30 distinct
            numbers are cut into at most 30 bins of equal width.
        max_columns, max_pairs, ax : optional
            See `plot`.

        Returns
        -------
        TableQualityDisplay
            The display, drawn.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, the tables have no rows or other columns, a column holds values of different
            kinds in the two tables, or a parameter does not fit.
        """
        import_pyplot()
        declared = cut_numbers(real, synthetic, domain)
        marginals = compare_marginals(real, synthetic, domain=declared)
        numbers = compare_numbers(real, synthetic, domain=declared)
        display = cls(marginals, numbers, source="real")
        return display.plot(max_columns=max_columns, max_pairs=max_pairs, ax=ax)

    @property
    def unsupported(self) -> Any:  # numpydoc ignore=RT01
        """The rows of `marginals` that are not supported, the worst first."""
        table = self._marginals
        table = _worst_first(table[~table["supported"].astype(bool)])
        return frame_like(table.reset_index(drop=True), self.marginals)

    @property
    def notes(self) -> list[str]:  # numpydoc ignore=RT01
        """What is not to be used, not compared, or known without an error, in words."""
        notes = []
        for kind in ("columns", "pairs", "numbers"):
            notes += self._notes_of(kind) + self._remarks_of(kind)
        return notes

    def plot(
        self,
        *,
        max_columns: int = 40,
        max_pairs: int = 12,
        ax: AxesLike | None = None,
    ) -> TableQualityDisplay:
        """Draw the figures.

        Parameters
        ----------
        max_columns, max_pairs : int, default=40 and 12
            The most columns and pairs to draw, at least 1: those whose error is furthest beyond noise or chance. Titles
            say how many there are.
        ax : matplotlib Axes or array-like of them, optional
            The axes to draw on, one for each panel. By default those of a new figure.

        Returns
        -------
        TableQualityDisplay
            The display itself.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is not installed, the number of panels is wrong, or a number of rows is not an int or less
            than 1.
        """
        check_count(max_columns, "max_columns", least=1)
        check_count(max_pairs, "max_pairs", least=1)
        import_pyplot()
        tables = self._tables(max_columns, max_pairs)
        panels = self._use_panels(
            ax,
            len(tables),
            f", for {', '.join(tables)}",
            lambda: _new_panels(tables),
        )
        for axes, (kind, table) in zip(panels, tables.items(), strict=True):
            if kind == "numbers":
                handles = _draw_numbers(axes, table)
                title = "numbers: means and quantiles"
            else:
                handles = self._draw_distances(axes, table)
                title = self._count_rows(kind, len(table))
            if axes is panels[0]:
                title = f"{_SOURCES[self.source]}\n{title}"
            title_panel(axes, title)
            self._draw_notes(axes, kind)
            # The same marks are explained once.
            if kind != "pairs" or "columns" not in tables:
                _draw_key(axes, handles)
        return self

    def _tables(self, max_columns: int, max_pairs: int) -> dict[str, pd.DataFrame]:
        """Return the rows of each panel that has any."""
        tables = {}
        columns = self._rows_of("columns")
        if len(columns) > max_columns:
            columns = _worst_first(columns)[:max_columns]
        if len(columns):
            tables["columns"] = columns
        pairs = _worst_first(self._rows_of("pairs"))
        pairs = pairs[pairs["error"].notna()][:max_pairs]
        if len(pairs):
            tables["pairs"] = pairs
        if self._numbers is not None:
            numbers = self._numbers[self._numbers["std"] > 0]
            names = list(dict.fromkeys(numbers["column"]))[:max_columns]
            numbers = numbers[numbers["column"].isin(names)]
            if len(numbers):
                tables["numbers"] = numbers
        return tables

    def _rows_of(self, kind: str) -> pd.DataFrame:
        is_column = self._marginals["second_column"].isna()
        return self._marginals[is_column if kind == "columns" else ~is_column]

    def _count_rows(self, kind: str, n_drawn: int) -> str:
        n_rows = len(self._rows_of(kind))
        if n_drawn == n_rows:
            return f"{n_rows:,} {kind}"
        return f"{n_drawn} of {n_rows:,} {kind}, the worst first"

    def _draw_distances(self, axes: Any, table: pd.DataFrame) -> list[Any]:
        """Draw a dot and a bar for each marginal, and return what a legend explains."""
        places = np.arange(len(table))
        axes.barh(places, table["noise"], height=0.7, color=_GREY)
        is_supported = table["supported"].to_numpy(bool)
        errors = table["error"].to_numpy(float)
        style = {"linestyle": "", "marker": "o", "color": COLOURS[0]}
        axes.plot(errors[is_supported], places[is_supported], **style)
        unsupported = {**style, "marker": "s", "color": COLOURS[1], "mfc": "white"}
        axes.plot(errors[~is_supported], places[~is_supported], **unsupported)
        tidy_axes(axes)
        _label_rows(axes, list(map(_label, table["column"], table["second_column"])))
        axes.set_xlim(left=0)
        axes.locator_params(axis="x", nbins=5)
        # A panel without a dot: no distance is known of what was not measured.
        if not np.isfinite(table[["error", "noise"]].to_numpy(float)).any():
            axes.set_xlim(0, 1)
        return [
            legend_entry("distance", **style),
            legend_entry("not to be used", **unsupported),
            legend_entry(_NOISE[self.source], color=_GREY, lw=6, solid_capstyle="butt"),
        ]

    def _draw_notes(self, axes: Any, kind: str) -> None:
        """Write below a panel what its axis is, and what is not to be used."""
        text = "total-variation distance"
        if kind == "numbers":
            text = "difference, in standard deviations of the column"
        lines = [text]
        notes = [f"Not to be used: {note}" for note in self._notes_of(kind)]
        line = 62
        for note in notes + self._remarks_of(kind):
            lines += textwrap.wrap(note, line, break_on_hyphens=False)
        # To the left of the panel there is room below its labels.
        style = {"fontsize": "small", "parse_math": False, "multialignment": "left"}
        axes.set_xlabel("\n".join(lines), loc="right", **style)

    def _notes_of(self, kind: str) -> list[str]:
        if kind == "columns":
            return self._notes_of_columns()
        if kind == "pairs":
            return self._notes_of_pairs()
        if self._numbers is None:
            return []
        is_even = ~self._numbers["measured_within"].astype(bool)
        names = list(dict.fromkeys(self._numbers["column"][is_even]))
        if not names:
            return []
        names_text = _list_names(list(map(_short, names)))
        return [f"where numbers lie within the bins of {names_text}: spread evenly"]

    def _remarks_of(self, kind: str) -> list[str]:
        """Say what is not compared, and which errors are not known."""
        if kind == "columns":
            return self._derived
        if kind == "pairs" or self._numbers is None:
            return []
        names = list(
            dict.fromkeys(self._numbers["column"][self._numbers["lower"].isna()])
        )
        if not names:
            return []
        names_text = _list_names(list(map(_short, names)))
        return [
            f"how well means and quantiles of {names_text} are known is not stated: bins "
            "are private"
        ]

    def _notes_of_columns(self) -> list[str]:
        notes = []
        columns = self._rows_of("columns")
        is_measured = columns["measured"].astype(bool)
        names = list(map(_short, columns["column"][~is_measured]))
        if names:
            notes.append(f"columns that were not measured: {_list_names(names)}")
        uncertain = columns[is_measured & (columns["n_uncertain"] > 0)]
        uncertain = uncertain.sort_values("n_uncertain", ascending=False, kind="stable")
        parts = []
        for _, row in uncertain.iterrows():
            counts = f"{row['n_uncertain']:,} of {row['n_cells']:,}"
            parts.append(f"{counts} of {_short(row['column'])}")
        if parts:
            notes.append(f"{_UNCERTAIN[self.source]}: {_list_names(parts)}")
        return notes + _notes_of_measured(columns, "columns")

    def _notes_of_pairs(self) -> list[str]:
        notes = []
        pairs = _worst_first(self._rows_of("pairs"))
        labels = _labels(pairs)
        is_measured = pairs["measured"].astype(bool)
        n_unmeasured = int((~is_measured).sum())
        if n_unmeasured:
            note = (
                f"{n_unmeasured:,} of {len(pairs):,} pairs, which were not measured "
                "and rely on conditional independence"
            )
            is_doubtful = ~is_measured & (pairs["error"] > pairs["noise"])
            if is_doubtful.any():
                note += f"; in doubt: {_list_names(labels[is_doubtful].to_list())}"
            notes.append(note)
        return notes + _notes_of_measured(pairs, "pairs")


def _read_frame(
    table: Any, name: str, columns: Sequence[str], numbers: Sequence[str]
) -> pd.DataFrame:
    """Read a table of figures of any library."""
    if is_frame(table) and not isinstance(table, pd.DataFrame):
        read = read_table(table)
        cells = map(objects_of, read.columns)
        table = pd.DataFrame(dict(zip(read.names, cells, strict=True)))
    check_table(table, name, columns, numbers=numbers)
    if not len(table):
        raise ValueError(f"{name} must have at least one row")
    return table.reset_index(drop=True)


def _labels(table: pd.DataFrame) -> pd.Series:
    names = list(map(_label, table["column"], table["second_column"]))
    return pd.Series(names, index=table.index, dtype=object)


def _notes_of_measured(table: pd.DataFrame, kind: str) -> list[str]:
    """Name what was measured, and is not supported nevertheless."""
    table = table[table["measured"].astype(bool) & ~table["supported"].astype(bool)]
    table = _worst_first(table)
    labels = _labels(table)
    notes = []
    # The share of the records in uncertain cells, from which on they are a reason not
    # to use a marginal.
    most_uncertain = 0.5
    # There are two reasons: cells that are noise, and a model that does not fit.
    is_noise = table["uncertain"] > most_uncertain
    if is_noise.any():
        names_text = _list_names(labels[is_noise].to_list())
        notes.append(f"{kind} with most rows in cells of large errors: {names_text}")
    if not is_noise.all():
        names_text = _list_names(labels[~is_noise].to_list())
        notes.append(f"fitted worse than the noise: {names_text}")
    return notes


def _worst_first(table: pd.DataFrame) -> pd.DataFrame:
    """Sort by how far errors are beyond noise; those that are not known come last."""
    beyond = (table["error"] - table["noise"]).fillna(-np.inf)
    order = np.argsort(-beyond.to_numpy(float), kind="stable")
    return table.iloc[order]


def _new_panels(tables: dict[str, pd.DataFrame]) -> list[Any]:
    """Make panels above each other, as high as their rows."""
    heights = []
    row_height = 0.24
    for kind, table in tables.items():
        # Statistics of a column share its row, which is twice as high as others.
        n_rows = 2 * table["column"].nunique() if kind == "numbers" else len(table)
        heights.append(row_height * (2 + n_rows))
    # Inches: on a telephone, 390 pixels wide, its letters are 9 pixels high.
    width = 5.0
    margin = 1.25
    size = width, sum(heights) + margin * len(heights)
    _, panels = import_pyplot().subplots(
        len(heights),
        1,
        figsize=size,
        squeeze=False,
        height_ratios=heights,
        layout="constrained",
    )
    return list(panels.flat)


def _draw_numbers(axes: Any, table: pd.DataFrame) -> list[Any]:
    """Draw the differences of the statistics of each column in a row of its own."""
    names = list(dict.fromkeys(table["column"]))
    statistics = list(dict.fromkeys(table["statistic"]))
    # Statistics of a column are below each other.
    shifts = np.linspace(-0.3, 0.3, len(statistics))
    handles = []
    for number, statistic in enumerate(statistics):
        label, mark = _STATISTICS.get(statistic, (str(statistic), "s"))
        rows = table[table["statistic"] == statistic]
        places = np.array([names.index(name) for name in rows["column"]])
        places = places + shifts[number]
        std = rows["std"].to_numpy(float)
        ends = {}
        for side in ("synthetic", "lower", "upper"):
            ends[side] = (rows[side] - rows["reference"]).to_numpy(float) / std
        is_known = np.isfinite(ends["lower"])
        lower, upper = ends["lower"][is_known], ends["upper"][is_known]
        axes.hlines(places[is_known], lower, upper, color=_GREY, lw=4)
        style = {
            "linestyle": "",
            "marker": mark,
            "color": COLOURS[number % len(COLOURS)],
            "ms": 5,
        }
        axes.plot(ends["synthetic"], places, **style)
        handles.append(legend_entry(label, **style))
    axes.axvline(0, color=INK, lw=1)
    tidy_axes(axes)
    _label_rows(axes, list(map(_short, names)))
    axes.locator_params(axis="x", nbins=5)
    return handles


def _label_rows(axes: Any, labels: list[str]) -> None:
    """Label rows in small letters."""
    label_rows(axes, labels)
    axes.tick_params(axis="y", labelsize="small")


def _draw_key(axes: Any, handles: list[Any]) -> None:
    """Explain the marks of a panel in a space above its rows."""
    # The rows that a key takes.
    key_rows = 1.7
    axes.set_ylim(top=-key_rows)
    draw_legend(
        axes,
        handles,
        loc="upper right",
        ncols=len(handles),
        fontsize="small",
        facecolor="white",
        edgecolor="none",
        framealpha=1,
        columnspacing=1.0,
        handletextpad=0.3,
        borderaxespad=0.2,
    )


def _label(column: Any, second_column: Any) -> str:
    """Name a column, or a pair."""
    if pd.isna(second_column):
        return _short(column)
    return f"{_short(column)} × {_short(second_column)}"


def _short(name: Any) -> str:
    """Cut a long name."""
    text = str(name)
    # Letters of a name in a list.
    longest_name = 15
    return text if len(text) <= longest_name else f"{text[: longest_name - 1]}…"


def _list_names(names: list[str]) -> str:
    """List a few names, and count the others."""
    most_names = 3
    text = ", ".join(names[:most_names])
    n_others = len(names) - most_names
    return text if n_others <= 0 else f"{text} and {n_others:,} more"
