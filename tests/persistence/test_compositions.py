"""Estimators in ensembles, searches and containers: files without ledgers, keys and seeds that `load` reads."""

from __future__ import annotations

import io
import itertools
import json
import zipfile
from collections import OrderedDict
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    BaggingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import SelectKBest, chi2
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import fbeta_score, make_scorer
from sklearn.model_selection import GridSearchCV, KFold, RandomizedSearchCV, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, SplineTransformer
from sklearn.tree import DecisionTreeClassifier

import skdp
from skdp.privacy import Rho
from tests.conftest import often
from tests.persistence.forgery import add_version, list_members, save_bytes

X = np.random.default_rng(0).uniform(size=(300, 2))
Y = (X[:, 0] + X[:, 1] > 1).astype(int)
SEED = 739_201_846


def bayes(ledger=None, **options):
    return skdp.DPGaussianNB(9.0, bounds=(0, 1), classes=[0, 1], ledger=ledger, **options)


def compose_with(ledger):
    """Return compositions of scikit-learn that contain estimators with a ledger in different attributes."""
    model = bayes(ledger)
    return [
        CalibratedClassifierCV(model, cv=2),
        CalibratedClassifierCV(model, cv=2, method="isotonic", ensemble=False),
        VotingClassifier([("a", model), ("b", LogisticRegression())], voting="soft"),
        StackingClassifier([("a", model)], cv=2),
        BaggingClassifier(model, 2),
        OneVsRestClassifier(model),
        GridSearchCV(model, {"epsilon": [8.0, 9.0], "max_rows_per_person": [1]}, cv=KFold(2)),
        GridSearchCV(model, [{"epsilon": [Rho(9.0, delta=1e-6)]}], cv=2, scoring=make_scorer(fbeta_score, beta=1)),
        TunedThresholdClassifierCV(model, cv=2),
        make_pipeline(MinMaxScaler(), CalibratedClassifierCV(model, cv=2)),
    ]


@pytest.fixture
def ledger(tmp_path):
    folder = tmp_path / "folder-of-the-ledger"
    folder.mkdir()
    return skdp.PrivacyLedger(1e4, delta=0.1, path=folder / "budget.sqlite")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("place", often(range(10), range(0, 10, 2)))
def test_compositions_are_loaded_without_the_address_of_the_ledger(place, ledger):
    model = compose_with(ledger)[place].fit(X, Y)
    data = save_bytes(model)
    for mark in (b"folder-of-the-ledger", b"budget.sqlite", b"PosixPath", b"FileBook"):
        assert mark not in list_members(data)
    loaded = skdp.load(io.BytesIO(data))
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert save_bytes(loaded)
    spent = ledger.spent
    with pytest.raises(RuntimeError, match="loaded without its ledger"):
        sklearn.clone(loaded).set_params(**raise_errors(loaded)).fit(X, Y)
    other = skdp.PrivacyLedger(1e4, delta=0.1)
    skdp.load(io.BytesIO(data), ledger=other).fit(X, Y)
    assert ledger.spent == spent
    assert other.spent.epsilon > 0


def raise_errors(estimator):
    return {"error_score": "raise"} if "error_score" in estimator.get_params() else {}


SHARED = bayes()  # one object in two ensembles


@pytest.mark.parametrize(
    "estimator",
    [
        bayes(random_state=SEED),
        bayes(random_state=np.random.RandomState(SEED)),
        skdp.RandomizedResponseEncoder(1.0, categories={"x0": [0, 1], "x1": [0, 1]}, random_state=SEED),
        skdp.OnFitOnly(skdp.UnaryEncodingTransformer(1.0, categories={"x0": [0, 1], "x1": [0, 1]}, random_state=SEED)),
        VotingClassifier([("a", bayes(random_state=SEED))]),
        BaggingClassifier(bayes(), 2, random_state=SEED),
        CalibratedClassifierCV(BaggingClassifier(bayes(), 2, random_state=SEED), cv=2),
        VotingClassifier([(name, BaggingClassifier(SHARED, 2, random_state=SEED)) for name in "ab"]),
        GridSearchCV(bayes(), {"random_state": [SEED]}, cv=2),
        GridSearchCV(bayes(), OrderedDict(random_state=[SEED]), cv=2),
        GridSearchCV(make_pipeline(bayes()), [{"dpgaussiannb__random_state": np.array([SEED])}], cv=2),
        RandomizedSearchCV(bayes(), {"random_state": (SEED, SEED)}, n_iter=2, cv=2, random_state=3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_seeds_of_private_estimators_are_not_saved(estimator):
    binary = (X > 0.5).astype(int)
    fitted = estimator.fit(binary, Y)
    content = list_members(save_bytes(fitted))
    assert str(SEED).encode() not in content
    assert SEED.to_bytes(8, "little") not in content
    assert b"RandomState" not in content
    loaded = skdp.load(io.BytesIO(save_bytes(fitted)))
    seeds = [value for name, value in loaded.get_params().items() if name.endswith("random_state")]
    assert set(seeds) <= {None}
    assert getattr(loaded, "_seeds", None) in (None, [None])
    if hasattr(fitted, "guarantee_"):
        assert not fitted.guarantee_.secure
        assert loaded.guarantee_ == fitted.guarantee_


def test_search_whose_grid_had_seeds_can_be_fitted_again():
    loaded = skdp.load(io.BytesIO(save_bytes(GridSearchCV(bayes(), {"random_state": [SEED, None]}, cv=2))))
    assert loaded.fit(X, Y).best_params_ == {"random_state": None}


@pytest.mark.parametrize("key", [bytes(range(32)), skdp.SecretKey(bytes(range(32)))], ids=["bytes", "SecretKey"])
def test_secret_keys_in_the_grid_of_a_search_are_not_saved(key):
    encoder = skdp.RandomizedResponseEncoder(1.0, categories={"x0": [0, 1], "x1": [0, 1]})
    grid = {"randomizedresponseencoder__secret_key": [None, key]}
    with pytest.raises(ValueError, match="`secret_key` must be None"):
        save_bytes(GridSearchCV(make_pipeline(encoder, LogisticRegression()), grid))


class DerivedEncoder(skdp.RandomizedResponseEncoder):
    """An encoder of a user."""


@pytest.mark.parametrize("key", [bytes(range(32)), skdp.SecretKey(bytes(range(32)))], ids=["bytes", "SecretKey"])
def test_secret_key_of_a_derived_encoder_is_not_saved(key):
    encoder = DerivedEncoder(1.0, categories={"x0": [0, 1]}, secret_key=key)
    with pytest.raises(ValueError, match="`secret_key` must be None to be saved"):
        save_bytes(make_pipeline(encoder, LogisticRegression()))


def test_files_without_private_estimators_have_no_seeds():
    forest = RandomForestClassifier(2, random_state=3).fit(X, Y)
    loaded = skdp.load(io.BytesIO(save_bytes(forest)), trusted=TREES)
    assert {loaded.random_state, *(tree.random_state for tree in loaded.estimators_)} == {None}
    np.testing.assert_array_equal(loaded.predict_proba(X), forest.predict_proba(X))


class Holder(BaseEstimator):
    """An estimator of another package with any attribute."""

    def __init__(self, value=None):
        self.value = value


class Box:
    """An object that is no estimator."""

    def __init__(self, content):
        self.content = content


class Pair(NamedTuple):
    """A named tuple of another package."""

    first: object
    second: object


HOLDERS = [*(f"{__name__}.{name}" for name in ("Holder", "Box", "Pair")), "builtins.len"]


def wrap_in_array(value):
    items = np.empty((1, 1), object)
    items[0, 0] = value
    return items


WRAPPERS = {
    "tuple": lambda value: ("a", value),
    "keys": lambda value: {1: [value]},
    "bunch": lambda value: sklearn.utils.Bunch(part=value),
    "array": wrap_in_array,
    "mask": lambda value: np.ma.MaskedArray(wrap_in_array(value), [[False]]),
    "object": lambda value: Box(Box(value)),
    "partial": partial(partial, len),
    "named tuple": lambda value: Pair(value, 1),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_ledgers_and_keys_are_found_in_each_container(wrap, ledger):
    for value in (ledger, bayes(ledger)):
        content = list_members(data := save_bytes(Holder(wrap(value))))
        assert b"budget.sqlite" not in content
        loaded = skdp.load(io.BytesIO(data), trusted=HOLDERS)
        assert type(loaded.value) is type(wrap(value))
        assert skdp.load(io.BytesIO(data), trusted=HOLDERS, ledger=ledger).value is not None
    key = skdp.SecretKey(b"nobody may see it")
    encoder = skdp.RandomizedResponseEncoder(1.0, categories={"x0": [0, 1]}, memoize=True, secret_key=b"nobody may")
    for value in (key, encoder):
        with pytest.raises(ValueError, match="`secret_key` must be None"):
            save_bytes(Holder(wrap(value)))


def test_estimators_in_two_places_are_loaded_as_one_object():
    model = VotingClassifier([("a", bayes()), ("b", LogisticRegression())]).fit(X, Y)
    loaded = skdp.load(io.BytesIO(save_bytes(model)))
    assert loaded.estimators_[0] is loaded.named_estimators_["a"]
    assert loaded.estimators_[1] is loaded.named_estimators_["b"]


@pytest.mark.parametrize(
    ("estimator", "match"),
    [
        (Holder(skdp.PrivacyLedger(1.0)._book), "cannot be saved, because it has internal objects of skdp"),
        (Holder(FunctionTransformer(bayes().fit)), "cannot be saved"),
        (DerivedEncoder(1.0, categories={"x0": [0, 1]}).fit(X.round()[:, :1]), "internal objects of skdp"),
        (Holder(iter([])), "cannot be saved"),
    ],
)
def test_objects_that_load_does_not_read_are_refused_by_save(estimator, match):
    with pytest.raises(TypeError, match=match):
        save_bytes(estimator)


@pytest.mark.parametrize(
    "estimator",
    [
        SelectKBest(chi2, k=1),
        SplineTransformer(3),
        GridSearchCV(LogisticRegression(), {"C": [1, 2.0]}, scoring="f1"),
        *(
            make_column_transformer((MinMaxScaler(), make_column_selector(dtype_include=x)))
            for x in (np.number, [object, float])
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_functions_and_helpers_of_scikit_learn_are_loaded(estimator):
    method = "predict" if hasattr(estimator, "predict") else "transform"
    table = pd.DataFrame(X, columns=["a", "b"])
    fitted = estimator.fit(table, Y)
    loaded = skdp.load(io.BytesIO(save_bytes(fitted)))
    np.testing.assert_array_equal(getattr(loaded, method)(table), getattr(fitted, method)(table))


def test_requests_of_metadata_are_not_saved():
    with sklearn.config_context(enable_metadata_routing=True):
        mean = skdp.DPMean(1.0, bounds=(0, 1), max_weight=2).set_fit_request(sample_weight=True)
        logistic = LogisticRegression().set_fit_request(sample_weight="w")
        for estimator in (mean, logistic):
            loaded = skdp.load(io.BytesIO(save_bytes(make_pipeline(estimator))))
            default = make_pipeline(sklearn.clone(estimator).set_fit_request(sample_weight=None))
            assert str(loaded.get_metadata_routing()) == str(default.get_metadata_routing())


# Damaged and forged files.


TREES = [
    "sklearn.tree._tree.Tree",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
]

ENSEMBLES = [
    RandomForestClassifier(2, max_depth=3, random_state=0),
    HistGradientBoostingClassifier(max_iter=2),
    make_pipeline(MinMaxScaler(), OneVsRestClassifier(DecisionTreeClassifier(max_depth=2))),
    KNeighborsClassifier(),
]


@pytest.mark.parametrize("estimator", ENSEMBLES, ids=lambda x: str(x)[:13])
def test_trees_are_loaded_if_the_author_is_trusted(estimator):
    fitted = estimator.fit(X, Y)
    data = save_bytes(fitted)
    with pytest.raises(ValueError, match=r"`trusted` must contain the types .* trust the author of the file"):
        skdp.load(io.BytesIO(data))
    np.testing.assert_array_equal(skdp.load(io.BytesIO(data), trusted=TREES).predict(X), fitted.predict(X))


CALLED = {
    "mean": "numpy",
    "asarray": "scipy._lib.array_api_compat.numpy._aliases",
    "accuracy_score": "sklearn.metrics._classification",
    "KFold": "sklearn.model_selection._split",
    "LogisticRegression": "sklearn.linear_model._logistic",
}


@pytest.mark.parametrize(
    ("loader", "name"),
    [
        *itertools.product(["LossNode", "ListNode", "ObjectNode", "NdArrayNode"], ["accuracy_score"]),
        *itertools.product(["ConstructorFromReduceNode"], CALLED),
    ],
)
def test_functions_and_classes_of_a_file_are_not_called(loader, name, monkeypatch):
    calls = []
    if name == "asarray":
        pytest.importorskip(CALLED[name], reason="since SciPy 1.18, splines do not have it")
    if name in ("accuracy_score", "mean", "asarray"):
        monkeypatch.setattr(f"{CALLED[name]}.{name}", lambda *values: calls.append(values))
    else:
        monkeypatch.setattr(f"{CALLED[name]}.{name}.__init__", lambda *values, **more: calls.append(values))
    data = save_bytes(skdp.DPMean(bounds=(0, 1)))
    schema = json.loads(zipfile.ZipFile(io.BytesIO(data)).read("schema.json"))
    call = schema["content"] | {"__class__": name, "__module__": CALLED[name]}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as forged:
        content = json.dumps(schema | {"content": call | {"__loader__": loader, "__id__": 1}})
        forged.writestr("schema.json", content)
    add_version(file)
    with pytest.raises(ValueError, match="got a call of a function"):
        skdp.load(file)
    assert calls == []


def test_methods_of_saved_objects_are_not_loaded():
    """A function of a pipeline could be a method of an estimator, such as `save`."""
    data = save_bytes(skdp.DPMean(bounds=(0, 1)))
    schema = json.loads(zipfile.ZipFile(io.BytesIO(data)).read("schema.json"))
    assert (schema["__class__"], schema["__loader__"]) == ("Record", "ConstructorFromReduceNode")
    method = {"__loader__": "MethodNode", "content": {"func": "fit", "obj": schema | {"__id__": 1}}}
    for change in (method, {"__loader__": "ObjectNode"}):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as forged:
            forged.writestr("schema.json", json.dumps(schema | change))
        add_version(file)
        with pytest.raises(ValueError, match="got a call of a function"):
            skdp.load(file)


def test_archive_of_another_program_is_no_file_of_an_earlier_version():
    file = io.BytesIO()
    np.savez(file, numbers=np.arange(3))
    with pytest.raises(ValueError, match=r"must be a file of skdp\.save, got another format"):
        skdp.load(file)


def test_small_file_of_a_large_array_raises_an_error():
    data = save_bytes(skdp.DPMean(bounds=(0, 1)))
    schema = json.loads(zipfile.ZipFile(io.BytesIO(data)).read("schema.json"))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as compressed:
        compressed.writestr("schema.json", json.dumps(schema))
        compressed.writestr("1.npy", bytes(10_000_000))
    assert len(file.getvalue()) < 50_000
    with pytest.raises(ValueError, match="got a compressed file of 10,"):
        skdp.load(file)
