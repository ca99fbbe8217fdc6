"""Unbiased fairness metrics and joint distributions with reported groups."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError, UndefinedMetricWarning

from skdp import FrequencyOracleEncoder, Interval, LocalTableEncoder, PerHalf, RandomizedResponseEncoder, ReportDesign
from skdp.local import NumericPerturber, SubsetSelectionEncoder, UnaryEncodingTransformer
from skdp.metrics import debiased_fairness, fairness_report, joint_distribution
from tests.conftest import diagonal
from tests.oracles.conftest import all_reports, floats

SEX = {"sex": ["Female", "Male"]}
RACES = ["Black", "Other", "White"]
BOTH = {"race": RACES, **SEX}


def table(n=600, seed=0):
    """Make rows of three columns with groups that differ in every rate."""
    rng = np.random.default_rng(seed)
    race, sex = rng.choice(RACES, n, p=[0.3, 0.2, 0.5]), rng.choice(["Female", "Male"], n, p=[0.4, 0.6])
    good = 0.5 * (sex == "Male") + 0.3 * (race == "White")
    true = rng.random(n) < 0.3 + 0.3 * good
    predicted = rng.random(n) < 0.2 + 0.3 * good + 0.3 * true
    people = pd.DataFrame({"race": race, "sex": sex})
    return people, true.astype(int), predicted.astype(int)


@pytest.mark.parametrize("make", [RandomizedResponseEncoder, SubsetSelectionEncoder, UnaryEncodingTransformer])
@pytest.mark.parametrize("k", [2, 3])
def test_counts_and_variances_are_unbiased_over_all_reports(make, k):
    encoder = make(0.7, categories={"race": RACES[:k]}, random_state=0).fit(pd.DataFrame({"race": RACES[:k]}))
    (oracle,) = encoder.oracles_
    bits = all_reports(oracle)
    reports = pd.DataFrame(bits if oracle.has_bits else np.take(RACES, bits), columns=encoder.get_feature_names_out())
    # Each report is a row with its own label, so that its indicators are the counts of this label.
    joint = joint_distribution(range(len(reports)), None, reports, encoder)
    indicators = joint["count"].to_numpy().reshape(len(reports), k)
    variances = joint["std_error"].to_numpy().reshape(len(reports), k) ** 2
    chances = floats(oracle.channel())
    np.testing.assert_allclose(indicators.sum(axis=1), 1)
    means = chances @ indicators
    np.testing.assert_allclose(means, np.eye(k), atol=1e-9)
    unbiased = indicators**2 - indicators
    np.testing.assert_allclose(variances, np.maximum(unbiased, 0), atol=1e-9)
    np.testing.assert_allclose(chances @ unbiased, chances @ indicators**2 - means**2, atol=1e-9)


@pytest.mark.parametrize("make", [RandomizedResponseEncoder, UnaryEncodingTransformer, SubsetSelectionEncoder])
def test_separately_reported_columns_use_the_product_of_inverses(make):
    people, _, _ = table(300)
    encoder = make(3.0, categories=BOTH, random_state=0)
    reports = encoder.fit_transform(people)
    joint = joint_distribution(None, None, reports, encoder)
    expected = encoder.estimate_joint_counts(reports)
    if make is not UnaryEncodingTransformer:  # its bits are shifted so that they add up
        np.testing.assert_allclose(joint["count"], expected["count"])
    assert joint.index.equals(expected.index)
    assert joint["count"].sum() == pytest.approx(300)
    turned = joint_distribution(None, None, reports, encoder, columns=["sex", "race"])
    assert turned.index.names == ["sex", "race"]
    for race, sex in joint.index:
        assert turned.loc[(sex, race), "count"] == pytest.approx(joint.loc[(race, sex), "count"])


@pytest.mark.parametrize("make", [RandomizedResponseEncoder, UnaryEncodingTransformer, SubsetSelectionEncoder])
def test_jointly_reported_columns_are_summed_over_excluded_columns(make):
    people, true, predicted = table(300)
    encoder = make(1.0, strategy="joint", categories=BOTH, random_state=0)
    reports = encoder.fit_transform(people)
    joint = joint_distribution(true, predicted, reports, encoder)
    assert joint.index.names == ["y_true", "y_pred", "race", "sex"]
    assert len(joint) == 2 * 2 * 6
    sex = joint_distribution(true, predicted, reports, encoder, columns="sex")
    summed = joint["count"].groupby(level=["y_true", "y_pred", "sex"]).sum()
    np.testing.assert_allclose(sex["count"], summed)
    sizes = pd.crosstab(true, predicted).to_numpy().ravel()
    np.testing.assert_allclose(sex["count"].groupby(level=["y_true", "y_pred"]).sum(), sizes)


@pytest.mark.parametrize(
    ("strategy", "make"),
    diagonal(
        ["split", "joint"],
        [RandomizedResponseEncoder, UnaryEncodingTransformer, SubsetSelectionEncoder, FrequencyOracleEncoder],
    ),
)
def test_metrics_without_noise_equal_the_metrics_of_true_groups(make, strategy):
    people, true, predicted = table(400)
    encoder = make(80.0, strategy=strategy, categories=BOTH, random_state=0)
    if make is UnaryEncodingTransformer:  # the optimized variant reports the truth with probability 1/2 only
        encoder.set_params(variant="symmetric")
    reports = encoder.fit_transform(people)
    privileged = {"race": ["White", "Other"], "sex": "Male"}
    found = debiased_fairness(true, predicted, reports, encoder, privileged=privileged, positive_label=1, rows="table")
    expected = fairness_report(true, predicted, people, privileged=privileged, positive_label=1)
    np.testing.assert_allclose(found["value"], expected["value"], atol=1e-9)
    assert found[["metric", "definition", "group"]].equals(expected[["metric", "definition", "group"]])
    assert (found["std_error"] < 1e-4).all()


SAMPLED = RandomizedResponseEncoder(1.0, categories=BOTH, strategy="sample").fit(table(9)[0])


def arguments(**changes):
    people, true, predicted = table(50)
    encoder = RandomizedResponseEncoder(1.0, categories=SEX, random_state=0)
    reports = encoder.fit_transform(people[["sex"]])
    given = {"y_true": true, "y_pred": predicted, "sensitive_features": reports, "encoder": encoder}
    return given | {"privileged": "Male", "positive_label": 1} | changes


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"y_true": [1, 0]}, ValueError, "must have the same length, got 2, 50, 50"),
        ({"privileged": "male"}, ValueError, "declared values of column 'sex'"),
        ({"privileged": {"gender": "Male"}}, ValueError, r"keys \['sex'\], got \['gender'\]"),
        ({"privileged": []}, ValueError, "must have a row with a privileged value"),
        ({"privileged": ["Male", "Female"]}, ValueError, "must have a row with an unprivileged value"),
        ({"columns": "race"}, ValueError, r"`columns` must be distinct names from \['sex'\]"),
        ({"rows": "random"}, ValueError, "`rows` must be one of"),
        ({"encoder": SAMPLED}, ValueError, "got 'sample'"),
        ({"y_true": None}, ValueError, "`y_true` must be one column, got None. .* pass the predictions twice"),
        ({"sensitive_features": pd.DataFrame({"sex": ["male"] * 50})}, ValueError, "reports of this encoder"),
        ({"sensitive_features": pd.DataFrame({"gender": ["Male"] * 50})}, ValueError, "gender|sex"),
        ({"sensitive_features": pl.DataFrame({"sex": ["Male", None] * 25})}, ValueError, "'sex' must contain reports"),
        ({"encoder": RandomizedResponseEncoder()}, NotFittedError, "not fitted"),
        ({"encoder": RandomizedResponseEncoder}, TypeError, "got RandomizedResponseEncoder"),
        ({"encoder": None}, TypeError, "got NoneType. CSV files and polars tables keep no protocol: pass the encoder"),
        ({"encoder": NumericPerturber(bounds=(0, 1)).fit([[0.5]])}, TypeError, "NumericPerturber"),
        ({"encoder": LocalTableEncoder(categories=SEX).fit(table(9)[0][["sex"]])}, TypeError, "got LocalTableEncoder"),
    ],
)
def test_invalid_arguments_raise_an_error(changes, error, message):
    with pytest.raises(error, match=message):
        debiased_fairness(**arguments(**changes))


@pytest.mark.parametrize("privileged", [None, ["White", None], "[38, 120]"])
def test_table_equals_the_table_of_true_groups(privileged):
    """Without noise, with missing values or bins."""
    rng = np.random.default_rng(0)
    people, true, predicted = table(400)
    groups, declared = people["race"].where(rng.random(400) < 0.8, None), [*RACES, None]
    given = {"privileged": privileged}
    if privileged == "[38, 120]":
        groups, declared = pd.Series(rng.integers(20, 60, 400)), Interval(edges=[0, 38, 120])
    encoder = RandomizedResponseEncoder(80.0, categories={"group": declared}, random_state=0)
    reports = encoder.fit_transform(pd.DataFrame({"group": groups}))
    found = debiased_fairness(true, predicted, reports, encoder, **given)
    if privileged == "[38, 120]":
        groups, given = groups >= 38, {"privileged": True}
    known = fairness_report(true, predicted, groups, **given)
    ends = ["lower", "upper"]
    pd.testing.assert_frame_equal(found.drop(columns=ends), known.drop(columns=ends), atol=1e-6)
    np.testing.assert_allclose(found[ends], known[ends], atol=0.08)  # score intervals and exact intervals
    assert privileged or (found["group"] == "missing").any()


@pytest.mark.parametrize("epsilon", [1.0, 40.0])
def test_group_without_positive_rows_has_no_rate(epsilon):
    """Group a has no positive row: its TPR is undefined, with true groups and with estimated groups."""
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], 2000)
    true = 1 * ((rng.random(2000) < 0.4) & (group == "b"))
    predicted = 1 * (rng.random(2000) < 0.4)
    encoder = RandomizedResponseEncoder(epsilon, categories={"group": ["a", "b"]}, random_state=0)
    reports = encoder.fit_transform(pd.DataFrame({"group": group}))
    undefined = ["true_positive_rate", "equal_opportunity_difference", "average_odds_difference"]
    with pytest.warns(UndefinedMetricWarning, match="true_positive_rate, equal_opportunity_difference"):
        known = fairness_report(true, predicted, group, privileged="b")
    with pytest.warns(UndefinedMetricWarning, match="true_positive_rate, equal_opportunity_difference"):
        estimated = debiased_fairness(true, predicted, reports, encoder, privileged="b")
    for table in (known, estimated):
        values = table.set_index(["metric", "group"])["value"]
        assert np.isnan(values["true_positive_rate", "unprivileged"])
        assert values["true_positive_rate", "privileged"] > 0
        assert {*undefined} <= {*table.loc[table["value"].isna(), "metric"]}
        assert np.isfinite(values["selection_rate"]).all()
        assert np.isfinite(values["false_positive_rate"]).all()
    rate = estimated[estimated["metric"] == "true_positive_rate"].iloc[0]
    assert (rate["lower"], rate["upper"]) == (0, 1)


@pytest.mark.filterwarnings("ignore:Undefined")
def test_group_estimated_as_empty_makes_extremes_unknown():
    """Its rates were set to 0.5, so that the difference of the extremes was wrong."""
    people, true, predicted = table(300)
    encoder = RandomizedResponseEncoder(0.5, categories=BOTH, random_state=0)
    found = debiased_fairness(true, predicted, encoder.fit_transform(people), encoder)
    found = found.set_index("metric")
    parity = found.loc["statistical_parity_difference"]
    assert found.loc["selection_rate", "value"].isna().any()
    assert np.isnan(parity["value"])
    assert (parity["lower"], parity["upper"]) == (0, 1)


@pytest.mark.filterwarnings("ignore:Undefined")
@pytest.mark.parametrize(("strategy", "columns"), diagonal(["split", "joint"], [["race"], ["race", "sex"]]))
def test_reports_that_contradict_the_encoder_warn(strategy, columns):
    """Rows that are selected by their reports had intervals with a coverage of 65 %, without a warning."""
    people, true, predicted = table(6_000)
    people = people[columns]
    parameters = {"categories": {name: BOTH[name] for name in columns}, "strategy": strategy, "random_state": 0}
    encoder = RandomizedResponseEncoder(0.5, **parameters)
    reports = encoder.fit_transform(people)
    selected = reports["race"].isin(["Black", "White"]).to_numpy()
    debiased_fairness(true, predicted, reports, encoder)
    # Rows may be selected by other columns.
    debiased_fairness(true[::3], predicted[::3], reports[::3], encoder)
    for audited, rows in ((reports, selected), (people, slice(None))):
        for function in (debiased_fairness, joint_distribution):
            with pytest.warns(UserWarning, match="or a selection by their values"):
                function(true[rows], predicted[rows], audited[rows], encoder)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Undefined")  # where a group is estimated as empty
def test_average_odds_are_covered_if_a_group_may_be_empty():
    """Endpoints of a nearly empty group are no standard errors: added up as such, they covered 69 to 83 %."""
    group = np.repeat(["few", "many"], [20, 400])
    rates = {True: (0.05, 0.6), False: (0.02, 0.3)}
    covered = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        y_true = rng.random(420) < 0.5
        rate = np.where(y_true, np.where(group == "few", *rates[True]), np.where(group == "few", *rates[False]))
        y_pred = rng.random(420) < rate
        encoder = RandomizedResponseEncoder(1.0, categories={"group": ["few", "many"]}, random_state=seed)
        reports = encoder.fit_transform(pd.DataFrame({"group": group}))
        table = debiased_fairness(1 * y_true, 1 * y_pred, reports, encoder, privileged="many").set_index("metric")
        odds = table.loc["average_odds_difference"]
        covered += odds["lower"] <= -0.415 <= odds["upper"]
    assert covered >= 53


def test_design_of_a_questionnaire_gives_the_table_of_an_equal_encoder():
    people, true, predicted = table(600)
    encoder = RandomizedResponseEncoder(1.0, categories=SEX, random_state=0)
    reports = encoder.fit_transform(people[["sex"]])
    expected = debiased_fairness(true, predicted, reports, encoder, privileged="Male")
    order = ["Male", "Female"]
    design = ReportDesign.warner("sex", np.e / (1 + np.e), values={"yes": "Male", "no": "Female"})
    found = debiased_fairness(true, predicted, reports, design, privileged="Male")
    pd.testing.assert_frame_equal(found, expected)
    joint = joint_distribution(true, None, reports, ReportDesign("sex", design.channels[None], values=order))
    known = joint_distribution(true, None, reports, encoder)
    pd.testing.assert_frame_equal(joint.sort_index(), known.sort_index())
    with pytest.raises(ValueError, match=r"`columns` must be distinct names from \['sex'\]"):
        debiased_fairness(true, predicted, reports, design, columns="race")


def test_halves_are_debiased_by_their_own_channel():
    people, true, predicted = table(2_000)
    halves = PerHalf(RandomizedResponseEncoder(categories=SEX, random_state=0), epsilons=(0.5, 3.0))
    reports = halves.fit_transform(people[["sex"]])
    joint = joint_distribution(None, None, reports, halves.design())
    expected = sum(
        encoder.estimate_joint_counts(reports.loc[reports["half"] == half, ["sex"]])["count"]
        for half, encoder in enumerate(halves.encoders_)
    )
    np.testing.assert_allclose(joint["count"], expected)
    with pytest.raises(TypeError, match=r"`encoder` must be a fitted encoder of categories, .* got PerHalf"):
        debiased_fairness(true, predicted, reports, halves)


@pytest.mark.filterwarnings("ignore:Undefined metrics. precision")  # of a group without a selected row
def test_differences_are_computed_from_clipped_rates():
    """No row of the group "few" is selected, so its unbiased estimate is negative in half of the draws."""
    group = pd.DataFrame({"group": ["few"] * 100 + ["many"] * 900})
    selected, true, raw = np.array([0] * 100 + [1, 0] * 450), np.array([1, 1, 0, 0] * 250), []
    for seed in range(5):
        encoder = RandomizedResponseEncoder(2.0, categories={"group": ["few", "many"]}, random_state=seed)
        reports = encoder.fit_transform(group)
        values = debiased_fairness(true, selected, reports, encoder, privileged="many").set_index("metric")["value"]
        few, many = values["selection_rate"]
        assert (values["statistical_parity_difference"], values["disparate_impact"]) == (few - many, few / many)
        counts = joint_distribution(selected, None, reports, encoder)["count"]
        raw.append(counts[1, "few"] / counts[:, "few"].sum())
        assert few == pytest.approx(np.clip(raw[-1], 0, 1), abs=1e-12)
    assert min(raw) < 0 < max(raw)
