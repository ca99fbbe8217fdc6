"""`data_unfairness`: by enumeration, and the derivation of the two-valued case that the documentation states."""

import math
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import (
    DPMean,
    LocalHashingEncoder,
    RandomizedResponseEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.metrics import data_unfairness
from tests.conftest import each

RNG = np.random.default_rng(3)
PEOPLE = pd.DataFrame({"race": RNG.choice(list("abc"), 400, p=[0.6, 0.3, 0.1]), "sex": RNG.choice(["f", "m"], 400)})
HIRED = np.where(
    RNG.random(400) < PEOPLE["race"].map({"a": 0.6, "b": 0.3, "c": 0.1}) + 0.2 * (PEOPLE["sex"] == "m"), "yes", "no"
)
VALUES = {"race": list("abc"), "sex": ["f", "m"]}


def unfairness(encoder, columns, **options):
    encoder = encoder.set_params(categories={name: VALUES[name] for name in columns}).fit(PEOPLE[columns])
    return data_unfairness(HIRED, PEOPLE[columns], encoder, positive_label="yes", **options)


def enumerated(channel, cells):
    """From the definition: P(y = + | z) for all reports z."""
    shares = []
    for probabilities in np.transpose(channel):
        weights = np.array(probabilities, dtype=float)[cells]
        if weights.sum() > 0:
            shares.append((weights * (HIRED == "yes")).sum() / weights.sum())
    return max(shares) - min(shares)


@each(
    "encoder",
    [
        RandomizedResponseEncoder(0.7),
        UnaryEncodingTransformer(0.7),
        SubsetSelectionEncoder(0.7),
    ],
)
def test_it_is_the_definition(encoder):
    cells = PEOPLE["race"].map({"a": 0, "b": 1, "c": 2}).to_numpy()
    value = unfairness(encoder, ["race"])
    assert value == pytest.approx(enumerated(encoder.oracles_[0].channel(), cells))
    # Of any library, and as a column.
    for column in (pl.DataFrame(PEOPLE[["race"]].to_dict("list")), PEOPLE["race"], PEOPLE["race"].to_list()):
        assert data_unfairness(HIRED, column, encoder, positive_label="yes") == value


def test_several_columns_together_and_the_ends():
    joint = RandomizedResponseEncoder(1.0, strategy="joint")
    value = unfairness(joint, ["race", "sex"])
    cells = PEOPLE["race"].map({"a": 0, "b": 1, "c": 2}).to_numpy() * 2 + (PEOPLE["sex"] == "m").to_numpy()
    assert value == pytest.approx(enumerated(joint.oracles_[0].channel(), cells))
    rates = pd.Series(HIRED == "yes").groupby(PEOPLE["race"]).mean()
    true = rates.max() - rates.min()
    assert unfairness(RandomizedResponseEncoder(30.0), ["race"]) == pytest.approx(true, abs=1e-9)
    assert unfairness(RandomizedResponseEncoder(1e-6), ["race"]) < 1e-6
    values = [unfairness(RandomizedResponseEncoder(epsilon), ["race"]) for epsilon in (0.5, 1.0, 2.0, 4.0)]
    assert values == sorted(values)


# Two values: the channel tells a 0 truly with probability p and a 1 with q. Shares pi
# and rates r of the values.


def of_channel(p, q, share, rates):
    """Unfairness and error of a channel of two values: the formula and the definition."""
    kept = p + q - 1
    reported = share * q + (1 - share) * (1 - p)
    first = ((1 - share) * rates[0] * (1 - p) + share * rates[1] * q) / reported
    second = ((1 - share) * rates[0] * p + share * rates[1] * (1 - q)) / (1 - reported)
    return abs(first - second), reported * (1 - reported) / kept**2


def literature(epsilon, share):
    """The channel of arXiv 2511.16377: the rarer value is told truly with 1 - exp(-eps)/2, the other with 1/2."""
    often = 1 - math.exp(-epsilon) / 2
    return (0.5, often) if share < 0.5 else (often, 0.5)


def response(epsilon):
    truth = 1 / (1 + math.exp(-epsilon))
    return truth, truth


def test_unfairness_times_error_times_what_is_told_is_constant():
    for p, q, share in product((0.5, 0.6, 0.8, 0.95), (0.55, 0.7, 0.99), (0.05, 0.3, 0.5, 0.8)):
        value, error = of_channel(p, q, share, (0.2, 0.7))
        assert value * error * (p + q - 1) == pytest.approx(0.5 * share * (1 - share))


def test_randomised_response_is_the_formula():
    rng = np.random.default_rng(0)
    group = rng.random(5000) < 0.3
    label = 1 * (rng.random(5000) < np.where(group, 0.7, 0.2))
    rates = label[~group].mean(), label[group].mean()
    encoder = RandomizedResponseEncoder(1.3, categories={"g": [False, True]}).fit(pd.DataFrame({"g": group}))
    expected, _ = of_channel(*response(1.3), group.mean(), rates)
    assert data_unfairness(label, group, encoder) == pytest.approx(expected)


def test_no_private_channel_of_two_values_beats_randomised_response_of_the_same_error():
    """Of all private channels with the error of randomised response, that one has no more unfairness than 20 % less."""
    for epsilon, share in product((0.5, 1.0, 2.0), (0.1, 0.33, 0.5)):
        bound = math.exp(epsilon)
        _, least_error = of_channel(*response(epsilon), share, (0.2, 0.7))
        for p, q in product(np.linspace(0.01, 0.99, 99), repeat=2):
            is_private = q <= bound * (1 - p) and p <= bound * (1 - q)
            if not is_private or p + q <= 1.02:
                continue
            value, error = of_channel(p, q, share, (0.2, 0.7))
            assert error >= least_error * (1 - 1e-9)
            # Randomised response of the same error, at an epsilon that is no larger.
            told = 1 / math.sqrt(4 * error + (1 - 2 * share) ** 2)
            smaller = 2 * math.atanh(told)
            assert smaller <= epsilon * (1 + 1e-9)
            same, same_error = of_channel(*response(smaller), share, (0.2, 0.7))
            assert same_error == pytest.approx(error)
            best = math.sqrt(1 - 4 * told**2 * (share - 0.5) ** 2)
            assert value >= same * best * (1 - 1e-9)


def test_the_optimum_of_the_literature_is_dominated_above_a_quarter():
    for epsilon, share in product((0.5, 1.0, 4.0, 8.0), (0.05, 0.2, 0.25, 0.33, 0.5)):
        value, error = of_channel(*literature(epsilon, share), share, (0.2, 0.7))
        kept = (1 - math.exp(-epsilon)) / 2
        told = 1 / math.sqrt(4 * error + (1 - 2 * share) ** 2)
        same, _ = of_channel(*response(2 * math.atanh(told)), share, (0.2, 0.7))
        assert value / same == pytest.approx(1 / math.sqrt(1 + (1 - 4 * share) * kept**2))
        assert (value > same * (1 + 1e-12)) == (share > 0.25)
        assert value > 0.894 * same
        # It tells as little as randomised response at a small epsilon, however large its own is.
        assert 2 * math.atanh(told) < (math.log(3) if share <= 0.25 else 1.317)


@each(
    "encoder columns message",
    [
        (RandomizedResponseEncoder(1.0), ["race", "sex"], "strategy='joint'; it reports 2 one by one"),
        (LocalHashingEncoder(1.0), ["race"], "those of local hashing"),
    ],
)
def test_encoders_with_several_channels_are_refused(encoder, columns, message):
    with pytest.raises(ValueError, match=message):
        unfairness(encoder, columns)


def test_what_does_not_fit_is_refused():
    encoder = RandomizedResponseEncoder(1.0, categories={"race": list("abc")}).fit(PEOPLE[["race"]])
    for arguments, message in (
        ((HIRED[:9], PEOPLE["race"]), "y has 9 labels, sensitive_features has 400 rows"),
        ((HIRED, PEOPLE[["sex"]]), r"lacks the columns \['race'\]"),
        ((HIRED, PEOPLE["sex"]), "column 'race' holds values that the encoder does not declare"),
        ((HIRED[:0], PEOPLE["race"][:0]), "at least one row"),
    ):
        with pytest.raises(ValueError, match=message):
            data_unfairness(*arguments, encoder, positive_label="yes")
    with pytest.raises(ValueError, match="positive_label must be given"):
        data_unfairness(HIRED, PEOPLE["race"], encoder)
    with pytest.raises(TypeError, match="fitted local transformer"):
        data_unfairness(HIRED, PEOPLE["race"], DPMean(bounds=(0, 1)))
    joint = RandomizedResponseEncoder(1.0, strategy="joint", categories=VALUES).fit(PEOPLE)
    with pytest.raises(ValueError, match=r"must have the columns \['race', 'sex'\]"):
        data_unfairness(HIRED, PEOPLE["race"], joint, positive_label="yes")
