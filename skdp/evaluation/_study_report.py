"""Report of a table: run the experiments, make the sections of the page, write the page and its tables."""

from __future__ import annotations

import base64
import io
import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp._arrays import ColumnName, Privileged
from skdp.base import check_column_name, on_one_thread, track
from skdp.domain import Domain
from skdp.evaluation._attacks import attribute_inference
from skdp.evaluation._fairness_study import (
    StudyTable,
    check_in_domain,
    fairness_study,
    read_table,
)
from skdp.evaluation._privacy_curve import (
    check_epsilons,
    compare_to_baseline,
    derive_seed,
    summarize_splits,
)
from skdp.evaluation.displays import (
    CountEstimateDisplay,
    FairnessDisplay,
    PrivacyCurveDisplay,
    format_label,
    import_plotting,
)
from skdp.local import RandomizedResponseEncoder
from skdp.metrics import (
    debiased_fairness,
    fairness_report,
    parse_classes,
)
from skdp.randomness import check_type
from skdp.tables import index_to_columns

# Number of splits of the rows for classifiers.
N_SPLITS = 5

# Names of three fairness audits of the same predictions.
TRUE_GROUPS, NAIVE, DEBIASED = (
    "true groups",
    "reports taken for groups",
    "debiased reports",
)
PARITY, OPPORTUNITY = (
    "statistical_parity_difference",
    "equal_opportunity_difference",
)


ENDS = ["value", "lower", "upper"]


# Section of the page: the title, a sentence ("finding") with the numbers at the epsilon
# `Study.example`, the method ("text"), a table with a row for each quantity and a column
# for each epsilon, and the tables that are written to files by name. A section with a
# figure has its description ("caption") and the function that returns its Display.
Section = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Study:
    """Table and settings of a report."""

    frame: pd.DataFrame
    domain: Domain
    columns: list[Any]
    epsilons: list[float]
    random_state: int | None
    n_jobs: int | None
    target: ColumnName | None = None
    sensitive_features: ColumnName | None = None
    privileged: Privileged | None = None
    # Features, labels and groups of the models; None without a target.
    people: StudyTable | None = None

    @property
    def protected(self) -> Domain:
        """Domain of the protected columns."""
        return self.domain.select(self.columns)

    @property
    def names(self) -> str:
        """Joint name of the protected columns, such as "age × sex"."""
        return " × ".join(map(str, self.columns))

    @property
    def example(self) -> float:
        """Epsilon of the sentences and of figures of one release: the value nearest to 1."""
        return min(self.epsilons, key=lambda epsilon: abs(np.log(epsilon)))

    def report(self, rows: pd.DataFrame, epsilon: float, part: int) -> tuple[Any, Any]:
        """Privatize the protected columns; return the fitted encoder and the reports.

        Each `part` of the report has its own noise at each epsilon; otherwise errors would be correlated.
        """
        encoder = RandomizedResponseEncoder(
            epsilon,
            strategy="joint",
            categories=self.protected,
            random_state=derive_seed(self.random_state, epsilon, part),
        )
        return encoder, encoder.fit_transform(rows[self.columns])


def make_study(
    frame: pd.DataFrame,
    domain: Domain,
    *,
    columns: Sequence[Any] | None,
    epsilons: Sequence[float],
    target: ColumnName | None,
    sensitive_features: ColumnName | None,
    privileged: Privileged | None,
    **options: Any,
) -> Study:
    """Check the parameters of `study_report`, and return its table and settings."""
    # All parameters are checked before the experiments, which take minutes.
    listed = list(domain.columns if columns is None else columns)
    if (target is None) != (sensitive_features is None):
        raise ValueError(
            "`target` and `sensitive_features` must be given together, because the "
            "predictions of the target are compared between groups, got one of them."
        )
    check_column_name("target", target)
    check_column_name("sensitive_features", sensitive_features)
    if target in listed:
        raise ValueError(
            f"`target` must not be one of the protected columns {listed}, got "
            f"{target!r}."
        )
    if not {*listed} <= {*domain.columns}:
        raise ValueError(
            f"`columns` must be declared in domain, {list(domain.columns)}, got "
            f"{listed}."
        )
    required = pd.Index([*domain.columns, *([] if target is None else [target])])
    absent = list(required.difference(frame.columns, sort=False))
    if absent:
        raise ValueError(
            f"`frame` must have the columns {absent}, got {frame.columns.to_list()}."
        )
    check_in_domain(frame, domain, [name for name in domain if name != target])
    study = Study(frame, domain, listed, check_epsilons(epsilons), **options)
    if target is None:
        return study
    labels = parse_classes(frame[target], f"target (column {target!r})")
    # With at least 4 rows of each class, each split has one to train and one to test.
    n_rows = [int((labels == label).sum()) for label in (0, 1)]
    if min(n_rows) < 4 or sum(n_rows) < len(labels):
        raise ValueError(
            "`target` must be 0 or 1, each in at least 4 rows, got other values or "
            "fewer rows. Use a comparison such as y == 'yes'."
        )
    encoder = RandomizedResponseEncoder(categories=study.protected)
    # The study adds or keeps the target as a column of 0 and 1, also in synthetic rows.
    people = read_table(
        frame.drop(columns=target),
        labels,
        {"": encoder},
        domain,
        [sensitive_features],
        privileged,
        None,
    )
    frame = frame.copy()
    frame[target] = people.labels
    return replace(
        study,
        frame=frame,
        domain=Domain({**domain, target: [0, 1]}),
        target=target,
        sensitive_features=sensitive_features,
        privileged=privileged,
        people=people,
    )


def make_model() -> Any:
    """Return a logistic regression on numeric features, which may be missing."""
    # Three times faster than the default solver, with equal accuracy.
    model = LogisticRegression(solver="newton-cholesky")
    imputer = SimpleImputer(keep_empty_features=True)
    return make_pipeline(imputer, StandardScaler(), model)


def study_counts(study: Study) -> Section:
    """Return the section on estimated counts and their errors."""
    codes = study.protected.encode([study.frame[name] for name in study.columns])
    true = np.bincount(study.protected.join(codes), minlength=study.protected.size)
    truth = pd.Series(true, index=study.protected.cells(), name="true")
    releases, errors = {}, []
    for epsilon in study.epsilons:
        encoder, reports = study.report(study.frame, epsilon, 0)
        counts = encoder.estimate_counts(reports)
        releases[epsilon] = pd.concat([truth, counts], axis=1)
        margin = (counts["upper"] - counts["lower"]).max() / 2
        std_errors = np.sqrt(encoder.count_variances(truth))
        # The mean of |x| for a normal x with mean 0 and variance v is sqrt(2 v / pi).
        expected = std_errors.sum() * math.sqrt(2 / math.pi)
        errors.append(
            {
                "epsilon": epsilon,
                "largest 95 % margin of error": margin,
                "L2 error of this release": np.linalg.norm(counts["count"] - truth),
                "L2 error, expected": np.linalg.norm(std_errors),
                "sum of absolute errors (L1), expected": expected,
            }
        )
    table = pd.DataFrame(errors).set_index("epsilon").T
    shown_margin = format_cell(table[study.example].iloc[0])
    text = "Errors of the counts of all cells, root mean square (L2) or mean (L1)."
    empty = [format_label(cell) for cell in truth.index[true == 0]]
    if empty:
        text += f" Cells without rows: {'; '.join(empty)}."
    return {
        "title": "Counts",
        "finding": f"At epsilon {study.example:g}, the estimated counts of {study.names} are "
        f"within {shown_margin} of the true counts, with 95 % confidence each, of "
        f"{len(study.frame):,} rows.",
        "text": text,
        "table": table,
        "files": {
            "release_counts": index_to_columns(pd.concat(releases, names=["epsilon"])),
            "count_errors": pd.DataFrame(errors),
        },
        "caption": f"counts at epsilon {study.example:g}",
        "draw": partial(
            CountEstimateDisplay.from_estimates,
            releases[study.example].drop(columns="true"),
            true_counts=truth,
        ),
    }


def study_models(study: Study) -> Section:
    """Return the section on accuracy and fairness of a classifier by epsilon."""
    scores = fairness_study(
        make_model(),
        study.frame.drop(columns=study.target),
        study.frame[study.target],
        encoder=RandomizedResponseEncoder(strategy="joint", categories=study.protected),
        epsilons=study.epsilons,
        domain=study.domain,
        sensitive_features=study.sensitive_features,
        privileged=study.privileged,
        n_splits=N_SPLITS,
        n_jobs=study.n_jobs,
        random_state=study.random_state,
    )
    summary = summarize_splits(scores)
    means = summary.set_index(["metric", "method", "epsilon"])["mean"].sort_index()
    table = pd.DataFrame(columns=study.epsilons, dtype=object)
    for metric in ("accuracy", "roc_auc", PARITY):
        title = {"roc_auc": "AUC"}.get(metric, metric.replace("_", " "))
        table.loc[title] = means[metric, "reported"]
        for method in ("without privacy", "columns excluded"):
            # At most eight rows; the file has all scores.
            if method == "without privacy" or metric != "roc_auc":
                table.loc[f"{title}, {method}"] = means[metric, method, math.inf]
    accuracy, private, without = table[study.example].iloc[:3]
    change_of_model = f"{accuracy - private:+.3f}"
    change_without_columns = f"{accuracy - without:+.3f}"
    costs = compare_to_baseline(scores, baseline="without privacy")
    chosen = (costs["metric"] == "accuracy") & (costs["epsilon"] == study.example)
    lower, upper = map(format_cell, costs.loc[chosen, ["lower", "upper"]].iloc[0])
    return {
        "title": "Accuracy of a model",
        "finding": f"At epsilon {study.example:g}, a model on reports has an accuracy of "
        f"{format_cell(accuracy)}, which differs by {change_of_model} from the model without "
        f"privacy (95 % interval {lower} to {upper}) and by {change_without_columns} from the model "
        "without the columns.",
        "text": "Logistic regressions, with the protected columns reported in training; means "
        f"over {N_SPLITS} splits, with 95 % intervals in the figure.",
        "table": table,
        "files": {"model_scores": summary},
        "caption": "accuracy by epsilon",
        "draw": partial(
            PrivacyCurveDisplay.from_curve, scores[scores["metric"] == "accuracy"]
        ),
    }


def study_fairness(study: Study) -> Section:
    """Return the section on fairness metrics of one classifier by true and by reported groups."""
    # Debiased estimates require predictions that are independent of the noise of the
    # reports, so the classifier does not use the protected columns.
    people: Any = study.people
    features = people.features(protected=False).assign(constant=0.0)
    n_folds = max(2, min(5, np.bincount(people.labels).min()))
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
    predicted = cross_val_predict(
        make_model(), features, people.labels, cv=folds, n_jobs=study.n_jobs
    )
    sensitive = study.sensitive_features
    scored = people.labels, predicted
    options: dict[str, Any] = {"privileged": study.privileged, "positive_label": 1}
    true = fairness_report(*scored, study.frame[sensitive], **options)
    audits, shown = [], {}
    for epsilon in study.epsilons:
        encoder, reports = study.report(study.frame, epsilon, 1)
        compared = {
            TRUE_GROUPS: true,
            NAIVE: fairness_report(*scored, reports[sensitive], **options),
            DEBIASED: debiased_fairness(
                *scored, reports, encoder, columns=[sensitive], rows="table", **options
            ),
        }
        for groups, report in compared.items():
            audits.append(report.assign(epsilon=epsilon, groups=groups))
        if epsilon == study.example:
            shown = compared
    # The page shows two differences; the file has all metrics and the rates of each group.
    columns = ["epsilon", "metric", "group", "groups", *ENDS]
    values = pd.concat(audits, ignore_index=True).reindex(columns=columns)
    rows = _format_audits(values)
    sources = [TRUE_GROUPS, NAIVE, DEBIASED]
    order = pd.MultiIndex.from_product([rows["name"].unique(), sources])
    cells = rows.pivot(index=["name", "groups"], columns="epsilon", values="cell")
    # A declared group may have no true rows.
    table = cells.reindex(order).set_axis(order.map(", ".join))
    true_gap, naive_gap, debiased_gap = table[study.example].iloc[:3]
    # All groups together may hide a larger difference of one of them.
    parts = rows[(rows["groups"] == TRUE_GROUPS) & rows["group"].notna()]
    drawn = true["metric"].str.endswith("_difference")
    if len(parts):
        part = parts.loc[parts["value"].abs().idxmax()]
        true_gap += f" (of {format_label(part['group'])} {part['cell']})"
        drawn = (
            true["metric"] == PARITY
        )  # All differences would not fit into the figure.
    shown = {
        name: report[report["metric"].isin(true.loc[drawn, "metric"])]
        for name, report in shown.items()
    }
    text = (
        "A logistic regression without the protected columns; the intervals are over "
        "the noise of the reports."
    )
    n_missing = int(study.frame[sensitive].isna().sum())
    if n_missing:
        text += f" The {n_missing:,} rows without a group are unprivileged."
    return {
        "title": "Gaps between groups",
        "finding": f"The {PARITY.replace('_', ' ')} of {sensitive} is {true_gap} by the true "
        f"groups; at epsilon {study.example:g}, it is {naive_gap} if reports are "
        f"taken for groups, and {debiased_gap} by debiased reports, with a 95 % "
        "interval.",
        "text": text,
        "table": table,
        "files": {"fairness_audits": values},
        "caption": f"differences between groups at epsilon {study.example:g}",
        "draw": partial(FairnessDisplay.from_reports, shown),
    }


def _format_audits(values: pd.DataFrame) -> Any:
    """Format the parity and opportunity differences of audits as a "name" and a "cell"; parity also of each group."""
    is_pooled = values["group"].isna()
    is_parity = values["metric"] == PARITY
    rows = values[is_parity | ((values["metric"] == OPPORTUNITY) & is_pooled)].copy()
    value, lower, upper = (rows[end].map(format_cell) for end in ENDS)
    intervals = value + " (" + lower + " to " + upper + ")"
    rows["cell"] = value.where(rows["groups"] != DEBIASED, intervals)
    endings = rows["group"].map(lambda group: f", {format_label(group)}")
    endings = endings.where(rows["group"].notna(), "")
    return rows.assign(name=rows["metric"].str.replace("_", " ") + endings)


def study_leakage(study: Study) -> Section:
    """Return the section on attacks that predict a protected column from a release."""
    name = _choose_attacked_column(study)
    # Boosting fits a tree for each value, so its time is proportional to the product.
    n_rows = max(1_000, min(4_000, 80_000 // study.domain.select([name]).size))
    rows = study.frame.sample(min(len(study.frame), n_rows), random_state=0)
    measure = delayed(partial(_measure_leakage, study, rows, name))
    jobs = Parallel(n_jobs=study.n_jobs)
    leakage = pd.DataFrame(jobs(map(measure, study.epsilons)))
    leakage.insert(0, "epsilon", study.epsilons)
    table = leakage.set_index("epsilon").T
    accuracy, _, without = map(format_cell, table[study.example].iloc[:3])
    return {
        "title": "What a release reveals",
        "finding": f"At epsilon {study.example:g}, the accuracy of guesses of {name} is "
        f"{accuracy}, and {without} without the report.",
        "text": f"A classifier guesses {name} from the report and all columns that are not "
        "protected. The bound is for guesses from the report alone: other columns are "
        "not covered by epsilon, so the accuracy may exceed it.",
        "table": table,
        "files": {"leakage": leakage},
    }


def _choose_attacked_column(study: Study) -> Any:
    """Return the sensitive column, otherwise the first protected column."""
    is_given = study.sensitive_features is not None
    return study.sensitive_features if is_given else study.columns[0]


def _measure_leakage(
    study: Study, rows: pd.DataFrame, name: ColumnName, epsilon: float
) -> dict[str, float]:
    """Predict a protected column of `rows` from a release with one epsilon, which has true values of other columns."""
    encoder, reports = study.report(rows, epsilon, 2)
    released = rows.copy()
    released[study.columns] = reports
    # All epsilons have the same folds, so that only the reports differ.
    result = attribute_inference(
        released, rows[[name]], encoder=encoder, random_state=0
    )
    return {
        "accuracy": result.accuracy,
        "standard error": result.std_error,
        "accuracy without the report": result.accuracy_without_report,
        "most frequent value": result.baseline,
        "bound of guesses from the report": result.bayes_bound,
    }


def format_cell(value: float | str) -> str:
    """Format a number with three significant digits and at most three decimals; return text unchanged."""
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        return "undefined" if value != value else str(value)
    value = round(value, 3) + 0.0  # the sum is 0 if the rounded value is -0.0
    # The number of decimals that gives three significant digits.
    n_decimals = 2 - math.floor(math.log10(abs(value) or 0.1))
    return f"{value:,.{min(max(n_decimals, 0), 3)}f}"


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
        Declared values of the columns to protect, and of other columns of categories.
    out : str or path-like
        Folder to write to. It is created if it does not exist.
    epsilons : sequence of float, default=(0.1, 0.3, 0.5, 1.0, 2.0, 5.0)
        Distinct values of epsilon, > 0.
    columns : list of column names, default=None
        Protected columns, which are reported together. If None, all columns of the
        domain.
    target : column name, default=None
        Column that classifiers predict from all other columns, which must be numbers or
        declared: 0 or 1, where 1 is favorable. If None, no classifier is trained.
    sensitive_features : column name, default=None
        Protected column of categories whose groups are compared; required with `target`.
    privileged : value or list of values, default=None
        Privileged values of `sensitive_features`.
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
    OSError
        If the folder cannot be created.
    TypeError, ValueError
        If a column is missing, a value is not declared, or parameters are inconsistent.
        All errors are raised before the experiments.

    Notes
    -----
    **Privacy.** The report contains statistics of the true rows and is not private.

    Rows have no weights: the errors are about the rows of this table.

    Expected errors of counts are computed from the true counts, and scores of classifiers
    are from 5 splits of `fairness_study`. For synthetic rows, see
    `skdp.metrics.marginal_errors` and `skdp.metrics.train_on_synthetic`.

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
    check_type("out", out, str | os.PathLike, "a path")
    out = Path(out)
    study = make_study(
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
    import_plotting("matplotlib.pyplot")
    import_plotting("jinja2")
    # The folder is created before the experiments, which take minutes.
    out.mkdir(parents=True, exist_ok=True)
    parts = [study_counts]
    if study.people is not None:
        parts += [study_models, study_fairness]
    # A column with a single value cannot be attacked.
    if study.frame[_choose_attacked_column(study)].nunique(dropna=False) > 1:
        parts.append(study_leakage)
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        # Undefined metrics are visible as nan on the page, and noise as intervals.
        sections = [part(study) for part in track(parts, "Running the study", "parts")]
    tables: dict[str, pd.DataFrame] = {}
    figures = []
    for section in sections:
        tables |= section["files"]
        if "draw" in section:
            figures.append((section["caption"], _draw_figure(section)))
    others = [name for name in frame if name not in (*study.columns, target)]
    page = _render_page(
        title=f"The cost of privacy: {study.names}",
        n_rows=f"{len(study.frame):,}",
        names=study.names,
        n_cells=study.protected.size,
        others=", ".join(map(str, others)) or "none",
        sections=sections,
        figures=figures,
        n_findings=3,  # at the top of the page
        format_cell=format_cell,
        files=[f"{name}.csv" for name in tables],
    )
    for name, table in tables.items():
        # Python quotes the characters of the line ends, and a label may contain them.
        table.to_csv(out / f"{name}.csv", index=False, lineterminator="\r\n")
    path = out / "index.html"
    path.write_text(page, encoding="utf-8")
    return path


def _draw_figure(section: Section) -> str:
    """Draw the Display of a section; return the figure as SVG in base64."""
    # Text is rendered by a font of the browser, which may have more characters. Without
    # a date and random identifiers, equal reports have equal files. Negative numbers have
    # the sign of the tables.
    settings: dict[str, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "skdp",
        "axes.unicode_minus": False,
    }
    pyplot, buffer = import_plotting("matplotlib.pyplot"), io.BytesIO()
    with pyplot.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = section["draw"]().figure_
        # All figures have one size, because they stand side by side.
        figure.set_size_inches(4.6, 4.2)
        options = {"metadata": {"Date": None}, "transparent": True}
        figure.savefig(buffer, format="svg", **options)
    pyplot.close(figure)
    return base64.b64encode(buffer.getvalue()).decode()


def _render_page(**content: object) -> str:
    """Render the template of the page; jinja2 escapes all text."""
    jinja2 = import_plotting("jinja2")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    template = files("skdp.evaluation").joinpath("study_report.html.j2")
    text = template.read_text(encoding="utf-8")
    return str(environment.from_string(text).render(content))
