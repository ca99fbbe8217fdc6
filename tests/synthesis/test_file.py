import io

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer, Interval, PrivacyLedger
from skdp.privacy import Rho
from tests.persistence.forgery import forge_file, save_bytes

SEED = 987_654_321
DATA = {"sex": ["F", "M", "M", "F"] * 50, "age": [20, 40, 60, 80] * 50, "job": ["clerk", None, "cook", "clerk"] * 50}
DOMAIN = {"sex": ["F", "M"], "age": Interval(0, 100, bins=10), "job": ["clerk", "cook", None]}
CONDITIONS = {"sex": "M", "age": (30, 75)}


def fit_model(table=None, y=None, **options):
    options = {"epsilon": 5.0, "domain": DOMAIN, "delta": 1e-6, "random_state": SEED} | options
    return DPMarginalSynthesizer(**options).fit(pd.DataFrame(DATA) if table is None else table, y)


def load_again(synthesizer):
    file = io.BytesIO()
    synthesizer.save(file)
    return DPMarginalSynthesizer.load(file)


@pytest.mark.parametrize("budget", [{}, {"epsilon": 0.5, "delta": 0.0}])
def test_loaded_synthesizer_gives_all_answers(budget, tmp_path):
    before = fit_model(**budget, marginals=[("sex", "age"), ("age", "job")], workload=[("sex", "age")])
    before.save(tmp_path / "people.skops")
    after = DPMarginalSynthesizer.load(tmp_path / "people.skops")
    assert after.domain_ == before.domain_ == after.domain
    assert after.guarantee_ == before.guarantee_
    assert after.noise_scale_ == before.noise_scale_
    assert after.selected_cliques_ == before.selected_cliques_
    for name in ("n_rows_", "n_rows_std_error_", "n_iter_", "n_features_in_"):
        assert getattr(after, name) == getattr(before, name)
    for names in (["sex", "job"], ["sex", "age"]):  # the second one has intervals
        pd.testing.assert_frame_equal(after.marginal(names), before.marginal(names))
    assert after.count(CONDITIONS) == before.count(CONDITIONS)
    table = pd.DataFrame(DATA)
    assert after.transform(table).shape == table.shape
    assert after.feature_names_in_.tolist() == before.feature_names_in_.tolist()
    assert after.get_feature_names_out().tolist() == list(DATA)


def test_loaded_synthesizer_has_fresh_random_bits_and_no_ledger():
    ledger = PrivacyLedger(epsilon=10, delta=1e-3)
    after = load_again(fit_model(ledger=ledger))
    assert after.random_state is None
    assert after.ledger is None
    assert not after.sample(200).equals(after.sample(200))
    assert not load_again(fit_model()).sample(200).equals(load_again(fit_model()).sample(200))
    assert not after.guarantee_.secure  # the noise came from a seed, which is not loaded
    assert ledger.spent.epsilon == 5


def test_file_contains_no_seed_and_no_ledger(tmp_path):
    ledger = PrivacyLedger(path=tmp_path / "secret_ledger.sqlite", epsilon=10, delta=1e-3)
    synthesizer = fit_model(ledger=ledger)
    path = tmp_path / "people.skops"
    synthesizer.save(path)
    assert str(SEED).encode() not in path.read_bytes()
    assert b"secret_ledger" not in path.read_bytes()
    assert (synthesizer.random_state, synthesizer.ledger) == (SEED, ledger)


@pytest.mark.parametrize(
    ("table", "domain", "options"),
    [
        (pd.DataFrame({("a", "x"): [0, 1] * 20}), {("a", "x"): [0, 1]}, {}),
        (pd.DataFrame({"a": [0, 1] * 20}), {"a": [0, 1]}, {"epsilon": Rho(0.5, delta=1e-6), "delta": 0}),
    ],
)
def test_names_of_several_levels_and_rho_are_loaded(table, domain, options):
    before = fit_model(table, domain=domain, **options)
    after = load_again(before).set_params(random_state=SEED)
    pd.testing.assert_frame_equal(after.sample(20), before.sample(20))
    assert after.epsilon == before.epsilon


def test_rare_values_counted_together_are_loaded():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.geometric(0.4, (300, 4)).clip(1, 12), columns=list("abcd"))
    table["b"] = table["a"].where(rng.random(300) < 0.5, table["b"])
    before = fit_model(table, domain=dict.fromkeys("abcd", range(1, 13)), marginals="auto")
    assert any(marginal.groups for marginal in before.marginals_)
    after = load_again(before)
    for one, other in zip(before.marginals_, after.marginals_, strict=True):
        assert np.array_equal(one.counts, other.counts)
        assert repr(one.groups) == repr(other.groups)
        assert one.std_error == other.std_error
    assert after.marginal(["a", "b"]).equals(before.marginal(["a", "b"]))


class TestDamage:
    @staticmethod
    def load(change):
        return DPMarginalSynthesizer.load(io.BytesIO(forge_file(FILE, change)))

    @pytest.mark.parametrize(
        ("place", "value", "message"),
        [
            (["domain"], {"sex": ["F", "M"]}, "cannot be read"),
            (["guarantee"], "epsilon = 0", "cannot be read"),
            (["template"], None, "cannot be read"),
            (["features"], [], "matching columns"),
            (["features"], ["age", "sex"], "matching columns"),
            (["marginals"], [], "values"),
            (["marginals", 0, "columns"], ["sex"], "Counts must be finite and have the shape"),
            (["marginals", 0, "columns"], ["age", "sex"], "in the order of the domain"),
            (["marginals", 0, "columns"], ["sex", "tax"], "must name columns"),
            (["marginals", 0, "groups"], [np.array([0, 2]), None], "must cover its values"),
            (["marginals", 0, "groups"], [np.array([1, 1]), None], "must cover its values"),
            (["marginals", 0, "groups"], [np.array([0]), None], "must cover its values"),
            (["marginals", 0, "counts"], np.full((2, 10), np.inf), "Counts must be finite and have the shape"),
            (["marginals", 0, "counts"], np.zeros((10, 2)), "Counts must be finite and have the shape"),
            (["marginals", 0, "counts"], np.zeros((4, 10)), "Counts must be finite and have the shape"),
            (["marginals", 0, "std_error"], 0, "positive number"),
            (["scores"], [[["sex", "age"], None, 0.1]], "TypeError"),
            (["scores"], [[["sex", "age"], 0.1, -3]], "must be a positive number"),
            (["cells", 0, "edges"], [0.0, 1.0], "different edges"),
            (["cells", 0, "levels", 0, "std_error"], -1, "positive number"),
            (["more"], 1, "The parts of a synthesizer must be"),
        ],
    )
    def test_inconsistent_part_raises_an_error(self, place, value, message):
        def change(estimator):
            node = estimator["fitted"]
            for key in place[:-1]:
                node = node[key]
            node[place[-1]] = value

        with pytest.raises(ValueError, match=message):
            self.load(change)


FILE = save_bytes(fit_model(marginals=[("sex", "age"), ("age", "job"), ("sex",)]))
