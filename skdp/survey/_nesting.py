"""Whether a fit is a special case of another, by fingerprints of what both were fitted to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from skdp.survey._design import Question
from skdp.survey._likelihood import Classes, Gaussian, HiddenModel, Numbers

_ROUNDING = 1e-9
"""Of a log likelihood, relative: a sum over rows, at a maximum."""


def fingerprints(
    model: HiddenModel,
    questions: Sequence[Question],
    question_names: Sequence[str],
    reported_as: str,
    hidden_distribution: str,
) -> dict[str, list[str]]:
    """Return what two fits are compared by: their data, and the terms of their models."""
    # A fitted model holds no rows: these are digests of whole columns.
    known = [_digest(column) for column in model.known.T]
    report_digests = {
        question.name: _digest(question.likelihood) for question in questions
    }
    data = [f"target {_of_target(model.outcome)}"]
    data += [f"reports {digest}" for digest in report_digests.values()]
    terms = [f"true {digest}" for digest in known]
    kinds = {}
    for question in questions:
        # Any numbers of values are a combination of the indicators of values.
        kinds[question.name] = ["number"]
        is_one_term = question.is_number or reported_as == "numbers"
        if not is_one_term or len(question.values) == 2:
            kinds[question.name].append("categories")
        for kind in kinds[question.name]:
            terms.append(f"{kind} {report_digests[question.name]}")
        if hidden_distribution == "conditional":
            # The first column is of ones.
            report_digest = report_digests[question.name]
            terms += [f"hidden {report_digest} {digest}" for digest in known[1:]]
    for of_known, of_hidden in model.products:
        name = question_names[of_hidden]
        for kind in kinds[name]:
            terms.append(f"product {known[of_known]} {kind} {report_digests[name]}")
    for unknown in model.unknowns:
        slopes = (unknown.cell_slope, unknown.class_slope)
        digests = [_digest(slope) for slope in slopes if slope is not None]
        terms.append(f"unknown {unknown.name} {' '.join(digests)}")
    return {"data": sorted(data), "terms": sorted(set(terms))}


def _of_target(outcome: Gaussian | Classes) -> str:
    if isinstance(outcome, Classes):
        return _digest(outcome.likelihoods)
    return _digest(outcome.values)


def _digest(numbers: Numbers) -> str:
    array = np.ascontiguousarray(numbers, dtype=np.float64)
    digest = hashlib.sha256(repr(array.shape).encode())
    # Minus zero is zero.
    digest.update((array + 0.0).tobytes())
    return digest.hexdigest()[:32]


def check_nested(
    full: Mapping[str, Sequence[str]], nested: Mapping[str, Sequence[str]]
) -> None:
    """Refuse fits to other data, and one with terms that the full fit does not have."""
    if full["data"] != nested["data"]:
        raise ValueError(
            "nested must be fitted to the same target and the same reports, of all "
            "encoders of this fit, with rows in the same order; got others. For a "
            "reported predictor as a whole, see the p-values of summary()"
        )
    if not set(nested["terms"]) <= set(full["terms"]):
        raise ValueError(
            "nested must have terms of this fit only: some of its true predictors, "
            "interactions, unknown numbers, or its form (reported_as, "
            "hidden_distribution); got others"
        )


def likelihood_ratio(full: float, nested: float, df: int) -> dict[str, float]:
    """Return the test of two log likelihoods that differ by so many parameters."""
    statistic = 2 * (full - nested)
    if statistic < -_ROUNDING * (1 + abs(nested)):
        raise ValueError(
            "nested explains the reports better than this fit, which has more "
            "parameters: the search of this fit ended at a lower maximum"
        )
    p_value = float(stats.chi2.sf(max(statistic, 0.0), df))
    return {"statistic": statistic, "df": df, "p_value": p_value}


def has_maximum(covariance: Any) -> bool:
    """Whether a fit with this covariance of its parameters is a maximum."""
    return bool(np.isfinite(covariance).all())
