"""Protected columns that declared zeros determine are an error, and only these."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from skdp.domain import Domain
from skdp.synthesis.selection import check_undetermined, read_zeros
from tests.conftest import each

DOMAIN = Domain({"sex": ["f", "m"], "role": ["wife", "husband", "child"], "job": ["a", "b"]})
SPOUSES = [{"sex": "m", "role": "wife"}, {"sex": "f", "role": "husband"}]
NO_BOYS = {"sex": "m", "role": "child"}


@each(
    "zeros protected",
    [
        ([], ["sex"]),
        (SPOUSES, ["sex"]),  # children are of both
        (SPOUSES, ["sex", "role"]),
        ([*SPOUSES, NO_BOYS], ["sex", "role"]),
        ([*SPOUSES, NO_BOYS], ["role"]),  # a woman may be a wife or a child
        ([*SPOUSES, NO_BOYS], ["job"]),
    ],
)
def test_what_leaves_two_values_is_protected(zeros, protected):
    check_undetermined(read_zeros(zeros, DOMAIN), DOMAIN, protected)


@each(
    "zeros protected names",
    [
        ([*SPOUSES, NO_BOYS], ["sex"], ("sex", "role")),
        ([*SPOUSES, NO_BOYS], ["sex", "job"], ("sex", "role")),
    ],
)
def test_what_follows_is_refused_by_name(zeros, protected, names):
    column, public = names
    with pytest.raises(ValueError, match=f"column '{column}' cannot be protected while '{public}' is public"):
        check_undetermined(read_zeros(zeros, DOMAIN), DOMAIN, protected)


def test_all_tables_of_two_columns():
    domain = Domain({"a": ["0", "1"], "b": ["0", "1"]})
    for cells in product((False, True), repeat=4):
        impossible = np.reshape(cells, (2, 2))
        if impossible.all():
            continue
        zeros = (((0, 1), impossible),)
        # Some value of b is with both values of a.
        is_open = (~impossible).all(axis=0).any()
        if is_open:
            check_undetermined(zeros, domain, ["a"])
            continue
        with pytest.raises(ValueError, match="'a' cannot be protected while 'b' is public"):
            check_undetermined(zeros, domain, ["a"])
