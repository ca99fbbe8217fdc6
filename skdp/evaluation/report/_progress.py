"""A progress bar whose steps take about the same time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdp.evaluation.report._experiments import QUALITY, attacked_column, attacked_rows
from skdp.evaluation.report._study import Study


def every(calls: int, advance: Callable[[], Any]) -> Callable[[], None]:
    """Return the function to call after each of the small parts of a step."""
    numbers = itertools.count(1)

    def part() -> None:
        if next(numbers) % calls == 0:
            advance()

    return part


def costs(
    study: Study, models: Mapping[str, BaseEstimator], repeats: int, model_repeats: int
) -> list[float]:
    """Estimate the time of each part of the work, in its order, in any unit."""
    # Fitted to five tables of 442 to 45,222 rows. The figures of a part are drawn at the beginning of the next one.
    n, n_columns, n_epsilons, figure = (
        len(study.frame),
        study.frame.shape[1],
        len(study.epsilons),
        0.5,
    )
    fit = 0.15 + 2e-6 * n * n_columns
    parts = [repeats * (1.2e-3 + 2.5e-8 * n)] * n_epsilons
    figures = 3
    if study.target is not None:
        of_model = [2 * fit, *[fit] * (n_epsilons - 1), 0.8 * fit]
        of_models = np.tile(model_repeats * np.array(of_model), len(models))
        of_models[0] += figures * figure
        parts, figures = [*parts, *of_models], len(QUALITY)
    if study.sensitive is not None:
        parts, figures = [*parts, figures * figure + 5 * fit], figures + 1
    attacked = attacked_column(study)
    if attacked is not None:
        n_values = study.frame[attacked].nunique(dropna=False)
        trees = 1 if n_values == 2 else n_values
        attack = 0.6 + trees * (0.3 + 2.2e-5 * len(attacked_rows(study)) * n_columns)
        parts, figures = (
            [*parts, figures * figure + 2 * attack, *[attack] * (n_epsilons - 1)],
            2,
        )
    pairs = len(study.domain.columns) ** 2 / 2
    # The larger epsilon, the larger the model.
    synthesis = [
        (0.25 + 8e-7 * n * pairs) * (1 + 2 * min(1, epsilon))
        for epsilon in study.epsilons
    ]
    synthesis[0] += figures * figure
    synthesis[-1] += 6 * figure
    return [*parts, *synthesis]


def in_proportion(
    times: Sequence[float], progress: Callable[[int], Any] | None
) -> Callable[[], None]:
    """Return the function to call after each part: a hundred steps are shared out by the expected times."""
    tick = progress(100) if progress else lambda: None
    ends, done = (
        iter(np.rint(100 * np.cumsum(times) / sum(times)).astype(int).tolist()),
        0,
    )

    def advance() -> None:
        nonlocal done
        end = next(ends)
        for _ in range(end - done):
            tick()
        done = end

    return advance
