"""A fitted synthesizer as a file: what was released, and its checks when it is read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.base import CallCounter
from skdp.domain import Domain, Interval
from skdp.privacy import PrivacyGuarantee
from skdp.synthesis.model import (
    MAX_CELLS,
    Clique,
    GraphicalModel,
    Groups,
    JunctionTree,
    Marginal,
    project,
    shape_of,
)
from skdp.synthesis.tables import (
    Shape,
    Shapes,
    assemble,
    decode,
    public_template,
)
from skdp.tables import Table

_TOLERANCE = 1e-6
"""Of sums of probabilities in a file, which are rounded."""

_MAX_ROWS = 1 << 63
"""Those of a table are counted in 64 bits."""

_PARTS = {
    "domain",
    "guarantee",
    "template",
    "features",
    "named",
    "n_rows",
    "n_rows_std_error",
    "n_iter",
    "cliques",
    "marginals",
    "scores",
    "shapes",
}

Scores = Mapping[Clique, tuple[float, float]]
"""Of each pair of columns, its score and the standard error of that."""


def describe_fit(synthesizer: Any) -> dict[str, Any]:
    """Describe what was fitted, by names of columns."""
    domain = synthesizer.domain_
    return {
        "domain": domain,
        "guarantee": synthesizer.guarantee_,
        "template": synthesizer._template,
        "features": list(synthesizer._features),
        "named": hasattr(synthesizer, "feature_names_in_"),
        "n_rows": synthesizer.n_rows_,
        "n_rows_std_error": synthesizer.n_rows_std_error_,
        "n_iter": synthesizer.n_iter_,
        "cliques": _describe_model(synthesizer.model_, domain),
        "marginals": _describe_marginals(synthesizer.marginals_, domain),
        "scores": _describe_scores(synthesizer._scores, domain),
        "shapes": _describe_shapes(synthesizer._shapes),
    }


def _names(clique: Clique, domain: Domain) -> list[Any]:
    return [domain.columns[column] for column in clique]


def _describe_model(model: GraphicalModel, domain: Domain) -> list[dict[str, Any]]:
    """Describe the cliques of a junction tree, each after its parent."""
    parents = [None, *(link.parent for link in model.tree.links)]
    cliques = []
    for clique, parent, belief in zip(
        model.tree.cliques, parents, model.beliefs, strict=True
    ):
        described = {"columns": _names(clique, domain), "parent": parent}
        cliques.append(described | {"probabilities": np.asarray(belief, np.float64)})
    return cliques


def _describe_marginals(
    marginals: Sequence[Marginal], domain: Domain
) -> list[dict[str, Any]]:
    described = []
    for marginal in marginals:
        groups = None
        if marginal.groups is not None:
            groups = []
            for members in marginal.groups:
                groups.append(None if members is None else members.tolist())
        described.append(
            {
                "columns": _names(marginal.clique, domain),
                "groups": groups,
                "counts": np.asarray(marginal.counts, np.float64),
                "std_error": marginal.std_error,
            }
        )
    return described


def _describe_scores(scores: Scores, domain: Domain) -> list[dict[str, Any]]:
    described = []
    for pair, (score, std_error) in scores.items():
        names = _names(pair, domain)
        described.append({"columns": names, "score": score, "std_error": std_error})
    return described


def _describe_shapes(shapes: Shapes | None) -> dict[str, Any] | None:
    if shapes is None:
        return None
    columns = []
    for name, shape in shapes.columns.items():
        described = {"column": name, "grid": shape.grid, "below": shape.below}
        described |= {"counts": shape.counts, "std_error": shape.std_error}
        columns.append(described)
    return {"columns": columns, "correlations": shapes.correlations}


def restore_fit(synthesizer: Any, fitted: dict[str, Any]) -> None:
    """Make a synthesizer fitted again, as `describe_fit` describes; check every part."""
    if fitted.keys() != _PARTS:
        raise ValueError("a synthesizer is fitted to other parts")
    domain = fitted["domain"]
    guarantee = fitted["guarantee"]
    template = fitted["template"]
    expected = (domain, Domain), (guarantee, PrivacyGuarantee), (template, Table)
    for value, kind in expected:
        if not isinstance(value, kind):
            raise ValueError(f"a part is no {kind.__name__}")
    names = domain.columns
    features = _read_features(fitted["features"], domain)
    if template.names != names:
        raise ValueError("the template has other columns than the domain")
    if not all(name in [*names, *features] for name in guarantee.scope):
        raise ValueError("the guarantee is of other columns than the domain")
    model = _read_model(fitted["cliques"], domain)
    marginals = _read_marginals(fitted["marginals"], domain)
    scores = _read_scores(fitted["scores"], domain)
    shapes = _read_shapes(fitted["shapes"], domain)
    template = public_template(template, domain)
    _check_template(template, domain, shapes)
    n_rows = _at_least_0(fitted["n_rows"])
    if n_rows > _MAX_ROWS:
        raise ValueError("n_rows is larger than any table")
    n_rows_std_error = _at_least_0(fitted["n_rows_std_error"])
    n_iter = _whole(fitted["n_iter"], 1, 1 << 32)
    # Nothing is set before all parts are read.
    synthesizer.domain_ = domain
    synthesizer.guarantee_ = guarantee
    synthesizer.model_ = model
    synthesizer.n_rows_ = n_rows
    synthesizer.n_rows_std_error_ = n_rows_std_error
    synthesizer.n_iter_ = n_iter
    synthesizer.marginals_ = marginals
    synthesizer.n_features_in_ = len(features)
    synthesizer._features = features
    if fitted["named"] is True:
        synthesizer.feature_names_in_ = np.array(features, object)
    synthesizer._scores = scores
    synthesizer._shapes = shapes
    synthesizer._template = template
    synthesizer._calls = CallCounter()


def _read_features(listed: Any, domain: Domain) -> tuple[Any, ...]:
    """Read the columns of X: all of the domain but a target, the last one, and derived ones."""
    features = tuple(listed) if isinstance(listed, list) else ()
    modelled = tuple(name for name in features if name not in domain.derived)
    columns = domain.columns
    if not modelled or modelled not in (columns, columns[:-1]):
        raise ValueError("the columns of X differ from the columns of the domain")
    if len(set(features)) < len(features):
        raise ValueError("a column of X is named twice")
    return features


def _check_template(template: Table, domain: Domain, shapes: Shapes | None) -> None:
    """Check that a row can be drawn in the libraries and dtypes of a template."""
    codes = [np.zeros(1, np.int32)] * len(domain.columns)
    try:
        rng = np.random.default_rng(0)
        columns = decode(template, domain, codes, rng, shapes=shapes)
        assemble(template, columns, domain.columns)
    except Exception:
        # Of any kind, as each library of tables has its own.
        raise ValueError("the template has a dtype that holds no drawn row") from None


def _read_model(described: Sequence[Mapping[str, Any]], domain: Domain) -> Any:
    cliques = []
    for about in described:
        cliques.append(_read_clique(about["columns"], domain))
    parents = []
    for n_before, clique in enumerate(described[1:]):
        parents.append(_whole(clique["parent"], 0, n_before))
    if not cliques or described[0]["parent"] is not None:
        raise ValueError("the first clique must be there, and have no parent")
    tree = JunctionTree(domain.sizes, cliques, parents)
    # A junction tree has the running intersection property: in a tree, the cliques of a
    # column are connected if it is in one separator less than it has cliques.
    n_columns = len(domain.columns)
    n_cliques = np.bincount(np.concatenate(cliques), minlength=n_columns)
    n_separators = np.zeros(n_columns, np.intp)
    for link in tree.links:
        n_separators[list(link.separator)] += 1
    if (n_cliques - n_separators != 1).any():
        raise ValueError("the cliques are no junction tree of the columns")
    beliefs = []
    for index, clique in enumerate(described):
        belief = _table(clique["probabilities"], tree.shape(index))
        if belief.min() < 0 or abs(belief.sum() - 1) > _TOLERANCE:
            raise ValueError("a clique has no probabilities")
        beliefs.append(belief)
    for link in tree.links:
        child = project(beliefs[link.child], cliques[link.child], link.separator)
        parent = project(beliefs[link.parent], cliques[link.parent], link.separator)
        if np.abs(child - parent).max() > _TOLERANCE:
            raise ValueError("two cliques disagree about the columns that they share")
    return GraphicalModel(tree, beliefs)


def _read_marginals(
    described: Sequence[Mapping[str, Any]], domain: Domain
) -> list[Marginal]:
    if not described:
        raise ValueError("there is no marginal, and every fit has one")
    marginals = []
    for about in described:
        clique = _read_clique(about["columns"], domain)
        sizes = list(shape_of(clique, domain.sizes))
        groups = _read_groups(about["groups"], sizes)
        for axis, members in enumerate(groups or ()):
            if members is not None:
                sizes[axis] = int(members.max()) + 1
        counts = _table(about["counts"], tuple(sizes))
        std_error = _positive(about["std_error"])
        marginals.append(Marginal(clique, counts, std_error, groups))
    return marginals


def _read_groups(described: Any, sizes: Sequence[int]) -> Groups | None:
    """Read which values of each column were counted together; None for none."""
    if described is None:
        return None
    groups: list[NDArray[np.intp] | None] = []
    for members, size in zip(described, sizes, strict=True):
        if members is None:
            groups.append(None)
            continue
        # Groups are numbered from 0 without gaps.
        numbers = np.array([_whole(member, 0, size - 1) for member in members])
        n_groups = np.unique(numbers).size
        if numbers.size != size or numbers.max() + 1 != n_groups:
            raise ValueError("the groups of a column do not fit its values")
        groups.append(numbers.astype(np.intp))
    return tuple(groups)


def _read_scores(described: Sequence[Mapping[str, Any]], domain: Domain) -> Scores:
    scores: dict[Clique, tuple[float, float]] = {}
    for about in described:
        pair = _read_clique(about["columns"], domain)
        if len(pair) != 2:
            raise ValueError("a score must be of two columns")
        score = about["score"]
        if type(score) not in (int, float) or not math.isfinite(score):
            raise ValueError("a score must be a finite number")
        scores[pair] = float(score), _positive(about["std_error"])
    return scores


def _read_shapes(described: Any, domain: Domain) -> Shapes | None:
    if described is None:
        return None
    columns = {}
    for about in described["columns"]:
        columns[about["column"]] = _read_shape(about, domain)
    correlations = _table(described["correlations"], (len(columns), len(columns)))
    is_symmetric = (correlations == correlations.T).all()
    if not is_symmetric or np.linalg.eigvalsh(correlations)[0] <= 0:
        raise ValueError("there are no correlations of shapes")
    return Shapes(columns, correlations)


def _read_shape(about: Mapping[str, Any], domain: Domain) -> Shape:
    name = about["column"]
    grid = about["grid"]
    interval = domain[name]
    if not isinstance(grid, Interval) or not isinstance(interval, Interval):
        raise ValueError("a shape is not of numbers or dates")
    if grid.missing != interval.missing:
        raise ValueError("a shape has another declaration of missing")
    ends = (grid.edges[0], grid.edges[-1])
    has_ends = ends == (interval.edges[0], interval.edges[-1])
    if not has_ends or not set(interval.edges) <= set(grid.edges):
        raise ValueError("a shape has other edges than its column")
    below = _table(about["below"], (len(grid.edges),))
    has_range = below[0] == 0 and abs(below[-1] - 1) <= _TOLERANCE
    if not has_range or (np.diff(below) < 0).any():
        raise ValueError("the shares of a shape do not rise from 0 to 1")
    if about.get("counts") is None:
        raise ValueError(
            f"it has no noisy counts of the numbers in bins of {name!r}, as it was "
            "written by an earlier version of skdp: read it with that version"
        )
    counts = _table(about["counts"], (len(grid.edges) - 1,))
    std_error = _positive(about["std_error"])
    return Shape(grid, below, counts, std_error)


def _read_clique(names: Sequence[Any], domain: Domain) -> Clique:
    """Return the numbers of columns, which are in the order of the domain."""
    numbers = {name: number for number, name in enumerate(domain.columns)}
    clique = tuple(numbers[name] for name in names)
    if not clique or list(clique) != sorted(set(clique)):
        raise ValueError("a clique must be columns in the order of the domain")
    return clique


def _table(table: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Check a table of finite numbers."""
    if not isinstance(table, np.ndarray) or table.dtype != np.float64:
        raise ValueError("a table holds no numbers of 64 bits")
    if table.shape != shape or table.size > MAX_CELLS:
        raise ValueError("a table has another shape")
    if not np.isfinite(table).all():
        raise ValueError("a table holds numbers that are not finite")
    return table


def _whole(value: Any, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"expected whole numbers from {least} to {most}")
    return value


def _positive(value: Any) -> float:
    if not _at_least_0(value):
        raise ValueError("expected a positive number")
    return float(value)


def _at_least_0(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        raise ValueError("expected a positive number, or 0")
    return float(value)
