"""The report: run the studies, write the page and the tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from skdp.domain import Domain
from skdp.evaluation import _page as html
from skdp.evaluation._count_study import CountStudy, count_study
from skdp.evaluation._figures import POSTPROCESS_NAMES, error_figure, releases_figure, scores_figure
from skdp.evaluation._model_study import model_study
from skdp.local import RandomizedResponseEncoder
from skdp.metrics import fairness_report

AGE_THRESHOLD = 37
"""Declared, not the median of the data: a median moves with everybody's age, and would re-label other people."""

_AGE_SEX = Domain({"age": [f"{AGE_THRESHOLD} or younger", f"over {AGE_THRESHOLD}"], "sex": ["Female", "Male"]})
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
    features["age"] = pd.Categorical.from_codes(older, pd.Index(_AGE_SEX["age"].values))
    columns = list(_AGE_SEX.columns)
    n_fits = model_repeats * (len(epsilons) + 2) * len(_CLASSIFIERS)
    advance = progress(repeats * len(epsilons) + n_fits) if progress else lambda: None
    counts = count_study(
        features[columns], _AGE_SEX, epsilons=epsilons, repeats=repeats, random_state=random_state, advance=advance
    )
    scores = model_study(
        features,
        y,
        _AGE_SEX,
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
        *_counts_parts(counts),
        *_models_parts(scores, model_repeats, len(X)),
        *_scope_parts(X, epsilons, repeats, random_state),
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
        *_counts_parts(counts),
        html.heading("What is protected, and what is not"),
        html.bullets(
            [
                f"Protected: {names} of each record, together, by epsilon for one release, against everybody who sees "
                "the reports.",
                "Not protected: every other column of the same person, which may reveal these ones.",
                _coins(random_state),
            ]
        ),
    ]
    lead = f"Local differential privacy on {source}: estimated counts by epsilon."
    return _write(out, f"What privacy costs: {names}", lead, parts, counts, random_state)


def _counts_parts(study: CountStudy) -> list[str]:
    cells = study.releases.loc[study.expected.index[0]].index.to_list()
    releases = study.releases.reset_index()
    releases = releases.rename(columns={"true": "true count", "count": "estimate", "std_error": "std. error"})
    summary = study.summary()
    errors = summary.assign(postprocess=summary["postprocess"].map(POSTPROCESS_NAMES))[
        ["epsilon", "postprocess", "l1_mean", "l1_mean_expected", "l2_mean", "l2_rms", "l2_rms_expected", "coverage"]
    ].rename(
        columns={
            "postprocess": "estimate",
            "l1_mean": "mean L1",
            "l1_mean_expected": "expected L1",
            "l2_mean": "mean L2",
            "l2_rms": "rms L2",
            "l2_rms_expected": "closed-form rms L2",
            "coverage": "95 % intervals hold",
        }
    )
    names = [str(name) for name in study.releases.index.names if name != "epsilon"]
    whole = dict.fromkeys(("true count", "estimate", "std. error", "lower", "upper"), _whole)
    shown = cells[:8]
    parts = [
        html.heading("The counts, true and estimated"),
        html.paragraph(
            "One release at each epsilon, estimated without bias, with 95 % intervals. At a small epsilon an estimate "
            "may be negative: that is what makes it unbiased."
        ),
        html.figures(
            {f"Estimates of the cell {cell} by epsilon, with intervals": releases_figure(study, cell) for cell in shown}
        ),
        html.table(
            releases,
            "True and estimated counts of one release at each epsilon, with 95 % intervals.",
            formats={"epsilon": _epsilon, **whole},
            text=names,
        ),
        html.heading("How large the errors are"),
        html.paragraph(
            f"{int(summary['repeats'].iloc[0]):,} releases at each epsilon. The L1 error adds up the errors of all "
            "cells, the L2 error is the root of the sum of their squares. The estimates differ only where an unbiased "
            "count falls below zero; clipping is biased, and its counts no longer add up."
        ),
        html.figures(
            {
                "L1 error of the counts by epsilon": error_figure(study, "l1"),
                "L2 error of the counts by epsilon": error_figure(study, "l2"),
            }
        ),
        html.table(
            errors,
            "Errors of the counts, and what to expect: the closed form of the root mean square (rms) L2 error of the "
            "unbiased counts, and the mean L1 error if each error is normal.",
            formats={
                "epsilon": _epsilon,
                "95 % intervals hold": lambda share: f"{share:.1%}",
                **{name: _whole for name in errors.columns if "L1" in name or "L2" in name},
            },
            text=["estimate"],
        ),
    ]
    if len(shown) < len(cells):
        parts.insert(3, html.paragraph(f"The figures show the first {len(shown)} of {len(cells)} cells."))
    return parts


def _models_parts(scores: pd.DataFrame, repeats: int, n_rows: int) -> list[str]:
    wide = _mean_and_sd(scores)
    metrics = [name for name in wide.columns if name not in ("classifier", "age and sex are")]
    quality, fairness = ["accuracy", "AUC"], [name for name in metrics if name not in ("accuracy", "AUC")]
    keys = ["classifier", "age and sex are"]
    example = fairness_report([0, 1, 0, 1], [0, 1, 1, 1], [0, 0, 1, 1], privileged=1, positive_label=1)
    definitions = [f"{row.metric}: {row.definition}" for row in example.itertuples()]
    return [
        html.heading("What it costs a classifier"),
        html.paragraph(
            f"Who earns more than 50,000 dollars? {repeats} random splits of the {n_rows:,} rows (three quarters to "
            "train, one quarter to test), mean ± standard deviation over the splits. Age and sex are used as reported, "
            "for training and for prediction; the other columns are used as they are. The dashed lines are the same "
            "models with the true age group and sex, the dotted ones without these two columns."
        ),
        html.figures({f"{name} by epsilon": scores_figure(scores, name) for name in quality}),
        html.table(wide[keys + quality], "Accuracy and area under the ROC curve, mean ± sd.", formats={}, text=keys),
        html.heading("What it does to fairness between the sexes"),
        html.paragraph(
            "Computed by aif360, with the true sex used for scoring. Unprivileged: Female; privileged: Male; positive: "
            "more than 50,000 dollars. Every difference is unprivileged − privileged: below zero, women are worse off."
        ),
        html.bullets(definitions),
        html.figures({f"{name} by epsilon": scores_figure(scores, name) for name in fairness[:1] + fairness[2:3]}),
        html.table(
            wide[keys + fairness],
            "Fairness of the predictions, mean ± sd; differences are unprivileged − privileged.",
            formats={},
            text=keys,
        ),
    ]


def _mean_and_sd(scores: pd.DataFrame) -> pd.DataFrame:
    by_classifier = scores.sort_values("classifier", kind="stable")
    grouped = by_classifier.groupby(["classifier", "setting", "metric"], sort=False)["value"].agg(["mean", "std"])
    text = grouped["mean"].map(lambda mean: f"{mean:.4f}".replace("-", "−")) + grouped["std"].map(
        lambda sd: "" if np.isnan(sd) else f" ± {sd:.4f}"
    )
    wide = text.unstack("metric", sort=False).reset_index()
    wide["setting"] = [
        setting if isinstance(setting, str) else f"ε = {_epsilon(setting)}" for setting in wide["setting"]
    ]
    return wide.rename(columns={"setting": "age and sex are"}).rename_axis(columns=None)


def _scope_parts(X: pd.DataFrame, epsilons: Sequence[float], repeats: int, random_state: int | None) -> list[str]:
    tells = X["relationship"].isin(["Husband", "Wife"])
    right = (X["relationship"].eq("Husband") == X["sex"].eq("Male"))[tells].mean()
    encoder = RandomizedResponseEncoder(max(epsilons), strategy="joint", categories=_AGE_SEX)
    guarantee = encoder.fit(pd.DataFrame({"age": [""], "sex": [""]})).guarantee_
    return [
        html.heading("What is protected, and what is not"),
        html.bullets(
            [
                "Protected: the age group and the sex of each person, together, against everybody who sees the "
                "reports, the server included. Whatever is reported is at most e^ε times likelier for one person's "
                f"values than for any other values. At the largest epsilon of this page: {guarantee}; delta = 0.",
                f"Not protected: every other column of the same person, income included. They may reveal these two: "
                f"relationship (Husband or Wife) tells the sex of {tells.mean():.1%} of the people, and is right for "
                f"{right:.2%} of them. So the guarantee is about what the reports add, not about what is known anyway.",
                f"The threshold of {AGE_THRESHOLD} years is declared, not read from the data. The median happens to be "
                f"{AGE_THRESHOLD} too, but a median depends on everybody: one changed record can move it, re-label "
                "many other people, and so show that it was there.",
                f"Every release costs epsilon again. This page makes {repeats:,} releases at each epsilon in order to "
                "show averages; whoever publishes one must make one only.",
                _coins(random_state),
            ]
        ),
    ]


def _coins(random_state: int | None) -> str:
    if random_state is None:
        return "The coins of this page came from a cryptographically secure source."
    return (
        f"The coins of this page came from the seed {random_state}: reproducible, and no protection at all towards "
        "those who know it."
    )


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
        f"Made by skdp report{'' if random_state is None else f' --seed {random_state}'}. The same figures: {files}."
    )
    page = out / "index.html"
    page.write_text(html.page(title, lead, parts, footer), encoding="utf-8")
    return page


def _epsilon(value: float) -> str:
    return f"{value:g}"


def _whole(value: float) -> str:
    return "" if np.isnan(value) else f"{value:,.0f}".replace("-", "−")
