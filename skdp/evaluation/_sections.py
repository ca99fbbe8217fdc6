"""The sections of the report, as HTML."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from skdp.domain import Domain
from skdp.evaluation import _page as html
from skdp.evaluation._count_study import CountStudy
from skdp.evaluation._figures import POSTPROCESS_NAMES, error_figure, releases_figure, scores_figure
from skdp.local import RandomizedResponseEncoder
from skdp.metrics import fairness_report

AGE_THRESHOLD = 37
"""Declared, not the median of the data: a median moves with everybody's age, and would re-label other people."""

AGE_SEX = Domain({"age": [f"{AGE_THRESHOLD} or younger", f"over {AGE_THRESHOLD}"], "sex": ["Female", "Male"]})


def counts_section(study: CountStudy) -> list[str]:
    """Show the counts, their intervals and their errors.

    Parameters
    ----------
    study : CountStudy
        The study.

    Returns
    -------
    list of str
        HTML.
    """
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
    # Where no unbiased count fell below zero the others are the same, and say nothing new.
    repeated = errors[["epsilon", "mean L1", "mean L2", "rms L2"]].round(6).duplicated()
    errors = errors[~repeated]
    names = [str(name) for name in study.releases.index.names if name != "epsilon"]
    whole = dict.fromkeys(("true count", "estimate", "std. error", "lower", "upper"), _whole)
    shown = cells[:8]
    parts = [
        html.heading("The counts, true and estimated"),
        html.paragraph(
            "One release at each epsilon, estimated without bias, with 95 % intervals. At a small epsilon an estimate "
            "may fall below zero: without bias it must err to both sides."
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
            "cells, the L2 error is the root of the sum of their squares. Three ways to repair the unbiased counts are "
            "compared with them; they change something only where a count falls below zero, so the lines mostly lie "
            "on one another, and the table leaves out rows that are the same. Clipping is biased, and its counts no "
            "longer add up."
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


def models_section(scores: pd.DataFrame, repeats: int, n_rows: int) -> list[str]:
    """Show what classifiers lose, and how fair they are.

    Parameters
    ----------
    scores : pandas.DataFrame
        What `model_study` returns.
    repeats : int
        The number of splits.
    n_rows : int
        The number of rows that were split.

    Returns
    -------
    list of str
        HTML.
    """
    wide = _mean_and_sd(scores)
    metrics = [name for name in wide.columns if name not in ("classifier", "age and sex are")]
    quality, fairness = ["accuracy", "AUC"], [name for name in metrics if name not in ("accuracy", "AUC")]
    keys = ["classifier", "age and sex are"]
    example = fairness_report([0, 1, 0, 1], [0, 1, 1, 1], [0, 0, 1, 1], privileged=1, positive_label=1)
    definitions = [f"{row.metric}: {row.definition}" for row in example.itertuples()]
    return [
        html.heading("What it costs a classifier"),
        html.paragraph(
            f"Who earns more than 50,000 dollars? {_splits(repeats)} of the {n_rows:,} rows (three quarters to train, "
            "one quarter to test). Age and sex are used as reported, "
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


def _splits(repeats: int) -> str:
    return "One random split" if repeats == 1 else f"Mean ± standard deviation (sd) over {repeats} random splits"


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


def scope_section(X: pd.DataFrame, epsilons: Sequence[float], repeats: int, random_state: int | None) -> list[str]:
    """Say what is protected in the study of Adult, and what is not.

    Parameters
    ----------
    X : pandas.DataFrame
        The features of Adult.
    epsilons : sequence of float
        The privacy losses that were tried.
    repeats : int
        Releases for each epsilon.
    random_state : int, optional
        The seed, if there was one.

    Returns
    -------
    list of str
        HTML.
    """
    tells = X["relationship"].isin(["Husband", "Wife"])
    right = (X["relationship"].eq("Husband") == X["sex"].eq("Male"))[tells].mean()
    encoder = RandomizedResponseEncoder(max(epsilons), strategy="joint", categories=AGE_SEX)
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
                coins_remark(random_state),
            ]
        ),
    ]


def coins_remark(random_state: int | None) -> str:
    """Say where the coins came from.

    Parameters
    ----------
    random_state : int, optional
        The seed, if there was one.

    Returns
    -------
    str
        Plain text.
    """
    if random_state is None:
        return "The coins of this page came from a cryptographically secure source."
    return (
        f"The coins of this page came from the seed {random_state}: reproducible, and no protection at all towards "
        "those who know it."
    )


def _epsilon(value: float) -> str:
    return f"{value:g}"


def _whole(value: float) -> str:
    return "" if np.isnan(value) else f"{value:,.0f}".replace("-", "−")
