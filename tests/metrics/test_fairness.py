import math
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import UndefinedMetricWarning

from skdp.metrics import fairness_report

pytest.importorskip("aif360")

METRICS = [
    "statistical parity difference",
    "disparate impact",
    "equal opportunity difference",
    "average odds difference",
    "Theil index",
]

# (true, predicted) -> how many rows
UNPRIVILEGED = {(1, 1): 30, (1, 0): 20, (0, 1): 10, (0, 0): 40}
PRIVILEGED = {(1, 1): 60, (1, 0): 15, (0, 1): 5, (0, 0): 20}


def rows(**groups):
    table = [(sex, *cell) for sex, cells in groups.items() for cell, count in cells.items() for _ in range(count)]
    return pd.DataFrame(table, columns=["sex", "true", "predicted"]).sample(frac=1, random_state=0)


def report(frame, privileged="Male", positive_label=1):
    return fairness_report(
        frame["true"], frame["predicted"], frame["sex"], privileged=privileged, positive_label=positive_label
    )


def values(frame, **parameters):
    return report(frame, **parameters)["value"].tolist()


def aif360_values(frame, privileged="Male", positive_label=1):
    """The same from aif360 alone, on datasets that skdp did not make."""
    from aif360.datasets import BinaryLabelDataset
    from aif360.metrics import ClassificationMetric

    def dataset(labels):
        numeric = pd.DataFrame({"group": (frame["sex"] == privileged) * 1.0, "y": (labels == positive_label) * 1.0})
        return BinaryLabelDataset(df=numeric, label_names=["y"], protected_attribute_names=["group"])

    metric = ClassificationMetric(
        dataset(frame["true"]),
        dataset(frame["predicted"]),
        unprivileged_groups=[{"group": 0}],
        privileged_groups=[{"group": 1}],
    )
    return [
        metric.statistical_parity_difference(),
        metric.disparate_impact(),
        metric.equal_opportunity_difference(),
        metric.average_odds_difference(),
        metric.theil_index(),
    ]


def by_hand(unprivileged, privileged):
    def rate(cells, true):
        positive = sum(count for (y, p), count in cells.items() if p == 1 and y in true)
        return Fraction(positive, sum(count for (y, _), count in cells.items() if y in true))

    selection = [rate(cells, {0, 1}) for cells in (unprivileged, privileged)]
    tpr = [rate(cells, {1}) for cells in (unprivileged, privileged)]
    fpr = [rate(cells, {0}) for cells in (unprivileged, privileged)]
    n = sum(unprivileged.values()) + sum(privileged.values())
    benefits = {}
    for cells in (unprivileged, privileged):
        for (y, p), count in cells.items():
            benefits[1 + p - y] = benefits.get(1 + p - y, 0) + count
    mean = sum(benefit * count for benefit, count in benefits.items()) / n
    shares = [(benefit / mean, count) for benefit, count in benefits.items() if benefit]
    return [
        float(selection[0] - selection[1]),
        float(selection[0] / selection[1]),
        float(tpr[0] - tpr[1]),
        float((tpr[0] - tpr[1] + fpr[0] - fpr[1]) / 2),
        sum(share * math.log(share) * count for share, count in shares) / n,
    ]


def test_the_values_are_aif360s_and_those_of_the_confusion_counts():
    frame = rows(Female=UNPRIVILEGED, Male=PRIVILEGED)
    # 40 of 100 against 65 of 100; 30 of 50 against 60 of 75; 10 of 50 against 5 of 25.
    assert values(frame)[:4] == pytest.approx([-0.25, 40 / 65, -0.2, -0.1])
    assert values(frame) == pytest.approx(by_hand(UNPRIVILEGED, PRIVILEGED), rel=1e-12)
    assert values(frame) == aif360_values(frame)


cells = st.fixed_dictionaries({(y, p): st.integers(1, 30) for y in (0, 1) for p in (0, 1)})


@settings(max_examples=25, deadline=None)
@given(cells, cells)
def test_the_values_are_right_for_any_confusion_counts(unprivileged, privileged):
    frame = rows(Female=unprivileged, Male=privileged)
    assert values(frame) == aif360_values(frame)
    assert values(frame) == pytest.approx(by_hand(unprivileged, privileged), rel=1e-9, abs=1e-12)


def test_the_table_says_what_it_shows():
    table = report(rows(Female=UNPRIVILEGED, Male=PRIVILEGED))
    assert table.columns.tolist() == ["metric", "definition", "value"]
    assert table["metric"].tolist() == METRICS
    assert table["value"].dtype == float
    assert "difference = unprivileged − privileged" in table.attrs["convention"]
    for metric, definition in zip(table["metric"], table["definition"], strict=True):
        assert ("difference" in metric) == ("unprivileged − privileged" in definition)


def test_printing_the_table_shows_the_convention():
    table = report(rows(Female=UNPRIVILEGED, Male=PRIVILEGED))
    with pd.option_context("display.width", 80, "display.max_columns", 0):  # a terminal, or none
        printed = repr(table)
    assert all(definition in printed for definition in table["definition"])
    assert len(printed.splitlines()) == 6


def test_exchanging_the_groups_turns_the_sign():
    frame = rows(Female=UNPRIVILEGED, Male=PRIVILEGED)
    there, back = values(frame), values(frame, privileged="Female")
    for index in (0, 2, 3):
        assert back[index] == pytest.approx(-there[index])
    assert back[1] == pytest.approx(1 / there[1])
    assert back[4] == there[4]


def test_parity_is_0_and_a_ratio_of_1():
    assert values(rows(Female=PRIVILEGED, Male=PRIVILEGED))[:4] == pytest.approx([0, 1, 0, 0], abs=1e-15)


def test_fairlearn_agrees():
    metrics = pytest.importorskip("fairlearn.metrics")
    frame = rows(Female=UNPRIVILEGED, Male=PRIVILEGED)
    for index, rate in ((0, metrics.selection_rate), (2, metrics.true_positive_rate)):
        table = metrics.MetricFrame(
            metrics=rate, y_true=frame["true"], y_pred=frame["predicted"], sensitive_features=frame["sex"]
        ).by_group
        assert values(frame)[index] == pytest.approx(table["Female"] - table["Male"], rel=1e-12)


@pytest.mark.parametrize(
    "column",
    [
        list,
        np.array,
        pd.Series,
        pl.Series,
        lambda column: pd.Series(column, index=range(len(column), 0, -1)),
        lambda column: pd.Series(column, dtype="category"),
        lambda column: pd.DataFrame({"a": column}),
        lambda column: pl.DataFrame({"a": column}),
    ],
)
def test_columns_of_any_library_are_matched_by_position(column):
    frame = rows(Female=UNPRIVILEGED, Male=PRIVILEGED)
    columns = [column(frame[name].tolist()) for name in ("true", "predicted", "sex")]
    table = fairness_report(*columns, privileged="Male", positive_label=1)
    assert table["value"].tolist() == values(frame)


def test_groups_of_several_values_and_labels_of_other_kinds():
    frame = rows(Female=UNPRIVILEGED, Male=PRIVILEGED)
    expected = values(frame)
    frame.loc[frame.index % 2 == 0, "sex"] = frame["sex"].str.lower()
    assert values(frame, privileged=["Male", "male"]) == expected
    frame["true"] = np.where(frame["true"] == 1, ">50K", "<=50K")
    frame["predicted"] = np.where(frame["predicted"] == 1, ">50K", "<=50K")
    assert values(frame, privileged={"Male", "male"}, positive_label=">50K") == expected


def test_predictions_as_booleans_are_the_labels_0_and_1():
    frame = rows(Female=UNPRIVILEGED, Male=PRIVILEGED)
    assert values(frame.assign(predicted=frame["predicted"] == 1)) == values(frame)


@pytest.mark.parametrize(
    ("unprivileged", "privileged", "undefined"),
    [
        # nobody is predicted positive
        (dict.fromkeys([(1, 0), (0, 0)], 2), dict.fromkeys([(1, 0), (0, 0)], 2), [1]),
        # no true positive, no true negative in one group
        ({(0, 0): 2, (0, 1): 2}, PRIVILEGED, [2, 3]),
        ({(1, 0): 2, (1, 1): 2}, PRIVILEGED, [3]),
        # nobody benefits at all
        ({(1, 0): 2}, {(1, 0): 2}, [1, 3, 4]),
    ],
)
def test_what_is_undefined_is_said_so_and_the_rest_is_there(unprivileged, privileged, undefined):
    frame = rows(Female=unprivileged, Male=privileged)
    with pytest.warns(UndefinedMetricWarning) as caught:
        table = report(frame)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert table.index[~np.isfinite(table["value"])].tolist() == undefined
    for index in range(5):
        assert (METRICS[index] in str(caught[0].message)) == (index in undefined)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(table["value"], aif360_values(frame))


TRUE, PREDICTED, GROUPS = [0, 1, 0, 1], [0, 1, 1, 1], ["a", "a", "b", "b"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((TRUE, PREDICTED[1:], GROUPS), "same length, got 4, 3 and 4"),
        ((TRUE, PREDICTED, GROUPS[1:]), "same length, got 4, 4 and 3"),
        (([0, 1, None, 1], PREDICTED, GROUPS), "y_true has missing values"),
        ((TRUE, [0, 1, float("nan"), 1], GROUPS), "y_pred has missing values"),
        ((TRUE, PREDICTED, ["a", "a", None, "b"]), "sensitive_features has missing values"),
        ((TRUE, PREDICTED, pl.Series(["a", None, "b", "b"])), "sensitive_features has missing values"),
        ((TRUE, PREDICTED, ["b", "b", "b", "b"]), "no row with a privileged value"),
        ((TRUE, PREDICTED, ["a", "a", "a", "a"]), "no row with a value that is not privileged"),
        (([0, 1, 2, 1], PREDICTED, GROUPS), "two labels"),
        ((TRUE, ["0", "1", "1", "1"], GROUPS), "two labels"),
        (([0, 0, 2, 2], [0, 0, 2, 2], GROUPS), "positive_label"),
        ((TRUE, PREDICTED, pd.DataFrame({"a": GROUPS, "b": GROUPS})), "sensitive_features must be one column"),
        ((TRUE, np.zeros((4, 2)), GROUPS), "y_pred must be one column"),
        (([], [], []), "positive_label"),
    ],
)
def test_what_cannot_be_compared_is_refused(columns, message):
    with pytest.raises(ValueError, match=message):
        fairness_report(*columns, privileged="a", positive_label=1)


def test_errors_show_no_value():
    with pytest.raises(ValueError, match="labels") as caught:
        fairness_report(["secret", "x", "y", "z"], PREDICTED, GROUPS, privileged="a", positive_label="x")
    assert "secret" not in str(caught.value)
