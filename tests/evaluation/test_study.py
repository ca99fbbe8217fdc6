"""The experiments of a report: errors of counts, and tables of models, fairness, attacks and synthetic rows."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from skdp import Domain
from skdp.evaluation import study_report
from skdp.evaluation.report import count_study

pytestmark = pytest.mark.usefixtures("repeatable_draws")


class TestCounts:
    def sexes(self, **options):
        frame = pd.DataFrame({"sex": ["Female"] * 300 + ["Male"] * 700})
        return count_study(frame, Domain({"sex": ["Female", "Male"]}), **options)

    def test_errors_and_coverage_equal_the_stated_values(self):
        """400 runs: 4.9 standard errors of the mean, and a proportion that fails once in 10^6."""
        study = self.sexes(epsilons=[1.0], n_repeats=400, random_state=0)
        squares = study.errors["l2"] ** 2
        assert abs(squares.mean() - study.summary["l2_rms_expected"][0] ** 2) < 4.9 * squares.std() / 20
        missed = (
            study.errors["coverage"] == 0
        ).sum()  # the errors of two values add up to 0, so both or none are missed
        assert binom.ppf(5e-7, 400, 0.05) <= missed <= binom.isf(5e-7, 400, 0.05)

    def test_seed_repeats_errors_and_repeats_are_independent(self):
        options = {"epsilons": [1.0, 1.1], "n_repeats": 50}
        one, two = (self.sexes(random_state=3, **options).errors for _ in range(2))
        pd.testing.assert_frame_equal(one, two)
        assert not self.sexes(**options).errors["l1"].equals(one["l1"])
        unbiased = one.pivot(index="repeat", columns="epsilon", values="l2")
        # 50 independent pairs: above 0.63 with probability 1e-6.
        assert abs(unbiased.corr().iloc[0, 1]) < 0.63

    def test_invalid_arguments_raise_an_error(self):
        frame, domain = pd.DataFrame({"sex": ["Female", "secret"]}), Domain({"sex": ["Female", "Male"]})
        with pytest.raises(ValueError, match="Column 'sex' must have only values in its domain") as caught:
            count_study(frame, domain, epsilons=[1.0])
        assert "secret" not in str(caught.value)
        for epsilons, error in (([], ValueError), ([1.0, 1], ValueError), (1.0, TypeError)):
            with pytest.raises(error, match="`epsilons` must "):
                self.sexes(epsilons=epsilons)
        with pytest.raises(ValueError, match="`n_repeats` must be"):
            self.sexes(n_repeats=0)


N = 1200


@pytest.fixture(scope="module")
def people():
    """The label depends on the protected group, the number slightly, and the type not at all."""
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], N)
    columns = {"group": group, "number": rng.normal(size=N) + 0.7 * (group == "a")}
    label = rng.random(N) < np.where(group == "a", 0.85, 0.2)
    return pd.DataFrame({**columns, "kind": rng.choice(["u", "v"], N), "label": label})


@pytest.fixture(scope="class")
def tables(people, tmp_path_factory, no_figures, few_trees):
    """Return all tables of a report with a moderate and a large epsilon."""
    out = tmp_path_factory.mktemp("study")
    options = {"target": "label", "sensitive_features": "group", "privileged": ["a"], "epsilons": [1.0, 20.0]}
    study_report(people, Domain({"group": ["a", "b"]}), out, random_state=0, n_jobs=1, **options)
    return {file.stem: pd.read_csv(file) for file in out.glob("*.csv")}


class TestTables:
    @pytest.mark.long
    def test_more_trust_gives_smaller_errors(self, tables):
        errors = tables["count_errors"].set_index("epsilon").loc[1.0]
        assert errors["l2_rms_curator"] < errors["l2_rms_shuffled"] / 3 < errors["l2_rms_local"] / 9
        # Discrete Laplace noise: P(x) = (1 - r) / (1 + r) r^|x|, added to each of two counts.
        r, x = np.exp(-1), np.arange(-200, 201)
        assert errors["l2_rms_curator"] ** 2 == pytest.approx(2 * ((1 - r) / (1 + r) * r ** abs(x) * x**2).sum())

    def test_scores_are_between_excluding_and_using_the_column(self, tables):
        scores = tables["model_scores"].set_index(["metric", "epsilon"])
        accuracy, parity = scores.loc["accuracy"], scores.loc["statistical parity difference"]
        assert accuracy.loc[20.0, "mean"] == pytest.approx(accuracy.loc[np.inf, "mean"])
        assert accuracy.loc[np.inf, "mean"] > 0.75 > accuracy.loc[1.0, "mean"] > accuracy["columns excluded"].max()
        # True groups are used for scoring.
        assert parity.loc[np.inf, "mean"] < -0.8 < parity.loc[1.0, "mean"] < parity["columns excluded"].max()

    def test_debiased_reports_recover_the_fairness_of_a_classifier(self, tables):
        """Noisy reports attenuate the difference, nearly true reports do not; debiased reports recover it."""
        audits = tables["fairness_audits"]
        assert not audits.duplicated(["epsilon", "metric", "group", "groups"]).any()
        parity = audits[audits["metric"] == "statistical parity difference"].set_index(["groups", "epsilon"])
        value, width = parity["value"], parity["upper"] - parity["lower"]
        true = value["true groups", 1.0]
        assert -0.6 < true < -0.2  # by the number; with the group itself it is nearly -1
        for groups in ("true groups", "reports taken for groups", "debiased reports"):
            assert value[groups, 20.0] == pytest.approx(true, abs=1e-6)
        assert abs(value["reports taken for groups", 1.0]) < 0.6 * abs(true)
        assert abs(value["debiased reports", 1.0] - true) < width["debiased reports", 1.0]  # 3.9 standard errors
        assert width["debiased reports", 1.0] > 1.5 * width["true groups", 1.0]

    def test_attacks_use_reports_and_no_true_values(self, tables):
        leakage = tables["leakage"].set_index("epsilon")
        without = leakage["accuracy without the report"]
        assert without[1.0] == without[20.0]  # the same rows and folds
        assert without[1.0] < leakage.loc[1.0, "accuracy"] < 0.9
        assert leakage.loc[20.0, "accuracy"] > 0.99
        assert leakage.loc[1.0, "bound of guesses from the report"] == pytest.approx(np.e / (1 + np.e))

    def test_synthetic_rows_are_scored_on_other_rows(self, tables):
        scores = tables["synthesis"].set_index("epsilon").loc[20.0]
        assert scores["error of 2-way marginals"] < 0.02
        names = [f"accuracy, trained on {rows} rows" for rows in ("synthetic", "real")]
        assert scores[names[0]] == scores[names[1]] == pytest.approx(0.825, abs=0.05)


def test_column_names_other_than_text_raise_an_error(people, tmp_path):
    with pytest.raises(TypeError, match=r"`frame` must have column names that are str, got 5"):
        study_report(people.rename(columns={"number": 5}), Domain({"group": ["a", "b"]}), tmp_path)
