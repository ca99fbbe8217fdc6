"""Rows, targets and groups with the same row labels in different orders are refused: they are matched by position."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp import RandomizedResponseEncoder
from skdp.evaluation import attribute_inference, privacy_curve
from tests.conftest import each

RNG = np.random.default_rng(0)
N = 200
GROUP = pd.Series(RNG.choice(["a", "b"], N), name="group")
X = pd.DataFrame({"group": GROUP})
Y = pd.Series((RNG.random(N) < np.where(GROUP == "b", 0.7, 0.4)).astype(int), name="y")
ENCODER = RandomizedResponseEncoder(1.0, categories={"group": ["a", "b"]}, random_state=0).fit(X)
MODEL = make_pipeline(ENCODER, OneHotEncoder(), LogisticRegression())
CURVE_INPUTS = {"X": X, "y": Y}


def curve(**inputs):
    return privacy_curve(
        MODEL,
        **inputs,
        param_name="randomizedresponseencoder__epsilon",
        epsilons=[1.0],
        scoring="accuracy",
        cv=2,
        random_state=0,
    )


@each("name", CURVE_INPUTS)
def test_a_curve_refuses_the_same_labels_in_another_order(name):
    reordered = CURVE_INPUTS[name].sample(frac=1, random_state=1)
    with pytest.raises(ValueError, match=r"has the labels of \w+ in another order"):
        curve(**CURVE_INPUTS | {name: reordered})


def test_a_curve_matches_other_labels_by_position():
    expected = curve(**CURVE_INPUTS)
    relabelled = {name: rows.set_axis(rows.index[::-1]) for name, rows in CURVE_INPUTS.items()}
    pd.testing.assert_frame_equal(curve(**relabelled), expected)
    relabelled = CURVE_INPUTS | {"y": Y.set_axis(Y.index + N)}
    pd.testing.assert_frame_equal(curve(**relabelled), expected)


ATTACK_INPUTS = {"released": ENCODER.transform(X), "sensitive": GROUP}


@each("name", ATTACK_INPUTS)
def test_an_attack_refuses_the_same_labels_in_another_order(name):
    reordered = ATTACK_INPUTS[name].sample(frac=1, random_state=1)
    with pytest.raises(ValueError, match=r"has the labels of \w+ in another order"):
        attribute_inference(**ATTACK_INPUTS | {name: reordered}, encoder=ENCODER, random_state=0)
