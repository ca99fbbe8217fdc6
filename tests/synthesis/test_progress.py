from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer
from skdp.synthesis.selection import STRATEGIES
from skdp.synthesis.selection._private_table import Progress

LINE = re.compile(r"\[DPMarginalSynthesizer\] +\d+\.\d s  (.*)")


def lines_of(capsys):
    out, err = capsys.readouterr()
    assert out == ""
    return [LINE.fullmatch(line)[1] for line in err.splitlines()]


def table(rows):
    rng = np.random.default_rng(0)
    one = rng.integers(0, 3, rows)
    return pd.DataFrame({"a": one, "b": one, "c": rng.integers(0, 3, rows), "d": 0})


def fit(rows=500, **options):
    options = {"delta": 1e-6, "domain": dict.fromkeys("abcd", range(3)), "random_state": 0, "verbose": True} | options
    return DPMarginalSynthesizer(10.0, **options).fit(table(rows))


@pytest.mark.parametrize("method", STRATEGIES)
def test_every_method_says_what_it_does(method, capsys):
    fitted = fit(marginals=method)
    lines = lines_of(capsys)
    steps = rf"fitted a model: \d+ steps, {fitted.model_.tree.cells:,} cells"
    assert re.fullmatch(steps, lines.pop())
    shares = [float(re.search(r"\(([\d.]+) % of the budget\)", line)[1]) for line in lines]
    assert sum(shares) == pytest.approx(100, abs=1)  # rounded to three digits each
    kinds = [number for line in lines for number in re.findall(r"(\d+) (?:column|pair|triple|table of \d)", line)]
    assert sum(map(int, kinds)) == len(fitted.marginals_)


def test_a_list_of_marginals_is_counted_by_kinds(capsys):
    fit(marginals=[("a",), ("a", "b"), ("b", "c"), ("a", "b", "c"), ("a", "b", "c", "d")])
    assert lines_of(capsys)[0] == "measured 1 column, 2 pairs, 1 triple, 1 table of 4 columns (100 % of the budget)"


def test_nothing_is_said_unless_asked_for(capsys):
    fit(verbose=False)
    assert capsys.readouterr() == ("", "")


def test_what_is_said_is_of_noise_and_of_what_is_public(capsys):
    """With fixed marginals it is the same for every table, but for the steps of the descent."""
    said = set()
    for rows in (0, 3, 777, 1500):
        fit(rows, marginals="independent")
        said.add(re.sub(r"\d+ steps?", "", "".join(lines_of(capsys))))
    assert said == {"measured 4 columns (100 % of the budget)fitted a model: , 12 cells"}


def test_a_choice_is_said_with_its_measurement():
    said = []
    progress = Progress(said.append)
    progress.chose(1234, Fraction(1, 100))
    progress.measured((1, 2), Fraction(3, 100))
    progress.measured((1,), Fraction(1, 10))
    assert len(said) == 1
    progress.scored(1, Fraction(1, 3))
    assert [line.split("s  ")[1] for line in said] == [
        "measured 1 pair, chosen among 1,234 (4 % of the budget)",
        "measured 1 column (10 % of the budget)",
        "scored 1 candidate (33.3 % of the budget)",
    ]
    progress.flush()
    assert len(said) == 3
