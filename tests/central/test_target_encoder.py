from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdp import DPTargetEncoder, PrivacyLedger, load, privacy_statement, save
from skdp.central._target_encoder import _distances, _sum_of_squares
from skdp.central.statistics import GRID, GaussianNoise, integer_noise, to_places
from skdp.privacy import Mu, Rho
from tests.conftest import each

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


class TestSensitivity:
    def test_a_record_or_a_person_moves_the_sums_by_two_numbers_a_column(self):
        """All tables of two other rows, and persons of one and of two rows; code 2 is no declared value."""
        records = list(itertools.product(range(3), range(3), (0.0, 0.3, 1.0, 7.0)))

        def sums(rows):
            codes, places = np.array([row[:2] for row in rows], int).reshape(-1, 2), [row[2] for row in rows]
            placed = to_places(np.array(places, float), 0.0, 1.0).astype(np.int64)
            return np.concatenate([_distances(column, placed, 2) for column in codes.T]), _sum_of_squares(placed)

        worst = {1: 0, 2: 0}
        for others in itertools.combinations(records[::7], 2):
            before, square = sums(others)
            for k in worst:
                for person in itertools.combinations_with_replacement(records[:: 1 if k == 1 else 7], k):
                    after, then = sums((*others, *person))
                    moved = np.abs(after - before)
                    assert moved.sum() <= 2 * 2 * GRID * k
                    assert (moved.astype(float) ** 2).sum() <= 2 * (2 * GRID * k) ** 2
                    assert 0 <= then - square <= GRID * k
                    worst[k] = max(worst[k], moved.sum())
        assert worst == {1: 4 * GRID, 2: 8 * GRID}

    def test_the_noise_is_that_of_the_sensitivity(self, monkeypatch):
        asked = []

        def record(source, scale, size):
            asked.append((scale, size))
            return np.zeros(size, int)

        monkeypatch.setattr("skdp.central.statistics._noise.discrete_laplace", record)
        for rows in (1, 3):
            encoder(0.5, max_rows_per_person=rows).fit(WORDS, ILL)
            share = Fraction(1, 2)
            assert asked == [(rows * 4 * GRID / (share * Fraction(19, 20)), 10), (rows * GRID / (share / 20), 1)]
            asked.clear()

    @pytest.mark.parametrize("epsilon", [Rho(0.1, delta=1e-6), Mu(0.4, delta=1e-6)])
    def test_gaussian_noise_spends_what_is_given(self, epsilon, monkeypatch):
        drawn, draw = [], GaussianNoise.draw
        monkeypatch.setattr(GaussianNoise, "draw", lambda self, *more: drawn.append(self) or draw(self, *more))
        guarantee = encoder(epsilon, max_rows_per_person=3).fit(WORDS, ILL).guarantee_
        assert [noise.square for noise in drawn] == [3**2 * 2 * (2 * GRID) ** 2, 3**2 * GRID**2]
        given = 2 * Fraction(epsilon.rho) if isinstance(epsilon, Rho) else Fraction(epsilon.mu) ** 2
        assert sum(noise.mu_squared for noise in drawn) == given
        if isinstance(epsilon, Rho):
            assert guarantee.losses == tuple(noise.loss for noise in drawn)

    def test_at_most_a_few_rows_of_each_person_are_used(self):
        who = [0] * 398 + [1, 2]
        ill = np.array(who) == 0
        assert encoder(1e6).fit(WORDS, ill, groups=who).target_mean_ == pytest.approx(1 / 3, abs=1e-3)
        assert encoder(1e6).fit(WORDS, ill).target_mean_ == pytest.approx(398 / 400, abs=1e-3)


class TestAccuracy:
    def test_a_large_epsilon_gives_the_means(self):
        fitted = encoder(1e5).fit(WORDS, ILL)
        exact = ILL.groupby(WORDS["job"]).mean().reindex(DECLARED["job"])
        assert fitted.encodings_[0] == pytest.approx(exact.to_numpy(), abs=0.01)
        assert np.ptp(fitted.encodings_[1]) < 0.02  # a column that says hardly anything
        assert fitted.target_mean_ == pytest.approx(ILL.mean(), abs=1e-3)

    @pytest.mark.parametrize("epsilon", [0.2, 2.0])
    @pytest.mark.parametrize("noise", [0.0, 0.05])
    def test_rare_and_noisy_categories_are_drawn_to_the_mean(self, epsilon, noise):
        """Better than the mean of all rows, than noisy means, and (but for a large epsilon) than exact ones."""
        X, y, rates = shops(20_000, 100, low=0, high=100 if noise else 1, spread=0.1, noise=noise)
        top = 100 if noise else 1
        errors = []
        for seed in range(3):
            fitted = DPTargetEncoder(epsilon, categories={"shop": range(100)}, bounds=(0, top), random_state=seed)
            errors.append(np.sqrt(np.mean((fitted.fit(X, y).encodings_[0] - rates) ** 2)) / top)
        assert max(errors) <= 1.02 * rates.std() / top
        assert np.mean(errors) <= (0.075 if epsilon < 1 else 0.055)

    @pytest.mark.parametrize("rows", [0, 1])
    def test_few_rows_are_answered(self, rows):
        for seed in range(10):
            fitted = encoder(0.1, random_state=seed).fit(WORDS[:rows], ILL[:rows])
            assert all((found >= 0).all() and (found <= 1).all() for found in fitted.encodings_)
            assert 0 <= fitted.target_mean_ <= 1

    def test_tiny_and_huge_epsilons(self):
        for epsilon in (5e-324, 1e-300, Rho(1e-50, delta=1e-6), 1e300):
            fitted = encoder(epsilon).fit(WORDS, ILL)
            assert all((found >= 0).all() and (found <= 1).all() for found in fitted.encodings_)
        assert fitted.target_mean_ == pytest.approx(ILL.mean(), abs=1e-6)


class TestTransform:
    def test_frames_of_all_kinds(self):
        wanted = encoder().fit(WORDS, ILL).transform(WORDS[:5])
        assert wanted.columns.tolist() == ["job", "sex"]
        for table in (pl.from_pandas(WORDS), pl.from_pandas(WORDS).to_arrow(), WORDS.to_numpy()):
            declared = DECLARED if not isinstance(table, np.ndarray) else [*DECLARED.values()]
            fitted = encoder(categories=declared).fit(table, ILL.to_numpy())
            assert np.asarray(fitted.transform(table[:5])).tolist() == wanted.to_numpy().tolist()
        assert encoder().fit(WORDS, ILL).get_feature_names_out().tolist() == ["job", "sex"]

    def test_undeclared_values(self):
        odd = WORDS.copy()
        odd.iloc[:3, 0] = ["pilot", None, "pilot"]
        fitted = encoder(handle_unknown="ignore").fit(odd, ILL)
        assert fitted.transform(odd)["job"][:3].tolist() == [fitted.target_mean_] * 3
        with pytest.raises(ValueError, match="column 'job' holds a value, or a NaN or inf, outside"):
            encoder().fit(WORDS, ILL).transform(odd)
        missing = encoder(categories=DECLARED | {"job": [*DECLARED["job"], "pilot", None]}).fit(odd, ILL)
        assert len(missing.encodings_[0]) == 5

    def test_private_bounds(self):
        X, y, rates = shops(20_000, 5, low=0, high=100, spread=0.2, noise=0.05)
        fitted = DPTargetEncoder(4.0, categories={"shop": range(5)}, bounds="private", random_state=1).fit(X, y)
        ((low, high),) = fitted.bounds_
        assert 0 <= low < rates.min() < rates.max() < high <= 100
        assert fitted.encodings_[0] == pytest.approx(rates, abs=5)
        assert "on sums by category, discrete Laplace on counts for bounds" in fitted.guarantee_.mechanism

    def test_persons_and_copies(self, tmp_path):
        who = np.repeat(np.arange(100), 4)
        fitted = encoder(max_rows_per_person=4).fit(WORDS, ILL, groups=who)
        assert "up to 4 rows a person" in fitted.guarantee_.mechanism
        save(fitted, tmp_path / "encoder.skdp")
        again = load(tmp_path / "encoder.skdp")
        assert again.transform(WORDS).equals(fitted.transform(WORDS))
        public = {
            "encodings_",
            "target_mean_",
            "target_mean_std_error_",
            "domain_",
            "bounds_",
            "guarantee_",
            "n_features_in_",
            "feature_names_in_",
        }
        assert set(vars(fitted)) - set(fitted.get_params()) == public


class TestPromise:
    @pytest.mark.parametrize("epsilon", [0.7, Rho(0.1, delta=1e-6), Mu(0.4, delta=1e-6)])
    def test_the_guarantee(self, epsilon):
        guarantee = encoder(epsilon).fit(WORDS, ILL).guarantee_
        assert guarantee.scope == ("job", "sex", "ill")
        assert guarantee.relation == "add_remove"
        if epsilon == 0.7:
            assert (guarantee.epsilon, guarantee.delta) == (0.7, 0)
        else:
            assert guarantee.rho <= 0.1 * (1 + 1e-9)

    def test_the_statement_and_the_cost_of_a_pipeline(self):
        ledger = PrivacyLedger(epsilon=1.0)
        model = make_pipeline(encoder(ledger=ledger), LogisticRegression())
        assert privacy_statement(model).steps[0].guarantee.epsilon == 1.0
        statement = privacy_statement(model.fit(WORDS, ILL))
        assert statement.total is None or "ill" in statement.total.scope
        assert ledger.spent.epsilon == 1.0
        assert "released as is" in str(statement)  # by the model, which reads the rows


class TestPrivateCategories:
    def test_frequent_ones_are_found_and_encoded(self):
        rare = WORDS.copy()
        rare.iloc[:3, 0] = ["pilot", "diver", None]
        found = encoder(1e4, delta=1e-6, categories="private").fit(rare, ILL)
        assert [found.domain_[name].values for name in ("job", "sex")] == [("clerk", "nurse", "smith"), ("f", "m")]
        exact = ILL[3:].groupby(rare["job"][3:]).mean()
        assert found.encodings_[0] == pytest.approx(exact.to_numpy(), abs=0.02)
        assert found.transform(rare)["job"][:3].tolist() == [found.target_mean_] * 3
        some = encoder(5.0, delta=1e-6, categories=DECLARED | {"job": "private"}).fit(rare, ILL)
        assert some.guarantee_.delta == 1e-6
        assert some.transform(rare)["job"][:3].tolist() == [some.target_mean_] * 3
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            assert some.transform(rare.to_numpy())[:3, 0].tolist() == [some.target_mean_] * 3
        with pytest.raises(ValueError, match="column 'sex' holds a value"):
            some.transform(rare.assign(sex="x"))
        with pytest.warns(UserWarning, match="feature names"):
            assert some.transform(rare.to_numpy())[:3, 0].tolist() == [some.target_mean_] * 3
        some.set_params(handle_unknown="error")
        with pytest.raises(ValueError, match="column 'job' holds a value"):
            some.transform(rare)
        with pytest.raises(ValueError, match="column 'sex' holds a value"):
            encoder(delta=1e-6, categories={"job": "private", "sex": ["f"]}).fit(rare, ILL)

    def test_the_rest_of_epsilon_is_for_the_means(self, monkeypatch):
        shares = []

        def noise(share, *more):
            shares.append(share.amount)
            return integer_noise(share, *more)

        monkeypatch.setattr("skdp.central._target_encoder.integer_noise", noise)
        ledger = PrivacyLedger(epsilon=1.0, delta=1e-6)
        private = encoder(1.0, delta=1e-6, categories="private", categories_share=0.25, ledger=ledger)
        private.fit(WORDS, ILL, groups=np.arange(400) // 2)
        assert sum(shares) == Fraction(3, 4)
        assert ledger.spent == (1.0, 1e-6)
        with pytest.raises(ValueError, match="needs delta > 0"):
            encoder(categories="private").fit(WORDS, ILL)


@each(
    "parameters y error message",
    [
        ({"bounds": None}, ILL, ValueError, "bounds must be declared"),
        ({"bounds": "public"}, ILL, ValueError, "bounds must be 'private' or a pair"),
        ({"categories": None}, ILL, ValueError, "job"),
        ({"handle_unknown": "clip"}, ILL, ValueError, "handle_unknown must be one of"),
        ({}, None, ValueError, "requires y to be passed"),
        ({}, ILL[:5], ValueError, "y has 5 rows; X has 400"),
        ({}, ILL.astype(float).mask(ILL), ValueError, "column 'ill' holds a missing value"),
        ({}, WORDS["job"].rename("ill"), TypeError, "column 'ill'"),
    ],
)
def test_mistakes_cost_nothing(parameters, y, error, message):
    ledger = PrivacyLedger(epsilon=1.0)
    with pytest.raises(error, match=message):
        encoder(ledger=ledger).set_params(**parameters).fit(WORDS, y)
    assert ledger.spent == (0, 0)
