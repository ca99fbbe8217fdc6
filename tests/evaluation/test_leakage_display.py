"""The display of leakage: every point and line is a number of the results."""

import numpy as np
import pandas as pd
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib import pyplot as plt  # noqa: E402
from sklearn.tree import DecisionTreeClassifier  # noqa: E402

from skdp.evaluation import AttackResult, LeakageDisplay  # noqa: E402
from tests.conftest import each  # noqa: E402


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def result(accuracy, without=None, bound=0.7):
    return AttackResult(accuracy, 0.6, bound, 0.01, n_rows=1000, accuracy_without_report=without)


def points(ax):
    """Read the drawn points of each attack: places and accuracies."""
    return [np.array(container.lines[0].get_data()) for container in ax.containers]


def test_epsilons_are_on_a_log_axis_with_prior_and_bound():
    results = {4.0: result(0.95, 0.7, 0.9), 0.5: result(0.75, 0.7, 0.62)}
    display = LeakageDisplay.from_results(results)
    axes = display.ax_
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.5", "4"]
    with_report, without = points(axes)
    assert with_report[1].tolist() == [0.95, 0.75]
    assert without[1].tolist() == [0.7, 0.7]
    assert with_report[0] == pytest.approx([4.0, 0.5], rel=0.05)
    assert (with_report[0] < without[0]).all()
    lines = {line.get_label(): line.get_data() for line in axes.lines}
    assert np.array(lines["bound for the report alone"]).tolist() == [[0.5, 4.0], [0.62, 0.9]]
    assert np.array(lines["prior: most frequent value"]).tolist() == [[0.5, 4.0], [0.6, 0.6]]
    assert len(display.figure_.legends) == 1


def test_names_have_places_of_their_own():
    display = LeakageDisplay.from_results({"raw": result(1.0, 1.0), "ours": result(0.75)})
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["raw", "ours"]
    with_report, without = points(display.ax_)
    assert with_report[0] == pytest.approx([-0.12, 0.88])
    assert without[0] == pytest.approx([0.12])
    ends = {lines.get_label(): lines.get_segments() for lines in display.ax_.collections if lines.get_label()[0] != "_"}
    assert np.array(ends["bound for the report alone"])[:, :, 1].tolist() == [[0.7, 0.7]] * 2
    assert np.array(ends["prior: most frequent value"])[:, :, 1].tolist() == [[0.6, 0.6]] * 2


def test_the_data_are_tidy_and_plot_again():
    one = result(0.8, 0.7)
    display = LeakageDisplay.from_results(one, confidence_level=0.9)
    assert display.data["attack"].tolist() == ["with the report", "without the report"]
    assert display.data["release"].tolist() == ["release"] * 2
    assert display.data.loc[0, ["lower", "upper"]].tolist() == pytest.approx(one.interval(0.9))
    assert display.data.loc[1, ["lower", "upper"]].tolist() == pytest.approx(one.interval(0.9, without_report=True))
    _, axes = plt.subplots()
    again = LeakageDisplay(display.data).plot(ax=axes)
    assert again.ax_ is axes
    assert again.figure_ is axes.figure
    assert axes.get_legend() is not None


def test_without_an_epsilon_there_is_no_bound():
    display = LeakageDisplay.from_results({1.0: result(0.8, bound=np.nan)})
    assert [line.get_label() for line in display.ax_.lines if line.get_label()[0] != "_"] == [
        "prior: most frequent value"
    ]
    assert display.data["attack"].tolist() == ["with the report"]
    LeakageDisplay.from_results({"a": result(0.8, bound=np.nan)})


def test_a_release_is_attacked_and_drawn():
    frame = pd.DataFrame({"a": [0, 1] * 50, "b": [0, 0, 1, 1] * 25})
    display = LeakageDisplay.from_release(
        frame, None, frame["a"], name="mine", report=["b"], estimator=DecisionTreeClassifier(), random_state=0
    )
    assert display.data["accuracy"].tolist() == [1.0, 1.0]
    assert display.data["release"].unique().tolist() == ["mine"]


@each(
    "results, error, message",
    [
        ([], TypeError, "results must be an AttackResult or a mapping"),
        ({}, ValueError, "results are empty"),
        ({"a": 0.5}, TypeError, "results must be AttackResults, got float"),
        ({None: result(0.5)}, TypeError, "named by epsilons or text, got NoneType"),
        ({-1.0: result(0.5)}, ValueError, "an epsilon must be finite and > 0"),
        ({np.inf: result(0.5)}, ValueError, "an epsilon must be finite and > 0"),
        ({"a": result(0.5), 1.0: result(0.5)}, TypeError, "by epsilons alone, or by text alone"),
    ],
)
def test_mistakes_are_named(results, error, message):
    with pytest.raises(error, match=message):
        LeakageDisplay.from_results(results)
