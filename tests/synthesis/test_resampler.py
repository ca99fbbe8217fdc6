import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from imblearn.pipeline import make_pipeline
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder

from skdp import DPColumnSynthesizer, DPMarginalSynthesizer, Interval, SyntheticResampler
from tests.errors import refusal

DOMAIN = {"sex": ["F", "M"], "age": Interval(0, 100, bins=10), "ill": ["no", "yes"]}
DATA = {"sex": ["F", "M"] * 100, "age": [20, 40, 60, 80] * 50}
ILL = ["no", "yes"] * 100
X, Y = pd.DataFrame(DATA), pd.Series(ILL, name="ill")


def resampler(epsilon=50.0, *, n_samples=None, **options):
    options = {"domain": DOMAIN, "marginals": "full", "random_state": 0} | options
    return SyntheticResampler(DPMarginalSynthesizer(epsilon, **options), n_samples=n_samples)


def make_one_hot():
    return make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["sex"]), remainder="passthrough")


def test_resampled_columns_depend_on_the_target():
    table, target = pd.DataFrame({"sex": ["F", "M"] * 200}), pd.Series(ILL * 2, name="ill")
    domain = {name: DOMAIN[name] for name in ("sex", "ill")}
    step = SyntheticResampler(DPColumnSynthesizer(["sex"], 100.0, domain=domain, random_state=0))
    rows, same = step.fit_resample(table, target)
    assert same is target
    assert ((rows["sex"] == "M") == (target == "yes")).mean() > 0.9


def test_model_is_fitted_to_synthetic_rows_and_predicts_real_rows():
    seen = []

    class Recorder(LogisticRegression):
        def fit(self, X, y):
            seen.append((len(X), sorted(set(y))))
            return super().fit(X, y)

        def predict(self, X):
            seen.append(len(X))
            return super().predict(X)

    fitted = make_pipeline(resampler(n_samples=77), make_one_hot(), Recorder()).fit(X, Y)
    assert fitted.predict(X[:5]).tolist() == ILL[:5]
    assert seen == [(77, ["no", "yes"]), 5]
    # The training rows are not rows of the table: with a smaller budget, ages differ.
    again, _ = resampler(1.0, n_samples=77).fit_resample(X, Y)
    assert not set(again["age"]) <= {20, 40, 60, 80}


TABLES = {
    "pandas": (pd.DataFrame(DATA), pd.Series),
    "polars": (pl.DataFrame(DATA), pl.Series),
    "pyarrow": (pa.table(DATA), pa.ChunkedArray),
    "numpy": (np.array([["F", "M"] * 100], object).T, np.ndarray),
}


@pytest.mark.parametrize("y", [Y, pl.Series("ill", ILL), pa.table({"ill": ILL})], ids=["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("library", TABLES)
def test_rows_and_target_have_the_library_of_the_table(library, y):
    table, column = TABLES[library]
    domain = {"x0": ["F", "M"], "ill": DOMAIN["ill"]} if library == "numpy" else DOMAIN
    made, target = resampler(n_samples=9, domain=domain).fit_resample(table, y)
    assert type(made) is type(table)
    assert made.shape == (9, 1 if library == "numpy" else 2)
    assert isinstance(target, column)
    assert getattr(target, "name", "ill") == "ill"
    assert set(np.asarray(target).tolist()) <= {"no", "yes"}


def test_groups_limit_the_contribution():
    persons = np.arange(200) // 50  # four persons, and one row of each is used
    made, _ = resampler(200.0, random_state=1).fit_resample(X, Y, person=persons)
    assert len(made) < 20
    with pytest.raises(ValueError, match="`person` must have one person for each row of X"):
        resampler().fit_resample(X, Y, person=[1, 2, 3])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_samples": -1}, ValueError, "`n_samples` must be between 0"),
        ({"n_samples": 2.0}, TypeError, "`n_samples` must be an integer, got float"),
        ({"synthesizer": LogisticRegression()}, TypeError, "or a DPColumnSynthesizer, got LogisticRegression"),
    ],
)
def test_invalid_arguments_raise_before_charge(options, error, message):
    with refusal(error, message) as ledger:
        step = resampler(ledger=ledger).set_params(**options)
        step.fit_resample(X, Y)
