"""Differences from the baseline, with intervals that allow for shared rows, and one score against another."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from skdp.evaluation import ParetoDisplay, compare_to_baseline
from tests.conftest import each

NAMES = ["epsilon", "repeat", "fold", "metric", "group", "value", "n_train", "n_test"]


def table(scores, metric="accuracy", group="all", sizes=(80, 20)):
    """Write scores by epsilon, each a list of folds in a list of repeats."""
    rows = [
        (epsilon, repeat, fold, metric, group, value, *sizes)
        for epsilon, repeats in scores.items()
        for repeat, folds in enumerate(repeats)
        for fold, value in enumerate(folds)
    ]
    return pd.DataFrame(rows, columns=NAMES)


def test_the_error_is_that_of_nadeau_and_bengio():
    rng = np.random.default_rng(0)
    plain, private = rng.random((2, 3, 5))
    found = compare_to_baseline(table({math.inf: plain, 1.0: private}), confidence_level=0.9).iloc[0]
    differences = (private - plain).ravel()
    error = math.sqrt((1 / 15 + 20 / 80) * differences.var(ddof=1))
    reach = stats.t(14).ppf(0.95) * error
    assert found["difference"] == pytest.approx(differences.mean())
    assert found["std_error"] == pytest.approx(error)
    assert (found["lower"], found["upper"]) == pytest.approx((differences.mean() - reach, differences.mean() + reach))
    assert found["n_pairs"] == 15


def test_pairs_are_those_of_a_split_in_any_order():
    curve = table({math.inf: [[0.5, 0.9]], 1.0: [[0.4, 0.8]]})
    for seed in range(3):
        found = compare_to_baseline(curve.sample(frac=1, random_state=seed))
        assert found.loc[0, "difference"] == pytest.approx(-0.1)
        assert found.loc[0, "std_error"] == pytest.approx(0, abs=1e-12)


def test_undefined_scores_are_left_out():
    curve = table({math.inf: [[0.5, math.nan, 0.7, 0.6]], 1.0: [[0.4, 0.1, math.inf, 0.6]]})
    found = compare_to_baseline(curve).iloc[0]
    assert (found["n_pairs"], found["difference"]) == (2, pytest.approx(-0.05))
    alone = compare_to_baseline(table({math.inf: [[0.5]], 1.0: [[0.4]]})).iloc[0]
    assert alone["difference"] == pytest.approx(-0.1)
    assert alone[["std_error", "lower", "upper"]].isna().all()
    assert compare_to_baseline(table({math.inf: [[math.nan]], 1.0: [[0.4]]})).loc[0, "n_pairs"] == 0


def test_groups_and_metrics_have_rows_of_their_own():
    parts = [table({math.inf: [[0.5, 0.6]], 1.0: [[0.5 + place, 0.6 + place]]}, metric, group)
             for place, (metric, group) in enumerate([("a", "all"), ("a", ("F", 1)), ("b", "all")])]  # fmt: skip
    found = compare_to_baseline(pd.concat(parts, ignore_index=True))
    assert found[["metric", "group"]].to_numpy().tolist() == [["a", "all"], ["a", ("F", 1)], ["b", "all"]]
    assert found["difference"].tolist() == pytest.approx([0, 1, 2])


@each(
    "change, message",
    [
        (lambda curve: curve[np.isfinite(curve["epsilon"])], "no baseline"),
        (lambda curve: curve.drop(columns="n_test"), "lacks the columns"),
        (lambda curve: pd.concat([curve, curve]), "once for each"),
        (lambda curve: curve[np.isinf(curve["epsilon"])], "finite epsilon"),
    ],
)
def test_other_tables_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        compare_to_baseline(change(table({math.inf: [[0.5, 0.9]], 1.0: [[0.4, 0.8]]})))


@pytest.mark.long
def test_intervals_hold_the_expected_difference():
    """On the safe side: the noise is new in each split. Without the correction, repeats make them too short."""
    rng, n, found = np.random.default_rng(0), 60, []
    for _ in range(600):
        rows = rng.normal(size=n)  # what the rows of a table have in common, in all splits
        repeats = [[part.mean() for part in np.split(rng.permutation(rows), 5)] for _ in range(4)]
        private = np.array(repeats) + 0.1 * rng.normal(size=(4, 5))
        found.append(compare_to_baseline(table({math.inf: np.zeros((4, 5)), 1.0: private}, sizes=(48, 12))).iloc[0])
    held = pd.DataFrame(found)
    assert 0.93 < ((held["lower"] < 0) & (held["upper"] > 0)).mean() <= 1
    short = 1.96 * held["std_error"] / math.sqrt(1 + 20 / 4)
    assert (held["difference"].abs() < short).mean() < 0.8


def test_missing_groups_are_a_group():
    curve = table({math.inf: [[0.5, 0.7]], 1.0: [[0.4, 0.5]]}).assign(group=np.nan)
    found = compare_to_baseline(curve)
    assert len(found) == 1
    assert found.loc[0, "difference"] == pytest.approx(-0.15)
    both = compare_to_baseline(pd.concat([curve, table({math.inf: [[0.5, 0.7]], 1.0: [[0.4, 0.5]]})]))
    assert both["group"].fillna("missing").tolist() == ["all", "missing"]


class TestPareto:
    @pytest.fixture(autouse=True)
    def _figures(self):
        matplotlib = pytest.importorskip("matplotlib")
        matplotlib.use("Agg")
        yield
        from matplotlib import pyplot

        pyplot.close("all")

    def curve(self, points, x="gap_difference"):
        both = [
            table({epsilon: [[pair[place], pair[place]]] for epsilon, pair in points.items()}, metric)
            for place, metric in enumerate([x, "accuracy"])
        ]
        return pd.concat(both, ignore_index=True)

    def test_a_point_is_dominated_by_points_of_all_curves(self):
        one = self.curve({1.0: (-0.3, 0.8), 2.0: (0.1, 0.7)})
        other = self.curve({1.0: (0.2, 0.8), math.inf: (0.1, 0.7)})
        display = ParetoDisplay.from_curves({"one": one, "other": other}, x="gap_difference", y="accuracy")
        assert display.summary()["dominated"].tolist() == [True, False, False, False]
        (legend,) = display.figure_.legends
        labels = [text.get_text() for text in legend.get_texts()]
        notes = ["epsilon, at its point", "± 1 standard error"]
        assert labels == ["one", "other", *notes, "without noise", "another is better in both"]
        assert display.axes_[0].get_xlabel() == "gap difference (0 is best)"

    def test_what_is_best_can_be_said(self):
        curve = self.curve({1.0: (0.3, 0.8), 2.0: (0.1, 0.7)}, x="loss")
        assert not ParetoDisplay(curve, x="loss", y="accuracy", ideal={"loss": "low"}).summary()["dominated"].any()
        assert ParetoDisplay(curve, x="loss", y="accuracy").summary()["dominated"].tolist() == [False, True]
        assert ParetoDisplay(curve, x="loss", y="accuracy", ideal={"loss": 0.2}).summary()["dominated"].tolist() == [
            False, True
        ]  # fmt: skip

    @pytest.mark.parametrize("ideal", ["best", math.inf, True])
    def test_other_ideals_are_refused(self, ideal):
        with pytest.raises(ValueError, match="must be 'high', 'low' or a finite number"):
            ParetoDisplay(self.curve({1.0: (0.3, 0.8)}, x="loss"), x="loss", y="accuracy", ideal={"loss": ideal})

    def test_no_curve_is_refused(self):
        with pytest.raises(ValueError, match="curves must hold at least one curve"):
            ParetoDisplay({}, x="loss", y="accuracy")

    def test_a_metric_that_is_not_there_is_named(self):
        with pytest.raises(ValueError, match=r"no scores 'loss' of the group 'all'; it has \['accuracy', 'gap_diff"):
            ParetoDisplay(self.curve({1.0: (0.3, 0.8)}), x="loss", y="accuracy")
