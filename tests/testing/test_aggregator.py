"""The checks of chunks find the usual mistakes: each of these functions makes one."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from skdp.central import sample_and_aggregate
from skdp.testing import check_aggregator


def broken(statistic, X, *, labels=False, attrs=False, categories=False, order=False, dtypes=False, errors=False):
    """Call a statistic on chunks without any noise, and show them what is asked for."""
    rng = np.random.default_rng(0)
    found = rng.integers(20, size=len(X))
    failed, caught = 0, Exception if errors == "escape" else BaseException
    for number in range(20):
        members = np.flatnonzero(found == number)
        chunk = X.iloc[members if order else rng.permutation(members)]
        plain = pd.DataFrame({name: chunk[name].tolist() for name in chunk}, index=chunk.index)
        plain["place"] = plain["place"].astype(X["place"].dtype if dtypes else float)
        if categories:
            plain["word"] = pd.Categorical(plain["word"], X["word"].dropna().unique())
        if not labels:
            plain = plain.reset_index(drop=True)
        if attrs:
            plain.attrs = X.attrs
        try:
            (statistic if errors == "state" else copy.deepcopy(statistic))(plain)
        except caught:
            failed += 1
    return SimpleNamespace(released=errors == "answer" or failed < 10)


def test_a_function_without_mistakes_passes():
    check_aggregator(broken)
    check_aggregator(lambda one, X: sample_and_aggregate(one, X, bounds=(0, 400), n_chunks=20, epsilon=100.0))


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ({"labels": True}, "row labels"),
        ({"attrs": True}, "attributes"),
        ({"categories": True}, "categories"),
        ({"order": True}, "in the order of the table"),
        ({"dtypes": True}, "a missing value changes the dtypes"),
        ({"errors": "escape"}, "a SystemExit of the statistic gets out"),
        ({"errors": "answer"}, "although the statistic always fails"),
        ({"errors": "state"}, "remembers earlier chunks"),
    ],
)
def test_each_mistake_is_found(mistake, message):
    with pytest.raises(AssertionError, match=message):
        check_aggregator(lambda statistic, X: broken(statistic, X, **mistake))
