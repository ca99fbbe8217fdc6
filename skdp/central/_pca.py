"""Principal components from noisy sums of products of columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin

from skdp._arrays import Floats
from skdp.base import Bounds, to_float_columns
from skdp.central._base import Columns, InvertibleTransformer, Plan
from skdp.central._rows import (
    UNIT,
    Rows,
    add_product_noise,
    bound_products,
    center_rows,
    choose_limit,
    find_widths,
    to_row_units,
)
from skdp.central.statistics import Batches, Noise, warn_user
from skdp.privacy import Mu, PrivacyBudget, PrivacyLedger, Rho, Split
from skdp.randomness import ByteSource, check_size
from skdp.tables import Table

COVARIANCE_PARTS = Split(rest="products", center=Fraction(3, 32), norms=Fraction(1, 32))


class DPPCA(ClassNamePrefixFeaturesOutMixin, InvertibleTransformer):
    """Find principal components of a noisy covariance matrix.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Total privacy loss of `fit`, finite and > 0. `skdp.privacy.Rho` and
        `skdp.privacy.Mu`, fractions of a budget in rho or mu, include a delta.
    delta : float, default=0.0
        Failure probability for a numeric `epsilon`, far below one over the number of rows. 0 for pure privacy,
        which has more noise: the noise of the largest eigenvalue is proportional to the number of columns to the power
        of 1.5, with a delta to the power of 0.5.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain, optional
        Bounds (low, high) of all columns or of each column, from public knowledge; None, or an end that is None, if
        there is none. Narrower limits are found with a fifth of the budget, or a third for a column with an open end,
        so wide bounds cost little. `fit` clips values outside the limits; `transform` does not.
    n_components : int, optional
        The number of components. None keeps as many components as columns.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person. The guarantee covers all of them, and noise is proportional to this
        number. With ``person``, `fit` excludes further rows at random; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The components, orthogonal, of norm 1, by decreasing noisy variance. The entry
        of each with the largest absolute value is positive.
    explained_variance_ : ndarray of shape (n_components,)
        The noisy variance along each component, at least its standard error. Rows with a
        large norm have a smaller weight.
    explained_variance_std_error_ : ndarray of shape (n_components,)
        The standard deviation of its noise, for a direction that does not depend on the
        noise. If the noise is large, the variances of the first components are
        overestimated. It does not include the effect of shortening long rows, which
        differs from fit to fit.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        The fraction of each component of the total noisy variance, which is the sum over all components.
    mean_ : ndarray of shape (n_features,)
        The noisy mean of the rows, between `bounds_`. Rows with a large norm have less weight.
    n_components_ : int
        The number of components.
    bounds_ : ndarray of shape (n_features, 2)
        The limits that are found within the declared bounds, between which rows are measured.
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit`.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names if all of them are strings.

    See Also
    --------
    DPStandardScaler : Scale the columns first, so that their units have no effect.
    sklearn.decomposition.PCA : Without privacy.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. Adding or removing a record changes the
    distribution of all fitted attributes by at most epsilon, or by at most (epsilon, delta) with a delta; the latter is
    Gaussian differential privacy. `fit` reads the values of all columns, and the number of rows is protected too: an
    empty table is allowed. **The output of** `transform` **is the rows themselves**, rotated: no noise is added to it,
    and it is as private as X. Not covered: a missing value, or a value that is not a number in a column of Python
    objects, raises an error, which reveals that such a record exists. Fill in missing values first, by a public rule or
    with `DPSimpleImputer`.

    Limits of the columns are found first. Values are integers on a grid between them, in units of the root of the width
    of each column. An eighth of the remaining budget is spent on noisy counts of rows by norm, twice, and on the mean
    of the rows, at which they are then centered. Rows that exceed a norm R are multiplied by a factor that shortens
    them to R, together with a constant c. Then a row changes the sums of products of two columns, each counted once, by
    at most S**2 = R**2 + c**2 in L2 norm, and by ``(d + 2) / 2`` times as much in L1 norm. The sums get Gaussian noise,
    or Laplace noise without delta. Eigenvectors of the noisy matrix are post-processing. This is "Analyze Gauss" [1]_,
    with a limit of the norm and a mean that are chosen with noise, and units that follow from the bounds.

    References
    ----------
    .. [1] C. Dwork, K. Talwar, A. Thakurta, L. Zhang (2014). Analyze Gauss: optimal bounds for privacy-preserving
       principal component analysis. STOC.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPPCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(10_000, 2)) @ [[3.0, 2.0, 0.0], [0.0, 0.0, 1.0]]
    >>> pca = DPPCA(n_components=2, epsilon=1.0, delta=1e-6, bounds=(-10, 10), random_state=0).fit(X)
    >>> pca.components_.round(1) + 0.0
    array([[0.8, 0.6, 0. ],
           [0. , 0. , 1. ]])
    >>> pca.transform(X[:2]).shape
    (2, 2)
    >>> print(pca.guarantee_)
    epsilon = 1, delta = 0.000001, rho = 0.0280145, central model, adding or removing one record's values of: x0,
    x1, x2, NOT SECURE: ...
    """

    _takes_missing = False
    _requires_rows = True
    _finds_limits = True
    _finds_limits_within = True
    _delta_is_for_noise = True

    components_: Floats
    explained_variance_: Floats
    mean_: Floats

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float = 0.0,
        bounds: Bounds | None = None,
        n_components: int | None = None,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.n_components = n_components
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _plan(self, rows: Batches, budget: PrivacyBudget, bounds: Floats) -> Plan[Rows]:
        """Round the rows to integers in units that minimize the noise, and compute the noise of Gaussian budgets."""
        if self.n_components is not None:
            n_columns = len(rows.names)
            check_size(
                self.n_components, name="n_components", min_val=1, max_val=n_columns
            )
        starts = bounds[:, 0] + (bounds[:, 1] - bounds[:, 0]) / 2
        # The noise of the covariance is proportional to the squared norm of a row. With
        # the units u of columns of the widths w, this is sum(w**2 / u**2), and the noise in
        # the original units is multiplied by sum(u**2). By the inequality of Cauchy and
        # Schwarz, the product is smallest for u in proportion to sqrt(w).
        distances = find_widths(bounds, starts)
        units = np.sqrt(distances) * np.sqrt(distances.max())
        columns = to_float_columns(rows.table)
        no_codes = np.zeros(len(columns[0]), np.uint8)
        on_grid = Rows.of(columns, bounds, starts, no_codes, units)
        if budget.kind != "epsilon":
            noise = Noise.gaussian(budget)
            mechanism = f"noisy sums of products, {noise.name}"
            return Plan(on_grid, budget, (noise,), mechanism)
        # The sensitivity of the products is known after the limit of the norm is chosen.
        mechanism = "noisy sums of products, discrete Laplace"
        return Plan(on_grid, budget, mechanism=mechanism, losses=())

    def _release(self, plan: Plan[Rows], source: ByteSource) -> None:
        """Measure the covariance with noise, and set the mean and the components, in the units of the columns."""
        rows = plan.exact
        matrix, mean, errors = _measure_covariance(rows, plan.budget, source)
        self.mean_ = np.clip(rows.starts + rows.units * mean, *self.bounds_.T)
        self._set_components(matrix, errors, rows.units)

    def _set_components(
        self,
        matrix: Floats,
        errors_of_matrix: tuple[float, float],
        units: Floats,
    ) -> None:
        """Set the components and variances of a noisy covariance matrix, converted to the original units.

        `units` has the unit of each column in the covariance. `errors_of_matrix` are the standard error of an entry and
        the relative standard error of the number of rows.
        """
        # Relative to the largest unit, whose square may exceed the largest float.
        largest = float(units.max())
        relative_units = units / largest
        matrix = matrix * np.outer(relative_units, relative_units)
        values, vectors = np.linalg.eigh(matrix)
        values, vectors = values[::-1], vectors[:, ::-1].T
        # The noise of the variance along a component v is the sum of v_i v_j E_ij, where
        # E_ij = E_ji. With independent E_ij of variance 1 for i <= j, its variance is
        # sum(v_i**4) + 4 sum over i < j of (v_i v_j)**2 = 2 (sum v_i**2)**2 - sum(v_i**4).
        squares = vectors**2 * relative_units**2
        noise_factors = 2 * squares.sum(axis=1) ** 2 - (squares**2).sum(axis=1)
        error, error_of_count = errors_of_matrix
        errors = np.hypot(error * np.sqrt(noise_factors), error_of_count * values)
        # A noisy variance may be 0 or negative; a smaller variance than its standard error
        # cannot be measured.
        explained = np.maximum(values, errors)
        # The sum is 0 without rows and noise.
        ratios = explained / max(explained.sum(), np.finfo(float).tiny)
        # The spectral norm of symmetric noise is about twice the norm of one of its rows.
        if 3 * error * float(np.linalg.norm(relative_units)) > values[0]:
            warn_user(
                "The noise exceeds the variance of the first component. Use more rows "
                "or a larger epsilon",
                "answers/which_epsilon",
            )

        # The entry of each component with the largest absolute value is positive.
        indices = np.abs(vectors).argmax(axis=1)
        signs = np.sign(vectors[np.arange(len(vectors)), indices])
        n_components = self.n_components or len(vectors)
        self.components_ = (vectors * signs[:, np.newaxis])[:n_components]
        self.n_components_ = len(self.components_)
        self.explained_variance_ratio_ = ratios[:n_components]
        with np.errstate(over="ignore"):
            self.explained_variance_ = explained[:n_components] * largest * largest
            errors = errors[:n_components] * largest * largest
        self.explained_variance_std_error_ = errors

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _output_names(self) -> Sequence[Any]:
        return list(self.get_feature_names_out())

    def _transform_table(self, table: Table) -> Columns:
        numbers = np.stack(to_float_columns(table), axis=1)
        return list(((numbers - self.mean_) @ self.components_.T).T)

    def _invert_columns(self, columns: Columns) -> Columns:
        scores = np.stack(columns, axis=1)
        return list((scores @ self.components_ + self.mean_).T)


def _measure_covariance(
    rows: Rows, budget: PrivacyBudget, source: ByteSource
) -> tuple[Floats, Floats, tuple[float, float]]:
    """Measure the covariance of rows that are shortened to a limit of their norm, which is chosen from noisy counts.

    Returns the matrix and the mean, in units of the rows, and standard deviations of the noise: of an element of the
    matrix, and of the number of rows relative to it.
    """
    size = rows.n_columns + 1
    # The number of rows that may be shortened is proportional to the norm of the noise of
    # the products: with less noise, fewer rows are shortened. With twice the factor of 10,
    # variances are too small by 0.4 of their errors; with half of it, components of 26 of 79
    # tables from KEEL at epsilon 4 explain 2 % less.
    unit_noise = _noise_of_products(budget, size, UNIT**2, UNIT)
    max_long_rows = 10 * 2 * math.sqrt(size) * to_row_units(unit_noise.std)
    max_fraction = 0.5  # of rows that are shortened
    limits = {"max_fraction": max_fraction, "max_longer": max_long_rows}
    # The middle of the limits is far from the mean of a skewed column: without this step,
    # components of 1,000 rows lose two to three times as much variance.
    of_center = budget * COVARIANCE_PARTS.center
    rows, middle, _, error_of_rows = center_rows(rows, of_center, source, **limits)
    norm_noise = Noise.from_budget(budget * COVARIANCE_PARTS.norms)
    square, *_ = choose_limit(
        rows.squares, rows.largest_square, norm_noise, source, **limits
    )
    # A small constant leaves more precision to the products of columns. Half or twice the
    # constant changes the components by less than their noise.
    constant = max(math.isqrt(square) // 4, 1)
    noise = _noise_of_products(
        budget * COVARIANCE_PARTS.products,
        size,
        square + constant**2,
        max(2 * UNIT, constant),
    )
    moments = rows.moments(rows.factors(square), constant)
    sums = add_product_noise(moments, noise, source)

    # The noisy number of rows is at least the size of its noise, and at least 1.
    constant_value = constant / UNIT
    n_rows = max(float(sums[-1, -1]) / constant_value**2, 3 * error_of_rows, 1.0)
    mean_shift = np.clip(sums[-1, :-1] / constant_value / n_rows, -2, 2)
    matrix = sums[:-1, :-1] / n_rows - np.outer(mean_shift, mean_shift)
    error = to_row_units(noise.std) / n_rows
    mean = middle / UNIT + mean_shift
    return matrix, mean, (error, min(error / constant_value**2, 1.0))


def _noise_of_products(
    budget: PrivacyBudget, size: int, square: int, largest: int
) -> Noise:
    """Return the noise of sums of products of all pairs of values of rows.

    A row has `size` values of at most `largest`, and a squared norm of at most `square`.
    """
    # The sum of |x_i x_j| over i <= j is half of (sum of |x_i|)**2 plus half of the squared
    # norm. By the inequality of Cauchy and Schwarz, this is at most (size + 1) / 2 times
    # the squared norm.
    l1 = ((size + 1) * square + 1) // 2
    return Noise.from_budget(budget, l1, bound_products(square, largest))
