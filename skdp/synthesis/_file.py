"""The parts of a fitted synthesizer in a file: its domain and noisy counts, to which the model is fitted again."""

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
    MAX_TABLE_CELLS,
    Clique,
    Elimination,
    Groups,
    Marginal,
    estimate_total,
    fit_model,
    shape_of,
)
from skdp.synthesis.selection import find_columns, structure_of
from skdp.synthesis.tables import (
    Ranks,
    Shape,
    assemble,
    draw_numbers,
    make_ranks,
    make_template,
    write_rows,
)
from skdp.tables import Table

PARTS = {
    "domain",
    "guarantee",
    "template",
    "features",
    "named",
    "marginals",
    "scores",
    "shapes",
    "correlations",
}


def describe_fit(synthesizer: Any) -> dict[str, Any]:
    """Describe the fitted parts by names of columns."""
    names = synthesizer.domain_.columns
    marginals = []
    for marginal in synthesizer.marginals_:
        groups = None
        if marginal.groups is not None:
            groups = [None if g is None else g.tolist() for g in marginal.groups]
        marginals.append(
            {
                "columns": [names[column] for column in marginal.clique],
                "groups": groups,
                "counts": np.asarray(marginal.counts, np.float64),
                "std_error": marginal.std_error,
            }
        )
    shapes = []
    for column, shape in synthesizer._shapes.items():
        described = {"column": names[column], "shares": shape.shares}
        described |= {"counts": shape.counts, "std_error": shape.std_error}
        described["edges"] = list(shape.cells.edges)
        shapes.append(described)
    scores = []
    for pair, (score, std_error) in synthesizer._scores.items():
        scores.append([names[pair[0]], names[pair[1]], score, std_error])
    ranks = synthesizer._ranks
    return {
        "domain": synthesizer.domain_,
        "guarantee": synthesizer.guarantee_,
        "template": synthesizer._template,
        "features": list(synthesizer._features),
        "named": hasattr(synthesizer, "feature_names_in_"),
        "marginals": marginals,
        "scores": scores,
        "shapes": shapes,
        "correlations": None if ranks is None else ranks.correlations,
    }


def restore_fit(synthesizer: Any, fitted: dict[str, Any]) -> None:
    """Check the parts of a file, and fit the model again."""
    if fitted.keys() != PARTS:
        raise ValueError("the parts of a fitted synthesizer differ")
    domain, template = fitted["domain"], fitted["template"]
    guarantee = fitted["guarantee"]
    expected = (domain, Domain), (guarantee, PrivacyGuarantee), (template, Table)
    for value, kind in expected:
        if not isinstance(value, kind):
            raise ValueError(f"a part must be a {kind.__name__}")
    features = _read_features(fitted["features"], domain)
    if template.names != domain.columns:
        raise ValueError("the template and the domain have different columns")
    if not all(name in [*domain.columns, *features] for name in guarantee.scope):
        raise ValueError("the guarantee and the domain have different columns")
    marginals = [_read_marginal(about, domain) for about in fitted["marginals"]]
    measured = {column for marginal in marginals for column in marginal.clique}
    if not marginals or len(measured) > len(domain.columns):
        raise ValueError("there must be at least one marginal")
    shapes = dict(_read_shape(about, domain) for about in fitted["shapes"])
    structure = structure_of(domain, synthesizer.max_cells)
    cliques = [marginal.clique for marginal in marginals]
    largest, _ = Elimination(domain.sizes, cliques).n_cells
    if largest > MAX_TABLE_CELLS:
        raise ValueError("the model of the marginals is too large")
    model, n_steps = fit_model(structure, marginals)
    ranks = _read_ranks(fitted["correlations"], model, shapes)
    template = make_template(template, domain)
    _check_template(template, domain, shapes)
    scores = _read_scores(fitted["scores"], domain)
    # Nothing is set before all parts are read.
    synthesizer.domain_ = domain
    synthesizer.guarantee_ = guarantee
    synthesizer.marginals_ = marginals
    synthesizer.model_ = model
    synthesizer.n_iter_ = n_steps
    synthesizer.n_rows_, synthesizer.n_rows_std_error_ = estimate_total(marginals)
    synthesizer.n_features_in_ = len(features)
    if fitted["named"] is True:
        synthesizer.feature_names_in_ = np.array(features, object)
    synthesizer._features = features
    synthesizer._scores = scores
    synthesizer._shapes = shapes
    synthesizer._ranks = ranks
    synthesizer._template = template
    synthesizer._calls = CallCounter()


def _read_features(listed: Any, domain: Domain) -> tuple[Any, ...]:
    """Read the columns of X: the domain without a target, and derived ones."""
    features = tuple(listed) if isinstance(listed, list) else ()
    modeled = tuple(name for name in features if name not in domain.derived)
    if not modeled or modeled not in (domain.columns, domain.columns[:-1]):
        raise ValueError("the columns of X differ from the columns of the domain")
    if len(set(features)) < len(features):
        raise ValueError("a column of X is named twice")
    return features


def _read_clique(names: Any, domain: Domain) -> Clique:
    clique = tuple(find_columns(domain, names, "marginals"))
    if list(clique) != sorted(clique):
        raise ValueError("the columns of a marginal must be in the order of the domain")
    return clique


def _read_marginal(about: Mapping[str, Any], domain: Domain) -> Marginal:
    clique = _read_clique(about["columns"], domain)
    shape = list(shape_of(clique, domain.sizes))
    groups = None
    if about["groups"] is not None:
        groups = _read_groups(about["groups"], shape)
        for axis, members in enumerate(groups):
            if members is not None:
                shape[axis] = int(members.max()) + 1
    counts = _read_table(about["counts"], tuple(shape))
    return Marginal(clique, counts, _read_positive(about["std_error"]), groups)


def _read_groups(described: Sequence[Any], sizes: Sequence[int]) -> Groups:
    """Read the group of each value, numbered from 0 without gaps."""
    groups: list[NDArray[np.intp] | None] = []
    for members, size in zip(described, sizes, strict=True):
        if members is None:
            groups.append(None)
            continue
        is_whole = all(type(member) is int for member in members)
        if (
            not is_whole
            or len(members) != size
            or set(members) != set(range(max(members) + 1))
        ):
            raise ValueError("the groups of a column do not fit its values")
        groups.append(np.array(members, np.intp))
    return tuple(groups)


def _read_scores(
    described: Sequence[Any], domain: Domain
) -> dict[Clique, tuple[float, float]]:
    scores = {}
    for first, second, score, std_error in described:
        pair = _read_clique([first, second], domain)
        if type(score) not in (int, float) or not math.isfinite(score):
            raise ValueError("a score must be a finite number")
        scores[pair] = (float(score), _read_positive(std_error))
    return scores


def _read_shape(about: Mapping[str, Any], domain: Domain) -> tuple[int, Shape]:
    (column,) = find_columns(domain, [about["column"]], "shapes")
    interval = domain[about["column"]]
    if not isinstance(interval, Interval):
        raise ValueError("a shape must be of numbers or dates")
    cells = Interval(
        edges=list(about["edges"]),
        missing=interval.missing,
        real=interval.real,
        decimals=interval.decimals,
    )
    edges = np.array(cells.edges, cells.dtype)
    bins = np.array(interval.edges, cells.dtype)
    is_same = (edges[0], edges[-1]) == (bins[0], bins[-1])
    if not is_same or not np.isin(bins, edges).all():
        raise ValueError("a shape and its column have different edges")
    starts = np.searchsorted(edges, bins)
    shares = _read_table(about["shares"], (edges.size - 1,))
    sums = np.add.reduceat(shares, starts[:-1])
    if (shares < 0).any() or np.abs(sums - 1).max() > 1e-6:
        raise ValueError("the shares of a shape must add up to 1 in each bin")
    counts = _read_table(about["counts"], shares.shape)
    std_error = _read_positive(about["std_error"])
    return column, Shape(cells, starts, shares, counts, std_error)


def _read_ranks(
    correlations: Any, model: Any, shapes: Mapping[int, Shape]
) -> Ranks | None:
    if correlations is None:
        return None
    matrix = _read_table(correlations, (len(shapes), len(shapes)))
    is_symmetric = (matrix == matrix.T).all()
    if not is_symmetric or np.linalg.eigvalsh(matrix)[0] <= 0:
        raise ValueError("the correlations must be a positive definite matrix")
    n_bins = [shape.starts.size - 1 for shape in shapes.values()]
    return make_ranks(model, list(shapes), n_bins, matrix)


def _check_template(
    template: Table, domain: Domain, shapes: Mapping[int, Shape]
) -> None:
    """Draw one row in the libraries and dtypes of a template."""
    codes = [np.zeros(1, np.int32)] * len(domain.columns)
    rng = np.random.default_rng(0)
    try:
        columns = write_rows(template, draw_numbers(domain, codes, rng, shapes))
        assemble(template, dict(zip(domain.columns, columns, strict=True)))
    except Exception:
        # Each library of tables has exceptions of its own.
        raise ValueError("the template has a dtype that cannot hold a row") from None


def _read_table(table: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Check a table of finite numbers."""
    if not isinstance(table, np.ndarray) or table.dtype != np.float64:
        raise ValueError("a table must have numbers of 64 bits")
    if table.shape != shape or not np.isfinite(table).all():
        raise ValueError("a table has another shape, or numbers that are not finite")
    return table


def _read_positive(value: Any) -> float:
    if type(value) not in (int, float) or not 0 < value < math.inf:
        raise ValueError("a standard error must be a positive number")
    return float(value)
