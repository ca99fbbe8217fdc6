from __future__ import annotations

import copy
import itertools
import math
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, chi2
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from threadpoolctl import threadpool_info, threadpool_limits

from skdp import DPMarginalSynthesizer, Interval
from skdp.synthesis.model import _sampling
from skdp.synthesis.selection import STRATEGIES
from tests.conftest import each

FALSE_ALARM = 1e-6
N = 1500
rng = np.random.default_rng(0)
A = rng.integers(0, 4, N)
TABLE = pd.DataFrame(
    {
        "a": A,
        "b": (A + rng.integers(0, 2, N)) % 5,
        "job": rng.choice(["clerk", "smith", None], N, p=[0.6, 0.3, 0.1]),
        "wage": np.round(rng.uniform(0, 40, N) + 10 * A, 2),
    }
)
DOMAIN = {"a": [0, 1, 2, 3], "b": [0, 1, 2, 3, 4], "job": ["clerk", "smith", None], "wage": Interval(0, 80, bins=8)}
CLIQUES = [("a", "b"), ("a", "wage"), ("b", "job"), ("wage",)]
LABEL = pd.Series(np.where(TABLE["a"] + rng.integers(0, 3, N) > 2, "high", "low"), name="label")


def fitted(X=TABLE, y=None, **parameters):
    domain = DOMAIN if y is None else DOMAIN | {"label": ["low", "high"]}
    return DPMarginalSynthesizer(**{"random_state": 0, "domain": domain, "marginals": CLIQUES} | parameters).fit(X, y)


@pytest.fixture(scope="module")
def synthesizer():
    return fitted()


@pytest.fixture(scope="module")
def whole(synthesizer):
    """The probability of every cell, multiplied out from the cliques."""
    tree, total = synthesizer.model_.tree, np.zeros((4, 5, 3, 8))
    for place, clique in enumerate(tree.cliques):
        table = synthesizer.model_.log_conditional(place)
        total = total + table.reshape([tree.sizes[c] if c in clique else 1 for c in range(4)])
    return np.exp(total)


def bins(wages):
    return np.minimum(np.asarray(wages, float) // 10, 7).astype(int)


@pytest.fixture(scope="module", params=[0, 1e-9])
def many_fits(request):
    return [fitted(random_state=seed, delta=request.param, max_iter=1) for seed in range(50)]


class TestSample:
    def test_many_rows_have_the_models_marginals_of_every_pair(self, synthesizer):
        n, model = 200_000, synthesizer.model_
        made = synthesizer.sample(n)
        jobs = made["job"].map({"clerk": 0, "smith": 1}).fillna(2).astype(int)
        codes = [made["a"].to_numpy(), made["b"].to_numpy(), jobs.to_numpy(), bins(made["wage"])]
        for pair in itertools.combinations(range(4), 2):
            shares = model.marginal(pair)
            joint = np.ravel_multi_index([codes[column] for column in pair], shares.shape)
            seen = np.bincount(joint, minlength=shares.size)
            expected = n * shares.ravel()
            often = expected > 20
            # Counts vary at most as those of independent rows do, so chi-square is at most as large.
            statistic = ((seen - expected)[often] ** 2 / expected[often]).sum()
            assert statistic < chi2.isf(FALSE_ALARM / 6, often.sum())
            rare = seen[~often].sum(), expected[~often].sum()
            assert rare[0] <= binom.isf(FALSE_ALARM / 6, n, min(1.0, rare[1] / n)) if rare[1] else rare[0] == 0

    def test_the_rank_aligned_sampler_fails_the_same(self, synthesizer, monkeypatch):
        # mbi 1.1.0 gives the values of a group in order of its rows: what is independent given a becomes dependent.
        def aligned(table, groups, rng):
            order = np.argsort(groups, kind="stable")
            sizes = np.bincount(groups, minlength=len(table))
            values = np.empty(groups.size, np.int32)
            starts = np.cumsum(sizes) - sizes
            for group in np.flatnonzero(sizes):
                steps = np.cumsum(table[group]) / table[group].sum()
                place = (np.arange(sizes[group]) + 0.5) / sizes[group]
                values[order[starts[group] : starts[group] + sizes[group]]] = np.searchsorted(steps, place)
            return values

        monkeypatch.setattr(_sampling, "draw", aligned)
        with pytest.raises(AssertionError):
            self.test_many_rows_have_the_models_marginals_of_every_pair(synthesizer)

    def test_as_many_rows_as_are_estimated(self, synthesizer):
        assert len(synthesizer.sample()) == round(synthesizer.n_rows_)
        assert abs(synthesizer.n_rows_ - N) < 6 * synthesizer.n_rows_std_error_

    def test_every_call_draws_new_rows(self, synthesizer):
        assert not synthesizer.sample(50).equals(synthesizer.sample(50))

    def test_numbers_lie_within_their_bin_as_the_counts_of_cells_say(self, synthesizer):
        made = synthesizer.sample(100_000)["wage"]
        assert made.between(0, 80).all()
        expected = 1e5 * np.diff([synthesizer.range_count("wage", None, end) for end in range(81)])
        expected /= synthesizer.n_rows_
        seen = np.histogram(made, bins=range(81))[0]
        assert ((seen - expected) ** 2 / np.maximum(expected, 1e-9)).sum() < chi2.isf(FALSE_ALARM, 79)

    def test_it_resembles_the_table(self):
        made = fitted(epsilon=10, marginals="auto").sample(N)
        for pair in itertools.combinations(["a", "b"], 2):
            true, found = (pd.crosstab(frame[pair[0]], frame[pair[1]]) / N for frame in (TABLE, made))
            assert (true - found.reindex_like(true).fillna(0)).abs().to_numpy().sum() / 2 < 0.05


class TestEstimates:
    @each("names", [["a"], ["job", "a"], ["wage", "b"], ["b", "a", "job", "wage"], "job"])
    def test_marginals(self, synthesizer, whole, names):
        table = synthesizer.marginal(names)
        names = [names] if isinstance(names, str) else names
        assert list(table) == [*names, "count", "std_error", "lower", "upper", "supported"]
        places = [list(DOMAIN).index(name) for name in names]
        kept = sorted(places)
        summed = whole.sum(axis=tuple(place for place in range(4) if place not in places))
        wanted = np.transpose(summed, [kept.index(place) for place in places])
        np.testing.assert_allclose(table["count"], synthesizer.n_rows_ * wanted.ravel(), rtol=1e-9, atol=1e-9)
        assert table["count"].sum() == pytest.approx(synthesizer.n_rows_)

    def test_the_values_of_its_rows(self, synthesizer):
        table = synthesizer.marginal(["job", "wage"])
        assert table["job"].isna().sum() == 8
        assert table["wage"].tolist()[:8] == list(Interval(0, 80, bins=8).labels)

    @each("names", [[], ["a", "a"], ["q"], "q"])
    def test_marginals_that_there_are_not(self, synthesizer, names):
        with pytest.raises(ValueError, match="column"):
            synthesizer.marginal(names)

    @pytest.mark.parametrize("name", ["count", "std_error", "upper"])
    def test_columns_that_are_called_as_the_estimates_are(self, name):
        fit = fitted(TABLE[["a"]].set_axis([name], axis=1), domain={name: DOMAIN["a"]}, marginals="tree")
        with pytest.raises(ValueError, match="would be lost"):
            fit.marginal([name])
        assert fit.count({name: 1}) > 0

    def test_a_marginal_that_is_too_large(self):
        large = fitted(pd.DataFrame(np.zeros((2, 9), int)), domain=[list(range(10))] * 9, marginals="independent")
        with pytest.raises(ValueError, match="1,000,000,000 cells"):
            large.marginal(list(range(9)))

    def test_what_was_not_measured_together_is_not_supported(self, synthesizer):
        assert not synthesizer.marginal(["a", "job"])["supported"].any()
        assert synthesizer.marginal(["a", "b"])["supported"].all()

    def test_std_error_is_that_of_the_best_estimate_from_what_was_measured(self, many_fits):
        # Recomputed for each fit from the released counts alone: their weighted mean must have this deviation.
        true = np.bincount(TABLE["a"], minlength=4)
        errors = []
        for fit in many_fits:
            stated = fit.marginal("a")["std_error"].to_numpy()
            assert (stated == stated[0]).all()
            estimates, weights = [], []
            for marginal in fit.marginals_:
                if 0 in marginal.clique:
                    others = tuple(range(1, len(marginal.clique)))
                    estimates.append(marginal.counts.sum(axis=others))
                    weights.append(1 / (marginal.std_error**2 * marginal.counts.size / 4))
            errors.append((np.average(estimates, axis=0, weights=weights) - true) / stated[0])
        # 200 standardised errors: five standard deviations (kurtosis at most that of Laplace) around 1.
        assert np.mean(np.square(errors)) == pytest.approx(1, abs=5 * math.sqrt(5 / 200))
        assert abs(np.mean(errors)) < 5 / math.sqrt(200)

    def test_the_error_of_the_number_of_rows(self, many_fits):
        errors = np.array([(fit.n_rows_ - N) / fit.n_rows_std_error_ for fit in many_fits])
        assert np.mean(errors**2) == pytest.approx(1, abs=5 * math.sqrt(5 / 50))

    @pytest.mark.parametrize("method", ["auto", "tree"])
    def test_noise_scale_is_of_each_marginal(self, method):
        fit = fitted(marginals=method, epsilon=3, delta=1e-9)
        assert list(fit.noise_scale_) == fit.selected_cliques_
        for names, scale in fit.noise_scale_.items():
            measured = [m for m in fit.marginals_ if tuple(TABLE.columns[c] for c in m.clique) == names]
            assert scale**-2 == pytest.approx(sum(m.std_error**-2 for m in measured))


class TestQueries:
    @each("low, high", [(None, None), (10, 30), (15, 15), (12.5, 71), (None, 5), (79, None), (-9, 99)])
    def test_ranges_of_numbers(self, synthesizer, whole, low, high):
        ends = 0 if low is None else max(low, 0), 80 if high is None else min(high, 80)
        first, last = (np.clip(np.arange(start, start + 80, 10), *ends) for start in (0, 10))
        below = synthesizer._shapes.columns["wage"].share_below
        starts = np.arange(0.0, 90.0, 10)
        inside = np.maximum(0, below(last.astype(float)) - below(first.astype(float))) / np.diff(below(starts))
        wanted = synthesizer.n_rows_ * (whole.sum(axis=(0, 1, 2)) @ inside)
        assert synthesizer.range_count("wage", low, high) == pytest.approx(wanted, abs=1e-9)
        assert synthesizer.count({"wage": (low, high)}) == pytest.approx(wanted, abs=1e-9)

    def test_ranges_of_values(self, synthesizer, whole):
        shares = synthesizer.n_rows_ * whole.sum(axis=(0, 2, 3))
        assert synthesizer.range_count("b", 1, 3) == pytest.approx(shares[1:3].sum())  # half-open
        assert synthesizer.range_count("b", 3) == pytest.approx(shares[3:].sum())
        jobs = synthesizer.n_rows_ * whole.sum(axis=(0, 1, 3))
        assert synthesizer.range_count("job", "clerk", "smith") == pytest.approx(jobs[0])
        assert synthesizer.range_count("job") == pytest.approx(jobs[:2].sum())  # missing is in no range

    @each(
        "conditions, cells",
        [
            ({}, np.s_[:, :, :, :]),
            ({"a": 2}, np.s_[2:3, :, :, :]),
            ({"a": [1, 2], "job": None}, np.s_[1:3, :, 2:3, :]),
            ({"b": (2, None), "wage": (20, 40)}, np.s_[:, 2:, :, 2:4]),
            ({"job": ["clerk", "smith"], "a": (0, 2), "b": 4, "wage": (None, 10)}, np.s_[:2, 4:, :2, :1]),
            ({"a": []}, np.s_[:0, :, :, :]),
        ],
    )
    def test_conditions_are_sums_of_cells(self, synthesizer, whole, conditions, cells):
        wanted = synthesizer.n_rows_ * whole[cells].sum()
        assert synthesizer.count(conditions) == pytest.approx(wanted, rel=1e-9, abs=1e-9)

    def test_conditions_against_marginals(self, synthesizer):
        table = synthesizer.marginal(["a", "job"])
        for row in table.itertuples():
            job = None if pd.isna(row.job) else row.job
            assert synthesizer.count({"job": job, "a": row.a}) == pytest.approx(row.count, rel=1e-9)


class TestScore:
    def test_it_is_the_logarithm_of_the_cells_probability(self, synthesizer, whole):
        jobs = TABLE["job"].map({"clerk": 0, "smith": 1}).fillna(2).astype(int)
        wanted = np.log(whole[TABLE["a"], TABLE["b"], jobs, bins(TABLE["wage"])])
        np.testing.assert_allclose(synthesizer.score_samples(TABLE), wanted, atol=1e-9)
        assert synthesizer.score(TABLE) == pytest.approx(wanted.mean())

    def test_with_a_target(self):
        fit = fitted(y=LABEL, marginals="tree", handle_unknown={"label": "low", "a": 0})
        both = [fit.score_samples(TABLE, [value] * N) for value in ("low", "high")]
        np.testing.assert_allclose(fit.score_samples(TABLE), np.logaddexp(*both), atol=1e-12)  # of X alone
        wanted = np.where(LABEL == "low", *both)
        np.testing.assert_array_equal(fit.score_samples(TABLE, LABEL), wanted)
        assert fit.score(TABLE, LABEL.to_numpy()) == pytest.approx(wanted.mean())

    def test_what_cannot_occur(self):
        fit = fitted(y=LABEL, marginals="tree", structural_zeros=[{"a": 0}])
        assert np.isneginf(fit.score_samples(TABLE[TABLE["a"] == 0])).all()
        assert fit.score(TABLE) == -math.inf

    def test_undeclared_values(self, synthesizer):
        for policy in ("error", "ignore"):
            with pytest.raises(ValueError, match="column 'a'"):
                fitted(handle_unknown=policy).score(TABLE.assign(a=9))
        assert math.isfinite(fitted(handle_unknown={"a": 0}).score(TABLE.assign(a=9)))
        with pytest.raises(ValueError, match=r"(?i)feature"):
            synthesizer.score(TABLE[["a"]])


def test_matrices_are_multiplied_by_one_thread(monkeypatch):
    """Two threads that wait for each other took twice the CPU time of a fit of 160 columns."""
    threads = []

    def measure(table, plan):
        threads.extend(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
        return strategy.measure(table, plan)

    strategy = STRATEGIES["independent"]
    monkeypatch.setitem(STRATEGIES, "independent", replace(strategy, measure=measure))
    with threadpool_limits(2, user_api="blas"):
        fitted(marginals="independent")
        assert set(threads) == {1}
        assert {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"} == {2}


class TestScikitLearn:
    def test_before_fit(self):
        new = DPMarginalSynthesizer(domain=DOMAIN)
        for call in (new.sample, lambda: new.transform(TABLE), lambda: new.marginal("a"), lambda: new.range_count("a"),
                     lambda: new.count({}), lambda: new.score(TABLE), new.get_feature_names_out,
                     lambda: new.selected_cliques_):  # fmt: skip
            with pytest.raises(NotFittedError):
                call()

    def test_a_clone_has_the_parameters_and_nothing_else(self, synthesizer):
        twin = clone(synthesizer)
        assert repr(twin.get_params()) == repr(synthesizer.get_params())
        assert not hasattr(twin, "guarantee_")

    @pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
    def test_copies_answer_the_same(self, copied):
        fit = fitted()
        twin = copied(fit)
        pd.testing.assert_frame_equal(twin.sample(20), fit.sample(20))
        pd.testing.assert_frame_equal(twin.marginal(["a", "job"]), fit.marginal(["a", "job"]))
        assert twin.guarantee_ == fit.guarantee_

    def test_fit_leaves_the_parameters_and_the_table_alone(self):
        given = {"domain": DOMAIN, "marginals": [["b", "a"]], "workload": [["a"]], "structural_zeros": [{"a": 1}]}
        kept, table = copy.deepcopy(given), TABLE.copy()
        fit = fitted(table, **given)
        fit.transform(table)
        assert {name: getattr(fit, name) for name in given} == kept
        pd.testing.assert_frame_equal(table, TABLE)

    def test_a_second_fit_forgets_the_first(self):
        fit = fitted().set_params(domain={"a": DOMAIN["a"]}, marginals="tree")
        assert list(fit.fit(TABLE[["a"]]).sample(3)) == ["a"]

    def test_a_grid_search_over_epsilon(self):
        search = GridSearchCV(
            DPMarginalSynthesizer(domain=DOMAIN, marginals=CLIQUES, random_state=0), {"epsilon": [0.1, 10]}, cv=3
        ).fit(TABLE)
        assert search.best_params_ == {"epsilon": 10}
        scored = GridSearchCV(
            DPMarginalSynthesizer(domain=DOMAIN | {"label": ["low", "high"]}, marginals="tree", random_state=0),
            {"epsilon": [0.1, 10]}, cv=3, error_score="raise",
        ).fit(TABLE, LABEL)  # fmt: skip
        assert scored.best_params_ == {"epsilon": 10}

    def test_redrawn_columns_in_a_pipeline(self):
        features = TABLE[["a", "b", "job"]]
        steps = DPMarginalSynthesizer(
            5, domain={name: DOMAIN[name] for name in features}, redraw=["job"], random_state=0, marginals="tree"
        )
        pipeline = make_pipeline(steps, OneHotEncoder(sparse_output=False), LogisticRegression())
        # The target reaches `fit` of every step, so it is declared too.
        pipeline.set_params(dpmarginalsynthesizer__domain={**steps.domain, "label": ["low", "high"]})
        pipeline.fit(features, LABEL)
        assert pipeline.score(features, LABEL) > 0.7
        names = pipeline[:-1].get_feature_names_out()
        assert {"a_0", "b_4", "job_clerk"} <= set(names)

    def test_the_tag_for_missing_values(self):
        assert DPMarginalSynthesizer(handle_unknown="ignore").__sklearn_tags__().input_tags.allow_nan
        assert not DPMarginalSynthesizer().__sklearn_tags__().input_tags.allow_nan

    def test_verbose_says_on_the_error_stream(self, capsys):
        fitted(verbose=True)
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("[DPMarginalSynthesizer]")
        fitted()
        assert capsys.readouterr() == ("", "")


def test_a_failed_fit_leaves_the_earlier_one_as_it_was():
    frame = pd.DataFrame({"a": ["x", "y"] * 50, "b": [0, 1] * 50})
    synthesizer = DPMarginalSynthesizer(10.0, domain={"a": ["x", "y"], "b": [0, 1]}).fit(frame)
    guarantee, rows = synthesizer.guarantee_, synthesizer.n_rows_
    synthesizer.set_params(handle_unknown="error", domain={"a": ["x"], "b": [0, 1]}, epsilon=1.0)
    with pytest.raises(ValueError, match="column 'a'"):
        synthesizer.fit(frame)
    assert (synthesizer.guarantee_, synthesizer.n_rows_) == (guarantee, rows)
    assert len(synthesizer.sample(1)) == 1
