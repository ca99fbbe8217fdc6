"""Crafted reports move the estimates by exactly what is said."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from skdp import RandomizedResponseEncoder
from skdp.evaluation import poisoning_gain
from skdp.local import (
    FrequencyOracleEncoder,
    HadamardResponseEncoder,
    LocalHashingEncoder,
    NumericPerturber,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)

CATEGORIES = {"job": ["a", "b", "c", "d", "e"]}
N, FAKE = 500, 40


@pytest.fixture
def people():
    return pd.DataFrame({"job": np.random.default_rng(0).choice([*"abcde"], N)})


def crafted(encoder, reports):
    """Take a report that supports "a": of unary encoding the one of ones alone, of the others a genuine one."""
    (part,) = encoder.protocol_.read(reports)
    if isinstance(encoder, UnaryEncodingTransformer):
        one = reports.iloc[:1].copy()
        one[:] = 1
        return one
    return reports.iloc[[int(np.flatnonzero(encoder.oracles_[0].supports(part)[:, 0])[0])]]


@pytest.mark.parametrize(
    "encoder",
    [
        RandomizedResponseEncoder(1.0, categories=CATEGORIES, random_state=0),
        UnaryEncodingTransformer(1.0, categories=CATEGORIES, random_state=0),
        UnaryEncodingTransformer(1.0, variant="symmetric", categories=CATEGORIES, random_state=0),
        SubsetSelectionEncoder(0.5, categories=CATEGORIES, random_state=0),
        LocalHashingEncoder(1.0, categories=CATEGORIES, random_state=0),
        HadamardResponseEncoder(1.0, categories=CATEGORIES, random_state=0),
        HadamardResponseEncoder(5.0, categories=CATEGORIES, random_state=0),
        FrequencyOracleEncoder(1.0, oracle="count_mean_sketch", categories=CATEGORIES, random_state=0),
    ],
    ids=lambda encoder: type(encoder).__name__,
)
def test_the_estimates_move_by_exactly_as_much(encoder, people):
    reports = encoder.fit(people).transform(people)
    fake = crafted(encoder, reports)
    arrays = encoder.protocol_.read(pd.concat([reports, *[fake] * FAKE]))
    poisoned = encoder.protocol_.tally(arrays)  # `estimate_counts` warns of so many fake reports
    moved = (encoder.protocol_.estimate(poisoned) - encoder.estimate_counts(reports))["count"].to_numpy()
    gain = poisoning_gain(encoder, FAKE, N).loc["job"]
    (part,) = encoder.protocol_.read(fake)
    supported = encoder.oracles_[0].supports(part)[0]
    assert moved[supported] == pytest.approx(np.full(supported.sum(), gain["shift"]), rel=1e-9)
    assert gain["shift"] == pytest.approx(FAKE * gain["raised_by_one"])
    lowered = moved[~supported] / FAKE
    if isinstance(encoder, HadamardResponseEncoder):  # values of other blocks stay as they are
        lowered = lowered[np.abs(lowered) > 1e-9]
    assert lowered == pytest.approx(np.full(lowered.size, -gain["lowered_by_one"]), rel=1e-9)
    if not math.isnan(gain["values_at_once"]):
        assert supported.sum() <= gain["values_at_once"] <= 5
    assert moved.max() <= gain["shift"] + 1e-9


def test_bits_raise_all_values_at_once_and_labels_one():
    frame = pd.DataFrame({"job": ["a"]})
    response = poisoning_gain(RandomizedResponseEncoder(1.0, categories=CATEGORIES).fit(frame), 10, 1000).loc["job"]
    bits = poisoning_gain(UnaryEncodingTransformer(1.0, categories=CATEGORIES).fit(frame), 10, 1000).loc["job"]
    assert (response["values_at_once"], bits["values_at_once"]) == (1, 5)
    p = math.e / (math.e + 4)
    q = 1 / (math.e + 4)
    assert response["raised_by_one"] == pytest.approx((1 - q) / (p - q))
    assert response["std_error"] == pytest.approx(math.sqrt(1000 * q * (1 - q)) / (p - q))
    assert response["shift_in_std_errors"] == pytest.approx(response["shift"] / response["std_error"])
    q = 1 / (math.e + 1)
    assert bits["raised_by_one"] == pytest.approx((1 - q) / (0.5 - q))


def test_less_epsilon_gives_fakes_more_weight():
    frame = pd.DataFrame({"job": ["a"]})
    gains = [
        poisoning_gain(RandomizedResponseEncoder(e, categories=CATEGORIES).fit(frame), 1, 1)["raised_by_one"].item()
        for e in (8.0, 2.0, 0.5, 0.1)
    ]
    assert gains == sorted(gains)
    assert gains[0] == pytest.approx(1, abs=0.01)


def test_a_row_for_each_attribute():
    frame = pd.DataFrame({"job": ["a"], "sex": ["F"]})
    domain = {"job": [*"abcde"], "sex": ["F", "M"]}
    split = poisoning_gain(RandomizedResponseEncoder(1.0, categories=domain).fit(frame), 5, 100)
    assert split.index.tolist() == ["job", "sex"]
    joint = poisoning_gain(RandomizedResponseEncoder(1.0, strategy="joint", categories=domain).fit(frame), 0, 100)
    assert joint.index.tolist() == [("job", "sex")]
    assert joint["shift"].tolist() == [0]


def test_reports_that_say_nothing_are_magnified_without_end():
    encoder = RandomizedResponseEncoder(1e-30, categories=CATEGORIES).fit(pd.DataFrame({"job": ["a"]}))
    assert poisoning_gain(encoder, 1, 1)["raised_by_one"].item() == math.inf


def test_mistakes_are_named():
    frame = pd.DataFrame({"job": ["a"]})
    fitted = RandomizedResponseEncoder(categories=CATEGORIES).fit(frame)
    for number, error in ((-1, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="n_fake"):
            poisoning_gain(fitted, number, 1)
    with pytest.raises(ValueError, match="n_genuine must be at least 1, got 0"):
        poisoning_gain(fitted, 1, 0)
    with pytest.raises(TypeError, match="encoder must be a local transformer"):
        poisoning_gain(NumericPerturber(), 1, 1)
    with pytest.raises(NotFittedError):
        poisoning_gain(RandomizedResponseEncoder(categories=CATEGORIES), 1, 1)
    with pytest.raises(ValueError, match="strategy='sample'"):
        poisoning_gain(RandomizedResponseEncoder(categories=CATEGORIES, strategy="sample").fit(frame), 1, 1)
