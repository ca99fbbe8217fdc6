"""Displays draw the numbers of their tables, and errors name a mistake without a value."""

import io
import itertools
import re
import sys
from html import unescape

import numpy as np
import pandas as pd
import pytest

from tests.errors import refusal

pytest.importorskip("matplotlib")

from matplotlib import pyplot as plt
from matplotlib import rc_context
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from skdp import DPAdditiveRegressor, DPLogisticRegression, evaluation
from skdp.evaluation import (
    CountEstimateDisplay,
    EffectDisplay,
    FairnessDisplay,
    PrivacyCurveDisplay,
    ShapeDisplay,
    SurvivalDisplay,
    compare_to_baseline,
    privacy_curve,
)
from skdp.local import RandomizedResponseEncoder
from skdp.metrics import fairness_report, survival_from_counts

RNG = np.random.default_rng(0)
COUNTS = pd.DataFrame({"count": [1.0], "lower": [0.0], "upper": [2.0]}, index=pd.Index(["a"], name="x"))
NAMES = ["epsilon", "split", "metric", "value", "n_train", "n_test"]
CURVE = pd.DataFrame(
    [(e, split, m, RNG.random(), 80, 20) for m in "mn" for e in (np.inf, 4.0, 0.5) for split in range(6)], columns=NAMES
)
SEX = [*"FFFFFMMMMM"]
REPORT = fairness_report(
    [1, 1, 0, 0, 1, 1, 0, 0, 1, 0], [1, 0, 1, 0, 1, 1, 1, 0, 1, 0], SEX, privileged="M", positive_label=1
)
TIMES = pd.DataFrame(
    [(t, e, arm, 40 - 5 * t, 1.0) for t in range(8) for e in (0, 1) for arm in "ab"],
    columns=["t", "e", "arm", "count", "std_error"],
)
EFFECTS = pd.DataFrame(
    [("a v b", 0.5, 0.2, 0.9), ("c v b", np.nan, np.nan, np.nan), ("x", -1.0, -2.0, 0.1)],
    columns=["term", "estimate", "lower", "upper"],
)
CURVES = survival_from_counts(TIMES, "t", "e", group="arm")
X = pd.DataFrame({"age": RNG.uniform(0, 90, 900), "job": RNG.choice(["clerk", "nurse"], 900)})
DECLARED = {"bounds": {"age": (0, 90)}, "categories": {"job": ["clerk", "nurse", None]}, "random_state": 0}
NUMBER = X["age"] / 90 + (X["job"] == "nurse")
UNFITTED = DPAdditiveRegressor(8.0, target_bounds=(0, 2), **DECLARED)


def texts(artists):
    return [artist.get_text() for artist in artists]


def titles(display):
    return [axes.get_title(loc="left") for axes in display.ax_]


MAKERS = {
    "CountEstimateDisplay": lambda **ax: CountEstimateDisplay.from_estimates(COUNTS, **ax),
    "PrivacyCurveDisplay": lambda **ax: PrivacyCurveDisplay.from_curve(CURVE[CURVE["metric"] == "m"], **ax),
    "FairnessDisplay": lambda **ax: FairnessDisplay.from_reports({"one": REPORT.query("metric == 'selection_rate'")}),
    "ShapeDisplay": lambda **ax: ShapeDisplay.from_estimator(clone(UNFITTED).fit(X, NUMBER), ["age"], **ax),
    "EffectDisplay": lambda **ax: EffectDisplay.from_estimates(EFFECTS, **ax),
    "SurvivalDisplay": lambda **ax: SurvivalDisplay.from_estimates(CURVES, **ax),
}


def test_every_display_has_a_maker():
    assert sorted(MAKERS) == [name for name in evaluation.__all__ if name.endswith("Display")]


@pytest.mark.parametrize("name", MAKERS)
def test_figure_is_new_or_given(name):
    open_before = len(plt.get_fignums())
    display = MAKERS[name]()
    assert len(plt.get_fignums()) == open_before + 1
    figure, panel = plt.subplots()
    assert display.plot(panel) is display
    assert display.figure_ is figure
    assert display.ax_.tolist() == [panel]
    with pytest.raises(ValueError, match=r"`ax` must have 1 panels, got 2"):
        display.plot(plt.subplots(1, 2)[1])
    plt.close("all")


@pytest.mark.parametrize("name", MAKERS)
def test_error_without_matplotlib_names_the_package(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        MAKERS[name]()


class TestCounts:
    def test_bars_intervals_and_points_are_the_numbers_of_the_table(self):
        people = pd.DataFrame({"sex": ["F", "M", "M"] * 100, "race": ["a", "b", "a", "a"] * 75})
        domain = {"sex": ["F", "M"], "race": ["a", "b", "c"]}
        encoder = RandomizedResponseEncoder(2.0, categories=domain, random_state=0)
        estimates = encoder.estimate_counts(encoder.fit_transform(people))
        true = pd.concat({name: column.value_counts() for name, column in people.items()})
        display = CountEstimateDisplay.from_estimates(estimates, true_counts=true)
        assert titles(display) == ["sex", "race"]
        assert texts(display.figure_.legends[0].get_texts()) == ["estimate", "95 % interval", "true count"]
        for axes, (name, labels) in zip(display.ax_, domain.items(), strict=True):
            own = estimates.loc[name]
            assert texts(axes.get_yticklabels()) == labels
            assert [bar.get_width() for bar in axes.patches] == pytest.approx(own["count"].tolist())
            segments = [tuple(path[:, 0]) for path in axes.collections[0].get_segments()]
            assert segments == list(zip(own["lower"], own["upper"], strict=True))
            (points,) = (line for line in axes.lines if line.get_label() == "true count")
            assert points.get_xdata().tolist() == [(people[name] == label).sum() for label in labels]

    def test_many_values_and_unknown_values_are_drawn(self):
        counts = np.arange(25.0)
        table = pd.DataFrame({"count": counts, "lower": counts - 2, "upper": counts + 2}, index=[*range(24), None])
        table.iloc[24] = [np.nan, -np.inf, np.inf]
        (axes,) = CountEstimateDisplay.from_estimates(table).ax_
        assert [bar.get_width() for bar in axes.patches] == list(range(4, 24))
        assert axes.get_title(loc="left") == "value (5 smaller estimates not drawn)"
        (axes,) = CountEstimateDisplay.from_estimates(table.iloc[20:]).ax_
        assert texts(axes.get_yticklabels()) == ["20", "21", "22", "23", "missing"]


def list_segments(axes):
    """Return the endpoints of the drawn intervals, by x."""
    return sorted(tuple(path[:, 1]) for lines in axes.collections for path in lines.get_segments())


class TestCurves:
    @pytest.mark.parametrize("kind", ["score", "difference"])
    def test_lines_are_means_with_intervals_of_the_splits(self, kind):
        display = PrivacyCurveDisplay.from_curve(CURVE, kind=kind)
        zeros = CURVE.assign(epsilon=np.inf, value=0.0).drop_duplicates(["metric", "split"])
        finite, infinite = CURVE[np.isfinite(CURVE["epsilon"])], CURVE[np.isinf(CURVE["epsilon"])]
        for axes, metric in zip(display.ax_, "mn", strict=True):
            # The difference from a baseline of 0 is the score.
            parts = (
                [CURVE]
                if kind == "difference"
                else [pd.concat([part, zeros]) for part in (finite, infinite.assign(epsilon=9.0))]
            )
            expected = pd.concat(map(compare_to_baseline, parts)).sort_values("epsilon")
            expected = expected[expected["metric"] == metric]
            assert axes.lines[0].get_ydata() == pytest.approx(expected["difference"][:2])
            intervals = sorted(zip(expected["lower"], expected["upper"], strict=True))
            np.testing.assert_allclose(list_segments(axes), intervals)
        names = (
            ["with privacy", "no privacy", "95 % interval"] if kind == "score" else ["with privacy", "95 % interval"]
        )
        curve = CURVE.copy()
        curve.attrs["baseline"] = "no privacy"
        drawn = PrivacyCurveDisplay.from_curve(curve, kind=kind).figure_.legends[0].get_texts()
        assert texts(drawn) == names

    def test_study_has_a_curve_for_each_method_and_encoder(self):
        parts = []
        for position, (method, encoder) in enumerate(
            [("none", ""), ("reported", "A"), ("reported", "B"), ("fair", "A")]
        ):
            part = CURVE[np.isinf(CURVE["epsilon"]) == (position == 0)].copy()
            part["value"] += position
            parts.append(part.assign(method=method, encoder=encoder))
        study = pd.concat(parts)
        display = PrivacyCurveDisplay.from_curve(study)
        names = ["reported, A", "reported, B", "fair", "none"]
        assert texts(display.figure_.legends[0].get_texts()) == [*names, "95 % interval"]
        for axes, metric in zip(display.ax_, "mn", strict=True):
            means = study[study["metric"] == metric].groupby(["method", "encoder", "epsilon"])["value"].mean()
            lines = [line for line in axes.lines if len(line.get_ydata()) == 2 and line.get_ls() == "-"]
            curves = [line.get_ydata().astype(float) for line in lines]
            expected = [means[key].sort_index() for key in (("reported", "A"), ("reported", "B"), ("fair", "A"))]
            np.testing.assert_allclose(curves, expected)
        differences = PrivacyCurveDisplay.from_curve(study, kind="difference", baseline="none")
        table = compare_to_baseline(study, baseline="none")
        assert len(table) == 3 * 2 * 2
        for axes, metric in zip(differences.ax_, "mn", strict=True):
            expected = table[table["metric"] == metric]
            np.testing.assert_allclose(
                list_segments(axes), sorted(zip(expected["lower"], expected["upper"], strict=True))
            )

    def test_concatenated_studies_have_one_baseline(self):
        rows = CURVE[CURVE["metric"] == "m"]
        baseline = rows[np.isinf(rows["epsilon"])].assign(method="none", encoder="")
        studies = []
        for encoder in "AB":
            private = rows[np.isfinite(rows["epsilon"])].assign(method="reported", encoder=encoder)
            studies.append(pd.concat([baseline, private]))
        display = PrivacyCurveDisplay.from_curve(pd.concat(studies))
        assert len(list_segments(display.ax_[0])) == 5
        with pytest.raises(ValueError, match="repeated split"):
            PrivacyCurveDisplay.from_curve(pd.concat([studies[0], studies[1].assign(value=0.5)]))
        # A file has no empty text: the baseline was not drawn.
        stored = pd.read_csv(io.StringIO(pd.concat(studies).to_csv(index=False)))
        assert len(list_segments(PrivacyCurveDisplay.from_curve(stored).ax_[0])) == 5

    @pytest.mark.long
    def test_long_title_is_inside_the_figure(self):
        figure = PrivacyCurveDisplay.from_curve(
            CURVE[CURVE["metric"] == "m"].assign(metric="statistical_parity_difference [race=Other people]")
        ).figure_
        figure.set_size_inches(3.4, 3.4)
        figure.canvas.draw()
        (title,) = (axes._left_title for axes in figure.axes)
        assert title.get_window_extent().x1 <= figure.bbox.x1

    def test_scores_that_are_not_finite_are_excluded(self):
        curve = CURVE[CURVE["split"] < 2].reset_index(drop=True)
        curve.loc[curve["epsilon"] == 0.5, "value"] = [np.nan, 0.25, np.inf, 0.75]
        display = PrivacyCurveDisplay.from_curve(curve)
        assert [axes.lines[0].get_ydata()[0] for axes in display.ax_] == [0.25, 0.75]

    @pytest.mark.parametrize(("baseline", "name"), [("auto", "no privacy"), (DummyClassifier(), "the baseline")])
    def test_given_baseline_is_not_called_no_privacy(self, baseline, name):
        model = make_pipeline(RandomizedResponseEncoder(categories={"sex": ["F", "M"]}), DummyClassifier())
        people = pd.DataFrame({"sex": SEX})
        curve = privacy_curve(model, people, [0, 1] * 5, epsilons=[1.0], cv=2, baseline=baseline, random_state=0)
        display = PrivacyCurveDisplay.from_curve(curve, kind="difference")
        assert display.ax_[0].get_ylabel() == f"difference from\n{name}"
        assert texts(display.ax_[0].get_xticklabels())[0] == "1\n73.1"  # right guesses of 100
        assert texts(PrivacyCurveDisplay.from_curve(curve).figure_.legends[0].get_texts())[1] == name


class TestFairness:
    def test_dots_and_lines_are_values_and_intervals(self):
        display = FairnessDisplay.from_reports({"raw": REPORT})
        rates = [name.replace("_", " ") for name in REPORT.dropna(subset="group")["metric"].unique()]
        assert titles(display) == [*rates, "Differences (0 is parity)", "Ratios (1 is parity)"]
        for axes, title in zip(display.ax_, rates, strict=False):
            own = REPORT[REPORT["metric"] == title.replace(" ", "_")]
            assert texts(axes.get_yticklabels()) == ["unprivileged", "privileged"]
            assert axes.lines[0].get_xdata().tolist() == own["value"].tolist()
            segments = [tuple(path[:, 0]) for path in axes.collections[0].get_segments()]
            np.testing.assert_allclose(segments, own[["lower", "upper"]])
        assert display.ax_[-2].lines[-1].get_xdata() == [0, 0]
        assert display.ax_[-1].lines[-1].get_xdata() == [1, 1]

    def test_comparisons_of_groups_have_their_names(self):
        report = pd.DataFrame({"metric": ["equalized_odds_difference"] * 3, "value": [0.1, 0.2, 0.3]})
        report["group"] = [None, "Black", ("f", "Other")]
        (axes,) = FairnessDisplay.from_reports({"raw": report}).ax_
        name = "equalized odds difference"
        assert texts(axes.get_yticklabels()) == [name, f"{name}, Black", f"{name}, f, Other"]

    def test_labels_of_narrow_axes_do_not_overlap(self):
        report = pd.DataFrame({"metric": ["selection_rate"] * 2 + ["equal_opportunity_difference"]})
        report["group"] = ["unprivileged", "privileged", None]
        report["value"], report["lower"], report["upper"] = 0.99, 0.98, 0.996
        display = FairnessDisplay.from_reports({"raw": report})
        display.figure_.canvas.draw()
        low, high = display.ax_[0].get_xlim()
        labels = [label for label in display.ax_[0].get_xticklabels() if low <= label.get_position()[0] <= high]
        boxes = [label.get_window_extent() for label in labels]
        assert len(boxes) >= 3
        assert all(first.x1 < second.x0 for first, second in itertools.pairwise(boxes))

    def test_panels_of_three_groups_and_two_reports_have_the_height_of_their_rows(self):
        """All panels had the height of the largest one, so that the figure was 40 inches high."""
        groups = np.resize(["a", "b", "c"], 60)
        report = fairness_report(np.arange(60) % 2, np.arange(60) // 2 % 2, groups, privileged="a")
        report = report[report["metric"].isin(["selection_rate", "precision"]) | report["metric"].str.contains("diff")]
        display = FairnessDisplay.from_reports({"one": report, "two": report})
        display.figure_.canvas.draw()
        heights = {axes.get_title(loc="left"): axes.get_position().height for axes in display.ax_}
        assert heights["Differences (0 is parity)"] > 2 * heights["selection rate"]
        assert all(axes.get_tightbbox().x0 >= 0 for axes in display.ax_)
        plt.close("all")

    @pytest.mark.parametrize("values", [[0.99, 1.0], [0.0, 0.01], [0.5, 0.5], [7.0, 8.0]])
    def test_axis_fits_values(self, values):
        metrics = ["selection_rate"] * 2 if max(values) <= 1 else ["disparate_impact"] * 2
        report = pd.DataFrame({"metric": metrics, "group": ["a", "b"], "value": values})
        (axes,) = FairnessDisplay.from_reports({"raw": report}).ax_
        low, high = axes.get_xlim()
        assert low < min(values)
        assert max(values) < high
        if max(values) <= 1:
            assert high - low < 0.06


class TestShapes:
    def test_steps_and_dots_equal_the_shape_function(self):
        regressor = clone(UNFITTED).fit(X, NUMBER)
        display = ShapeDisplay.from_estimator(regressor)
        of_age, of_job = display.ax_
        age, job = regressor.shape_("age"), regressor.shape_("job")
        values, edges, _ = of_age.patches[1].get_data()
        assert edges.tolist() == list(age.bins.edges)
        assert values.tolist() == age.values[:-1].tolist()
        assert texts(of_job.get_yticklabels()) == ["clerk", "nurse", "missing"]
        line, _, (bars,) = of_job.containers[0]
        assert line.get_xdata().tolist() == job.values.tolist()
        lengths = [np.ptp(segment[:, 0]) for segment in bars.get_segments()]
        assert lengths == pytest.approx(2 * 1.96 * job.std_error, rel=1e-3)
        # No row is missing, so the standard error of "missing", at position 2, is not reliable.
        (hatched,) = [patch for patch in of_job.patches if patch.get_hatch()]
        assert (hatched.get_y(), hatched.get_height()) == (1.5, 1.0)
        assert of_age.get_ylabel() == of_job.get_xlabel() == "added to the prediction"


def with_true(counts, labels):
    return CountEstimateDisplay.from_estimates(COUNTS, true_counts=pd.Series(counts, index=labels))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: CountEstimateDisplay(COUNTS.assign(lower="secret")), TypeError, "in the column lower"),
        (lambda: with_true(["secret"], ["a"]), TypeError, "`true_counts` must be numeric"),
        (lambda: with_true([1], ["secret"]), ValueError, "distinct labels that also occur in estimates"),
        (lambda: PrivacyCurveDisplay(CURVE.assign(epsilon="secret")), TypeError, "in the column epsilon"),
        (lambda: PrivacyCurveDisplay(CURVE.assign(epsilon=np.inf)), ValueError, "rows with a finite epsilon"),
        (lambda: PrivacyCurveDisplay.from_curve(CURVE, kind="line"), ValueError, "`kind` must be one of"),
        (lambda: FairnessDisplay.from_reports({"a": CURVE}), TypeError, "table of fairness_report, got scores of"),
        (lambda: ShapeDisplay({}), TypeError, "`shapes` must be a mapping"),
        (lambda: ShapeDisplay.from_estimator(UNFITTED), NotFittedError, "not fitted"),
        (lambda: ShapeDisplay.from_estimator(DPLogisticRegression()), TypeError, "must be an additive model"),
        (lambda: FairnessDisplay({"a": pd.DataFrame({"metric": ["x"]})}), TypeError, "columns metric, value"),
        (lambda: FairnessDisplay({"a": REPORT[["metric", "value"]][:1]}), ValueError, "differences or ratios"),
    ],
)
def test_invalid_input_raises_an_error(make, error, message):
    with refusal(error, message, "secret"):
        make()


def test_names_and_values_are_drawn_without_formatting():
    pay = ["$10k - $50k", r"$\frac{1$"]
    counts = pd.DataFrame({"count": [1.0, 2], "lower": [0.0, 1], "upper": [2.0, 3]}, index=pd.Index(pay, name="$x$"))
    display = CountEstimateDisplay.from_estimates(counts)
    report = FairnessDisplay.from_reports({"$a$": REPORT.query("metric == 'selection_rate'")})
    drawn = set()
    for figure in (display.figure_, report.figure_):
        with rc_context({"svg.fonttype": "none"}):
            figure.savefig(written := io.StringIO(), format="svg")
        drawn |= {unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", written.getvalue())}
    assert {"$x$", *pay, "$a$"} <= drawn


def test_legend_of_long_names_is_within_narrow_axes_and_has_no_undefined_curve():
    """In axes of 3.4 inches, both sides of the legend were cut, and a curve of nan had an entry."""
    names = ["reported, SubsetSelectionEncoder", "private parity, RandomizedResponseEncoder", "undefined"]
    keys = itertools.product(names, (1.0, 2.0), (0, 1))
    rows = [(*key, "accuracy", np.nan if key[0] == "undefined" else 0.7, 80, 20) for key in keys]
    axes = plt.subplots(figsize=(3.4, 3.4), layout="constrained")[1]
    display = PrivacyCurveDisplay.from_curve(pd.DataFrame(rows, columns=["method", *NAMES]), ax=axes)
    display.figure_.canvas.draw()
    box, canvas = axes.get_legend().get_window_extent(), display.figure_.bbox
    assert canvas.x0 <= box.x0 < box.x1 <= canvas.x1
    assert texts(axes.get_legend().get_texts()) == [*names[:-1], "95 % interval"]


class TestSurvival:
    def test_steps_and_numbers_at_risk_are_the_numbers_of_the_table(self):
        (axes,) = SurvivalDisplay.from_estimates(CURVES).ax_
        for line, (_, rows) in zip(axes.lines, CURVES.groupby("group"), strict=True):
            curve = rows[rows["metric"] == "survival"]
            assert line.get_xdata().tolist() == [0, *curve["time"]]
            np.testing.assert_array_equal(line.get_ydata(), [1, *curve["value"]])
            assert line.get_drawstyle() == "steps-post"
        at_risk = CURVES.query("metric == 'at_risk' and time == 4")["value"]
        assert texts(axes.get_xticklabels())[2] == "\n".join(["4", *map("{:.0f}".format, at_risk)])
        plt.close("all")

    def test_table_without_curves_is_rejected(self):
        with pytest.raises(ValueError, match="`estimates` must be a table of survival_from_counts"):
            SurvivalDisplay(CURVES.query("metric == 'restricted_mean'"))


class TestEffects:
    @pytest.mark.parametrize("exponentiate", [False, True])
    def test_dots_and_lines_are_the_numbers_of_the_table(self, exponentiate):
        (axes,) = EffectDisplay.from_estimates(EFFECTS, exponentiate=exponentiate).ax_
        numbers = EFFECTS.iloc[[0, 2], 1:].to_numpy()
        value, *ends = (np.exp(numbers) if exponentiate else numbers).T
        null, dots = axes.lines
        assert null.get_xdata() == [exponentiate] * 2
        assert dots.get_xdata().tolist() == value.tolist()
        assert [line[:, 0].tolist() for line in axes.collections[0].get_segments()] == np.transpose(ends).tolist()
        assert texts(axes.get_yticklabels()) == ["a v b", "c v b (no interval)", "x"]
        assert axes.get_xscale() == ("log" if exponentiate else "linear")
        plt.close("all")

    def test_table_without_rows_is_rejected(self):
        with pytest.raises(ValueError, match="`estimates` must have at least one row, got none"):
            EffectDisplay(EFFECTS.iloc[:0])
