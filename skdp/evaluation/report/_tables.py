"""The figures and tables of the report, the formats of their numbers, and a summary in a few sentences."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import pandas as pd

from skdp.domain import Domain
from skdp.evaluation._attacks import AttackResult
from skdp.evaluation.displays import (
    COLOURS,
    INK,
    CountEstimateDisplay,
    FairnessDisplay,
    MarginalDisplay,
    PrivacyCurveDisplay,
    draw_legend,
    label_epsilons,
    legend_entry,
)
from skdp.evaluation.report._counts import CountStudy
from skdp.evaluation.report._experiments import (
    DEBIASED,
    FROM_LEFT_OUT,
    LEFT_OUT,
    NOT_PRIVATE,
    attacked_column,
)
from skdp.evaluation.report._study import Study
from skdp.tables import flatten_index, is_missing

_SIZE = (5.2, 3.9)  # inches: text of 10.5 points can be read on a telephone, too
_STYLE = {
    "font.size": 10.5,
    "font.family": "sans-serif",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",
    "svg.hashsalt": "skdp",
}
# Those of matplotlib, by which it lays out.
_FONTS = re.compile(r"'DejaVu Sans'[^;\"]*sans-serif\b")
# The names of the values of ``postprocess`` in the report.
POSTPROCESS_NAMES = {
    "none": "unbiased",
    "clip": "clipped to [0, n]",
    "simplex": "simplex",
}


def counts_figure(release: pd.DataFrame) -> str:
    most_cells = 20
    height = 1.6 + 0.3 * max(3, min(len(release), most_cells))
    with _new_panels(height=height) as (axes,):
        # The true counts are drawn beside the estimates: the page is about their errors.
        CountEstimateDisplay(
            release[["count", "lower", "upper"]], true_counts=release["true"]
        ).plot(max_values=most_cells, ax=axes)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.locator_params(axis="x", nbins=5)
        return _svg(axes, columns=3)


def error_figure(
    study: CountStudy, norm: str, by_trust: pd.DataFrame | None = None
) -> str:
    """Draw the count error by epsilon: means with a band, the closed form, and what other models of trust have."""
    summary = study.summary()
    # Where nothing is repaired, all lines are the same: each shows in the gaps of the
    # next one.
    dashes = {"none": "-", "clip": "--", "simplex": "-."}
    with _new_panels() as (axes,):
        groups = summary.groupby("postprocess", sort=False)
        # Of errors over many releases, the band is drawn of one line only, as all
        # would hide each other.
        for colour, (name, errors) in zip(COLOURS, groups, strict=False):
            epsilons = errors["epsilon"]
            axes.plot(
                epsilons,
                errors[f"{norm}_mean"],
                dashes[str(name)],
                color=colour,
                marker="o",
                ms=3.5,
                label=f"{POSTPROCESS_NAMES[str(name)]}, mean",
            )
            if name == "none":
                style = {"color": colour, "alpha": 0.15, "lw": 0}
                ends = errors[f"{norm}_q05"], errors[f"{norm}_q95"]
                label = "unbiased, 5 % to 95 %"
                axes.fill_between(epsilons, *ends, label=label, **style)
        column, label = "l1_mean", "expected mean"
        if norm == "l2":
            column, label = "l2_rms", "closed form, rms"
        expected = study.expected[column]
        axes.plot(expected.index, expected, color=INK, lw=1.2, label=label)
        if by_trust is not None:
            style = {"color": INK, "lw": 1, "ms": 4, "mfc": "none"}
            for name, form in (("shuffled", "s--"), ("central", "^--")):
                rms = by_trust[name]
                axes.plot(rms.index, rms, form, label=f"{name}, rms", **style)
        label_epsilons(axes, study.expected.index)
        axes.set_yscale("log")
        _write_out(axes.yaxis)
        axes.set_ylabel("records")
        axes.set_title(f"{norm.upper()} error of the counts")
        axes.legend()
        return _svg(axes, columns=2)


def scores_figure(scores: pd.DataFrame, metric: str) -> str:
    """Draw a score by epsilon, one line per classifier, with lines for the models without privacy."""
    scores = scores[scores["metric"] == metric]
    is_absent = scores["epsilon"] == LEFT_OUT
    curve = scores[~is_absent].assign(group=scores["classifier"])
    repeats = curve["repeat"].nunique()
    # One split has no spread.
    band: Literal["std"] | None = "std" if repeats > 1 else None
    with _new_panels() as (axes,):
        PrivacyCurveDisplay(curve).plot(band=band, ax=axes)
        axes.set_title(metric[0].upper() + metric[1:], parse_math=False)
        # A model without the columns has no epsilon: it is a line across the panel.
        absent = scores[is_absent].groupby("classifier", sort=False)["value"].mean()
        for colour, level in zip(COLOURS, absent, strict=False):
            axes.axhline(level, color=colour, ls=":", lw=1.4)
        extra = [legend_entry("columns left out", ls=":", lw=1.4)]
        spread = f"± 1 standard deviation over {repeats} repeats"
        names = {
            "without noise": "not private",
            spread: f"± 1 sd over {repeats} splits",
        }
        return _svg(axes, columns=2, extra=extra, names=names)


def curve_figure(curve: pd.DataFrame, metric: str, baseline: str) -> str:
    with _new_panels(height=3.4) as (axes,):
        rows = curve[curve["metric"] == metric]
        PrivacyCurveDisplay(rows).plot(band=None, ax=axes)
        axes.set_title(metric[0].upper() + metric[1:], parse_math=False)
        named = {"everybody": "synthetic rows", "without noise": baseline}
        return _svg(axes, columns=2, names=named)


def fairness_figure(reports: Mapping[str, pd.DataFrame]) -> str:
    with _new_panels(rows=5, height=8.6, ratios=[2, 2, 2, 3, 1.2]) as panels:
        FairnessDisplay(reports, confidence_level=0.95).plot(ax=panels)
        return _svg(panels[0], columns=2)


def marginal_figure(
    real: pd.DataFrame, synthetic: pd.DataFrame, column: Any, domain: Domain
) -> str:
    with _new_panels(height=3.4) as (axes,):
        MarginalDisplay.from_tables(real, synthetic, [column], domain=domain, ax=axes)
        return _svg(axes, columns=2)


@contextmanager
def _new_panels(
    *, height: float = _SIZE[1], rows: int = 1, ratios: list[float] | None = None
) -> Iterator[Any]:
    """Yield the panels of a figure in the report's style, without touching the user's backend or settings."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    class Rounded(ConstrainedLayoutEngine):
        def execute(self, fig: Figure) -> None:
            """Lay out the panels without last bits: the solver adds floats in the order of its addresses in memory."""
            super().execute(fig)
            # The page of a seed is the same bit for bit.
            for panel in fig.axes:
                panel.set_position(np.round(panel.get_position().bounds, 9))
                panel.set_in_layout(True)

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        # The reader's browser draws the letters.
        warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
        figure = Figure(layout=Rounded(), figsize=(_SIZE[0], height))
        yield figure.subplots(rows, squeeze=False, height_ratios=ratios).ravel()


def _svg(
    axes: Any, *, columns: int, extra: Any = (), names: Mapping[str, str] | None = None
) -> str:
    """Move the legend of a panel below the figure, where it covers nothing, and write the figure."""
    # Displays draw a legend into given panels, where it would cover lines.
    legend = axes.get_legend()
    if legend is not None:
        # Of error bars, the legend's own handles have lost their markers.
        drawn = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        handles = []
        for label, entry in zip(legend.get_texts(), legend.legend_handles, strict=True):
            name = label.get_text()
            handle = drawn.get(name, entry)
            handle.set_label((names or {}).get(name, name))
            handles.append(handle)
        legend.remove()
        place = {"loc": "outside lower left", "ncols": columns}
        draw_legend(axes.figure, [*handles, *extra], **place)
    text = io.StringIO()
    # No date: the file is reproducible.
    axes.figure.savefig(text, format="svg", metadata={"Date": None})
    return _FONTS.sub("system-ui, sans-serif", text.getvalue())  # as the page


def _write_out(axis: Any) -> None:
    """Label a logarithmic axis with plain numbers, as many as matplotlib would label."""
    from matplotlib.ticker import LogFormatterMathtext

    class Plain(LogFormatterMathtext):
        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:,.10g}" if super().__call__(x, pos) else ""

    axis.set_major_formatter(Plain())
    axis.set_minor_formatter(Plain(minor_thresholds=(1, 0.4)))


# The metrics of fairness that have a figure.
SHOWN = ("statistical parity difference", "equal opportunity difference")
_DIFFERENCE = ("difference", "lower", "upper")

_ERRORS = {
    "l1_mean": "mean L1",
    "l1_mean_expected": "expected L1",
    "l2_mean": "mean L2",
    "l2_rms": "rms L2",
    "l2_rms_expected": "closed-form rms L2",
}


def short(value: float) -> str:
    """Write an epsilon or a delta."""
    return f"{value:g}".replace("e-0", "e-")


def whole(value: float) -> str:
    """Write a number without its fraction."""
    return "" if np.isnan(value) else f"{value:,.0f}".replace("-", "−")


def decimals(value: float) -> str:
    """Write a number with four decimals."""
    return (
        "undefined"
        if np.isnan(value)
        else f"{value:.4f}".replace("-", "−").replace("inf", "∞")
    )


def written(
    frame: pd.DataFrame, formats: Mapping[str, Callable[[Any], str]] | None = None
) -> pd.DataFrame:
    """Write a table: an epsilon in short, other fractions with four decimals, unless another format is given."""
    # The cells of the page are texts: the CSV files have the numbers.
    cells = pd.DataFrame(index=frame.index)
    for name, column in frame.items():
        write: Any = decimals if column.dtype.kind == "f" else str
        if name == "epsilon":
            write = short
        write = (formats or {}).get(str(name), write)
        cells[name] = list(map(write, column))
    return cells


def counts_table(study: CountStudy) -> pd.DataFrame:
    numbers = {
        "true": "true count",
        "count": "estimate",
        "std_error": "std. error",
        "lower": "lower",
        "upper": "upper",
    }
    # Values of the cells are labels, and a missing one has a name.
    flat = flatten_index(study.releases.rename(columns=numbers))
    names = list(flat.columns[1 : study.releases.index.nlevels])
    formats = {**dict.fromkeys(names, label), **dict.fromkeys(numbers.values(), whole)}
    return written(flat, formats)


def errors_table(study: CountStudy) -> pd.DataFrame:
    """Write the errors of the counts by epsilon, without redundant rows."""
    summary = study.summary()
    named = summary.assign(postprocess=summary["postprocess"].map(POSTPROCESS_NAMES))
    names = {
        "epsilon": "epsilon",
        "postprocess": "estimate",
        **_ERRORS,
        "coverage": "95 % intervals hold",
    }
    errors = named[list(names)].rename(columns=names)
    # If no unbiased count is negative, the other estimates are the same, but for the
    # rounding of floats.
    errors = errors[
        ~errors[["epsilon", "mean L1", "mean L2", "rms L2"]].round(6).duplicated()
    ]
    formats = {
        **dict.fromkeys(_ERRORS.values(), whole),
        "95 % intervals hold": lambda share: f"{share:.1%}",
    }
    return written(errors, formats)


def scores_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Write the mean and standard deviation of each score, the models without privacy first."""
    # What privacy costs is read against the two models without it, which come first.
    names = {NOT_PRIVATE: "not private", LEFT_OUT: "left out"}
    epsilons = scores["epsilon"].unique()
    order = [*names, *np.setdiff1d(epsilons, list(names))]
    keys = ["classifier", "epsilon", "metric"]
    grouped = scores.groupby(keys, sort=False)["value"].agg(["mean", "std"])
    # One split has no deviation, which is nan.
    deviations = grouped["std"].map(" ± {:.4f}".format).replace(" ± nan", "")
    text = grouped["mean"].map(decimals) + deviations
    wide = text.unstack("metric", sort=False)
    wide = wide.reindex(order, level="epsilon").reset_index()
    texts = wide["epsilon"].map(lambda epsilon: f"ε = {short(epsilon)}")
    wide["epsilon"] = wide["epsilon"].map(names).fillna(texts)
    return wide.rename(columns={"epsilon": "columns are"}).rename_axis(columns=None)


def audit_table(audits: Mapping[float, Mapping[str, pd.DataFrame]]) -> pd.DataFrame:
    """Arrange the differences of all audits in one table."""
    # One row for each epsilon and metric: the three audits beside each other, and the
    # interval of the debiased one.
    rows: list[dict[str, Any]] = []
    for epsilon, reports in audits.items():
        for metric in SHOWN:
            row: dict[str, Any] = {"epsilon": epsilon, "metric": metric}
            for name, report in reports.items():
                table = report.set_index("metric")
                row[name] = table.loc[metric, "value"]
                if name == DEBIASED:
                    ends = table.loc[metric, ["lower", "upper"]]
            rows.append(row | dict(ends))
    return pd.DataFrame(rows)


def leakage_table(results: Mapping[float, AttackResult]) -> pd.DataFrame:
    """Return the shares of correct guesses at each epsilon."""
    rows = []
    for epsilon, result in results.items():
        margin = 1.96 * result.std_error
        rows.append(
            {
                "epsilon": epsilon,
                "with the report": result.accuracy,
                "without the report": result.accuracy_without_report,
                "prior": result.baseline,
                "bound for the report alone": result.bayes_bound,
                "lower": result.accuracy - margin,
                "upper": result.accuracy + margin,
            }
        )
    return pd.DataFrame(rows)


def synthesis_table(curve: pd.DataFrame) -> pd.DataFrame:
    """Write the metrics side by side, the real rows last."""
    metrics = list(dict.fromkeys(curve["metric"]))
    wide = curve.pivot(index="epsilon", columns="metric", values="value")
    formats: dict[str, Any] = dict.fromkeys(metrics, _decimals_or_nothing)
    formats["epsilon"] = _epsilon_or_real
    return written(wide[metrics].reset_index(), formats)


def _decimals_or_nothing(value: float) -> str:
    """Write a number; nothing where there is none."""
    return "" if np.isnan(value) else decimals(value)


def _epsilon_or_real(epsilon: float) -> str:
    """Write an epsilon; that of the real rows is infinite."""
    return "real rows" if np.isinf(epsilon) else short(epsilon)


def label(value: Any) -> str:
    """Write a value of the data."""
    return "missing" if is_missing(value) else str(value)


def summarise(
    study: Study, counts: CountStudy, tables: Mapping[str, pd.DataFrame]
) -> list[str]:
    """Write what one epsilon costs: in counts, in scores of the best classifier, in leakage and in synthetic rows."""
    lines = [_of_counts(study, counts)]
    if "model_scores" in tables:
        lines += _of_models(
            tables["model_scores"],
            study.example,
            max(study.y.mean(), 1 - study.y.mean()),
        )
    if "leakage" in tables:
        lines.append(_of_leakage(tables, study.example, attacked_column(study)))
    scored = study.target is not None and study.scores_hold
    return [*lines, _of_synthesis(tables["synthesis"], study.example, scored=scored)]


def _of_counts(study: Study, counts: CountStudy) -> str:
    # The widest interval of all cells, so that the sentence holds for each.
    release = counts.releases.loc[study.example]
    reach = float(((release["upper"] - release["lower"]) / 2).max())
    return (
        f"At epsilon {short(study.example)}, each of the {study.protected.size} counts "
        f"of the {len(study.frame):,} records is known within ± {whole(reach)} (95 % "
        "intervals of one release)."
    )


def _of_models(scores: pd.DataFrame, epsilon: float, majority: float) -> list[str]:
    # Of one classifier, that which is best without privacy: the best of several noisy
    # ones would seem better than it is.
    table = scores.set_index(["epsilon", "metric", "classifier"]).sort_index()
    plain = table["mean"].loc[NOT_PRIVATE]
    # An accuracy that one answer for all rows has as well says nothing.
    blind = plain["accuracy"].max() < majority + 0.01
    metric = "AUC" if blind else "accuracy"
    best = str(plain[metric].idxmax())
    key: Any = epsilon, metric, best
    row: Any = table.loc[key]
    cost = difference(row["difference"], row["lower"], row["upper"])
    lines = [
        f"The {metric} of {best} is {_decimals(row['mean'])}, and "
        f"{_decimals(plain[metric, best])} without noise: {cost}."
    ]
    if blind:
        lines.append(
            "Accuracy says little here: to give all rows the more frequent answer is "
            f"right for {majority:.1%}."
        )
    return [*lines, *_of_fairness(table, epsilon, best)]


def _of_fairness(table: pd.DataFrame, epsilon: float, classifier: str) -> list[str]:
    """Write the parity of a classifier beside that of the same one without the columns."""
    # Privacy is no cause of what leaving the columns out does as well.
    gap = SHOWN[0]
    settings = [epsilon, NOT_PRIVATE, LEFT_OUT]
    places = pd.MultiIndex.from_product([settings, [gap], [classifier]])
    gaps = table["mean"].reindex(places)
    if not np.isfinite(gaps).all():
        return []
    private, plain_gap, left_out = map(_decimals, gaps)
    key: Any = epsilon, gap, classifier
    row: Any = table.loc[key]
    change, lower, upper = row[[f"{name}{FROM_LEFT_OUT}" for name in _DIFFERENCE]]
    return [
        f"Its {gap} is {private}, {plain_gap} without noise, and {left_out} with "
        "the columns left out: reported less left out is "
        f"{_signed_difference(change, lower, upper)}."
    ]


def left_out_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Write by how much the scores with reports differ from those with the columns left out."""
    rows = scores.dropna(subset=[f"difference{FROM_LEFT_OUT}"])
    texts = []
    for _, row in rows.iterrows():
        values = row[[f"{name}{FROM_LEFT_OUT}" for name in _DIFFERENCE]]
        texts.append(_difference_with_interval(*values))
    wide = rows.assign(text=texts).pivot(
        index=["classifier", "epsilon"], columns="metric", values="text"
    )
    # A measure that no split defines has no column.
    names = [name for name in ("accuracy", *SHOWN) if name in wide]
    return wide[names].reset_index().rename_axis(columns=None)


def _difference_with_interval(change: float, lower: float, upper: float) -> str:
    if np.isnan(lower):
        return _decimals(change)
    return f"{_decimals(change)} ({_decimals(lower)} to {_decimals(upper)})"


def _signed_difference(change: float, lower: float, upper: float) -> str:
    """Write a difference of a measure for which neither sign is a cost."""
    if np.isnan(lower):
        return f"{_decimals(change)} on one split of the rows"
    text = (
        f"{_decimals(change)} (95 % interval {_decimals(lower)} to {_decimals(upper)})"
    )
    if lower <= 0 <= upper:
        text += ", which may be chance"
    return text


def _of_leakage(tables: Mapping[str, pd.DataFrame], epsilon: float, column: Any) -> str:
    """Write what is guessed from the release."""
    guesses = tables["leakage"].set_index("epsilon").loc[epsilon]
    return (
        f"Who sees all that is released guesses {column} right for "
        f"{guesses['with the report']:.1%} of records, without the reports for "
        f"{guesses['without the report']:.1%}; the most frequent value is right for "
        f"{guesses['prior']:.1%}."
    )


def _of_synthesis(curve: pd.DataFrame, epsilon: float, *, scored: bool) -> str:
    """Write how far shares are off, and what a model learns from the rows."""
    # A table of one column has no pairs.
    values = curve.set_index(["epsilon", "metric"])["value"]
    things, metric = "pairs of columns", "mean error of 2-way marginals"
    if (epsilon, metric) not in values.index:
        things, metric = "columns", "mean error of 1-way marginals"
    text = (
        f"In synthetic rows of a curator, shares of {things} are off by "
        f"{values[epsilon, metric]:.1%} on average (total variation)"
    )
    auc = "AUC, trained on synthetic rows"
    if not scored or (epsilon, auc) not in values.index:
        return f"{text}."
    synthetic, real = values[epsilon, auc], values[np.inf, auc]
    verdict = ""
    if synthetic <= 0.5:
        verdict = " It learns nothing from them: 0.5 is chance."
    return (
        f"{text}; a logistic regression trained on them has an AUC of "
        f"{_decimals(synthetic)}, on real rows {_decimals(real)}.{verdict}"
    )


def difference(change: float, lower: float, upper: float) -> str:
    """Write what noise changes in a score: only what is beyond chance is called a cost."""
    if np.isnan(lower):
        return f"{_decimals(change)} on one split of the rows"
    # As scores are between 0 and 1; of two splits little is known.
    lower, upper = np.clip([lower, upper], -1, 1)
    if lower <= 0 <= upper:
        interval = f"(95 % interval {_decimals(lower)} to {_decimals(upper)})"
        return f"a difference of {_decimals(change)} {interval}, which may be chance"
    # A cost is a positive number, whatever the sign of the difference.
    low, high = sorted([abs(lower), abs(upper)])
    verb = "costs" if upper < 0 else "adds"
    return f"privacy {verb} {abs(change):.3f} (95 % interval {low:.3f} to {high:.3f})"


def _decimals(value: float) -> str:
    return f"{round(value, 3) + 0.0:.3f}".replace("-", "−")
