"""The likeliest frequencies: certified by slopes, whatever the channel."""

from __future__ import annotations

import numpy as np
import pytest

import skdp.oracles._likelihood as module
from skdp.oracles import ClampedLaplace, Windows
from skdp.oracles._likelihood import likeliest_frequencies
from skdp.oracles.numeric import bin_positions, estimate_frequencies


def square_wave(steps, epsilon):
    return Windows(steps, epsilon, repeating=False)


def missing(likelihoods, repeats, frequencies):
    """By concavity, written with sums: how much log-likelihood any other frequencies can have more."""
    ratios = likelihoods / (likelihoods @ frequencies)[:, np.newaxis]
    return repeats.sum() * (max(np.average(column, weights=repeats) for column in ratios.T) - 1)


def reports_of(mechanism, n_bins, seed=0, n=10_000):
    """Return the channel of bins, and how often each report comes if most numbers are in one bin."""
    channel = mechanism.spread(bin_positions(mechanism.steps, n_bins))
    truth = 0.3 / n_bins + 0.7 * (np.arange(n_bins) == n_bins // 8)
    return channel, np.random.default_rng(seed).multinomial(n, truth @ channel / (truth @ channel).sum())


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0, 8.0])
@pytest.mark.parametrize("make", [ClampedLaplace, square_wave, Windows])
def test_nothing_is_missing_from_the_likeliest(make, epsilon):
    """Plain updates that stop when they move little are 1 to 4 units short for Laplace noise."""
    channel, counts = reports_of(make(256, epsilon), 32)
    found = estimate_frequencies(channel, counts, smooth=False)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    seen = counts > 0
    assert missing(channel[:, seen].T, counts[seen], found) <= module.TOLERANCE * (1 + 1e-6)


def test_the_updates_that_end_where_little_moves_are_short():
    channel, counts = reports_of(ClampedLaplace(256, 0.5), 32)
    seen = counts > 0
    likelihoods, repeats = channel[:, seen].T, counts[seen]
    frequencies, last = np.full(32, 1 / 32), -np.inf
    while (score := repeats @ np.log(likelihoods @ frequencies)) - last > 1e-3:
        last = score
        frequencies = frequencies * (repeats / (likelihoods @ frequencies) @ likelihoods) / repeats.sum()
    best = repeats @ np.log(likelihoods @ likeliest_frequencies(likelihoods, repeats))
    assert best - score > 0.5


@pytest.mark.parametrize("make", [ClampedLaplace, square_wave])
def test_the_smooth_estimate_stays_the_same_if_it_is_updated_and_averaged(make):
    channel, counts = reports_of(make(256, 1.0), 64)
    found = estimate_frequencies(channel, counts, smooth=True)
    again = found * (channel @ (counts / (found @ channel)))
    padded = np.pad(again, 1, mode="edge")
    again = padded[:-2] + 2 * again + padded[2:]
    assert np.abs(again / again.sum() - found).sum() < 2e-6


def test_both_ways_find_the_same(monkeypatch):
    channel, counts = reports_of(square_wave(256, 2.0), 16)
    seen = counts > 0
    newton = likeliest_frequencies(channel[:, seen].T, counts[seen])
    monkeypatch.setattr(module, "_LITTLE_WORK", 0)
    updates = likeliest_frequencies(channel[:, seen].T, counts[seen])
    assert updates == pytest.approx(newton, abs=0.01)


def test_what_is_not_reached_is_said(monkeypatch):
    monkeypatch.setattr(module, "_MOST_WORK", 0)
    monkeypatch.setattr(module, "_FEW_UPDATES", 3)
    channel, counts = reports_of(ClampedLaplace(64, 0.5), 16)
    with pytest.warns(RuntimeWarning, match="the log-likelihood may be up to .* too small"):
        estimate_frequencies(channel, counts, smooth=False)


def test_a_value_that_nothing_speaks_for_has_none():
    likelihoods = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5]])
    assert likeliest_frequencies(likelihoods, np.array([900, 100])) == pytest.approx([0.9, 0.1, 0], abs=0.2)
    one = likeliest_frequencies(np.array([[1e-30, 1.0, 0.0]]), np.array([7]))
    assert one == pytest.approx([0, 1, 0], abs=1e-3)
