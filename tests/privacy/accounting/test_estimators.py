"""What the estimators of skdp state of their losses."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from skdp import (
    Domain,
    DPHistogram,
    DPMarginalSynthesizer,
    Interval,
    LocalHashingEncoder,
    RandomizedResponseEncoder,
    UnaryEncodingTransformer,
)
from skdp.privacy import GaussianLoss, PureLoss, compose, gaussian_epsilon
from tests.privacy.accounting.test_exact import exp, pair_of

JOBS = [f"job {i}" for i in range(20)]
FRAME = pd.DataFrame({"job": JOBS * 3, "sex": ["f", "m"] * 30})


@pytest.mark.parametrize("encoder", [RandomizedResponseEncoder, UnaryEncodingTransformer, LocalHashingEncoder])
@pytest.mark.parametrize("strategy", ["split", "sample", "joint"])
def test_reports_state_the_total_variation_of_their_channels(encoder, strategy):
    fitted = encoder(1.0, categories={"job": JOBS, "sex": ["f", "m"]}, strategy=strategy).fit(FRAME)
    losses = fitted.guarantee_.losses
    assert all(isinstance(loss, PureLoss) for loss in losses)
    assert sum(loss.count * loss.epsilon for loss in losses) == pytest.approx(fitted.guarantee_.epsilon)
    assert sum(loss.count for loss in losses) == (2 if strategy == "split" else 1)
    together = compose([fitted.guarantee_] * 20, delta=1e-6)
    assert together.epsilon < 0.999 * compose([without_losses(fitted.guarantee_)] * 20, delta=1e-6).epsilon


def without_losses(guarantee):
    return type(guarantee)(guarantee.epsilon, scope=guarantee.scope)


def test_all_reports_of_changing_values_state_no_losses_of_one():
    encoder = RandomizedResponseEncoder(1.0, categories={"job": JOBS}, memoize=True, secret_key=b"k" * 32)
    encoder.fit(FRAME[["job"]])
    changes = encoder.guarantee_for_changes(3)
    assert changes.losses == ()
    assert changes.epsilon == pytest.approx(3)


def test_counts_are_randomised_response_on_each_level():
    for size, method in ((4, "flat"), (512, "hierarchical")):
        domain = Domain({"age": Interval(0, size, bins=size)})
        histogram = DPHistogram(1.0, domain=domain, method=method).fit(pd.DataFrame({"age": np.arange(4.0)}))
        losses = histogram.guarantee_.losses
        if method == "flat":
            assert losses in ((), (PureLoss(1.0),))
        else:
            assert losses[0].count > 1
            assert losses[0].epsilon == pytest.approx(1 / losses[0].count)


def test_synthetic_tables_with_gaussian_noise_are_composed_as_such():
    domain = {"job": JOBS, "sex": ["f", "m"]}
    made = DPMarginalSynthesizer(1.0, delta=1e-6, domain=domain, marginals="independent").fit(FRAME)
    (loss,) = made.guarantee_.losses
    assert isinstance(loss, GaussianLoss)
    assert gaussian_epsilon(loss.mu, 1e-6) == pytest.approx(1, rel=1e-9)
    four = compose([made.guarantee_] * 4, delta=1e-6)
    assert four.epsilon == pytest.approx(gaussian_epsilon(2 * loss.mu, 1e-6), rel=1e-9)
    assert four.epsilon < 2.3


@pytest.mark.parametrize("strategy", ["split", "sample", "joint"])
def test_the_channel_of_all_columns_is_dominated_by_the_losses(strategy):
    """Enumerated: the divergence of any two records is at most that of the stated pairs together."""
    fitted = RandomizedResponseEncoder(0.8, categories={"a": [0, 1, 2], "b": [0, 1]}, strategy=strategy)
    fitted.fit(pd.DataFrame({"a": [0, 1], "b": [0, 1]}))
    parts = [oracle.channel() for oracle in fitted.oracles_]
    if strategy == "joint":
        rows = parts[0]
    elif strategy == "sample":
        rows = [[p / 2 for p in first] + [p / 2 for p in second] for first in parts[0] for second in parts[1]]
    else:
        rows = [[p * q for p in first for q in second] for first in parts[0] for second in parts[1]]
    pairs = [pair_of(loss) for loss in fitted.guarantee_.losses for _ in range(loss.count)]
    totals = [
        (sum(value for value, _ in outcome), math.prod(mass for _, mass in outcome))
        for outcome in itertools.product(*(pair.items() for pair in pairs))
    ]
    for step in range(12):
        order = exp(Fraction(step, 11) * Fraction(0.8))
        reached = max(
            sum(max(Fraction(0), p - order * q) for p, q in zip(one, other, strict=True))
            for one, other in itertools.permutations(rows, 2)
        )
        stated = sum(max(Fraction(0), mass * (1 - order * exp(-value))) for value, mass in totals)
        assert reached <= stated * (1 + Fraction(1, 10**12)) + Fraction(1, 10**15)
        assert stated <= reached * Fraction(3, 2) + Fraction(1, 100)
