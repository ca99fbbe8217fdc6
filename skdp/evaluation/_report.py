"""The report: run the studies, write the page and the tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from skdp.domain import Domain
from skdp.evaluation import _page as html
from skdp.evaluation._count_study import CountStudy, count_study
from skdp.evaluation._model_study import model_study
from skdp.evaluation._sections import (
    AGE_SEX,
    AGE_THRESHOLD,
    coins_remark,
    counts_section,
    models_section,
    scope_section,
)

_CLASSIFIERS = {
    "logistic regression": LogisticRegression(max_iter=1000),
    "gradient boosting": HistGradientBoostingClassifier(random_state=0),
}
_COMPARES_WITH_TRUTH = (
    "This page compares estimates with true values in order to show the cost of privacy. The page and its tables are "
    "therefore not private: do not publish them for data that nobody but you may see."
)


def age_sex_report(
    X: pd.DataFrame,
    y: pd.Series,
    out: Path,
    *,
    epsilons: Sequence[float],
    repeats: int,
    model_repeats: int,
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
    repeats : int
        Releases of the counts for each epsilon.
    model_repeats : int
        Splits into training and test rows for the classifiers.
    random_state : int, optional
        None for secure coins; an int makes the report reproducible.
    n_jobs : int, optional
        Number of processes that train classifiers.
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
    features = X.drop(columns=["fnlwgt", "education"])  # a weight of the survey, and education-num as text
    older = (features["age"] > AGE_THRESHOLD).to_numpy().astype(int)
    features["age"] = pd.Categorical.from_codes(older, pd.Index(AGE_SEX["age"].values))
    columns = list(AGE_SEX.columns)
    n_fits = model_repeats * (len(epsilons) + 2) * len(_CLASSIFIERS)
    advance = progress(repeats * len(epsilons) + n_fits) if progress else lambda: None
    counts = count_study(
        features[columns], AGE_SEX, epsilons=epsilons, repeats=repeats, random_state=random_state, advance=advance
    )
    scores = model_study(
        features,
        y,
        AGE_SEX,
        classifiers=_CLASSIFIERS,
        sensitive_feature="sex",
        privileged="Male",
        positive_label=">50K",
        epsilons=epsilons,
        repeats=model_repeats,
        random_state=random_state,
        n_jobs=n_jobs,
        advance=advance,
    )
    parts = [
        html.paragraph(_COMPARES_WITH_TRUTH, "note warn"),
        html.paragraph(
            f"{len(X):,} records without missing values. Each record is put into one of four cells (age over "
            f"{AGE_THRESHOLD} or not × sex), and the cell is randomised before it leaves its owner: with probability "
            "e^ε / (e^ε + 3) it is reported as it is, otherwise as one of the other three (randomised response). The "
            "server sees reports only, estimates the counts from them, and trains and uses its models on them."
        ),
        *counts_section(counts),
        *models_section(scores, model_repeats, len(X)),
        *scope_section(X, epsilons, repeats, random_state),
    ]
    lead = "Local differential privacy on Adult: estimated counts, classifiers and fairness, by epsilon."
    return _write(out, "What privacy costs: age × sex", lead, parts, counts, random_state, scores)


def counts_report(
    frame: pd.DataFrame,
    domain: Domain,
    out: Path,
    *,
    source: str,
    epsilons: Sequence[float],
    repeats: int,
    random_state: int | None = None,
    notes: Sequence[str] = (),
    progress: Callable[[int], Any] | None = None,
) -> Path:
    """Run the study of counts on some columns of any table and write its report.

    Parameters
    ----------
    frame : pandas.DataFrame
        The true rows, with exactly the columns of the domain.
    domain : Domain
        The values of the columns.
    out : Path
        The folder to write to; made if it is not there.
    source : str
        What to call the data.
    epsilons : sequence of float
        The privacy losses to try.
    repeats : int
        Releases for each epsilon.
    random_state : int, optional
        None for secure coins; an int makes the report reproducible.
    notes : sequence of str, default=()
        Further remarks for the page.
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
    advance = progress(repeats * len(epsilons)) if progress else lambda: None
    counts = count_study(frame, domain, epsilons=epsilons, repeats=repeats, random_state=random_state, advance=advance)
    names = " × ".join(map(str, domain.columns))
    parts = [
        html.paragraph(_COMPARES_WITH_TRUTH, "note warn"),
        *(html.paragraph(note, "note") for note in notes),
        html.paragraph(
            f"{len(frame):,} records, {domain.size} cells ({names}). The columns of a record are randomised together "
            f"before they leave their owner: with probability e^ε / (e^ε + {domain.size - 1}) the cell is reported as "
            "it is, otherwise as one of the others (randomised response)."
        ),
        *counts_section(counts),
        html.heading("What is protected, and what is not"),
        html.bullets(
            [
                f"Protected: {names} of each record, together, by epsilon for one release, against everybody who sees "
                "the reports.",
                "Not protected: every other column of the same person, which may reveal these ones.",
                coins_remark(random_state),
            ]
        ),
    ]
    lead = f"Local differential privacy on {source}: estimated counts by epsilon."
    return _write(out, f"What privacy costs: {names}", lead, parts, counts, random_state)


def _write(
    out: Path,
    title: str,
    lead: str,
    parts: Sequence[str],
    counts: CountStudy,
    random_state: int | None,
    scores: pd.DataFrame | None = None,
) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    tables = {"release_counts": counts.releases.reset_index(), "count_errors": counts.summary()}
    if scores is not None:
        grouped = scores.groupby(["classifier", "setting", "metric"], sort=False)["value"]
        tables["model_scores"] = grouped.agg(["mean", "std", "count"]).reset_index()
    for name, table in tables.items():
        table.to_csv(out / f"{name}.csv", index=False)
    files = ", ".join(f"{name}.csv" for name in tables)
    footer = (
        f"Made by skdp report{'' if random_state is None else f' --seed {random_state}'}. The same numbers: {files}."
    )
    page = out / "index.html"
    page.write_text(html.page(title, lead, parts, footer), encoding="utf-8")
    return page
