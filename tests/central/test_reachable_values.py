"""Released values lie on a public grid, all of which can be reached from any table: their last bits tell nothing."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from skdp import DPHistogram, DPMean, Interval
from skdp.central import propose_test_release, smooth_sensitivity_release
from skdp.central.frameworks._propose_test_release import STEPS
from skdp.central.statistics import GRID, to_value
from skdp.central.statistics import _moments as two_sums

CELLS = 100_000


def reachable_by_float_laplace(values, center, scale, reach):
    """Say which values NumPy's Laplace noise can give at all: its uniform numbers are multiples of 2**-53."""
    log = np.frompyfunc(math.log, 1, 1)  # the C library's, as in NumPy's sampler
    distance = np.exp(-np.abs((values - center) / scale))
    nearest = np.rint(distance / 2 * 2.0**53), np.rint((1 - distance / 2) * 2.0**53)
    found = np.zeros(values.size, bool)
    for step in range(-reach, reach + 1):
        low, high = ((one + step) * 2.0**-53 for one in nearest)
        low, high = np.clip(low, 2.0**-53, 0.5), np.clip(high, 0.5, 1 - 2.0**-53)
        found |= center + scale * log(low + low).astype(float) == values
        found |= center - scale * log(2.0 - high - high).astype(float) == values
    return found


def test_float_noise_gives_a_count_away():
    values = np.random.default_rng(1).laplace(0.0, 1.0, 20_000)
    assert reachable_by_float_laplace(values, 0.0, 1.0, 6).mean() > 0.999
    assert reachable_by_float_laplace(values, 1.0, 1.0, 12).mean() < 0.25


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_counts_of_two_neighbours_can_give_the_same_integers(epsilon):
    domain = Interval(0, CELLS, bins=CELLS)
    empty = pd.DataFrame({"x": np.zeros(0)})
    full = pd.DataFrame({"x": np.arange(CELLS) + 0.5})  # a record more in every cell: 100,000 pairs of neighbours
    releases = [
        DPHistogram(epsilon, domain=domain, method="flat", random_state=seed).fit(table).counts_
        for seed, table in enumerate((empty, full))
    ]
    for counts in releases:
        assert counts.dtype.kind == "i"
    # Discrete Laplace noise has every integer; here, those that are not rare are seen under both.
    often = [{value for value in np.unique(counts) if np.sum(counts == value) > 50} for counts in releases]
    assert often[0] <= set(np.unique(releases[1]))
    assert often[1] <= set(np.unique(releases[0]))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_smooth_releases_of_two_neighbours_lie_on_the_same_public_grid(delta):
    for value, sensitivity in ((0.1, 1 / 300), (0.1 + 0.6 / 301, 1 / 301)):
        for seed in range(40):
            release = smooth_sensitivity_release(
                value, sensitivity, beta=0.01, bounds=(0, 1), epsilon=5.0, delta=delta, random_state=seed
            )
            assert (Fraction(release.value) * STEPS).denominator == 1


def test_tested_releases_of_two_neighbours_lie_on_the_same_public_grid():
    for value, distance in ((0.1, 300), (0.1 + 0.6 / 301, 301)):
        for seed in range(40):
            release = propose_test_release(
                value, distance, sensitivity=0.5, bounds=(0, 1), epsilon=5.0, delta=1e-6, random_state=seed
            )
            assert (Fraction(release.value) * STEPS).denominator == 1


def test_means_from_two_sums_are_functions_of_two_noisy_integers(monkeypatch):
    # Noise on either sum has every integer, so whatever two integers can give can be had from any table.
    seen = []
    original = two_sums.ratio
    monkeypatch.setattr(two_sums, "ratio", lambda *parts: seen.append(parts[:2]) or original(*parts))
    means = [DPMean(5.0, bounds=(-1, 1)).fit([[0.1]] * 300).mean_[0] for _ in range(100)]
    for (total, count), mean in zip(seen, means, strict=True):
        assert type(total) is type(count) is int
        assert mean == to_value(Fraction(total, count) * GRID, -1.0, 1.0)
