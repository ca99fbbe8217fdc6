"""The mechanism of least variance: the program's certificate, and what may be made of its outcomes."""

import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest

from skdp import NumericPerturber
from skdp.exact import exp_bounds
from skdp.oracles import ClampedLaplace, Optimal
from skdp.oracles.numeric._program import best_plan
from skdp.randomness import SeededSource
from tests.conftest import each, often

LARGEST = {0.5: 16.01, 1.0: 3.994, 2.0: 0.869, 4.0: 0.1285, 6.0: 0.0281}
"""The largest variance of a report of a number in -1 ... 1, at most."""

LARGEST_OF_HYBRID = {0.5: 16.7, 1.0: 4.29, 2.0: 1.04, 4.0: 0.219, 6.0: 0.0704}
"""Of the hybrid mechanism, which mixes Duchi's and the piecewise mechanism (N. Wang et al. 2019, section III)."""


@pytest.mark.parametrize("epsilon", often(LARGEST, [1.0]))
def test_the_largest_variance(epsilon):
    variances = Optimal(1024, epsilon).variances(np.linspace(0, 1024, 4097)) / 512**2
    assert variances.max() <= LARGEST[epsilon]
    assert variances.max() < LARGEST_OF_HYBRID[epsilon] * 0.97


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 2.5])
@pytest.mark.parametrize("n_nodes", often([2, 3, 4, 6, 9], [2, 3, 6]))
def test_no_outcome_improves_the_program(n_nodes, epsilon):
    """The dual, by all subsets of the nodes: its value is a bound for every mechanism."""
    nodes = np.linspace(-1, 1, n_nodes)
    plan = best_plan(tuple(nodes.tolist()), epsilon)
    assert plan.lower_bound <= plan.variance <= plan.lower_bound * (1 + 6e-4)
    likely = 1 + (math.exp(epsilon) - 1) * np.array(list(itertools.product([0, 1], repeat=n_nodes)))
    reach = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    # A finite program over values on a grid and all subsets is a mechanism too: it is not better than the bound.
    from scipy.optimize import linprog

    values = np.linspace(-1.7, 1.7, 35 if n_nodes < 9 else 17) * reach
    columns = [(value, row) for value in values for row in likely]
    equal = np.array([[*row, *(value * row)] for value, row in columns]).T
    middles = (nodes[:-1] + nodes[1:]) / 2
    squares = np.array([value**2 * np.append(row, (row[:-1] + row[1:]) / 2) for value, row in columns]).T
    scale = reach**2
    found = linprog(
        np.append(np.zeros(len(columns)), 1.0),
        A_eq=np.hstack([equal, np.zeros((2 * n_nodes, 1))]),
        b_eq=[*np.ones(n_nodes), *nodes],
        A_ub=np.hstack([squares / scale, -np.ones((len(squares), 1))]),
        b_ub=np.append(nodes, middles) ** 2 / scale,
    )
    assert found.status == 0
    assert found.fun * scale >= plan.lower_bound * (1 - 1e-6)


def test_with_two_nodes_it_is_randomised_response_of_the_ends():
    one, other = Optimal(1, 1.0), ClampedLaplace(1, 1.0)
    upper = [[float(share) for share in row] for row in one.channel()]
    assert np.array(upper)[:, [0, 2]] == pytest.approx(np.array(other.channel(), float), abs=1e-8)
    assert one.variances([0, 1]) == pytest.approx(other.variances([0, 1]), rel=1e-6)


@pytest.mark.parametrize("steps", [1, 3, 16, 37, 1000, 1 << 16])
def test_nodes_are_symmetric_and_on_the_grid(steps):
    nodes = Optimal(steps, 1.0).nodes
    assert nodes[0] == 0
    assert nodes[-1] == steps
    assert (np.diff(nodes) > 0).all()
    assert (nodes + nodes[::-1] == steps).all()
    assert len(nodes) <= 33


def test_the_outcomes_make_the_same_mechanism_again():
    one = Optimal(40, 1.5)
    same = Optimal(40, 1.5, outcomes=json.loads(json.dumps(one.outcomes)))
    assert same.channel() == one.channel()
    assert same.estimates == one.estimates
    positions = np.arange(41).repeat(50)
    reports = [mechanism.report(positions, SeededSource("same")) for mechanism in (one, same)]
    np.testing.assert_array_equal(*reports)


TWO = Optimal(2, 1.0).outcomes


@each(
    "outcomes message",
    [
        ([], "triples of whole numbers"),
        ("abc", "triples of whole numbers"),
        ([[1.0, 2, 3]], "triples of whole numbers"),
        ([[1, 2]], "triples of whole numbers"),
        ([[True, 2, 3]], "triples of whole numbers"),
        ([[1, 2, 3]] * 129, "triples of whole numbers"),
        ([[-1, 2, 3]], "weights below 1"),
        ([[1, 2, 8]], "nodes of the grid"),
        ([[0, 2, 1]], "possible at each node"),
        ([[1 << 63, 2, 1]], "possible at each node"),
        ([[(weight * 11) // 10, value, nodes] for weight, value, nodes in TWO], "possible at each node"),
        ([[1 << 61, 1, 0]], "without bias"),
    ],
)
def test_outcomes_that_are_none_are_refused(outcomes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Optimal(2, 1.0, outcomes=outcomes)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_any_outcomes_that_are_accepted_are_private_and_unbiased(place):
    """A file of others decides on the outcomes: not on epsilon."""
    accepted = 0
    for change in (-(1 << 60), -3, 0, 1, 5, 1 << 40, 1 << 58):
        outcomes = [list(outcome) for outcome in TWO]
        outcomes[-1][place] += change
        try:
            mechanism = Optimal(2, 1.0, outcomes=outcomes)
        except ValueError:
            continue
        accepted += 1
        channel = mechanism.channel()
        assert max(max(column) / min(column) for column in zip(*channel, strict=True)) <= exp_bounds(1.0)[0]
        for position, row in enumerate(channel):
            assert sum(row) == 1
            assert sum(share * own for share, own in zip(row, mechanism.estimates, strict=True)) == position
    assert accepted


def people(n=4000):
    return pd.DataFrame({"age": np.random.default_rng(0).normal(40, 12, n).clip(0, 100)})


def test_reports_of_a_solution_are_read_with_another(monkeypatch):
    """Another version of the solver may find other outcomes: the protocol holds those that were drawn."""
    fitted = NumericPerturber(2.0, mechanism="optimal", bounds={"age": (0, 100)}).fit(people())
    reports = fitted.transform(people())
    monkeypatch.setattr("skdp.oracles.numeric._optimal.best_plan", lambda *_: pytest.fail("solved again"))
    reader = NumericPerturber.from_json(fitted.to_json())
    assert reader.guarantee_ == fitted.guarantee_
    pd.testing.assert_frame_equal(reader.estimate_mean(reports), fitted.estimate_mean(reports))
    mean = reader.estimate_mean(reports).loc["age"]
    assert abs(mean["mean"] - people()["age"].mean()) < 6 * mean["std_error"]
    other = json.loads(fitted.to_json())
    packed = json.dumps(other["parameters"]["mechanism"])
    other["parameters"]["mechanism"] = json.loads(packed.replace(str(fitted.mechanism_.outcomes[0][0]), "17"))
    with pytest.raises(ValueError, match=r"cannot be read|another protocol"):
        NumericPerturber.from_json(json.dumps(other))


def test_permanent_reports_need_the_outcomes():
    given = {"bounds": {"age": (0, 100)}, "memoize": True, "secret_key": bytes(range(32))}
    with pytest.raises(ValueError, match=r"mechanism_\.outcomes"):
        NumericPerturber(1.0, mechanism="optimal", **given).fit(people(5))
    outcomes = Optimal(1024, 1.0).outcomes
    fitted = [NumericPerturber(1.0, mechanism=outcomes, **given).fit(people(5)) for _ in range(2)]
    released = [one.transform(people(5), record_id=np.arange(5)) for one in fitted]
    pd.testing.assert_frame_equal(*released)
    other = [[weight, value + (1 << 20), nodes] for weight, value, nodes in outcomes]
    changed = NumericPerturber(1.0, mechanism=other, **given).fit(people(5))
    assert changed.guarantee_.epsilon <= 1


def test_other_outcomes_are_another_draw():
    """Reports of two mechanisms by the same random words would tell more than both epsilons."""
    given = {"bounds": {"age": (0, 100)}, "memoize": True, "secret_key": bytes(range(32))}
    one, table = Optimal(1024, 1.0).outcomes, people(200)
    other = [[weight, value + 1, nodes] for weight, value, nodes in one]
    fitted = [NumericPerturber(1.0, mechanism=outcomes, **given).fit(table) for outcomes in (one, other)]
    released = [each.transform(table, record_id=np.arange(200))["age"] for each in fitted]
    assert np.isclose(*released, atol=1e-3).mean() < 0.5


@pytest.mark.long
def test_a_distribution_is_estimated():
    table = pd.DataFrame({"age": np.repeat([10.0, 80.0], 20_000)})
    fitted = NumericPerturber(2.0, mechanism="optimal", bounds=(0, 100), random_state=0).fit(table)
    found = fitted.estimate_distribution(fitted.transform(table), n_bins=4)["frequency"]
    assert found.iloc[[0, 3]].to_numpy() == pytest.approx([0.5, 0.5], abs=0.06)
