"""Report of any table, and of Adult: run the experiments, write the page and the tables."""

from __future__ import annotations

import base64
import io
import math
import os
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd

from skdp.base import ColumnName, Privileged, track
from skdp.domain import Domain, Interval
from skdp.evaluation._privacy_curve import compare_to_baseline
from skdp.evaluation._style import (
    COLORS,
    choose_series_style,
    format_value,
    import_pyplot,
    tidy_axes,
)
from skdp.evaluation._threads import on_one_thread
from skdp.evaluation.displays import (
    CountEstimateDisplay,
    FairnessDisplay,
    MarginalDisplay,
    PrivacyCurveDisplay,
)
from skdp.evaluation.report._experiments import (
    DEBIASED,
    FAIRNESS,
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
N_RELEASES, N_SPLITS = 500, 5
DELTA = 1e-9

# Largest number of rows of a table on the page. The CSV files have all rows.
MAX_TABLE_ROWS = 24

# Titles of sections.
COUNTS, MODELS = "Counts, errors and accuracy", "Accuracy and fairness by epsilon"


@dataclass
class Section:
    """Section of the page."""

    title: str
    text: str = ""
    # Figures are SVG in base64 by caption, and tables are HTML.
    figures: dict[str, str] = field(default_factory=dict)
    tables: list[str] = field(default_factory=list)


@on_one_thread
def study_report(
    frame: pd.DataFrame,
    domain: Domain,
    out: str | os.PathLike[str],
    *,
    epsilons: Sequence[float] = (0.1, 0.3, 0.5, 1.0, 2.0, 5.0),
    columns: Sequence[Any] | None = None,
    target: ColumnName | None = None,
    sensitive: ColumnName | None = None,
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
    sensitive : column name, default=None
        Protected column whose groups are compared. If None, no fairness is computed.
    privileged : value or list of values, default=None
        Privileged values of `sensitive`; for an `Interval`, labels of bins.
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
    study = Study.read(
        frame,
        domain,
        columns=columns,
        target=target,
        sensitive=sensitive,
        privileged=privileged,
        epsilons=epsilons,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    _check_output(out)
    parts = [_study_counts]
    if study.target is not None:
        parts.append(_study_models)
    if study.sensitive is not None:
        parts.append(_study_fairness)
    if choose_attacked_column(study) is not None:
        parts.append(_study_leakage)
    parts.append(_study_synthesis)
    sections: list[Section] = []
    tables: dict[str, pd.DataFrame] = {}
    for part in track(parts, "Running the study", "parts"):
        section, part_tables = part(study)
        sections.append(section)
        tables |= part_tables
    if study.target is not None:
        # The first section has the errors of counts and the accuracy.
        accuracy = sections[1].figures.pop("accuracy by epsilon")
        sections[0].figures["accuracy by epsilon"] = accuracy
    page = _render_page(
        title=f"The cost of privacy: {study.names}",
        n_rows=f"{len(study.frame):,}",
        names=study.names,
        n_cells=study.protected.size,
        others=", ".join(map(str, study.others)) or "none",
        sections=sections,
        files=[f"{name}.csv" for name in tables],
    )
    # Files are written after all computations, so that an error leaves no files.
    out.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_csv(out / f"{name}.csv", index=False)
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


# A section, and the tables that are written to files by name.
Part = tuple[Section, dict[str, pd.DataFrame]]


def _study_counts(study: Study) -> Part:
    """Return the section on estimated counts and their errors."""
    counts = count_study(
        study.frame[study.columns],
        study.protected,
        epsilons=study.epsilons,
        n_repeats=N_RELEASES,
        random_state=study.seed(0),
    )
    errors = counts.summary()
    errors["l2_rms_local"] = errors["l2_rms_expected"]
    true = counts.releases["true"].xs(study.epsilons[0]).to_numpy()
    by_trust = compute_errors_by_model(true, epsilons=study.epsilons, delta=DELTA)
    errors["l2_rms_shuffled"] = by_trust["shuffled"].to_numpy()
    errors["l2_rms_curator"] = by_trust["central"].to_numpy()
    example = pd.DataFrame(counts.releases.loc[study.example])
    display = CountEstimateDisplay.from_estimates(
        example.drop(columns="true"), true_counts=example["true"]
    )
    title = f"One release at epsilon {study.example:g}"
    display.figure_.suptitle(title, fontsize="medium")
    section = Section(COUNTS, figures={"counts": _encode_figure(display.figure_)})
    section.figures["errors by epsilon"] = _encode_figure(_draw_errors(errors))
    releases = index_to_columns(counts.releases)
    columns = ["l1_mean", "l1_mean_expected", "l2_rms", "l2_rms_expected", "coverage"]
    section.tables = [
        _format_table(
            errors[["epsilon", *columns, "l2_rms_shuffled", "l2_rms_curator"]],
            f"Errors of the counts over {N_RELEASES} releases, and coverage of the 95 "
            "% intervals",
        ),
        _format_table(index_to_columns(example), title, n_labels=example.index.nlevels),
    ]
    return section, {"release_counts": releases, "count_errors": errors}


def _study_models(study: Study) -> Part:
    """Return the section on accuracy and fairness of a classifier by epsilon."""
    curve, excluded = score_models(study, N_SPLITS)
    means = curve.groupby(["metric", "epsilon"], sort=False)["value"].mean()
    scores = means.rename("mean").reset_index()
    scores["columns excluded"] = scores["metric"].map(excluded)
    costs = compare_to_baseline(curve)[
        ["metric", "epsilon", "difference", "lower", "upper"]
    ]
    scores = scores.merge(costs, on=["metric", "epsilon"], how="left")
    section = Section(
        MODELS,
        "A logistic regression, with the protected columns reported in training and "
        "in prediction. Differences are from the model without privacy, with 95 % "
        "intervals.",
    )
    metrics = ["accuracy", *(FAIRNESS[:1] if study.sensitive is not None else [])]
    for metric in metrics:
        display = PrivacyCurveDisplay.from_curve(curve[curve["metric"] == metric])
        # The lines of both baselines may coincide, so they differ in color and width.
        style = {"color": COLORS[1], "ls": ":", "lw": 2.5}
        line = display.ax_[0].axhline(excluded[metric], **style)
        _extend_legend(display.figure_, line, "columns excluded")
        section.figures[f"{metric} by epsilon"] = _encode_figure(display.figure_)
    # The page has the main metrics one after another, and the file has all of them.
    shown = [metrics[0], "AUC", *metrics[1:]]
    main_scores = scores.set_index("metric").loc[shown].reset_index()
    section.tables.append(_format_table(main_scores, "Scores by epsilon"))
    return section, {"model_scores": scores}


def _study_fairness(study: Study) -> Part:
    """Return the section on fairness metrics by true and by reported groups."""
    audits = audit_fairness(study)
    rows = []
    for epsilon, reports in audits.items():
        for name, report in reports.items():
            rows.append(report.assign(epsilon=epsilon, groups=name))
    columns = ["epsilon", "metric", "group", "groups", "value", "lower", "upper"]
    table = pd.concat(rows, ignore_index=True).reindex(columns=columns)
    display = FairnessDisplay.from_reports(audits[study.example])
    section = Section(
        "Fairness seen through reports",
        f"A logistic regression without the protected columns, audited at epsilon "
        f"{study.example:g}: by the true groups, by reports taken for groups, and by "
        "debiased reports, with 95 % intervals over their noise.",
        {"fairness": _encode_figure(display.figure_)},
    )
    # The page shows comparisons of groups; the file also has the rates of each group.
    compared = table[table["group"].isna()]
    index = ["metric", "epsilon"]
    wide = compared.pivot(index=index, columns="groups", values="value")
    intervals = compared[compared["groups"] == DEBIASED].set_index(index)
    wide = wide.join(intervals[["lower", "upper"]]).reset_index()
    section.tables.append(_format_table(wide, "Differences and ratios by epsilon"))
    return section, {"fairness_audits": table}


def _study_leakage(study: Study) -> Part:
    """Return the section on attacks that predict a protected column from a release."""
    results = attack_releases(study)
    rows = []
    for epsilon, result in results.items():
        rows.append(
            {
                "epsilon": epsilon,
                "accuracy": result.accuracy,
                "std_error": result.std_error,
                "accuracy without the report": result.accuracy_without_report,
                "most frequent value": result.baseline,
                "bound of guesses from the report": result.bayes_bound,
            }
        )
    table = pd.DataFrame(rows)
    recall = results[study.example].recall.reset_index()
    name = choose_attacked_column(study)
    section = Section(
        "Leakage",
        f"A classifier guesses {name} from the report and all columns that are not "
        "protected.",
        tables=[
            _format_table(table, f"Guesses of {name}"),
            _format_table(
                recall, f"Recall of each value at epsilon {study.example:g}", n_labels=1
            ),
        ],
    )
    return section, {"leakage": table}


def _study_synthesis(study: Study) -> Part:
    """Return the section on synthetic rows and their errors."""
    table, real, example = synthesize(study, DELTA)
    section = Section(
        "Synthetic rows",
        f"A curator publishes synthetic rows of {', '.join(study.domain.columns)} "
        f"(add or remove one record, delta = {DELTA:g}).",
        tables=[_format_table(table, "Errors by epsilon, tested on real rows")],
    )
    names = study.columns[:3]
    display = MarginalDisplay.from_tables(real, example, names, domain=study.domain)
    section.figures["marginals"] = _encode_figure(display.figure_)
    return section, {"synthesis": table}


def _draw_errors(errors: pd.DataFrame) -> Any:
    """Plot the errors of counts in three privacy models by epsilon, on logarithmic axes.

    `errors` has a row for each epsilon, and the errors in ``l2_rms_local`` and two more columns.
    """
    figure, axes = import_pyplot().subplots(figsize=(4.6, 3.6), layout="constrained")
    for position, name in enumerate(["local", "shuffled", "curator"]):
        values = errors[f"l2_rms_{name}"]
        axes.plot(
            errors["epsilon"], values, label=name, **choose_series_style(position)
        )
    axes.set(xscale="log", yscale="log", xlabel="epsilon (smaller is more private)")
    axes.set_xticks(
        errors["epsilon"], [f"{epsilon:g}" for epsilon in errors["epsilon"]]
    )
    axes.minorticks_off()
    axes.legend(frameon=False)
    tidy_axes(axes, "L2 error of the counts (rms)")
    return figure


def _extend_legend(figure: Any, handle: Any, label: str) -> None:
    """Add an entry to the legend below a figure."""
    legend = figure.legends[0]
    handles = [*legend.legend_handles, handle]
    labels = [*(text.get_text() for text in legend.texts), label]
    legend.remove()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)


def _encode_figure(figure: Any) -> str:
    """Return a figure as SVG in base64, and close it."""
    pyplot = import_pyplot()
    buffer = io.BytesIO()
    # Text is rendered by a font of the browser, which may have more characters. Without
    # a date and random identifiers, equal reports have equal files. Negative numbers have
    # the sign of the tables.
    style: dict[str, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "skdp",
        "axes.unicode_minus": False,
    }
    with pyplot.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return base64.b64encode(buffer.getvalue()).decode()


def _format_table(table: pd.DataFrame, caption: str, *, n_labels: int = 0) -> str:
    """Return the first rows of a table as HTML, with names and values escaped.

    The first `n_labels` columns are declared values.
    """
    rows = table.head(MAX_TABLE_ROWS).rename(columns=str)
    for position in range(n_labels):
        rows.isetitem(position, [format_value(x) for x in rows.iloc[:, position]])
    if len(table) > MAX_TABLE_ROWS:
        caption += f" (the first {MAX_TABLE_ROWS} of {len(table)} rows)"
    styler = rows.style.format(na_rep="", escape="html", thousands=",")
    styler = styler.format_index(axis="columns", escape="html")
    styler = styler.format(_format_number, subset=list(rows.select_dtypes("float")))
    if "epsilon" in rows:
        styler = styler.format(_format_epsilon, subset=["epsilon"])
    # Numbers are aligned at the right, and text at the left.
    left: Any = [{"selector": "", "props": "text-align: left"}]
    styler = styler.set_table_styles(
        dict.fromkeys(rows.select_dtypes(exclude="number"), left)
    )
    styler = styler.hide(axis="index").set_caption(escape(caption))
    # The identifier follows from the caption, so that equal reports have equal files.
    return str(styler.to_html(table_uuid=f"{zlib.crc32(caption.encode()):x}"))


def _format_epsilon(epsilon: Any) -> str:
    """Format an epsilon; inf is the model without privacy."""
    return "no privacy" if epsilon == math.inf else f"{epsilon:g}"


def _format_number(value: Any) -> str:
    """Format a number with three significant digits and at most three decimals."""
    if not math.isfinite(value):  # the ratio of two rates may be inf
        return "" if math.isnan(value) else str(value)
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


# Declared values of the numeric columns of Adult.
ADULT_NUMBERS: dict[str, Any] = {
    "education-num": list(range(1, 17)),
    "capital-gain": Interval(edges=[0, 1, 5000, 10_000, 100_000]),
    "capital-loss": Interval(edges=[0, 1, 1500, 2000, 5000]),
    "hours-per-week": Interval(edges=[0, 20, 35, 40, 41, 50, 60, 100]),
}


def age_sex_report(
    X: pd.DataFrame, y: pd.Series, out: str | os.PathLike[str], **options: Any
) -> Path:
    """Write the report of age × sex on Adult; `options` are parameters of `study_report`."""
    # fnlwgt is a survey weight, and education is the text of education-num.
    frame = X.drop(columns=["fnlwgt", "education"])
    groups = pd.Index(["37 or younger", "over 37"])
    is_older = (frame["age"] > 37).to_numpy().astype(int)
    frame["age"] = pd.Categorical.from_codes(is_older, groups)
    # Age is protected in two groups, and other numbers have public bins.
    declared = dict(ADULT_NUMBERS)
    for name in frame.columns.difference(list(declared), sort=False):
        declared[name] = list(frame[name].cat.categories)
    domain = Domain(declared).select(frame.columns)
    return study_report(
        frame.assign(income=y.to_numpy() == ">50K"),
        domain,
        out,
        columns=["age", "sex"],
        target="income",
        sensitive="sex",
        privileged="Male",
        **options,
    )
