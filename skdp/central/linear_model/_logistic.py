"""Logistic regression whose coefficients are private."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin

from skdp.base import Bounds, TableLike, check_flag, read_bounds
from skdp.central._base import Plan
from skdp.central._supervised import Classes, features, read_rows
from skdp.central.linear_model._base import Floats, LinearModel
from skdp.central.linear_model._descent import (
    PLAIN,
    SCALED,
    BinaryLoss,
    Loss,
    SoftmaxLoss,
    descend,
    largest_change,
    plain_step,
    scaled_step,
)
from skdp.central.statistics import (
    UNIT,
    Noise,
    Rows,
    find_limits,
    largest_moments,
    sum_columns,
    widths,
)
from skdp.domain import Domain
from skdp.oracles import check_size
from skdp.privacy import Mu, PrivacyLedger, Rho, Share
from skdp.randomness import ByteSource
from skdp.tables import LargeTable, Table

_CUT = 0.05
"""The share of the rows that are shrunk."""

_MOST_ITER = 1 << 20
_FEWEST_STEPS, _MOST_STEPS, _PER_STEP = 30, 160, 25.0
"""Steps are mu times the number of rows over 25: later, noise adds more to the logits than a step improves them."""

_SCALED_STEPS, _SCALED_FROM = 20, 8_000.0
"""From this mu times the number of rows on, scaled steps are worth their moments."""

_MOMENT_PART = Fraction(1, 8)
"""Of the budget, for the moments that scale the steps."""

_PER_MOMENT = 8.0
"""From mu times the number of rows over the 3/2nd power of that of columns on, noise does not hide the moments."""


class DPLogisticRegression(ClassifierMixin, LinearModel):
    """Logistic regression by gradient descent with noise: coefficients that are private for the whole record.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all that `fit` releases, finite and > 0; with `skdp.privacy.Rho` or `skdp.privacy.Mu`, a share
        of a budget in rho or mu, which has a delta of its own.
    delta : float, optional
        The delta of an `epsilon` that is a number, in (0, 1); None for 1e-6. It should be far below one over the number
        of rows.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or "private"
        The lowest and the highest value of all columns, or of each, from what is publicly known. `fit` clips values
        outside. A column is measured from the place between its bounds that is nearest to 0 (without an intercept:
        from 0), and scaled by the end that is farther from there: bounds of (0, 1) leave indicators as they are.
        ``"private"``, for all columns or in place of a pair, finds bounds that hold nearly all values, as in `DPMean`.
    bounds_share : float, default=0.2
        The share of the budget that finds bounds, if some are private.
    classes : list, optional
        The classes that the target may have, from what is publicly known. None reads them from the target, with a
        `PrivacyLeakWarning`.
    fit_intercept : bool, default=True
        Whether the model has a constant.
    max_iter : int, optional
        The number of steps, at least 1. None takes 30 to 160, by what remains to be learnt beside the noise; 20 where
        there is so little noise that second moments scale the steps. Of a large table, each step reads all rows.
    max_rows_per_person : int, default=1
        The most rows of one person, all of which the guarantee is for: noise is in proportion to it. Further rows are
        left out if `fit` is given ``groups``; without, the number is taken on trust.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee against those who know it.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        The noisy coefficients of the columns in their own units; one row for two classes.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The noisy constants; 0 without `fit_intercept`.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    domain_ : Domain
        The target and its classes.
    n_iter_ : int
        The number of steps.
    bounds_ : ndarray of shape (n_features, 2)
        The bounds of the columns.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`, for the columns of X and the target.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of columns; their names, if all of them are strings.

    See Also
    --------
    sklearn.linear_model.LogisticRegression : Without privacy.
    DPStandardScaler : Columns of unknown scale.
    DPMarginalSynthesizer : Synthetic rows, for any model.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record, with its target,
    changes the distribution of all fitted attributes by at most (epsilon, delta); the guarantee is that of Gaussian
    differential privacy for mu ([1]_), also stated as rho = mu**2 / 2. Predictions are post-processing, and cost
    nothing: but those for a row of the table are about this row. The number of rows is protected too, and a table
    without rows is answered. Not covered: an error shows that a value is missing, or that a class is not declared.

    An eighth of mu**2 is spent beforehand: on noisy numbers of rows by their norm, which choose a limit that about a
    twentieth of the rows exceed, and are shrunk to; on the mean of the rows, which is subtracted; and on the numbers of
    centred rows by their norm. They also choose the number of steps T and the divisor of the gradients. Without an
    intercept, nothing is subtracted. Each step then releases the sum of the gradients of all rows, one of
    which is the row x times its residual, with rounded Gaussian noise. Values of rows, logits and residuals are
    integers: a row changes the sum by exactly its own, and 1 / T of the rest of mu**2 pays for it ([2]_). Momentum
    makes up for the small rate; the second half of the steps is averaged ([3]_).

    Residuals of certain and wrong predictions are the longest, and noise is in proportion to them. So rows are weighted
    by their predictions: of two classes, a row of which the likelier has the probability q counts 1 / (2 q), and its
    residual is at most 1/2, as at equal probabilities; of K classes, the residuals have a norm of at most
    sqrt(1 - 1 / K). The weight is that of all classes of a row, so the coefficients remain those of a logistic model,
    and the probabilities need no correction: they are estimated with half of the noise, and from certain rows with half
    of the information ([5]_). Where the model does not hold, it is closer at uncertain rows than maximum likelihood.

    If mu times the noisy number of rows is above 8,000, and above 8 times the 3/2nd power of the number of columns, a
    further eighth of mu**2 is spent on the sums of the products of two columns. Their inverse scales all steps ([4]_),
    of which 20 are then enough, and rows are not weighted: a residual is at most 1, and the residuals of more
    than two classes have a norm of at most the root of 2.

    References
    ----------
    .. [1] J. Dong, A. Roth, W. J. Su (2022). Gaussian differential privacy. Journal of the Royal Statistical Society B
       84(1), corollary 3.3.
    .. [2] R. Bassily, A. Smith, A. Thakurta (2014). Private empirical risk minimization: efficient algorithms and tight
       error bounds. FOCS.
    .. [3] B. T. Polyak, A. B. Juditsky (1992). Acceleration of stochastic approximation by averaging. SIAM Journal on
       Control and Optimization 30(4).
    .. [4] A. Ganesh, M. Haghifam, T. Steinke, A. Thakurta (2023). Faster differentially private convex optimization via
       second-order methods. NeurIPS.
    .. [5] H. R. Künsch, L. A. Stefanski, R. J. Carroll (1989). Conditionally unbiased bounded-influence estimation in
       general regression models. Journal of the American Statistical Association 84(406).

    Examples
    --------
    >>> from skdp import DPLogisticRegression
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> X = X[["mean radius", "mean texture", "mean concavity"]]
    >>> bounds = {"mean radius": (0, 30), "mean texture": (0, 40), "mean concavity": (0, 0.5)}
    >>> model = DPLogisticRegression(epsilon=2.0, bounds=bounds, classes=[0, 1], random_state=0).fit(X, y)
    >>> round(model.score(X, y), 1)
    0.9
    >>> print(model.guarantee_)
    epsilon = 2, delta = 0.000001, rho = 0.100503, central model, adding or removing one record's values of: mean
    radius, mean texture, mean concavity, target, NOT SECURE: ...
    """

    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    classes_: NDArray[Any]
    domain_: Domain
    _usual_delta = 1e-6

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float | None = None,
        bounds: Bounds | None = None,
        bounds_share: float = 0.2,
        classes: list[Any] | None = None,
        fit_intercept: bool = True,
        max_iter: int | None = None,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.bounds_share = bounds_share
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _bounded(self, table: Table) -> Table:
        return features(table)

    def _plan(
        self, table: Table, large: LargeTable | None, share: Share, bounds: Any
    ) -> Plan:
        check_flag("fit_intercept", self.fit_intercept)
        if self.max_iter is not None:
            check_size(self.max_iter, least=1, most=_MOST_ITER, name="max_iter")
        columns = features(table)
        ends = read_bounds(bounds, columns.names)
        classes = Classes.read(table, large, self.classes)
        if large is not None:
            sum_columns(
                columns, large, ends, missing=False
            )  # a missing value is an error before anything is charged
        # A constant makes up for a shift; without it, a column of large numbers would hide what differs between rows.
        starts = np.clip(0.0, *ends.T) if self.fit_intercept else np.zeros(len(ends))
        rows = read_rows(table, large, ends, starts, classes.codes)
        return Plan(
            "noisy gradient descent, rounded Gaussian",
            partial(self._release, rows, widths(ends, starts), starts, classes, share),
            losses=(Noise("mu", share.mu_squared).loss,) if share.kind == "rho" else (),
        )

    def _release(
        self,
        rows: Rows,
        scales: Floats,
        starts: Floats,
        classes: Classes,
        share: Share,
        source: ByteSource,
    ) -> None:
        share, centred = share.of_a_row, bool(self.fit_intercept)
        found = find_limits(rows, share, _CUT, source, centred=centred)
        rows = found.rows.map(partial(Rows.clipped, square=found.square))
        constant = math.isqrt(rows.square) // 2 if centred else 0
        rows, rest = (
            rows.map(partial(Rows.with_constant, constant=constant)),
            found.rest.mu_squared,
        )
        strength, n_columns, n_classes = (
            math.sqrt(rest) * found.n_rows,
            rows.n_columns,
            len(classes.values),
        )
        scaled = strength > max(_SCALED_FROM, _PER_MOMENT * n_columns**1.5)
        # Weights halve the noise, but also the information of certain rows, which counts where there is little noise.
        loss: Loss = (
            BinaryLoss(weighted=not scaled)
            if n_classes == 2
            else SoftmaxLoss(n_classes, weighted=not scaled)
        )
        n_rows = max(
            1.0, found.n_rows + 2 * found.error
        )  # too small a number would make the steps too long
        step: float | NDArray[np.float64] = plain_step(rows, loss, n_rows)
        pace, n_steps = (
            PLAIN,
            int(np.clip(strength / _PER_STEP, _FEWEST_STEPS, _MOST_STEPS)),
        )
        if scaled:
            noise = Noise(
                "mu",
                share.mu_squared * _MOMENT_PART,
                largest_moments(found.square, 2 * UNIT),
            )
            rest -= noise.amount
            pairs = np.triu_indices(n_columns)
            moments = np.zeros((n_columns, n_columns))
            moments[pairs] = moments.T[pairs] = noise.add(
                source, rows.sum(Rows.moments)[pairs].tolist()
            )
            pace, step, n_steps = (
                SCALED,
                scaled_step(rows, loss, moments, float(noise.error), n_rows),
                _SCALED_STEPS,
            )
        n_steps = self.max_iter or n_steps
        gradients = Noise("mu", rest / n_steps, largest_change(rows, loss))
        shape = n_steps, rows.n_weights, loss.n_outputs
        drawn = gradients.draw(source, math.prod(shape)).reshape(shape)
        weights = descend(rows, loss, drawn, step, pace.momentum)
        slopes = weights[:n_columns]
        self.coef_ = (slopes / scales[:, np.newaxis]).T
        self.intercept_ = (
            constant * weights[-1] - found.middle @ slopes
        ) / UNIT - self.coef_ @ starts
        self.classes_, self.domain_, self.n_iter_ = (
            classes.values,
            classes.domain,
            int(n_steps),
        )

    def decision_function(self, X: TableLike) -> NDArray[np.float64]:
        """Return the logits of rows.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Rows, in the columns of `fit`, without missing values.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Of two classes, the logit of the second one.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if X has other columns, is not numeric, or holds a missing value.
        """
        logits = self._respond(X)
        return logits[:, 0] if logits.shape[1] == 1 else logits

    def predict_proba(self, X: TableLike) -> NDArray[np.float64]:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Rows, as of `decision_function`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of `classes_`; each row adds up to 1.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            As of `decision_function`.
        """
        logits = self.decision_function(X)
        if logits.ndim == 2:
            return softmax(logits, axis=1)
        return np.stack([expit(-logits), expit(logits)], axis=1)

    def predict(self, X: TableLike) -> NDArray[Any]:
        """Return the likeliest class of rows.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Rows, as of `decision_function`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Classes.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            As of `decision_function`.
        """
        logits = self.decision_function(X)
        return self.classes_[
            logits.argmax(axis=1) if logits.ndim == 2 else (logits > 0).astype(np.intp)
        ]
