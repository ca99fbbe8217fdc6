"""Attacks: prediction of a sensitive column from reports, and recognition of the rows of a synthetic table."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import pairwise_distances_argmin_min, roc_auc_score, roc_curve
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict

from skdp._arrays import Codes, ColumnLike, Floats, Mask, TableLike
from skdp.base import (
    NORMAL,
    check_row_order,
    draw_seed,
    find_binomial_interval,
    find_score_interval,
    on_one_thread,
)
from skdp.domain import Domain
from skdp.local import SAMPLED, ReportTransformer
from skdp.metrics import code_cells, parse_columns
from skdp.privacy import PrivacyGuarantee
from skdp.randomness import check_type


@dataclass(frozen=True, eq=False)
class AttackResult:
    """Accuracy of an attack on a sensitive column, with a baseline and a bound."""

    accuracy: float
    std_error: float
    baseline: float
    bayes_bound: float
    accuracy_without_report: float
    recall: pd.DataFrame = field(repr=False)


@on_one_thread
def attribute_inference(
    released: TableLike,
    sensitive_features: ColumnLike | TableLike,
    *,
    encoder: ReportTransformer | None = None,
    estimator: BaseEstimator | None = None,
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
    random_state : int, default=None
        Seed of the three folds and of the default estimator.

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
          declared values or bins, or integer codes if `encoder` is None.

    Raises
    ------
    TypeError, ValueError
        If the numbers of rows differ, the encoder is not fitted or has other columns, or
        the sensitive column has a single value.

    See Also
    --------
    audit_epsilon : A lower bound on the epsilon of a transformer.

    Notes
    -----
    **Privacy.** The result depends on true values and is not private. Use it for
    experiments on data that are not sensitive.

    **The bound** uses the proportions of the values in `sensitive_features` as the prior. It is
    exact if `released` contains the report of the sensitive column and no other report.
    Otherwise, and for hashed reports, it is the largest accuracy over all protocols
    with the epsilon of the released reports, because all of them may be correlated with
    the sensitive column. An accuracy that exceeds the bound by more than two standard
    errors is due to columns that are not reports. If there are no such columns, the release violates its guarantee.

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
    >>> round(result.accuracy, 2), round(result.bayes_bound, 2)
    (0.7, 0.73)

    A correlated column reveals the value at any epsilon of the report:

    >>> released["title"] = people["sex"].map({"F": "Ms", "M": "Mr"})
    >>> result = attribute_inference(released, people["sex"], encoder=encoder)
    >>> result.accuracy, result.accuracy_without_report
    (1.0, 1.0)
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
        cells: Any = code_cells(true_columns.values())[1]
    else:
        domain, cells = _encode_declared(encoder, true_columns)
    occurring, truth = np.unique(cells, return_inverse=True)
    # Names of columns may be repeated or not be text, so features are numbered.
    names = [f"x{index}" for index in range(len(columns))]
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
    is_correct = _predict_values(features, truth, estimator, seed) == truth
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
            predicted = _predict_values(other_features, truth, estimator, seed)
            accuracy_without = float((predicted == truth).mean())
    accuracy = float(is_correct.mean())
    return AttackResult(
        accuracy=accuracy,
        std_error=float(np.sqrt(accuracy * (1 - accuracy) / len(truth))),
        baseline=baseline,
        bayes_bound=bound,
        accuracy_without_report=accuracy_without,
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
    factor = NORMAL.quantile(0.95) ** 2 / n_rows
    lower, upper = find_score_interval(n_correct, n_rows, 0.0, factor)
    table = pd.DataFrame(
        {
            "proportion": n_rows / len(truth),
            "recall": n_correct / n_rows,
            "lower": lower / n_rows,
            "upper": upper / n_rows,
        },
        index=pd.Index(labels, name="value", tupleize_cols=False),
    )
    return table.sort_values("proportion", kind="stable")


def _predict_values(
    features: pd.DataFrame,
    truth: Codes,
    estimator: BaseEstimator | None,
    seed: int | None,
) -> Any:
    """Predict the sensitive value of each row, with code in `truth`, by cross-validation: codes of shape (n_rows,)."""
    # Folds cannot be stratified if a value has fewer rows than folds.
    n_folds = 3
    splitter = StratifiedKFold if np.bincount(truth).min() >= n_folds else KFold
    if estimator is None:
        # Early stopping uses a stratified validation set, which fails for rare values.
        estimator = HistGradientBoostingClassifier(
            max_iter=60,
            max_leaf_nodes=15,
            categorical_features="from_dtype",
            early_stopping=False,
            random_state=seed,
        )
    folds = splitter(n_folds, shuffle=True, random_state=seed)
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


def _encode_declared(
    encoder: ReportTransformer, columns: dict[Any, pd.Series]
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
    encoder: ReportTransformer, domain: Domain, prior: Floats, report_names: set[Any]
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
        return _bound_guess_accuracy(prior, encoder.guarantee_)
    if protocol.strategy == "sample":
        # A record reports one of n_fields fields with equal probability. Without a report
        # of the field, the best prediction is the most frequent value.
        exact = (exact + (n_fields - 1) * prior.max()) / n_fields
    return float(exact)


def _bound_guess_accuracy(prior: Floats, guarantee: PrivacyGuarantee) -> float:
    """Return the largest accuracy of guesses from reports with a guarantee, by its epsilon and by its losses.

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
    terms = sums / (1 + np.arange(prior.size) * np.exp(-guarantee.epsilon))
    # With the total variation d and the most frequent value u, P(guess v | v) is at most
    # P(guess v | u) + d. Multiplied by P(v) <= P(u) and added up over the values except u,
    # the accuracy is at most P(u) + (1 - P(u)) d.
    variation = 2 * guarantee.guess_probability - 1
    by_variation = prior.max() + (1 - prior.max()) * variation
    return min(1.0, float(terms.max()), float(by_variation))


@dataclass(frozen=True)
class MembershipResult:
    """Advantage of an attack that distinguishes members of a table from other rows."""

    auc: float
    advantage: float
    advantage_lower: float
    advantage_upper: float
    advantage_bound: float


@on_one_thread
def membership_inference(
    synthetic: TableLike,
    members: TableLike,
    non_members: TableLike,
    *,
    guarantee: PrivacyGuarantee | None = None,
    random_state: int | None = None,
) -> MembershipResult:
    """Measure how well the training rows of a synthesizer are distinguished from other rows.

    Rows that are close to a synthetic row are classified as members.

    Parameters
    ----------
    synthetic : dataframe or array-like of shape (n_synthetic, n_columns)
        Synthetic rows.
    members : dataframe or array-like of shape (n_members, n_columns)
        Rows that the synthesizer was fitted on; at least two.
    non_members : dataframe or array-like of shape (n_non_members, n_columns)
        Rows of the same population that the synthesizer was not fitted on; at least two.
    guarantee : PrivacyGuarantee, default=None
        Guarantee of the synthetic rows, such as ``synthesizer.guarantee_``.
    random_state : int, default=None
        Seed of the split of the rows into two halves.

    Returns
    -------
    MembershipResult
        Result with the attributes

        - ``auc``: probability that a member is closer to a synthetic row than a
          non-member, with ties counted as 1/2; 0.5 for an attack without success;
        - ``advantage``, ``advantage_lower``, ``advantage_upper``: true positive rate
          minus false positive rate, with a 95 % interval from the Clopper-Pearson
          intervals of both rates. The threshold is chosen on one half of the rows, and
          the rates are measured on the other half;
        - ``advantage_bound``: largest expected advantage under the guarantee; nan if
          `guarantee` is None.

    Raises
    ------
    TypeError, ValueError
        If the tables have different columns or too few rows, or a parameter is invalid.

    Notes
    -----
    **Privacy.** The result depends on true rows and is not private. Use it for
    experiments on data that are not sensitive.

    Rows are compared by Gower's distance [1]_: the sum over columns of 1 for different
    categories, and of the difference of two numbers divided by the range. A column of more
    than 255 categories counts as numbers in the order of their first rows, so that its
    categories differ by less than 1. Group such categories before.

    **The bound** is ``2 p - 1`` [2]_, with the ``guess_probability`` p of the guarantee
    for the replacement of a record. It holds on average over rows and noise if
    members and non-members are independent rows of the same population. A small
    advantage does not prove privacy, because other attacks may succeed.

    References
    ----------
    .. [1] J. Gower (1971). A general coefficient of similarity and some of its
       properties. Biometrics 27(4).
    .. [2] T. Humphries et al. (2023). Investigating membership inference attacks under
       data dependencies. IEEE CSF.

    Examples
    --------
    A copy of the table reveals its members:

    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp.evaluation import membership_inference
    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame(
    ...     {"age": rng.normal(40, 10, 400), "job": rng.choice(["a", "b"], 400)}
    ... )
    >>> result = membership_inference(rows[:200], rows[:200], rows[200:])
    >>> round(result.auc, 2), round(result.advantage, 2)
    (1.0, 1.0)
    """
    bound = _bound_advantage(guarantee)
    member_scores, other_scores = _score_proximity(synthetic, members, non_members)
    n_members, n_others = len(member_scores), len(other_scores)
    if min(n_members, n_others) < 2:
        raise ValueError(
            "`members` and `non_members` must have at least two rows each, got "
            f"{n_members} and {n_others}."
        )
    is_member = np.repeat([True, False], [n_members, n_others])
    scores = np.concatenate([member_scores, other_scores])
    seed = draw_seed(random_state)
    advantage, lower, upper = _measure_advantage(member_scores, other_scores, seed)
    return MembershipResult(
        auc=float(roc_auc_score(is_member, scores)),
        advantage=advantage,
        advantage_lower=lower,
        advantage_upper=upper,
        advantage_bound=bound,
    )


def _measure_advantage(
    member_scores: Floats, other_scores: Floats, seed: int | None
) -> tuple[float, float, float]:
    """Return the true minus the false positive rate of an attack, and its 95 % interval.

    `member_scores` are the scores of rows of the training table, and `other_scores` of other rows. Rows with scores at
    or above a threshold are classified as members.
    """
    # The threshold is chosen on one half of the rows and evaluated on the other half,
    # because its advantage on the first half is biased upward.
    rng = np.random.default_rng(seed)
    chosen_members, tested_members = np.array_split(rng.permutation(member_scores), 2)
    chosen_others, tested_others = np.array_split(rng.permutation(other_scores), 2)
    scores = np.concatenate([chosen_members, chosen_others])
    is_member = np.arange(len(scores)) < len(chosen_members)
    false_positives, true_positives, thresholds = roc_curve(
        is_member, scores, drop_intermediate=False
    )
    threshold = thresholds[np.argmax(true_positives - false_positives)]
    tested = tested_members, tested_others
    hits = np.array([np.sum(scores >= threshold) for scores in tested])
    misses = np.array(list(map(len, tested))) - hits
    # Each of the two rates gets half of the error probability of 5 %.
    low, high = find_binomial_interval(hits, misses, 0.975)
    rates = hits / (hits + misses)
    advantage = float(rates[0] - rates[1])
    return advantage, float(low[0] - high[1]), float(high[0] - low[1])


def _bound_advantage(guarantee: PrivacyGuarantee | None) -> float:
    """Return the largest expected advantage of any membership attack; nan without a guarantee."""
    if guarantee is None:
        return math.nan
    check_type("guarantee", guarantee, PrivacyGuarantee, "a PrivacyGuarantee")
    # The bound of an attack on one row is for the replacement of the row. Humphries et al.
    # (2023) bound it by the total variation.
    return 2 * guarantee.to("replace").guess_probability - 1


def _score_proximity(
    synthetic: TableLike, members: TableLike, non_members: TableLike
) -> tuple[Floats, Floats]:
    """Score members and non-members by the negative distance to the nearest synthetic row; each of shape (n_rows,).

    The distance is Gower's distance over all columns.
    """
    tables = {"synthetic": synthetic, "members": members, "non_members": non_members}
    parsed = {label: parse_columns(table, label) for label, table in tables.items()}
    names = list(parsed["synthetic"])
    for label, columns in parsed.items():
        if {*columns} != {*names}:
            raise ValueError(
                f"`{label}` must have the columns of synthetic, {names}, got "
                f"{list(columns)}."
            )
    # Coordinates of a column are computed for all tables together, so that codes and
    # ranges are the same; shape (n_synthetic + n_members + n_non_members, n_coordinates).
    coordinates = []
    for name in names:
        parts = [columns[name] for columns in parsed.values()]
        coordinates.append(_embed_column(pd.concat(parts, ignore_index=True)))
    points = np.column_stack(coordinates)
    n_synthetic = len(parsed["synthetic"][names[0]])
    n_members = len(parsed["members"][names[0]])
    _, distances = pairwise_distances_argmin_min(
        points[n_synthetic:], points[:n_synthetic], metric="manhattan"
    )
    return -distances[:n_members], -distances[n_members:]


def _embed_column(column: pd.Series) -> Floats:
    """Return coordinates whose Manhattan distance is Gower's distance; shape (n_rows, n_coordinates).

    Different categories have distance 1, and numbers their difference divided by the range.
    """
    coded = code_column(column)
    if isinstance(coded.dtype, pd.CategoricalDtype):
        # Two rows with different categories differ by 1/2 in two indicators.
        codes = coded.cat.codes.to_numpy() + 1
        return (codes[:, np.newaxis] == np.unique(codes)) / 2
    # Infinite numbers are clipped to the range of the finite numbers.
    numbers = coded.to_numpy(float)
    finite = numbers[np.isfinite(numbers)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    scaled = (np.clip(numbers, low, high) - low) / (high - low or 1.0)
    is_missing = np.isnan(numbers)
    return np.column_stack([np.where(is_missing, 0, scaled), is_missing])
