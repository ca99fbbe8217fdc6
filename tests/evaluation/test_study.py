"""The experiments of a report: errors of counts, scores and fairness of models, attacks, and synthetic rows."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from skdp import Domain, Interval
from skdp.evaluation import count_study
from skdp.evaluation.report._experiments import (
    DEBIASED,
    NAIVE,
    TRUE_GROUPS,
    attack_releases,
    errors_by_trust,
    fairness_audits,
    score_models,
    synthesize,
)
from skdp.evaluation.report._study import Study


class TestCounts:
    def sexes(self, **options):
        frame = pd.DataFrame({"sex": ["Female"] * 300 + ["Male"] * 700})
        return count_study(frame, Domain({"sex": ["Female", "Male"]}), **options)

    def test_errors_and_coverage_are_as_stated(self):
        """Of 400 runs: 4.9 standard errors of the mean, and a share that misses once in 10^6."""
        study = self.sexes(epsilons=[1.0], n_repeats=400, random_state=0)
        squares = study.errors["l2"] ** 2
        assert abs(squares.mean() - study.expected["l2_rms"][1.0] ** 2) < 4.9 * squares.std() / 20
        missed = (study.errors["coverage"] == 0).sum()  # of two values, whose errors add up to 0, both or none
        assert binom.ppf(5e-7, 400, 0.05) <= missed <= binom.isf(5e-7, 400, 0.05)

    def test_a_seed_makes_it_reproducible_and_repeats_and_epsilons_differ(self):
        options = {"epsilons": [1.0, 1.1], "n_repeats": 50}
        one, two = (self.sexes(random_state=3, **options).errors for _ in range(2))
        pd.testing.assert_frame_equal(one, two)
        assert not self.sexes(**options).errors["l1"].equals(one["l1"])
        unbiased = one.pivot(index="repeat", columns="epsilon", values="l2")
        # 50 independent pairs: beyond 0.63 at most once in 10**6.
        assert abs(unbiased.corr().iloc[0, 1]) < 0.63

    def test_what_cannot_be_studied_is_explained(self):
        frame, domain = pd.DataFrame({"sex": ["Female", "secret"]}), Domain({"sex": ["Female", "Male"]})
        with pytest.raises(ValueError, match="column 'sex' has values outside its domain") as caught:
            count_study(frame, domain, epsilons=[1.0])
        assert "secret" not in str(caught.value)
        for epsilons, error in (([], ValueError), ([1.0, 1], ValueError), (1.0, TypeError)):
            with pytest.raises(error, match="epsilons must "):
                self.sexes(epsilons=epsilons)
        with pytest.raises(ValueError, match="n_repeats must be"):
            self.sexes(n_repeats=0)

    def test_the_more_somebody_is_trusted_the_smaller_the_error(self):
        errors = errors_by_trust(np.array([12_000, 10_000, 13_000, 10_222]), epsilons=[0.1, 1.0, 2.0], delta=1e-6)
        assert (errors["central"] < errors["shuffled"] / 3).all()
        assert (errors["shuffled"] < errors["local"] / 10).all()
        assert errors.loc[1.0].round(0).tolist() == [585, 16, 3]
        few = errors_by_trust(np.array([3, 4]), epsilons=[1.0], delta=1e-6)
        assert few["shuffled"].item() == pytest.approx(few["local"].item(), rel=1e-3)
        # Discrete Laplace noise: P(x) = (1 - r) / (1 + r) r^|x|, added to each of two counts.
        r, x = math.exp(-1), np.arange(-200, 201)
        assert few["central"].item() ** 2 == pytest.approx(2 * ((1 - r) / (1 + r) * r ** abs(x) * x**2).sum())


@pytest.fixture(scope="module")
def people():
    """The label follows the protected group; the public columns say nothing of it, or a little."""
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], 1200)
    columns = {"group": group, "number": rng.normal(size=1200) + 0.7 * (group == "a")}
    label = rng.random(1200) < np.where(group == "a", 0.85, 0.2)
    return pd.DataFrame({**columns, "kind": rng.choice(["u", "v"], 1200), "label": label})


def read(people, domain=None, **options):
    given = {"columns": ["group"], "target": "label", "sensitive": "group"}
    given |= {"privileged": "a", "epsilons": [0.001, 20.0], "random_state": 0, "n_jobs": None}
    return Study.read(people, domain or Domain({"group": ["a", "b"]}), **given | options)


@pytest.mark.long
@pytest.mark.usefixtures("few_trees")
def test_epsilon_leads_from_excluding_the_column_to_using_it(people):
    curve, excluded = score_models(read(people), 2)
    means = curve.groupby(["metric", "epsilon"])["value"].mean()
    accuracy, parity = means["accuracy"], means["statistical parity difference"]
    assert accuracy[20.0] == pytest.approx(accuracy[np.inf])
    assert accuracy[np.inf] > 0.75
    assert max(accuracy[0.001], excluded["accuracy"]) < 0.7
    # The true group is used for scoring: at a tiny epsilon predictions depend on it by the number only.
    assert parity[np.inf] < -0.8
    assert parity[0.001] > -0.5


def test_audits_of_one_classifier(people):
    """Reports that are noise hide the difference; reports that are nearly true do not; the debiased ones hold it."""
    audits = fairness_audits(read(people, epsilons=[0.001, 3.0, 20.0]))

    def parity(epsilon, name, column="value"):
        return audits[epsilon][name].set_index("metric").loc["statistical parity difference", column]

    true = parity(20.0, TRUE_GROUPS)
    assert true == parity(0.001, TRUE_GROUPS)
    assert -0.6 < true < -0.2  # by the number; with the group itself it is nearly -1
    assert abs(parity(0.001, NAIVE)) < 0.12
    assert parity(20.0, NAIVE) == pytest.approx(true)
    assert parity(20.0, DEBIASED) == pytest.approx(true, abs=1e-6)
    width = parity(3.0, DEBIASED, "upper") - parity(3.0, DEBIASED, "lower")
    assert abs(parity(3.0, DEBIASED) - true) < width  # 3.9 standard errors
    assert parity(0.001, DEBIASED, "upper") - parity(0.001, DEBIASED, "lower") > 1  # of at most 2
    again = fairness_audits(read(people, epsilons=[20.0], random_state=1))
    assert again[20.0][TRUE_GROUPS].equals(audits[20.0][TRUE_GROUPS])  # no coin of a report is in what is predicted


@pytest.mark.usefixtures("few_trees")
class TestAttacks:
    @pytest.mark.long
    def test_they_see_reports_and_no_truth(self, people):
        results = attack_releases(read(people))
        few, many = results[0.001], results[20.0]
        assert few.accuracy < 0.85
        assert many.accuracy > 0.99
        assert few.bayes_bound == pytest.approx(few.baseline, abs=1e-3)
        # What is guessed without reports is measured once: its rows and folds are the same at each epsilon.
        assert few.accuracy_without_report == many.accuracy_without_report


def test_synthetic_rows_are_scored_on_rows_that_were_not_synthesised(people):
    """A column that names each row predicts nothing of others, and everything of the rows that were copied."""
    domain = Domain({"group": ["a", "b"], "label": [False, True]})
    study = read(people, domain, epsilons=[1.0, 20.0])
    table, real, _ = synthesize(study, 1e-9)
    assert len(real) == 900
    scores = table.set_index("epsilon").loc[20.0]
    assert scores["error of 2-way marginals"] < 0.02
    test = people.drop(real.index)
    right = ((test["group"] == "a") == test["label"]).mean()
    names = [f"accuracy, trained on {rows} rows" for rows in ("synthetic", "real")]
    assert scores[names].tolist() == pytest.approx([right, right])


def test_bins_are_called_by_their_labels(people):
    people = people.assign(age=[10, 50, None] * 400)
    domain = Domain({"group": ["a", "b"], "age": Interval(edges=[0, 20, 60], missing=True)})
    study = read(people, domain, columns=["group", "age"], epsilons=[0.1, 0.7, 2.0])
    assert study.frame["age"].iloc[:2].tolist() == ["[0, 20)", "[20, 60]"]
    assert study.frame["age"].isna().tolist() == people["age"].isna().tolist()
    assert list(study.protected["age"].labels) == ["[0, 20)", "[20, 60]", None]
    assert study.encoder(2.0).transform(study.frame[study.columns]).shape == (1200, 2)
    assert study.example == 0.7  # the epsilon nearest to 1


def test_names_of_columns_must_be_text(people):
    with pytest.raises(TypeError, match=r"the names of the columns must be text, got \[5\]"):
        read(people.rename(columns={"number": 5}))


def test_no_two_parts_share_their_randomness(people):
    study = read(people)
    assert len({study.seed(*key) for key in [(0,), (1,), (1, 0), (1, 1), (2, 0), (3, 0)]}) == 6
    assert read(people, random_state=None).seed(1) is None
