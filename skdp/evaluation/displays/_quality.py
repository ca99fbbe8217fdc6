"""The quality of a synthetic table on a page: columns, worst pairs, numbers, and what is not to be used."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from skdp.base import MOST_WRONG, AxesLike, TableLike, check_choice
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
    changes_by_fair,
    changes_of_rows,
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
_NUMBER_NUMBERS = ("reference", "synthetic", "lower", "upper", "scale")
_NUMBER_COLUMNS = ("column", "statistic", *_NUMBER_NUMBERS, "known", "measured_within")

_SOURCES = {
    "measured": "Model and its noisy counts",
    "real": "Real rows: not for release",
}
_NOISE = {"measured": "noise alone", "real": "chance alone"}
_UNCERTAIN = {
    "measured": "values with an error as large as their count",
    "real": "values off by their whole share or more",
}

# Of the distance from the reference to an end of its interval of 95 %: what is further
# away, noise or chance does not explain. Of normal noise, it is beyond 3.9 standard
# errors: of 10,000 such statistics, one is.
_LARGEST_MISFIT = 2.0

# Of the largest number: differences that are rounding.
_ROUNDING = 1e-12

_GREY = "#cccccc"
# Of each statistic, its name in the key and its mark.
_STATISTICS = {
    "mean": ("mean", "D"),
    "deviation": ("deviation", "s"),
    "quantile 0.1": ("10 %", "<"),
    "quantile 0.5": ("median", "o"),
    "quantile 0.9": ("90 %", ">"),
}


class TableQualityDisplay(PanelDisplay):
    """Plot of how good a synthetic table is, and what is not to be used of it.

    `from_estimator` compares the model of a synthesizer with the noisy counts that it was fitted to, without any real
    row; `from_tables` compares synthetic rows with the real ones. Panels show the total-variation distance of each
    column (half the sum of the absolute differences of the shares, from 0 to 1) and of the worst pairs, beside what
    noise or chance alone would make, and the differences of the means, deviations and quantiles of numbers. What is not
    to be used is named below the panels: three names of a kind there, all in `notes`.

    Parameters
    ----------
    marginals : dataframe
        A row for each column, and for each pair of them: ``column`` and ``second_column`` (missing for one column);
        ``n_cells``; ``n_uncertain``, the number of cells whose error is at least their count; the ``error``, a
        distance; the ``noise``, about what it would be by noise or chance alone; ``uncertain``, the share of the
        synthetic records in cells of such errors; whether it was ``measured``; and whether it is ``supported``:
        measured; its error, its noise and the share ``uncertain`` at most .5; and by a model, its error at most twice
        the noise.
    numbers : dataframe, optional
        A row for each statistic of each column of numbers: the ``column``; the ``statistic``; its value by the
        ``reference``, and by the ``synthetic`` table or model; ``lower`` and ``upper``, an interval of 95 % for what
        noise or chance alone would make; the ``scale`` that differences are drawn in: the distance of the reference's
        10 % and 90 % quantiles, divided by the 2.56 standard deviations that it is of a normal law, or, where these are
        equal, a standard deviation; 0 if numbers do not differ; whether the statistic is ``known``: its interval is at
        most as wide as the scale; and ``measured_within``, false if numbers are only spread evenly within bins. Dates
        are days since 1970 there; where a column has any, ``reference_date``, ``synthetic_date``, ``lower_date`` and
        ``upper_date`` have them as dates, but for deviations.
    source : {"measured", "real"}, default="real"
        What the reference is, for titles: noisy counts, or real rows.

    Attributes
    ----------
    marginals, numbers : dataframe
        The figures that are drawn, of the kind of the tables that were compared.
    unsupported : dataframe
        The rows of `marginals` that are not supported, the largest ``error`` beyond ``noise`` first.
    notes : list of str
        What is not to be used, or not compared, in words; every column and every measured pair by name.
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

    Means, deviations and quantiles by noisy counts, and their intervals, are those of fine cells within bins, without a
    tail or any other law: an interval has all cells that a quantile may be in by these counts and their noise. Where
    few records are far away, noise hides their mean and their deviation: these are not ``known``, are not drawn, and
    notes say that rows follow a fitted tail there. A known statistic is noted as off where its distance from the
    reference is more than twice that of the end of its interval.

    With `fair`, the label of rows is drawn again, so that the pair of group and label is another one by choice, and
    other pairs of the label with it: notes name it. Figures of `from_estimator` are those of the model before, of which
    `marginal` and counts are, too; those of `from_tables`, which has to be told of `fair`, are of the rows.

    With `from_estimator`, an error is that of the model from noisy counts: with the noise it says how well these were
    fitted, and the noise how well they are known. Noisy counts can be further apart than any shares: both are at most
    1. The number of rows is noisy, too: the noise is that of the fewest that there may be, in 95 % of all fits. A
    marginal of which noise moves more than half of the records is not supported, whatever its model. Where a pair was
    measured, the model is mostly closer to the true counts than the noise; one with an error of more than twice the
    noise contradicts its own counts, and is not supported. With `from_tables`, chance is that of two samples of the
    same law. Where numbers are not declared as an `Interval`, more than 30 different ones are cut into bins.

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
        self._labels = self._label_columns()
        self._derived: list[str] = []
        self._changes: list[str] = []

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
        display._changes = changes_of_rows(synthesizer)
        return display.plot(max_columns=max_columns, max_pairs=max_pairs, ax=ax)

    @classmethod
    def from_tables(
        cls,
        real: TableLike,
        synthetic: TableLike,
        *,
        domain: DomainLike | None = None,
        fair: Any = None,
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
        fair : tuple of group and label, or of group, label and list of conditions, optional
            That of the synthesizer, if its rows have a label that was drawn again: `notes` then say that their pair
            differs from that of the real rows by choice.
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
        names = list(display._marginals["column"].unique())
        display._changes = changes_by_fair(fair, names)
        return display.plot(max_columns=max_columns, max_pairs=max_pairs, ax=ax)

    @property
    def unsupported(self) -> Any:  # numpydoc ignore=RT01
        """The rows of `marginals` that are not supported, the worst first."""
        table = self._marginals
        table = _worst_first(table[~table["supported"].astype(bool)])
        return frame_like(table.reset_index(drop=True), self.marginals)

    @property
    def notes(self) -> list[str]:  # numpydoc ignore=RT01
        """What is not to be used, or not compared, in words."""
        notes = []
        for kind in _KINDS:
            notes += [note.text() for note in self._notes_of(kind)]
            notes += self._remarks_of(kind)
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
            lambda: _new_panels(tables, self._n_kinds()),
        )
        # What is said of numbers or pairs without a panel is said below the last one.
        kinds: dict[str, list[str]] = {}
        for kind in _KINDS:
            below = kind if kind in tables else list(tables)[-1]
            kinds.setdefault(below, []).append(kind)
        for axes, (kind, table) in zip(panels, tables.items(), strict=True):
            if kind == "numbers":
                handles = _draw_numbers(axes, table, self._labels)
                title = "columns of numbers"
            else:
                handles = self._draw_distances(axes, table)
                title = self._count_rows(kind, len(table))
            if axes is panels[0]:
                title = f"{_SOURCES[self.source]}\n{title}"
            title_panel(axes, title)
            self._draw_notes(axes, kind, kinds[kind])
            # The same marks are explained once.
            if kind != "pairs" or "columns" not in tables:
                _draw_key(axes, handles)
        return self

    def _label_columns(self) -> Mapping[Any, str]:
        """Give each column a short label of its own."""
        names = list(self._marginals["column"])
        names += list(self._marginals["second_column"].dropna())
        if self._numbers is not None:
            names += list(self._numbers["column"])
        labels: dict[Any, str] = {}
        used = set()
        for number, name in enumerate(dict.fromkeys(names), start=1):
            label = _shorten(str(name))
            if label in used:
                label += f" #{number}"
            used.add(label)
            labels[name] = label
        return labels

    def _label_row(self, column: Any, second_column: Any) -> str:
        """Name a column, or a pair."""
        if pd.isna(second_column):
            return self._labels[column]
        return f"{self._labels[column]} × {self._labels[second_column]}"

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
            numbers = self._numbers[self._numbers["scale"] > 0]
            numbers = numbers[numbers["known"].astype(bool)]
            names = list(dict.fromkeys(numbers["column"]))[:max_columns]
            numbers = numbers[numbers["column"].isin(names)]
            if len(numbers):
                tables["numbers"] = numbers
        return tables

    def _n_kinds(self) -> int:
        """Return of how many kinds something is said."""
        return sum(bool(self._notes_of(kind)) for kind in _KINDS)

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
        labels = map(self._label_row, table["column"], table["second_column"])
        _label_rows(axes, list(labels))
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

    def _draw_notes(self, axes: Any, kind: str, kinds: Sequence[str]) -> None:
        """Write below a panel what its axis is, and what is not to be used."""
        lines = ["total-variation distance"]
        if kind == "numbers":
            lines = ["difference, in standard deviations by the middle 80 %"]
        notes = []
        for kind_below in kinds:
            for note in self._notes_of(kind_below):
                notes.append(f"Not to be used: {note.short_text(self._labels)}")
            notes += self._remarks_of(kind_below)
        line = 62
        for text in notes:
            lines += textwrap.wrap(text, line, break_on_hyphens=False)
        # To the left of the panel there is room below its labels.
        style = {"fontsize": "small", "parse_math": False, "multialignment": "left"}
        axes.set_xlabel("\n".join(lines), loc="right", **style)

    def _remarks_of(self, kind: str) -> list[str]:
        """Say which columns are not compared."""
        return self._derived if kind == "columns" else []

    def _notes_of(self, kind: str) -> list[_Note]:
        """Say what is not to be used."""
        if kind == "columns":
            return self._notes_of_columns()
        if kind == "pairs":
            return self._notes_of_pairs()
        return [] if self._numbers is None else self._notes_of_numbers(self._numbers)

    def _notes_of_columns(self) -> list[_Note]:
        notes = []
        columns = self._rows_of("columns")
        is_measured = columns["measured"].astype(bool)
        unmeasured = columns[~is_measured]
        if len(unmeasured):
            text = "columns that were not measured"
            notes.append(_Note(text, _names_of(unmeasured)))
        uncertain = columns[is_measured & (columns["n_uncertain"] > 0)]
        uncertain = uncertain.sort_values("n_uncertain", ascending=False, kind="stable")
        names = []
        for _, row in uncertain.iterrows():
            counts = f"{row['n_uncertain']:,} of {row['n_cells']:,} of "
            names.append(_Name((row["column"],), counts))
        if names:
            notes.append(_Note(_UNCERTAIN[self.source], names))
        return notes + _notes_of_measured(columns, "columns", _NOISE[self.source])

    def _notes_of_pairs(self) -> list[_Note]:
        notes = [_Note(text) for text in self._changes]
        pairs = _worst_first(self._rows_of("pairs"))
        is_measured = pairs["measured"].astype(bool)
        n_unmeasured = int((~is_measured).sum())
        if n_unmeasured:
            text = (
                f"{n_unmeasured:,} of {len(pairs):,} pairs, which were not measured "
                "and rely on conditional independence"
            )
            doubtful = pairs[~is_measured & (pairs["error"] > pairs["noise"])]
            if len(doubtful):
                text += "; in doubt"
            notes.append(_Note(text, _names_of(doubtful)))
        return notes + _notes_of_measured(pairs, "pairs", _NOISE[self.source])

    def _notes_of_numbers(self, numbers: pd.DataFrame) -> list[_Note]:
        notes = []
        is_known = numbers["known"].astype(bool)
        off = numbers[is_known & _is_off(numbers)]
        if len(off):
            text = f"off by more than twice what {_NOISE[self.source]} makes"
            notes.append(_Note(text, _names_of_statistics(off)))
        unknown = numbers[~is_known]
        if len(unknown):
            text = "not told by noisy counts, but by a fitted tail or the model alone"
            notes.append(_Note(text, _names_of_statistics(unknown)))
        even = numbers[~numbers["measured_within"].astype(bool)]
        if len(even):
            names = [_Name((name,)) for name in dict.fromkeys(even["column"])]
            text = "where numbers lie within bins, spread evenly"
            notes.append(_Note(text, names))
        return notes


_KINDS = ("columns", "pairs", "numbers")
"""Of panels and notes, from above."""


class _Name(NamedTuple):
    """A column or a pair, and what is said of it."""

    columns: tuple[Any, ...]
    before: str = ""

    def text(self) -> str:
        return self.before + " × ".join(map(str, self.columns))

    def short_text(self, labels: Mapping[Any, str]) -> str:
        return self.before + " × ".join(labels[name] for name in self.columns)


class _Note(NamedTuple):
    """What is not to be used: all of it, or a few with the number of the others."""

    reason: str
    names: Sequence[_Name] = ()

    def text(self) -> str:
        names_text = ", ".join(name.text() for name in self.names)
        return f"{self.reason}: {names_text}" if names_text else self.reason

    def short_text(self, labels: Mapping[Any, str]) -> str:
        if not self.names:
            return self.reason
        most_names = 3
        texts = [name.short_text(labels) for name in self.names[:most_names]]
        names_text = ", ".join(texts)
        n_others = len(self.names) - most_names
        if n_others > 0:
            names_text += f" and {n_others:,} more"
        return f"{self.reason}: {names_text}"


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


def _names_of(table: pd.DataFrame) -> list[_Name]:
    """Name the columns or pairs of rows."""
    names = []
    for first, second in zip(table["column"], table["second_column"], strict=True):
        names.append(_Name((first,) if pd.isna(second) else (first, second)))
    return names


def _names_of_statistics(table: pd.DataFrame) -> list[_Name]:
    """Name the statistics of each column."""
    statistics: dict[Any, list[str]] = {}
    for name, statistic in zip(table["column"], table["statistic"], strict=True):
        label, _ = _STATISTICS.get(statistic, (str(statistic), ""))
        statistics.setdefault(name, []).append(label)
    names = []
    for name, labels in statistics.items():
        is_all = len(labels) == len(_STATISTICS)
        labels_text = "all" if is_all else " + ".join(labels)
        names.append(_Name((name,), f"{labels_text} of "))
    return names


def _is_off(numbers: pd.DataFrame) -> pd.Series:
    """Mark statistics that noise or chance does not explain."""
    reference = numbers["reference"]
    above = numbers["synthetic"] - reference
    most = _LARGEST_MISFIT * (numbers["upper"] - reference)
    least = _LARGEST_MISFIT * (numbers["lower"] - reference)
    largest = np.maximum(numbers["synthetic"].abs(), reference.abs())
    rounding = _ROUNDING * largest
    return (above > most + rounding) | (above < least - rounding)


def _notes_of_measured(table: pd.DataFrame, kind: str, noise: str) -> list[_Note]:
    """Name what was measured, and is not supported nevertheless."""
    table = table[table["measured"].astype(bool) & ~table["supported"].astype(bool)]
    table = _worst_first(table)
    reasons = {
        f"{kind} of which {noise} moves more than half of the rows": "noise",
        f"{kind} with most rows in cells of large errors": "uncertain",
        f"{kind} off by more than half of the rows": "error",
    }
    notes = []
    # Each is named once, with the first of its reasons.
    for reason, figure in reasons.items():
        has_reason = table[figure] > MOST_WRONG
        if has_reason.any():
            notes.append(_Note(reason, _names_of(table[has_reason])))
        table = table[~has_reason]
    if len(table):
        notes.append(_Note("fitted worse than the noise", _names_of(table)))
    return notes


def _worst_first(table: pd.DataFrame) -> pd.DataFrame:
    """Sort by how far errors are beyond noise; those that are not known come last."""
    beyond = (table["error"] - table["noise"]).fillna(-np.inf)
    order = np.argsort(-beyond.to_numpy(float), kind="stable")
    return table.iloc[order]


def _new_panels(tables: dict[str, pd.DataFrame], n_kinds: int) -> list[Any]:
    """Make panels above each other, as high as their rows, with room for notes."""
    heights = []
    row_height = 0.24
    for kind, table in tables.items():
        # Statistics of a column share its row, which is twice as high as others.
        n_rows = 2 * table["column"].nunique() if kind == "numbers" else len(table)
        heights.append(row_height * (2 + n_rows))
    # Inches: on a telephone, 390 pixels wide, its letters are 9 pixels high.
    width = 5.0
    margin = 1.25
    size = width, sum(heights) + margin * max(len(heights), n_kinds)
    _, panels = import_pyplot().subplots(
        len(heights),
        1,
        figsize=size,
        squeeze=False,
        height_ratios=heights,
        layout="constrained",
    )
    return list(panels.flat)


def _draw_numbers(
    axes: Any, table: pd.DataFrame, labels: Mapping[Any, str]
) -> list[Any]:
    """Draw the differences of the statistics of each column in a row of its own."""
    names = list(dict.fromkeys(table["column"]))
    statistics = [name for name in _STATISTICS if (table["statistic"] == name).any()]
    # Statistics of a column are below each other.
    shifts = np.linspace(-0.3, 0.3, len(statistics))
    handles = []
    for number, statistic in enumerate(statistics):
        label, mark = _STATISTICS[statistic]
        rows = table[table["statistic"] == statistic]
        places = np.array([names.index(name) for name in rows["column"]])
        places = places + shifts[number]
        scale = rows["scale"].to_numpy(float)
        ends = {}
        for side in ("synthetic", "lower", "upper"):
            ends[side] = (rows[side] - rows["reference"]).to_numpy(float) / scale
        axes.hlines(places, ends["lower"], ends["upper"], color=_GREY, lw=4)
        style = {
            "linestyle": "",
            "marker": mark,
            "color": COLOURS[number % len(COLOURS)],
            "ms": 5,
        }
        # As distances that are not to be used, hollow.
        is_off = _is_off(rows).to_numpy()
        axes.plot(ends["synthetic"][~is_off], places[~is_off], **style)
        axes.plot(ends["synthetic"][is_off], places[is_off], **style, mfc="white")
        handles.append(legend_entry(label, **style))
    axes.axvline(0, color=INK, lw=1)
    tidy_axes(axes)
    _label_rows(axes, [labels[name] for name in names])
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


def _shorten(name: str) -> str:
    """Cut the middle of a long name: questions of a survey may differ at their end."""
    n_letters = 7  # on each side
    if len(name) <= 2 * n_letters + 1:
        return name
    return f"{name[:n_letters]}…{name[-n_letters:]}"
