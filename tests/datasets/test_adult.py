import csv
import gzip
import hashlib
import io
from importlib import resources

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import Bunch

from skdp.datasets import load_adult
from skdp.metrics import to_aif360
from tests.conftest import diagonal

NAMES = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country"),
]
NUMBERS = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
MISSING = {"workclass": 2799, "occupation": 2809, "native-country": 857}


@pytest.fixture(scope="module")
def raw():
    """Return the rows as text, read without pandas."""
    data = resources.files("skdp.datasets").joinpath("data/adult.csv.gz").read_bytes()
    return list(csv.DictReader(io.StringIO(gzip.decompress(data).decode())))


@pytest.mark.parametrize(
    ("subset", "rows", "complete"),
    [
        ("train", 32_561, 30_162),
        pytest.param("test", 16_281, 15_060, marks=pytest.mark.long),
        pytest.param("all", 48_842, 45_222, marks=pytest.mark.long),
    ],
)
def test_subset_has_all_rows(raw, subset, rows, complete):
    expected = [row for row in raw if subset in ("all", row["split"])]
    adult = load_adult(subset=subset)
    assert isinstance(adult, Bunch)
    assert adult.frame.shape == (rows, 15)
    assert adult.frame.columns.tolist() == [*NAMES, "income"]
    assert adult.frame.index.equals(pd.RangeIndex(rows))
    assert adult.data.equals(adult.frame[NAMES])
    assert adult.target.equals(adult.frame["income"])
    for name in adult.frame:
        read = int if name in NUMBERS else str
        assert isinstance(adult.frame[name].dtype, pd.CategoricalDtype) == (read is str)
        assert (adult.frame[name].dtype == np.int64) == (read is int)
        found = ["?" if value != value else value for value in adult.frame[name].astype(object).tolist()]
        assert found == [read(row[name]) for row in expected]
    dropped = load_adult(subset=subset, dropna=True).frame
    assert len(dropped) == complete
    assert dropped.equals(adult.frame.dropna(ignore_index=True))


def test_published_facts_hold():
    adult = load_adult(subset="all", dropna=True).frame
    assert adult["age"].median() == 37
    cells = adult.groupby([adult["age"] > 37, "sex"], observed=False).size()
    assert cells.to_list() == [8196, 14831, 6499, 15696]
    assert (load_adult().frame["occupation"] == "Sales").sum() == 3650
    missing = load_adult(subset="all").frame.isna().sum()
    assert missing[missing > 0].to_dict() == MISSING


@pytest.mark.parametrize(("dropna", "subset"), diagonal([False, True], ["train", "test", "all"]))
def test_domain_declares_every_value_of_every_column(subset, dropna):
    adult = load_adult(subset=subset, dropna=dropna)
    assert adult.domain.columns == tuple(adult.frame.columns)
    codes = adult.domain.encode([adult.frame[name] for name in adult.frame])
    assert all((code < size).all() for code, size in zip(codes, adult.domain.sizes, strict=True))
    assert adult.domain == load_adult(dropna=dropna).domain  # public: independent of the loaded rows
    missing = {name for name in adult.domain.columns if None in adult.domain[name].values}
    assert missing == (set() if dropna else set(MISSING))
    assert set(adult.privileged) < set(adult.protected) < set(adult.feature_names)
    assert all(value in adult.domain[column].values for column, value in adult.privileged.items())
    assert adult.positive_label in adult.target_names
    for name in adult.frame.select_dtypes("category"):  # also values outside these rows
        values = [value for value in adult.domain[name].values if value is not None]
        assert adult.frame[name].cat.categories.tolist() == values
        assert not adult.frame[name].cat.ordered


def test_data_and_target_are_returned_alone():
    loaded = load_adult(subset="test", dropna=True)
    X, y = load_adult(subset="test", dropna=True, return_X_y=True)
    assert X.equals(loaded.data)
    assert y.equals(loaded.target)
    assert loaded.feature_names == NAMES
    assert loaded.target_names == ["<=50K", ">50K"]
    assert "CC BY 4.0" in loaded.DESCR


@pytest.mark.parametrize("subset", ["Train", None, "validation"])
def test_unknown_subset_raises_an_error(subset):
    with pytest.raises(ValueError, match="`subset` must be"):
        load_adult(subset=subset)


@pytest.mark.long
def test_dataset_of_aif360_is_equal():
    from aif360.metrics import BinaryLabelDatasetMetric

    # The test rows are first, two races remain, and only values that occur have a column.
    frame = pd.concat([load_adult(subset=subset).frame for subset in ("test", "train")], ignore_index=True).dropna()
    for name in frame.columns[frame.dtypes == "category"]:
        frame[name] = frame[name].cat.remove_unused_categories()
    frame["race"] = frame["race"].astype(object).where(frame["race"] == "White", "Non-white")
    features, privileged = frame.drop(columns=["fnlwgt", "income"]), {"race": "White", "sex": "Male"}
    options = {"privileged": privileged, "positive_label": ">50K"}
    dataset = to_aif360(features, frame["income"], ["race", "sex"], **options)
    metric = BinaryLabelDatasetMetric(dataset, [{"sex": 0}], [{"sex": 1}])
    frame = load_adult(subset="all", dropna=True).frame
    rate = (frame["income"] == ">50K").groupby(frame["sex"], observed=True).mean()
    assert metric.mean_difference() == pytest.approx(rate["Female"] - rate["Male"])
    # Compared with the AdultDataset of aif360, made of the files of the UCI repository.
    digest = hashlib.sha256(repr(dataset.feature_names).encode())
    for name in ("features", "labels", "protected_attributes", "instance_weights", "scores"):
        digest.update(np.ascontiguousarray(getattr(dataset, name), float).tobytes())
    assert digest.hexdigest()[:16] == "366600261ca5db92"
