"""Plans of tables of counts: ratios of noise and sampling error, and errors."""

import numpy as np
import pytest

from skdp import DPHistogram, Interval
from skdp.metrics import plan_counts, regression_from_counts
from skdp.privacy import Mu
from tests.errors import refusal
from tests.metrics.counted import make_counts

DOMAIN = {"drug": ["no", "yes"], "ward": [*"ABC"], "died": [False, True]}
TIMES = {**DOMAIN, "months": Interval([0, 3, 6, 9, 12, 1_200])}


def plan(domain=DOMAIN, epsilon=1.0, **options):
    return plan_counts(DPHistogram(epsilon, domain=domain), **{"target": "died", "n_rows": 2_400} | options)


@pytest.mark.parametrize("rate", [0.5, 0.2])
def test_ratio_is_the_noise_of_equal_categories(rate):
    (row,) = plan(rate=rate).itertuples()
    sizes = np.array([1 - rate, rate]) * np.full((2, 3, 1), 400)
    errors = []
    for design_effect in (None, 1.0):
        counts = make_counts(sizes, np.sqrt(2 * np.exp(-1)) / (1 - np.exp(-1)), **DOMAIN | {"died": [0, 1]})
        table = regression_from_counts(counts, "died", ["drug", "ward"], design_effect=design_effect)
        errors.append(table["std_error"].to_numpy())
    noise, both = errors
    np.testing.assert_allclose(noise / np.sqrt(both**2 - noise**2), row.noise_ratio)
    assert (row.n_cells, row.advice) == (12, "counts")
    assert row.model_ratio == pytest.approx(0.047 * np.sqrt(12))


def test_times_are_planned_with_fewer_bins():
    table = plan(TIMES, time="months", rate=0.4)
    assert table["analysis"].tolist() == ["hazards, 4 bins", "hazards, 5 bins", "hazards, 6 bins"]
    assert table["n_cells"].tolist() == [48, 60, 72]
    variance = 2 * np.exp(-1) / (1 - np.exp(-1)) ** 2
    np.testing.assert_allclose(table["noise_ratio"], np.sqrt(variance * table["n_cells"] / 960))
    assert plan(TIMES, 0.1, time="months")["advice"].unique().tolist() == ["fewer cells, or a larger epsilon"]


def test_budgets_and_persons_change_the_noise():
    ratio = plan()["noise_ratio"].iloc[0]
    assert plan(epsilon=Mu(1.0, delta=1e-5))["noise_ratio"].iloc[0] < ratio
    persons = plan_counts(DPHistogram(1.0, domain=DOMAIN, max_rows_per_person=2), "died", n_rows=2_400)
    assert persons["noise_ratio"].iloc[0] > 1.9 * ratio


def test_many_cells_are_a_model():
    assert plan({**DOMAIN, "age": Interval(0, 100, bins=50)})["advice"].tolist() == ["DPLogisticRegression"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"target": "ill"}, r"^`histogram` must declare the column 'ill', got \['drug', 'ward', 'died'\]"),
        ({"time": "days"}, r"^`histogram` must declare the column 'days'"),
        ({"domain": None}, r"^`histogram` must declare its domain as a mapping"),
        ({"rate": 0}, r"^`rate` must be a float between 0 and 1, got 0"),
        ({"n_rows": 0}, r"^`n_rows` must be between 1 and"),
        ({"epsilon": 0.0}, r"epsilon"),
    ],
)
def test_bad_input_names_the_parameter(options, match):
    with refusal(ValueError, match):
        plan(**options)


def test_table_in_place_of_the_histogram_is_refused():
    with refusal(TypeError, r"^`histogram` must be a DPHistogram, got dict"):
        plan_counts(DOMAIN, "died", n_rows=5)
