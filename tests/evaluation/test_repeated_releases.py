"""Fresh reports average out to the truth, memoised ones do not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from skdp import PrivacyLedger, RandomizedResponseEncoder
from skdp.evaluation import bayes_accuracy, guessing_bound, repeated_releases
from skdp.local import (
    LocalHashingEncoder,
    NumericPerturber,
    SecretKey,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from tests.conftest import each, often

KEY = SecretKey(b"0123456789abcdef")


@pytest.fixture
def people():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"sex": ["F", "M"] * 1000, "job": rng.choice(["a", "b", "c"], 2000, p=[0.5, 0.3, 0.2])})


def encoder(epsilon=1.0, **parameters):
    return RandomizedResponseEncoder(epsilon, **{"categories": {"sex": ["F", "M"]}, "random_state": 0} | parameters)


def test_the_majority_of_fresh_reports_is_right_as_often_as_the_binomial_says(people):
    numbers = [1, 3, 5, 9, 15]
    table = repeated_releases(encoder(), people[["sex"]], n_releases=numbers)
    assert table["n_releases"].tolist() == numbers
    p = float(encoder().fit(people[["sex"]]).oracles_[0].p)
    exact = binom.sf(np.array(numbers) // 2, numbers, p)
    # Five standard errors: once in a million times.
    assert (np.abs(table["accuracy"] - exact) < 5 * np.sqrt(exact * (1 - exact) / len(people))).all()
    assert table["accuracy"].is_monotonic_increasing
    assert (exact <= table["bound"] + 1e-12).all()
    assert table["bound"].tolist() == pytest.approx([guessing_bound([0.5, 0.5], m) for m in numbers])
    assert (table["baseline"] == 0.5).all()


@pytest.mark.parametrize("made", [RandomizedResponseEncoder, UnaryEncodingTransformer, SubsetSelectionEncoder])
def test_one_report_gives_what_the_channel_gives(made, people):
    inner = made(1.5, categories={"job": ["a", "b", "c"]}, random_state=0)
    (row,) = repeated_releases(inner, people[["job"]], n_releases=1).to_dict("records")
    shares = people["job"].value_counts(normalize=True).sort_index()
    exact = bayes_accuracy(inner.fit(people[["job"]]).oracles_[0], shares)
    assert abs(row["accuracy"] - exact) < 5 * row["std_error"]


@pytest.mark.parametrize("strategy", ["split", "sample"])
def test_a_row_for_each_attribute(strategy, people):
    inner = encoder(2.0, strategy=strategy, categories={"sex": ["F", "M"], "job": ["a", "b", "c"]})
    table = repeated_releases(inner, people, n_releases=[1, 40])
    assert table["column"].tolist() == ["sex", "job", "sex", "job"]
    assert (table["accuracy"] <= table["bound"] + 5 * table["std_error"] + 1e-9).all()
    later = table[table["n_releases"] == 40]
    assert (later["accuracy"] > 0.95).all()


def test_joint_cells_are_guessed_together(people):
    inner = encoder(1.0, strategy="joint", categories={"sex": ["F", "M"], "job": ["a", "b", "c"]})
    table = repeated_releases(inner, people, n_releases=[1, 60])
    assert table["column"].tolist() == [("sex", "job")] * 2
    assert table["accuracy"].iloc[1] > 0.95 > 0.5 > table["accuracy"].iloc[0]


@pytest.mark.long
@pytest.mark.parametrize(
    "made",
    often([RandomizedResponseEncoder, UnaryEncodingTransformer, LocalHashingEncoder], [UnaryEncodingTransformer]),
)
def test_memoised_reports_do_not_improve(made, people):
    inner = made(0.5, categories={"job": ["a", "b", "c"]}, memoize=True, secret_key=KEY)
    table = repeated_releases(inner, people[["job"]], n_releases=[1, 2, 10], record_id=np.arange(2000))
    # Whoever took a repeated report for more evidence would forget that "a" is more frequent than "c".
    assert table["accuracy"].nunique() == 1
    assert table["bound"].nunique() == 1
    assert table["accuracy"][0] < 0.65


@pytest.mark.long
def test_a_second_round_averages_out_to_the_permanent_report_and_no_further(people):
    inner = encoder(1.0, memoize=True, secret_key=KEY, instantaneous_epsilon=0.3, random_state=None)
    table = repeated_releases(inner, people[["sex"]], n_releases=[1, 100], record_id=np.arange(2000))
    once, often = table["accuracy"]
    assert once < 0.63
    # The permanent report is right with probability e / (e + 1) = .731; five standard errors are .05.
    assert abs(often - 0.731) < 0.05
    assert table["bound"].tolist() == pytest.approx([guessing_bound([0.5, 0.5], 0.3), guessing_bound([0.5, 0.5], 1.0)])


def test_the_ledger_and_the_original_are_left_alone(people, make_frame):
    ledger = PrivacyLedger(epsilon=0.1)
    inner = encoder(ledger=ledger)
    frame = make_frame({"sex": people["sex"].tolist()}, {"sex": ["F", "M"]})
    first = repeated_releases(inner, frame, n_releases=[2])
    assert ledger.spent == (0, 0)
    assert not hasattr(inner, "guarantee_")
    pd.testing.assert_frame_equal(first, repeated_releases(inner, people[["sex"]], n_releases=[2]))


@each(
    "options, error, message",
    [
        ({"n_releases": "3"}, TypeError, "n_releases must be a list of numbers, got str"),
        ({"n_releases": []}, ValueError, "n_releases must be whole numbers from 1"),
        ({"n_releases": [0]}, ValueError, "n_releases must be whole numbers from 1"),
        ({"n_releases": [True]}, ValueError, "n_releases must be whole numbers from 1"),
        ({"encoder": NumericPerturber()}, TypeError, "encoder must be a local transformer with frequency oracles"),
        ({"record_id": [1]}, ValueError, "record_id requires permanent reports"),
        (
            {"encoder": encoder(categories={"sex": ["F", "x"]}, handle_unknown="uniform")},
            ValueError,
            "column 'sex' holds",
        ),
    ],
)
def test_mistakes_are_named(options, error, message, people):
    with pytest.raises(error, match=message):
        repeated_releases(**{"encoder": encoder(), "X": people[["sex"]]} | options)
