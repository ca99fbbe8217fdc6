"""The report of any table: run the studies, write the page and the tables."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from skdp.domain import Domain, Interval
from skdp.evaluation.displays import import_pyplot
from skdp.evaluation.report import _html as html
from skdp.evaluation.report._counts import count_study
from skdp.evaluation.report._models import fairness_audits, model_scores
from skdp.evaluation.report._releases import attack_releases, attacked_column, synthesize
from skdp.evaluation.report._sections import counts_section, scope_section
from skdp.evaluation.report._sections_models import accuracy_section, audit_table, fairness_section
from skdp.evaluation.report._sections_releases import leakage_section, leakage_table, synthesis_section
from skdp.evaluation.report._study import Study
from skdp.oracles import check_size
from skdp.privacy import check_delta, check_epsilon

_CLASSIFIERS = {
    "logistic regression": LogisticRegression(max_iter=1000),
    "gradient boosting": HistGradientBoostingClassifier(random_state=0),
}
_COMPARES_WITH_TRUTH = (
    "This page compares estimates with true values in order to show the cost of privacy. The page and its tables are "
    "therefore not private: do not publish them for data that nobody but you may see."
)
_FILES = ("index.html", *(f"{name}.csv" for name in ("release_counts", "count_errors", "leakage", "synthesis")))
Tables = dict[str, pd.DataFrame]


def study_report(
    frame: pd.DataFrame,
    domain: Domain,
    out: Path,
    *,
    source: str,
    columns: Sequence[Any] | None = None,
    target: Any = None,
    positive_label: Any = None,
    sensitive: Any = None,
    privileged: Any = None,
    epsilons: Sequence[float],
    repeats: int = 500,
    model_repeats: int = 5,
    delta: float = 1e-9,
    classifiers: Mapping[str, BaseEstimator] | None = None,
    random_state: int | None = None,
    n_jobs: int | None = None,
    notes: Sequence[str] = (),
    remarks: Sequence[str] = (),
    progress: Callable[[int], Any] | None = None,
) -> Path:
    """Study what privacy costs on a table, and write the report: counts, accuracy, fairness, leakage, synthesis.

    Parameters
    ----------
    frame : pandas.DataFrame
        The true rows.
    domain : Domain
        The declared columns: those to protect, and whatever else is to be synthesised.
    out : Path
        The folder to write to; made if it is not there.
    source : str
        What to call the data.
    columns : list of column names, optional
        The columns whose values are randomised together. By default all of the domain.
    target : column name, optional
        What classifiers predict, from all other columns. Without it, there is nothing on accuracy and fairness.
    positive_label : label, optional
        The favourable label of the target; any other is not.
    sensitive : column name, optional
        The protected column whose groups are compared. Without it, there is nothing on fairness.
    privileged : value or list of values, optional
        Its privileged values; of bins, their labels.
    epsilons : sequence of float
        The privacy losses to try.
    repeats : int, default=500
        Releases of the counts for each epsilon.
    model_repeats : int, default=5
        Splits into training and test rows for the classifiers.
    delta : float, default=1e-9
        The failure probability of the synthetic rows.
    classifiers : mapping of name to classifier, optional
        What to train. By default logistic regression and gradient boosting.
    random_state : int, optional
        None for secure coins; an int makes the report reproducible.
    n_jobs : int, optional
        Number of processes.
    notes : sequence of str, default=()
        Further notes at the top of the page.
    remarks : sequence of str, default=()
        Further remarks on what is protected.
    progress : callable, optional
        Called with the number of steps, returns something to call after each step.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    ImportError
        If matplotlib is missing, or aif360 for fairness.
    ValueError
        If a column is missing, a value is not declared, the folder cannot be written to, or options do not fit
        together. Nothing is computed or written then.

    Notes
    -----
    **Privacy.** The report compares with the truth: it is not protected.

    Besides the page, ``index.html``, the folder has its numbers as CSV files. Figures of a single release show the
    epsilon that is nearest to 1.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> people = pd.DataFrame({"sex": ["Female", "Male", "Male"] * 100, "shoes": [38, 42, 43, 39, 41, 42] * 50})
    >>> with TemporaryDirectory() as folder:
    ...     page = study_report(people, Domain({"sex": ["Female", "Male"]}), Path(folder), source="a small table",
    ...                         epsilons=[1.0], repeats=3, random_state=0)
    ...     sorted(path.name for path in page.parent.iterdir())
    ['carriers.csv', 'count_errors.csv', 'index.html', 'leakage.csv', 'release_counts.csv', 'synthesis.csv']
    """
    study = Study.read(
        frame,
        domain,
        columns=columns,
        target=target,
        positive_label=positive_label,
        sensitive=sensitive,
        privileged=privileged,
        epsilons=epsilons,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    _check_before(study, out, repeats, model_repeats, delta)
    models = _CLASSIFIERS if classifiers is None else classifiers
    advance = progress(_steps(study, models)) if progress else lambda: None
    counts = count_study(
        study.frame[study.columns],
        study.protected,
        epsilons=epsilons,
        repeats=repeats,
        random_state=study.seed(0),
        advance=_every(repeats, advance),
    )
    tables: Tables = {"release_counts": counts.releases.reset_index(), "count_errors": counts.summary()}
    size = study.protected.size
    intro = (
        f"{len(frame):,} records, {size} cells ({study.names}). The protected columns of a record are randomised "
        f"together before they leave their owner: with probability e^ε / (e^ε + {size - 1}) the cell is reported as it "
        "is, otherwise as one of the others (randomised response). The server sees reports only, estimates the counts "
        "from them, and trains and uses its models on them."
    )
    parts = [
        html.paragraph(_COMPARES_WITH_TRUTH, "note warn"),
        *(html.paragraph(note, "note") for note in notes),
        html.paragraph(intro),
        *counts_section(counts, study.example),
        *_model_parts(study, models, model_repeats, positive_label, tables, advance),
        *_leakage_parts(study, tables, advance),
        *_synthesis_parts(study, delta, tables, advance),
        *scope_section(study, repeats, delta, remarks),
    ]
    lead = f"Differential privacy on {source}, by epsilon: counts, accuracy, fairness, leakage, synthetic rows."
    return _write(out, f"What privacy costs: {study.names}", lead, parts, tables, random_state)


def _check_before(study: Study, out: Path, repeats: Any, model_repeats: Any, delta: Any) -> None:
    """Check all that would fail only after minutes of work."""
    import_pyplot()
    for name, number in (("repeats", repeats), ("model_repeats", model_repeats)):
        check_size(number, least=1, name=name)
    for epsilon in study.epsilons:
        check_epsilon(epsilon, name="each of epsilons")
    check_delta(delta)
    folder = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not folder.is_dir():
        raise ValueError(f"out must be a folder, but {folder.name!r} is a file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"out must be a folder that can be written to; {folder.name!r} cannot")
    taken = [name for name in _FILES if (out / name).is_dir()]
    if taken:
        raise ValueError(f"out has folders with names of files to write: {taken}")


def _model_parts(
    study: Study,
    models: Mapping[str, BaseEstimator],
    repeats: int,
    positive_label: Any,
    tables: Tables,
    advance: Callable[[], Any],
) -> list[str]:
    if study.target is None:
        return [
            html.heading("Accuracy and fairness"),
            html.paragraph("Left out: --target and --positive name what a classifier is to predict.", "note"),
        ]
    scores = model_scores(study, models, repeats, advance)
    grouped = scores.groupby(["classifier", "setting", "metric"], sort=False)["value"]
    tables["model_scores"] = grouped.agg(["mean", "std", "count"]).reset_index()
    parts = accuracy_section(study, scores, positive_label)
    if study.sensitive is None:
        missing = "Left out: --sensitive and --privileged name the groups to compare."
        return [*parts, html.heading("Fairness"), html.paragraph(missing, "note")]
    audits = fairness_audits(study)
    advance()
    tables["fairness_audits"] = audit_table(audits)
    return [*parts, *fairness_section(study, scores, audits)]


def _leakage_parts(study: Study, tables: Tables, advance: Callable[[], Any]) -> list[str]:
    column = attacked_column(study)
    if column is None:
        return [html.heading("Leakage"), html.paragraph("Left out: no protected column has several values.", "note")]
    results = attack_releases(study, advance)
    tables["leakage"] = leakage_table(results)
    tables["carriers"] = pd.concat({epsilon: found.carriers for epsilon, found in results.items()}, names=["epsilon"])
    tables["carriers"] = tables["carriers"].reset_index()
    return leakage_section(study, results, column)


def _synthesis_parts(study: Study, delta: float, tables: Tables, advance: Callable[[], Any]) -> list[str]:
    synthesis = synthesize(study, delta, advance)
    tables["synthesis"] = synthesis.curve[["epsilon", "metric", "value"]]
    return synthesis_section(study, synthesis, delta)


def _every(calls: int, advance: Callable[[], Any]) -> Callable[[], None]:
    """Return what is called for each of many small parts of a step."""
    numbers = itertools.count(1)

    def part() -> None:
        if next(numbers) % calls == 0:
            advance()

    return part


def _steps(study: Study, models: Mapping[str, BaseEstimator]) -> int:
    """Count the steps of the progress bar, each of about the same time: all count releases of an epsilon are one."""
    n = len(study.epsilons)
    steps = 2 * n
    if attacked_column(study) is not None:
        steps += n
    if study.target is not None:
        steps += len(models) * (n + 1)
    return steps + (study.sensitive is not None)


def _write(
    out: Path, title: str, lead: str, parts: Sequence[str], tables: Mapping[str, pd.DataFrame], random_state: int | None
) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_csv(out / f"{name}.csv", index=False)
    files = ", ".join(f"{name}.csv" for name in tables)
    seed = "" if random_state is None else f" --seed {random_state}"
    footer = f"Made by skdp report{seed}. The same numbers: {files}."
    page = out / "index.html"
    page.write_text(html.page(title, lead, parts, footer), encoding="utf-8")
    return page


AGE_THRESHOLD = 37
"""Declared, not the median of the data: a median moves with everybody's age, and would re-label other people."""

_NUMBERS_OF_ADULT: dict[str, Any] = {
    "education-num": list(range(1, 17)),
    "capital-gain": Interval(edges=[0, 1, 5000, 10_000, 100_000]),
    "capital-loss": Interval(edges=[0, 1, 1500, 2000, 5000]),
    "hours-per-week": Interval(edges=[0, 20, 35, 40, 41, 50, 60, 100]),
}
_THRESHOLD_REMARK = (
    f"The threshold of {AGE_THRESHOLD} years is declared, not read from the data. The median happens to be "
    f"{AGE_THRESHOLD} too, but a median depends on everybody: one changed record can move it, re-label many other "
    "people, and so show that it was there."
)


def age_sex_report(
    X: pd.DataFrame,
    y: pd.Series,
    out: Path,
    *,
    epsilons: Sequence[float],
    repeats: int = 500,
    model_repeats: int = 5,
    delta: float = 1e-9,
    classifiers: Mapping[str, BaseEstimator] | None = None,
    random_state: int | None = None,
    n_jobs: int | None = None,
    progress: Callable[[int], Any] | None = None,
) -> Path:
    """Run the age × sex study on Adult and write its report.

    Parameters
    ----------
    X : pandas.DataFrame
        The features of Adult, without missing values.
    y : pandas.Series
        The income, "<=50K" or ">50K".
    out : Path
        The folder to write to; made if it is not there.
    epsilons : sequence of float
        The privacy losses to try.
    repeats : int, default=500
        Releases of the counts for each epsilon.
    model_repeats : int, default=5
        Splits into training and test rows for the classifiers.
    delta : float, default=1e-9
        The failure probability of the synthetic rows.
    classifiers : mapping of name to classifier, optional
        As for `study_report`.
    random_state : int, optional
        None for secure coins; an int makes the report reproducible.
    n_jobs : int, optional
        Number of processes.
    progress : callable, optional
        Called with the number of steps, returns something to call after each step.

    Returns
    -------
    Path
        The page.

    Notes
    -----
    **Privacy.** The report compares with the truth: it is not protected.
    """
    frame = X.drop(columns=["fnlwgt", "education"])  # a weight of the survey, and education-num as text
    groups = pd.Index([f"{AGE_THRESHOLD} or younger", f"over {AGE_THRESHOLD}"])
    frame["age"] = pd.Categorical.from_codes((frame["age"] > AGE_THRESHOLD).to_numpy().astype(int), groups)
    declared = {name: list(frame[name].cat.categories) for name in frame if name not in _NUMBERS_OF_ADULT}
    domain = Domain(declared | _NUMBERS_OF_ADULT).select(frame.columns)
    return study_report(
        frame.assign(income=y.to_numpy()),
        domain,
        out,
        source="Adult",
        columns=["age", "sex"],
        target="income",
        positive_label=">50K",
        sensitive="sex",
        privileged="Male",
        epsilons=epsilons,
        repeats=repeats,
        model_repeats=model_repeats,
        delta=delta,
        classifiers=classifiers,
        random_state=random_state,
        n_jobs=n_jobs,
        remarks=[_told_by_relationship(frame), _THRESHOLD_REMARK],
        progress=progress,
    )


def _told_by_relationship(frame: pd.DataFrame) -> str:
    tells = frame["relationship"].isin(["Husband", "Wife"])
    right = (frame["relationship"].eq("Husband") == frame["sex"].eq("Male"))[tells].mean()
    return (
        f"A column that tells: relationship (Husband or Wife) tells the sex of {tells.mean():.1%} of the people, and "
        f"is right for {right:.2%} of them."
    )
