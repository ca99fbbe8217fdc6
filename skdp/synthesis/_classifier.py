"""Predict a column of a table by the model of a synthesizer."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    ColumnLike,
    OnSite,
    ProbabilisticClassifier,
    TableLike,
    all_or_nothing,
    check_names,
    listed_names,
    read_input,
)
from skdp.central import CentralEstimator
from skdp.domain import Categories, Domain
from skdp.privacy import PrivacyGuarantee
from skdp.synthesis._queries import find_column
from skdp.synthesis.tables import complete_domain, with_target
from skdp.tables import Table


class OfSynthesizer(OnSite, BaseEstimator):
    """An estimator whose release is that of a synthesizer."""

    synthesizer: Any
    synthesizer_: Any

    @property
    def guarantee_(self) -> PrivacyGuarantee:  # numpydoc ignore=RT01
        """What is promised to the persons of the synthesizer's table."""
        return self.synthesizer_.guarantee_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "synthesizer_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if isinstance(self.synthesizer, BaseEstimator):
            tags.input_tags = get_tags(self.synthesizer).input_tags
        return tags


class MarginalClassifier(ProbabilisticClassifier, OfSynthesizer):
    """Predict a column by the model of a synthesizer: the exact law of the target given all other columns.

    `DPMarginalSynthesizer.classifier` makes one of a fitted synthesizer, for any of its columns and at no further cost.
    As an estimator of its own it fits a synthesizer to X and y.

    Parameters
    ----------
    synthesizer : DPMarginalSynthesizer
        What is cloned and fitted. Its domain declares the target too (an array y is called ``"target"``), as values;
        with ``marginals="auto"`` and no `target`, it gets y as its target, whose pairs are then kept better.

    Attributes
    ----------
    synthesizer_ : DPMarginalSynthesizer
        The fitted synthesizer.
    target_ : column name
        The column that is predicted.
    classes_ : ndarray of shape (n_classes,)
        Its declared values, sorted.
    guarantee_ : PrivacyGuarantee
        That of the synthesizer.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of other columns; their names, if all of them are strings.

    See Also
    --------
    SyntheticResampler : Trains any model on synthetic rows.
    DPLogisticRegression : For wide tables, and for numbers that need no bins.

    Notes
    -----
    The model is a product of the laws of its cliques; those that hold the target say how likely each class is, given
    the other values of the row ([1]_, section 9.3). With ``marginals=[(column, target), …]`` this is naive Bayes. A row
    that cannot occur by the model gets the shares of the classes.

    **Privacy.** Post-processing of the synthesizer's model, under its guarantee. A prediction for a row of the table is
    a function of this row and of what was released.

    References
    ----------
    .. [1] D. Koller, N. Friedman (2009). Probabilistic graphical models. MIT Press.

    Examples
    --------
    >>> from skdp import DPMarginalSynthesizer
    >>> from skdp.datasets import load_adult
    >>> adult = load_adult()
    >>> synthesizer = DPMarginalSynthesizer(1.0, delta=1e-6, domain=adult.domain, target="income", random_state=0)
    >>> model = synthesizer.fit(adult.data, adult.target).classifier("income")
    >>> model.score(adult.data, adult.target) > 0.85
    True
    """

    target_: Any

    def __init__(self, synthesizer: Any) -> None:
        self.synthesizer = synthesizer

    @all_or_nothing
    def fit(
        self, X: TableLike, y: ColumnLike, *, groups: ColumnLike | None = None
    ) -> Self:
        """Fit a clone of the synthesizer.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Declared values.
        y : 1-D array-like of shape (n_samples,)
            The target.
        groups : 1-D array-like of shape (n_samples,), optional
            The person of each row, for the synthesizer's `max_rows_per_person`; `guarantee_` is then for all rows of
            one person.

        Returns
        -------
        self
            The fitted classifier.

        Raises
        ------
        TypeError, ValueError
            If `synthesizer` is no DPMarginalSynthesizer, or refuses the table; if its domain does not declare at least
            two values of the target.
        BudgetExceeded
            If the synthesizer's ledger does not cover it.
        """
        if not (
            isinstance(self.synthesizer, CentralEstimator)
            and hasattr(self.synthesizer, "classifier")
        ):
            candidate = self.synthesizer
            kind = (
                f"the class {candidate.__name__}"
                if isinstance(candidate, type)
                else type(candidate).__name__
            )
            raise TypeError(f"synthesizer must be a DPMarginalSynthesizer, got {kind}")
        if y is None:
            raise ValueError(
                "MarginalClassifier requires y to be passed, but the target y is None"
            )
        synthesizer = clone(self.synthesizer)
        table = with_target(read_input(synthesizer, X, reset=True, least=0), y)
        target = table.names[-1]
        declared, every = synthesizer.domain, table
        if synthesizer.discover is not None or synthesizer.protect is not None:
            # Values of other columns may be found, or read, but no classes.
            names = declared.columns if isinstance(declared, Domain) else declared or ()
            declared = {target: declared[target]} if target in names else {}
            every = Table(table.names[-1:], table.columns[-1:], table.native)
        _check_target(
            complete_domain(every, declared), target
        )  # before anything is charged
        if (
            synthesizer.target is None
            and isinstance(synthesizer.marginals, str)
            and synthesizer.marginals == "auto"
        ):
            synthesizer.set_params(target=target)
        protected = listed_names(synthesizer.protect)
        if protected is not None and target not in protected:
            raise ValueError(
                f"protect must hold the target {target!r}, as nothing else is modelled, "
                f"got {protected}"
            )
        synthesizer.fit(X, y, groups=groups)
        self.synthesizer_, self.target_ = synthesizer, target
        return self

    def predict_log_proba(self, X: TableLike) -> NDArray[np.float64]:
        """Return the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            All columns of the synthesizer but the target.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of `classes_`; minus infinity for what cannot occur.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if X has other columns, or undeclared values that the synthesizer does not handle.
        """
        check_is_fitted(self)
        table = read_input(self, X, reset=False, least=0)
        check_names(self, table, self._features)
        codes = self.synthesizer_._codes_of(table)
        return self.synthesizer_.model_.log_law(self._place, codes)[:, self._order]

    @property
    def classes_(self) -> NDArray[Any]:  # numpydoc ignore=RT01
        """The declared values of the target, sorted."""
        return self._values[self._order]

    @property
    def n_features_in_(self) -> int:  # numpydoc ignore=RT01
        """Number of columns of X."""
        return len(self._features)

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:  # numpydoc ignore=RT01
        """The names of the columns of X."""
        if not all(isinstance(name, str) for name in self._features) or not hasattr(
            self.synthesizer_, "feature_names_in_"
        ):
            raise AttributeError(
                "the columns of X have no names, or others than strings"
            )
        return np.array(self._features, object)

    @property
    def _features(self) -> tuple[Any, ...]:
        columns = self.synthesizer_.domain_.columns
        return tuple(name for name in columns if name != self.target_)

    @property
    def _place(self) -> int:
        return find_column(self.synthesizer_.domain_, self.target_)

    @property
    def _values(self) -> NDArray[Any]:
        return np.array(self.synthesizer_.domain_[self.target_].values)

    @property
    def _order(self) -> NDArray[np.intp]:
        return np.argsort(self._values)


def classifier_of(synthesizer: Any, target: Any) -> MarginalClassifier:
    """Return the classifier of a fitted synthesizer."""
    check_is_fitted(synthesizer)
    _check_target(synthesizer.domain_, target)
    if synthesizer._protected and target not in synthesizer._protected:
        raise ValueError(
            f"the target {target!r} is public: with protect=, only the columns "
            f"{list(synthesizer._protected)} are modelled"
        )
    model = MarginalClassifier(clone(synthesizer))
    model.synthesizer_, model.target_ = synthesizer, target
    return model


def _check_target(domain: Domain, target: Any) -> None:
    """Check that a column may be predicted: at least two values, all of one kind."""
    find_column(domain, target)
    values = domain[target]
    if not isinstance(values, Categories):
        raise ValueError(
            f"the target {target!r} is an Interval: declare values, or predict another column"
        )
    if None in values.values:
        raise ValueError(
            f"the target {target!r} must not declare a missing value (None)"
        )
    if len(values) < 2:
        raise ValueError(
            f"the target {target!r} must have at least 2 classes, got {len(values)} class"
        )
