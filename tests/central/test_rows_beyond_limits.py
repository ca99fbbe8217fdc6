"""Limits that are found hold all but a few rows, or a warning states it; the number of rows beyond them is released."""

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import (
    DPPCA,
    DPAdditiveRegressor,
    DPGaussianNB,
    DPGroupBy,
    DPLinearRegression,
    DPMarginalSynthesizer,
    DPMean,
    DPMinMaxScaler,
    DPRobustScaler,
    DPSimpleImputer,
    DPStandardScaler,
    discover_domain,
    privacy_statement,
)
from skdp.randomness import watch_draws

ESTIMATORS = {
    "mean": DPMean(),
    "standard": DPStandardScaler(),
    "robust": DPRobustScaler(),
    "minmax": DPMinMaxScaler(quantile_range=(5, 95)),
    "imputer": DPSimpleImputer(),
    "pca": DPPCA(),
    "groupby": DPGroupBy(by=None, statistics=["mean", "std"]),
}


def draw_censored(n, n_columns, proportion=0.75, value=365.0, seed=0):
    """Draw columns whose numbers are mostly equal, as days in a year or incomes above a top code."""
    rng = np.random.default_rng(seed)
    rest = rng.uniform(1.0, 365.0, (n, n_columns))
    columns = np.where(rng.random((n, n_columns)) < proportion, value, rest)
    return pd.DataFrame(columns, columns=[f"days_{j}" for j in range(n_columns)])


def fit(estimator, *arguments):
    """Fit, and return the texts of warnings about limits."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(*arguments)
    return " ".join(text for w in caught if "The limits of columns" in (text := str(w.message)))


def measure_beyond(bounds, table):
    low, high = np.reshape(bounds, (-1, 2)).T
    return ((table < low) | (table > high)).mean().to_numpy()


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize(("n", "n_columns"), [(2_000, 5), (4_000, 6)])
def test_limits_contain_most_rows_or_warn(name, n, n_columns):
    """Limits were the heap alone in half of the columns, without a warning."""
    table = draw_censored(n, n_columns)
    for seed in range(2):
        estimator = ESTIMATORS[name].set_params(random_state=seed)
        words = fit(estimator, table)
        silent = np.array([f"'{column}'" not in words for column in table])
        assert (measure_beyond(estimator.bounds_, table)[silent] < 0.1).all()


@pytest.mark.usefixtures("repeatable_draws")
def test_weak_cells_of_a_tail_move_limits_together():
    """Noise hides each cell: 7 of 15 columns left out more than a tenth of the rows, and with sums of cells 4."""
    n_far = 0
    for seed in (3, 4, 6):
        table = draw_censored(1_700, 5, 0.6, 52.0, seed)
        fit(mean := DPMean(random_state=seed), table)
        n_far += int((measure_beyond(mean.bounds_, table) > 0.1).sum())
    assert n_far <= 5


@pytest.mark.parametrize("value", [0.0, 52.0, 365.0])
@pytest.mark.parametrize("n", [400, 4_000])
def test_intervals_of_silent_means_contain_the_mean(value, n):
    """Of a heap at its end, 0.3 of the intervals contained the mean of 1,000 rows; a table of rarer events has 0.93."""
    inside, silent = 0, 0
    for seed in range(12):
        table = draw_censored(n, 1, [0.6, 0.75, 0.9][seed % 3], value, seed)
        mean = DPMean(random_state=seed)
        if fit(mean, table):
            continue
        low, high = mean.interval_[0]
        silent += 1
        inside += low <= table.to_numpy().mean() <= high
        assert measure_beyond(mean.bounds_, table)[0] < 0.1
    assert inside >= silent - 1
    assert silent > 6 * (n > 1_000)


def test_synthetic_rows_of_a_heap_have_its_mean_or_a_warning():
    rng = np.random.default_rng(2)
    table = draw_censored(1_000, 1, 0.8).assign(arm=rng.choice(["a", "b"], 1_000))
    for seed in range(3):
        synthesizer = DPMarginalSynthesizer(delta=1e-6, random_state=seed)
        words = fit(synthesizer, table)
        error = abs(synthesizer.sample(4_000)["days_0"].mean() - table["days_0"].mean()) / table["days_0"].std()
        assert words or error < 0.2


def test_models_of_a_heap_warn_or_predict_its_other_rows():
    rng = np.random.default_rng(3)
    late = rng.random(1_000) < 0.8
    days = np.where(late, 365.0, rng.uniform(1.0, 365.0, 1_000))
    table = pd.DataFrame({"z": 1.0 - late})
    for model in (DPAdditiveRegressor(), DPLinearRegression(delta=1e-6)):
        for seed in range(2):
            words = fit(model.set_params(random_state=seed), table, days)
            predicted = model.predict(pd.DataFrame({"z": [1.0]}))[0]
            assert words or abs(predicted - days[~late].mean()) < 100
    bayes = DPGaussianNB(classes=[False, True], random_state=0)
    words = fit(bayes, pd.DataFrame({"days": days}), late)
    assert words or measure_beyond(bayes.bounds_, pd.DataFrame({"days": days}))[0] < 0.1


RATIO = pd.DataFrame({"ratio": np.random.default_rng(0).normal(50, 9, 4_000)})
RATIO.iloc[::20] = np.inf


@pytest.mark.parametrize("name", ESTIMATORS.keys() - {"pca"})  # which requires finite numbers
def test_limits_stay_at_finite_numbers(name):
    """A twentieth of infinite numbers moved limits to 4e307."""
    estimator = ESTIMATORS[name].set_params(random_state=0)
    fit(estimator, RATIO)
    assert np.reshape(estimator.bounds_, (-1, 2))[0, 1] < 1_000


def test_infinite_numbers_are_rows_beyond_the_limits():
    mean = DPMean(random_state=0).fit(RATIO)
    frame = mean.to_frame()
    assert abs(frame["beyond"] - 200).item() < 3 * frame["beyond_std_error"].item()
    assert (mean.bounds_ < 1_000).all()
    assert 40 < mean.mean_[0] < 60


def test_number_of_rows_beyond_is_in_all_results():
    table = pd.DataFrame({"x": np.random.default_rng(0).normal(size=4_000), "y": 0.5})
    bounds = {"x": None, "y": (0, 1)}
    mean = DPMean(bounds=bounds, random_state=0).fit(table)
    number, error = mean.to_frame().loc["x", ["beyond", "beyond_std_error"]]
    assert mean.to_frame().loc["y", ["beyond", "beyond_std_error"]].isna().all()
    text = f"x {round(number):,} (standard error {round(error):,})"
    assert dict(mean.guarantee_.method)["beyond"] == text
    (note,) = privacy_statement(mean).to_dict()["method"]
    assert f"Rows beyond limits that are found, by noisy counts: {text}." in note
    assert "beyond" in DPMean(random_state=0).fit(pl.from_pandas(table[["x"]])).to_frame().columns
    assert "beyond" not in mean.set_params(bounds=(-9, 9)).fit(table).to_frame()


def test_many_rows_beyond_are_a_warning():
    """Two fifths of the rows are 1,000 times farther than all others, each in another cell."""
    rng = np.random.default_rng(0)
    column = np.where(rng.random(2_000) < 0.6, rng.normal(0, 1, 2_000), 1e3 * 2.0 ** rng.uniform(0, 12, 2_000))
    table = pd.DataFrame(dict.fromkeys("abcde", column))
    words = fit(mean := DPMean(0.5, random_state=0), table)
    far = measure_beyond(mean.bounds_, table) > 0.1
    assert all(f"'{name}'" in words for name in table.columns[far])


def test_intervals_of_groups_contain_the_expected_bias():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"g": rng.choice(["a", "b"], 3_000), "x": rng.lognormal(3, 1.2, 3_000)})
    groups = DPGroupBy(by="g", keys={"g": ["a", "b"]}, statistics=["mean", "sum"], random_state=0).fit(table)
    frame = groups.to_frame()
    for statistic in ("mean", "sum"):
        value, lower, upper = (frame[f"x_{statistic}{part}"] for part in ("", "_lower", "_upper"))
        assert (upper - value > 1.3 * (value - lower)).all()
        true = table.groupby("g")["x"].agg(statistic)
        assert ((lower <= true) & (true <= upper)).all()


def test_counts_without_noise_have_no_rows_beyond():
    with watch_draws(lambda sampler, value, _: value if sampler == "permute_and_flip" else np.rint(value)):
        mean = DPMean(1e4, random_state=0).fit(draw_censored(500, 1))
    assert measure_beyond(mean.bounds_, draw_censored(500, 1))[0] == 0


@pytest.mark.parametrize("value", [0.0, 52.0, 365.0])
@pytest.mark.parametrize("n", [400, 4_000])
def test_bounds_of_found_domains_contain_most_rows_or_warn(value, n):
    """They were the heap alone in a third of the domains, without a warning."""
    for seed in range(6):
        table = draw_censored(n, 2, [0.6, 0.75, 0.9][seed % 3], value, seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            domain = discover_domain(table, 1.0, 0.0, random_state=seed)
        words = " ".join(str(w.message) for w in caught)
        for name in [name for name in table if f"'{name}'" not in words]:
            edges = domain[name].edges
            assert measure_beyond([edges[0], edges[-1]], table[[name]])[0] < 0.1


def test_number_of_rows_beyond_bounds_is_in_the_note_of_a_found_domain():
    domain = discover_domain(RATIO, 1.0, 0.0, random_state=0)
    method = dict(domain.guarantee.method)
    number, error = map(int, re.findall(r"\d+", method["beyond"]))
    assert method["beyond"] == f"ratio {number} (standard error {error})"
    assert abs(number - 200) < 3 * error < 200
    notes = privacy_statement(DPMean(bounds=domain, random_state=0).fit(RATIO)).to_dict()["method"]
    assert f"Rows beyond limits that are found, by noisy counts: {method['beyond']}." in " ".join(notes)


@pytest.mark.parametrize("seed", range(3))
def test_no_noise_counts_beyond_a_declared_end_at_the_center(seed):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"fee": np.where(rng.random(1_500) < 0.6, 0, rng.gamma(2, 10, 1_500))})
    errors = []
    for bounds in ((0, None), (None, None)):
        mean = DPMean(1.0, bounds=bounds, random_state=seed).fit(table)
        errors.append(mean.to_frame()["beyond_std_error"].iloc[0])
    assert errors[0] < 0.85 * errors[1]
