"""Persons with several rows: a limited number is used, and the guarantee is for all rows of a person."""

import math
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.pipeline import Pipeline

import skdp
from skdp.central.statistics import choose
from skdp.privacy import PrivacyBudget
from skdp.randomness import SeededSource
from skdp.testing import replay_release


def test_choices_equal_choices_with_scores_divided_by_3():
    share = PrivacyBudget("epsilon", Fraction(2), rows_per_person=3)
    drawn = [choose(SeededSource(seed), np.array([0, -3]), share, 1) for seed in range(500)]
    assert np.mean(drawn) == pytest.approx(math.exp(-2) / 2, abs=0.05)


def test_rows_of_each_person_are_limited():
    people = np.repeat(np.arange(6), [1, 2, 3, 4, 5, 6])
    X = pd.DataFrame({"x": people.astype(float)})
    for rows in (1, 2, 4):
        histogram = skdp.DPHistogram(
            1e6, domain={"x": [*map(float, range(6))]}, max_rows_per_person=rows, random_state=0
        )
        for groups in (people, pl.Series(people), pd.DataFrame({"who": people})):
            assert histogram.fit(X, person=groups).counts_.tolist() == [min(rows, n) for n in range(1, 7)]
        assert histogram.fit(X).counts_.tolist() == [1, 2, 3, 4, 5, 6]


SECOND = pd.DataFrame({"x": [0, 1], "who": ["ann", "ann"]})
DECLARED = {"x": [0, 1]}


def histogram_counts(table, groups, **parameters):
    histogram = skdp.DPHistogram(domain=DECLARED, **parameters).fit(table, person=groups)
    return histogram.counts_, histogram


def synthesizer_counts(table, groups, **parameters):
    synthesizer = skdp.DPMarginalSynthesizer(domain=DECLARED, **parameters).fit(table, person=groups)
    rows = synthesizer.sample(1000)["x"]
    return np.bincount(rows, minlength=2) / 1000, synthesizer


RELEASES = {
    "histogram": lambda **parameters: histogram_counts(SECOND[["x"]], SECOND["who"], **parameters),
    "large table": lambda **parameters: histogram_counts(pl.from_pandas(SECOND).lazy(), "who", **parameters),
    "synthesizer": lambda **parameters: synthesizer_counts(SECOND[["x"]], SECOND["who"], **parameters),
}


FITS = {
    "histogram": skdp.DPHistogram(1e6, domain=DECLARED, random_state=0).fit,
    "synthesizer": skdp.DPMarginalSynthesizer(1e6, domain=DECLARED, random_state=0).fit,
    "discovery": lambda X, person: skdp.discover_domain(X, 1e6, 1e-6, person=person, random_state=0),
}


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_neighbors_cause_the_same_warnings(fit):
    """A warning that compared exact numbers of rows and persons disappeared with one more person."""
    texts = []
    for n_single in (0, 1):
        X = pd.DataFrame({"x": np.arange(505 + n_single) % 2})
        people = np.append(np.arange(505) % 5, np.arange(n_single) + 5)
        large = pl.DataFrame({"x": X["x"].to_numpy(), "who": people}).lazy()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit(X, person=people)
            fit(large, person="who")
        texts.append([str(warning.message) for warning in caught])
    assert texts[0] == texts[1]


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_column_of_X_as_person_raises_an_error(fit):
    X = pd.DataFrame({"x": np.arange(500) % 2})
    with pytest.raises(ValueError, match=r"must not be one of the analyzed columns of X, got 'x'.*use `person='x'`"):
        fit(X, person=X["x"])


SPELLINGS = ["7", "7.0", "7.", "7e+00", "8", "8.0", "007", "x", "7.5"]


@pytest.mark.parametrize(
    "make",
    [list, np.array, pd.Series, pl.Series, lambda x: pa.chunked_array([x]), lambda x: pd.Series(x, dtype="category")],
)
def test_spellings_of_an_integer_are_one_person_in_memory(make):
    histogram = skdp.DPHistogram(1000.0, domain=DECLARED, random_state=0)
    histogram.fit(pd.DataFrame({"x": [0] * len(SPELLINGS)}), person=make(SPELLINGS))
    assert histogram.counts_[0] == 5
    large = pl.DataFrame({"x": [0] * len(SPELLINGS), "who": SPELLINGS}).lazy()
    assert histogram.fit(large, person="who").counts_[0] == 5
    with pytest.raises(ValueError, match=r"`person` must have exact keys, got numbers of 2\*\*53 or more"):
        histogram.fit(pd.DataFrame({"x": [0]}), person=make(["9007199254740993.0"]))


def test_floats_that_may_be_rounded_integers_are_no_ids():
    """As floats, up to 256 ids of 18 digits were one person, such as those of a CSV file with a missing id."""
    rows = pd.DataFrame({"x": [0, 1], "who": [7.0, 2.0**59]})
    for table in (rows, pl.from_pandas(rows).lazy()):
        with pytest.raises(ValueError, match=r"must have exact keys, got numbers of 2\*\*53 or more"):
            skdp.DPHistogram(domain=DECLARED, random_state=0).fit(table, person="who")


class TestUnit:
    @pytest.mark.parametrize("name", list(RELEASES))
    def test_second_row_replaces_the_first(self, name):
        # Without the second row, the counts are (1, 0): adding it changes both of them by 1, and the noise is for
        # one. At epsilon 2, the loss is ln((1 + e**4) / 2) = 3.3.
        counted = set()
        for seed in range(12):
            counts, estimator = RELEASES[name](epsilon=1e6, random_state=seed)
            counted.add(tuple(np.rint(counts)))
            assert estimator.guarantee_.unit == "person"
        assert counted == {(1.0, 0.0), (0.0, 1.0)}

    def test_sums_hold_for_the_smaller_number_of_rows(self):
        of_rows = {
            unit: [skdp.PrivacyGuarantee(1.0, relation="add_remove", unit=unit, max_rows_per_person=n) for n in (1, 2)]
            for unit in ("record", "person")
        }
        (record, two_records), (person, other_person) = of_rows["record"], of_rows["person"]
        together = [person + other_person, record + two_records, record + person, two_records + person]
        units = [(total.unit, total.max_rows_per_person) for total in together]
        assert units == [("person", 1), ("record", 1), ("limited_person", 1), ("limited_person", 2)]
        assert "all rows of one person with at most 2" in str(together[3])
        assert (person + replace(record, epsilon=0.0)).unit == "person"
        assert person.to("replace").unit == "person"


PERSONS = pd.DataFrame({"x": [0, 1] * 200, "y": [1, 0, 0, 1] * 100, "who": [0] * 11 + [*range(1, 390)]})


def fit_persons(estimator, columns, target=None, who="who"):
    y = None if target is None else PERSONS[target]
    return estimator.fit(PERSONS[columns], y, person=None if who is None else PERSONS[who])


def state_synthesizer(who, **more):
    parameters = {"domain": {"x": [0, 1], "y": [0, 1]}, "random_state": 0} | more
    return [fit_persons(skdp.DPMarginalSynthesizer(1.0, **parameters), ["x", "y"], who=who)]


def state_encoder(who):
    encoder = skdp.DPTargetEncoder(1.0, categories={"x": [0, 1]}, bounds=(0, 1), random_state=0)
    return [fit_persons(encoder, ["x"], "y", who)]


REVEALING = {"synthesizer": state_synthesizer, "target encoder": state_encoder}


class TestRevealedNumberOfRows:
    @pytest.mark.parametrize("name", list(REVEALING))
    def test_replacing_a_person_has_no_guarantee(self, name):
        """Replacing a person with 11 rows by a person with 1 row changes the number of rows, which is public."""
        statement = skdp.privacy_statement(Pipeline([(name, *REVEALING[name]("who"))]))
        record = statement.to_dict()
        assert statement.total is record["total"] is record["meaning"] is None
        assert {step["guarantee"]["relation"] for step in record["steps"]} == {"add_remove"}
        assert {step.guarantee.epsilon for step in statement.steps} == {1.0}
        for text in (str(statement), statement.to_html(), statement.to_json()):
            assert "a guarantee for replacing all rows of one person would hold, and none follows" in text
            assert "epsilon = 2" not in text
            assert ("If only fit and sample are used" in text) == ("synthesizer" in name)

    def test_values_of_a_person_are_replaced_in_as_many_rows(self):
        model = skdp.DPLogisticRegression(1.0, bounds=(0, 1), classes=[0, 1], protect="target", random_state=0)
        encoder = skdp.DPTargetEncoder(0.5, categories={"x": [0, 1]}, bounds=(0, 1), random_state=0)
        statement = skdp.privacy_statement([fit_persons(model, ["x"], "y"), fit_persons(encoder, ["x"], "y")])
        total = statement.total
        assert (total.relation, total.unit) == ("replace_values", "person")
        assert total.epsilon == pytest.approx(2.0)
        assert "replacing the values of y in all rows of one person, which is removing one" in str(statement)
        assert "count twice (their delta and rho grow by more): 1: DPTargetEncoder (epsilon 0.5 becomes 1)." in str(
            statement
        )


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_person_as_column_name_equals_person_as_array(library):
    table = pd.DataFrame({"id": [1, 1, 1, 2], "x": [0.5, 0.5, 0.5, 1.0]})
    frame = {"pandas": lambda t: t, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}[library](table)
    by_name = skdp.DPMean(50.0, bounds=(0, 1), random_state=0).fit(frame, person="id")
    by_array = skdp.DPMean(50.0, bounds=(0, 1), random_state=0).fit(table[["x"]], person=table["id"])
    assert by_name.mean_.tolist() == by_array.mean_.tolist()
    for ids in (pl.Series(table["id"]), pa.array(table["id"]), pa.chunked_array([table["id"]])):
        by_ids = skdp.DPMean(50.0, bounds=(0, 1), random_state=0).fit(table[["x"]], person=ids)
        assert by_ids.mean_.tolist() == by_array.mean_.tolist()
    assert list(by_name.feature_names_in_) == ["x"]
    domain = {"x": skdp.Interval(0.0, 1.0, bins=2)}
    parameters = {"domain": domain, "max_rows_per_person": 2, "random_state": 0}
    guarantee = skdp.DPMarginalSynthesizer(50.0, **parameters).fit(frame, person="id").guarantee_
    assert (guarantee.unit, guarantee.max_rows_per_person) == (by_name.guarantee_.unit, 2)
    many = pd.DataFrame({"id": np.repeat(range(400), 2), "x": np.tile([0.25, 0.75], 400)})
    assert list(skdp.discover_domain(many, 5.0, 0.0, person="id", random_state=0)) == ["x"]


def test_person_as_column_name_requires_a_dataframe():
    with pytest.raises(
        TypeError, match=r"^X must be a dataframe if `person` is the name of a column, 'id', got ndarray"
    ):
        skdp.DPMean(1.0, bounds=(0, 1)).fit(np.ones((3, 2)), person="id")


def test_ids_of_two_types_are_refused():
    ids = np.array([number if number % 2 else str(number) for number in range(20)] * 2, dtype=object)
    with pytest.raises(ValueError, match=r"^`person` must have ids of one type, got integers and other values\."):
        skdp.DPMean(1.0, bounds=(0, 1)).fit(np.ones((40, 1)), person=ids)


def release_exclusions(table, epsilon=1.0, max_rows=2, seed=0, **parameters):
    groups = skdp.DPGroupBy(
        epsilon, by="x", keys={"x": [0, 1]}, max_rows_per_person=max_rows, random_state=seed, statistics="count"
    )
    return groups.set_params(**parameters).fit(table, person="who")


def make_visits(n_people=3000):
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(n_people), rng.integers(1, 6, n_people))
    return pd.DataFrame({"x": rng.integers(0, 2, len(who)), "who": who})


@pytest.mark.filterwarnings("ignore:On average over persons, about .* rows")
def test_excluded_fraction_is_the_mean_over_persons_in_memory_and_in_engines():
    visits = make_visits()
    expected = (1 - 2 / visits.groupby("who").size()).clip(0).mean()
    text = visits.assign(who="id " + visits["who"].astype(str))
    for table in (visits, pl.from_pandas(visits).lazy(), pl.from_pandas(text).lazy(), text):
        assert release_exclusions(table, 1e6).excluded_fraction_ == pytest.approx(
            [expected, 0, expected, expected], abs=1e-3
        )
    covered = []
    for seed in range(30):
        lower, upper = release_exclusions(visits, 1.0, seed=seed).excluded_fraction_[2:]
        covered.append(lower <= expected <= upper)
    assert np.mean(covered) >= 0.95 - 4.9 * math.sqrt(0.95 * 0.05 / 30)


def test_warning_of_excluded_rows_follows_from_noisy_numbers():
    visits = make_visits()
    with pytest.warns(
        UserWarning,
        match=r"about (28|29|30)% of a person's rows .* excluded by max_rows_per_person=2.* lose a larger fraction",
    ):
        release_exclusions(visits)
    release_exclusions(visits, max_rows=5)  # excludes nothing
    # The noise exceeds the number of persons.
    assert np.isnan(release_exclusions(visits, 0.001).excluded_fraction_[0])
    assert not hasattr(release_exclusions(visits, 0.001).fit(visits[["x"]]), "excluded_fraction_")


@pytest.mark.filterwarnings("ignore:On average over persons, about .* rows")
@pytest.mark.parametrize("epsilon", [1.0, skdp.privacy.Rho(0.1, delta=1e-6)])
def test_person_with_many_rows_costs_at_most_epsilon(epsilon):
    used = []
    for n_rows in (1, 3, 50):
        visits = pd.DataFrame({"x": 0, "who": [*([9] * n_rows), 1, 1, 1, 2]})
        for removed in (visits[n_rows:], visits[1:]):  # the person, or a row of the person
            replay = replay_release(lambda table: release_exclusions(table, epsilon), visits, removed)
            assert replay.passed, replay.findings
            if len(removed) == 4:
                used.append(replay.epsilon / replay.guarantee.epsilon)
    assert 0.5 < max(used) <= 1 + 1e-9
