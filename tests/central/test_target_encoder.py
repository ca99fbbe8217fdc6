import numpy as np
import pandas as pd
import pytest

from skdp import DPTargetEncoder

DECLARED = {"job": ["clerk", "nurse", "smith"], "sex": ["f", "m"]}
rng = np.random.default_rng(0)
WORDS = pd.DataFrame({"job": rng.choice(DECLARED["job"], 400), "sex": rng.choice(DECLARED["sex"], 400)})
ILL = pd.Series((WORDS["job"] == "nurse") & (rng.random(400) < 0.9), name="ill")


def encoder(epsilon=1.0, **parameters):
    return DPTargetEncoder(epsilon, **{"categories": DECLARED, "bounds": (0, 1), "random_state": 0} | parameters)


def shops(n, k, *, low=0.0, high=1.0, spread=0.1, noise=0.0, seed=0):
    """Return a table with one column of k shops, its target, and the mean of each shop."""
    rng = np.random.default_rng(seed)
    rates = np.clip(rng.normal((low + high) / 2, spread * (high - low), k), low, high)
    found = rng.choice(k, n, p=rng.dirichlet(np.full(k, 0.7)))
    y = rates[found] + noise * (high - low) * rng.normal(size=n) if noise else rng.random(n) < rates[found]
    return pd.DataFrame({"shop": found}), y, rates


class TestAccuracy:
    def test_encodings_at_a_large_epsilon_are_the_means(self):
        fitted = encoder(1e5).fit(WORDS, ILL)
        exact = ILL.groupby(WORDS["job"]).mean().reindex(DECLARED["job"])
        assert fitted.encodings_[0] == pytest.approx(exact.to_numpy(), abs=0.01)
        assert np.ptp(fitted.encodings_[1]) < 0.02  # an uninformative column
        assert fitted.target_mean_ == pytest.approx(ILL.mean(), abs=1e-3)

    @pytest.mark.parametrize("epsilon", [0.2, 2.0])
    @pytest.mark.parametrize("noise", [0.0, 0.05])
    def test_rare_and_noisy_categories_shrink_to_the_mean(self, epsilon, noise):
        """More accurate than the overall mean, than noisy means, and than exact means at a small epsilon."""
        X, y, rates = shops(20_000, 100, low=0, high=100 if noise else 1, spread=0.1, noise=noise)
        top = 100 if noise else 1
        errors = []
        for seed in range(3):
            fitted = DPTargetEncoder(epsilon, categories={"shop": range(100)}, bounds=(0, top), random_state=seed)
            errors.append(np.sqrt(np.mean((fitted.fit(X, y).encodings_[0] - rates) ** 2)) / top)
        assert max(errors) <= 1.02 * rates.std() / top
        assert np.mean(errors) <= (0.075 if epsilon < 1 else 0.055)


def test_value_outside_the_domain_raises_or_gets_the_overall_mean():
    odd = WORDS.copy()
    odd.iloc[:3, 0] = ["pilot", None, "pilot"]
    fitted = encoder(handle_unknown="ignore").fit(odd, ILL)
    assert fitted.transform(odd)["job"][:3].tolist() == [fitted.target_mean_] * 3
    with pytest.raises(ValueError, match=r"Column 'job' contains a value outside the .*in the same spelling"):
        encoder().fit(WORDS, ILL).transform(odd)
    missing = encoder(categories=DECLARED | {"job": [*DECLARED["job"], "pilot", None]}).fit(odd, ILL)
    assert len(missing.encodings_[0]) == 5


@pytest.mark.parametrize("bounds", [None, (0, None), (0, 100), (0, 10_000)])
def test_encodings_do_not_follow_the_width_of_the_bounds(bounds):
    """Encodings were wrong by 2.2 standard deviations with bounds 100 times wider than the target."""
    X, y, rates = shops(5000, 5, high=100, spread=0.2, noise=0.1)
    for seed in range(3):
        fitted = encoder(2.0, categories={"shop": range(5)}, bounds=bounds, random_state=seed).fit(X, y)
        weights = np.bincount(X["shop"], minlength=5)
        assert np.average(np.abs(fitted.encodings_[0] - rates), weights=weights) < 3


def test_a_class_needs_no_narrower_limits():
    fitted = encoder().fit(WORDS, ILL)
    assert "limits" not in fitted.guarantee_.mechanism
    found = encoder(20.0, bounds=None).fit(WORDS, ILL)
    assert found.encodings_[0][1] == pytest.approx(ILL[WORDS["job"] == "nurse"].mean(), abs=0.1)
    boolean = encoder(20.0, bounds=None).fit(WORDS, ILL.astype(bool))
    assert "limits" not in boolean.guarantee_.mechanism
    assert boolean.bounds_.tolist() == [[0, 1]]
