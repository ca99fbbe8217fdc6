"""Numbers of which a record reports some: epsilon is spent once, and the means are as accurate as stated."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from skdp import NumericPerturber, PrivacyLedger, SecretKey
from skdp.datasets import load_adult
from skdp.engines import privatize, tally
from skdp.exact import exp_bounds
from skdp.local import NumericTally, ReportTransformer
from skdp.local.protocol import drawn_parts
from skdp.oracles import RandomizedResponse
from skdp.oracles.numeric import mean_error
from skdp.privacy import Shuffled, shuffled_guarantee
from tests.conftest import each, few_kinds

BOUNDS = {"age": (0, 100), "hours": (0, 80), "gain": (0, 10)}
PEOPLE = pd.DataFrame({"age": np.arange(600.0) % 90, "hours": np.arange(600.0) % 80, "gain": np.arange(600) % 10 / 2})
NUMBERS = {
    "age": (0, 100),
    "capital-gain": (0, 100_000),
    "capital-loss": (0, 5_000),
    "education-num": (1, 16),
    "hours-per-week": (0, 100),
}


def perturber(epsilon=4.0, **parameters):
    return NumericPerturber(epsilon, **{"strategy": "sample", "bounds": BOUNDS, "random_state": 0} | parameters)


@pytest.mark.parametrize("n_sampled", [1, 2])
@pytest.mark.parametrize("mechanism", ["optimal", "laplace", "square_wave"])
def test_a_record_spends_epsilon_once(mechanism, n_sampled):
    """Enumerate whole records: the columns that are reported, and their reports."""
    fitted = perturber(1.5, mechanism=mechanism, n_sampled=n_sampled, grid_size=2).fit(PEOPLE)
    tables, worst = fitted.channel(), Fraction(1)
    for chosen in combinations(range(3), n_sampled):  # with the same probability for all records
        for reports in product(*(range(len(tables[place][0])) for place in chosen)):
            shares = [
                math.prod(tables[place][record[place]][report] for place, report in zip(chosen, reports, strict=True))
                for record in product(range(3), repeat=3)
            ]
            worst = max(worst, max(shares) / min(shares))
    assert worst <= exp_bounds(1.5)[0]
    assert worst <= exp_bounds(fitted.guarantee_.epsilon)[0]
    assert fitted.guarantee_.epsilon == pytest.approx(1.5, rel=1e-6)


@pytest.mark.parametrize(
    ("weights", "n_sampled"), [("uniform", 1), ("uniform", 2), ({"age": 3, "hours": 2, "gain": 1}, 2)]
)
def test_columns_are_drawn_without_looking_at_a_value(weights, n_sampled):
    fitted = perturber(weights=weights, n_sampled=n_sampled).fit(PEOPLE)
    rows = pd.concat([PEOPLE] * 100, ignore_index=True)
    first = fitted.transform(rows).notna()
    assert fitted.fit(PEOPLE).transform(rows.max() - rows).notna().equals(first)
    assert (first.sum(axis=1) == n_sampled).all()
    shares = np.ones(3) if weights == "uniform" else np.array(list(weights.values()))
    expected = n_sampled * shares / shares.sum()
    assert fitted.inclusion_ == pytest.approx(expected, abs=1e-6)
    assert first.mean().to_numpy() == pytest.approx(expected, abs=0.01)
    if weights == "uniform" and n_sampled == 2:  # all pairs alike
        assert (first["age"] & first["hours"]).mean() == pytest.approx(1 / 3, abs=0.01)


def test_the_number_of_columns_is_the_best_one():
    for d, epsilon, mechanism in product((2, 5, 8), (0.3, 1, 4, 8), ("square_wave", "laplace")):
        rows, settings = np.zeros((1, d)), {"mechanism": mechanism, "bounds": (0, 1), "grid_size": 64}
        found = NumericPerturber(epsilon, strategy="sample", **settings).fit(rows)
        errors = [
            mean_error(NumericPerturber(epsilon / size, **settings).fit([[0]]).mechanism_, size / d)
            for size in range(1, d + 1)
        ]
        assert found.n_sampled_ == 1 + np.argmin(errors)
        assert mean_error(found.mechanism_, found.n_sampled_ / d) <= errors[-1]  # those of "split"
        assert found.guarantee_.epsilon <= epsilon


def exact_error(fitted, table):
    """n times the mean squared error of the means, over the columns, in half ranges."""
    low, high = fitted.bounds_.T
    positions = (np.clip(table.to_numpy(float), low, high) - low) / (high - low) * fitted.mechanism_.steps
    noise = np.mean([fitted.mechanism_.variances(column).mean() for column in positions.T])
    share = fitted.n_sampled_ / len(low)
    return float((noise / share + (1 / share - 1) * positions.var(axis=0).mean()) / (fitted.mechanism_.steps / 2) ** 2)


@pytest.mark.parametrize(
    ("epsilon", "most_of_split"),
    [(0.5, 0.21), (1, 0.22), (2, 0.22), (4, 0.35), (8, 0.55)],
    ids=lambda value: f"{value:g}",
)
def test_means_of_five_columns_are_more_accurate_than_those_of_split(epsilon, most_of_split):
    """On Adult, and on the cells of the breast cancer data."""
    adult = load_adult().data[list(NUMBERS)]
    cells = load_breast_cancer(as_frame=True).data.iloc[:, :5]
    for table, bounds in ((adult, NUMBERS), (cells, {name: (0, 2 * cells[name].median()) for name in cells})):
        sampled, split = (
            exact_error(NumericPerturber(epsilon, strategy=strategy, bounds=bounds).fit(table), table)
            for strategy in ("sample", "split")
        )
        assert sampled < most_of_split * split


def test_intervals_cover_and_errors_are_as_stated():
    rng = np.random.default_rng(3)
    fitted = perturber(3.0, weights={"age": 2, "hours": 1, "gain": 1}, n_sampled=2, random_state=1).fit(PEOPLE)
    truth = np.array([100, 80, 10]) * 2 / 7
    inside, errors, stated = [], [], []
    for _ in range(50):
        rows = pd.DataFrame(rng.beta(2, 5, (400, 3)) * [100, 80, 10], columns=list(BOUNDS))
        means = fitted.estimate_mean(fitted.transform(rows))
        inside.append((means["lower"] <= truth) & (truth <= means["upper"]))
        errors.append(means["mean"] - truth)
        stated.append(means["std_error"])
    assert np.mean(inside) == pytest.approx(0.95, abs=0.055)
    spread = np.std(errors, axis=0)
    assert (np.abs(np.mean(errors, axis=0)) < 5 * spread / math.sqrt(50)).all()
    assert np.mean(stated, axis=0) == pytest.approx(spread, rel=0.2)


def test_distributions_are_those_of_the_records_that_report():
    ages = load_adult().data["age"]
    rows = pd.DataFrame({"age": ages, "hours": ages % 60, "gain": 0})
    fitted = perturber(2.0, mechanism="square_wave").fit(rows)
    found = fitted.estimate_distribution(fitted.transform(rows), n_bins=10).loc["age", "frequency"]
    truth = np.histogram(ages, 10, (0, 100))[0] / len(ages)
    assert np.abs(np.cumsum(found - truth)).sum() / 10 < 0.02
    assert found.sum() == pytest.approx(1)


def test_a_column_that_no_record_reports_is_not_known():
    fitted = perturber(1.0, bounds={"age": (0, 100), "hours": (0, 80)}).fit(PEOPLE[["age", "hours"]])
    reports = pd.DataFrame({"age": fitted.report_values_[0][:1], "hours": [np.nan]})
    means = fitted.estimate_mean(reports)
    assert means.loc["hours"].isna().tolist() == [True, False, False, False]
    assert means.loc["hours", "std_error"] == math.inf
    perturbed = fitted.set_params(mechanism="square_wave").fit(PEOPLE[["age", "hours"]])
    reports = pd.DataFrame({"age": perturbed.report_values_[0][:1], "hours": [np.nan]})
    assert perturbed.estimate_distribution(reports, n_bins=4).loc["hours", "frequency"].isna().all()


class TestReports:
    @few_kinds
    def test_tables_look_like_the_original(self, make_frame, values_of):
        table = make_frame(PEOPLE[:8].to_dict("list"))
        fitted = perturber(n_sampled=2).fit(table)
        reports = fitted.transform(table)
        assert type(reports) is type(table)
        missing = sum(value is None or math.isnan(value) for name in BOUNDS for value in values_of(reports, name))
        assert missing == 8
        found = fitted.tally(reports)
        assert (found.n_reports, sum(part.sum() for part in found.counts)) == (8, 16)
        assert NumericTally.from_json(found.to_json()) == found
        assert tally(privatize(table, fitted), fitted).n_reports == 8

    def test_other_tables_are_refused(self):
        fitted = perturber(n_sampled=2).fit(PEOPLE)
        reports = fitted.transform(PEOPLE[:3])
        for change in ({"age": np.nan, "hours": np.nan}, dict.fromkeys(BOUNDS, 0.0)):
            with pytest.raises(ValueError, match="holds a number in 2 of its columns"):
                fitted.tally(reports.assign(**change))
        with pytest.raises(ValueError, match="numbers that are not reports"):
            fitted.tally(reports.where(reports.isna(), np.inf))

    def test_stored_tallies_must_fit_themselves(self):
        fitted = perturber(n_sampled=2, grid_size=4).fit(PEOPLE)
        content = json.loads(fitted.tally(fitted.transform(PEOPLE)).to_json())
        wrong = [({"n_sampled": 0}, 0), ({"n_sampled": 4}, 0), ({"n_sampled": "2"}, 0), ({}, 1), ({}, 2000)]
        for protocol, count in wrong:
            changed = content | {"protocol": content["protocol"] | protocol}
            first, *rest = changed["counts"]
            changed["counts"] = [[first[0] + count, *first[1:]], *rest]
            with pytest.raises(ValueError, match="do not fit each other"):
                NumericTally.from_json(json.dumps(changed))

    def test_the_protocol_says_what_was_chosen(self):
        fitted = perturber(8.0).fit(PEOPLE)
        assert fitted.n_sampled_ == 2
        again = ReportTransformer.from_json(fitted.to_json())
        assert again.get_params()["n_sampled"] == 2
        reports = fitted.transform(PEOPLE)
        assert again.estimate_mean(reports).equals(fitted.estimate_mean(reports))

    @pytest.mark.parametrize("n_sampled", ["auto", 3])
    def test_the_protocol_says_that_all_columns_were_chosen(self, n_sampled):
        fitted = perturber(20.0, n_sampled=n_sampled).fit(PEOPLE)
        assert fitted.n_sampled_ == 3
        again = ReportTransformer.from_json(fitted.to_json())
        assert again.get_params()["n_sampled"] == 3
        assert again.tally(fitted.transform(PEOPLE)).n_reports == len(PEOPLE)


class TestPermanentReports:
    @pytest.fixture
    def fitted(self):
        key = SecretKey(b"a key that everybody knows, for tests")
        return perturber(4.0, mechanism="laplace", n_sampled=2, memoize=True, secret_key=key, random_state=None).fit(
            PEOPLE
        )

    def test_they_are_always_of_the_same_columns(self, fitted):
        ids = np.arange(600)
        first = fitted.transform(PEOPLE, record_id=ids)
        assert fitted.transform(PEOPLE, record_id=ids).equals(first)
        assert fitted.transform(PEOPLE[5:9], record_id=ids[5:9]).equals(first[5:9])
        changed = fitted.transform(PEOPLE.max() - PEOPLE, record_id=ids)
        assert changed.notna().equals(first.notna())
        assert first.notna().mean().to_numpy() == pytest.approx(2 / 3, abs=0.1)

    def test_they_cost_what_is_reported(self, fitted):
        assert fitted.guarantee_.epsilon == pytest.approx(4, rel=1e-6)
        assert fitted.guarantee_for_changes(3).epsilon == pytest.approx(12, rel=1e-6)
        assert "of 2 of 3 columns, drawn at random, memoised" in fitted.guarantee_.mechanism


def test_shuffled_reports():
    fitted = perturber(2.0, n_sampled=2).fit(PEOPLE)
    for released in ("reports", "tally"):
        summed = shuffled_guarantee(fitted, 10_000, 1e-6, released=released)
        assert 0 < summed.epsilon < 0.5
    for n_sampled in (1, "auto"):
        found = perturber(Shuffled(0.5, 1e-6, 10_000), n_sampled=n_sampled).fit(PEOPLE)
        assert found.local_epsilon_ > 1.5
        assert shuffled_guarantee(found, 10_000, 1e-6, released="tally").epsilon <= 0.5


@each(
    "parameters, message",
    [
        ({"strategy": "joint"}, "strategy must be 'split' or 'sample', got 'joint'"),
        ({"strategy": None}, "strategy must be"),
        ({"strategy": "split", "n_sampled": 2}, "n_sampled and weights require strategy='sample'"),
        ({"strategy": "split", "weights": dict.fromkeys(BOUNDS, 1)}, "require strategy='sample'"),
        ({"n_sampled": 0}, "n_sampled must be between 1 and .*, got 0"),
        ({"n_sampled": 4}, "n_sampled must be at most 3, got 4"),
        ({"n_sampled": "many"}, "n_sampled must be a number, or 'auto'"),
        ({"mechanism": [[1, 1, 1]]}, "'auto' with a named mechanism"),
        ({"n_sampled": 2, "weights": {"age": 3, "hours": 1, "gain": 1}}, "n_sampled must be at most 1, got 2"),
        ({"weights": {"age": 1}}, r"weights must name the columns \['age', 'hours', 'gain'\]"),
        ({"weights": {"age": 1, "hours": 0, "gain": 1}}, "the weight of column 'hours' must be"),
        ({"weights": "equal"}, "weights must be 'uniform' or a mapping"),
    ],
)
def test_odd_parameters_are_refused_before_any_charge(parameters, message):
    ledger = PrivacyLedger(epsilon=10)
    with pytest.raises(ValueError, match=message):
        perturber(ledger=ledger, **parameters).fit_transform(PEOPLE)
    assert ledger.spent.epsilon == 0


def test_two_reports_of_each_of_several_columns_are_not_two_reports():
    """Others who agree with one value in one column, and with the other one in another, are between neither."""
    pair = RandomizedResponse(2, 4.0).shuffle_pair()
    assert pair.two_valued
    assert [drawn.two_valued for drawn in drawn_parts(pair, 1)] == [False]
