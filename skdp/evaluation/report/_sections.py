"""The sections of the report about counts and about what is protected, as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from skdp.coding import is_missing
from skdp.evaluation.report import _html as html
from skdp.evaluation.report._counts import CountStudy
from skdp.evaluation.report._figures import POSTPROCESS_NAMES, counts_figure, error_figure
from skdp.evaluation.report._study import Study


def counts_section(study: CountStudy, example: float) -> list[str]:
    """Show the counts, their intervals and their errors."""
    releases = study.releases.reset_index()
    releases = releases.rename(columns={"true": "true count", "count": "estimate", "std_error": "std. error"})
    names = [str(name) for name in study.releases.index.names if name != "epsilon"]
    numbers = dict.fromkeys(("true count", "estimate", "std. error", "lower", "upper"), whole)
    return [
        html.heading("Counts"),
        html.paragraph(
            "One release at each epsilon, estimated without bias, with 95 % intervals. At a small epsilon an estimate "
            "may fall below zero: without bias it must err to both sides."
        ),
        html.figures(
            {
                f"Counts at epsilon {short(example)}, true and estimated. Each bar is an estimate from one release, "
                "the line over it the 95 % interval; the diamond is the true count, which the server never sees. "
                "About one interval in twenty misses it.": counts_figure(pd.DataFrame(study.releases.loc[example]))
            }
        ),
        html.table(
            releases,
            "True and estimated counts of one release at each epsilon, with 95 % intervals.",
            formats={"epsilon": short, **dict.fromkeys(names, _label), **numbers},
            text=names,
        ),
        html.heading("Errors of the counts"),
        *_errors(study),
    ]


def _errors(study: CountStudy) -> list[str]:
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
    errors = errors[~errors[["epsilon", "mean L1", "mean L2", "rms L2"]].round(6).duplicated()]
    reading = "The lower, the better; both axes are logarithmic, and the shaded band holds nine releases in ten"
    return [
        html.paragraph(
            f"{int(summary['repeats'].iloc[0]):,} releases at each epsilon. The L1 error adds up the errors of all "
            "cells, the L2 error is the root of the sum of their squares. Three ways to repair the unbiased counts are "
            "compared with them; they change something only where a count falls below zero, so the lines mostly lie "
            "on one another, and the table leaves out rows that are the same. Clipping is biased, and its counts no "
            "longer add up."
        ),
        html.figures(
            {
                f"L1 error of the counts by epsilon. {reading} of the unbiased counts. The black line is what to "
                "expect if each error is normal.": error_figure(study, "l1"),
                f"L2 error of the counts by epsilon. {reading}. The black line is the closed form of the root mean "
                "square (rms), so the means lie a little below it.": error_figure(study, "l2"),
            }
        ),
        html.table(
            errors,
            "Errors of the counts, and what to expect: the closed form of the root mean square (rms) L2 error of the "
            "unbiased counts, and the mean L1 error if each error is normal.",
            formats={
                "epsilon": short,
                "95 % intervals hold": lambda share: f"{share:.1%}",
                **{name: whole for name in errors.columns if "L1" in name or "L2" in name},
            },
            text=["estimate"],
        ),
    ]


def scope_section(study: Study, repeats: int, delta: float, remarks: Sequence[str]) -> list[str]:
    """Say what is protected, and what is not."""
    guarantee = study.encoder(max(study.epsilons)).guarantee_
    return [
        html.heading("What is protected, and what is not"),
        html.bullets(
            [
                f"Protected by the reports: {study.names} of each record, together, against everybody who sees the "
                "reports, the server included. Whatever is reported is at most e^ε times likelier for one person's "
                f"values than for any other values. At the largest epsilon of this page: {guarantee}; delta = 0.",
                "Not protected by the reports: every other column of the same person, which may reveal these ones. So "
                "the guarantee is about what the reports add, not about what is known anyway.",
                "Synthetic rows are another kind of promise, the central model: they protect whole records in all "
                f"columns that are synthesised, by epsilon and delta = {short(delta)}, but whoever makes them must be "
                "trusted with the table.",
                *remarks,
                f"Every release costs epsilon again. This page makes {repeats:,} releases at each epsilon in order to "
                "show averages; whoever publishes one must make one only.",
                _coins_remark(study.random_state),
            ]
        ),
    ]


def _coins_remark(random_state: int | None) -> str:
    if random_state is None:
        return "The coins of this page came from a cryptographically secure source."
    return (
        f"The coins of this page came from the seed {random_state}: reproducible, and no protection at all towards "
        "those who know it."
    )


def _label(value: Any) -> str:
    return "missing" if is_missing(value) else str(value)


def short(value: float) -> str:
    """Write an epsilon or a delta."""
    return f"{value:g}".replace("e-0", "e-")


def whole(value: float) -> str:
    """Write a number without its fraction."""
    return "" if np.isnan(value) else f"{value:,.0f}".replace("-", "−")


def decimals(value: float) -> str:
    """Write a number with four decimals."""
    return "undefined" if np.isnan(value) else f"{value:.4f}".replace("-", "−")
