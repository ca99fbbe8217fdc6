"""Stated losses of mechanisms compared with exact distributions: no neighbors exceed them at any epsilon."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from skdp.privacy import PureLoss, exponential_loss, laplace_loss

STEPS = 25


def divergences(loss, orders):
    """Return the divergences of the pair of a loss, of orders e to these."""
    return loss.share * np.maximum(0, -np.expm1(orders - loss.epsilon)) / (1 + math.exp(-loss.epsilon))


def find_divergences(one, other, orders):
    """Return the larger divergences of two distributions."""
    factors = np.exp(orders)[:, np.newaxis]
    forth, back = (
        np.maximum(first - factors * second, 0).sum(axis=1) for first, second in ((one, other), (other, one))
    )
    return np.maximum(forth, back)


def orders_of(loss):
    return np.linspace(0, 1.01 * loss.epsilon, STEPS)


def excess(one, other, loss):
    """Return the excess of two distributions over the allowed loss: the largest and the smallest one."""
    gaps = find_divergences(one, other, orders_of(loss)) - divergences(loss, orders_of(loss))
    return gaps.max(), gaps.min()


def laplace_pmf(rate, shift, radius):
    pmf = np.exp(-rate * np.abs(np.arange(-radius, radius + 1) - shift))
    return pmf * math.tanh(rate / 2)  # the sum over all integers is (1 + q) / (1 - q)


def joint_laplace(rate, shifts, radius):
    pmfs = [laplace_pmf(rate, shift, radius) for shift in shifts]
    pmf = pmfs[0]
    for further in pmfs[1:]:
        pmf = np.multiply.outer(pmf, further)
    return pmf.ravel()


@pytest.mark.parametrize("sensitivity", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("epsilon", [0.05, 0.7, 3.0])
def test_change_by_one_integer_attains_the_total_variation(sensitivity, epsilon):
    loss, rate = laplace_loss(Fraction(epsilon), sensitivity), epsilon / sensitivity
    radius = sensitivity + math.ceil(40 / rate)
    one, other = laplace_pmf(rate, 0, radius), laplace_pmf(rate, sensitivity, radius)
    assert excess(one, other, loss)[0] < 1e-12
    ends = np.array([0.0, epsilon])
    assert find_divergences(one, other, ends) == pytest.approx(divergences(loss, ends), abs=1e-12)


@pytest.mark.parametrize("shifts", [(1, 1), (2, 1), (1, -3), (2, -2), (4, 0), (0, 3), (1, 0)])
@pytest.mark.parametrize("rate", [0.5, 1.5])
def test_changes_by_several_integers_are_within_the_loss(shifts, rate):
    radius = 4 + math.ceil(34 / rate)
    sensitivity = 4
    loss = laplace_loss(Fraction(rate) * sensitivity, sensitivity)
    one, other = joint_laplace(rate, (0, 0), radius), joint_laplace(rate, shifts, radius)
    assert excess(one, other, loss)[0] < 1e-12


def cube_pmf(rate, shift, radius):
    axes = np.meshgrid(*[np.arange(-radius, radius + 1)] * len(shift), indexing="ij")
    norm = np.max([np.abs(axis - index) for axis, index in zip(axes, shift, strict=True)], axis=0)
    return np.exp(-rate * norm).ravel()


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("sensitivity", [1, 2, 3])
def test_cube_noise_is_at_most_laplace_noise(dimension, sensitivity):
    """For all changes of each number by at most the sensitivity; a change of all of them attains it nearly."""
    rate = 1.3
    radius = {2: 30, 3: 16}[dimension]  # the excluded tail is below 1e-6
    loss = laplace_loss(Fraction(rate) * sensitivity, sensitivity)
    # Over all integers: the surfaces of all cubes.
    volumes = np.append(0, (2.0 * np.arange(200) + 1) ** dimension)
    whole = np.exp(-rate * np.arange(200)) @ np.diff(volumes)
    one = cube_pmf(rate, (0,) * dimension, radius) / whole
    for shift in itertools.combinations_with_replacement(range(sensitivity + 1), dimension):
        other = cube_pmf(rate, shift, radius) / whole
        assert excess(one, other, loss)[0] < 1e-12
    if sensitivity == 3:
        # The last shift changes all numbers by the sensitivity: with more steps, it is closer.
        assert find_divergences(one, other, np.zeros(1)) > 0.8 * divergences(loss, np.zeros(1))


def test_longer_chain_has_a_smaller_loss():
    shares = [laplace_loss(Fraction(1, 2), sensitivity).share for sensitivity in (1, 3, 5, 10**30 + 1, 10**30, 2)]
    assert shares == sorted(shares, reverse=True)
    assert laplace_loss(Fraction(1, 2), 1) == PureLoss(0.5)
    assert laplace_loss(Fraction(1, 10**400)).epsilon > 0
    assert laplace_loss(Fraction(10**5)) == PureLoss(1e5)


def flip_pmf(scores, rate):
    """Return the probabilities of permute-and-flip: one of the heads is chosen uniformly, over all sets of heads."""
    best = max(scores)
    coins = [math.exp(-rate * (best - score)) for score in scores]
    pmf = np.zeros(len(scores))
    for heads in itertools.product([False, True], repeat=len(scores)):
        share = math.prod(coin if head else 1 - coin for coin, head in zip(coins, heads, strict=True))
        if any(heads):
            pmf += share * np.array(heads) / sum(heads)
    return pmf


def exponential_pmf(scores, rate):
    pmf = np.exp(rate * (np.array(scores) - max(scores)))
    return pmf / pmf.sum()


@pytest.mark.parametrize("pmf", [flip_pmf, exponential_pmf])
def test_choices_are_within_their_stated_loss(pmf):
    """All scores up to 3 of three candidates, and all changes by up to 2 from each other."""
    triples = np.array(list(itertools.product(range(6), repeat=3)))
    low, after = (triples < 4).all(axis=1), triples[:, np.newaxis] - triples
    # Only differences of changes matter, so the smallest change is 0.
    neighbors = (after.min(axis=2) == 0) & (after.max(axis=2) <= 2)
    for epsilon in (0.4, 2.0, 6.0):
        exact = Fraction(epsilon)
        loss = laplace_loss(exact) if pmf is flip_pmf else exponential_loss(exact)
        orders = orders_of(loss)
        pmfs = np.array([pmf(tuple(scores), epsilon / 2) for scores in triples.tolist()])
        largest = np.zeros(STEPS)
        for one in np.flatnonzero(low):
            for other in np.flatnonzero(neighbors[:, one]):
                largest = np.maximum(largest, find_divergences(pmfs[one], pmfs[other], orders))
        stated = divergences(loss, orders)
        assert (largest <= stated + 1e-12).all()
        assert largest[0] > 0.8 * stated[0]
