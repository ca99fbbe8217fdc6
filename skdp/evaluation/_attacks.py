"""Attacks on releases: guesses of a sensitive column, and of the rows behind a synthetic table."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest
from sklearn.base import BaseEstimator, is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import pairwise_distances_argmin_min, roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict

from skdp.base import ColumnLike, TableLike, check_row_order, draw_seed
from skdp.domain import Domain
from skdp.local import SAMPLED, ReportTransformer
from skdp.metrics import parse_columns
from skdp.oracles import FrequencyOracle
from skdp.privacy import PrivacyGuarantee

Codes = NDArray[np.intp]
Numbers = NDArray[np.float64]


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
        The true values, as they were before privatization. For several columns, combinations of values are guessed.
    encoder : fitted encoder of categories, optional
        The encoder that made the reports. It determines their names and the bound.
    estimator : classifier, optional
        The model of the attacker. It receives numbers, and other values as integer
        codes. By default a `HistGradientBoostingClassifier`.
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
    coded = map(_code_column, columns.values())
    frame = pd.DataFrame(
        {f"x{position}": column for position, column in enumerate(coded)}
    )
    if len(truth) != len(frame):
        raise ValueError(f"released has {len(frame)} rows, sensitive has {len(truth)}.")
    proportions = np.bincount(truth) / len(truth)
    if proportions.size < 2:
        raise ValueError("sensitive must have at least two values, got one.")

    bound, labels = np.nan, list(range(proportions.size))
    reports: set[Any] = set()
    if encoder is not None:
        reports = {*_report_names(encoder)} & {*columns}
        bound, labels = _bound_from_reports(encoder, true_columns, truth, reports)
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


def _code_column(column: pd.Series) -> pd.Series:
    """Convert a column to numbers, or to categories with nan for missing values."""
    is_number = pd.api.types.is_numeric_dtype(column.dtype)
    if is_number or column.isna().all():
        return pd.Series(column.to_numpy(float, na_value=np.nan))
    codes, _ = pd.factorize(column)
    numbers = pd.Series(np.where(codes < 0, np.nan, codes))
    # scikit-learn's histogram trees accept at most 255 categories.
    if codes.max() >= 255:
        return numbers
    return numbers.astype("category")


def _code_combinations(columns: dict[Any, pd.Series]) -> Codes:
    """Return a number for the combination of values of each row; missing values are one value."""
    rows = pd.DataFrame(dict(enumerate(columns.values())))
    return rows.groupby(list(rows), dropna=False).ngroup().to_numpy().astype(np.int64)


def _report_names(encoder: Any) -> list[Any]:
    """Return the names of all columns that an encoder outputs."""
    if getattr(getattr(encoder, "protocol_", None), "strategy", None) is None:
        raise TypeError(
            "encoder must be a fitted encoder of categories, got "
            f"{type(encoder).__name__}."
        )
    return list(encoder.get_feature_names_out())


def _bound_from_reports(
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
    for part, oracle in zip(protocol.fields, protocol.oracles, strict=True):
        # Other visible reports may be correlated with the sensitive columns.
        is_alone = reports <= {*part.names(), SAMPLED}
        if {*part.columns} == {*names} and (is_alone or len(protocol.fields) == 1):
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


def bayes_accuracy(oracle: FrequencyOracle, prior: ArrayLike) -> float | None:
    """Return the exact accuracy of the best guess from a report of an oracle.

    Parameters
    ----------
    oracle : FrequencyOracle
        The protocol.
    prior : array-like of shape (k,)
        The probability of each value; at least 0, with a sum of 1.

    Returns
    -------
    float or None
        ``sum_r max_v P(v) P(r | v)`` over all reports of the channel. None for protocols
        that hash, and for channels with more than 2**20 entries.

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
    proportions = _check_prior(prior)
    if proportions.size != oracle.k:
        raise ValueError(f"prior must have {oracle.k} entries, got {proportions.size}")
    return oracle.guess_accuracy(proportions)


def _check_prior(prior: Any) -> Numbers:
    """Return probabilities as an array."""
    proportions = np.asarray(prior, float)
    is_list = proportions.ndim == 1 and proportions.size > 0
    if not is_list or not (proportions >= 0).all() or abs(proportions.sum() - 1) > 1e-9:
        raise ValueError("prior must be probabilities, at least 0, that add up to 1")
    return proportions


@dataclass(frozen=True)
class MembershipResult:
    """The advantage of an attack that distinguishes members of a table from other rows."""

    auc: float
    advantage: float
    advantage_lower: float
    advantage_upper: float
    advantage_bound: float


def membership_inference(
    synthetic: TableLike,
    members: TableLike,
    non_members: TableLike,
    *,
    guarantee: PrivacyGuarantee | None = None,
    random_state: int | None = None,
) -> MembershipResult:
    """Distinguish the training rows of a synthesizer from other rows of the population.

    Rows close to a synthetic row are classified as members.

    Parameters
    ----------
    synthetic : dataframe or array-like of shape (n_synthetic, n_columns)
        The synthetic rows.
    members : dataframe or array-like of shape (n_members, n_columns)
        Rows that the synthesizer was fitted on; at least two.
    non_members : dataframe or array-like of shape (n_non_members, n_columns)
        Rows of the same population that it was not fitted on; at least two.
    guarantee : PrivacyGuarantee, optional
        The guarantee of the rows, such as ``synthesizer.guarantee_``.
    random_state : int, optional
        Seed of the split into two halves.

    Returns
    -------
    MembershipResult
        The outcome, with the attributes

        - ``auc``: the probability that a member is nearer than a non-member, ties
          counted half; 0.5 if nothing is learned;
        - ``advantage``, ``advantage_lower``, ``advantage_upper``: the true positive
          rate minus the false positive rate, at the best threshold for one half of the
          rows, measured on the other half, with a 95 % interval from the
          Clopper-Pearson intervals of both rates;
        - ``advantage_bound``: the largest expected advantage under the guarantee; nan
          without one.

    Raises
    ------
    TypeError, ValueError
        If the tables have different columns or too few rows, or a parameter is invalid.

    Notes
    -----
    **Privacy.** The result depends on true rows and is not private. Use it for
    experiments on data that are not sensitive.

    The distance of Gower [1]_ is the sum over columns of 1 for different categories and
    of the difference of numbers divided by their range.

    **The bound** is ``(e^epsilon - 1 + 2 delta) / (e^epsilon + 1)`` [2]_, with the
    epsilon for the replacement of a record. It holds on average over rows and noise if
    members and non-members are independent rows of one population. An attack that fails
    proves nothing.

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
    bound = _advantage_bound(guarantee)
    inside, outside = _nearness(synthetic, members, non_members)
    if min(len(inside), len(outside)) < 2:
        raise ValueError("members and non_members must have at least two rows each")
    is_member = np.repeat([True, False], [len(inside), len(outside)])
    seed = draw_seed(random_state)
    advantage, lower, upper = _measure_advantage(inside, outside, seed)
    return MembershipResult(
        auc=float(roc_auc_score(is_member, np.concatenate([inside, outside]))),
        advantage=advantage,
        advantage_lower=lower,
        advantage_upper=upper,
        advantage_bound=bound,
    )


def _measure_advantage(
    inside: Numbers, outside: Numbers, seed: int | None
) -> tuple[float, float, float]:
    """Choose a threshold on half of the rows; measure the difference of the rates on the other half."""
    # A threshold that was chosen on the tested rows would look better than it is.
    rng = np.random.default_rng(seed)
    members_chosen, members_tested = np.array_split(rng.permutation(inside), 2)
    others_chosen, others_tested = np.array_split(rng.permutation(outside), 2)
    candidates = np.unique(np.concatenate([members_chosen, others_chosen]))
    gains = _rates(members_chosen, candidates) - _rates(others_chosen, candidates)
    threshold = candidates[np.argmax(gains)]
    rates, intervals = [], []
    for scores in (members_tested, others_tested):
        test = binomtest(int((scores >= threshold).sum()), scores.size)
        rates.append(float(test.statistic))
        # Each of the two rates gets half of the error probability of 5 %.
        intervals.append(test.proportion_ci(0.975))
    true, false = intervals
    return rates[0] - rates[1], true.low - false.high, true.high - false.low


def _rates(scores: Numbers, thresholds: Numbers) -> Numbers:
    """Return the proportion of scores at or above each threshold."""
    return 1 - np.searchsorted(np.sort(scores), thresholds) / scores.size


def _advantage_bound(guarantee: Any) -> float:
    """Return the largest expected advantage; nan without a guarantee."""
    if guarantee is None:
        return math.nan
    if not isinstance(guarantee, PrivacyGuarantee):
        raise TypeError(
            f"guarantee must be a PrivacyGuarantee, got {type(guarantee).__name__}"
        )
    replaced = guarantee.to("replace")
    # (e^epsilon - 1 + 2 delta) / (e^epsilon + 1), divided by e^epsilon, which may be
    # infinite.
    inverse = math.exp(-replaced.epsilon)
    return min(1.0, (1 - inverse + 2 * replaced.delta * inverse) / (1 + inverse))


def _nearness(
    synthetic: Any, members: Any, non_members: Any
) -> tuple[Numbers, Numbers]:
    """Score rows by the negative distance to the nearest synthetic row."""
    tables = {"synthetic": synthetic, "members": members, "non_members": non_members}
    read = {label: parse_columns(table, label) for label, table in tables.items()}
    names = list(read["synthetic"])
    for label, columns in read.items():
        if {*columns} != {*names}:
            raise ValueError(
                f"{label} must have the columns of synthetic, {names}, got "
                f"{list(columns)}"
            )
    coordinates = []
    for name in names:
        parts = [columns[name] for columns in read.values()]
        coordinates.append(_coordinates(pd.concat(parts, ignore_index=True)))
    # (n_synthetic + n_members + n_non_members, n_coordinates)
    points = np.column_stack(coordinates)
    n_synthetic, n_members, _ = (len(columns[names[0]]) for columns in read.values())
    _, distances = pairwise_distances_argmin_min(
        points[n_synthetic:], points[:n_synthetic], metric="manhattan"
    )
    return -distances[:n_members], -distances[n_members:]


def _coordinates(column: pd.Series) -> Numbers:
    """Return coordinates in which different categories have distance 1, and numbers are scaled by their range."""
    coded = _code_column(column)
    if isinstance(coded.dtype, pd.CategoricalDtype):
        codes = coded.cat.codes.to_numpy() + 1
        return (codes[:, np.newaxis] == np.unique(codes)) / 2
    numbers = coded.to_numpy(float)
    finite = numbers[np.isfinite(numbers)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    scaled = (np.clip(numbers, low, high) - low) / (high - low or 1.0)
    is_missing = np.isnan(numbers)
    return np.column_stack([np.where(is_missing, 0, scaled), is_missing])
