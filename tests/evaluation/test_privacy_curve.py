"""Privacy curves: every score equals a loop, with one release for all scorers."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from imblearn.pipeline import make_pipeline as make_imblearn_pipeline
from scipy import stats
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import skdp
from skdp.evaluation import PrivacyCurveDisplay, compare_to_baseline, privacy_curve
from skdp.privacy import Mu, gaussian_epsilon
from tests.conftest import quick_first

ENCODER = "columns__private__encoder"
EPSILON = f"{ENCODER}__epsilon"
DOMAIN = {"group": ["a", "b"], "kind": ["u", "v", "w"]}
COLUMNS = ["epsilon", "split", "metric", "value", "n_train", "n_test"]
releases = []  # the rows of each call of CountingEncoder.transform


@pytest.fixture(autouse=True)
def _forget():
    releases.clear()


class CountingEncoder(skdp.RandomizedResponseEncoder):
    def transform(self, X, person=None):
        if self.epsilon < 1e9:  # the epsilon of the baseline
            releases.append(len(X))
        return super().transform(X, person=person)


def table(n=240, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n)
    y = np.where(rng.random(n) < np.where(group == "a", 0.8, 0.25), "yes", "no")
    return pd.DataFrame({"group": group, "kind": rng.choice(["u", "v", "w"], n), "number": rng.normal(size=n)}), y


def pipeline(encoder=None, classifier=None):
    encoder = encoder or skdp.RandomizedResponseEncoder(categories=DOMAIN)
    private = Pipeline([("encoder", encoder), ("one_hot", OneHotEncoder(handle_unknown="ignore"))])
    columns = ColumnTransformer([("private", private, ["group", "kind"]), ("numbers", StandardScaler(), ["number"])])
    return Pipeline([("columns", columns), ("classifier", classifier or LogisticRegression())])


def curve(estimator=None, data=None, **parameters):
    X, y = data or table()
    defaults = {"param_name": EPSILON, "epsilons": [0.5, 4.0], "cv": 2, "random_state": 0}
    return privacy_curve(estimator or pipeline(), X, y, **defaults | parameters)


def values(frame, metric, epsilon):
    return frame.loc[(frame["metric"] == metric) & (frame["epsilon"] == epsilon), "value"].tolist()


def seeds_of(**parameters):
    """Return the seed of each cell: the random bits of a cell are the bits of its encoder."""
    found = []

    class Spy(skdp.RandomizedResponseEncoder):
        def fit(self, X, y=None):
            found.append(self.random_state)
            return super().fit(X, y)

    quick = pipeline(Spy(categories=DOMAIN), DummyClassifier(random_state=5))
    curve(quick, baseline=None, **parameters)
    return found


class TestScores:
    def test_scores_equal_a_loop(self):
        X, y = table()
        result = curve(scoring=["accuracy", "roc_auc"], epsilons=[0.5])
        seeds = iter(seeds_of(epsilons=[0.5]))
        expected = []
        for epsilon in (math.inf, 0.5):
            folds = StratifiedKFold(2, shuffle=True, random_state=0).split(X, y)
            for split, (train, test) in enumerate(folds):
                model = pipeline()
                if epsilon == math.inf:
                    model.set_params(columns__private__encoder="passthrough")
                else:
                    model.set_params(**{EPSILON: epsilon, f"{ENCODER}__random_state": next(seeds)})
                model.fit(X.iloc[train], y[train])
                encoded = model[:-1].transform(X.iloc[test])
                right = accuracy_score(y[test], model[-1].predict(encoded))
                area = roc_auc_score(y[test], model[-1].decision_function(encoded))
                expected += [(epsilon, split, "accuracy", right, 120, 120)]
                expected += [(epsilon, split, "roc_auc", area, 120, 120)]
        pd.testing.assert_frame_equal(result[COLUMNS], pd.DataFrame(expected, columns=COLUMNS))

    def test_test_rows_are_true_within_onfitonly(self):
        inner = skdp.OnFitOnly(skdp.RandomizedResponseEncoder(categories=DOMAIN))
        result = curve(pipeline(inner), param_name=f"{ENCODER}__transformer__epsilon", epsilons=[50.0])
        assert values(result, "accuracy", 50.0) == values(result, "accuracy", math.inf)

    @pytest.mark.parametrize("encoder", quick_first(1, [skdp.RandomizedResponseEncoder, skdp.UnaryEncodingTransformer]))
    def test_epsilon_of_the_baseline_is_not_a_weak_guarantee(self, encoder):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            curve(pipeline(encoder(categories=DOMAIN)), epsilons=[1.0])
        with pytest.warns(skdp.WeakGuaranteeWarning, match="epsilon=30 gives weak protection"):
            curve(pipeline(encoder(categories=DOMAIN)), epsilons=[30.0])

    @pytest.mark.long
    def test_two_processes_equal_one_process(self):
        pd.testing.assert_frame_equal(curve(n_jobs=2, epsilons=[0.5]), curve(epsilons=[0.5]))
        encoder = skdp.RandomizedResponseEncoder(categories=DOMAIN, ledger=skdp.PrivacyLedger(epsilon=100))
        with pytest.raises(RuntimeError, match="A PrivacyLedger in memory belongs to one process"):
            curve(pipeline(encoder), n_jobs=2)


def test_scorer_may_predict_other_rows():
    def count(estimator, X, y):
        return len(estimator.predict(X)) - len(estimator.predict(X[:7]))

    assert values(curve(scoring=count, epsilons=[1.0]), "score", 1.0) == [113.0] * 2


@pytest.mark.parametrize("wrap", ["vote", "posterior"])
def test_all_scorers_use_one_release_of_the_test_rows(wrap):
    """Labels and probabilities of one release agree; with two releases at a small epsilon, they differ."""

    def agreement(estimator, X, y):
        labels = np.asarray(estimator.classes_)[estimator.predict_proba(X).argmax(axis=1)]
        return np.mean(labels == estimator.predict(X))

    releases.clear()
    X, y = table()
    model, name = pipeline(CountingEncoder(categories=DOMAIN)), EPSILON
    if wrap == "posterior":
        X = X[["group", "kind"]]
        bits = skdp.UnaryEncodingTransformer(categories=DOMAIN)
        model = make_pipeline(skdp.PosteriorFeatures(bits), LogisticRegression())
        name = "posteriorfeatures__encoder__epsilon"
    model, name = VotingClassifier([("only", model)], voting="soft"), f"only__{name}"
    scoring = {"agreement": agreement, "right": "accuracy", "area": "roc_auc"}
    result = curve(model, (X, y), param_name=name, scoring=scoring, epsilons=[0.1], baseline=None)
    assert values(result, "agreement", 0.1) == [1.0] * 2
    if wrap == "vote":
        assert releases == [120, 120] * 2
        # Without one release, each scorer draws again.
        fitted = clone(model).set_params(**{name: 0.1}).fit(X, y)
        assert not np.array_equal(fitted.predict_proba(X), fitted.predict_proba(X))


def test_cells_have_distinct_seeds_that_do_not_depend_on_other_cells():
    some = seeds_of(epsilons=[0.5])
    assert len(set(some)) == len(some) == 2
    more = seeds_of(epsilons=[0.1, 0.5], cv=RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0))
    assert len(set(more)) == 8
    assert some == more[4:6]
    assert not set(some) & set(seeds_of(epsilons=[0.5], random_state=1))
    assert set(seeds_of(random_state=None, epsilons=[0.5])) == {None}


def test_private_steps_have_seeds_of_their_own():
    found = []

    class Spy(skdp.RandomizedResponseEncoder):
        def fit(self, X, y=None):
            found.append(self.random_state)
            return super().fit(X, y)

    parts = [(name, Spy(categories={name: DOMAIN[name]}), [name]) for name in DOMAIN]
    model = make_pipeline(ColumnTransformer(parts), OneHotEncoder(), DummyClassifier())
    curve(model, param_name="columntransformer__group__epsilon", epsilons=[0.5], baseline=None)
    assert len(set(found)) == len(found) == 4  # two steps in each of two splits


class TestBaselines:
    def test_private_scaler_has_a_baseline(self):
        X, y = table()
        model = make_pipeline(skdp.DPStandardScaler(bounds=[(-4, 4)]), LogisticRegression())
        plain = make_pipeline(StandardScaler(), LogisticRegression())
        parameters = {"param_name": "dpstandardscaler__epsilon", "data": (X[["number"]], y)}
        given = curve(model, baseline=plain, **parameters)
        assert values(curve(model, **parameters), "accuracy", math.inf) == values(given, "accuracy", math.inf)

    def test_random_encoding_has_a_baseline_that_charges_nothing(self):
        ledger = skdp.PrivacyLedger(epsilon=1.0)
        found = curve(pipeline(skdp.LocalHashingEncoder(0.25, categories=DOMAIN, ledger=ledger)), epsilons=[0.25])
        assert np.isinf(found["epsilon"]).sum() == 2
        assert ledger.spent.epsilon == 4 * 0.25  # two fits and two sets of test rows

    def test_synthetic_training_rows_have_a_baseline(self):
        X, y = table()
        synthesizer = skdp.DPMarginalSynthesizer(domain=DOMAIN | {"target": ["no", "yes"]}, marginals="full")
        model = make_imblearn_pipeline(skdp.SyntheticResampler(synthesizer), OneHotEncoder(), LogisticRegression())
        name = "syntheticresampler__synthesizer__epsilon"
        result = curve(model, (X[["group", "kind"]], y), param_name=name, epsilons=[5.0])
        assert min(values(result, "accuracy", math.inf)) > 0.7


def test_each_release_is_charged_and_an_error_is_raised():
    ledger = skdp.PrivacyLedger(epsilon=100)
    curve(pipeline(skdp.RandomizedResponseEncoder(categories=DOMAIN, ledger=ledger)))
    assert ledger.spent.epsilon == pytest.approx(4 * 4.5)
    ledger = skdp.PrivacyLedger(epsilon=1)
    with pytest.raises(skdp.BudgetExceeded):
        curve(pipeline(skdp.RandomizedResponseEncoder(categories=DOMAIN, ledger=ledger)))
    assert ledger.spent.epsilon <= 1


@pytest.mark.long
def test_epsilon_of_the_only_private_step_is_found():
    pd.testing.assert_frame_equal(curve(param_name=None), curve())
    wrapped = pipeline(skdp.OnFitOnly(skdp.RandomizedResponseEncoder(categories=DOMAIN)))
    named = curve(wrapped, param_name=f"{ENCODER}__transformer__epsilon")
    pd.testing.assert_frame_equal(curve(wrapped, param_name=None), named)


@pytest.mark.filterwarnings("ignore:The (noise|limits):UserWarning")
class TestTotals:
    """All private steps share a total, whose guess is the one of the statement."""

    def scaled(self, first=1.0, second=3.0, **ledger):
        """Return a scaler and a model that get a quarter and three quarters of a total."""
        return make_pipeline(
            skdp.DPStandardScaler(first, bounds=(-4, 4), **ledger),
            skdp.DPLogisticRegression(second, classes=["no", "yes"], **ledger),
        )

    def totals(self, model, epsilons, **parameters):
        X, y = table()
        return curve(model, (X[["number"]], y), param_name=None, epsilons=epsilons, **parameters)

    def test_steps_share_a_total(self):
        ledger = skdp.PrivacyLedger(epsilon=10.0, delta=1e-5)
        result = self.totals(self.scaled(ledger=ledger), [0.4, 2.0])
        assert ledger.charges()["epsilon"].tolist() == pytest.approx([0.1, 0.3] * 2 + [0.5, 1.5] * 2)
        X, y = table()
        fitted = self.scaled(0.5, 1.5).fit(X[["number"]], y)
        stated = skdp.privacy_statement(fitted).total
        guesses = result.groupby("epsilon")["guess"].first()
        assert guesses[2.0] == stated.guess_probability
        assert 0.5 < guesses[0.4] < guesses[2.0]
        assert result.loc[np.isinf(result["epsilon"]), "guess"].isna().all()
        assert compare_to_baseline(result)["guess"].tolist() == guesses[[0.4, 2.0]].tolist()

    def test_totals_in_mu_have_their_guess(self):
        ledger = skdp.PrivacyLedger(guess=0.7)
        result = self.totals(self.scaled(ledger=ledger), [Mu.of(guess=0.6)], cv=[(np.arange(120), np.arange(120, 240))])
        assert ledger.balance().loc["spent", "guess"] == pytest.approx(0.6)
        (epsilon,) = set(result["epsilon"]) - {math.inf}
        assert epsilon == pytest.approx(gaussian_epsilon(Mu.of(guess=0.6).mu, 1e-6))
        assert values(result, "accuracy", epsilon)
        assert result["guess"].max() == pytest.approx(0.6)

    def test_reports_have_the_guess_of_their_release(self):
        encoder = skdp.RandomizedResponseEncoder(categories={"group": DOMAIN["group"]})
        X, y = table()
        model = make_pipeline(encoder, OneHotEncoder(), LogisticRegression())
        result = curve(model, (X[["group"]], y), param_name=None, epsilons=[2.0])
        assert result["guess"].max() == pytest.approx(1 / (1 + math.exp(-2)))

    def test_unprotected_columns_have_no_guess(self):
        model = make_pipeline(skdp.DPStandardScaler(bounds=(-4, 4)), LogisticRegression())
        assert self.totals(model, [2.0])["guess"].isna().all()


def test_estimator_without_private_steps_raises():
    with pytest.raises(ValueError, match=r"`estimator` must have a private step.*got none. Add one"):
        curve(LogisticRegression(), param_name=None)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"param_name": "epsilon"}, ValueError, "`param_name` must be a parameter of the estimator, got 'epsilon'"),
        ({"epsilons": [1, 1.0]}, ValueError, "`epsilons` must be distinct"),
        ({"epsilons": 1.0}, TypeError, "`epsilons` must be a list of numbers, Rho or Mu.*, got float"),
        ({"scoring": "no such"}, ValueError, "scoring"),
        ({"data": (table()[0], table(9)[1])}, ValueError, "inconsistent numbers of samples"),
        ({"data": (table()[0].sample(frac=1), pd.Series(table()[1]))}, ValueError, "row labels in the order of"),
    ],
)
def test_invalid_input_raises_before_release(parameters, error, message):
    with pytest.raises(error, match=message):
        curve(**{"estimator": pipeline(CountingEncoder(categories=DOMAIN))} | parameters)
    assert releases == []


def scores(by_epsilon, metric="accuracy", sizes=(80, 20)):
    """Return scores by epsilon, one for each split."""
    rows = []
    for epsilon, splits in by_epsilon.items():
        rows += [(epsilon, split, metric, value, *sizes) for split, value in enumerate(np.ravel(splits))]
    return pd.DataFrame(rows, columns=COLUMNS)


class TestDifferences:
    def test_standard_error_equals_nadeau_and_bengio(self):
        rng = np.random.default_rng(0)
        plain, private = rng.random((2, 3, 5))
        result = scores({math.inf: plain, 1.0: private})
        for shuffled in (result, result.sample(frac=1, random_state=0)):  # pairs belong to a split
            found = compare_to_baseline(shuffled).iloc[0]
            differences = (private - plain).ravel()
            error = math.sqrt((1 / 15 + 20 / 80) * differences.var(ddof=1))
            ends = differences.mean() + stats.t(14).ppf([0.025, 0.975]) * error
            assert found["difference"] == pytest.approx(differences.mean())
            assert found["std_error"] == pytest.approx(error)
            assert (found["lower"], found["upper"]) == pytest.approx(tuple(ends))
            assert found["n_pairs"] == 15

    def test_undefined_scores_are_excluded(self):
        found = compare_to_baseline(
            scores({math.inf: [[0.5, math.nan, 0.7, 0.6]], 1.0: [[0.4, 0.1, math.inf, 0.6]]})
        ).iloc[0]
        assert (found["n_pairs"], found["difference"]) == (2, pytest.approx(-0.05))
        alone = compare_to_baseline(scores({math.inf: [[0.5]], 1.0: [[0.4]]})).iloc[0]
        assert alone[["std_error", "lower", "upper"]].isna().all()

    def test_metrics_have_separate_rows(self):
        parts = [scores({math.inf: [[0.5, 0.6]], 1.0: [[0.5 + k, 0.6 + k]]}, name) for k, name in enumerate("ab")]
        found = compare_to_baseline(pd.concat(parts))
        assert found["metric"].tolist() == ["a", "b"]
        assert found["difference"].tolist() == pytest.approx([0, 1])
        with pytest.raises(ValueError, match="must have a baseline"):
            compare_to_baseline(parts[0][np.isfinite(parts[0]["epsilon"])])
        again = parts[0][np.isfinite(parts[0]["epsilon"])].assign(value=0.0)
        twice = pd.concat([parts[0], again])
        with pytest.raises(ValueError, match="each split once"):
            compare_to_baseline(twice)

    @pytest.mark.parametrize("use", [compare_to_baseline, PrivacyCurveDisplay.from_curve])
    def test_curves_with_a_baseline_each_cannot_be_joined(self, use):
        curves = [
            scores({math.inf: [[level, level]], epsilon: [[0.5, 0.6]]}) for level, epsilon in ((0.9, 1.0), (0.7, 2.0))
        ]
        with pytest.raises(ValueError, match=r"Use a single baseline.*`baseline=None`"):
            use(pd.concat(curves))


def test_warning_of_several_fits_is_issued_once():
    """A curve of three epsilons and three splits had 26 warnings."""
    X, y = table()
    model = make_pipeline(skdp.DPStandardScaler(bounds=(None, None)), LogisticRegression())
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("default")
        curve(model, (X[["number"]], y), param_name=None, epsilons=[0.001, 0.002], cv=3)
    texts = [str(each.message) for each in issued if "are guesses" in str(each.message)]
    assert len(texts) == 1
    assert all(each.filename == __file__ for each in issued)
