"""Released values lie on a public grid, all of which can be reached from any table: their last bits tell nothing."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from skdp import DPHistogram, DPMean, Interval
from skdp.central.frameworks import _means as framework_means
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


@pytest.mark.chosen("1.0")
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


@pytest.mark.chosen("kind0", "kind2")
@pytest.mark.parametrize(
    "kind",
    [
        {"mechanism": "propose_test_release", "delta": 1e-6, "min_n": 2},
        {"mechanism": "smooth_sensitivity", "delta": 1e-6},
        {"mechanism": "smooth_sensitivity"},
    ],
)
def test_means_of_two_neighbours_lie_on_the_same_public_grid(kind):
    for rows in ([[0.1]] * 300, [[0.1]] * 300 + [[0.7]]):
        for seed in range(40):
            value = DPMean(5.0, bounds=(0, 1), random_state=seed, **kind).fit(rows).mean_[0]
            place = round(Fraction(value) * 2 * GRID) - GRID
            assert to_value(Fraction(place), 0.0, 1.0) == value


@pytest.mark.chosen("two_sums", "sample")
@pytest.mark.parametrize("mechanism", ["two_sums", "noisy_sum_count", "sample_and_aggregate"])
def test_means_from_two_sums_are_functions_of_two_noisy_integers(mechanism, monkeypatch):
    # Noise on either sum has every integer, so whatever two integers can give can be had from any table.
    seen = []
    original = two_sums.ratio
    for module in (two_sums, framework_means):
        monkeypatch.setattr(module, "ratio", lambda *parts: seen.append(parts[:2]) or original(*parts))
    means = [DPMean(5.0, bounds=(-1, 1), mechanism=mechanism).fit([[0.1]] * 300).mean_[0] for _ in range(100)]
    for (total, count), mean in zip(seen, means, strict=True):
        assert type(total) is type(count) is int
        assert mean == to_value(Fraction(total, count) * GRID, -1.0, 1.0)
