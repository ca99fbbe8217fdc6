"""The experiments of a report: errors of counts, and tables of models, fairness and attacks."""

import numpy as np
import pandas as pd
import pytest

from skdp import Domain
from skdp.evaluation import study_report

N = 900


@pytest.fixture(scope="module")
def people():
    """The label depends on the protected group, and slightly the number."""
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], N)
    columns = {"group": group, "number": rng.normal(size=N) + 0.7 * (group == "a")}
    label = rng.random(N) < np.where(group == "a", 0.85, 0.2)
    return pd.DataFrame({**columns, "label": label})


@pytest.fixture(scope="class")
def tables(people, tmp_path_factory, no_figures, few_trees):
    """Return all tables of a report with a moderate and a large epsilon."""
    out = tmp_path_factory.mktemp("study")
    options = {"target": "label", "sensitive_features": "group", "privileged": ["a"], "epsilons": [1.0, 20.0]}
    study_report(people, Domain({"group": ["a", "b"]}), out, random_state=0, n_jobs=1, **options)
    return {file.stem: pd.read_csv(file) for file in out.glob("*.csv")}


class TestTables:
    def test_scores_are_between_excluding_and_using_the_column(self, tables):
        scores = tables["model_scores"].set_index(["metric", "method", "epsilon"])["mean"].sort_index()
        accuracy, parity = scores["accuracy"], scores["statistical_parity_difference"]
        true, excluded = ((method, np.inf) for method in ("without privacy", "columns excluded"))
        assert accuracy["reported", 20.0] == pytest.approx(accuracy[true])
        assert accuracy[true] > 0.75 > accuracy[excluded]
        # Test rows have true values, so a model that learned from noisy reports predicts as well.
        assert accuracy["reported", 1.0] > accuracy[excluded]
        assert parity[true] < -0.8 < parity[excluded]

    def test_debiased_reports_recover_the_fairness_of_a_classifier(self, tables):
        """Noisy reports attenuate the difference, nearly true reports do not; debiased reports recover it."""
        audits = tables["fairness_audits"]
        assert not audits.duplicated(["epsilon", "metric", "group", "groups"]).any()
        parity = audits[audits["metric"] == "statistical_parity_difference"].set_index(["groups", "epsilon"])
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


def test_column_names_may_be_numbers(people, tmp_path, no_figures, few_trees):
    people = people[:200].set_axis([0, 1, 2], axis="columns")
    options = {"target": 2, "sensitive_features": 0, "privileged": "a", "epsilons": [1.0], "random_state": 0}
    page = study_report(people, Domain({0: ["a", "b"]}), tmp_path, **options)
    assert "columns not protected: 1<" in page.read_text(encoding="utf-8")
