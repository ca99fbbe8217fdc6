"""Target of inference: frequencies of the population from which the table was drawn, or counts of the table."""

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import skdp
from skdp.privacy import WeakGuaranteeWarning
from tests.conftest import diagonal, often

VALUES = {"smokes": ["yes", "no"]}
ENCODERS = {
    "response": skdp.RandomizedResponseEncoder(2.0, categories=VALUES),
    "unary": skdp.UnaryEncodingTransformer(2.0, categories=VALUES),
    "hashing": skdp.LocalHashingEncoder(2.0, categories=VALUES),
    "table": skdp.LocalTableEncoder(2.0, categories=VALUES),
    "sets": skdp.SetValuedEncoder(2.0, categories=VALUES, max_size=1),
}


def answers(n_yes, n_no, *, sets=False):
    values = ["yes"] * n_yes + ["no"] * n_no
    return pd.DataFrame({"smokes": [[value] for value in values] if sets else values})


def all_estimates(encoder, n, told):
    """Yield the estimate for each number of "yes" reports among n, and its probability."""
    empty = encoder.protocol_.empty_tally()
    for n_told, probability in enumerate(binom.pmf(range(n + 1), n, told)):
        if probability > 1e-7:  # less likely numbers raise a warning
            tally = empty.with_sums([np.array([n_told, n - n_told]), np.array([n]), np.array([n])])
            yield probability, encoder.estimate_frequencies(tally).loc["yes"]


def coverage(epsilon, n, share):
    """Return the exact coverage over all tables of n people and all their reports of two values."""
    encoder = skdp.RandomizedResponseEncoder(epsilon, categories=VALUES).fit(answers(1, 1))
    (table,) = encoder.channel()
    told = float(table[0][0]) * share + float(table[1][0]) * (1 - share)
    estimates = all_estimates(encoder, n, told)
    return sum(probability * (row["lower"] <= share <= row["upper"]) for probability, row in estimates)


@pytest.mark.parametrize(
    ("share", "epsilon"), diagonal([0.05, 0.3, 0.5], often([0.5, 1.0, 2.0, 4.0, 6.0], [0.5, 2.0, 6.0]))
)
def test_interval_covers_the_proportion_of_the_population(epsilon, share):
    # With a large epsilon, few counts are possible, so the coverage has steps.
    assert 0.93 < coverage(epsilon, 400, share) < 0.975


def smallest_coverage(epsilon, n):
    """Return the exact smallest coverage of a count of the table, over all tables of n people."""
    encoder = skdp.RandomizedResponseEncoder(epsilon, categories=VALUES).fit(answers(1, 1))
    kept, other = map(float, encoder.channel()[0][0])
    empty = encoder.protocol_.empty_tally()
    rows = [
        encoder.estimate_counts(empty.with_sums([np.array([told, n - told]), np.array([n]), np.array([n])])).loc["yes"]
        for told in range(n + 1)
    ]
    bounds = pd.DataFrame(rows)
    coverages = []
    for count in range(n + 1):
        told = np.convolve(binom.pmf(range(count + 1), count, kept), binom.pmf(range(n - count + 1), n - count, other))
        coverages.append(told @ (bounds["lower"].le(count + 1e-9) & bounds["upper"].ge(count - 1e-9)))
    return min(coverages)


@pytest.mark.filterwarnings("ignore:Some estimated counts")  # all numbers of reports, however improbable
@pytest.mark.parametrize("n", often([5, 20, 60, 200], [5, 20]))
def test_guide_states_the_smallest_coverage_of_small_tables(n):
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "estimates.md").read_text(encoding="utf-8")
    stated = re.search(rf"\| {n} \|(.*)\|", guide)[1].replace("%", "").split("|")
    smallest = [smallest_coverage(epsilon, n) for epsilon in (0.5, 1.0, 2.0, 3.0, 5.0)]
    assert list(map(float, stated)) == (np.floor(1000 * np.array(smallest)) / 10).tolist()
    assert "81.0 % is the smallest for 20 people (at 4.5)" in guide
    assert n != 20 or 0.81 <= smallest_coverage(4.5, n) < 0.811


@pytest.mark.parametrize("name", ENCODERS)
def test_counts_are_about_the_table_and_frequencies_about_the_population(name):
    encoder = ENCODERS[name]
    table = answers(300, 700, sets=name == "sets")
    encoder.set_params(random_state=0)
    reports = encoder.fit(table).transform(table)
    counts, shares = encoder.estimate_counts(reports), encoder.estimate_frequencies(reports)
    assert counts.attrs.get("rows", "table") == "table"
    own = encoder.estimate_frequencies(reports, rows="table")
    np.testing.assert_allclose(own["frequency"] * 1000, counts["count"])
    np.testing.assert_allclose(own["std_error"] * 1000, counts["std_error"])
    np.testing.assert_allclose(shares["frequency"], own["frequency"])
    share = np.clip(shares["frequency"], 0, 1)
    expected = np.sqrt(own["std_error"] ** 2 + share * (1 - share) / 1000)
    np.testing.assert_allclose(shares["std_error"], expected)
    as_many = encoder.estimate_counts(reports, rows="population")
    np.testing.assert_allclose(as_many["std_error"], shares["std_error"] * 1000)


def test_variance_of_sampled_columns_adds_up():
    """A record reports one of two columns: the error is the error of half of the people, drawn from the population."""
    values = {"smokes": ["yes", "no"], "drinks": ["yes", "no"]}
    encoder = skdp.RandomizedResponseEncoder(60.0, strategy="sample", categories=values, random_state=0)
    table = pd.DataFrame({"smokes": ["yes"] * 400 + ["no"] * 600, "drinks": ["yes", "no"] * 500})
    with pytest.warns(WeakGuaranteeWarning, match="weak protection"):
        reports = encoder.fit_transform(table)
    tally = encoder.tally(reports)
    row = encoder.estimate_frequencies(reports).loc[("smokes", "yes")]
    share, size = row["frequency"], tally.sizes[0]
    # Sampling from the table, after the table from the population, is one sample from the population.
    assert row["std_error"] == pytest.approx(math.sqrt(share * (1 - share) / size), rel=2e-3)
