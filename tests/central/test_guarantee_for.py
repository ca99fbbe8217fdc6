"""What a release promises for the values of named columns, against the noise of replays on such neighbours."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import skdp
from skdp import DPCategoricalNB, DPGaussianNB, DPHistogram, DPMean, PrivacyLedger
from skdp.central import DPGroupBy, DPMinMaxScaler, DPStandardScaler, DPTargetEncoder
from skdp.privacy import Mu, Rho
from skdp.testing import replay_release
from tests.central.estimators import EVERY, WITH_GAPS, fitted, made, whole
from tests.conftest import each, often

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # there are few rows

AMOUNTS = {"epsilon": 2.0, "rho": Rho(0.3, 1e-6), "mu": Mu(0.7, 1e-6)}
SETS = [("a",), ("a", "b")]
# Of the others, only that is known which follows from the whole.
BY_TARGET = ["DPCategoricalNB", "DPGaussianNB", "DPTargetEncoder"]
BY_COLUMN = ["DPGroupBy", "DPHistogram", "DPKBinsDiscretizer", "DPMean", "DPSimpleImputer", "DPStandardScaler"]
THREE = pd.DataFrame({"a": [0.0, 1.0, 0.4] * 5, "b": [1.0, 0.0, 0.1] * 5, "c": [0.5, 0.0, 1.0] * 5})
VALUES = {name: [0.0, 0.1, 0.4, 0.5, 1.0] for name in "abc"}


def replaced(table, columns, row, values):
    """Return a table of which one row, the last, has other values in some columns."""
    last = pd.concat([table.drop(index=row), table.loc[[row]]], ignore_index=True)
    other = last.copy()
    for column, value in zip(columns, values, strict=True):
        other.loc[len(other) - 1, column] = value
    return last, other


def neighbours(table, columns, *, missing=False, n_rows=1):
    """Yield pairs of tables that differ in the values of some columns, in one record."""
    values = [sorted(table[column].unique()) + [np.nan] * missing for column in columns]
    for row in range(n_rows):
        for changed in itertools.product(*values):
            if list(changed) != table.loc[row, list(columns)].tolist():
                yield replaced(table, columns, row, changed)


def replays(estimator, table, columns, **more):
    promise = fitted(estimator, table).guarantee_for(columns)
    for first, second in neighbours(table, columns, **more):
        yield promise, replay_release(estimator, first, second, guarantee=promise)


class TestReplay:
    @pytest.mark.parametrize("amount", often(AMOUNTS, ["mu"]))
    @pytest.mark.parametrize(
        "name", [pytest.param(name, marks=() if name in BY_COLUMN else pytest.mark.long) for name in EVERY]
    )
    def test_no_draw_loses_more_than_is_promised_for_the_columns(self, name, amount):
        estimator = made(name, epsilon=AMOUNTS[amount])
        for columns in SETS:
            for promise, replay in replays(estimator, whole(name), columns):
                assert replay.passed, (columns, promise, replay.findings)

    @pytest.mark.parametrize("amount", often(AMOUNTS, ["mu"]))
    @each("name", BY_TARGET)
    def test_of_columns_and_a_target(self, name, amount):
        estimator = made(name, epsilon=AMOUNTS[amount])
        for columns in [("a",), ("y",), ("a", "y")]:
            for promise, replay in replays(estimator, whole(name), columns):
                assert replay.passed, (columns, promise, replay.findings)
            implied = fitted(estimator, whole(name)).guarantee_.to("replace_values", columns)
            if amount == "epsilon":
                assert promise.epsilon <= implied.epsilon
            else:
                assert promise.rho < implied.rho

    @pytest.mark.parametrize("amount", often(AMOUNTS, ["epsilon"]))
    @pytest.mark.parametrize("name", [name for name in WITH_GAPS if name in BY_COLUMN[1:]])
    def test_also_where_a_value_becomes_missing(self, name, amount):
        estimator = made(name, epsilon=AMOUNTS[amount])
        for promise, replay in replays(estimator, whole(name), ("a",), missing=True):
            assert replay.findings == (), promise

    @pytest.mark.parametrize("amount", often(AMOUNTS, ["mu"]))
    @pytest.mark.parametrize("columns", often([("a",), ("b",), ("c",), ("a", "b"), ("b", "c")], [("a",), ("b", "c")]))
    def test_with_weights_and_by_group(self, amount, columns):
        weights = {"bounds": (0, 1), "sample_weight": "c", "max_weight": 1.0, "random_state": 0}
        keys = {"keys": {"a": [0.0, 0.4, 1.0]}, "statistics": ["count", "mean"]}
        for estimator in (DPMean(AMOUNTS[amount], **weights), DPGroupBy("a", AMOUNTS[amount], **keys, **weights)):
            for promise, replay in replays(estimator, THREE, columns):
                assert replay.findings == (), promise
            implied = fitted(estimator, THREE).guarantee_.to("replace_values", columns)
            assert promise.epsilon <= implied.epsilon
            if amount == "mu" or columns == ("c",):
                assert promise.epsilon < implied.epsilon

    @pytest.mark.parametrize(
        "estimator",
        [
            DPMean(AMOUNTS["mu"], bounds=(0, 1), missing="error", random_state=0),
            DPStandardScaler(AMOUNTS["mu"], bounds=(0, 1), with_std=False, random_state=0),
            DPGroupBy("a", AMOUNTS["mu"], keys={"a": [0.0, 0.4, 1.0]}, statistics=["count"], random_state=0),
            DPHistogram(AMOUNTS["mu"], domain=VALUES, random_state=0),
            DPCategoricalNB(AMOUNTS["mu"], categories={"a": VALUES["a"]}, classes=VALUES["b"], random_state=0),
        ],
        ids=lambda estimator: type(estimator).__name__,
    )
    def test_the_promise_is_attained(self, estimator):
        promises, losses = [], []
        table = THREE[["a", "b"]] if isinstance(estimator, DPCategoricalNB) else THREE
        for promise, replay in replays(estimator, table, ("a",), n_rows=3):
            promises.append(promise.epsilon)
            losses.append(replay.epsilon)
        assert max(losses) == pytest.approx(promises[0], rel=1e-6)


class TestAmounts:
    def test_a_class_that_changes_loses_no_more_than_all_parts_at_once(self):
        """Readings of columns and of the target add up to more than what the whole implies, at another delta."""
        X, y = pd.DataFrame({"a": [2.0, 5.0, 3.0]}), pd.Series([0, 1, 0], name="y")
        model = DPGaussianNB(Mu(0.7, 1e-6), bounds=(2, 5), classes=[0, 1], random_state=0).fit(X, y)
        promise = model.guarantee_for(["a", "y"])
        assert promise.losses == model.guarantee_.to("replace_values", ["a", "y"]).losses
        assert promise.delta == 1e-6

    @pytest.mark.parametrize("amount", AMOUNTS)
    @pytest.mark.parametrize("name", EVERY)
    def test_never_more_than_what_follows_from_the_whole_and_grows_with_the_columns(self, name, amount):
        estimator = fitted(made(name, epsilon=AMOUNTS[amount]), whole(name))
        implied = estimator.guarantee_.to("replace_values", ["a", "b"])
        both = estimator.guarantee_for(["a", "b"])
        assert both.epsilon <= implied.epsilon
        assert both.delta <= implied.delta
        assert (both.rho or 0) <= (implied.rho or np.inf)
        assert estimator.guarantee_for(["a"]).epsilon <= both.epsilon
        assert both.scope == ("a", "b")
        assert both.relation == "replace_values"

    def test_gaussian_means_lose_the_part_of_each_column(self):
        # Of 2 d numbers that a record changes by 1 each, another value changes one by 2: mu**2 * 4 / (2 d).
        mean = DPMean(Mu(0.6, 1e-6), bounds=(0, 1), random_state=0).fit(THREE)
        for n in (1, 2, 3):
            promise = mean.guarantee_for(list("abc")[:n])
            assert promise.rho == pytest.approx(0.36 * 4 * n / 6 / 2)
        assert mean.guarantee_.to("replace").rho == pytest.approx(0.36 * 4 / 2)

    def test_quantiles_lose_the_part_of_each_column(self):
        scaler = DPMinMaxScaler(0.9, bounds=(0, 1), quantile_range=(0.1, 0.9), random_state=0).fit(THREE)
        assert scaler.guarantee_for(["a"]).epsilon == pytest.approx(2 * 0.9 / 3)
        assert scaler.guarantee_for(["a", "c"]).epsilon == pytest.approx(4 * 0.9 / 3)

    def test_losses_are_stated_by_column_though_their_noise_is_drawn_at_once(self):
        """It was an alarm: half of all epsilon twice is less, at a large delta, than all of it at once."""
        table = pd.DataFrame({"a": ["x", "z", "x"], "b": ["z", "x", "x"], "y": [0.0, 5.0, 9.0]})
        estimator = DPTargetEncoder(0.5, categories=[["x", "z"]] * 2, bounds=(0, 10), random_state=0)
        promise = estimator.fit(table[["a", "b"]], table["y"]).guarantee_for(["a", "b"])
        table, neighbour = replaced(table, ["a", "b"], 2, ["z", "z"])
        replay = replay_release(estimator, table, neighbour, guarantee=promise)
        assert replay.findings == ()
        assert replay.epsilon == pytest.approx(promise.epsilon)

    def test_a_histogram_moves_in_two_cells(self):
        histogram = DPHistogram(Mu(0.6, 1e-6), domain={"a": [0.0, 0.4, 1.0]}, random_state=0).fit(THREE[["a"]])
        assert histogram.guarantee_for(["a"]).rho == pytest.approx(0.36 * 2 / 2)


class TestColumns:
    def test_what_is_not_read_loses_nothing(self):
        counts = DPGroupBy("a", keys={"a": [0.0, 0.4, 1.0]}, statistics=["count"], random_state=0).fit(THREE)
        promise = counts.guarantee_for(["c"])
        assert (promise.epsilon, promise.delta, promise.losses) == (0, 0, ())
        assert promise.scope == ("c",)

    @pytest.mark.parametrize("name", EVERY)
    def test_a_name_that_is_no_column_is_refused(self, name):
        estimator = fitted(made(name), whole(name))
        with pytest.raises(ValueError, match=r"columns must be columns of the table, got \['A'\]; it has \['a', 'b'"):
            estimator.guarantee_for(["a", "A"])

    def test_columns_without_names_have_places(self):
        mean = DPMean(bounds=(0, 1), random_state=0).fit(THREE.to_numpy())
        with pytest.raises(ValueError, match=r"columns of the table, got \['a'\]; it has \['x0', 'x1', 'x2'\]"):
            mean.guarantee_for(["a"])
        assert mean.guarantee_for(["x0"]).epsilon == 2

    def test_a_target_without_a_name_is_the_target(self):
        estimator = made("DPGaussianNB").fit(whole("DPGaussianNB")[["a", "b"]], whole("DPGaussianNB")["y"].to_numpy())
        with pytest.raises(ValueError, match=r"got \['y'\]; it has \['a', 'b', 'target'\]"):
            estimator.guarantee_for(["y"])

    def test_a_name_counts_once(self):
        fitted = DPMean(bounds=(0, 1), random_state=0).fit(THREE)
        assert fitted.guarantee_for(["a", "b", "a"]) == fitted.guarantee_for(["a", "b"])
        assert fitted.guarantee_.to("replace_values", ["a", "a"]).scope == ("a",)

    def test_a_text_is_no_list_of_columns(self):
        mean = DPMean(bounds=(0, 1), random_state=0).fit(THREE)
        with pytest.raises(TypeError, match="columns must be a sequence of names, got str"):
            mean.guarantee_for("a")
        with pytest.raises(ValueError, match="columns must name the protected columns"):
            mean.guarantee_for([])

    def test_a_release_that_shows_the_columns_is_refused(self):
        model = made("DPGaussianNB") if "protect" in made("DPGaussianNB").get_params() else made("DPLinearRegression")
        model.set_params(protect="target")
        model = fitted(model, whole("DPLinearRegression"))
        assert model.guarantee_for(["y"]).epsilon == model.guarantee_.epsilon
        with pytest.raises(ValueError, match="says nothing about those of a"):
            model.guarantee_for(["a"])

    def test_before_fit_there_is_none(self):
        with pytest.raises(Exception, match="is not fitted yet"):
            DPMean(bounds=(0, 1)).guarantee_for(["a"])

    def test_rows_of_persons_of_a_large_table_depend_on_all_columns(self):
        polars = pytest.importorskip("polars")
        mean = DPMean(Mu(0.6, 1e-6), bounds=(0, 1), random_state=0, max_rows_per_person=2)
        large = polars.LazyFrame(THREE.assign(person=np.arange(15) // 3))
        mean.fit(large, groups="person")
        implied = mean.guarantee_.to("replace_values", ["a"])
        assert mean.guarantee_for(["a"]) == implied
        in_memory = mean.fit(THREE, groups=np.arange(15) // 3)
        assert in_memory.guarantee_for(["a"]).epsilon < implied.epsilon


@each("columns", [["a"], ["z"]])
def test_a_ledger_of_columns_is_charged_what_follows_from_the_whole(columns):
    """Names say nothing of what the columns of a table were made of, in a pipeline."""
    ledger = PrivacyLedger(epsilon=10, relation="replace_values", columns=columns)
    scaler = DPMinMaxScaler(0.9, bounds=(0, 1), quantile_range=(0.1, 0.9), random_state=0, ledger=ledger).fit(THREE)
    assert ledger.spent.epsilon == pytest.approx(1.8)
    if columns == ["a"]:
        assert scaler.guarantee_for(columns).epsilon < 1
        ledger.charge(scaler.guarantee_for(columns), "by the columns of this table")


def test_a_saved_release_states_what_follows_from_the_whole(tmp_path):
    mean = DPMean(Mu(0.6, 1e-6), bounds=(0, 1), random_state=0).fit(THREE)
    skdp.save(mean, tmp_path / "mean.json")
    loaded = skdp.load(tmp_path / "mean.json")
    assert loaded.guarantee_for(["a"]) == mean.guarantee_.to("replace_values", ["a"])


class TestNames:
    """A column that may have been used under another name, or none, is not said to lose nothing."""

    @each("groups", [pd.Series(np.arange(15) // 3, name="person"), np.arange(15) // 3])
    @each("kind", [DPMean, DPStandardScaler])
    def test_a_column_that_may_say_of_whom_a_row_is_is_refused(self, kind, groups):
        estimator = kind(bounds=(0, 1), random_state=0).fit(THREE, groups=groups)
        with pytest.raises(ValueError, match=r"got \['person'\]; it has"):
            estimator.guarantee_for(["a", "person"])
        assert estimator.guarantee_for(["a"]).epsilon > 0

    def test_persons_of_a_large_table_are_refused(self):
        polars = pytest.importorskip("polars")
        large = polars.LazyFrame(THREE.assign(person=np.arange(15) // 3))
        mean = DPMean(bounds=(0, 1), random_state=0).fit(large, groups="person")
        with pytest.raises(ValueError, match=r"got \['person'\]; it has"):
            mean.guarantee_for(["person"])

    def test_of_a_loaded_release_it_is_not_known(self, tmp_path):
        mean = DPMean(bounds=(0, 1), random_state=0).fit(THREE, groups=np.arange(15))
        skdp.save(mean, tmp_path / "mean.json")
        with pytest.raises(ValueError, match=r"got \['person'\]; it has"):
            skdp.load(tmp_path / "mean.json").guarantee_for(["person"])

    @each("make", [iter, lambda names: (name for name in names), set, np.array, pd.Index])
    def test_columns_may_be_read_once(self, make):
        mean = DPMean(bounds=(0, 1), random_state=0).fit(THREE)
        assert mean.guarantee_for(make(["a"])).epsilon == mean.guarantee_for(["a"]).epsilon > 0

    def test_a_target_without_a_name_beside_a_column_target(self):
        table = whole("DPGaussianNB").rename(columns={"a": "target"})
        estimator = made("DPGaussianNB").fit(table[["target", "b"]], table["y"].to_numpy())
        with pytest.raises(ValueError, match=r"it has \['target', 'b', 'target_2'\]"):
            estimator.guarantee_for(["y"])

    @each("name", [True, 1.0])
    def test_what_is_equal_to_a_number_is_not_its_name(self, name):
        mean = DPMean(bounds=(0, 1), random_state=0).fit(THREE.set_axis([0, 1, 2], axis=1))
        with pytest.raises(ValueError, match=r"it has \[0, 1, 2\]"):
            mean.guarantee_for([name])
