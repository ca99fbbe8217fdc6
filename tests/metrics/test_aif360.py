import datetime as dt
import logging
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp.metrics import to_aif360
from tests.conftest import each

aif360_datasets = pytest.importorskip("aif360.datasets")

COLUMNS = {
    "age": [39, 50, 38, 53],
    "job": ["Sales", "Craft", "Sales", "Tech"],
    "sex": ["Female", "Male", "Other", "Male"],
    "member": [True, False, False, True],
}
LABELS = ["no", "yes", "no", "yes"]


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_table_of_any_library_becomes_the_same_numbers(library):
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


def test_the_table_is_left_as_it_was():
    frame = pd.DataFrame(COLUMNS)
    to_aif360(frame, LABELS, "sex", privileged="Male", positive_label="yes")
    pd.testing.assert_frame_equal(frame, pd.DataFrame(COLUMNS))


def test_several_sensitive_features_and_several_privileged_values():
    dataset = to_aif360(
        pd.DataFrame(COLUMNS),
        LABELS,
        ["sex", "age"],
        privileged={"age": [50, 53], "sex": ("Male", "Other")},
        positive_label="yes",
        label_name="income",
        metadata={"label_maps": [{1.0: "yes", 0.0: "no"}]},
    )
    assert dataset.protected_attribute_names == ["sex", "age"]
    assert dataset.protected_attributes.tolist() == [[0, 0], [1, 1], [1, 0], [1, 1]]
    assert dataset.feature_names[0] == "age"
    assert dataset.label_names == ["income"]
    assert dataset.convert_to_dataframe(de_dummy_code=True)[0]["income"].tolist() == LABELS


def test_the_callers_metadata_are_left_as_they_were():
    metadata = {"source": "here"}
    to_aif360(pd.DataFrame(COLUMNS), LABELS, "sex", privileged="Male", positive_label="yes", metadata=metadata)
    assert metadata == {"source": "here"}


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(COLUMNS).astype({"job": pd.CategoricalDtype(["Tech", "Sales", "Craft", "Never"])}),
        pl.DataFrame(COLUMNS).cast({"job": pl.Enum(["Tech", "Sales", "Craft", "Never"])}),
    ],
)
def test_declared_values_are_columns_whether_they_occur_or_not(frame):
    for rows in (frame, frame[1:]):
        dataset = to_aif360(rows, LABELS[-len(rows) :], "sex", privileged="Male", positive_label="yes")
        assert dataset.feature_names[3:] == ["job=Tech", "job=Sales", "job=Craft", "job=Never"]


def test_levels_that_polars_and_arrow_happen_to_know_are_no_declaration():
    pl.Series(["Zoo"], dtype=pl.Categorical)
    polars = pl.DataFrame(COLUMNS).cast({"job": pl.Categorical})
    table = pa.table(COLUMNS)
    arrow = table.set_column(1, "job", table["job"].dictionary_encode()).slice(1)
    for frame, names in (
        (polars, ["job=Craft", "job=Sales", "job=Tech"]),
        (arrow, ["job=Craft", "job=Sales", "job=Tech"]),
    ):
        dataset = to_aif360(frame, LABELS[-frame.shape[0] :], "sex", privileged="Male", positive_label="yes")
        assert dataset.feature_names[3:] == names


@each(
    "labels",
    [
        np.array(LABELS),
        np.array(LABELS)[:, None],
        pd.Series(LABELS, index=[9, 8, 7, 6]),
        pd.Series(LABELS, dtype="category"),
        pd.DataFrame({"y": LABELS}),
        pl.Series(LABELS),
        pl.DataFrame({"y": LABELS}),
        pa.chunked_array([LABELS]),
    ],
)
def test_labels_of_any_library_are_matched_by_position(labels):
    dataset = to_aif360(pd.DataFrame(COLUMNS), labels, "sex", privileged="Male", positive_label="yes")
    assert dataset.labels.ravel().tolist() == [0, 1, 0, 1]


def test_predictions_may_all_be_negative():
    dataset = to_aif360(pd.DataFrame(COLUMNS), [0, 0, 0, 0], "sex", privileged="Male", positive_label=1)
    assert dataset.labels.ravel().tolist() == [0, 0, 0, 0]


def test_the_row_index_gives_the_instance_names():
    frame = pd.DataFrame(COLUMNS, index=list("abcd"))
    dataset = to_aif360(frame, LABELS, "sex", privileged="Male", positive_label="yes")
    assert dataset.instance_names == list("abcd")


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
@pytest.mark.parametrize("column", list(COLUMNS))
def test_a_missing_value_is_refused_by_the_name_of_its_column(column, missing):
    frame = pd.DataFrame(COLUMNS).astype({column: object})
    frame.loc[1, column] = missing
    with pytest.raises(ValueError, match=f"column '{column}' has missing values"):
        to_aif360(frame, LABELS, "sex", privileged="Male", positive_label="yes")


@pytest.mark.parametrize("library", [pl.DataFrame, pa.table])
def test_a_null_is_missing(library):
    with pytest.raises(ValueError, match="column 'job' has missing values"):
        to_aif360(
            library(COLUMNS | {"job": ["a", None, "b", "c"]}), LABELS, "sex", privileged="Male", positive_label="yes"
        )


@each(
    "change message",
    [
        ({"y": ["no", "yes"]}, "X has 4 rows, y has 2 labels"),
        ({"y": ["no", "yes", None, "no"]}, "y has missing values"),
        ({"y": np.zeros((4, 2))}, "y must be one column"),
        ({"y": pd.DataFrame(COLUMNS)}, "y must be one column, got 4"),
        ({"y": "no"}, "y must be one column"),
        ({"sensitive_features": COLUMNS["sex"]}, "must name columns"),
        ({"positive_label": "Yes"}, "no label that equals positive_label"),
        ({"sensitive_features": "gender"}, r"columns of X, which are \['age', 'job', 'sex', 'member'\]"),
        ({"sensitive_features": []}, "must name columns"),
        ({"sensitive_features": ["sex", "age"]}, r"mapping with the keys \['sex', 'age'\]"),
        ({"privileged": {"gender": "Male"}}, r"keys \['gender'\]; sensitive_features names \['sex'\]"),
        ({"privileged": "male"}, "sensitive feature 'sex' has no row with a privileged value"),
        ({"privileged": ["Male", "Female", "Other"]}, "'sex' has no row with a value that is not privileged"),
        ({"label_name": "job"}, "set label_name"),
        ({"sample_weight": [1, 2]}, "X has 4 rows, sample_weight has 2"),
        ({"sample_weight": [1, 2, None, 1]}, "sample_weight has missing values"),
        ({"sample_weight": [1, 2, -1, 1]}, "sample_weight must be finite and at least 0"),
        ({"sample_weight": [1, 2, np.inf, 1]}, "sample_weight must be finite and at least 0"),
        ({"sample_weight": ["1", "2", "3", "4"]}, "sample_weight must hold numbers"),
        ({"X": pd.DataFrame(COLUMNS | {"job=Craft": 1})}, "name of another column"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    arguments = {
        "X": pd.DataFrame(COLUMNS),
        "y": LABELS,
        "sensitive_features": "sex",
        "privileged": "Male",
        "positive_label": "yes",
    }
    with pytest.raises(ValueError, match=message):
        to_aif360(**arguments | change)


@pytest.mark.parametrize("table", [np.zeros(4), [[1, 2]], pl.LazyFrame(COLUMNS)])
def test_only_tables_that_hold_their_rows_are_taken(table):
    with pytest.raises(TypeError, match="frame"):
        to_aif360(table, LABELS, "sex", privileged="Male", positive_label="yes")


@each("kind", [pd.Series, pl.Series, np.array, lambda values: pd.DataFrame({"sex": values})])
def test_a_sensitive_feature_is_named_not_given(kind):
    with pytest.raises(
        TypeError, match=r"the name of a column of X or a list of names, got a (Series|ndarray|DataFrame)"
    ):
        to_aif360(pd.DataFrame(COLUMNS), LABELS, kind(COLUMNS["sex"]), privileged="Male", positive_label="yes")


def test_an_error_names_columns_and_no_value():
    with pytest.raises(ValueError, match="columns of X") as caught:
        to_aif360(pd.DataFrame(COLUMNS), LABELS, COLUMNS["sex"], privileged="Male", positive_label="yes")
    assert "Female" not in str(caught.value)


def test_lazy_frames_are_refused_by_name_of_what_takes_them():
    with pytest.raises(TypeError, match=r"skdp\.engines"):
        to_aif360(pl.LazyFrame(COLUMNS), LABELS, "sex", privileged="Male", positive_label="yes")


@pytest.mark.parametrize("dtype", [float, object])
def test_an_array_has_columns_by_position(dtype):
    table = np.array([[39, 0], [50, 1], [38, 2], [53, 1]], dtype=dtype)
    dataset = to_aif360(table, LABELS, "x1", privileged=1, positive_label="yes")
    assert dataset.feature_names == ["x0", "x1"]
    assert dataset.features.tolist() == [[39, 0], [50, 1], [38, 0], [53, 1]]


ODD_COLUMNS = {
    "sex": ["Female", "Male", "Male"],
    "price": [Decimal("1.5"), Decimal("2"), Decimal("-3.25")],
    "day": [dt.date(1970, 1, 2), dt.date(2000, 1, 1), dt.date(1969, 12, 31)],
    "time": [dt.datetime(1970, 1, 1, 12), dt.datetime(2000, 1, 1), dt.datetime(1970, 1, 2)],
    "wait": [dt.timedelta(days=1), dt.timedelta(hours=36), dt.timedelta(0)],
    "member": [True, False, True],
    "tiny": [1, 2, 3],
}


@pytest.mark.parametrize(
    "library",
    [
        pd.DataFrame,
        lambda data: pd.DataFrame(data).convert_dtypes(),
        lambda data: pa.table(data).to_pandas(types_mapper=pd.ArrowDtype),
        lambda data: pd.DataFrame(data, dtype=object),
        pl.DataFrame,
        pa.table,
    ],
)
def test_what_is_a_number_in_some_sense_stays_one_column(library):
    dataset = to_aif360(library(ODD_COLUMNS), [0, 1, 0], "sex", privileged="Male", positive_label=1)
    assert dataset.feature_names == list(ODD_COLUMNS)
    assert dataset.features.dtype == float
    assert dataset.features.tolist() == [
        [0, 1.5, 1, 0.5, 1, 1, 1],
        [1, 2, 10957, 10957, 1.5, 0, 2],
        [1, -3.25, -1, 1, 0, 1, 3],
    ]


def test_times_of_a_zone_are_taken_in_utc():
    times = pd.Series(pd.to_datetime(["1970-01-01", "1970-01-02"])).dt.tz_localize("America/New_York")
    frame = pd.DataFrame({"sex": ["F", "M"], "time": times})
    dataset = to_aif360(frame, [0, 1], "sex", privileged="M", positive_label=1)
    assert dataset.features[:, 1].tolist() == [5 / 24, 1 + 5 / 24]


def test_categories_that_are_numbers_are_values_not_numbers():
    frame = pd.DataFrame({"sex": ["F", "M"], "code": pd.Categorical([1, 3], categories=[1, 2, 3])})
    dataset = to_aif360(frame, [0, 1], "sex", privileged="M", positive_label=1)
    assert dataset.feature_names == ["sex", "code=1", "code=2", "code=3"]


@pytest.mark.parametrize(
    "weights",
    [
        [1.0, 2.0, 0.0, 0.5],
        np.array([1.0, 2.0, 0.0, 0.5]),
        pl.Series([1.0, 2.0, 0.0, 0.5]),
        pa.chunked_array([[1.0, 2.0, 0.0, 0.5]]),
    ],
)
def test_weights_of_any_library_become_instance_weights(weights):
    from aif360.metrics import BinaryLabelDatasetMetric

    dataset = to_aif360(
        pl.DataFrame(COLUMNS), LABELS, "sex", privileged="Male", positive_label="yes", sample_weight=weights
    )
    assert dataset.instance_weights.tolist() == [1.0, 2.0, 0.0, 0.5]
    metric = BinaryLabelDatasetMetric(dataset, unprivileged_groups=[{"sex": 0.0}], privileged_groups=[{"sex": 1.0}])
    assert metric.num_instances() == 3.5


def test_the_callers_weights_are_not_written_to():
    weights = np.ones(4)
    dataset = to_aif360(
        pd.DataFrame(COLUMNS), LABELS, "sex", privileged="Male", positive_label="yes", sample_weight=weights
    )
    dataset.instance_weights[0] = 9
    assert weights.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("missing", ["aif360", "aif360.datasets"])
def test_without_aif360_it_says_what_to_install(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setitem(sys.modules, "aif360.datasets", None)
    with pytest.raises(ImportError, match=r'pip install "skdp\[fairness\]"'):
        to_aif360(pd.DataFrame(COLUMNS), LABELS, "sex", privileged="Male", positive_label="yes")


QUIET = """
import logging, sys
before = (list(logging.root.handlers), list(logging.root.filters))
import pandas
from skdp.metrics import to_aif360
to_aif360(pandas.DataFrame({"g": list("ab")}), [0, 1], "g", privileged="a", positive_label=1)
from skdp.metrics.fairness import import_optional
import_optional("aif360.metrics")
assert (logging.root.handlers, logging.root.filters) == before
logging.warning("mine")
"""


@pytest.mark.long
def test_importing_aif360_prints_nothing_and_leaves_logging_as_it_was():
    done = subprocess.run([sys.executable, "-W", "error", "-c", QUIET], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "WARNING:root:mine\n")


def test_other_log_lines_come_through(monkeypatch, caplog):
    def import_with_log_lines(name):
        logging.warning("tensorflow will be unavailable")
        logging.warning("something else")
        return aif360_datasets

    monkeypatch.setattr("skdp.metrics.fairness._aif360.import_module", import_with_log_lines)
    to_aif360(pd.DataFrame(COLUMNS), LABELS, "sex", privileged="Male", positive_label="yes")
    assert [record.message for record in caplog.records] == ["something else"]
