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
    "sex": ["Female", "Male", "Female", "Male"],
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


def test_maps_name_the_privileged_value():
    dataset = to_aif360(COLUMNS_TABLE, LABELS, "sex", privileged="Female", positive_label="yes")
    assert dataset.metadata["protected_attribute_maps"] == [{1.0: "Female", 0.0: "Male"}]


@pytest.mark.filterwarnings("ignore:Downcasting behavior:FutureWarning")  # of aif360, with pandas 2.2
def test_several_sensitive_features_and_privileged_values_are_accepted():
    privileged = {"member": True, "sex": ("Male", "Other")}
    dataset = to_aif360(COLUMNS_TABLE, LABELS, ["sex", "member"], privileged=privileged, positive_label="yes")
    assert dataset.protected_attribute_names == ["sex", "member"]
    assert dataset.protected_attributes.tolist() == [[0, 1], [1, 0], [0, 0], [1, 1]]
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
        ({"positive_label": "Yes"}, "y must have two labels, of which one is `positive_label`, got 2 other labels"),
        ({"y": ["no", "yes", "maybe", "no"]}, "y must have two labels"),
        ({"sensitive_features": "age", "privileged": 50}, "Column 'age' of X must have two values .* got 4. Combine"),
        ({"X": pd.DataFrame(COLUMNS | {"job": [1, "1", 2, 3]})}, "other than the names"),
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
TABLE = pd.DataFrame(
    {
        "job": ["a", "b", "a", "c", "b"],
        "sex": ["f", "m", "m", "f", "m"],
        "a=b": [1, 0, 0, 1, 0],  # no indicators, although one of both is 1
        "a=c": [0, 1, 1, 0, 1],
        "school": pd.Categorical(["School", "College", "None", "College", "School"], dtype=LEVELS),
        "born": pd.to_datetime(["2000-01-01", "1990-05-02", "2000-01-01", "1985-07-07", "1990-05-02"]),
        "disability": [1, 2, 2, 2, 1],
        "member": [True, False, False, True, True],
        "hours": np.array([20, 30, 40, 30, 20], "int32"),
        "wage": [1.5, 2.5, 3.5, 0.5, 1.0],
    }
)
WEIGHTS = pd.Series([1.0, 2.0, 0.5, 1.0, 1.0], TABLE.index)


@pytest.mark.parametrize("index", [None, list("abcde"), pd.Index([7, 3, 5, 2, 9], name="id")], ids=str)
def test_round_trip_equals_the_table(index):
    """Labels, groups, weights, names, types and order of columns are kept, also in parts of the dataset."""
    index = TABLE.index if index is None else pd.Index(index)
    frame, weights = TABLE.set_axis(index), WEIGHTS.set_axis(index)
    labels = pd.Series(["no", "yes", "no", "yes", "yes"], index=index)
    privileged = {"sex": ["m"], "disability": [2], "member": [True]}
    options = {"privileged": privileged, "positive_label": "yes", "sample_weight": weights}
    dataset = to_aif360(frame, labels, list(privileged), **options)
    assert dataset.protected_attributes.tolist() == [[0, 0, 1], [1, 1, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1]]
    for part, rows in ((dataset, [0, 1, 2, 3, 4]), (dataset.subset([3, 1]), [3, 1]), (dataset.copy(), range(5))):
        table = from_aif360(part)
        pd.testing.assert_frame_equal(table.data, frame.iloc[rows])
        pd.testing.assert_series_equal(table.target, labels.iloc[rows], check_names=False)
        assert table.sample_weight.tolist() == weights.iloc[rows].tolist()
        assert (table.protected, table.privileged, table.positive_label) == ([*privileged], privileged, "yes")
        assert list(table.domain["school"].values) == list(LEVELS.categories)


def test_round_trip_of_a_polars_table_equals_its_pandas_table():
    frame = pl.from_pandas(TABLE)
    table = from_aif360(to_aif360(frame, [0, 1, 0, 1, 1], "sex", privileged="m"))
    pd.testing.assert_frame_equal(table.data, frame.to_pandas(), check_categorical=False, check_dtype=False)
    assert table.data.dtypes.drop("school").tolist() == frame.to_pandas().dtypes.drop("school").tolist()


def test_tables_with_many_values_give_no_warning():
    """pandas warns of columns that are inserted into a table of more than 100."""
    frame = pd.DataFrame({"sex": ["f", "m"] * 75, "job": [f"job {number}" for number in range(150)]})
    dataset = to_aif360(frame, [0, 1] * 75, "sex", privileged="m")
    assert len(dataset.feature_names) == 151
    pd.testing.assert_frame_equal(from_aif360(dataset).data, frame)


def test_numbers_that_a_method_of_aif360_changed_are_kept():
    dataset = to_aif360(TABLE, [0, 1, 0, 1, 1], "sex", privileged="m")
    dataset.features[:, dataset.feature_names.index("hours")] = 0.5
    dataset.features[0, dataset.feature_names.index("job=a")] = 0.5
    data = from_aif360(dataset).data
    assert data["hours"].tolist() == [0.5] * 5
    assert data["job=a"].tolist() == [0.5, 0, 1, 0, 0]
    assert "job" not in data


def test_names_of_metadata_are_values():
    dataset = to_aif360(
        COLUMNS_TABLE[["sex", "job"]].iloc[:2], LABELS[:2], "sex", privileged="Male", positive_label="yes"
    )
    dataset.metadata |= {"protected_attribute_maps": [{1.0: "man", 0.0: "none"}], "label_maps": [{1.0: "rich"}]}
    table = from_aif360(dataset)
    assert (table.data["sex"].tolist(), table.target.tolist()) == (["none", "man"], [0.0, "rich"])


def test_true_and_predicted_labels_make_comparable_datasets():
    """The true labels are a named series, and the predicted labels an array."""
    from aif360.metrics import ClassificationMetric

    labels = pd.Series(LABELS, name="income"), np.array(["yes", "yes", "no", "yes"])
    datasets = [to_aif360(COLUMNS_TABLE, y, "sex", privileged="Male", positive_label="yes") for y in labels]
    groups = {"unprivileged_groups": [{"sex": 0.0}], "privileged_groups": [{"sex": 1.0}]}
    assert ClassificationMetric(*datasets, **groups).accuracy() == 0.75


def make_dataset(frame, protected):
    """Make a dataset without skdp."""
    frame = frame.astype(float).assign(y=[0.0, 1.0, 0.0])
    return aif360_datasets.BinaryLabelDataset(df=frame, label_names=["y"], protected_attribute_names=[protected])


def test_columns_of_other_datasets_with_an_equals_sign_that_are_no_indicators_are_kept():
    frame = pd.DataFrame({"sex": [0, 1, 1], "a=b": [0.5, 1.0, 0.0], "a=c": [0.5, 0.0, 1.0], "k=v": [1, 1, 1]})
    dataset = make_dataset(frame, "sex")
    assert from_aif360(dataset).data.columns.tolist() == list(frame)
    dataset.unprivileged_protected_attributes = [np.array([2.0])]
    with pytest.raises(ValueError, match="'sex' must have only values that the dataset declares"):
        from_aif360(dataset)
    with pytest.raises(TypeError, match="must be a BinaryLabelDataset of aif360, got DataFrame"):
        from_aif360(frame)


def test_indicators_of_other_datasets_become_a_column_unless_its_name_is_taken():
    frame = pd.DataFrame({"sex": [0, 1, 1], "job": [0, 1, 1], "job=A": [1, 0, 0], "job=B": [0, 1, 1], "k=A": [1, 0, 0]})
    frame["k=B"] = 1 - frame["k=A"]
    table = from_aif360(make_dataset(frame, "sex"))
    assert table.data.columns.tolist() == ["sex", "job", "job=A", "job=B", "k"]
    assert table.data["job"].tolist() == [0, 1, 1]
    assert table.data["k"].tolist() == ["A", "B", "B"]


def test_protected_indicator_of_another_dataset_is_kept():
    frame = pd.DataFrame({"sex=f": [0, 1, 1], "sex=m": [1, 0, 0]})
    assert from_aif360(make_dataset(frame, "sex=f")).data.columns.tolist() == ["sex=f", "sex=m"]
