import itertools

import numpy as np
import pytest
from hypothesis import strategies as st

from skdp.synthesis.model import GraphicalModel, JunctionTree

CHAIN = ([3, 4, 5, 2, 6], [(0, 1), (1, 2), (2, 3), (1, 4)])
CYCLE = ([2, 3, 2, 3], [(0, 1), (1, 2), (2, 3), (0, 3)])
APART = ([2, 3, 4], [(0, 1)])
SINGLE = ([1, 1, 3], [(0, 1, 2)])
GRAPHS = {"chain": CHAIN, "cycle": CYCLE, "apart": APART, "single values": SINGLE, "no marginal": ([2, 3], [])}


def log_table(tree, potentials):
    """Add up all potentials over all cells."""
    total = np.zeros(tree.sizes)
    for clique, potential in zip(tree.cliques, potentials, strict=True):
        total = total + potential.reshape([size if c in clique else 1 for c, size in enumerate(tree.sizes)])
    return total


def full_table(tree, potentials):
    """Multiply all potentials over all cells, for comparison with the cliques."""
    total = log_table(tree, potentials)
    cells = np.exp(total - total.max())
    return cells / cells.sum()


def project(table, columns):
    """Sum a full table out to some columns, in the given order."""
    kept = sorted(columns)
    summed = table.sum(axis=tuple(axis for axis in range(table.ndim) if axis not in kept))
    return np.transpose(summed, [kept.index(column) for column in columns])


def random_potentials(tree, seed=0, spread=2.0):
    rng = np.random.default_rng(seed)
    return [spread * rng.normal(size=[tree.sizes[column] for column in clique]) for clique in tree.cliques]


def model_of(tree, potentials=None):
    """Make a model of potentials: by default the uniform distribution."""
    if potentials is None:
        shapes = [[tree.sizes[column] for column in clique] for clique in tree.cliques]
        return GraphicalModel(tree, [np.full(shape, 1 / np.prod(shape)) for shape in shapes])
    table = full_table(tree, potentials)
    return GraphicalModel(tree, [project(table, clique) for clique in tree.cliques])


@st.composite
def graphs(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    columns = st.sets(st.integers(0, len(sizes) - 1), min_size=1, max_size=3).map(lambda one: tuple(sorted(one)))
    return sizes, draw(st.lists(columns, max_size=7))


@pytest.fixture(params=list(GRAPHS))
def tree(request):
    return JunctionTree(*GRAPHS[request.param])


@pytest.fixture
def model(tree):
    return model_of(tree, random_potentials(tree))


def all_subsets(d, max_size=3):
    return [subset for size in range(min(d, max_size) + 1) for subset in itertools.permutations(range(d), size)]


@pytest.fixture
def few_rounds(monkeypatch):
    """Give up sooner on rows that no draw makes valid."""
    monkeypatch.setattr("skdp.synthesis.answers._synthetic_rows.MAX_ROUNDS", 20)


@pytest.fixture(autouse=True, scope="module")
def few_model_rows():
    """Sample fewer rows of models, because most tables of the tests have some hundred rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skdp.synthesis.measure._selection.N_SAMPLED", 1 << 13)
        patch.setattr("skdp.synthesis.answers._events.N_SIMULATED", 2_000)
        yield
