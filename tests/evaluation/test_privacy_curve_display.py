"""Displays of privacy curves, and differences from the baseline: what is drawn is that of the scores."""

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

pytest.importorskip("matplotlib")


from skdp.evaluation import PrivacyCurveDisplay, compare_to_baseline
from tests.conftest import each

COLUMNS = ["epsilon", "repeat", "fold", "metric", "group", "value", "n_train", "n_test"]


def random_scores(repeats=3, groups=("all", "F", "M"), metrics=("accuracy", "roc_auc"), epsilons=(math.inf, 4.0, 0.5)):
    rng = np.random.default_rng(0)
    keys = product(epsilons, range(repeats), range(2), metrics, groups)
    return pd.DataFrame([(*key, rng.random(), 100, 50) for key in keys], columns=COLUMNS)


def table(scores, metric="accuracy", group="all", sizes=(80, 20)):
    """Write scores by epsilon, each a list of folds in a list of repeats."""
    rows = []
    for epsilon, repeats in scores.items():
        for repeat, folds in enumerate(repeats):
            rows += [(epsilon, repeat, fold, metric, group, value, *sizes) for fold, value in enumerate(folds)]
    return pd.DataFrame(rows, columns=COLUMNS)


def part(curve, metric, group, epsilon):
    chosen = (curve["metric"] == metric) & (curve["group"] == group) & (curve["epsilon"] == epsilon)
    return curve[chosen]


def bands(axes):
    return [collection.get_paths()[0].vertices for collection in axes.collections]


def legend(display):
    (legend,) = display.figure_.legends
    return [text.get_text() for text in legend.get_texts()]


class TestDrawnScores:
    def test_lines_are_means_and_bands_are_deviations_over_repeats(self):
        curve = random_scores()
        display = PrivacyCurveDisplay(curve).plot()
        assert [axes.get_title(loc="left") for axes in display.axes_] == ["accuracy", "roc auc"]
        for axes, metric in zip(display.axes_, ["accuracy", "roc_auc"], strict=True):
            lines, levels = axes.lines[::2], axes.lines[1::2]
            assert len({line.get_color() for line in lines}) == len({line.get_marker() for line in lines}) == 3
            for line, level, band, group in zip(lines, levels, bands(axes), ["all", "F", "M"], strict=True):
                assert line.get_xdata().tolist() == [0.5, 4.0]
                for epsilon, mean in zip((0.5, 4.0), line.get_ydata(), strict=True):
                    rows = part(curve, metric, group, epsilon)
                    assert mean == pytest.approx(rows["value"].mean())
                    spread = np.std(rows.groupby("repeat")["value"].mean(), ddof=1)
                    drawn = {round(float(y), 9) for x, y in band if x == epsilon}
                    assert drawn == {round(mean - spread, 9), round(mean + spread, 9)}
                assert level.get_ydata()[0] == pytest.approx(part(curve, metric, group, math.inf)["value"].mean())
                assert level.get_linestyle() == "--"
                assert level.get_color() == line.get_color()
            assert axes.get_xscale() == "log"
            assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0.5", "4"]
        assert legend(display) == ["everybody", "F", "M", "without noise", "± 1 standard deviation over 3 repeats"]
        summary = display.summary()
        assert summary["group"].unique().tolist() == ["all", "F", "M"]
        assert summary["epsilon"].tolist() == [0.5, 4.0, math.inf] * 6

    def test_one_repeat_shows_the_range_of_the_folds(self):
        curve = random_scores(repeats=1, groups=("all",), metrics=("accuracy",))
        display = PrivacyCurveDisplay(curve).plot()
        (band,) = bands(display.axes_[0])
        for epsilon in (0.5, 4.0):
            scores = part(curve, "accuracy", "all", epsilon)["value"]
            assert {y for x, y in band if x == epsilon} == {scores.min(), scores.max()}
        assert legend(display)[-1] == "lowest to highest of 2 folds"
        several = PrivacyCurveDisplay(random_scores()).plot(band="range")
        assert legend(several)[-1] == "lowest to highest of 2 folds × 3 repeats"
        once = PrivacyCurveDisplay(curve[curve["fold"] == 0]).plot(band="std")
        assert legend(once) == ["everybody", "without noise"]

    def test_many_groups_are_told_by_colour_and_marker(self):
        curve = random_scores(groups=("all", *"ABCDEFG"), metrics=("accuracy",))
        display = PrivacyCurveDisplay(curve).plot(kind="difference", band=None)
        (axes,) = display.axes_
        lines = axes.lines[: len(axes.lines) - 1]
        assert len({(line.get_color(), line.get_marker()) for line in lines}) == 8
        assert legend(display) == ["everybody", *"ABCDEFG", "without noise"]
        assert display.summary(kind="difference", band=None)[["low", "high"]].isna().all(axis=None)

    def test_scores_that_are_not_finite_are_left_out_and_counted(self):
        curve = random_scores(groups=("all", "F"), metrics=("accuracy",))
        curve.loc[0, "value"] = math.nan
        at_four = curve.index[(curve["epsilon"] == 4.0) & (curve["group"] == "all")]
        curve.loc[at_four[:2], "value"] = [math.inf, -math.inf]  # a whole repeat
        display = PrivacyCurveDisplay(curve).plot()
        summary = display.summary().set_index(["group", "epsilon"])
        assert summary["n_undefined"].tolist() == [0, 2, 1, 0, 0, 0]
        known = curve.loc[at_four[2:]]
        mean, spread = known["value"].mean(), known.groupby("repeat")["value"].mean().std()
        drawn = summary.loc[("all", 4.0), ["mean", "low", "high"]].tolist()
        assert drawn == pytest.approx([mean, mean - spread, mean + spread])
        assert legend(display)[-1] == "without 3 of 36 scores, not finite"

    @each("value", [math.nan, math.inf])
    def test_a_panel_without_a_finite_score_is_drawn_empty(self, value):
        curve = random_scores(metrics=("ratio", "accuracy"), groups=("all",))
        curve.loc[curve["metric"] == "ratio", "value"] = value
        display = PrivacyCurveDisplay(curve).plot()
        assert len(display.axes_) == 2
        assert "not finite" in legend(display)[-1]
        display.figure_.canvas.draw()

    def test_differences_have_their_intervals(self):
        curve = random_scores(groups=("all", "F"), metrics=("accuracy",))
        display = PrivacyCurveDisplay(curve).plot(kind="difference")
        expected = compare_to_baseline(curve)
        (axes,) = display.axes_
        for line, band, group in zip(axes.lines, bands(axes), ["all", "F"], strict=False):
            own = expected[expected["group"] == group]
            assert line.get_ydata() == pytest.approx(own["difference"])
            assert set(own["lower"]) | set(own["upper"]) <= set(band[:, 1])
        assert "95 % interval" in legend(display)
        with pytest.raises(ValueError, match="no baseline"):
            PrivacyCurveDisplay(curve[np.isfinite(curve["epsilon"])]).plot(kind="difference")


class TestDifferences:
    def test_the_error_is_that_of_nadeau_and_bengio(self):
        rng = np.random.default_rng(0)
        plain, private = rng.random((2, 3, 5))
        curve = table({math.inf: plain, 1.0: private})
        for shuffled in (curve, curve.sample(frac=1, random_state=0)):  # pairs are those of a split
            found = compare_to_baseline(shuffled, confidence_level=0.9).iloc[0]
            differences = (private - plain).ravel()
            error = math.sqrt((1 / 15 + 20 / 80) * differences.var(ddof=1))
            ends = differences.mean() + stats.t(14).ppf([0.05, 0.95]) * error
            assert found["difference"] == pytest.approx(differences.mean())
            assert found["std_error"] == pytest.approx(error)
            assert (found["lower"], found["upper"]) == pytest.approx(tuple(ends))
            assert found["n_pairs"] == 15

    def test_undefined_scores_are_left_out(self):
        curve = table({math.inf: [[0.5, math.nan, 0.7, 0.6]], 1.0: [[0.4, 0.1, math.inf, 0.6]]})
        found = compare_to_baseline(curve).iloc[0]
        assert (found["n_pairs"], found["difference"]) == (2, pytest.approx(-0.05))
        alone = compare_to_baseline(table({math.inf: [[0.5]], 1.0: [[0.4]]})).iloc[0]
        assert alone["difference"] == pytest.approx(-0.1)
        assert alone[["std_error", "lower", "upper"]].isna().all()

    def test_groups_and_metrics_have_rows_of_their_own(self):
        parts = []
        for place, (metric, group) in enumerate([("a", "all"), ("a", ("F", 1)), ("a", None), ("b", "all")]):
            parts.append(table({math.inf: [[0.5, 0.6]], 1.0: [[0.5 + place, 0.6 + place]]}, metric, group))
        found = compare_to_baseline(pd.concat(parts, ignore_index=True))
        found = found[found["n_pairs"] > 0]
        assert found["metric"].tolist() == ["a", "a", "a", "b"]
        assert found["group"].fillna("missing").tolist() == ["all", ("F", 1), "missing", "all"]
        assert found["difference"].tolist() == pytest.approx([0, 1, 2, 3])
        with pytest.raises(ValueError, match="once for each"):
            compare_to_baseline(pd.concat([parts[0], parts[0]]))

    @pytest.mark.long
    def test_intervals_hold_the_expected_difference(self):
        """On the safe side: the noise is new in each split. Without the correction, repeats make them too short."""
        rng, n, found = np.random.default_rng(0), 60, []
        for _ in range(600):
            rows = rng.normal(size=n)  # what the rows of a table have in common, in all splits
            repeats = [[part.mean() for part in np.split(rng.permutation(rows), 5)] for _ in range(4)]
            private = np.array(repeats) + 0.1 * rng.normal(size=(4, 5))
            curve = table({math.inf: np.zeros((4, 5)), 1.0: private}, sizes=(48, 12))
            found.append(compare_to_baseline(curve).iloc[0])
        held = pd.DataFrame(found)
        assert 0.93 < ((held["lower"] < 0) & (held["upper"] > 0)).mean() <= 1
        short = 1.96 * held["std_error"] / math.sqrt(1 + 20 / 4)
        assert (held["difference"].abs() < short).mean() < 0.8
