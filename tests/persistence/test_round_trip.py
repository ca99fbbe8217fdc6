"""`skdp.load` reads files of `skdp.save`: equal parameters, fitted attributes and releases."""

import io
import pickle
import re
import zipfile
from datetime import date
from fractions import Fraction
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn import compose, decomposition, frozen, impute, linear_model, naive_bayes, pipeline, preprocessing
from sklearn.base import BaseEstimator, clone

import skdp
from skdp.domain import Categories
from skdp.privacy import Rho
from tests.conftest import draw_by_key
from tests.errors import refusal
from tests.estimators import BOUNDS, DECLARED, NUMBERS, SUBJECTS, WORDS
from tests.local.protocols import FITTED
from tests.persistence.forgery import save_bytes

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:The noise (exceeds|is about):UserWarning", "ignore:.* fewer bins than", "ignore:X and y are treated"
    ),
]

NO_ESTIMATORS = {"ReportTally", "PrivacyLedger", "PrivacyGuarantee", "Domain", "Interval", "ReportDesign", "SecretKey"}
"""Public classes that are not estimators: ledgers and tallies have files of their own."""

OURS = [(f"{index}-{type(one).__name__}", one, X) for index, (one, X) in enumerate(SUBJECTS)]
OURS += [("private columns", skdp.DPColumnSynthesizer(["job"], domain=DECLARED), WORDS)]
OURS += [("one-hot", skdp.DPOneHotEncoder(categories=DECLARED), WORDS)]
OURS += [(f"protocol: {name}", one, X) for name, (one, X) in FITTED.items() if name[:5] != "large"]
DRAWN = np.random.default_rng(0).normal(size=(len(NUMBERS), 2))
PLAIN = [(skdp.ReportLogisticRegression(), DRAWN), (skdp.ReportLinearRegression(), DRAWN)]
THEIRS = [
    *PLAIN,  # without reports
    (preprocessing.StandardScaler(), NUMBERS),
    (preprocessing.QuantileTransformer(n_quantiles=5), NUMBERS),
    (preprocessing.KBinsDiscretizer(3, strategy="uniform"), NUMBERS),
    (preprocessing.OneHotEncoder(min_frequency=15, drop="first", handle_unknown="infrequent_if_exist"), WORDS),
    (preprocessing.OrdinalEncoder(max_categories=2, handle_unknown="use_encoded_value", unknown_value=-1), WORDS),
    (impute.SimpleImputer(add_indicator=True), np.where(NUMBERS < 10, np.nan, NUMBERS)),
    (decomposition.PCA(1), NUMBERS),
    (linear_model.LogisticRegression(class_weight={0: 1, 1: 2.5}, max_iter=1000), NUMBERS),
    (naive_bayes.CategoricalNB(), (NUMBERS // 20).astype(int)),
    (frozen.FrozenEstimator(preprocessing.StandardScaler().fit(NUMBERS)), NUMBERS),
    (pipeline.make_union(preprocessing.StandardScaler(), skdp.DPStandardScaler(100.0, bounds=BOUNDS)), NUMBERS),
    (skdp.DPStandardScaler(Rho(50.0, delta=1e-6), bounds=BOUNDS), NUMBERS),
    (
        compose.make_column_transformer(
            (skdp.RandomizedResponseEncoder(categories={"job": DECLARED["job"]}), ["job"]),
            (preprocessing.OneHotEncoder(), [1]),
            remainder="passthrough",
        ),
        WORDS,
    ),
    (
        pipeline.make_pipeline(
            compose.ColumnTransformer(
                [("all", skdp.OnFitOnly(skdp.UnaryEncodingTransformer(categories=DECLARED)), slice(0, 2))], n_jobs=None
            ),
            pipeline.make_union(preprocessing.MinMaxScaler(), "passthrough"),
            linear_model.LogisticRegression(),
        ),
        WORDS,
    ),
]


def fit_estimator(estimator, X):
    if isinstance(estimator, skdp.SyntheticResampler):
        estimator = clone(estimator)
        estimator.fit_resample(X)
        return estimator
    if (
        isinstance(estimator, skdp.HeavyHitters | skdp.DPMarginalSynthesizer | skdp.DPLinkedSynthesizer)
        or np.ndim(X) == 1
    ):
        return estimator.fit(X)
    return clone(estimator).fit(X, np.arange(len(X)) % 2)


def save_and_load(estimator, **options):
    return skdp.load(io.BytesIO(save_bytes(estimator)), **options)


def without_secrets(estimator):
    """Return an estimator without a seed and with fresh reports, because permanent reports have a key."""
    names = estimator.get_params().keys()
    fresh = {name: None for name in names if name.rpartition("__")[2] == "random_state"}
    if getattr(estimator, "secret_key", None) is not None:
        fresh |= {"secret_key": None, "memoize": False, "instantaneous_epsilon": None}
    return clone(estimator).set_params(**{name: value for name, value in fresh.items() if name in names})


def releases(estimator, X):
    """Return the outputs of an estimator for a table, with repeated random bytes."""
    with draw_by_key("releases"):
        return draw_releases(estimator, X)


def draw_releases(estimator, X):
    estimator = pickle.loads(pickle.dumps(estimator))
    permanent = {"person": np.arange(len(X))} if getattr(estimator, "secret_key", None) else {}
    made = {}
    for method in ("transform", "predict", "sample", "inverse_transform"):
        if hasattr(estimator, method) and not (method == "inverse_transform" and "transform" not in made):
            given = 50 if method == "sample" else made["transform"] if method == "inverse_transform" else X
            try:
                made[method] = getattr(estimator, method)(given, **permanent)
            except (ValueError, TypeError) as error:
                made[method] = str(error)
    return {name: value.toarray() if hasattr(value, "toarray") else value for name, value in made.items()}


def parameters_of(estimator):
    """Return a hash of all parameters with their types; parts and ledgers by their types, lists of steps as text."""
    hashed = {}
    for name, value in estimator.get_params().items():
        is_steps = isinstance(value, list) and isinstance(value[0], tuple)
        hashed[name] = type(value) if isinstance(value, BaseEstimator | skdp.PrivacyLedger) else value
        hashed[name] = str(value) if is_steps else hashed[name]
    return joblib.hash(hashed)


def check_round_trip(estimator, X):
    """Return the file that was loaded."""
    data = save_bytes(estimator)
    again = skdp.load(io.BytesIO(data))
    assert parameters_of(again) == parameters_of(estimator)
    made = joblib.hash(releases(estimator, X))
    assert joblib.hash(releases(again, X)) == made
    if hasattr(estimator, "guarantee_"):
        assert again.guarantee_ == estimator.guarantee_
    return data


@pytest.mark.parametrize(("estimator", "X"), [pair[1:] for pair in OURS], ids=[name for name, *_ in OURS])
def test_estimators_of_skdp_round_trip(estimator, X):
    data = check_round_trip(fit_estimator(without_secrets(estimator), X), X)
    # A file of this version can be loaded after private modules move.
    schema = zipfile.ZipFile(io.BytesIO(data)).read("schema.json").decode()
    modules = {part for part in re.findall(r'"__module__": "([\w.]+)"', schema) if part.startswith("skdp")}
    assert modules == {"skdp.persistence"}


@pytest.mark.parametrize(("estimator", "X"), THEIRS, ids=lambda value: type(value).__name__)
def test_steps_of_scikit_learn_round_trip(estimator, X):
    data = check_round_trip(fit_estimator(estimator, X), X)
    check_round_trip(skdp.load(io.BytesIO(data)), X)


def test_table_of_estimators_is_complete():
    classes = [value for name in skdp.__all__ if isinstance(value := getattr(skdp, name), type)]
    estimators = {one.__name__ for one in classes if issubclass(one, BaseEstimator)}
    tested = {type(one).__name__ for one in [*(one for _, one, _ in OURS), *(one for one, _ in PLAIN)]}
    assert estimators - tested == set(), "add them to SUBJECTS in tests/estimators.py"
    assert tested <= estimators
    signals = {"BudgetExceeded", "PrivacyLeakWarning", "WeakGuaranteeWarning"}
    assert {one.__name__ for one in classes} - estimators - NO_ESTIMATORS == signals


def test_privacy_statement_is_equal_after_load():
    with pytest.warns(skdp.PrivacyLeakWarning):
        encoder = skdp.RandomizedResponseEncoder(1.0).fit(WORDS)
    again = save_and_load(encoder)
    assert again.categories == "auto"
    assert again.domain_["job"].observed
    assert save_and_load(skdp.DPHistogram(domain=encoder.domain_)).domain["job"].observed
    for one in (encoder, skdp.DPHistogram(domain=DECLARED).fit(WORDS)):
        assert str(skdp.privacy_statement(save_and_load(one), WORDS)) == str(skdp.privacy_statement(one, WORDS))


def test_dtypes_of_ordered_categories_are_kept():
    jobs = pd.Categorical([*"abc"] * 20, [*"abc"], ordered=True)
    rows = pd.DataFrame({"job": jobs})
    encoder = skdp.RandomizedResponseEncoder(1.0).fit(rows)
    assert save_and_load(encoder).transform(rows)["job"].dtype == encoder.transform(rows)["job"].dtype
    synthesizer = skdp.DPMarginalSynthesizer(1.0, domain={"job": [*"abc"]}, random_state=0).fit(rows)
    assert save_and_load(synthesizer).sample(20)["job"].dtype == synthesizer.sample(20)["job"].dtype


@pytest.mark.parametrize(
    "estimator",
    [
        skdp.RandomizedResponseEncoder(Fraction(1, 3), categories=skdp.Domain(DECLARED)),
        skdp.NumericPerturber(bounds={"a": (0, np.int64(7))}),
        skdp.LocalTableEncoder(2.0, categories=DECLARED, bounds={"a": (0, 7)}, weights={"a": 2.0, "job": 1}),
        skdp.DPMean(bounds=np.array([[0.0, 1.0]])),
        skdp.DPHistogram(domain={"age": skdp.Interval(0, 100, bins=5), 3: [None, 1.5, date(2020, 1, 1)]}),
        skdp.DPHistogram(domain={"grade": Categories(["low", "high", None], ordered=True)}),
        skdp.SyntheticResampler(skdp.DPMarginalSynthesizer(domain=range(4), workload=[("a", "b")])),
        skdp.PosteriorFeatures(skdp.RandomizedResponseEncoder()),
        preprocessing.StandardScaler().set_output(transform="polars"),
        skdp.NumericPerturber(bounds=BOUNDS).set_output(transform="polars"),
    ],
)
def test_unfitted_estimator_round_trips(estimator):
    again = save_and_load(estimator)
    assert parameters_of(again) == parameters_of(estimator)
    assert vars(again).keys() == vars(estimator).keys()
    assert vars(again).get("_sklearn_output_config") == vars(estimator).get("_sklearn_output_config")


@pytest.mark.parametrize("key", [skdp.SecretKey(b"nobody may see it"), b"nobody may see it"])
def test_secret_keys_raise_an_error(key):
    encoder = skdp.RandomizedResponseEncoder(memoize=True, secret_key=key, categories=DECLARED)
    for estimator in (encoder, encoder.fit(WORDS), pipeline.make_pipeline(skdp.OnFitOnly(encoder))):
        with refusal(ValueError, "`secret_key` must be None", "nobody"):
            save_bytes(estimator)


def test_names_of_columns_keep_their_types():
    mean = skdp.DPMean(bounds=(0, 2)).fit(pd.DataFrame({b"a": np.ones(40), 1: np.ones(40)}))
    assert save_and_load(mean).guarantee_.scope == mean.guarantee_.scope == (b"a", 1)


class TestLedgers:
    def encoder(self, ledger):
        return skdp.RandomizedResponseEncoder(1.0, categories=DECLARED, ledger=ledger).fit(WORDS)

    @pytest.mark.parametrize("file", [None, "ledger.sqlite"])
    def test_nothing_is_released_without_the_ledger(self, file, tmp_path):
        ledger = skdp.PrivacyLedger(path=file and tmp_path / file, epsilon=1.5, delta=1e-6)
        path = tmp_path / "encoder.skdp"
        skdp.save(self.encoder(ledger), path)
        assert str(tmp_path).encode() not in path.read_bytes()
        again = skdp.load(path)
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"skdp\.load\(path, ledger="):
                again.transform(WORDS)
            again = save_and_load(again)
        assert ledger.spent.epsilon == 0
        assert (again.ledger.epsilon, again.ledger.delta) == (1.5, 1e-6)
        pickle.loads(pickle.dumps(again))

    def test_given_ledger_is_charged(self):
        scaler = skdp.DPStandardScaler(1.0, bounds=(0, 40), ledger=skdp.PrivacyLedger(epsilon=1.0))
        steps = pipeline.make_union(self.encoder(scaler.ledger), self.encoder(scaler.ledger))
        ledger = skdp.PrivacyLedger(epsilon=2.5)
        again = save_and_load(steps, ledger=ledger)
        again.transform(WORDS)
        assert ledger.spent.epsilon == 2
        with pytest.raises(skdp.BudgetExceeded):
            again.transform(WORDS)

    def test_invalid_ledgers_raise_an_error(self):
        with pytest.raises(ValueError, match="one ledger, got several"):
            save_bytes(pipeline.make_union(*(self.encoder(skdp.PrivacyLedger(epsilon=1.0)) for _ in range(2))))
        with pytest.raises(ValueError, match="no saved estimator had a ledger"):
            save_and_load(skdp.DPMean(bounds=BOUNDS), ledger=skdp.PrivacyLedger(epsilon=1.0))
        with pytest.raises(TypeError, match="`ledger` must be"):
            skdp.load(io.BytesIO(), ledger=1.0)


@pytest.mark.parametrize("changes", [{"epsilon": 2.0}, {"epsilon": True}, {"handle_unknown": "uniform"}])
def test_changed_parameters_after_fit_raise_an_error(changes):
    encoder = skdp.RandomizedResponseEncoder(categories=DECLARED).fit(WORDS)
    with pytest.raises(ValueError, match="changed after fit"):
        save_bytes(encoder.set_params(**changes))


def test_objects_that_are_no_estimators_raise_an_error():
    with pytest.raises(TypeError, match="`estimator` must be an estimator, got ABCMeta"):
        save_bytes(skdp.RandomizedResponseEncoder)


def test_load_of_a_protocol_names_read_protocol(tmp_path):
    encoder = skdp.RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]})
    encoder.fit(pd.DataFrame({"sex": ["f"]})).save(tmp_path / "p.json")
    with pytest.raises(ValueError, match=r"skdp\.read_protocol"):
        skdp.load(tmp_path / "p.json")


def test_full_disk_keeps_the_file_that_was_saved_before(tmp_path, monkeypatch):
    path, write = tmp_path / "mean.skops", Path.write_bytes
    first, second = (skdp.DPMean(1.0, bounds=BOUNDS).fit(NUMBERS) for _ in range(2))
    skdp.save(first, path)
    path.chmod(0o600)

    def fill(path, content):
        write(path, content[:100])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", fill)
        with pytest.raises(OSError, match="No space"):
            skdp.save(second, path)
    assert skdp.load(path).mean_ == pytest.approx(first.mean_)
    link = tmp_path / "link.skops"
    link.symlink_to(path)
    skdp.save(second, link)
    assert skdp.load(path).mean_ == pytest.approx(second.mean_)
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(tmp_path.iterdir()) == [link, path]
