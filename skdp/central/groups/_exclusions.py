"""The fraction of the rows of a person that a release excludes."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from skdp._arrays import Floats, Integers
from skdp.central._sums import GRID, GroupSums, NoisySums, sum_groups
from skdp.central.statistics import Noise, warn_user
from skdp.privacy import PrivacyBudget
from skdp.randomness import ByteSource

# The fraction of the budget for the fraction of excluded rows. With 1,000 persons and epsilon
# 1, its standard error is 0.05.
EXCLUSION_PART = Fraction(1, 25)

UNIT_BOUNDS = np.array([[0.0, 1.0]])


def sum_excluded(counts: Integers, budget: PrivacyBudget) -> tuple[Any, Noise]:
    """Sum the fractions of excluded rows over persons, with their noise; `counts` has the rows of each person."""
    # A person adds `GRID` to the number of persons, and at most `GRID` to the sum of positions.
    fractions = np.maximum(1 - budget.rows / counts, 0)
    sums = GroupSums.read(
        sum_groups([fractions], UNIT_BOUNDS, None, 1, None), UNIT_BOUNDS
    )
    noise = Noise.joint(replace(budget * EXCLUSION_PART, rows=1), GRID, 2)
    return sums.numbers(), noise


def draw_exclusions(
    numbers: Any, noise: Noise, source: ByteSource, level: float, *, max_rows: int
) -> Floats:
    """Return the noisy fraction of excluded rows with its error and interval, (4,), and warn if it is large."""
    sums = NoisySums.draw(numbers, UNIT_BOUNDS, noise, source)
    fraction = np.ravel(sums.estimate_means(level))
    value, _, lower, _ = fraction
    if not sums.is_measured(level).all():
        fraction[:2] = math.nan
    elif lower > 0.05:
        warn_user(
            f"On average over persons, about {value:.0%} of a person's rows (with "
            f"noise) are excluded by max_rows_per_person={max_rows}. Counts and sums "
            "lose a larger fraction if persons with many rows lose most of them",
            "guide/curator_statistics#several-rows-per-person",
        )
    return fraction
