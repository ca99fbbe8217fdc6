"""Classes that classifiers find: labels of few rows, neighboring tables, few classes, and numbered labels."""

import math
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier

import skdp
from skdp import PrivacyLedger, load, save
from skdp.privacy import Mu, largest_mu
from skdp.testing import replay_release
from tests.conftest import diagonal
from tests.errors import refusal

DELTA = 1e-6
N = 900
rng = np.random.default_rng(0)
X = pd.DataFrame({"a": rng.integers(0, 2, N), "b": rng.integers(0, 2, N)})
SCORE = X["a"] + X["b"] + rng.normal(0, 0.3, N)
Y = pd.Series(np.where(SCORE > 1.2, "yes", "no"), name="ill")
FOUR = pd.Series(np.array(["north", "south", "west", "east"])[X["a"] + 2 * X["b"]], name="where")
CLASSIFIERS = {
    "DPLogisticRegression": {"bounds": (0, 1)},
    "DPGaussianNB": {"bounds": (0, 1), "delta": DELTA},
    "DPCategoricalNB": {"categories": {"a": [0, 1], "b": [0, 1]}, "delta": DELTA},
    "DPAdditiveClassifier": {"bounds": (0, 1)},
}
SPARSE = pytest.mark.filterwarnings("ignore::UserWarning")
every = pytest.mark.parametrize("name", CLASSIFIERS)


def make(name, **given):
    return getattr(skdp, name)(**{"epsilon": 4.0, "random_state": 0} | CLASSIFIERS[name] | given)


def with_rare(labels, rare):
    """Return the table and the labels, with further rows of rare labels."""
    rows = X.iloc[[0] * len(rare)]
    return pd.concat([X, rows], ignore_index=True), pd.concat([labels, pd.Series(rare)], ignore_index=True)


# Guarantee.


@pytest.fixture
def no_label_of_one_person(monkeypatch):
    """No label of one person is found; `test_label_of_one_record_is_found...` has the probability of this."""
    categories = pytest.importorskip("skdp.central.statistics._categories")
    draw = categories.draw_frequent

    def draw_old(counts, *given):
        return draw({value: n for value, n in counts.items() if n > 3}, *given)

    monkeypatch.setattr(categories, "draw_frequent", draw_old)


@every
def test_label_of_one_record_is_found_with_probability_at_most_delta(name):
    """The noisy count 1 reaches the threshold with this probability, which the next smaller threshold exceeds."""
    epsilon = 1.0
    fitted = make(name, epsilon=epsilon).fit(X, Y)
    threshold = int(re.search(r"on counts of values that reach (\d+)", fitted.guarantee_.mechanism)[1])
    part = epsilon / 5

    def bound(threshold):
        if "rounded Gaussian on counts of values" in fitted.guarantee_.mechanism:
            std = math.sqrt(5) / largest_mu(epsilon, DELTA / 2)
            return 2 * math.exp(-(((threshold - 1.5) / std) ** 2) / 2) / 2
        return math.exp(-part * (threshold - 1)) / (1 + math.exp(-part))

    assert bound(threshold) <= DELTA < bound(threshold - 1)
    assert (fitted.guarantee_.epsilon, fitted.guarantee_.delta) == (epsilon, DELTA)
    assert fitted.guarantee_.scope == ("a", "b", "ill")


@SPARSE
@pytest.mark.parametrize("label", ["Smith", "no"])
@pytest.mark.parametrize(("name", "k"), diagonal(CLASSIFIERS, [1, 3]))
@pytest.mark.usefixtures("no_label_of_one_person")
def test_neighbors_with_a_label_of_one_person_are_within_epsilon(name, label, k):
    more, labels = with_rare(Y, [label] * k)
    table, without = more.assign(ill=labels), X.assign(ill=Y)

    def release(given):
        return make(name, max_rows_per_person=k).fit(given.drop(columns="ill"), given["ill"])

    for one, other in ((table, without), (without, table)):
        replay = replay_release(release, one, other)
        assert replay.findings == ()
        # Rows of a label that is not found are in no sum; limits of `DPGaussianNB` are of all rows.
        assert (label == "no") <= (replay.epsilon > 0)
        assert replay.epsilon <= replay.guarantee.epsilon * (1 + 1e-9)


@SPARSE
@pytest.mark.usefixtures("no_label_of_one_person")
@pytest.mark.parametrize("label", ["Smith", "no", "yes"])
def test_replaced_label_of_public_rows_is_within_epsilon(label):
    """The row of a label that is not found remains, because rows are public."""

    def release(labels):
        return make("DPLogisticRegression", protect="target").fit(X, labels["ill"])

    index = Y.eq({"no": "yes"}.get(label, "no")).idxmax()
    replay = replay_release(release, Y.to_frame(), Y.where(Y.index != index, label).to_frame())
    assert replay.guarantee.relation == "replace_values"
    assert replay.findings == ()
    assert (label != "Smith") * 0.3 <= replay.epsilon / replay.guarantee.epsilon <= 1


@every
def test_release_is_charged_once(name):
    ledger = PrivacyLedger(4.0, delta=DELTA)
    fitted = make(name, ledger=ledger).fit(X, Y)
    assert (ledger.spent.epsilon, ledger.spent.delta, len(ledger.charges())) == (4.0, DELTA, 1)
    assert dict(fitted.guarantee_.method)["categories"].startswith("ill: the classes with many rows are found")


# Classes.


LABELS = {
    "text": (Y, ["no", "yes"]),
    "four": (FOUR, ["east", "north", "south", "west"]),
    "numbers": (X["a"] + 9, [9, 10]),
    "floats": (X["a"] * 1.0, [0, 1]),
    "objects": (pd.Series(X["a"] == 1, dtype=object), [False, True]),
    "booleans": (X["a"] == 1, [False, True]),
    "category": (Y.astype("category"), ["no", "yes"]),
    "other objects": (pd.Series([*Y[:-2], 1.5, b"x"], dtype=object), ["no", "yes"]),
}


@pytest.mark.parametrize(("kind", "name"), diagonal(LABELS, CLASSIFIERS))
def test_classes_of_many_rows_are_found(kind, name):
    (labels, classes), more = LABELS[kind], X
    if labels.dtype.kind not in "fb":
        more, labels = with_rare(labels, ["Smith", "Jones"])
    fitted = make(name).fit(more, labels)
    assert fitted.classes_.tolist() == classes
    assert type(fitted.classes_.tolist()[0]) is type(classes[0])
    assert set(fitted.predict(X)) <= set(classes)
    assert np.allclose(fitted.predict_proba(X).sum(axis=1), 1)
    assert np.mean(fitted.predict(X) == labels[:N].to_numpy()) > 0.6


@every
def test_rows_of_other_classes_are_excluded(name):
    """Classes that an earlier release found are not found again, so the random bits are equal."""
    found = make(name).fit(X, Y).domain_["ill"]
    more, labels = with_rare(Y, ["Smith"] * 50)
    one, other = (make(name, classes=found).fit(*given) for given in ((X, Y), (more, labels)))
    assert one.guarantee_.delta in (0, DELTA)
    assert "counts of values" not in one.guarantee_.mechanism
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))


def test_rows_of_other_classes_are_excluded_with_their_weights():
    found = make("DPLogisticRegression").fit(X, Y).domain_["ill"]
    more, labels = with_rare(Y, ["Smith"] * 50)
    order = rng.permutation(len(more))
    weights = np.append(np.linspace(1, 4, N), np.full(50, 4.0))
    model = make("DPLogisticRegression", classes=found, max_weight=4)
    one = model.fit(X, Y, sample_weight=weights[:N]).coef_
    assert np.array_equal(one, model.fit(more, labels, sample_weight=weights).coef_)
    shuffled = model.fit(more.iloc[order], labels.iloc[order], sample_weight=weights[order]).coef_
    assert np.allclose(one, shuffled)
    few = slice(N + 5)
    found_now = make("DPLogisticRegression", max_weight=4).fit(more[few], labels[few], sample_weight=weights[few])
    assert found_now.classes_.tolist() == ["no", "yes"]


@every
def test_label_of_one_person_with_many_rows_is_not_found(name):
    more, labels = with_rare(Y, ["mine"] * 300)
    person = np.append(np.arange(N), np.full(300, -1))
    model = make(name, epsilon=8.0, max_rows_per_person=2)
    assert model.fit(more, labels, person=person).classes_.tolist() == ["no", "yes"]
    assert "mine" in model.fit(more, labels).classes_


@SPARSE
@pytest.mark.parametrize(("labels", "expected"), [(["yes"] * N, "yes"), ([f"n{i}" for i in range(N)], "(other)")])
@every
def test_fewer_than_two_classes_give_one_prediction_and_a_warning(name, labels, expected):
    with pytest.warns(UserWarning, match="Fewer than two classes of y have enough rows") as caught:
        fitted = make(name).fit(X, labels)
    assert not any("yes" in str(one.message) for one in caught)
    assert fitted.predict(X).tolist() == [expected] * N
    assert fitted.predict_proba(X).tolist() == [[1.0]] * N
    if hasattr(fitted, "decision_function"):
        assert fitted.decision_function(X).shape == (N,)


@SPARSE
@pytest.mark.parametrize("labels", [Y, FOUR, ["yes"] * N])
def test_classes_of_public_rows_are_found(labels):
    fitted = make("DPLogisticRegression", protect="target").fit(X, labels)
    assert fitted.classes_.tolist() == sorted(set(labels))
    assert fitted.score(X, labels) > 0.6
    assert fitted.guarantee_.scope == (getattr(labels, "name", "target"),)


def test_public_rows_of_other_classes_count_as_the_first_class_and_are_stated_so():
    model = make("DPLogisticRegression", protect="target")
    fitted = model.fit(X, Y)
    assert dict(fitted.guarantee_.method)["categories"].endswith("rows of all other classes count as the first class")
    model.set_params(classes=fitted.domain_["ill"])
    one, other = (model.fit(X, Y.mask(Y.index < 50, label)).coef_ for label in ("Smith", "no"))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("name", ["DPGaussianNB", "DPCategoricalNB"])
def test_classes_of_a_large_table_are_found(name):
    frame = pl.from_pandas(X.assign(ill=Y))
    lazy, eager = make(name).fit(frame.lazy(), "ill"), make(name).fit(frame.drop("ill"), frame["ill"])
    assert lazy.classes_.tolist() == ["no", "yes"]
    assert np.array_equal(lazy.predict_proba(X), eager.predict_proba(X))
    rare = pl.concat([frame, frame[:3].with_columns(ill=pl.lit("Smith"))])
    fitted = make(name).fit(rare.lazy(), "ill")
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert fitted.class_count_.sum() == pytest.approx(N, abs=60)


@SPARSE
@pytest.mark.parametrize("labels", [FOUR, ["yes"] * N])
@every
def test_models_of_found_classes_are_saved(name, labels, tmp_path):
    fitted = make(name).fit(X, labels)
    save(fitted, tmp_path / "model.skdp")
    copied = load(tmp_path / "model.skdp")
    assert copied.domain_ == fitted.domain_
    assert np.array_equal(copied.predict(X), fitted.predict(X))


# Mistakes.


@pytest.mark.parametrize(
    ("labels", "given", "match"),
    [
        (Y, {"delta": 0.0}, "`classes` must declare the classes of the target 'ill', got None. .* or set `delta` in"),
        (Y, {"epsilon": Mu(0.5, delta=DELTA), "delta": 0.0}, "with a number as epsilon"),
        (Y.where(Y.index > 0), {}, "y must not have missing labels"),
        (SCORE.rename("ill"), {}, "Unknown label type: y must have text, whole numbers or booleans"),
        (pd.Series(pd.Timestamp(0), X.index, name="ill"), {}, "`classes` must declare the values of column 'ill'"),
    ],
    ids=["no delta", "mu", "missing", "fractions", "dates"],
)
@pytest.mark.parametrize("name", ["DPGaussianNB", "DPCategoricalNB"])
def test_errors_are_raised_before_the_charge(name, labels, given, match):
    with refusal(ValueError, match) as ledger:
        make(name, ledger=ledger, **given).fit(X, labels)


def test_monotone_functions_require_declared_classes():
    with refusal(ValueError, "`classes` must declare two classes with `monotonic_cst`") as ledger:
        make("DPAdditiveClassifier", ledger=ledger, monotonic_cst={"a": 1}).fit(X, Y)


# Labels that scikit-learn encodes as numbers.


@every
def test_two_declared_classes_of_text_are_numbered(name):
    model = make(name, classes=["yes", "no"])
    fitted = model.fit(X, (Y == "yes").astype(int))
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.score(X, (Y == "yes") * 1) > 0.7
    proba = cross_val_predict(model, X, Y, cv=3, method="predict_proba")
    plain = cross_val_predict(LogisticRegression(), X, Y, cv=3, method="predict_proba")
    assert np.corrcoef(proba[:, 1], plain[:, 1])[0, 1] > 0.8


def test_more_classes_of_text_are_not_numbered():
    model = make("DPGaussianNB", classes=["east", "north", "south", "west"])
    with refusal(
        ValueError, r"got text. .* as integers. Set `classes=\[0, 1, 2, 3\]`, or `classes=\[0, 1\]`"
    ) as ledger:
        model.set_params(ledger=ledger).fit(X, X["a"] + 2 * X["b"])


@SPARSE
@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: VotingClassifier([("one", model)], voting="hard"),
        lambda model: VotingClassifier([("one", model)], voting="soft"),
        lambda model: StackingClassifier([("one", model)], cv=2),
        lambda model: CalibratedClassifierCV(model, cv=2, ensemble=False),
        OneVsRestClassifier,
    ],
    ids=["hard", "soft", "stacking", "calibrated", "one-vs-rest"],
)
def test_meta_estimators_encode_labels(wrap):
    for classes in (["no", "yes"], None):
        model = wrap(make("DPGaussianNB", classes=classes)).fit(X, Y)
        assert model.score(X, Y) > 0.7


def test_names_of_bounds_are_an_error_where_x_is_converted_to_an_array():
    model = make("DPGaussianNB", classes=["no", "yes"], bounds={"a": (0, 1), "b": (0, 1)})
    with refusal(ValueError, "`bounds` must be in the order of the columns, and `classes=.0, 1.`, .* encode") as ledger:
        OneVsOneClassifier(model.set_params(ledger=ledger)).fit(X, Y)
    assert OneVsOneClassifier(model.set_params(ledger=None, classes=[0, 1], bounds=(0, 1))).fit(X, Y).score(X, Y) > 0.7
