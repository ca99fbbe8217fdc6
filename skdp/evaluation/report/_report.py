"""Report of a table: run the experiments, write the page and the tables."""

from __future__ import annotations

import base64
import io
import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd

from skdp.base import ColumnName, Privileged, on_one_thread, track
from skdp.domain import Domain
from skdp.evaluation._privacy_curve import compare_to_baseline, summarize_splits
from skdp.evaluation._style import (
    INK,
    choose_series_style,
    format_label,
    import_pyplot,
    tidy_axes,
)
from skdp.evaluation.report._experiments import (
    DEBIASED,
    NAIVE,
    OPPORTUNITY,
    PARITY,
    TRUE_GROUPS,
    attack_releases,
    audit_fairness,
    choose_attacked_column,
    compute_errors_by_model,
    count_study,
    score_models,
    synthesize,
)
from skdp.evaluation.report._study import Study
from skdp.tables import index_to_columns

# Number of releases of the counts at each epsilon, number of splits of the rows for
# classifiers, and delta of synthetic rows.
N_RELEASES, N_SPLITS, DELTA = 500, 5, 1e-9


@dataclass
class Section:
    """Section of the page, with the tables that are written to files by name."""

    title: str
    # Sentence made of the numbers at the epsilon `Study.example`, and the method.
    finding: str
    text: str
    # A row for each quantity, and a column for each epsilon.
    table: pd.DataFrame
    # Title of the figure, and its rows of the table by label.
    axis: str
    lines: dict[str, str]
    files: dict[str, pd.DataFrame]
    # 95 % intervals of lines by label: columns "lower" and "upper", indexed by epsilon.
    intervals: dict[str, pd.DataFrame] = field(default_factory=dict)


# A style has one meaning in all figures: the position of its color and marker. Numbers
# without privacy are black and dashed.
STYLES = (
    ("reports", DEBIASED, "with the report"),
    (NAIVE,),
    ("trusted curator",),
    ("without the columns", "without the report"),
    ("shuffled reports", "most frequent value"),
)
WITHOUT_PRIVACY = ("without privacy", TRUE_GROUPS)


@on_one_thread
def study_report(
    frame: pd.DataFrame,
    domain: Domain,
    out: str | os.PathLike[str],
    *,
    epsilons: Sequence[float] = (0.1, 0.3, 0.5, 1.0, 2.0, 5.0),
    columns: Sequence[Any] | None = None,
    target: ColumnName | None = None,
    sensitive_features: ColumnName | None = None,
    privileged: Privileged | None = None,
    n_jobs: int | None = None,
    random_state: int | None = None,
) -> Path:
    """Study the cost of privacy on a table and write a page with tables and figures.

    Parameters
    ----------
    frame : pandas.DataFrame
        True rows.
    domain : Domain
        Declared values of the columns to protect and of other columns to synthesize.
    out : str or path-like
        Folder to write to. It is created if it does not exist.
    epsilons : sequence of float, default=(0.1, 0.3, 0.5, 1.0, 2.0, 5.0)
        Distinct values of epsilon, > 0.
    columns : list of column names, default=None
        Protected columns, which are reported together. If None, all columns of the
        domain.
    target : column name, default=None
        Column that classifiers predict from all other columns: 0 or 1, where 1 is
        favorable. If None, no classifier is trained.
    sensitive_features : column name, default=None
        Protected column whose groups are compared. If None, no fairness is computed.
    privileged : value or list of values, default=None
        Privileged values of `sensitive_features`; for an `Interval`, labels of bins.
    n_jobs : int, default=None
        Number of jobs to run in parallel, with one thread each.
    random_state : int, default=None
        None uses secure randomness. Pass an int for reproducible output.

    Returns
    -------
    Path
        Path of the page, ``index.html``. Its tables are CSV files in the same folder.

    Raises
    ------
    ImportError
        If matplotlib or jinja2 is not installed.
    TypeError, ValueError
        If a column is missing, a value is not declared, the folder is not writable, or
        parameters are inconsistent. The error is raised before the experiments.

    Notes
    -----
    **Privacy.** The report contains statistics of the true rows and is not private.

    Rows have no weights: the errors are about the rows of this table.

    Errors of counts are from 500 releases, scores of classifiers are from 5 splits with
    25 % test rows, and synthetic rows have a delta of 1e-9.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> from skdp import Domain
    >>> from skdp.evaluation import study_report
    >>> people = pd.DataFrame({"sex": ["f", "m", "m"] * 100, "shoes": [38, 42, 43] * 100})
    >>> domain = Domain({"sex": ["f", "m"]})
    >>> with TemporaryDirectory() as folder:
    ...     page = study_report(people, domain, folder, epsilons=[1.0])
    ...     sorted(path.name for path in page.parent.iterdir())[:2]
    ['count_errors.csv', 'index.html']
    """
    if not isinstance(out, str | os.PathLike):
        raise TypeError(f"`out` must be a path, got {type(out).__name__}.")
    out = Path(out)
    study = Study(
        frame,
        domain,
        columns=columns,
        target=target,
        sensitive_features=sensitive_features,
        privileged=privileged,
        epsilons=epsilons,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    _check_output(out)
    parts = [_study_counts]
    if study.target is not None:
        parts.append(_study_models)
    if study.sensitive_features is not None:
        parts.append(_study_fairness)
    if choose_attacked_column(study) is not None:
        parts.append(_study_leakage)
    parts.append(_study_synthesis)
    sections = [part(study) for part in track(parts, "Running the study", "parts")]
    tables: dict[str, pd.DataFrame] = {}
    for section in sections:
        tables |= section.files
    n_findings = 3  # at the top of the page
    page = _render_page(
        title=f"The cost of privacy: {study.names}",
        n_rows=f"{len(study.frame):,}",
        names=study.names,
        n_cells=study.protected.size,
        others=", ".join(map(str, study.others)) or "none",
        sections=sections,
        figures=[_draw_lines(section) for section in sections[:n_findings]],
        n_findings=n_findings,
        format_cell=_format_cell,
        files=[f"{name}.csv" for name in tables],
    )
    # Files are written after all computations, so that an error leaves no files.
    out.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        # Python quotes the characters of the line ends, and a label may contain them.
        table.to_csv(out / f"{name}.csv", index=False, lineterminator="\r\n")
    path = out / "index.html"
    path.write_text(page, encoding="utf-8")
    return path


def _check_output(out: Path) -> None:
    """Raise an error unless the folder is writable and the optional packages are installed."""
    # If a folder does not exist, the nearest existing parent must be writable.
    folder = next(filter(Path.exists, (out, *out.absolute().parents)))
    if not folder.is_dir():
        raise ValueError(f"`out` must be a folder, got the file {folder.name!r}.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(
            f"`out` must be a writable folder, and {folder.name!r} is not writable."
        )
    import_pyplot()
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise ImportError(
            "The report requires jinja2, which is not installed. Use `pip install "
            "jinja2` (extra 'plot')."
        ) from None


def _study_counts(study: Study) -> Section:
    """Return the section on estimated counts and their errors."""
    counts = count_study(
        study.frame[study.columns],
        study.protected,
        epsilons=study.epsilons,
        n_repeats=N_RELEASES,
        random_state=study.seed(0),
    )
    errors = counts.summary
    errors["l2_rms_local"] = errors["l2_rms_expected"]
    true = counts.releases["true"].xs(study.epsilons[0])
    by_trust = compute_errors_by_model(
        true.to_numpy(), epsilons=study.epsilons, delta=DELTA
    )
    errors["l2_rms_shuffled"] = by_trust["shuffled"].to_numpy()
    errors["l2_rms_curator"] = by_trust["central"].to_numpy()
    labels = {
        "l1_mean": "sum of absolute errors (L1), mean",
        "l1_mean_expected": "L1 error, expected",
        "l2_rms": "L2 error, root mean square",
        "l2_rms_expected": "L2 error, expected",
        "l2_rms_shuffled": "L2 error of shuffled reports",
        "l2_rms_curator": "L2 error of a trusted curator",
        "coverage": "coverage of 95 % intervals",
    }
    table = errors.set_index("epsilon")[list(labels)].rename(columns=labels).T
    margins = (counts.releases["upper"] - counts.releases["lower"]) / 2
    table.loc["largest 95 % margin of error"] = margins.groupby(level=0).max()
    margin = table[study.example].iloc[-1]
    empty = [format_label(cell) for cell in true.index[true == 0]]
    return Section(
        "Counts",
        f"At epsilon {study.example:g}, the estimated counts of {study.names} are "
        f"within {_format_cell(margin)} of the true counts, with 95 % confidence "
        f"each, of {len(study.frame):,} rows.",
        f"Errors of the counts over {N_RELEASES} releases."
        + (f" Cells without rows: {'; '.join(empty)}." if empty else ""),
        table,
        "L2 error of the counts",
        {
            "reports": "L2 error, expected",
            "shuffled reports": "L2 error of shuffled reports",
            "trusted curator": "L2 error of a trusted curator",
        },
        {"release_counts": index_to_columns(counts.releases), "count_errors": errors},
    )


def _study_models(study: Study) -> Section:
    """Return the section on accuracy and fairness of a classifier by epsilon."""
    curve, excluded = score_models(study, N_SPLITS)
    summary = summarize_splits(curve)
    scores = summary[["metric", "epsilon", "mean"]]
    scores = scores.assign(**{"columns excluded": scores["metric"].map(excluded)})
    costs = compare_to_baseline(curve)[
        ["metric", "epsilon", "difference", "lower", "upper"]
    ]
    scores = scores.merge(costs, on=["metric", "epsilon"], how="left")
    metrics = ["accuracy", "AUC"]
    if study.sensitive_features is not None:
        metrics.append(PARITY)
    table = pd.DataFrame(columns=study.epsilons, dtype=object)
    for metric in metrics:
        rows = scores[scores["metric"] == metric].set_index("epsilon")
        table.loc[metric] = rows["mean"]
        table.loc[f"{metric} without privacy"] = rows["mean"][math.inf]
        table.loc[f"{metric} without the columns"] = excluded[metric]
    # At most eight rows; the file has all scores.
    table = table.drop(index="AUC without the columns")
    accuracy, private, without = table[study.example].iloc[:3]
    chosen = (costs["metric"] == "accuracy") & (costs["epsilon"] == study.example)
    lower, upper = costs.loc[chosen, ["lower", "upper"]].to_numpy()[0]
    intervals = summary[summary["metric"] == "accuracy"].set_index("epsilon")
    return Section(
        "Accuracy of a model",
        f"At epsilon {study.example:g}, a model on reports has an accuracy of "
        f"{_format_cell(accuracy)}: {_compare(accuracy, private)} the model without "
        f"privacy (95 % interval of the difference {_format_cell(lower)} to "
        f"{_format_cell(upper)}), and {_compare(accuracy, without)} the model without "
        "the columns.",
        "Logistic regressions, with the protected columns reported in training and "
        f"in prediction; means over {N_SPLITS} splits, with 95 % intervals in the figure.",
        table,
        "accuracy",
        {
            "reports": "accuracy",
            "without privacy": "accuracy without privacy",
            "without the columns": "accuracy without the columns",
        },
        {"model_scores": scores},
        {"reports": intervals},
    )


def _study_fairness(study: Study) -> Section:
    """Return the section on fairness metrics by true and by reported groups."""
    audits = audit_fairness(study)
    rows = []
    for epsilon, reports in audits.items():
        for name, report in reports.items():
            rows.append(report.assign(epsilon=epsilon, groups=name))
    columns = ["epsilon", "metric", "group", "groups", "value", "lower", "upper"]
    audit = pd.concat(rows, ignore_index=True).reindex(columns=columns)
    # The page shows two differences; the file has all metrics and the rates of each group.
    wide: Any = audit[audit["group"].isna()].pivot(
        index=["metric", "groups"],
        columns="epsilon",
        values=["value", "lower", "upper"],
    )
    shown = pd.MultiIndex.from_product(
        [(PARITY, OPPORTUNITY), (TRUE_GROUPS, NAIVE, DEBIASED)]
    )
    table = wide["value"].reindex(shown)
    table.index = table.index.map(", ".join)
    for end in ("lower", "upper"):
        row = f"{PARITY}, 95 % interval, {end}"
        table.loc[row] = wide[end].loc[(PARITY, DEBIASED)]
    numbers = list(map(_format_cell, table[study.example]))
    n_missing = int(study.frame[study.sensitive_features].isna().sum())
    missing = ""
    if n_missing:
        missing = f" The {n_missing:,} rows without a group are unprivileged."
    return Section(
        "Gaps between groups",
        f"The {PARITY} of {study.sensitive_features} is {numbers[0]} by the true groups; "
        f"at epsilon {study.example:g}, it is {numbers[1]} if reports are taken for "
        f"groups, and {numbers[2]} by debiased reports (95 % interval {numbers[-2]} to "
        f"{numbers[-1]}).",
        "A logistic regression without the protected columns; the intervals are over "
        f"the noise of the reports.{missing}",
        table,
        PARITY,
        {name: f"{PARITY}, {name}" for name in (TRUE_GROUPS, NAIVE, DEBIASED)},
        {"fairness_audits": audit},
        {DEBIASED: wide.loc[(PARITY, DEBIASED)].unstack(0)},
    )


def _study_leakage(study: Study) -> Section:
    """Return the section on attacks that predict a protected column from a release."""
    rows = [
        {
            "epsilon": epsilon,
            "accuracy": result.accuracy,
            "std_error": result.std_error,
            "accuracy without the report": result.accuracy_without_report,
            "most frequent value": result.baseline,
            "bound of guesses from the report": result.bayes_bound,
        }
        for epsilon, result in attack_releases(study).items()
    ]
    leakage = pd.DataFrame(rows)
    table = (
        leakage.set_index("epsilon").rename(columns={"std_error": "standard error"}).T
    )
    name = choose_attacked_column(study)
    accuracy, _, without = map(_format_cell, table[study.example].iloc[:3])
    return Section(
        "What a release reveals",
        f"At epsilon {study.example:g}, the accuracy of guesses of {name} is "
        f"{accuracy}, and {without} without the report.",
        f"A classifier guesses {name} from the report and all columns that are not "
        "protected. The bound is for guesses from the report alone: other columns are "
        "not covered by epsilon, so the accuracy may exceed it.",
        table,
        f"accuracy of guesses of {name}",
        {
            "with the report": "accuracy",
            "without the report": "accuracy without the report",
            "most frequent value": "most frequent value",
        },
        {"leakage": leakage},
    )


def _study_synthesis(study: Study) -> Section:
    """Return the section on synthetic rows and their errors."""
    errors = synthesize(study, DELTA)
    table = errors.set_index("epsilon").T
    marginals = [str(name) for name in table.index if "marginals" in str(name)]
    return Section(
        "Synthetic rows",
        f"At epsilon {study.example:g}, the {marginals[-1]} of synthetic rows is "
        f"{_format_cell(table[study.example][marginals[-1]])} (mean total "
        "variation distance from the real rows).",
        f"A curator publishes synthetic rows of {', '.join(study.domain.columns)} "
        f"(add or remove one record, delta = {DELTA:g}). Models are tested on real rows.",
        table,
        "total variation distance",
        {name.removeprefix("error of "): name for name in marginals},
        {"synthesis": errors},
    )


def _compare(value: float, other: float) -> str:
    """State the difference of two numbers, as on the page."""
    difference = round(value, 3) - round(other, 3)
    side = "below" if difference < 0 else "above"
    return f"{_format_cell(abs(difference))} {side}"


def _draw_lines(section: Section) -> str:
    """Plot rows of the table of a section by epsilon; return the figure as SVG in base64."""
    pyplot = import_pyplot()
    figure, axes = pyplot.subplots(figsize=(4.4, 3.8), layout="constrained")
    table = section.table.sort_index(axis="columns")
    for line, (label, name) in enumerate(section.lines.items()):
        own = (index for index, labels in enumerate(STYLES) if label in labels)
        style = choose_series_style(next(own, line))
        if label in WITHOUT_PRIVACY:
            style = {"color": INK, "ls": "--"}
        axes.plot(table.loc[name].astype(float), label=label, **style)
        if label in section.intervals:
            limits = section.intervals[label].loc[table.columns, ["lower", "upper"]]
            color = style["color"]
            axes.vlines(
                limits.index, *limits.to_numpy().T, color=color, lw=2, alpha=0.5
            )
    axes.set(xscale="log", xlabel="epsilon (smaller is more private)")
    if "error" in section.axis:
        axes.set_yscale("log")
    axes.set_xticks(table.columns, [f"{epsilon:g}" for epsilon in table])
    axes.tick_params(axis="x", which="minor", bottom=False)
    figure.legend(loc="outside lower center", frameon=False)
    tidy_axes(axes, section.axis)
    buffer = io.BytesIO()
    # Text is rendered by a font of the browser, which may have more characters. Without
    # a date and random identifiers, equal reports have equal files. Negative numbers have
    # the sign of the tables.
    settings: dict[str, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "skdp",
        "axes.unicode_minus": False,
    }
    with pyplot.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        options = {"metadata": {"Date": None}, "transparent": True}
        figure.savefig(buffer, format="svg", **options)
    pyplot.close(figure)
    return base64.b64encode(buffer.getvalue()).decode()


def _format_cell(value: Any) -> str:
    """Format a number with three significant digits and at most three decimals."""
    if not math.isfinite(value):
        return "undefined" if value != value else str(value)
    value = round(value, 3) + 0.0  # the sum is 0 if the rounded value is -0.0
    # The number of decimals that gives three significant digits.
    n_decimals = 2 - math.floor(math.log10(abs(value) or 0.1))
    return f"{value:,.{min(max(n_decimals, 0), 3)}f}"


def _render_page(**content: Any) -> str:
    """Render the template of the page; jinja2 escapes all text."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    template = files("skdp.evaluation.report").joinpath("page.html.j2")
    text = template.read_text(encoding="utf-8")
    return str(environment.from_string(text).render(content))
