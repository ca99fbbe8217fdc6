"""The report on Adult, with age and sex protected."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.base import BaseEstimator

from skdp.domain import Domain, Interval
from skdp.evaluation.report._report import study_report

AGE_THRESHOLD = 37
"""Declared, not the median of the data, which depends on the age of each person and would relabel others."""

_NUMBERS_OF_ADULT: dict[str, Any] = {
    "education-num": list(range(1, 17)),
    "capital-gain": Interval(edges=[0, 1, 5000, 10_000, 100_000]),
    "capital-loss": Interval(edges=[0, 1, 1500, 2000, 5000]),
    "hours-per-week": Interval(edges=[0, 20, 35, 40, 41, 50, 60, 100]),
}
_THRESHOLD_REMARK = (
    f"The threshold of {AGE_THRESHOLD} years is declared, not read from the data. The median happens to be "
    f"{AGE_THRESHOLD} too, but a median depends on every record: one changed record can move it, relabel many other "
    "people, and so reveal its presence."
)


def age_sex_report(
    X: pd.DataFrame,
    y: pd.Series,
    out: str | os.PathLike[str],
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
    """Run the age × sex study on Adult and write its report."""
    frame = X.drop(
        columns=["fnlwgt", "education"]
    )  # a weight of the survey, and education-num as text
    groups = pd.Index([f"{AGE_THRESHOLD} or younger", f"over {AGE_THRESHOLD}"])
    frame["age"] = pd.Categorical.from_codes(
        (frame["age"] > AGE_THRESHOLD).to_numpy().astype(int), groups
    )
    declared = dict(_NUMBERS_OF_ADULT)
    for name in frame.columns.difference(list(declared), sort=False):
        declared[name] = list(frame[name].cat.categories)
    domain = Domain(declared).select(frame.columns)
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
    """Write how much a column that nobody protects says of a protected one."""
    relationship = frame["relationship"]
    tells = relationship.isin(["Husband", "Wife"])
    is_right = relationship.eq("Husband") == frame["sex"].eq("Male")
    return (
        "A column that tells: relationship (Husband or Wife) tells the sex of "
        f"{tells.mean():.1%} of the people, and is right for "
        f"{is_right[tells].mean():.2%} of them."
    )
