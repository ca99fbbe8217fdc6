"""Naive Bayes from private sums and counts by class: sensitivities by brute force, charges, accuracy."""

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import CategoricalNB, GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp import DPCategoricalNB, DPGaussianNB, Interval

rng = np.random.default_rng(0)
N = 1_500
ILL = pd.Series(rng.random(N) < 0.3, name="ill").map({True: "yes", False: "no"})
NUMBERS = pd.DataFrame({"age": rng.normal(50, 9, N) + 9 * (ILL == "yes"), "size": rng.normal(0, 1, N)})
JOBS, SEXES = ["clerk", "nurse", "smith"], ["f", "m"]
WORDS = pd.DataFrame(
    {"job": np.where((ILL == "yes") & (rng.random(N) < 0.6), "nurse", rng.choice(JOBS, N)), "sex": rng.choice(SEXES, N)}
)
BOUNDS = {"age": (0, 100), "size": (-4, 4)}
DECLARED = {"job": JOBS, "sex": SEXES}


def gaussian(epsilon=1.0, **parameters):
    return DPGaussianNB(epsilon, **{"bounds": BOUNDS, "classes": ["yes", "no"], "random_state": 0} | parameters)


def categorical(epsilon=1.0, **parameters):
    return DPCategoricalNB(
        epsilon, **{"categories": DECLARED, "classes": ["yes", "no"], "random_state": 0} | parameters
    )


class TestAccuracy:
    def test_fit_with_little_noise_is_naive_bayes(self):
        model, expected = gaussian(1e5).fit(NUMBERS, ILL), GaussianNB().fit(NUMBERS, ILL)
        assert model.classes_.tolist() == ["no", "yes"]
        assert np.allclose(model.theta_, expected.theta_, atol=0.05)
        assert np.allclose(model.var_, expected.var_, rtol=0.01)
        assert np.allclose(model.class_prior_, expected.class_prior_, atol=1e-3)
        assert np.allclose(model.predict_proba(NUMBERS), expected.predict_proba(NUMBERS), atol=0.01)
        model = categorical(1e5).fit(WORDS, ILL)
        codes = np.column_stack([WORDS[name].map(DECLARED[name].index) for name in WORDS])
        expected = CategoricalNB().fit(codes, ILL)
        for one, other in zip(model.feature_log_prob_, expected.feature_log_prob_, strict=True):
            assert np.allclose(np.exp(one), np.exp(other), atol=0.03)
        assert np.allclose(model.predict_proba(WORDS), expected.predict_proba(codes), atol=0.05)

    def test_wide_column_leaves_the_variances_of_other_columns(self):
        """Without scaling, scikit-learn adds 1e-9 of the largest variance to all, and predicts one class for all."""
        table = NUMBERS.assign(key=np.random.default_rng(1).uniform(1e8, 9e8, N))
        model = gaussian(1e5, bounds=BOUNDS | {"key": (1e8, 9e8)}).fit(table, ILL)
        scaled = make_pipeline(StandardScaler(), GaussianNB()).fit(table, ILL)
        assert (model.predict(table) == scaled.predict(table)).mean() > 0.995
        assert GaussianNB().fit(table, ILL).score(table, ILL) < model.score(table, ILL) - 0.02

    @pytest.mark.filterwarnings("ignore:The noise is about as large as:UserWarning")
    def test_noise_makes_classes_alike(self):
        """An uninformative column stays so with large noise; without shrinkage, half of the predictions change."""
        X = pd.DataFrame({"a": rng.normal(size=400).clip(-3, 3)})
        y = np.repeat(["no", "yes"], [380, 20])
        changed = []
        for seed in range(8):
            model = gaussian(0.05, bounds=(-3, 3), random_state=seed).fit(X, y)
            changed.append(np.ptp(model.predict_proba(X)[:, 0]))
            assert (model.var_ > 0).all()
        assert np.mean(changed) < 0.45
        for seed in range(8):
            model = categorical(0.05, random_state=seed).fit(WORDS[:50], ILL[:50])
            assert all(np.allclose(np.exp(one).sum(axis=1), 1) for one in model.feature_log_prob_)

    def test_values_outside_the_domain_raise_or_are_ignored_or_clipped(self):
        bins = {"age": Interval(0.0, 100.0, bins=10), "size": Interval(-4.0, 4.0, bins=4)}
        assert categorical(categories=bins).fit(NUMBERS, ILL).score(NUMBERS, ILL) > 0.65
        odd = WORDS.assign(job=WORDS["job"].where(WORDS["job"] != "smith", None))
        model = categorical(1e4, handle_unknown="ignore").fit(odd, ILL)
        unknown = pd.DataFrame({"job": ["smith", "pilot", None], "sex": ["x", "x", "x"]})
        assert np.allclose(model.predict_proba(unknown)[1:], model.class_prior_)
        with pytest.raises(ValueError, match="Column 'job' contains a value"):
            categorical().fit(WORDS, ILL).predict(unknown)
        far = pd.DataFrame({"age": [100.0, 1e9], "size": [0.0, 0.0]})
        found = gaussian().fit(NUMBERS, ILL).predict_proba(far)
        assert (found[0] == found[1]).all()  # clipped


@pytest.mark.parametrize(("model", "table"), [(gaussian, NUMBERS), (categorical, WORDS)])
def test_delta_is_used_only_if_it_reduces_the_noise(model, table):
    few, pure = (model(delta=delta).fit(table, ILL) for delta in (1e-6, 0.0))
    assert few.guarantee_.delta == 0
    assert few.class_count_std_error_ == pure.class_count_std_error_
    wide = pd.concat([table.add_suffix(str(index)) for index in range(20)], axis=1)
    declared = {"bounds": (-4, 100)} if model is gaussian else {"categories": (JOBS, SEXES) * 20}
    many, pure = (model(delta=delta, **declared).fit(wide, ILL) for delta in (1e-6, 0.0))
    assert many.guarantee_.delta == 1e-6
    assert many.class_count_std_error_ < pure.class_count_std_error_
