import pickle
import re
import warnings
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from skdp import RandomizedResponseEncoder
from skdp.local import SubsetSelectionEncoder, UnaryEncodingTransformer
from skdp.metrics import joint_distribution, private_parity, private_reweighing, private_threshold_optimizer
from tests.conftest import diagonal, quick_first

pytest.importorskip("fairlearn")
pytest.importorskip("aif360")

BOTH = {"race": ["Black", "Other", "White"], "sex": ["Female", "Male"]}
ENCODERS = [RandomizedResponseEncoder, UnaryEncodingTransformer, SubsetSelectionEncoder]
CERTAIN = 80.0


def table(n=4_000, seed=0):
    rng = np.random.default_rng(seed)
    race, sex = rng.choice(BOTH["race"], n, p=[0.3, 0.2, 0.5]), rng.choice(BOTH["sex"], n, p=[0.4, 0.6])
    good = 0.6 * (sex == "Male") + 0.2 * (race == "White")
    score = rng.normal(size=n) + good
    true = (score + rng.normal(size=n) > 0.7).astype(int)
    predicted = (score + 0.5 * rng.normal(size=n) > 0.7).astype(int)
    return pd.DataFrame({"race": race, "sex": sex}), pd.DataFrame({"score": score}), true, predicted


def encode(make, people, epsilon, **parameters):
    if make is UnaryEncodingTransformer and epsilon == CERTAIN:
        parameters["variant"] = "symmetric"
    encoder = make(epsilon, categories={name: BOTH[name] for name in people}, random_state=0, **parameters)
    return encoder, encoder.fit_transform(people)


@contextmanager
def quiet():
    """Ignore warnings of pandas about fairlearn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def gap(predictions, true, groups, label):
    """Return the true difference of a rate between the two sexes."""
    rates = pd.Series(predictions)[true == label].groupby(groups.to_numpy()[true == label]).mean()
    return rates.max() - rates.min()


# --- aif360's reweighing ----------------------------------------------------------------------------------------------


def reweigh(true, groups, weights=None, given=None):
    """Return aif360's weights for known groups and given weights, or its metric with `weights`."""
    from aif360.algorithms.preprocessing.reweighing import Reweighing
    from aif360.datasets import BinaryLabelDataset
    from aif360.metrics import BinaryLabelDatasetMetric

    frame = pd.DataFrame({"sex": (groups == "Male").to_numpy() * 1.0, "y": true * 1.0})
    dataset = BinaryLabelDataset(df=frame, label_names=["y"], protected_attribute_names=["sex"])
    sides = {"unprivileged_groups": [{"sex": 0.0}], "privileged_groups": [{"sex": 1.0}]}
    if given is not None:
        dataset.instance_weights = given.copy()
    if weights is None:
        return Reweighing(**sides).fit_transform(dataset).instance_weights
    dataset.instance_weights = weights
    return BinaryLabelDatasetMetric(dataset, **sides).mean_difference()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("make", ENCODERS)
def test_weights_without_noise_equal_aif360(make, weighted):
    people, _, true, _ = table(500)
    encoder, reports = encode(make, people[["sex"]], CERTAIN)
    given = np.random.default_rng(1).random(500) + 0.5 if weighted else None
    options = {"privileged": "Male", "positive_label": 1, "sample_weight": given}
    found = private_reweighing(true, reports, encoder, **options)
    np.testing.assert_allclose(found, reweigh(true, people["sex"], given=given), rtol=0, atol=1e-12)


def test_mean_weight_over_reports_is_the_weight_of_the_true_group():
    """Exact for given factors: the channel times the weights of the reports."""
    people, _, true, _ = table()
    encoder, reports = encode(RandomizedResponseEncoder, people[["sex"]], 3.0)
    weights = private_reweighing(true, reports, encoder, privileged="Male")
    joint = joint_distribution(true, None, reports, encoder)["count"].to_numpy().reshape(2, 2)
    factors = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0) / joint.sum() / joint
    channel = np.array(encoder.channel()[0], float)
    seen = (reports["sex"] == "Male").to_numpy()
    for label in (0, 1):
        by_report = [weights[(true == label) & (seen == male)][0] for male in (False, True)]
        np.testing.assert_allclose(channel @ by_report, factors[label])


def unequal():
    """Return rows in which 10 % of the women and 40 % of the men have the positive label."""
    people = pd.DataFrame({"sex": ["Female"] * 10_000 + ["Male"] * 10_000})
    return people, (np.random.default_rng(0).random(20_000) < np.repeat([0.1, 0.4], 10_000)).astype(int)


def parity(weights, true, groups):
    """Return the difference of the weighted proportion of positive labels, women minus men."""
    women = (groups == "Female").to_numpy()
    return np.average(true[women], weights=weights[women]) - np.average(true[~women], weights=weights[~women])


@pytest.mark.parametrize("make", ENCODERS)
def test_no_weight_is_negative_at_small_epsilon(make):
    """Estimators accept the weights, each label keeps its total, and the groups are closer than without weights."""
    people, true = unequal()
    encoder, reports = encode(make, people, 1.0)
    with pytest.warns(UserWarning, match="% of the unbiased weights are negative"):
        weights = private_reweighing(true, reports, encoder, privileged="Male")
    assert weights.min() >= 0
    for label in (0, 1):
        assert weights[true == label].sum() == pytest.approx((true == label).sum())
    before, after = parity(np.ones(len(true)), true, people["sex"]), parity(weights, true, people["sex"])
    assert before < after
    assert abs(after) < 0.9 * abs(before)
    LogisticRegression().fit(np.arange(20_000)[:, np.newaxis], true, sample_weight=weights)


def repeat_rows(weights, *tables):
    """Repeat each row of the tables as often as its weight."""
    return [
        np.repeat(table, weights) if table.ndim == 1 else table.loc[table.index.repeat(weights)] for table in tables
    ]


def test_weighted_joint_distribution_equals_the_weighted_table_and_its_noise():
    people, _, true, _ = table(500)
    weights = np.random.default_rng(1).random(500) * 3
    encoder, reports = encode(RandomizedResponseEncoder, people[["sex"]], CERTAIN)
    joint = joint_distribution(true, None, reports, encoder, sample_weight=weights)
    expected = pd.Series(weights).groupby([true, people["sex"]]).sum()
    np.testing.assert_allclose(joint["count"], expected, rtol=0, atol=1e-12 * weights.sum())
    np.testing.assert_allclose(joint["share"], expected / weights.sum(), rtol=0, atol=1e-12)
    estimates, errors = [], []
    for seed in range(30):
        encoder = RandomizedResponseEncoder(1.0, categories={"sex": BOTH["sex"]}, random_state=seed)
        noisy = joint_distribution(true, None, encoder.fit_transform(people[["sex"]]), encoder, sample_weight=weights)
        estimates.append(noisy["count"])
        errors.append(noisy["std_error"])
    # The standard deviation of 30 draws has a relative error of 13 %.
    np.testing.assert_allclose(np.mean(errors, axis=0) / np.std(estimates, axis=0), 1, atol=0.4)


# --- fairlearn's threshold optimiser ----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", quick_first(1, ENCODERS))
def test_threshold_optimizer_equalizes_the_odds_of_true_groups(make):
    people, _, true, predicted = table(40_000)
    encoder, reports = encode(make, people, 2.0, strategy="joint")
    optimizer = private_threshold_optimizer(true, predicted, reports, encoder, positive_label=1, columns="sex")
    fair = optimizer._pmf_predict(predicted[:, np.newaxis], sensitive_features=people["sex"])[:, 1]
    for label in (0, 1):
        assert gap(predicted, true, people["sex"], label) > 0.1
        assert gap(fair, true, people["sex"], label) < 0.06
    with pytest.raises(ValueError, match=r"X must be the scores, of shape \(n_samples, 1\), got 2 columns"):
        optimizer.predict(np.column_stack([predicted, predicted]), sensitive_features=people["sex"])


def test_threshold_optimizer_without_noise_equals_known_groups():
    from fairlearn.postprocessing import ThresholdOptimizer

    people, X, true, _ = table(1_000)
    scores = X["score"].round(0)
    encoder, reports = encode(RandomizedResponseEncoder, people, CERTAIN, strategy="joint")
    own = private_threshold_optimizer(true, scores, reports, encoder, positive_label=1)
    known = ThresholdOptimizer(estimator=own.estimator, prefit=True, predict_method="predict")
    known.set_params(constraints="equalized_odds").fit(scores.to_frame(), true, sensitive_features=people)
    expected = known._pmf_predict(scores.to_frame(), sensitive_features=people)
    np.testing.assert_allclose(own._pmf_predict(scores.to_frame(), sensitive_features=people), expected, atol=1e-9)


def test_threshold_optimizer_of_a_group_with_one_label_is_an_error_without_the_group():
    """fairlearn's error names the group."""
    people, _, true, predicted = table(1_000)
    true = np.where(people["sex"] == "Female", 1, true)
    encoder, reports = encode(RandomizedResponseEncoder, people[["sex"]], CERTAIN)
    with pytest.raises(ValueError, match=r"^Each group must have an estimated number of rows of both labels") as error:
        private_threshold_optimizer(true, predicted, reports, encoder)
    assert "Female" not in str(error.value)


def test_weights_of_the_threshold_optimizer_are_repeated_rows():
    from fairlearn.postprocessing import ThresholdOptimizer

    people, X, true, _ = table(1_000)
    weights = np.random.default_rng(1).integers(0, 4, 1_000)
    scores = X["score"].round(0)
    encoder, reports = encode(RandomizedResponseEncoder, people[["sex"]], CERTAIN)
    options = {"constraints": "demographic_parity"}
    own = private_threshold_optimizer(true, scores, reports, encoder, sample_weight=weights, **options)
    known = ThresholdOptimizer(estimator=own.estimator, prefit=True, predict_method="predict", **options)
    repeated, labels, groups = repeat_rows(weights, scores.to_frame(), true, people["sex"].to_numpy())
    known.fit(repeated, labels, sensitive_features=groups)
    found, expected = (
        model._pmf_predict(scores.to_frame(), sensitive_features=people["sex"]) for model in (own, known)
    )
    # The optimizer is fitted to 100,000 rows in the estimated proportions.
    np.testing.assert_allclose(found, expected, atol=1e-3)
    unweighted = private_threshold_optimizer(true, scores, reports, encoder, **options)
    assert np.abs(unweighted._pmf_predict(scores.to_frame(), sensitive_features=people["sex"]) - found).max() > 0.01


# --- fairlearn's reductions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "constraint"), diagonal(ENCODERS, ["equalized_odds", "true_positive_rate_parity", "demographic_parity"])
)
def test_constraint_without_noise_equals_fairlearn(make, constraint):
    from fairlearn.reductions import DemographicParity, EqualizedOdds, TruePositiveRateParity

    theirs = {
        "equalized_odds": EqualizedOdds,
        "true_positive_rate_parity": TruePositiveRateParity,
        "demographic_parity": DemographicParity,
    }[constraint](difference_bound=0.05)
    people, X, true, predicted = table(500)
    encoder, reports = encode(make, people[["sex"]], CERTAIN)
    own = private_parity(encoder, constraints=constraint, difference_bound=0.05)
    own.load_data(X, true, sensitive_features=reports)
    with quiet():
        theirs.load_data(X, true, sensitive_features=people["sex"])
    assert len(own.index) == len(theirs.index)
    np.testing.assert_allclose(own.gamma(lambda X: predicted), theirs.gamma(lambda X: predicted), atol=1e-9)
    np.testing.assert_allclose(own.bound(), theirs.bound())
    multipliers = np.random.default_rng(0).random(len(own.index))
    weights = [moment.signed_weights(pd.Series(multipliers, index=moment.index)).to_numpy() for moment in (own, theirs)]
    np.testing.assert_allclose(*weights, atol=1e-9)


@pytest.mark.parametrize("constraint", quick_first(1, ["demographic_parity", "equalized_odds"]))
def test_weights_of_the_constraint_are_repeated_rows(constraint):
    from fairlearn.reductions import DemographicParity, EqualizedOdds, ErrorRate, ExponentiatedGradient

    theirs = {"equalized_odds": EqualizedOdds, "demographic_parity": DemographicParity}[constraint](
        difference_bound=0.05
    )
    people, X, true, predicted = table(400)
    counts = np.random.default_rng(1).integers(0, 4, 400)
    repeated, labels, groups = repeat_rows(counts, X, true, people["sex"].to_numpy())
    repeated = repeated.reset_index(drop=True)
    encoder, reports = encode(RandomizedResponseEncoder, people[["sex"]], CERTAIN)
    own = private_parity(encoder, constraints=constraint, difference_bound=0.05)
    objective, known_objective = own.default_objective(), ErrorRate()
    with quiet():
        for moment in (own, objective):
            moment.load_data(X, true, sensitive_features=reports, sample_weight=counts * 2.5)
        for moment in (theirs, known_objective):
            moment.load_data(repeated, labels, sensitive_features=pd.Series(groups))
    decisions = np.repeat(predicted, counts)
    for one, known in ((own, theirs), (objective, known_objective)):
        gaps = one.gamma(lambda X: predicted), known.gamma(lambda X: decisions)
        np.testing.assert_allclose(*gaps, rtol=0, atol=1e-12)
        multipliers = np.random.default_rng(0).random(len(one.index))
        gains = [
            moment.signed_weights(pd.Series(multipliers, index=moment.index)).to_numpy() for moment in (one, known)
        ]
        # Both are gains of each row in a mean over all rows.
        sums = pd.Series(gains[1]).groupby(np.repeat(np.arange(400), counts)).sum().reindex(range(400), fill_value=0)
        np.testing.assert_allclose(gains[0] / 400, sums / len(labels), rtol=0, atol=1e-12)
    models = []
    with quiet():
        warnings.simplefilter("ignore", FutureWarning)
        for moment, *rows, options in (
            (own, X, true, {"sensitive_features": reports, "sample_weight": counts}),
            (theirs, repeated, labels, {"sensitive_features": groups}),
        ):
            tree = DecisionTreeClassifier(max_depth=3, random_state=0)
            fresh = (
                type(moment)(difference_bound=0.05)
                if moment is theirs
                else private_parity(encoder, constraints=constraint, difference_bound=0.05)
            )
            models.append(ExponentiatedGradient(tree, fresh, nu=1e-3).fit(*rows, **options))
    np.testing.assert_allclose(*(model._pmf_predict(X)[:, 1] for model in models), atol=1e-6)


def test_projected_multipliers_keep_the_penalty_and_are_not_larger():
    people, X, true, predicted = table(500)
    encoder, reports = encode(RandomizedResponseEncoder, people[["sex"]], 1.0)
    moment = private_parity(encoder, difference_bound=0.2)
    moment.load_data(X, true, sensitive_features=reports)
    multipliers = pd.Series(np.random.default_rng(0).random(len(moment.index)), index=moment.index)
    projected = moment.project_lambda(multipliers)
    gamma = moment.gamma(lambda X: predicted)
    assert (projected >= 0).all()
    assert projected.sum() < multipliers.sum()
    assert projected @ gamma == pytest.approx(multipliers @ gamma)
    assert type(pickle.loads(pickle.dumps(moment))).__name__ == "PrivateParity"


def test_bound_below_the_noise_warns_with_the_standard_error():
    """The stated error is the standard deviation of the difference of a classifier with a rate of 1/2."""
    people, X, true, _ = table(600)
    coins = np.random.default_rng(0).integers(0, 2, len(X))
    encoder, _ = encode(RandomizedResponseEncoder, people[["sex"]], 1.0)
    differences, stated = [], []
    for _ in range(40):
        moment = private_parity(encoder, constraints="demographic_parity")
        with pytest.warns(UserWarning, match="which exceeds `difference_bound`") as caught:
            moment.load_data(X, true, sensitive_features=encoder.transform(people[["sex"]]))
        stated.append(float(re.search(r"up to (\S+),", str(caught[0].message))[1]))
        differences.append(moment.gamma(lambda X: coins).max())
    spread = np.sqrt(np.mean(np.square(differences)))
    assert 0.7 < spread / np.mean(stated) < 1.3
    assert private_parity(encoder, difference_bound=0.5).load_data(X, true, sensitive_features=people["sex"]) is None


# --- what does not fit ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "change", "message"),
    [
        (private_reweighing, {"privileged": "male"}, "declared values"),
        (private_reweighing, {"positive_label": "yes"}, "rows with and without positive_label"),
        (private_reweighing, {"y_true": np.eye(1, 50)[0]}, "number of rows of each group"),
        (private_threshold_optimizer, {"y_pred": ["yes"] * 50}, "`y_pred` must be numeric"),
        (private_parity, {"constraints": "error_rate_parity"}, "`constraints` must be one of"),
        (private_parity, {"columns": "age"}, "`columns` must be"),
    ],
)
def test_invalid_arguments_raise_an_error(function, change, message):
    people, _, true, predicted = table(50)
    encoder, reports = encode(RandomizedResponseEncoder, people[["sex"]], CERTAIN)
    given = {"encoder": encoder}
    if function is not private_parity:
        given |= {"y_true": true, "reports": reports, "positive_label": 1}
        given |= {"privileged": "Male"} if function is private_reweighing else {"y_pred": predicted}
    with pytest.raises(ValueError, match=message):
        function(**given | change)


@pytest.mark.parametrize(
    ("y", "message"),
    [(np.full(50, 2), "must have the labels 0 and 1"), (np.r_[1, np.zeros(49)], "number of rows of each group")],
)
def test_invalid_data_of_the_constraint_raise_an_error(y, message):
    people, X, _, _ = table(50)
    encoder, reports = encode(RandomizedResponseEncoder, people[["sex"]], 1.0)
    with pytest.raises(ValueError, match=message):
        private_parity(encoder).load_data(X, y, sensitive_features=reports)
    with pytest.raises(ValueError, match="same length, got 50 and 49"):
        private_parity(encoder).load_data(X, np.arange(50) % 2, sensitive_features=reports[:49])
