"""A lower bound of epsilon, computed in another way than the package does: losses rounded down, no tilt."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from skdp.privacy import GaussianLoss, LaplaceLoss, StatedLoss

POINTS = 1 << 19


def atoms(loss):
    """Return all losses of the worst pair, and their probabilities."""
    if isinstance(loss, LaplaceLoss):
        steps, rate = loss.sensitivity, loss.epsilon / loss.sensitivity
        places = np.arange(steps + 1)
        masses = np.exp(-rate * places) / (1 + math.exp(-rate))
        masses[1:-1] *= -math.expm1(-rate)
        return rate * (steps - 2 * places), masses
    share = 1.0 if isinstance(loss, StatedLoss) else loss.share
    likelier = 1 / (1 + math.exp(-loss.epsilon))
    return np.array([loss.epsilon, -loss.epsilon, 0.0]), np.array([share * likelier, share * (1 - likelier), 1 - share])


def delta_of_gaussian(mu, gaps):
    with np.errstate(over="ignore"):
        first = np.exp(log_ndtr(mu / 2 - gaps / mu))
        second = np.exp(np.minimum(gaps + log_ndtr(-mu / 2 - gaps / mu), 0))
    return np.maximum(first - second, 0)


def lower_epsilon(losses, delta):
    """Return an epsilon at which delta is larger, but for errors of 1e-10, with pairs that are dominated."""
    assert all(getattr(loss, "delta", 0) == 0 for loss in losses)
    mu = math.sqrt(sum(loss.count * loss.mu**2 for loss in losses if isinstance(loss, GaussianLoss)))
    others = [(loss.count, *atoms(loss)) for loss in losses if not isinstance(loss, GaussianLoss)]
    mean = sum(count * float(values @ masses) for count, values, masses in others)
    spread = math.sqrt(sum(count * float(values**2 @ masses) for count, values, masses in others))
    most = sum(count * float(values.max()) for count, values, _ in others)
    step = 2 * min(mean + 16 * spread, most * (1 + 1e-9)) / POINTS or 1.0
    transform = np.ones(POINTS // 2 + 1, complex)
    for count, values, masses in others:
        radii = np.floor(np.abs(values) / step)
        # Both signs of a radius that is rounded down have the probabilities of randomised response with the new one.
        weights = np.zeros(POINTS)
        likelier = 1 / (1 + np.exp(-radii * step))
        np.add.at(weights, radii.astype(int) % POINTS, masses * likelier)
        np.add.at(weights, -radii.astype(int) % POINTS, masses * (1 - likelier))
        transform *= np.fft.rfft(weights) ** count
    masses = np.fft.irfft(transform, POINTS)
    grid = np.where(np.arange(POINTS) < POINTS // 2, np.arange(POINTS), np.arange(POINTS) - POINTS) * step
    kept = masses > 1e-14
    masses, grid = masses[kept], grid[kept]

    def delta_at(epsilon):
        gaps = epsilon - grid
        each = delta_of_gaussian(mu, gaps) if mu else -np.expm1(np.minimum(gaps, 0))
        return float(masses @ each) - 1e-10

    low, high = 0.0, most + 40 * mu + mu**2
    while high - low > 1e-5 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(middle) > delta else (low, middle)
    return low
