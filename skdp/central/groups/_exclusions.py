"""The fraction of the rows of a person that a release excludes."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from skdp._arrays import Floats, Integers
from skdp.central._sums import GRID, GroupSums, NoisySums, sum_groups
from skdp.central.statistics import Noise, warn_user
from skdp.privacy import PrivacyBudget, Split
from skdp.randomness import ByteSource

# With 1,000 persons and epsilon 1, the standard error of the fraction of excluded rows is 0.05.
EXCLUSION_PARTS = Split(rest="groups", exclusions=Fraction(1, 25))

UNIT_BOUNDS = np.array([[0.0, 1.0]])


def sum_excluded(counts: Integers, max_rows: int) -> GroupSums:
    """Sum the fractions of excluded rows over persons; `counts` has the rows of each person."""
    fractions = np.maximum(1 - max_rows / counts, 0)
    return GroupSums.read(
        sum_groups([fractions], UNIT_BOUNDS, None, 1, None), UNIT_BOUNDS
    )


def plan_exclusion_noise(budget: PrivacyBudget) -> Noise:
    """Return the noise of `sum_excluded` with a part of a budget."""
    # A person adds `GRID` to the number of persons, and at most `GRID` to the sum of positions.
    return Noise.joint(
        replace(budget * EXCLUSION_PARTS.exclusions, rows_per_person=1), GRID, 2
    )


def draw_exclusions(
    excluded: GroupSums,
    noise: Noise,
    source: ByteSource,
    level: float,
    *,
    max_rows: int,
) -> Floats:
    """Return the noisy fraction of excluded rows with its error and interval, (4,), and warn if it is large."""
    sums = NoisySums.draw(excluded.numbers(), UNIT_BOUNDS, noise, source)
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
