"""Naive Bayes for categories: private counts of each column by class."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags

from skdp.base import check_choice
from skdp.central._base import Plan, Unknown
from skdp.central._supervised import Classes, features
from skdp.central.naive_bayes._base import Floats, NaiveBayes
from skdp.central.statistics import (
    LARGEST,
    Noise,
    count_cells,
    declared_domain,
    find_codes,
    losses_of,
    shrunk_shifts,
    undeclared_error,
)
from skdp.domain import Domain, DomainLike
from skdp.privacy import Mu, PrivacyLedger, Rho, Share
from skdp.randomness import ByteSource
from skdp.tables import LargeTable, Table


class DPCategoricalNB(NaiveBayes):
    """Categorical naive Bayes: shares of categories by class that are private for the whole record.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all that `fit` releases, finite and > 0; with `skdp.privacy.Rho` or `skdp.privacy.Mu`, a share
        of a budget in rho or mu, which has a delta of its own.
    delta : float, optional
        The delta of an `epsilon` that is a number. It is spent only where Gaussian noise is less than that of a pure
        epsilon: from about nine columns on at an epsilon of 1 and a delta of 1e-6. None or 0 for pure privacy.
    categories : list of array-like, mapping, Domain or Interval, optional
        The values that each column may take, as the `domain` of `DPHistogram`: declared from what is publicly known.
        None among the values declares missing as a category; an `Interval` makes bins of numbers.
    classes : list, optional
        The classes that the target may have, from what is publicly known. None reads them from the target, with a
        `PrivacyLeakWarning`.
    handle_unknown : {"error", "ignore"}, default="error"
        What is done with an undeclared value of a column: an error reveals that there is one. ``"ignore"``: it adds
        nothing to its column in `fit`, and says nothing of the class of its row in `predict`.
    max_rows_per_person : int, default=1
        The most rows of one person, all of which the guarantee is for: noise is in proportion to it. Further rows are
        left out if `fit` is given ``groups``; without, the number is taken on trust.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee against those who know it.

    Attributes
    ----------
    feature_log_prob_ : list of ndarray of shape (n_classes, n_categories)
        Of each column, the logarithms of the shares of its declared values in each class.
    class_count_ : ndarray of shape (n_classes,)
        The noisy numbers of rows.
    class_count_std_error_ : float
        The standard deviation of their noise.
    class_prior_ : ndarray of shape (n_classes,)
        The shares of the classes, each of at least the standard deviation of its noise.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    domain_ : Domain
        The values of each column, and of the target.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`, for the columns of X and the target.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of columns; their names, if all of them are strings.

    See Also
    --------
    MarginalClassifier : The model of a synthesizer, which knows pairs of columns, too.
    DPGaussianNB : Numbers without bins.
    DPTargetEncoder : The same counts, as columns for another model.
    sklearn.naive_bayes.CategoricalNB : Without privacy.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record, with its target,
    changes the distribution of all fitted attributes by at most epsilon, or by at most (epsilon, delta) with a delta.
    Predictions are post-processing, and cost nothing: but those for a row of the table are about this row. The number
    of rows is protected too, and a table without rows is answered. Not covered: an error shows that a value or a class
    is not declared.

    Of each of d columns, the rows are counted by value and class. A record is in one cell of each table: it changes d
    counts by 1. So Laplace noise of scale d over epsilon, or Gaussian noise for a change of the root of d, drawn
    exactly, protects all counts together; the exact error of both decides, where there is a delta. The rest is
    post-processing. A row is classified by the shares of the classes among the rows with each of its values, ``P(c | v)
    / P(c)``; these are drawn towards 1 by how much the values of a column differ and how much of that is noise
    (empirical Bayes, [1]_), so that rare values, and columns that noise hides, say little.

    References
    ----------
    .. [1] D. Micci-Barreca (2001). A preprocessing scheme for high-cardinality categorical attributes in classification
       and prediction problems. SIGKDD Explorations 3(1).

    Examples
    --------
    >>> from skdp import DPCategoricalNB
    >>> from skdp.datasets import load_adult
    >>> adult = load_adult()
    >>> names = ["age", "education", "marital-status", "occupation", "sex"]
    >>> model = DPCategoricalNB(1.0, categories=adult.domain.select(names), classes=["<=50K", ">50K"], random_state=0)
    >>> model = model.fit(adult.data[names], adult.target)
    >>> round(model.score(adult.data[names], adult.target), 1)
    0.8
    >>> print(model.guarantee_)
    epsilon = 1, central model, adding or removing one record's values of: age, education, marital-status, occupation,
    sex, income, NOT SECURE: ...
    """

    feature_log_prob_: list[Floats]

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float | None = None,
        categories: DomainLike | None = None,
        classes: list[Any] | None = None,
        handle_unknown: Unknown = "error",
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.categories = categories
        self.classes = classes
        self.handle_unknown = handle_unknown
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        tags.input_tags.allow_nan = self.handle_unknown == "ignore"
        return tags

    def _noise(self, share: Share, n_columns: int) -> Noise:
        return Noise.of(share, n_columns, n_columns)

    def _plan(
        self, table: Table, large: LargeTable | None, share: Share, bounds: Any
    ) -> Plan:
        check_choice("handle_unknown", self.handle_unknown, get_args(Unknown))
        columns = features(table)
        classes = Classes.read(table, large, self.classes)
        declared = declared_domain(columns, self.categories, "categories")
        every = Domain(
            {name: declared[name] for name in columns.names}
            | {table.names[-1]: classes.attribute}
        )
        d = len(columns.names)
        pairs = [(place, d) for place in range(d)]
        counts = count_cells(
            table, large, every, pairs, self.handle_unknown, "categories"
        )
        tables = [
            part.reshape(-1, len(classes.values))[:, classes.order].T for part in counts
        ]
        noise = self._noise(share, d)
        release = partial(self._release, tables, every, classes, noise)
        return Plan(
            f"{noise.name} on counts by class", release, losses=losses_of([noise])
        )

    def _release(
        self,
        tables: list[NDArray[np.int64]],
        every: Domain,
        classes: Classes,
        noise: Noise,
        source: ByteSource,
    ) -> None:
        drawn = noise.add(
            source, np.concatenate([part.ravel() for part in tables]).tolist()
        )
        # As floats: with a tiny epsilon noise is larger than all of them.
        flat = np.clip(np.array(drawn, object), -LARGEST, LARGEST).astype(float)
        ends = np.cumsum([part.size for part in tables])[:-1]
        noisy = [
            part.reshape(exact.shape)
            for part, exact in zip(np.split(flat, ends), tables, strict=True)
        ]
        # Each table counts all rows: that of the fewest values with the least noise.
        sizes = np.array([part.shape[1] for part in tables])
        counts = np.average(
            [part.sum(axis=1) for part in noisy], axis=0, weights=1 / sizes
        )
        self._set_classes(
            classes, counts, noise.error / Fraction(float(np.sqrt((1 / sizes).sum())))
        )
        variance = float(min(noise.error, Fraction(LARGEST))) ** 2
        self.feature_log_prob_ = [
            _log_shares(part, self.class_prior_, variance) for part in noisy
        ]
        self.domain_ = every

    def _log_likelihood(self, table: Table) -> Floats:
        domain = self.domain_.select(self.domain_.columns[:-1])
        codes, undeclared = find_codes(table, domain, self.handle_unknown)
        if undeclared:
            raise undeclared_error(undeclared[0], domain, "categories")
        # An undeclared value says nothing.
        known = [np.pad(shares, ((0, 0), (0, 1))) for shares in self.feature_log_prob_]
        found: Floats = np.sum(
            [shares.T[one] for shares, one in zip(known, codes, strict=True)], axis=0
        )
        return found


def _log_shares(noisy: Floats, prior: Floats, variance: float) -> Floats:
    """Return the logarithms of the shares of values in each class, from noisy counts by class and value."""
    rows, error = noisy.sum(axis=0), max(math.sqrt(variance), 1.0)
    n_classes, n = len(prior), np.maximum(rows, 0)
    shares = np.empty(noisy.shape)
    for place, share in enumerate(prior):
        shift = shrunk_shifts(
            rows,
            noisy[place] - share * rows,
            of_row=share * (1 - share),
            of_noise=variance * ((1 - share) ** 2 + (n_classes - 1) * share**2),
            of_count=n_classes * variance,
        )
        # No class is ruled out by a value.
        least = share / (1 + n / error)
        shares[place] = np.clip(share + shift, least, None)
    # Of a value v: P(v | c) = P(c | v) P(v) / P(c). What is taken for P(v) is the same for all classes.
    shares *= np.maximum(n, error)
    return np.log(shares) - np.log(shares.sum(axis=1, keepdims=True))
