"""A triangulation that grows is the one that is made of all marginals at once."""

from __future__ import annotations

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from skdp.synthesis.model import Elimination, eliminate
from tests.synthesis.conftest import graphs


def eliminate_plainly(sizes, marginals):
    """Eliminate the column with the fewest cells, again and again, by sets."""
    neighbours = {column: {column} for column in range(len(sizes))}
    for marginal in marginals:
        for column in marginal:
            neighbours[column] |= set(marginal)
    cliques = []
    while neighbours:
        column = min(neighbours, key=lambda one: (math.prod(sizes[other] for other in neighbours[one]), one))
        clique = neighbours.pop(column)
        for other in clique - {column}:
            neighbours[other] = (neighbours[other] | clique) - {column}
        if not any(clique <= set(larger) for larger in cliques):
            cliques.append(tuple(sorted(clique)))
    return cliques


@given(graphs())
def test_the_cliques_are_those_of_the_plain_elimination(graph):
    assert eliminate(*graph) == eliminate_plainly(*graph)


@given(graphs().filter(lambda graph: graph[1]), st.integers(0, 300), st.integers(0, 600))
def test_a_further_marginal_is_tried_as_if_it_had_been_there(graph, most, together):
    sizes, marginals = graph
    grown = Elimination(sizes)
    for place, marginal in enumerate(marginals):
        cells = [math.prod(sizes[column] for column in clique) for clique in eliminate(sizes, marginals[: place + 1])]
        assert grown.fits(marginal, most, together) == (max(cells) <= most and sum(cells) <= together)
        grown.add(marginal)
        assert grown.cliques == eliminate(sizes, marginals[: place + 1])


def test_trying_changes_nothing():
    grown = Elimination([2, 3, 4, 5], [(0, 1), (1, 2)])
    before = grown.cliques
    assert grown.fits((0, 3), 15, 100)
    assert not grown.fits((2, 3), 19, 100)
    assert grown.cliques == before


def test_trials_in_larger_graphs_are_those_of_the_plain_elimination():
    """Marginals far from the trial, columns that go in another order, cliques that are within others only in one."""
    rng = random.Random(0)
    for _ in range(12):
        sizes = [rng.randint(1, 5) for _ in range(14)]
        marginals = [tuple(sorted(rng.sample(range(14), rng.choice([2, 2, 2, 3])))) for _ in range(18)]
        grown = Elimination(sizes)
        for place, marginal in enumerate(marginals):
            plain = eliminate_plainly(sizes, marginals[: place + 1])
            cells = [math.prod(sizes[column] for column in clique) for clique in plain]
            largest, together = max(cells), sum(cells)
            assert grown.fits(marginal, largest, together)
            assert not grown.fits(marginal, largest - 1, together)
            assert not grown.fits(marginal, largest, together - 1)
            grown.add(marginal)
            assert grown.cliques == plain
            assert grown.n_cells == (largest, together)
