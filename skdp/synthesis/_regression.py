"""Regressions near a table: coefficients, and what a share of a cell adds to them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression

from skdp.oracles import project_to_simplex
from skdp.synthesis._bin_points import BinPoints, divide_by_points
from skdp.synthesis._measured_means import (
    LEAST_DIVISOR,
    NEGLIGIBLE,
    ComponentSums,
    MeasuredMean,
    rake,
)
from skdp.synthesis.model import (
    GraphicalModel,
    Marginal,
    arrange,
    count_cells,
    sample,
    sum_others,
)

Table = NDArray[np.float64]

_MOST_STEPS = 100
"""Of Newton's method, which mostly takes fewer than ten."""


@dataclass(frozen=True, eq=False)
class Linear:
    """Statistics near a table: their values there, and what a share of a cell adds."""

    terms: list[str]
    values: Table
    influence: Table
    """(n_terms, n_cells); the mean at the table is 0."""

    is_determined: NDArray[np.bool_]
    """Which statistics the table determines."""

    slope: Table
    """By how much the influence of each cell falls where a statistic is 1 larger.

    The mean at the table is 1."""


def logistic_model(
    estimator: Any, cells: pd.DataFrame, target: Any, shares: Table, n_rows: float
) -> Linear:
    """Fit a logistic regression to shares of cells; return what a share of each adds to its coefficients."""
    # A regression is the solution b of sum(shares * x * (y - mean(x @ b))) = penalty * b.
    # What a share of a cell adds to it follows from the implicit function theorem: the
    # inverse of the curvature times the cell's own score.
    terms, design = _design(cells.drop(columns=target))
    targets = _read_labels(cells[target])
    penalty = np.full(len(terms), _penalty(estimator) / n_rows)
    if estimator.fit_intercept:
        terms = ["intercept", *terms]
        design = np.column_stack([np.ones(len(cells)), design])
        penalty = np.append(0.0, penalty)

    def curvature_at(slopes: Table) -> Table:
        return (design.T * (shares * slopes)) @ design + np.diag(penalty)

    # Newton's method, in steps of at most 5, since it overshoots from afar.
    coefficients = np.zeros(len(terms))
    for _ in range(_MOST_STEPS):
        means, slopes = _logistic(design @ coefficients)
        gradient = design.T @ (shares * (targets - means)) - penalty * coefficients
        step = np.linalg.pinv(curvature_at(slopes), hermitian=True) @ gradient
        length = float(np.abs(step).max())
        step *= min(1.0, 5 / max(LEAST_DIVISOR, length))
        coefficients = coefficients + step
        if length < 1e-10 * (1 + np.abs(coefficients).max()):
            break
    means, slopes = _logistic(design @ coefficients)
    curvature = curvature_at(slopes)
    inverse = np.linalg.pinv(curvature, hermitian=True)
    scores = design * (targets - means)[:, np.newaxis] - penalty * coefficients
    is_determined = np.isclose(np.diag(inverse @ curvature), 1, atol=1e-4)
    # Where one coefficient is moved, the others follow: the slope of what a cell adds is
    # the square of its score's row of the inverse, times the slope of its own mean.
    slope = (inverse @ design.T) ** 2 * slopes + (inverse**2 @ penalty)[:, np.newaxis]
    scale = np.maximum(np.diag(inverse), LEAST_DIVISOR)[:, np.newaxis]
    influence = inverse @ scores.T
    return Linear(terms, coefficients, influence, is_determined, slope / scale)


def _logistic(scores: Table) -> tuple[Table, Table]:
    """Return the expected target of a logistic model, and its derivative."""
    means = 1 / (1 + np.exp(-np.clip(scores, -500, 500)))
    return means, means * (1 - means)


def _penalty(estimator: Any) -> float:
    parameters = estimator.get_params()
    penalty = parameters.get("penalty", "deprecated")
    has_l1 = parameters.get("l1_ratio") not in (None, 0, 0.0)
    if has_l1 or penalty not in ("l2", None, "deprecated"):
        raise ValueError(
            "estimator must be a LogisticRegression with an l2 penalty or none"
        )
    if estimator.class_weight is not None:
        raise ValueError("estimator must have class_weight=None")
    is_free = penalty is None or np.isinf(estimator.C)
    return 0.0 if is_free else 1 / float(estimator.C)


def _read_numbers(column: pd.Series) -> Table:
    """Return a target of numbers."""
    name = f"target {column.name!r}"
    if column.isna().any():
        raise ValueError(f"{name} may be missing: such rows have no target")
    if not pd.api.types.is_numeric_dtype(column):
        raise ValueError(f"{name} must be a column of numbers for a linear regression")
    return column.to_numpy(float)


def _read_labels(column: pd.Series) -> Table:
    """Return 1 where a target has the second of its two values, else 0."""
    name = f"target {column.name!r}"
    if column.isna().any():
        raise ValueError(f"{name} may be missing: such rows have no target")
    values = np.unique(column.to_numpy())
    if len(values) != 2:
        raise ValueError(
            f"{name} must have two values for a logistic regression, it has "
            f"{len(values)}"
        )
    return (column.to_numpy() == values[1]).astype(float)


def _design(features: pd.DataFrame) -> tuple[list[str], Table]:
    """Return numbers, and an indicator of each value of other columns but the first."""
    terms: list[str] = []
    # The first value of a column is what others are compared with.
    columns: list[Table] = []
    for name in features:
        column = features[name]
        is_boolean = pd.api.types.is_bool_dtype(column)
        if pd.api.types.is_numeric_dtype(column) and not is_boolean:
            if column.isna().any():
                raise ValueError(
                    f"column {name!r} has numbers that may be missing: such rows cannot "
                    "be regressed on"
                )
            terms.append(str(name))
            columns.append(column.to_numpy(float))
            continue
        codes, values = pd.factorize(column, use_na_sentinel=False)
        for code, value in list(enumerate(values))[1:]:
            label = "missing" if pd.isna(value) else value
            terms.append(f"{name}={label}")
            columns.append((codes == code).astype(float))
    if not columns:
        return terms, np.empty((len(features), 0))
    return terms, np.column_stack(columns)


_N_ROWS = 1 << 16
"""Rows of the model for the variance of a linear regression: .6 % of it, mostly."""

_SINGULAR = 1e-8
"""The least eigenvalue of correlations: what is smaller is rounding, or noise."""

_MOST_OF_NOISE = 0.01
"""Of the square of a term, in directions of which noise is all that counts tell.

What a smaller part may change is compared with the interval of the term. A tenth or ten
times of it changes one of 320 terms of planned analyses."""


@dataclass(frozen=True)
class _Sum:
    """A sum of a number and of a function of each column."""

    constant: float
    of_columns: tuple[Table, ...]

    def centred(self) -> _Sum:
        """Move the mean of each function over its values to the number."""
        constant = self.constant
        functions = []
        for function in self.of_columns:
            constant += float(function.mean())
            functions.append(function - function.mean())
        return _Sum(constant, tuple(functions))

    def at(self, rows: NDArray[np.integer]) -> Table:
        """Evaluate the sum for rows of codes: (n_columns, n_rows)."""
        total = np.full(rows.shape[1], self.constant)
        for function, codes in zip(self.of_columns, rows, strict=True):
            total += function[codes]
        return total


class PairRegression:
    """A linear regression near a table, by pairs of its columns."""

    # With the design x, the inverse A of the mean of x @ x.T and the residuals e, what a
    # row adds to coefficient j is (A[j] @ x) * e, and what it adds to the slope of that,
    # (A[j] @ x)**2 / A[j, j]. Both are products of two sums of functions of one column
    # each: sums of functions of one or two columns. So pairs are enough, and no table of
    # all columns is needed, nor a model that holds all pairs.

    def __init__(
        self,
        estimator: LinearRegression,
        places: Sequence[int],
        columns: Sequence[pd.Series],
        model: GraphicalModel,
        marginals: Sequence[Marginal],
        n_rows: float,
        points: Mapping[int, BinPoints],
    ) -> None:
        """Regress the last column on the others, each given by all its values."""
        if estimator.positive:
            raise ValueError(
                "estimator with positive=True has coefficients at a bound, of which no "
                "error is known"
            )
        *features, target = columns
        self._targets = _read_numbers(target)
        self._places = tuple(places)
        self._model = model
        self._marginals = marginals
        self._n_rows = n_rows
        self._points = points
        generator = np.random.default_rng(0)
        self._codes = sample(model, _N_ROWS, generator, places)[list(places)]
        rows = []
        for place, codes in zip(places, self._codes, strict=True):
            if place in points:
                codes = points[place].draw(codes, generator)
            rows.append(codes)
        self._rows = np.array(rows)
        self._shares = self._shares_of_pairs()

        self.terms = ["intercept"] if estimator.fit_intercept else []
        blocks = []
        for feature in features:
            terms, block = _design(feature.to_frame())
            blocks.append((len(self.terms), block))
            self.terms += terms
        # The design of a row is a constant, and what each of its features adds.
        self._constant = np.zeros(len(self.terms))
        self._constant[: int(estimator.fit_intercept)] = 1.0
        self._blocks = []
        for start, block in blocks:
            padded = np.zeros((len(block), len(self.terms)))
            padded[:, start : start + block.shape[1]] = block
            self._blocks.append(padded)

        moments, products, square = self._moments()
        self._inverse, of_noise = _invert(moments)
        self.values = self._inverse @ products
        self._variance = float(square - products @ self.values)
        of_terms = np.diag(self._inverse @ moments) + of_noise
        self.is_determined = np.isclose(of_terms, 1, atol=1e-4)
        self.is_hidden = of_noise > _MOST_OF_NOISE
        # What noise hides may be anything that explains all that the fit leaves.
        hidden_variance = of_noise * max(0.0, self._variance)
        self._hidden = np.sqrt(hidden_variance) / _scale_of(moments)

    def means(self, term: int) -> tuple[MeasuredMean, MeasuredMean]:
        """Estimate the means of what rows add to a coefficient, and to its slope."""
        step = self._step(term)
        scale = 1 / max(LEAST_DIVISOR, float(self._inverse[term, term]))
        small = NEGLIGIBLE * math.sqrt(self.sampling(term)[0, 0])
        change = self._mean_of_product(step, self._residual(), 1.0, 0.0, small)
        return change, self._mean_of_product(step, step, scale, -1.0, small)

    def second_order(self, term: int, other: int) -> float:
        """Return how far the noise of another coefficient may move one beyond first order."""
        # Newton's method takes the moments of the table for exact beside other terms. It
        # leaves out the noise of that of a step and another term's column, times the noise
        # of the other coefficient.
        functions = [block[:, other] for block in self._blocks]
        functions.append(np.zeros_like(self._targets))
        column = _Sum(float(self._constant[other]), tuple(functions))
        moment = self._mean_of_product(self._step(term), column, 1.0, 0.0, 0.0)
        size = max(self.means(other)[0].size, float(self._hidden[other]))
        return moment.size * size

    def sampling(self, term: int) -> Table:
        """Return the mean squares and products of both, over rows."""
        # By rows of the model. Where it does not know all pairs, they have another scale
        # than the moments say: that is corrected.
        steps = self._step(term).at(self._rows)
        residuals = self._residual().at(self._rows)
        square_of_steps = max(LEAST_DIVISOR, float(self._inverse[term, term]))
        steps *= math.sqrt(
            square_of_steps / max(LEAST_DIVISOR, float((steps**2).mean()))
        )
        square = float((residuals**2).mean())
        if min(self._variance, square) > 0:
            residuals *= math.sqrt(self._variance / square)
        both = np.stack([steps * residuals, steps**2 / square_of_steps - 1])
        return both @ both.T / both.shape[1]

    def _step(self, term: int) -> _Sum:
        row = self._inverse[term]
        functions = [block @ row for block in self._blocks]
        functions.append(np.zeros_like(self._targets))
        return _Sum(float(self._constant @ row), tuple(functions))

    def _residual(self) -> _Sum:
        functions = [-(block @ self.values) for block in self._blocks]
        functions.append(self._targets)
        return _Sum(-float(self._constant @ self.values), tuple(functions))

    def _mean_of_product(
        self, first: _Sum, second: _Sum, scale: float, offset: float, small: float
    ) -> MeasuredMean:
        """Estimate the mean of a scaled product of two sums, and an offset."""
        # Products of centred functions of two columns are their component, as in the
        # analysis of variance; those of one column have a mean, which is constant.
        u = first.centred()
        v = second.centred()
        sums = ComponentSums(self._marginals, self._n_rows, self._points)
        constant = scale * u.constant * v.constant + offset
        for axis, shares in enumerate(self._shares_of_columns()):
            u_of_column = u.of_columns[axis]
            v_of_column = v.of_columns[axis]
            weights = u_of_column * v_of_column
            weights += u.constant * v_of_column + v.constant * u_of_column
            weights *= scale
            columns = (self._places[axis],)
            weights, shares = sums.take_slopes(columns, weights, shares)
            constant += float(weights.mean())
            sums.add(columns, weights - weights.mean(), shares)
        for (a, b), shares in self._shares.items():
            weights = np.multiply.outer(u.of_columns[a], v.of_columns[b])
            weights += np.multiply.outer(v.of_columns[a], u.of_columns[b])
            weights *= scale
            pair = (self._places[a], self._places[b])
            weights, shares = sums.take_slopes(pair, weights, shares)
            if not sums.add(pair, weights, shares):
                sums.add_unmeasured(weights, shares, small / len(self._shares))
        sums.add((), np.array(constant), np.array(1.0))
        return sums.mean()

    def _rake(self, columns: Sequence[int], shares: Table) -> Table:
        return rake(self._marginals, columns, shares, self._n_rows, self._points)

    def _shares_of_columns(self) -> list[Table]:
        shares = []
        for place in self._places:
            by_model = self._model.marginal((place,))
            raked = self._rake((place,), by_model)
            shares.append(divide_by_points(raked, (place,), self._points))
        return shares

    def _shares_of_pairs(self) -> Mapping[tuple[int, int], Table]:
        """Return the shares of all pairs of columns, as far as anything tells them."""
        shares = {}
        for b in range(len(self._places)):
            for a in range(b):
                pair = (self._places[a], self._places[b])
                table = self._start_of_pair(a, b)
                raked = self._rake(pair, table)
                shares[a, b] = divide_by_points(raked, pair, self._points)
        return shares

    def _start_of_pair(self, a: int, b: int) -> Table:
        """Return shares by the model, or by noisy counts where it does not hold them."""
        pair = (self._places[a], self._places[b])
        if self._model.tree.holder(pair) is not None:
            return self._model.marginal(pair)
        best = None
        least_error = math.inf
        for marginal in self._marginals:
            if marginal.groups is not None or not set(pair) <= set(marginal.clique):
                continue
            axes = sorted(map(marginal.clique.index, pair))
            counts = sum_others(marginal.counts, axes)
            error = marginal.std_error * math.sqrt(marginal.counts.size / counts.size)
            if error < least_error:
                least_error = error
                best = arrange(counts, sorted(pair), pair)
        if best is None:
            sizes = [self._model.tree.sizes[place] for place in pair]
            return count_cells([self._codes[a], self._codes[b]], sizes) / _N_ROWS
        shares = project_to_simplex(best.ravel() / self._n_rows, 1.0)
        return shares.reshape(best.shape)

    def _moments(self) -> tuple[Table, Table, float]:
        """Return the means of x @ x.T, x * y and y**2 by the shares of pairs."""
        *of_features, of_target = self._shares_of_columns()
        target_axis = len(of_features)
        mean = self._constant.copy()
        moments = np.zeros((len(self.terms), len(self.terms)))
        products = self._constant * float(of_target @ self._targets)
        for axis, (block, shares) in enumerate(
            zip(self._blocks, of_features, strict=True)
        ):
            mean += shares @ block
            moments += (block.T * shares) @ block
            # Of the constant with this feature; it is 0 in the design of the others.
            moments += np.multiply.outer(self._constant, shares @ block)
            moments += np.multiply.outer(shares @ block, self._constant)
            products += block.T @ (self._shares[axis, target_axis] @ self._targets)
            for before in range(axis):
                both = self._blocks[before].T @ self._shares[before, axis] @ block
                moments += both + both.T
        moments += np.multiply.outer(self._constant, self._constant)
        return moments, products, float(of_target @ self._targets**2)


def _invert(moments: Table) -> tuple[Table, Table]:
    """Invert a matrix of moments, but for what has no variance, or a negative one.

    Return how much of the square of each term has a negative one, too.
    """
    scale = _scale_of(moments)
    values, vectors = np.linalg.eigh(moments / np.outer(scale, scale))
    is_sure = values > _SINGULAR
    inverse = (vectors[:, is_sure] / values[is_sure]) @ vectors[:, is_sure].T
    # Moments of rows have none below 0: these are the noise of counts.
    is_noise = values < -_SINGULAR
    of_noise = (vectors[:, is_noise] ** 2).sum(axis=1)
    return inverse / np.outer(scale, scale), of_noise


def _scale_of(moments: Table) -> Table:
    """Return the root mean square of each column."""
    scale: Table = np.sqrt(np.maximum(np.diag(moments), LEAST_DIVISOR))
    return scale
