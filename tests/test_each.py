from __future__ import annotations

import re

import pytest

from tests.conftest import each


def test_a_loop_of_cases_names_the_one_that_fails_and_skips_none():
    seen = []

    @each("value", iter([1, 2, 3]))
    @each("name, size", [("a", 0), ("b", 5)])
    def case(value, name, size):
        seen.append((value, name))
        assert size / (value - 3)

    with pytest.raises(AssertionError) as caught:
        case()
    assert caught.value.__notes__ == ["in the case {'name': 'a', 'size': 0}", "in the case {'value': 1}"]
    assert seen == [(1, "a")]

    @each("value", [1, 2])
    def left_out(value):
        pytest.skip("not here")

    with pytest.raises(AssertionError, match=re.escape("the case {'value': 1} would leave out those after it")):
        left_out()
    with pytest.raises(AssertionError, match="no cases"):
        each("value", [])
