"""Sums that reports of no true values have are refused, and those of honest reports never are."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from skdp import (
    FrequencyOracleEncoder,
    HadamardResponseEncoder,
    LocalHashingEncoder,
    RandomizedResponseEncoder,
    RapporEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.local import LocalTableEncoder, PosteriorFeatures, SecretKey, SetValuedEncoder, UnverifiedReportsWarning
from skdp.metrics import debiased_fairness

VALUES = [f"v{number}" for number in range(8)]
SKEWED = pd.DataFrame({"x": np.repeat(VALUES, [3_400, 1_800, 900, 700, 500, 400, 200, 100])})
ONE_VALUE = pd.DataFrame({"x": ["v0"] * 8_000})
ENCODERS = {
    "response": RandomizedResponseEncoder,
    "unary": UnaryEncodingTransformer,
    "subset": SubsetSelectionEncoder,
    "hashing": LocalHashingEncoder,
    "Hadamard": HadamardResponseEncoder,
    "sketch": lambda *args, **options: FrequencyOracleEncoder(*args, oracle="count_mean_sketch", **options),
}


def encoder_of(kind, epsilon, **options):
    return ENCODERS[kind](epsilon, categories={"x": VALUES}, **options).fit(SKEWED)


@pytest.mark.parametrize("kind", ENCODERS)
def test_honest_tables_and_their_parts_pass(kind):
    encoder = encoder_of(kind, 1.0, random_state=3)
    reports = encoder.transform(SKEWED)
    again = pd.concat([reports, encoder.transform(SKEWED)])
    for part in (reports, reports[:1], reports[::7], reports.sample(frac=1, random_state=1), again):
        encoder.estimate_counts(part)
        encoder.estimate_counts(encoder.tally(part))


@pytest.mark.parametrize("kind", ENCODERS)
def test_reports_of_another_epsilon_are_refused(kind):
    encoder, other = (encoder_of(kind, epsilon, random_state=4) for epsilon in (1.0, 4.0))
    if kind == "response":
        foreign = other.transform(ONE_VALUE).to_numpy()
    else:  # the same reports with less noise
        foreign = encoder.encode(ONE_VALUE) if kind in ("unary", "subset") else without_noise(encoder)
    foreign = pd.DataFrame(foreign, columns=encoder.get_feature_names_out())
    mixed, encoder = pd.concat([encoder.transform(ONE_VALUE), foreign, foreign]), server(encoder)
    with pytest.raises(ValueError, match="the reports of 'x' have sums that reports of this transformer cannot have"):
        encoder.estimate_counts(mixed)
    with pytest.raises(ValueError, match="epsilon may be among them, values may have been overwritten"):
        encoder.estimate_counts(encoder.tally(mixed))


def server(encoder):
    """The same transformer, which has made no reports itself."""
    return type(encoder).from_json(encoder.to_json())


def bare(reports):
    """The reports without notes."""
    reports.attrs = {}
    return reports


def without_noise(encoder):
    """The reports of the first value that support it."""
    reports = encoder.transform(ONE_VALUE).to_numpy()
    protocol = encoder.protocol_
    supports = protocol.oracles[0].supports(protocol.read(pd.DataFrame(reports, columns=protocol.report_columns))[0])
    return reports[supports[:, 0]]


def test_no_column_that_nobody_asks_for_is_refused():
    people = pd.DataFrame({"sex": ["f", "m"] * 4_000, "city": ["a", "b", "c", "d"] * 2_000})
    encoder = RandomizedResponseEncoder(2.0, categories={"sex": ["f", "m"], "city": list("abcd")}).fit(people)
    women = encoder.transform(people).query("sex == 'f'")
    assert encoder.estimate_counts(women, columns=["city"])["count"].min() > 300
    with pytest.raises(ValueError, match="the reports of 'sex' have sums"):
        encoder.estimate_counts(women)
    with pytest.raises(ValueError, match="rows may have been chosen by their reports"):
        encoder.estimate_joint_counts(women)


def test_sets_of_another_size_are_refused():
    first, second = (SubsetSelectionEncoder(epsilon, categories={"x": VALUES}).fit(SKEWED) for epsilon in (0.5, 1.5))
    assert [encoder.oracles_[0].subset_size for encoder in (first, second)] == [3, 2]
    uniform = pd.DataFrame({"x": VALUES * 10})  # of so few records, no count is unlikely by itself
    both = bare(pd.concat([first.transform(uniform), second.transform(uniform)]))
    with pytest.raises(ValueError, match="have sums that reports of this transformer cannot have"):
        server(first).estimate_counts(both)
    server(first).estimate_counts(both[:80])


def test_between_five_and_seven_standard_errors_it_is_a_warning():
    encoder = RandomizedResponseEncoder(1.0, categories={"x": ["a", "b"]}).fit(pd.DataFrame({"x": ["a", "b"]}))
    n, q = 10_000, float(encoder.oracles_[0].q)
    spread = np.sqrt(n * q * (1 - q))

    def estimate(errors):
        ones = round(n * q - errors * spread)
        return encoder.estimate_counts(pd.DataFrame({"x": ["a"] * ones + ["b"] * (n - ones)}))

    for errors in (0, 2, 4.7):
        estimate(errors)
    for errors in (5.1, 6.7):
        with pytest.warns(UnverifiedReportsWarning, match="fewer than one of 1,000,000 tables") as caught:
            estimate(errors)
        assert caught[0].filename == __file__
    for errors in (7.5, 20):
        with pytest.raises(ValueError, match="cannot have, whatever the true values"):
            estimate(errors)


def test_a_bootstrap_is_never_refused():
    # A value that nobody has, drawn again with replacement: the variance of its count is that of two tables.
    encoder = RandomizedResponseEncoder(1.0, categories={"x": VALUES}, random_state=0).fit(SKEWED)
    reports = encoder.transform(pd.DataFrame({"x": VALUES[:4] * 500}))
    rng = np.random.default_rng(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnverifiedReportsWarning)
        for _ in range(200):
            encoder.estimate_counts(encoder.tally(reports.iloc[rng.integers(len(reports), size=len(reports))]))


def test_permanent_reports_may_come_from_several_releases():
    encoder = RandomizedResponseEncoder(
        1.0, categories={"x": VALUES}, memoize=True, secret_key=SecretKey(b"a key of sixteen bytes")
    ).fit(SKEWED)
    people = pd.DataFrame({"x": VALUES[:2] * 200})
    year = bare(pd.concat([encoder.transform(people, record_id=np.arange(400))] * 30))
    assert len(server(encoder).estimate_counts(year)) == len(VALUES)


class TestWhoElseReadsReports:
    @pytest.fixture
    def encoder(self):
        return encoder_of("response", 1.0)

    def test_posterior_features(self, encoder):
        with pytest.raises(ValueError, match="have sums that reports"):
            PosteriorFeatures(encoder, privatize=False).fit(ONE_VALUE)

    def test_fairness(self, encoder):
        decisions = np.tile([0, 1], 4_000)
        with pytest.raises(ValueError, match="have sums that reports"):
            debiased_fairness(decisions, decisions, ONE_VALUE, encoder, privileged="v0", positive_label=1)

    def test_tables(self):
        people = pd.DataFrame({"sex": ["f"] * 3_000, "age": [30.0] * 3_000})
        encoder = LocalTableEncoder(1.0, categories={"sex": ["f", "m"]}, bounds={"age": (0, 100)}).fit(people)
        reports, encoder = bare(encoder.transform(people)), server(encoder)
        encoder.estimate_counts(reports)
        column = next(name for name in reports if name.startswith("sex"))
        with pytest.raises(ValueError, match="the reports of 'sex' have sums"):
            encoder.estimate_counts(reports.assign(**{column: "f"}))

    def test_sets(self):
        baskets = pd.DataFrame({"fruit": [["apple"], ["apple", "fig"], ["kiwi"]] * 1_000})
        encoder = SetValuedEncoder(1.0, categories={"fruit": ["apple", "fig", "kiwi", "pear"]}, max_size=2).fit(baskets)
        reports, encoder = bare(encoder.transform(baskets)), server(encoder)
        encoder.estimate_counts(reports)
        with pytest.raises(ValueError, match="the reports of 'fruit' have sums"):
            encoder.estimate_counts(reports.assign(**{reports.columns[0]: 1}))

    def test_rappor(self):
        pages = pd.DataFrame({"home": ["a.example", "b.example"] * 1_500})
        encoder = RapporEncoder(n_bits=16, n_cohorts=4).fit(pages)
        reports, encoder = bare(encoder.transform(pages)), server(encoder)
        encoder.decode(reports, ["a.example"])
        with pytest.raises(ValueError, match="the reports of 'home' have sums"):
            encoder.decode(reports.assign(home_bit_3=1), ["a.example"])
