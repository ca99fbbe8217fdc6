from __future__ import annotations

from hypothesis import given

from skdp.synthesis.model import JunctionTree
from tests.synthesis.conftest import graphs


@given(graphs())
def test_every_marginal_is_held_and_every_column_is_connected(graph):
    sizes, marginals = graph
    tree = JunctionTree(sizes, marginals)
    assert {column for clique in tree.cliques for column in clique} == set(range(len(sizes)))
    for marginal in marginals:
        assert tree.holder(marginal) is not None
        assert set(marginal) <= set(tree.cliques[tree.holder(marginal)])
    assert len(tree.links) == len(tree.cliques) - 1
    for place, link in enumerate(tree.links, start=1):
        assert link.child == place  # parents come first
        assert link.parent < link.child
        child, parent = (set(tree.cliques[one]) for one in (link.child, link.parent))
        assert set(link.separator) == child & parent
        # Running intersection: what a clique shares with any earlier one, it shares with its parent.
        earlier = set().union(*(tree.cliques[one] for one in range(link.child)))
        assert child & earlier == set(link.separator)
    for clique in tree.cliques:
        assert not any(set(clique) < set(other) for other in tree.cliques)


def test_a_tree_needs_no_more_cells_than_its_marginals():
    sizes = [32, 9, 16, 16, 7]
    marginals = [(0, 1), (1, 2), (2, 3), (3, 4)]
    tree = JunctionTree(sizes, marginals)
    assert sorted(tree.cliques) == marginals
    assert tree.cells == 32 * 9 + 9 * 16 + 16 * 16 + 16 * 7


def test_a_cycle_is_triangulated_with_few_cells():
    tree = JunctionTree([100, 2, 100, 2], [(0, 1), (1, 2), (2, 3), (0, 3)])
    assert sorted(tree.cliques) == [(0, 1, 3), (1, 2, 3)]
