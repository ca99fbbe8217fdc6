"""StrategyDisplay: what is drawn of a table of strategies, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib")

from skdp import Domain, recommend_plan, recommend_strategy
from skdp.evaluation import StrategyDisplay
from tests.conftest import each

DOMAIN = Domain({"sex": ["F", "M"], "job": range(20)})


def drawn(display):
    axes = display.axes_[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    bars = {round(bar.get_y() + 0.35): bar.get_width() for bar in axes.patches}
    return names, bars, [text.get_text() for text in axes.texts]


def test_the_errors_of_a_plan_are_drawn_with_the_best_one_first():
    plan = recommend_plan(DOMAIN, 1.0)
    names, bars, texts = drawn(StrategyDisplay.from_strategies(plan))
    assert names == plan.strategies.index.tolist()
    assert [bars[place] for place in range(len(names))] == plan.strategies["error"].tolist()
    assert texts[0] == " best"
    assert texts[-1] == f" {plan.strategies['times'].iloc[-1]:.3g} times"


def test_what_a_strategy_does_not_give_has_no_bar():
    strategies = recommend_strategy(DOMAIN, 1.0, target="joint")
    names, bars, texts = drawn(StrategyDisplay.from_strategies(strategies))
    assert names == ["joint", "split", "sample"]
    assert [*bars] == [0, 1]
    assert texts[2] == " does not give what is wanted"
    plan = recommend_plan(dict.fromkeys("abc", range(3)), 1.0, purpose="pairs")
    _, bars, texts = drawn(StrategyDisplay.from_strategies(plan))
    assert len(bars) == np.isfinite(plan.strategies["error"]).sum() < len(texts)


def test_errors_of_zero_and_given_axes():
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    table = pd.DataFrame({"error": [2.0, 0.0]}, index=["_$split", "joint"])
    display = StrategyDisplay.from_strategies(table, ax=axes)
    assert display.figure_ is figure
    assert drawn(display)[::2] == (["joint", "_$split"], [" best", " 2"])
    with pytest.raises(ValueError, match="ax must have 1 panels, got 2"):
        display.plot(ax=pyplot.subplots(1, 2)[1])


@each(
    "table, error, message",
    [
        ([1, 2], TypeError, "strategies must be a DataFrame with the columns error, got list"),
        (pd.DataFrame({"x": [1]}), TypeError, r"it lacks \['error'\]"),
        (pd.DataFrame({"error": ["1"]}), TypeError, "must hold numbers in the columns error"),
        (pd.DataFrame({"error": [np.nan, np.inf]}), ValueError, "at least one with a finite error"),
        (pd.DataFrame({"error": [-1.0, 1.0]}), ValueError, "errors of at least 0"),
    ],
)
def test_other_tables_are_refused(table, error, message):
    with pytest.raises(error, match=message):
        StrategyDisplay(table)


@pytest.mark.parametrize("target", ["joint", "margins"])
def test_each_strategy_has_a_reason(target):
    reasons = recommend_strategy(DOMAIN, 1.0, target=target)["reason"]
    assert reasons["joint"] == "one report of 40 cells has all of epsilon"
    assert reasons["split"].startswith("each of 2 reports has a part of epsilon, at least 0.5")
    assert reasons["sample"] in ("no record reports two columns", "a record makes 1 of 2 reports, with all of epsilon")
