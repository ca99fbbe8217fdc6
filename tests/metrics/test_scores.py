"""ROC curves, AUC, calibration and Brier scores from noisy counts of scores, and from reports of labels and groups."""

import re
from itertools import pairwise, product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit, logit
from scipy.stats import binom, norm
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import brier_score_loss, roc_auc_score, roc_curve

from skdp import DPGroupBy, DPHistogram, Interval, RandomizedResponseEncoder
from skdp.metrics import fairness_from_counts, joint_distribution, score_bins, scores_from_counts
from skdp.testing import replay_release
from tests.conftest import quick_first

GRADES = [0.05, 0.1, 0.2, 0.4, 0.6, 0.9]


def draw_rows(n, seed, prevalence=0.3):
    """Draw labels, calibrated scores, the same scores rounded to grades, and groups."""
    rng = np.random.default_rng(seed)
    label = (rng.random(n) < prevalence).astype(int)
    logit = 1.2 * rng.normal(1.2 * label, 1) - 0.72 + np.log(prevalence / (1 - prevalence))
    grade = np.array(GRADES)[np.digitize(expit(logit), [0.07, 0.15, 0.3, 0.5, 0.75])]
    sex = np.where(rng.random(n) < 0.2, "f", "m")
    return pd.DataFrame({"score": expit(logit), "grade": grade, "sex": sex, "label": label})


ROWS = draw_rows(2_000, 0)
DOMAIN = {"grade": GRADES, "label": [0, 1], "sex": ["f", "m"]}


def count(rows, epsilon, domain=None, seed=0, **options):
    domain = domain or DOMAIN
    release = DPHistogram(epsilon, domain=domain, random_state=seed, **options)
    return release.fit(rows[list(domain)]).to_frame()


def select(table, metric, group="all"):
    is_group = table["group"].map(lambda name: name == group)
    return table[(table["metric"] == metric) & is_group].reset_index(drop=True)


def cells(counts, std_error=1.0, scores=None):
    """Make a table of counts (n_scores, 2) of negative and positive rows."""
    counts = np.asarray(counts, float)
    scores = np.arange(len(counts)) / len(counts) if scores is None else scores
    columns = {"score": np.repeat(scores, 2), "label": [0, 1] * len(counts), "count": counts.ravel()}
    return pd.DataFrame(columns | {"std_error": std_error})


# --- estimates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [None, "sex", ["sex", "job"]])
def test_metrics_without_noise_equal_scikit_learn(by):
    rows = ROWS.assign(job=np.where(np.arange(2_000) % 3, "a", "b"))
    table = scores_from_counts(count(rows, 10_000.0, DOMAIN | {"job": ["a", "b"]}), "label", "grade", by)
    groups = {"all": rows} if by is None else dict(iter(rows.groupby(by)))
    assert list(dict.fromkeys(table["group"])) == list(groups)
    for name, group in groups.items():
        labels, scores = group["label"], group["grade"]
        found = {metric: select(table, metric, name) for metric in table["metric"].unique()}
        assert found["roc_auc"]["value"].item() == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
        assert found["brier_score"]["value"].item() == pytest.approx(brier_score_loss(labels, scores), abs=1e-12)
        expected = roc_curve(labels, scores, drop_intermediate=False)
        names = "false_positive_rate", "true_positive_rate"
        for rate, values in zip(names, expected, strict=False):
            np.testing.assert_allclose(found[rate]["value"], values[::-1], rtol=0, atol=1e-12)
            np.testing.assert_array_equal(found[rate]["score"], expected[2][::-1])
        means = group.groupby("grade")["label"].mean()
        calibration = found["prob_true"].set_index("score")["value"]
        single = means.index.isin(calibration.index)
        assert single.sum() >= 3
        np.testing.assert_allclose(calibration[means.index[single]], means[single], rtol=0, atol=1e-12)


@pytest.mark.parametrize("prevalence", quick_first(1, [0.05, 0.3]))
def test_bins_of_probabilities_keep_the_auc_and_the_brier_score(prevalence):
    """Equal bins of the scale from 0 to 1 lose 0.02 of the AUC of a rare label; a third of it is left."""
    rows = draw_rows(100_000, 1, prevalence)
    domain = {"score": score_bins(), "label": [0, 1]}
    table = scores_from_counts(count(rows, 10_000.0, domain), "label", "score")
    assert table["value"][0] == pytest.approx(roc_auc_score(rows["label"], rows["score"]), abs=0.0005)
    assert table["value"][1] == pytest.approx(brier_score_loss(rows["label"], rows["score"]), abs=0.0002)
    equal = count(rows, 10_000.0, domain | {"score": Interval(0.0, 1.0, bins=20)})
    auc = scores_from_counts(equal, "label", "score").iloc[0]
    truth = roc_auc_score(rows["label"], rows["score"])
    assert auc["lower"] < truth < auc["upper"]
    assert (auc["std_error"] > 0.02) == (prevalence < 0.1)


def test_variance_within_wide_bins_is_subtracted_from_the_brier_score():
    """Uniform scores that are the probabilities of the label: the Brier score is the mean of p (1 - p), 1 / 6."""
    scores = (np.arange(20_000) + 0.5) / 20_000
    label = (np.random.default_rng(0).random(20_000) < scores).astype(int)
    domain = {"score": Interval(0.0, 1.0, bins=2), "label": [0, 1]}
    counts = count(pd.DataFrame({"score": scores, "label": label}), 10_000.0, domain)
    found = select(scores_from_counts(counts, "label", "score"), "brier_score")["value"].item()
    assert found == pytest.approx(brier_score_loss(label, scores), abs=0.002)


def test_brier_score_of_few_scores_within_bins_is_covered():
    """The leaves of a small tree are anywhere in their bins, and 20,000 rows show the difference."""
    rng = np.random.default_rng(3)
    domain = {"score": score_bins(), "label": [0, 1]}
    n_covered = 0
    for _ in range(10):
        leaf = rng.integers(0, 3, 20_000)
        scores = rng.uniform([0.05, 0.3, 0.6], [0.3, 0.6, 0.95])[leaf]
        label = (rng.random(20_000) < np.array([0.1, 0.4, 0.8])[leaf]).astype(int)
        counts = count(pd.DataFrame({"score": scores, "label": label}), 10_000.0, domain)
        brier = scores_from_counts(counts, "label", "score").iloc[1]
        n_covered += brier["lower"] < brier_score_loss(label, scores) < brier["upper"]
    assert n_covered >= 9


@pytest.mark.parametrize("estimate", [scores_from_counts, fairness_from_counts])
def test_estimator_in_place_of_its_table_is_an_error_that_names_to_frame(estimate):
    release = DPHistogram(1.0, domain=DOMAIN).fit(ROWS[list(DOMAIN)])
    with pytest.raises(TypeError, match=r"`counts` must be a table, got DPHistogram\. Pass the result of its"):
        estimate(release, "label", "grade", "sex")


def test_bins_are_symmetric_and_cover_all_probabilities():
    edges = np.array(score_bins().edges)
    assert (len(edges), edges[0], edges[-1]) == (45, 0, 1)
    np.testing.assert_allclose(edges, 1 - edges[::-1], atol=1e-15)
    assert edges[1] == pytest.approx(expit(-7))


def test_counts_of_all_estimators_and_libraries_are_equal():
    expected = scores_from_counts(count(ROWS, 1.0), "label", "grade", "sex")
    counts = count(ROWS, 1.0).reset_index()
    pd.testing.assert_frame_equal(scores_from_counts(pl.from_pandas(counts), "label", "grade", "sex"), expected)
    keys = DOMAIN
    release = DPGroupBy(1.0, by=list(keys), keys=keys, statistics="count", random_state=0).fit(ROWS[list(keys)])
    table = scores_from_counts(release.to_frame(), "label", "grade", "sex")
    assert table["std_error"].notna().all()


def test_fairness_reads_counts_of_a_histogram():
    keys = {"sex": ["f", "m"], "label": [0, 1]}
    counts = count(ROWS, 1.0, keys)
    renamed = counts.rename(columns={"std_error": "count_std_error"})
    for table in (counts, renamed):
        found = fairness_from_counts(table, "label", "label", "sex")
        assert found["std_error"][0] > 0
    pd.testing.assert_frame_equal(fairness_from_counts(counts, "label", "label", "sex"), found)


def test_constant_scores_and_useless_scores_have_an_auc_of_one_half():
    table = scores_from_counts(cells([[0, 0], [700, 300], [0, 0]]), "label", "score")
    assert table["value"][0] == 0.5
    assert table["upper"][0] - table["lower"][0] < 0.02
    reversed_scores = scores_from_counts(cells([[10, 90], [90, 10]]), "label", "score")["value"][0]
    assert reversed_scores == pytest.approx(0.1)


def test_scores_that_are_no_probabilities_have_no_calibration():
    metrics = set(scores_from_counts(cells([[90, 10], [10, 90]], scores=[-1.0, 1.0]), "label", "score")["metric"])
    assert metrics == {"roc_auc", "true_positive_rate", "false_positive_rate"}


def test_group_without_positive_rows_is_undefined_and_has_the_whole_interval():
    with pytest.warns(UndefinedMetricWarning, match="roc_auc") as record:
        table = scores_from_counts(cells([[90, -1], [10, 1]]), "label", "score")
    assert record[0].filename == __file__
    assert np.isnan(table["value"][0])
    assert (table["lower"][0], table["upper"][0]) == (0, 1)


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"counts": [1, 2]}, ValueError, "`counts` must have the columns"),
        ({"y_score": "points"}, ValueError, r"`counts` must have the columns \['label', 'points'"),
        ({"y_score": "sex"}, ValueError, "`y_score` must be the name of a column of numbers, or of bins"),
        ({"y_true": "sex"}, ValueError, "`positive_label` must be the favorable label"),
        ({"counts": cells(np.ones((1_001, 2))), "y_score": "score"}, ValueError, "at most 1,000 scores, got 1,001"),
        ({"positive_label": 2}, ValueError, "`positive_label` must be one of at least two labels"),
        ({"confidence_level": 2}, ValueError, "`confidence_level` must be"),
        ({"counts": count(ROWS, 1.0) * 1.5}, ValueError, "such as sums of weights"),
        ({"counts": count(ROWS, 1.0).rename(index={0: None}), "positive_label": 1}, ValueError, "missing values"),
    ],
)
def test_invalid_arguments_raise_an_error(change, error, message):
    arguments = {"counts": count(ROWS, 1.0), "y_true": "label", "y_score": "grade"}
    with pytest.raises(error, match=message):
        scores_from_counts(**arguments | change)


# --- standard errors and intervals ------------------------------------------------------------------------------------


def auc_error(counts, std_error, **options):
    return scores_from_counts(cells(counts, std_error), "label", "score", **options)["std_error"][0]


COUNTS = np.array([[40, 3], [30, 9], [22, 12], [5, 30.0]])


def test_standard_error_without_noise_is_the_error_of_delong():
    negative, positive = (np.repeat(np.arange(4), column.astype(int)) for column in COUNTS.T)
    wins = (positive[:, None] > negative) + 0.5 * (positive[:, None] == negative)
    variance = wins.mean(axis=1).var() / len(positive) + wins.mean(axis=0).var() / len(negative)
    assert auc_error(COUNTS, 0.0) == pytest.approx(np.sqrt(variance), rel=1e-12)


def test_noise_adds_the_squared_derivatives_of_all_counts():
    """Derivatives by finite differences, for independent noise, and for reports of labels: opposite noise of labels."""

    def value(counts):
        table = cells(counts)
        table.attrs["is_weighted"] = False
        return scores_from_counts(table, "label", "score")["value"][0]

    step, derivatives = 1e-4, np.zeros((4, 2))
    for cell in np.ndindex(4, 2):
        change = np.zeros((4, 2))
        change[cell] = step
        derivatives[cell] = (value(COUNTS + change) - value(COUNTS - change)) / (2 * step)
    added = auc_error(COUNTS, 3.0) ** 2 - auc_error(COUNTS, 0.0) ** 2
    assert added == pytest.approx(9 * (derivatives**2).sum(), rel=1e-5)

    table = cells(COUNTS, 3.0)
    table.attrs |= {"reported_columns": ["label"], "is_weighted": False}
    reported = scores_from_counts(table, "label", "score")["std_error"][0] ** 2 - auc_error(COUNTS, 0.0) ** 2
    opposite = derivatives[:, 1] - derivatives[:, 0]
    assert reported == pytest.approx(9 * (opposite**2).sum(), rel=1e-5)


SETTINGS = {
    "calibrated": lambda rows: rows["score"],
    "skewed": lambda rows: rows["score"] ** 4,
    "ties": lambda rows: rows["grade"],
    "constant": lambda rows: 0 * rows["score"] + 0.3,
    "sharp": lambda rows: 0.5 * (rows["score"] + rows["label"]),
    "binary": lambda rows: (rows["score"] > 0.4).astype(float),
}


@pytest.mark.long
@pytest.mark.parametrize(("setting", "prevalence"), list(product(SETTINGS, [0.3, 0.05])))
def test_intervals_cover_the_population(setting, prevalence):
    """Fewer of 20 samples are covered with probability 1e-6 at a coverage of 0.93; seeds are fixed."""
    population = draw_rows(40_000, 5, prevalence)
    population["score"] = SETTINGS[setting](population)
    truth = [f(population["label"], population["score"]) for f in (roc_auc_score, brier_score_loss)]
    domain, covered, n_draws = {"score": score_bins(), "label": [0, 1]}, np.zeros(2), 20
    for seed in range(n_draws):
        rows = population.sample(4_000, random_state=seed)
        table = scores_from_counts(count(rows, 1.0, domain, seed), "label", "score")[:2]
        covered += (table["lower"] <= truth) & (truth <= table["upper"])
    assert (covered >= binom.ppf(1e-6, n_draws, 0.93)).all()


def test_interval_of_the_auc_of_separate_classes_ends_at_1():
    """In log odds, the upper end was 0.99999."""
    population = draw_rows(4_000, 5, 0.05)
    rows = population.assign(score=SETTINGS["sharp"](population))
    auc = scores_from_counts(count(rows, 1.0, {"score": score_bins(), "label": [0, 1]}, 0), "label", "score").iloc[0]
    assert 0 < auc["lower"] < auc["value"] < 1 == auc["upper"]


def test_intervals_of_few_positive_rows_cover():
    """Of intervals of the AUC of 60 positive rows, 4.7 % were too high, and 0.3 % too low. False alarms: 1e-6."""
    rng, n_draws, n_bins, p = np.random.default_rng(1), 40, 32, 1 - np.exp(-1)
    noise = rng.geometric(p, (n_draws, n_bins, 2)) - rng.geometric(p, (n_draws, n_bins, 2))
    counts = []
    for _ in range(n_draws):
        label = rng.random(3_000) < 0.02
        bins = (n_bins * expit(rng.normal(1.2 * label, 1))).astype(int)
        counts.append(np.bincount(2 * bins + label, minlength=2 * n_bins).reshape(-1, 2))
    edges = np.linspace(0, 1, n_bins + 1)
    names = [f"[{low}, {high})" for low, high in pairwise(edges)]
    cells = pd.MultiIndex.from_product([range(n_draws), names, [0, 1]], names=["draw", "score", "label"])
    errors = np.sqrt(2 * (1 - p)) / p
    frame = pd.DataFrame({"count": (np.array(counts) + noise).ravel(), "std_error": errors}, index=cells)
    negative, positive = expit(rng.normal(size=(2, 100_000)) + np.array([[0], [1.2]]))
    truth = {"roc_auc": norm.cdf(1.2 / np.sqrt(2))}
    truth["brier_score"] = 0.98 * np.mean(negative**2) + 0.02 * np.mean((1 - positive) ** 2)
    for level, wanted in ((0.95, 0.93), (0.99, 0.975)):
        table = scores_from_counts(frame, "label", "score", "draw", confidence_level=level)
        for metric, true in truth.items():
            rows = table[table["metric"] == metric]
            n_covered = (rows["lower"].le(true) & rows["upper"].ge(true)).sum()
            assert n_covered >= binom.ppf(1e-6, n_draws, wanted)
            # Intervals are symmetric in log odds, unless they reach 0 or 1.
            rows = rows[rows["lower"].gt(0) & rows["upper"].lt(1)]
            distances = logit(rows["upper"]) + logit(rows["lower"]) - 2 * logit(rows["value"])
            np.testing.assert_allclose(distances, 0, atol=1e-5)


# --- reports of labels or groups --------------------------------------------------------------------------------------


def test_reports_without_noise_give_the_metrics_of_the_rows():
    columns = {"label": [0, 1], "sex": ["f", "m"]}
    encoder = RandomizedResponseEncoder(80.0, categories=columns, strategy="joint", random_state=0)
    reports = encoder.fit_transform(ROWS[list(columns)])
    both = joint_distribution(None, ROWS["grade"], reports, encoder)
    one = joint_distribution(ROWS["label"], ROWS["grade"], reports, encoder, columns="sex")
    for counts, name in ((both, "label"), (one, "y_true")):
        table = scores_from_counts(counts, name, "y_pred", "sex")
        for group, rows in ROWS.groupby("sex"):
            auc = select(table, "roc_auc", group)["value"].item()
            assert auc == pytest.approx(roc_auc_score(rows["label"], rows["grade"]), abs=1e-9)


def test_weighted_reports_of_labels_raise_an_error():
    """Weights of 3 are 3 times as many rows, but not 3 times as accurate."""
    encoder = RandomizedResponseEncoder(1.0, categories={"label": [0, 1]}, random_state=0)
    reports = encoder.fit_transform(ROWS[["label"]])
    thrice = joint_distribution(None, ROWS["grade"], reports, encoder, sample_weight=np.full(2_000, 3.0))
    with pytest.raises(ValueError, match="such as sums of weights"):
        scores_from_counts(thrice, "label", "y_pred")


# --- privacy ----------------------------------------------------------------------------------------------------------


def test_release_of_scores_replays_on_all_neighbors():
    """A row changes one count by 1, so equal releases of neighbors have noise that differs by 1 in one cell."""
    rows = draw_rows(6, 8)[["score", "label"]]
    release = DPHistogram(1.0, domain={"score": score_bins(), "label": [0, 1]})
    for row in range(len(rows)):
        assert replay_release(release, rows, rows.drop(row)).passed


@pytest.mark.parametrize(("estimate", "output"), [(scores_from_counts, "y_score"), (fairness_from_counts, "y_pred")])
def test_error_for_a_column_in_place_of_its_name_has_no_value(estimate, output):
    names = {"y_true": "label", output: "grade", "sensitive_features": "sex"}
    for parameter in names:
        with pytest.raises(TypeError, match=f"^`{parameter}` must be the name of a column, got Series.$"):
            estimate(count(ROWS, 1.0), **names | {parameter: ROWS["sex"]})


def test_errors_do_not_contain_a_score():
    counts = count(ROWS, 1.0).reset_index().assign(grade="secret")
    with pytest.raises(ValueError, match=re.compile("^(?!.*secret)", re.DOTALL)):
        scores_from_counts(counts, "label", "grade")
