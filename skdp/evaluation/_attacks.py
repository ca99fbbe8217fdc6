"""Guess a sensitive column from a release, and the best possible guess from a report."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest
from sklearn.base import BaseEstimator, is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict

from skdp.base import ColumnLike, TableLike, check_row_order, draw_seed
from skdp.domain import Domain
from skdp.local import SAMPLED, ReportTransformer
from skdp.metrics import parse_columns
from skdp.oracles import FrequencyOracle
from skdp.tables import ColumnError, shielded

Codes = NDArray[np.intp]
Numbers = NDArray[np.float64]

# Largest number of categories that scikit-learn's histogram trees accept.
MAX_TREE_CATEGORIES = 255


@dataclass(frozen=True, eq=False)
class AttackResult:
    """Accuracy of an attack on a sensitive column, and values to compare it with."""

    accuracy: float
    std_error: float
    baseline: float
    bayes_bound: float
    accuracy_without_report: float
    n_rows: int
    recall: pd.DataFrame = field(repr=False)

    @property
    def exceeds_bound(self) -> bool:
        """True if the lower limit of the 95 % interval of the accuracy exceeds the bound."""
        n_right = round(self.accuracy * self.n_rows)
        interval = binomtest(n_right, self.n_rows).proportion_ci(0.95)
        return bool(interval.low > self.bayes_bound)


def attribute_inference(
    released: TableLike,
    sensitive: ColumnLike | TableLike,
    *,
    encoder: ReportTransformer | None = None,
    estimator: BaseEstimator | None = None,
    cv: int = 5,
    random_state: int | None = None,
) -> AttackResult:
    """Guess the true values of a sensitive column from all released columns.

    A classifier is trained on rows with their true values, and predicts the values of
    the other rows (cross-validation).

    Parameters
    ----------
    released : dataframe or array-like of shape (n_samples, n_features)
        The released rows: reports, all other released columns, and the label if it is
        released too.
    sensitive : 1-D array-like of shape (n_samples,) or dataframe
        The true values, as they were before privatization. The combinations of the
        values of several columns are guessed.
    encoder : fitted encoder of categories, optional
        The encoder that made the reports. It gives their names and the bound.
    estimator : classifier, optional
        The model of the attacker. It gets the columns unchanged. By default a
        `HistGradientBoostingClassifier` with text as categories.
    cv : int, default=5
        The number of folds.
    random_state : int, optional
        Seed of the folds and of the default estimator.

    Returns
    -------
    AttackResult
        The outcome, with the attributes

        - ``accuracy``, ``std_error``: the proportion of correct guesses and its
          standard error over the rows, given the models;
        - ``baseline``: the proportion of the most frequent value;
        - ``bayes_bound``: the largest expected accuracy of a guess from the reports
          alone; nan without an encoder;
        - ``accuracy_without_report``: the accuracy of the same attack on the columns
          that are not reports; nan without an encoder;
        - ``recall``: a row for each true value, rarest first, with its ``proportion``,
          the ``recall`` (the proportion of its rows that are guessed correctly) and its
          95 % Wilson interval, ``lower`` and ``upper``. Values are the declared
          ones, or numbers without an encoder;
        - ``n_rows``, and ``exceeds_bound``: whether the 95 % interval of the accuracy
          lies above the bound.

    Raises
    ------
    TypeError, ValueError
        If the rows do not match, the encoder is not fitted or has other columns, or the
        sensitive column has one value only.

    See Also
    --------
    bayes_accuracy : The exact accuracy of the best guess from one report.
    audit_epsilon : A lower bound on the epsilon of a transformer.

    Notes
    -----
    **Privacy.** The result depends on true values and is not private. Use it for
    experiments on data that are not sensitive.

    **The bound** takes the proportions of the values in `sensitive` as the prior. If
    the report of the sensitive column is the only visible one, the bound is exact for
    its channel. Otherwise, and for hashed reports, it is the largest accuracy over all
    protocols with the epsilon of the visible reports, which may all be correlated with
    the sensitive column. An accuracy above the bound is due to columns that are not
    reports. If there are none, the release violates its guarantee.

    **Rare values.** If one value prevails, a constant guess has a high accuracy, and
    ``recall`` shows the rare values.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"sex": rng.choice(["F", "M"], 1000)})
    >>> encoder = RandomizedResponseEncoder(
    ...     1.0, categories={"sex": ["F", "M"]}, random_state=0
    ... )
    >>> released = encoder.fit_transform(people)
    >>> result = attribute_inference(released, people["sex"], encoder=encoder)
    >>> round(result.accuracy, 2), round(result.bayes_bound, 2), result.exceeds_bound
    (0.7, 0.73, False)

    A correlated column reveals the value at any epsilon of the report:

    >>> released["title"] = people["sex"].map({"F": "Ms", "M": "Mr"})
    >>> result = attribute_inference(released, people["sex"], encoder=encoder)
    >>> result.accuracy, result.accuracy_without_report, result.exceeds_bound
    (1.0, 1.0, True)
    """
    if isinstance(sensitive, str):
        raise TypeError(
            "sensitive must be the true values, got a str. Pass the column of the table "
            "before privatization."
        )
    if estimator is not None and not is_classifier(estimator):
        raise TypeError(
            f"estimator must be a classifier, got {type(estimator).__name__}."
        )
    check_row_order(released=released, sensitive=sensitive)
    columns = parse_columns(released, "released")
    true_columns = parse_columns(sensitive, "sensitive")
    truth = _code_combinations(true_columns)
    frame = _frame_of(columns, as_given=estimator is not None)
    if len(truth) != len(frame):
        raise ValueError(f"released has {len(frame)} rows, sensitive has {len(truth)}.")
    proportions = np.bincount(truth) / len(truth)
    if proportions.size < 2:
        raise ValueError("sensitive must have at least two values, got one.")

    bound, labels = np.nan, list(range(proportions.size))
    reports: set[Any] = set()
    if encoder is not None:
        reports = {*_report_names(encoder)} & {*columns}
        bound, labels = _bound_of_reports(encoder, true_columns, truth, reports)
    seed = draw_seed(random_state)
    is_right = _guess(frame, truth, estimator, cv, seed) == truth
    without_report = np.nan
    if encoder is not None:
        is_other = [name not in reports for name in columns]
        without_report = float(proportions.max())
        if any(is_other):
            guesses = _guess(frame.loc[:, is_other], truth, estimator, cv, seed)
            without_report = float((guesses == truth).mean())
    accuracy = float(is_right.mean())
    return AttackResult(
        accuracy=accuracy,
        std_error=float(np.sqrt(accuracy * (1 - accuracy) / len(truth))),
        baseline=float(proportions.max()),
        bayes_bound=bound,
        accuracy_without_report=without_report,
        n_rows=len(truth),
        recall=_recall_table(truth, is_right, labels),
    )


def _recall_table(
    truth: Codes, is_right: NDArray[np.bool_], labels: list[Any]
) -> pd.DataFrame:
    """Return the recall of each value with its interval, rarest first."""
    n_rows = np.bincount(truth)
    n_right = np.bincount(truth[is_right], minlength=n_rows.size)
    intervals = []
    for right, rows in zip(n_right, n_rows, strict=True):
        interval = binomtest(int(right), int(rows)).proportion_ci(method="wilson")
        intervals.append((interval.low, interval.high))
    lower, upper = np.transpose(intervals)
    table = pd.DataFrame(
        {
            "proportion": n_rows / len(truth),
            "recall": n_right / n_rows,
            "lower": lower,
            "upper": upper,
        },
        index=pd.Index(labels, name="value", tupleize_cols=False),
    )
    return table.sort_values("proportion", kind="stable")


def _guess(
    frame: pd.DataFrame, truth: Codes, estimator: Any, cv: int, seed: int | None
) -> Any:
    """Guess the value of each row by a model that was fitted without the row."""
    # Folds cannot be stratified if a value has fewer rows than folds.
    splitter = StratifiedKFold if np.bincount(truth).min() >= cv else KFold
    if estimator is None:
        # Early stopping sets rows aside, which fails for rare values.
        estimator = HistGradientBoostingClassifier(
            max_iter=60,
            max_leaf_nodes=15,
            categorical_features="from_dtype",
            early_stopping=False,
            random_state=seed,
        )
    folds = splitter(cv, shuffle=True, random_state=seed)
    return cross_val_predict(estimator, frame, truth, cv=folds)


def _frame_of(columns: dict[Any, pd.Series], *, as_given: bool) -> pd.DataFrame:
    """Return the columns as a frame; for trees, as numbers and categories."""
    if as_given:
        frame = pd.DataFrame(dict(enumerate(columns.values())))
        return frame.set_axis(pd.Index(list(columns), tupleize_cols=False), axis=1)
    coded = map(code_column, columns.values())
    return pd.DataFrame({f"x{place}": column for place, column in enumerate(coded)})


def code_column(column: pd.Series) -> pd.Series:
    """Convert a column to numbers, or to categories with nan for missing values."""
    is_number = pd.api.types.is_numeric_dtype(column.dtype)
    if is_number or column.isna().all():
        return pd.Series(column.to_numpy(float, na_value=np.nan))
    codes = _factorize(column)
    numbers = pd.Series(np.where(codes < 0, np.nan, codes))
    if codes.max() >= MAX_TREE_CATEGORIES:
        return numbers
    return numbers.astype("category")


def _factorize(column: pd.Series, *, missing: bool = False) -> Codes:
    """Return a number for the distinct value of each row."""
    try:
        codes, _ = shielded(partial(pd.factorize, use_na_sentinel=not missing), column)
        return np.asarray(codes, np.intp)
    except ColumnError as error:
        raise TypeError(f"column {column.name!r} {error}") from None


def _code_combinations(columns: dict[Any, pd.Series]) -> Codes:
    """Return a number for the combination of values of each row."""
    codes = [_factorize(column, missing=True) for column in columns.values()]
    rows = np.column_stack(codes)
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)


def _report_names(encoder: Any) -> list[Any]:
    """Return the names of all columns that an encoder outputs."""
    if getattr(getattr(encoder, "protocol_", None), "strategy", None) is None:
        raise TypeError(
            "encoder must be a fitted encoder of categories, got "
            f"{type(encoder).__name__}."
        )
    return list(encoder.get_feature_names_out())


def _bound_of_reports(
    encoder: Any, columns: dict[Any, pd.Series], truth: Codes, reports: set[Any]
) -> tuple[float, list[Any]]:
    """Return the bound on guesses from the visible reports, and the declared labels."""
    protocol = encoder.protocol_
    declared = list(protocol.domain.columns)
    names = declared if len(declared) == len(columns) == 1 else list(columns)
    if not {*names} <= {*declared}:
        raise ValueError(
            f"sensitive must have columns of the encoder, {declared}, got {names}."
        )
    domain = protocol.domain.select(names)
    values = dict(zip(names, columns.values(), strict=True))
    cells = _encode_declared(domain, values)
    _, first_rows = np.unique(truth, return_index=True)
    labels = [domain.cells()[cell] for cell in cells[first_rows]]
    prior = np.bincount(cells, minlength=domain.size) / len(cells)

    exact = None
    for field_, oracle in zip(protocol.fields, protocol.oracles, strict=True):
        # Other visible reports may be correlated with the sensitive columns.
        is_alone = reports <= {*field_.names(), SAMPLED}
        if {*field_.columns} == {*names} and (is_alone or len(protocol.fields) == 1):
            exact = oracle.guess_accuracy(prior)
    n_fields = len(protocol.fields)
    if exact is None:
        return guessing_bound(prior, encoder.guarantee_.epsilon), labels
    if protocol.strategy == "sample":
        # A record reports one field. Otherwise the best guess is the most frequent value.
        exact = (exact + (n_fields - 1) * prior.max()) / n_fields
    return float(exact), labels


def _encode_declared(domain: Domain, values: dict[Any, pd.Series]) -> Codes:
    """Return the combination of declared values of each row."""
    codes = domain.encode([values[name] for name in domain.columns])
    for name, size, column in zip(domain.columns, domain.sizes, codes, strict=True):
        if column.max(initial=0) == size:
            raise ValueError(
                f"Column {name!r} of sensitive has values outside the declared "
                "categories. Pass the values as they were before privatization."
            )
    return domain.join(codes).astype(np.intp)


def guessing_bound(prior: ArrayLike, epsilon: float) -> float:
    """Return the largest expected accuracy of guesses from reports with this epsilon."""
    # The Bayes guess from a report r is the value v with the largest P(v) P(r | v), and
    # is right with probability sum_r max_v P(v) P(r | v). Over all epsilon-locally
    # private protocols the largest one is T = max over m of E P_m / (E + m - 1), with
    # E = e^epsilon and P_m the sum of the m largest probabilities. Randomized response
    # among the m most frequent values reaches it; the other values answer uniformly. It
    # is not exceeded: let y be numbers of at least max(0, (E P(v) - T) / (E - 1)) with
    # the sum T; these exist, as for any m values the terms add up to at most T. For any
    # report r and value v, no other value gives r with less than P(r | v) / E, so that
    # sum_u y_u P(r | u) >= P(r | v) (T + (E - 1) y_v) / E >= P(v) P(r | v). Over all
    # reports the left side adds up to T.
    proportions = _check_prior(prior)
    if isinstance(epsilon, bool | np.bool_) or not isinstance(epsilon, Real):
        raise TypeError(
            f"epsilon must be a number, at least 0, got {type(epsilon).__name__}"
        )
    if not epsilon >= 0:
        raise ValueError(f"epsilon must be at least 0, got {epsilon!r}")
    sums = np.cumsum(np.sort(proportions)[::-1])
    # E P_m / (E + m - 1), divided by E, which may be infinite.
    terms = sums / (1 + np.arange(proportions.size) * np.exp(-float(epsilon)))
    return min(1.0, float(terms.max()))


def bayes_accuracy(
    oracle: FrequencyOracle, prior: ArrayLike, *, groups: ArrayLike | None = None
) -> float | None:
    """Return the exact accuracy of the best guess from a report of an oracle.

    Parameters
    ----------
    oracle : FrequencyOracle
        The protocol.
    prior : array-like of shape (k,)
        The probability of each value; at least 0, with a sum of 1.
    groups : array-like of shape (k,), optional
        Groups of values to guess instead of values: values with the same entry are one
        group, such as all ages of a sex if age and sex are reported together.

    Returns
    -------
    float or None
        ``sum_r max_v P(v) P(r | v)`` over all reports of the channel, in closed form if
        there is one. None for protocols that hash; with `groups`, for all channels of
        many reports except randomized response.

    Raises
    ------
    ValueError
        If the prior is no distribution of k values, or `groups` has another length.

    Examples
    --------
    >>> from skdp.oracles import RandomizedResponse
    >>> round(bayes_accuracy(RandomizedResponse(2, np.log(3)), [0.5, 0.5]), 6)
    0.75
    """
    proportions = _check_prior(prior)
    if proportions.size != oracle.k:
        raise ValueError(f"prior must have {oracle.k} entries, got {proportions.size}")
    if groups is None:
        return oracle.guess_accuracy(proportions)
    codes = np.unique(np.asarray(groups), return_inverse=True)[1]
    if codes.shape != proportions.shape:
        raise ValueError(
            f"groups must have {proportions.size} entries, got {codes.size}"
        )
    return oracle.guess_accuracy(proportions, codes)


def _check_prior(prior: Any) -> Numbers:
    """Return probabilities as an array."""
    proportions = np.asarray(prior, float)
    is_list = proportions.ndim == 1 and proportions.size > 0
    if not is_list or not (proportions >= 0).all() or abs(proportions.sum() - 1) > 1e-9:
        raise ValueError("prior must be probabilities, at least 0, that add up to 1")
    return proportions
