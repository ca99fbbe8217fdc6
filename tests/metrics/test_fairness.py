"""Group fairness with known groups: values equal to aif360 and fairlearn, and accepted input."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import UndefinedMetricWarning

from skdp.metrics import fairness_report
from tests.metrics.tables import METRICS, compute_fairlearn, select_comparisons

pytest.importorskip("aif360")

UNPRIVILEGED = {(1, 1): 30, (1, 0): 20, (0, 1): 10, (0, 0): 40}
PRIVILEGED = {(1, 1): 60, (1, 0): 15, (0, 1): 5, (0, 0): 20}


def rows(**groups):
    table = [(sex, *cell) for sex, cells in groups.items() for cell, count in cells.items() for _ in range(count)]
    return pd.DataFrame(table, columns=["sex", "true", "predicted"]).sample(frac=1, random_state=0)


def report(frame, privileged="Male", positive_label=1, **parameters):
    columns = (frame[name] for name in ("true", "predicted", "sex"))
    return fairness_report(*columns, privileged=privileged, positive_label=positive_label, **parameters)


def values(frame, **parameters):
    return select_comparisons(report(frame, **parameters)).loc[METRICS].tolist()


def aif360_values(frame, privileged="Male", positive_label=1):
    """Return the values of aif360 on datasets made without skdp."""
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
        metric.equalized_odds_difference(),
        -metric.false_discovery_rate_difference(),
    ]


some_cells = st.fixed_dictionaries({(y, p): st.integers(0, 9) for y in (0, 1) for p in (0, 1)})


groups = st.lists(some_cells.filter(lambda cells: any(cells.values())), min_size=2, max_size=4)


@settings(max_examples=max(4, settings().max_examples // 3))
@given(groups)
def test_values_equal_aif360_and_fairlearn(parts):
    frame = rows(**dict(zip("abcd", parts, strict=False)))
    assume(frame[["true", "predicted"]].to_numpy().any())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        two, each = values(frame, privileged="a"), by_group(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = aif360_values(frame, privileged="a")
    # The precision of a group without a selected row is 0 in aif360, and the maximum may ignore a nan.
    theirs[4:] = np.where(np.isnan(two[4:]), np.nan, theirs[4:])
    np.testing.assert_allclose(two, theirs, rtol=1e-9, atol=1e-12)
    if all(cells[0, 0] + cells[0, 1] and cells[1, 0] + cells[1, 1] for cells in parts):
        expected = compute_fairlearn(frame["true"], frame["predicted"], frame["sex"])
        expected[-1] = np.nan if np.isnan(each[-1]) else expected[-1]  # groups without a precision are ignored
        np.testing.assert_allclose(each, expected, rtol=1e-9, atol=1e-12)


RATES = ["selection_rate", "true_positive_rate", "false_positive_rate", "precision", "false_discovery_rate"]


def by_group(frame):
    table = fairness_report(frame["true"], frame["predicted"], frame["sex"], positive_label=1)
    return select_comparisons(table).loc[METRICS].to_numpy()


def test_each_group_has_its_rates():
    cells = {"Female": UNPRIVILEGED, "Male": PRIVILEGED, "Other": {(1, 1): 3, (1, 0): 7, (0, 1): 5, (0, 0): 15}}
    frame = rows(**cells)
    table = fairness_report(frame["true"], frame["predicted"], frame["sex"], positive_label=1)
    assert table.columns.tolist() == ["metric", "definition", "group", "value", "std_error", "lower", "upper"]
    lookup = table.set_index(["metric", "group"])["value"]
    assert lookup.index.is_unique
    assert table["group"].unique().tolist() == ["Female", "Male", "Other", None]
    for group, rates in {
        "Female": (0.4, 0.6, 0.2, 3 / 4, 1 / 4),
        "Male": (0.65, 0.8, 0.2, 12 / 13, 1 / 13),
        "Other": (8 / 30, 0.3, 0.25, 3 / 8, 5 / 8),
    }.items():
        assert [lookup[name, group] for name in RATES] == pytest.approx(rates)


def test_each_unprivileged_group_is_compared_with_the_privileged_one():
    """The pooled difference of -0.15 hid -0.3 of one group."""
    other = {(1, 1): 30, (1, 0): 20, (0, 1): 5, (0, 0): 45}
    frame = rows(Female=PRIVILEGED, Male=PRIVILEGED, Other=other)
    table = report(frame)
    numbers = table.columns[3:]
    for group in ("Female", "Other"):
        own = table[table["group"] == group].set_index("metric")[numbers]
        alone = report(frame[frame["sex"].isin([group, "Male"])]).set_index("metric")
        pooled = alone[alone["group"] != "privileged"][numbers]
        pd.testing.assert_frame_equal(own, pooled)
    parity = table.set_index(["metric", "group"])["value"][METRICS[0]]
    assert parity.tolist() == pytest.approx([-0.15, 0.0, -0.3])
    assert parity.index.fillna("all").tolist() == ["all", "Female", "Other"]


@given(groups)
@example([{(1, 1): 5}, {(1, 0): 1}])  # the rates of positive labels differ, and there are no negative labels
def test_intervals_cover_their_value_and_possible_values_only(parts):
    frame = rows(**dict(zip("abcd", parts, strict=False)))
    assume(frame[["true", "predicted"]].to_numpy().any())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        table = report(frame, privileged="a")
    known = table[table["value"].notna()]
    assert (known["lower"] <= known["value"] + 1e-12).all()
    assert (known["value"] <= known["upper"] + 1e-12).all()
    assert known[["lower", "upper"]].notna().all(axis=None)
    unknown = table[table["value"].isna()]
    # An unknown rate differs by up to a half from any rate, and so does the larger difference, which may be known.
    is_larger = unknown["metric"] == "equalized_odds_difference"
    assert (unknown.loc[is_larger, "upper"] >= 0.5).all()
    # The whole range; the mean of two differences may have one known difference.
    unknown = unknown[~is_larger]
    smallest = np.where(unknown["metric"].str.startswith("average"), 0.5, 1)
    assert (unknown["upper"] - unknown["lower"] >= smallest).all()
    bounded = table[~table["metric"].isin(["disparate_impact"])]
    assert bounded[["lower", "upper"]].abs().max(axis=None) <= 1 + 1e-12


@pytest.mark.parametrize(
    "column",
    [
        np.array,
        lambda column: pd.Series(column, index=range(len(column), 0, -1)),
        lambda column: pl.DataFrame({"a": column}),
        lambda column: pa.chunked_array([column[:3], column[3:]]),
    ],
)
def test_columns_of_any_library_are_matched_by_position(column):
    frame = rows(Female=UNPRIVILEGED, Male=PRIVILEGED)
    columns = [column(frame[name].tolist()) for name in ("true", "predicted", "sex")]
    table = fairness_report(*columns, privileged="Male", positive_label=1)
    pd.testing.assert_frame_equal(table, report(frame))


@pytest.mark.parametrize(
    ("unprivileged", "privileged", "undefined"),
    [
        # no row is predicted positive
        (dict.fromkeys([(1, 0), (0, 0)], 2), dict.fromkeys([(1, 0), (0, 0)], 2), [METRICS[1], METRICS[5]]),
        # no true positive, no true negative in one group
        ({(0, 0): 2, (0, 1): 2}, PRIVILEGED, METRICS[2:5]),
        ({(1, 0): 2, (1, 1): 2}, PRIVILEGED, METRICS[3:5]),
        # no row has the favorable label
        ({(1, 0): 2}, {(1, 0): 2}, [METRICS[1], *METRICS[3:]]),
    ],
)
def test_undefined_metrics_warn_and_defined_metrics_are_returned(unprivileged, privileged, undefined):
    frame = rows(Female=unprivileged, Male=privileged)
    with pytest.warns(UndefinedMetricWarning) as caught:
        table = report(frame)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    found = select_comparisons(table).loc[METRICS]
    assert found.index[~np.isfinite(found)].tolist() == undefined
    for metric in METRICS:
        assert (metric in str(caught[0].message)) == (metric in undefined)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_allclose(found[METRICS[:4]], aif360_values(frame)[:4], rtol=1e-12, atol=1e-15)


@pytest.mark.filterwarnings("ignore:Undefined")
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, lambda data: np.array([*data.values()]).T])
def test_several_columns_of_any_library_make_the_groups(make):
    people, outcome = {"sex": [*"FFMMMF"], "race": [*"BWWBWW"]}, [0, 1, 1, 0, 1, 0]
    table = fairness_report(outcome, outcome, make(people))
    rates = table[table["metric"] == "selection_rate"].set_index("group")["value"]
    assert rates.to_dict() == {("F", "B"): 0, ("F", "W"): 1 / 2, ("M", "B"): 0, ("M", "W"): 1}


TRUE, PREDICTED, GROUPS = [0, 1, 0, 1], [0, 1, 1, 1], ["a", "a", "b", "b"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((TRUE, PREDICTED[1:], GROUPS), "same length, got 4, 3, 4"),
        (([0, 1, None, 1], PREDICTED, GROUPS), "`y_true` has missing values"),
        ((TRUE, ["0", "1", "1", "1"], GROUPS), "a label in common"),
        (([0, 0, 2, 2], [0, 0, 2, 2], GROUPS), "positive_label"),
        ((["secret", "x", "y", "z"], PREDICTED, GROUPS), "^(?!.*secret).*label"),
        ((TRUE, PREDICTED, pd.DataFrame({"a": GROUPS, "b": GROUPS})), r"a mapping with the keys \['a', 'b'\]"),
        ((TRUE, np.zeros((4, 2)), GROUPS), "`y_pred` must be one column"),
        ((TRUE, PREDICTED, pd.DataFrame(index=range(4))), "`sensitive_features` must have at least one column"),
    ],
)
def test_columns_that_cannot_be_compared_raise_an_error(columns, message):
    with pytest.raises(ValueError, match=message):
        fairness_report(*columns, privileged="a", positive_label=1)


@pytest.mark.parametrize(
    "make",
    [
        pl.Series,
        lambda values: pd.Series(values, dtype="category"),
        lambda values: pd.Series([np.nan if value is None else value for value in values]),
    ],
)
def test_missing_values_are_a_group(make):
    true, predicted = [1, 0, 1, 0] * 3, [1, 0, 0, 0, 1, 1, 1, 0, 1, 0, 1, 1]
    groups = ["a"] * 4 + [None] * 4 + ["b"] * 4
    given = {"positive_label": 1}
    found = fairness_report(true, predicted, make(groups), **given)
    expected = fairness_report(true, predicted, ["a"] * 4 + ["missing"] * 4 + ["b"] * 4, **given)
    columns = ["metric", "group", "value"]
    by_metric = [
        sorted(map(tuple, report[columns].round(9).astype(str).to_numpy().tolist())) for report in (found, expected)
    ]
    assert by_metric[0] == by_metric[1]
    swapped = fairness_report(true, predicted, make(groups), privileged=[None], positive_label=1)
    sides = swapped[swapped["group"].isin(["unprivileged", "privileged", None])].reset_index(drop=True)
    pd.testing.assert_frame_equal(
        sides, fairness_report(true, predicted, [*"bbbbaaaabbbb"], privileged="a", positive_label=1)
    )
