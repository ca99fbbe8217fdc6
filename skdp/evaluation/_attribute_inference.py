"""Attack on reports: the prediction of a sensitive column from the report of a record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import binomtest
from sklearn.base import BaseEstimator, is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict

from skdp._arrays import Codes, Floats, Mask
from skdp.base import ColumnLike, TableLike, check_row_order, draw_seed, on_one_thread
from skdp.domain import Domain
from skdp.local import SAMPLED, ReportTransformer
from skdp.metrics import parse_columns
from skdp.oracles import FrequencyOracle


@dataclass(frozen=True, eq=False)
class AttackResult:
    """Accuracy of an attack on a sensitive column, with a baseline and a bound."""

    accuracy: float
    std_error: float
    baseline: float
    bayes_bound: float
    accuracy_without_report: float
    n_rows: int
    recall: pd.DataFrame = field(repr=False)

    @property
    def exceeds_bound(self) -> bool:
        """True if the 95 % interval of the accuracy is above `bayes_bound`."""
        n_right = round(self.accuracy * self.n_rows)
        interval = binomtest(n_right, self.n_rows).proportion_ci(0.95)
        return bool(interval.low > self.bayes_bound)


@on_one_thread
def attribute_inference(
    released: TableLike,
    sensitive_features: ColumnLike | TableLike,
    *,
    encoder: ReportTransformer | None = None,
    estimator: BaseEstimator | None = None,
    cv: int = 5,
    random_state: int | None = None,
) -> AttackResult:
    """Measure how well the true values of a column are predicted from a release.

    A classifier is trained on rows with their true values, and predicts the values of
    the other rows by cross-validation.

    Parameters
    ----------
    released : dataframe or array-like of shape (n_samples, n_features)
        Released rows: reports, all other released columns, and the label if it is
        also released.
    sensitive_features : array-like of shape (n_samples,) or dataframe
        True values before privatization. For several columns, the combinations of
        their values are predicted.
    encoder : fitted encoder of categories, default=None
        Encoder of the reports. It determines the names of the reports, the bound and the
        predicted values: for an `Interval`, the bin of a number or date is predicted.
    estimator : classifier, default=None
        Model of the attacker. Its features are numbers, and integer codes of other
        values. If None, a `HistGradientBoostingClassifier` is used.
    cv : int, default=5
        Number of folds.
    random_state : int, default=None
        Seed of the folds and of the default estimator.

    Returns
    -------
    AttackResult
        Result with the attributes

        - ``accuracy``, ``std_error``: proportion of correct predictions, and its
          standard error over the rows, given the models;
        - ``baseline``: proportion of the most frequent value;
        - ``bayes_bound``: largest expected accuracy of a prediction from the reports
          alone; nan if `encoder` is None;
        - ``accuracy_without_report``: accuracy of the same attack without the reports;
          nan if `encoder` is None;
        - ``recall``: DataFrame with a row for each true value, rarest first, and the
          columns ``proportion``, ``recall`` (proportion of its rows that are predicted
          correctly), ``lower`` and ``upper`` (95 % Wilson interval). The index has the
          declared values or bins, or integer codes if `encoder` is None;
        - ``n_rows``: number of rows;
        - ``exceeds_bound``: True if the 95 % interval of the accuracy is above
          ``bayes_bound``.

    Raises
    ------
    TypeError, ValueError
        If the numbers of rows differ, the encoder is not fitted or has other columns, or
        the sensitive column has a single value.

    See Also
    --------
    bayes_accuracy : The exact accuracy of the best prediction from one report.
    audit_epsilon : A lower bound on the epsilon of a transformer.

    Notes
    -----
    **Privacy.** The result depends on true values and is not private. Use it for
    experiments on data that are not sensitive.

    **The bound** uses the proportions of the values in `sensitive_features` as the prior. It is
    exact if `released` contains the report of the sensitive column and no other report.
    Otherwise, and for hashed reports, it is the largest accuracy over all protocols
    with the epsilon of the released reports, because all of them may be correlated with
    the sensitive column. An accuracy above the bound is due to columns that are not
    reports. If there are no such columns, the release violates its guarantee.

    **Rare values.** If one value is much more frequent than all other values, a
    constant prediction has a high accuracy. Use ``recall`` for the rare values.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.evaluation import attribute_inference
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
    if isinstance(sensitive_features, str):
        raise TypeError(
            "`sensitive_features` must be the true values, got a str. Pass the column of the "
            "table before privatization."
        )
    if estimator is not None and not is_classifier(estimator):
        raise TypeError(
            f"`estimator` must be a classifier, got {type(estimator).__name__}."
        )
    check_row_order(released=released, sensitive_features=sensitive_features)
    columns = parse_columns(released, "released")
    true_columns = parse_columns(sensitive_features, "sensitive_features")
    if encoder is None:
        cells = _code_combinations(true_columns)
    else:
        domain, cells = _encode_declared(encoder, true_columns)
    occurring, truth = np.unique(cells, return_inverse=True)
    # Names of columns may be repeated or not be text, so features are numbered.
    names = [f"x{position}" for position in range(len(columns))]
    coded = map(code_column, columns.values())
    features = pd.DataFrame(dict(zip(names, coded, strict=True)))
    if len(truth) != len(features):
        raise ValueError(
            "`released` and `sensitive_features` must have the same number of rows, got "
            f"{len(features)} and {len(truth)}."
        )
    proportions = np.bincount(truth) / len(truth)
    if proportions.size < 2:
        raise ValueError(
            "`sensitive_features` must have at least two distinct values, got one."
        )

    baseline = float(proportions.max())
    seed = draw_seed(random_state)
    is_correct = _predict_values(features, truth, estimator, cv, seed) == truth
    bound = accuracy_without = np.nan
    labels = list(occurring)
    if encoder is not None:
        labels = list(domain.cells().take(occurring))
        report_names = {*encoder.get_feature_names_out()} & {*columns}
        prior = np.bincount(cells, minlength=domain.size) / len(cells)
        bound = _bound_accuracy(encoder, domain, prior, report_names)
        # The same attack on the other columns shows how much the reports add.
        is_other = [name not in report_names for name in columns]
        accuracy_without = baseline
        if any(is_other):
            other_features = features.loc[:, is_other]
            predicted = _predict_values(other_features, truth, estimator, cv, seed)
            accuracy_without = float((predicted == truth).mean())
    accuracy = float(is_correct.mean())
    return AttackResult(
        accuracy=accuracy,
        std_error=float(np.sqrt(accuracy * (1 - accuracy) / len(truth))),
        baseline=baseline,
        bayes_bound=bound,
        accuracy_without_report=accuracy_without,
        n_rows=len(truth),
        recall=_tabulate_recall(truth, is_correct, labels),
    )


def _tabulate_recall(truth: Codes, is_correct: Mask, labels: list[Any]) -> pd.DataFrame:
    """Return the recall of each value with its 95 % Wilson interval, rarest value first.

    `truth` has the code of the true value of each row, `is_correct` whether its guess is right, and `labels` the value
    of each code.
    """
    # A rare value has few rows, for which the Wilson interval is more accurate than a
    # normal interval.
    n_rows = np.bincount(truth)
    n_correct = np.bincount(truth[is_correct], minlength=n_rows.size)
    intervals = []
    for k, n in zip(n_correct, n_rows, strict=True):
        interval = binomtest(int(k), int(n)).proportion_ci(method="wilson")
        intervals.append((interval.low, interval.high))
    lower, upper = np.transpose(intervals)
    table = pd.DataFrame(
        {
            "proportion": n_rows / len(truth),
            "recall": n_correct / n_rows,
            "lower": lower,
            "upper": upper,
        },
        index=pd.Index(labels, name="value", tupleize_cols=False),
    )
    return table.sort_values("proportion", kind="stable")


def _predict_values(
    features: pd.DataFrame, truth: Codes, estimator: Any, cv: int, seed: int | None
) -> Any:
    """Predict the sensitive value of each row by cross-validation: codes of shape (n_rows,).

    `truth` has the code of the true value of each row, and `cv` is the number of folds.
    """
    # Folds cannot be stratified if a value has fewer rows than folds.
    splitter = StratifiedKFold if np.bincount(truth).min() >= cv else KFold
    if estimator is None:
        # Early stopping uses a stratified validation set, which fails for rare values.
        estimator = HistGradientBoostingClassifier(
            max_iter=60,
            max_leaf_nodes=15,
            categorical_features="from_dtype",
            early_stopping=False,
            random_state=seed,
        )
    folds = splitter(cv, shuffle=True, random_state=seed)
    return cross_val_predict(estimator, features, truth, cv=folds)


def code_column(column: pd.Series) -> pd.Series:
    """Convert a numeric column to floats, and another column to categories of codes."""
    is_number = pd.api.types.is_numeric_dtype(column.dtype)
    if is_number or column.isna().all():
        return pd.Series(column.to_numpy(float, na_value=np.nan))
    # pandas codes missing values as -1.
    codes, _ = pd.factorize(column)
    numbers = pd.Series(np.where(codes < 0, np.nan, codes))
    # scikit-learn's histogram trees accept at most 255 categories.
    if codes.max() >= 255:
        return numbers
    return numbers.astype("category")


def _code_combinations(columns: dict[Any, pd.Series]) -> Codes:
    """Return a code for the combination of values of each row; missing values are equal."""
    rows = pd.DataFrame(dict(enumerate(columns.values())))
    return rows.groupby(list(rows), dropna=False).ngroup().to_numpy()


def _encode_declared(
    encoder: Any, columns: dict[Any, pd.Series]
) -> tuple[Domain, Codes]:
    """Return the domain of the true values in `columns`, and the index of the combination of each row.

    An error is raised unless `encoder` is a fitted encoder of categories with these columns.
    """
    protocol: Any = getattr(encoder, "protocol_", None)
    if getattr(protocol, "strategy", None) is None:
        raise TypeError(
            "`encoder` must be a fitted encoder of categories, got "
            f"{type(encoder).__name__}."
        )
    # A single sensitive column may have any name, or no name.
    declared = list(protocol.domain.columns)
    names = declared if len(declared) == len(columns) == 1 else list(columns)
    if not {*names} <= {*declared}:
        raise ValueError(
            f"`sensitive_features` must have columns of the encoder, {declared}, got {names}."
        )
    domain = protocol.domain.select(names)
    codes = domain.encode(list(columns.values()))
    for name, size, column in zip(names, domain.sizes, codes, strict=True):
        if column.max(initial=0) == size:
            raise ValueError(
                f"Column {name!r} of `sensitive_features` must have only declared values, got "
                "another value. Pass the values before privatization."
            )
    return domain, domain.join(codes)


def _bound_accuracy(
    encoder: Any, domain: Domain, prior: Floats, report_names: set[Any]
) -> float:
    """Return the largest expected accuracy of predictions from reports.

    `prior` has the proportion of each cell of `domain`, the true values, and
    `report_names` are the names of the released reports.
    """
    # The exact accuracy is computed from the channel of the field of the sensitive
    # columns, if no other report, which may be correlated with them, is released.
    protocol = encoder.protocol_
    exact = None
    n_fields = len(protocol.fields)
    for field_, oracle in zip(protocol.fields, protocol.oracles, strict=True):
        is_only_report = report_names <= {*field_.names(), SAMPLED}
        if {*field_.columns} == {*domain.columns} and (is_only_report or n_fields == 1):
            exact = oracle.guess_accuracy(prior)
    if exact is None:
        return _bound_guess_accuracy(prior, encoder.guarantee_.epsilon)
    if protocol.strategy == "sample":
        # A record reports one of n_fields fields with equal probability. Without a report
        # of the field, the best prediction is the most frequent value.
        exact = (exact + (n_fields - 1) * prior.max()) / n_fields
    return float(exact)


def _bound_guess_accuracy(prior: Floats, epsilon: float) -> float:
    """Return the largest accuracy of guesses from reports of any epsilon-private protocol.

    `prior` has the probability of each value.
    """
    # The Bayes guess from a report r is the value v with the largest P(v) P(r | v). It is
    # correct with probability sum_r max_v P(v) P(r | v). The maximum over all protocols
    # with local epsilon is T = max over m of E P_m / (E + m - 1), where E = e^epsilon and
    # P_m is the sum of the m largest probabilities.
    #
    # T is attained by randomized response among the m most frequent values, with uniform
    # reports of all other values.
    #
    # T is not exceeded: choose numbers y_v >= max(0, (E P(v) - T) / (E - 1)) with the sum
    # T. They exist because these terms add up to at most T for any m values. For a report
    # r and a value v, P(r | u) >= P(r | v) / E for all u, so that
    # sum_u y_u P(r | u) >= P(r | v) (T + (E - 1) y_v) / E >= P(v) P(r | v).
    # The sum of the left side over all reports is T.
    sums = np.cumsum(np.sort(prior)[::-1])
    # Numerator and denominator are divided by E, which may be infinite.
    terms = sums / (1 + np.arange(prior.size) * np.exp(-epsilon))
    return min(1.0, float(terms.max()))


def bayes_accuracy(oracle: FrequencyOracle, prior: ArrayLike) -> float | Any:
    """Compute the exact accuracy of the best guess from a report of an oracle.

    Parameters
    ----------
    oracle : FrequencyOracle
        Frequency oracle of the report.
    prior : array-like of shape (k,)
        Probability of each value. The probabilities add up to 1.

    Returns
    -------
    float or None
        ``sum_r max_v P(v) P(r | v)`` over all reports r. None for oracles that hash
        values, and for channels with more than 2**20 entries.

    Raises
    ------
    ValueError
        If the prior is not a distribution of k values.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.evaluation import bayes_accuracy
    >>> from skdp.oracles import RandomizedResponse
    >>> round(bayes_accuracy(RandomizedResponse(2, np.log(3)), [0.5, 0.5]), 6)
    0.75
    """
    proportions = np.asarray(prior, float)
    is_list = proportions.ndim == 1 and proportions.size > 0
    if not is_list or not (proportions >= 0).all() or abs(proportions.sum() - 1) > 1e-9:
        raise ValueError(
            "`prior` must be a 1-D array of numbers >= 0 that add up to 1."
        )
    if proportions.size != oracle.k:
        raise ValueError(
            f"`prior` must have {oracle.k} entries, got {proportions.size}."
        )
    return oracle.guess_accuracy(proportions)
