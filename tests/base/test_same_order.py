"""A series with the row labels of X in another order is refused before any charge; other indexes are positional."""

import numpy as np
import pandas as pd
import pytest

from skdp import PrivacyLedger, RandomizedResponseEncoder
from skdp.local import SecretKey
from skdp.metrics import joint_distribution
from tests.central.estimators import EVERY, make_estimator, whole

X = pd.DataFrame({"x": ["a", "b"] * 10}, index=[f"row {number}" for number in range(20)])
ORDERED = {"x": ["a", "b"]}


SUPERVISED = [name for name in EVERY if "y" in whole(name)]
CASES = [*((name, "person") for name in EVERY), *((name, "y") for name in SUPERVISED)]


@pytest.mark.filterwarnings("ignore:The noise (is about|exceeds)", "ignore:.* fewer bins than")  # 30 people only
@pytest.mark.filterwarnings("ignore:On average over persons, about .* rows")  # two rows of a person
@pytest.mark.parametrize(("name", "what"), CASES)
def test_central_estimators_refuse_series_in_another_order(name, what):
    ledger = PrivacyLedger(epsilon=1e4, delta=0.5)
    estimator, table = make_estimator(name, ledger=ledger), whole(name)
    table.index = [f"row {number}" for number in range(len(table))]
    is_supervised = name in SUPERVISED
    rows = table.drop(columns="y") if is_supervised else table
    target = {"y": table["y"]} if is_supervised else {}
    persons = pd.Series(np.arange(len(table)) // 2, index=table.index)
    columns = target | {"person": persons}
    for other in (columns[what][::-1], columns[what][::-1].to_frame("z")):
        with pytest.raises(ValueError, match=f"^`{what}` must have its row labels in the order of X"):
            estimator.fit(rows, **columns | {what: other})
    assert len(ledger.charges()) == 0
    for same in (columns[what], columns[what][::-1].reindex(rows.index), columns[what].reset_index(drop=True)):
        estimator.fit(rows, **columns | {what: same})
    estimator.fit(rows, **columns | {what: columns[what][::-1].to_numpy()})


def test_record_ids_in_another_order_are_refused():
    ledger = PrivacyLedger(epsilon=1e4, delta=0.5)
    encoder = RandomizedResponseEncoder(
        1.0, categories=ORDERED, memoize=True, secret_key=SecretKey.generate(), ledger=ledger
    ).fit(X)
    ids = pd.Series(range(20), index=X.index)
    with pytest.raises(ValueError, match=r"^`person` must have its row labels in the order of X"):
        encoder.transform(X, person=ids[::-1])
    assert len(ledger.charges()) == 0
    reports = encoder.transform(X, person=ids)
    assert encoder.transform(X, person=ids.to_numpy()).equals(reports)


def test_labels_in_another_order_than_reports_are_refused():
    encoder = RandomizedResponseEncoder(1.0, categories=ORDERED)
    reports, labels = encoder.fit_transform(X), pd.Series([0, 1] * 10, index=X.index)
    with pytest.raises(ValueError, match=r"^`reports` must have its row labels in the order of y_true"):
        joint_distribution(labels[::-1], None, reports, encoder)
