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
    assert dataset.feature_names == ["age", "sex", "member", "job=Craft", "job=Sales", "job=Tech"]
    assert dataset.features.tolist() == [
        [39, 0, 1, 0, 1, 0],
        [50, 1, 0, 1, 0, 0],
        [38, 0, 0, 0, 1, 0],
        [53, 1, 1, 0, 0, 1],
    ]
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
    dataset.metadata["label_maps"] = [{1.0: "yes", 0.0: "no"}]
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
    assert dataset.feature_names[3:] == ["job=Tech", "job=Sales", "job=Craft", "job=Never"]


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


def test_round_trip_keeps_all_columns():
    """Protected attributes come back as indicators of privileged values."""
    weights = [1.0, 2.0, 0.5, 1.0]
    frame = pd.DataFrame(COLUMNS, index=list("abcd"))
    names = [{1.0: "yes", 0.0: "no"}], [{1.0: "Male", 0.0: "other"}]
    metadata = dict(zip(("label_maps", "protected_attribute_maps"), names, strict=True))
    options = {"privileged": "Male", "positive_label": "yes"}
    dataset = to_aif360(frame, LABELS, "sex", **options)
    dataset.instance_weights = np.array(weights)
    dataset.metadata |= metadata
    table = from_aif360(dataset)
    assert table.data.index.tolist() == list("abcd")
    assert table.data.columns.tolist() == ["age", "sex", "member", "job"]
    assert table.data["job"].tolist() == COLUMNS["job"]
    assert table.data["age"].tolist() == COLUMNS["age"]
    assert table.data["sex"].tolist() == ["other", "Male", "other", "Male"]
    assert table.target.tolist() == LABELS
    assert table.target.name == "label"
    assert list(table.domain["sex"].values) == ["other", "Male"]
    assert list(table.domain["job"].values) == ["Craft", "Sales", "Tech"]
    assert (table.protected, table.privileged, table.positive_label) == (["sex"], {"sex": ["Male"]}, "yes")
    assert table.sample_weight.tolist() == weights
    # Numbers without names.
    table = from_aif360(to_aif360(frame, LABELS, "sex", **options))
    assert table.data["sex"].tolist() == [0, 1, 0, 1]
    assert (table.privileged, table.positive_label) == ({"sex": [1]}, 1)


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
