import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp.metrics import from_aif360, to_aif360

aif360_datasets = pytest.importorskip("aif360.datasets")

COLUMNS = {
    "age": [39, 50, 38, 53],
    "job": ["Sales", "Craft", "Sales", "Tech"],
    "sex": ["Female", "Male", "Other", "Male"],
    "member": [True, False, False, True],
}
LABELS = ["no", "yes", "no", "yes"]
COLUMNS_TABLE = pd.DataFrame(COLUMNS)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_tables_of_all_libraries_give_equal_datasets(library):
    dataset = to_aif360(library(COLUMNS), LABELS, "sex", privileged="Male", positive_label="yes")
    assert isinstance(dataset, aif360_datasets.BinaryLabelDataset)
    jobs, sexes = (
        ["job=Craft", "job=Sales", "job=Tech"],
        ["sex (values)=Female", "sex (values)=Male", "sex (values)=Other"],
    )
    assert dataset.feature_names == ["age", "sex", "member", *jobs, *sexes]
    assert dataset.features[:, :6].tolist() == [
        [39, 0, 1, 0, 1, 0],
        [50, 1, 0, 1, 0, 0],
        [38, 0, 0, 0, 1, 0],
        [53, 1, 1, 0, 0, 1],
    ]
    assert dataset.features[:, 6:].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]]
    assert dataset.labels.tolist() == [[0], [1], [0], [1]]
    assert dataset.label_names == ["label"]
    assert dataset.protected_attribute_names == ["sex"]
    assert dataset.protected_attributes.tolist() == [[0], [1], [0], [1]]
    assert [values.tolist() for values in dataset.privileged_protected_attributes] == [[1]]
    assert [values.tolist() for values in dataset.unprivileged_protected_attributes] == [[0]]
    assert (dataset.favorable_label, dataset.unfavorable_label) == (1, 0)
    assert dataset.instance_weights.tolist() == [1, 1, 1, 1]
    assert dataset.instance_names == ["0", "1", "2", "3"]


def test_several_sensitive_features_and_privileged_values_are_accepted():
    dataset = to_aif360(
        pd.DataFrame(COLUMNS),
        LABELS,
        ["sex", "age"],
        privileged={"age": [50, 53], "sex": ("Male", "Other")},
        positive_label="yes",
    )
    assert dataset.protected_attribute_names == ["sex", "age"]
    assert dataset.protected_attributes.tolist() == [[0, 0], [1, 1], [1, 0], [1, 1]]
    assert dataset.feature_names[0] == "age"
    assert dataset.convert_to_dataframe(de_dummy_code=True)[0]["label"].tolist() == LABELS


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(COLUMNS).astype({"job": pd.CategoricalDtype(["Tech", "Sales", "Craft", "Never"])}),
        pl.DataFrame(COLUMNS).cast({"job": pl.Enum(["Tech", "Sales", "Craft", "Never"])}),
    ],
)
def test_declared_values_are_columns_also_if_absent(frame):
    # The last row is the only one with "Tech".
    dataset = to_aif360(frame[:3], LABELS[:3], "sex", privileged="Male", positive_label="yes")
    assert dataset.feature_names[3:7] == ["job=Tech", "job=Sales", "job=Craft", "job=Never"]


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
@pytest.mark.parametrize("column", list(COLUMNS))
def test_error_of_a_missing_value_names_its_column(column, missing):
    frame = pd.DataFrame(COLUMNS).astype({column: object})
    frame.loc[1, column] = missing
    with pytest.raises(ValueError, match=f"Column '{column}' of X must not have missing values"):
        to_aif360(frame, LABELS, "sex", privileged="Male", positive_label="yes")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": ["no", "yes"]}, "same length, got 4 and 2"),
        ({"y": ["no", "yes", None, "no"]}, "`y` has missing values"),
        ({"positive_label": "Yes"}, "`positive_label` must be a label of y"),
        ({"sensitive_features": "gender"}, r"names of columns of X, \['age', 'job', 'sex', 'member'\]"),
        ({"sensitive_features": ["sex", "age"]}, r"mapping with the keys \['sex', 'age'\]"),
        ({"privileged": {"gender": "Male"}}, r"keys \['sex'\], got \['gender'\]"),
        ({"privileged": "male"}, r"`X\['sex'\]` must have a row with a privileged value"),
        ({"X": pd.DataFrame(COLUMNS | {"label": 1})}, "X must not have a column 'label'"),
        ({"X": pd.DataFrame(COLUMNS | {"job=Craft": 1})}, "other than the names"),
    ],
)
def test_invalid_arguments_raise_an_error(change, message):
    arguments = {"X": COLUMNS_TABLE, "y": LABELS, "sensitive_features": "sex"}
    arguments |= {"privileged": "Male", "positive_label": "yes"}
    with pytest.raises(ValueError, match=message):
        to_aif360(**arguments | change)


ODD_COLUMNS = {
    "sex": ["Female", "Male", "Male"],
    "price": [Decimal("1.5"), Decimal("2"), Decimal("-3.25")],
    "member": [True, False, True],
}


@pytest.mark.parametrize("library", [lambda data: pd.DataFrame(data, dtype=object), pl.DataFrame, pa.table])
def test_columns_of_numeric_types_stay_one_column(library):
    dataset = to_aif360(library(ODD_COLUMNS), [0, 1, 0], "sex", privileged="Male", positive_label=1)
    assert dataset.feature_names == list(ODD_COLUMNS)
    assert dataset.features.tolist() == [[0, 1.5, 1], [1, 2, 0], [1, -3.25, 1]]


@pytest.mark.parametrize("missing", ["aif360", "aif360.datasets"])
def test_error_without_aif360_names_the_package(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setitem(sys.modules, "aif360.datasets", None)
    with pytest.raises(ImportError, match=r"pip install (fairlearn|aif360)"):
        to_aif360(pd.DataFrame(COLUMNS), LABELS, "sex", privileged="Male", positive_label="yes")


LEVELS = pd.CategoricalDtype(["None", "School", "College", "Doctorate"])


def test_round_trip_keeps_labels_groups_weights_and_columns():
    """Four levels and three ages of protected attributes survive beside two sexes."""
    weights = pd.Series([1.0, 2.0, 0.5, 1.0, 1.0], index=list("abcde"))
    frame = pd.DataFrame({"sex": ["f", "m", "m", "f", "m"], "job": ["a", "b", "a", "c", "b"]}, index=weights.index)
    frame["school"] = pd.Series(["School", "College", "None", "College", "School"], frame.index).astype(LEVELS)
    frame["age"] = [20, 30, 40, 30, 20]
    labels = pd.Series(["no", "yes", "no", "yes", "yes"], index=frame.index)
    privileged = {"sex": "m", "school": ["College", "Doctorate"], "age": [30, 40]}
    protected = list(privileged)
    options = {"privileged": privileged, "positive_label": "yes", "sample_weight": weights}
    dataset = to_aif360(frame, labels, protected, **options)
    # The protected attributes are 0 and 1, as aif360's metrics require.
    assert dataset.protected_attributes.tolist() == [[0, 0, 0], [1, 1, 1], [1, 0, 1], [0, 1, 1], [1, 0, 0]]
    for part, rows in ((dataset, [0, 1, 2, 3, 4]), (dataset.subset([3, 1]), [3, 1]), (dataset.copy(), range(5))):
        table, expected = from_aif360(part), frame.iloc[rows]
        assert sorted(table.data.columns) == sorted(frame.columns)
        for name in frame.columns:
            assert table.data[name].tolist() == expected[name].tolist()
        assert table.data.index.tolist() == expected.index.tolist()
        assert table.target.tolist() == labels.iloc[rows].tolist()
        assert table.sample_weight.tolist() == weights.iloc[rows].tolist()
        assert (table.protected, table.positive_label) == (protected, "yes")
        assert table.privileged["sex"] == ["m"]
        assert list(table.domain["school"].values) == list(LEVELS.categories)
    table = from_aif360(dataset)
    assert table.privileged == {"sex": ["m"], "school": ["College"], "age": [30, 40]}
    again = to_aif360(table.data[frame.columns], table.target, protected, **options | {"privileged": table.privileged})
    np.testing.assert_array_equal(again.protected_attributes, dataset.protected_attributes)
    np.testing.assert_array_equal(again.instance_weights, dataset.instance_weights)


def test_protected_attributes_that_disagree_with_their_values_raise_an_error():
    dataset = to_aif360(COLUMNS_TABLE, LABELS, "sex", privileged="Male", positive_label="yes")
    dataset.features[1, dataset.feature_names.index("sex")] = 0.0
    with pytest.raises(ValueError, match="'sex' must have the same number in all rows"):
        from_aif360(dataset)


def test_names_of_metadata_are_values():
    dataset = to_aif360(
        COLUMNS_TABLE[["sex", "job"]].iloc[:2], LABELS[:2], "sex", privileged="Male", positive_label="yes"
    )
    dataset.metadata |= {"protected_attribute_maps": [{1.0: "man", 0.0: "none"}], "label_maps": [{1.0: "rich"}]}
    table = from_aif360(dataset)
    assert (table.data["sex"].tolist(), table.target.tolist()) == (["none", "man"], [0.0, "rich"])


def test_true_and_predicted_labels_make_comparable_datasets():
    """With any names of their series."""
    from aif360.metrics import ClassificationMetric

    labels = pd.Series(LABELS, name="income"), np.array(["yes", "yes", "no", "yes"])
    datasets = [to_aif360(COLUMNS_TABLE, y, "sex", privileged="Male", positive_label="yes") for y in labels]
    groups = {"unprivileged_groups": [{"sex": 0.0}], "privileged_groups": [{"sex": 1.0}]}
    assert ClassificationMetric(*datasets, **groups).accuracy() == 0.75


def test_columns_with_an_equals_sign_that_are_no_indicators_are_kept():
    frame = pd.DataFrame({"sex": [0, 1, 1], "a=b": [0.5, 1.0, 0.0], "a=c": [0.5, 0.0, 1.0], "k=v": [1, 1, 1]})
    dataset = to_aif360(frame, [0, 1, 0], "sex", privileged=1)
    assert from_aif360(dataset).data.columns.tolist() == list(frame)
    dataset.unprivileged_protected_attributes = [np.array([2.0])]
    with pytest.raises(ValueError, match="'sex' must have only values that the dataset declares"):
        from_aif360(dataset)
    with pytest.raises(TypeError, match="must be a BinaryLabelDataset of aif360, got DataFrame"):
        from_aif360(frame)


def test_column_named_as_the_part_before_the_sign_is_kept():
    frame = pd.DataFrame({"sex": [0, 1, 1], "job": [0, 1, 1], "job=A": [1, 0, 0], "job=B": [0, 1, 1], "k=A": [1, 0, 0]})
    frame["k=B"] = 1 - frame["k=A"]
    table = from_aif360(to_aif360(frame, [0, 1, 0], "sex", privileged=1))
    assert table.data.columns.tolist() == ["sex", "job", "job=A", "job=B", "k"]
    assert table.data["job"].tolist() == [0, 1, 1]
    assert table.data["k"].tolist() == ["A", "B", "B"]


def test_protected_indicator_is_kept():
    frame = pd.DataFrame({"sex=f": [0, 1, 1], "sex=m": [1, 0, 0]})
    assert from_aif360(to_aif360(frame, [0, 1, 0], "sex=f", privileged=1)).data.columns.tolist() == ["sex=f", "sex=m"]
