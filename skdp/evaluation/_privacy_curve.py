"""Scores of an estimator at several epsilons, and their differences from a baseline."""

from __future__ import annotations

import itertools
import math
import re
import warnings
import zlib
from collections.abc import Iterable, Mapping
from fractions import Fraction
from numbers import Integral
from typing import Any, Self

import joblib
import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import check_cv, cross_validate
from sklearn.utils import check_consistent_length, get_tags

from skdp._arrays import ColumnLike, Indices, TableLike
from skdp.base import ErrorDistribution, check_row_order, draw_seed, on_one_thread
from skdp.local import OnFitOnly, PosteriorFeatures
from skdp.privacy import (
    Mu,
    Rho,
    WeakGuaranteeWarning,
    check_epsilon,
    divide_epsilon,
    find_private_steps,
    parse_budget,
    privacy_statement,
)
from skdp.randomness import check_type
from skdp.synthesis import DPColumnSynthesizer, DPMarginalSynthesizer

# Columns of the result of `privacy_curve`.
COLUMNS = ["epsilon", "split", "metric", "value", "n_train", "n_test"]

# Columns that identify a point of a curve.
POINT = ("metric", "epsilon")


# Text, category, file and line of a warning.
IssuedWarning = tuple[str, type[Warning], str, int]

# Steps whose `transform` does not release the rows that are predicted.
NOT_REPEATED = (OnFitOnly, DPColumnSynthesizer, DPMarginalSynthesizer)


def privacy_curve(
    estimator: BaseEstimator,
    X: TableLike,
    y: ColumnLike,
    *,
    param_name: str | None = None,
    epsilons: Iterable[float | Rho | Mu],
    scoring: object = None,
    cv: object = 5,
    baseline: BaseEstimator | str | None = "auto",
    n_jobs: int | None = None,
    random_state: int | None = None,
) -> pd.DataFrame:
    """Score an estimator by cross-validation at several epsilons, and without privacy.

    The estimator and the baseline are fitted and scored on the same splits at all
    epsilons.

    Parameters
    ----------
    estimator : estimator
        Model with a private step, such as a Pipeline with a local transformer or a
        private scaler. Wrap a local transformer in `OnFitOnly` to predict from true
        rows.
    X : dataframe or array of shape (n_samples, n_features)
        True rows.
    y : array-like or series of shape (n_samples,)
        True targets.
    param_name : str, default=None
        Nested name of the epsilon of one step, such as ``"columns__private__epsilon"``. If None, all private steps
        share each epsilon in proportion to their own epsilons, as in `PrivacyLedger.split`.
    epsilons : iterable of float, Rho or Mu
        Distinct totals of all private steps, > 0, such as ``[Mu.of(guess=g) for g in (0.55, 0.6)]``.
    scoring : str, callable, list, tuple or dict, default=None
        As for `sklearn.model_selection.cross_validate`. A callable
        ``scorer(estimator, X, y)`` is called with the true test rows and returns a
        number or a dict of numbers, such as fairness metrics of the true groups in X.
        If None, accuracy is used for a classifier and R² for a regressor.
    cv : int, splitter or iterable of (train, test), default=5
        Cross-validation splits. An int is the number of folds, which are shuffled, and
        stratified for a classifier. To repeat the cross-validation, use a splitter such
        as ``RepeatedStratifiedKFold(random_state=0)``. Each split has independent
        noise.
    baseline : "auto", estimator or None, default="auto"
        Model without privacy. "auto" uses the same estimator with epsilon=1e9 and no
        ledger. For fairness, also compare with a model without the sensitive columns.
    n_jobs : int, default=None
        Number of jobs to run in parallel, with one thread each.
    random_state : int, default=None
        None uses secure randomness. With an int, each fit has its own seed, which does
        not change when epsilons or splits are added.

    Returns
    -------
    pandas.DataFrame
        Columns ``epsilon, split, metric, value, n_train, n_test, guess``, one row for each
        epsilon, split and metric. The baseline has an infinite epsilon and is first;
        ``attrs["baseline"]`` is its name in plots. ``guess`` is the largest probability of a
        correct guess between two neighboring tables, as `privacy_statement` states it for the
        fitted estimator; nan without a total guarantee.

    Raises
    ------
    BudgetExceeded
        If the ledger of the step does not cover a release.
    TypeError, ValueError
        If a parameter is out of range, or X and y have the same row labels in different
        orders.

    See Also
    --------
    PrivacyCurveDisplay : Plot of the scores.
    compare_to_baseline : Differences from the baseline, with intervals.

    Notes
    -----
    **Privacy.** The result is computed from true rows and is not private.

    Rows have no weights, because `cross_validate` weighs no scores: a callable as
    `scoring` can read weights from a column of X. `fairness_study` takes `sample_weight`.

    The ledger of a private step is charged once for each fit. It is charged once more
    for the test rows of a local transformer, which are released once for all scorers.
    The baseline is fitted first, so that most errors are raised before a charge. The deltas of
    the steps are not changed.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.datasets import load_adult
    >>> from skdp.evaluation import privacy_curve
    >>> adult = load_adult()
    >>> X, y = adult.data.loc[:2000, ["marital-status"]], adult.target[:2001]
    >>> encoder = RandomizedResponseEncoder(categories=adult.domain.select(X.columns))
    >>> model = make_pipeline(encoder, OneHotEncoder(), LogisticRegression())
    >>> curve = privacy_curve(
    ...     model,
    ...     X,
    ...     y,
    ...     epsilons=[0.1, 5.0],
    ...     scoring=["accuracy", "roc_auc"],
    ...     random_state=0,
    ... )
    >>> curve.query("metric == 'roc_auc'").groupby("epsilon")["value"].mean().round(1)
    epsilon
    0.1    0.5
    5.0    0.8
    inf    0.8
    Name: value, dtype: float64
    """
    totals = _read_totals(epsilons)
    check_consistent_length(X, y)
    check_row_order(X=X, y=y)
    seed = draw_seed(random_state)
    steps = {} if param_name is not None else find_private_steps(estimator)
    if param_name is None and not steps:
        raise ValueError(
            "`estimator` must have a private step, with the parameters epsilon and "
            "ledger, got none. Add one, such as DPStandardScaler, or set `param_name`."
        )
    if not steps and param_name not in estimator.get_params():
        raise ValueError(
            f"`param_name` must be a parameter of the estimator, got {param_name!r}."
        )
    names: dict[str, Any] = {prefix: f"{prefix}epsilon" for prefix in steps}
    names = names or {"": param_name}
    if scoring is None:
        scoring = "accuracy" if is_classifier(estimator) else "r2"
    splits = _list_splits(estimator, y, cv)
    is_automatic = isinstance(baseline, str) and baseline == "auto"
    if is_automatic:
        # Reports with an epsilon of 1e9 are equal to the true values.
        exact = dict.fromkeys(names.values(), 1e9)
        baseline = _set_epsilons(estimator, exact, None, is_baseline=True)
    parts = {}
    for epsilon, total in totals.items():
        divided = divide_epsilon(steps, total) if steps else {"": total}
        parts[epsilon] = {names[prefix]: part for prefix, part in divided.items()}

    def make_task(cell: tuple[float, int]) -> Any:
        """Return the delayed fit and score of one epsilon on one split."""
        epsilon, number = cell
        model = baseline
        if epsilon < math.inf:
            model = _set_epsilons(estimator, parts[epsilon], derive_seed(seed, *cell))
        return delayed(_score_split)(model, X, y, splits[number], scoring, epsilon)

    rows, issued = [], []
    # All fits of the baseline are finished before a charge.
    for levels in ([] if baseline is None else [math.inf], totals):
        cells = list(itertools.product(levels, range(len(splits))))
        results = Parallel(n_jobs=n_jobs)(map(make_task, cells))
        for cell, (scores, guess, found) in zip(cells, results, strict=True):
            issued += found
            sizes = *map(len, splits[cell[1]]), guess
            rows += [(*cell, name, value, *sizes) for name, value in scores.items()]
    curve = pd.DataFrame(rows, columns=[*COLUMNS, "guess"])
    curve.attrs["baseline"] = "no privacy" if is_automatic else "the baseline"
    _issue_distinct(issued)
    return curve


def _issue_distinct(issued: Iterable[IssuedWarning]) -> None:
    """Issue the warnings of all fits: of equal ones, also about different columns, the first."""
    distinct: dict[Any, IssuedWarning] = {}
    for warning in issued:
        text, category, *_ = warning
        distinct.setdefault((category, re.sub(r"\[.*?\]", "", text)), warning)
    for warning in distinct.values():
        warnings.warn_explicit(*warning)


def _read_totals(epsilons: Iterable[float | Rho | Mu]) -> dict[float, Any]:
    """Return totals as numbers, Rho or Mu, by their epsilons; raise an error unless these are distinct."""
    expected = "a list of numbers, Rho or Mu, such as [Mu.of(guess=0.6)]"
    check_type("epsilons", epsilons, Iterable, expected, excluded=str)
    totals = [
        x if isinstance(x, Rho | Mu) else check_epsilons([x])[0] for x in epsilons
    ]
    stated = [_state_epsilon(total) for total in totals]
    return dict(zip(check_epsilons(stated), totals, strict=True))


def _state_epsilon(total: float | Rho | Mu) -> float:
    """Return the epsilon of a total; of a Rho or Mu at its delta."""
    if not isinstance(total, Rho | Mu):
        return total
    return float(parse_budget(total).state_guarantee((), Fraction(0), None)["epsilon"])


def _list_splits(estimator: BaseEstimator, y: Any, cv: object) -> list[Any]:
    """Return the indices of the training and of the test rows of each split."""
    folds = check_cv(cv, y, classifier=is_classifier(estimator))
    if isinstance(cv, Integral):
        # All calls use the same splits, so that epsilons can be added to a curve later.
        folds = type(folds)(folds.n_splits, shuffle=True, random_state=0)
    return [tuple(map(np.asarray, split)) for split in folds.split(np.zeros(len(y)), y)]


@on_one_thread
def _score_split(
    model: BaseEstimator,
    X: TableLike,
    y: ColumnLike,
    split: tuple[Indices, ...],
    scoring: object,
    epsilon: float,
) -> tuple[dict[str, float], float, list[IssuedWarning]]:
    """Fit and score a model on a pair of training and test indices.

    Return the metrics by name, the guess, and the warnings.
    """
    name = scoring if isinstance(scoring, str) else "score"
    with warnings.catch_warnings(record=True) as issued:
        if epsilon == math.inf:
            # The user did not choose the large epsilon of the baseline.
            warnings.simplefilter("ignore", WeakGuaranteeWarning)
        result = cross_validate(
            model,
            X,
            y,
            cv=[split],
            scoring=scoring,
            error_score="raise",
            return_estimator=epsilon < math.inf,
        )
    guess = math.nan
    if epsilon < math.inf:
        total = privacy_statement(result["estimator"][0]).total
        guess = math.nan if total is None else total.guess_probability
    # cross_validate also returns times, and names a single score "test_score".
    scores = {}
    for key, values in result.items():
        if key.startswith("test_"):
            key = key.removeprefix("test_")
            scores[name if key == "score" else key] = float(values[0])
    found = [(str(x.message), x.category, x.filename, x.lineno) for x in issued]
    return scores, guess, found


def derive_seed(seed: int | None, epsilon: float, *numbers: int) -> int | None:
    """Derive a seed from a seed, an epsilon and further numbers; None without a seed."""
    if seed is None:
        return None
    # The bits of the float, because SeedSequence requires integers.
    bits = int(np.float64(epsilon).view(np.uint64))
    sequence = np.random.SeedSequence([seed, bits, *numbers])
    return int(sequence.generate_state(1)[0])


def _set_epsilons(
    estimator: BaseEstimator,
    epsilons: Mapping[Any, Any],
    seed: int | None,
    *,
    is_baseline: bool = False,
) -> Any:
    """Return a clone with other epsilons, by name, and another seed; the baseline has no ledger."""
    model = clone(estimator)
    params = model.get_params()
    changes = dict(epsilons)
    for name in params:
        prefix, _, parameter = name.rpartition("__")
        prefix = f"{prefix}__" if prefix else ""
        is_private = f"{prefix}epsilon" in params or f"{prefix}ledger" in params
        if parameter == "random_state" and is_private:
            # The name is hashed into the seed, so that each private step has its own
            # noise.
            name_hash = zlib.crc32(name.encode())
            changes[name] = None if seed is None else (seed ^ name_hash) % (1 << 32)
        elif parameter == "ledger" and is_baseline:
            changes[name] = None
    model.set_params(**changes)
    for name in epsilons:
        _cache_release(model, name)
    return model


def _cache_release(model: BaseEstimator, param_name: str) -> None:
    """Replace the step with an epsilon by a step that releases the same rows once, if it releases rows."""
    params = model.get_params()
    owner = param_name.rpartition("__")[0]
    # The skdp wrapper around the step releases its rows.
    parent = owner.rpartition("__")[0]
    if isinstance(params.get(parent), PosteriorFeatures | OnFitOnly):
        owner = parent
    step = params.get(owner)
    is_released = hasattr(step, "transform") and getattr(step, "protects_rows", True)
    if is_released and not isinstance(step, NOT_REPEATED):
        model.set_params(**{owner: CachedRelease(step)})


class CachedRelease(MetaEstimatorMixin, BaseEstimator):
    """Transformer that repeats its last release if it is called with the same rows."""

    # Scorers call `predict` and `predict_proba`, which would release the test rows twice.

    def __init__(self, transformer: BaseEstimator) -> None:
        self.transformer = transformer

    @property
    def guarantee_(self) -> Any:
        """The guarantee of the transformer."""
        return self.transformer_.guarantee_

    def fit(self, X: TableLike, y: ColumnLike | None = None) -> Self:
        """Fit a clone of the transformer."""
        self.transformer_ = clone(self.transformer).fit(X, y)
        return self

    def fit_transform(
        self, X: TableLike, y: ColumnLike | None = None, **params: object
    ) -> Any:
        """Fit a clone of the transformer and release X."""
        self.transformer_ = clone(self.transformer)
        return self.transformer_.fit_transform(X, y, **params)

    def transform(self, X: TableLike) -> Any:
        """Release X, or return the last release if it was a release of the same rows."""
        # Rows are compared by a hash, because a meta-estimator may pass a copy.
        rows_hash = joblib.hash(X)
        if getattr(self, "_last_release", (None,))[0] != rows_hash:
            self._last_release = rows_hash, self.transformer_.transform(X)
        return self._last_release[1]

    def set_output(self, *, transform: str | None = None) -> Self:
        """Set the output container of the transformer."""
        self.transformer.set_output(transform=transform)
        return self

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Any:
        """Return the output feature names of the fitted transformer."""
        return self.transformer_.get_feature_names_out(input_features)

    def __sklearn_is_fitted__(self) -> bool:
        """Return True after `fit`."""
        return hasattr(self, "transformer_")

    def __sklearn_tags__(self) -> Any:
        """Return the tags of the transformer."""
        return get_tags(self.transformer)


def compare_to_baseline(
    curve: pd.DataFrame, *, baseline: str | None = None
) -> pd.DataFrame:
    """Estimate the differences of scores at each epsilon from the scores of a baseline.

    Parameters
    ----------
    curve : pandas.DataFrame
        Result of `privacy_curve` with a baseline, or of `fairness_study`.
    baseline : str, default=None
        Baseline method of a `fairness_study`. If None, rows with an infinite epsilon
        are the baseline.

    Returns
    -------
    pandas.DataFrame
        One row for each metric and epsilon, and for each method and encoder of a study,
        with the columns ``metric, epsilon, difference, std_error, lower, upper, n_pairs``,
        for a `privacy_curve` also ``guess``, and 95 % intervals. The difference is the mean over
        the ``n_pairs`` splits in which both scores are finite. If there are fewer than two such splits,
        ``std_error``, ``lower`` and ``upper`` are nan.

    Raises
    ------
    TypeError, ValueError
        If the curve lacks a column or the baseline, or has a repeated split.

    See Also
    --------
    PrivacyCurveDisplay : Plot of the differences, with ``kind="difference"``.

    Notes
    -----
    **Privacy.** Scores are computed from true rows and are not private.

    Splits have most of their rows in common, so the usual standard error is too small.
    For n pairs whose differences have the variance s², and m test rows per training
    row, the corrected standard error is ``sqrt((1 / n + m) s²)``, with Student's t with
    n - 1 degrees of freedom [1]_, [2]_. The intervals are conservative if most of the
    variance is due to the noise, which is independent in each split.

    References
    ----------
    .. [1] C. Nadeau, Y. Bengio (2003). Inference for the generalization error. Machine
       Learning 52.
    .. [2] R. R. Bouckaert, E. Frank (2004). Evaluating the replicability of
       significance tests for comparing learning algorithms. PAKDD.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.evaluation import compare_to_baseline
    >>> rows = [
    ...     (epsilon, split, "accuracy", score + 0.01 * split * (epsilon < 2), 400, 100)
    ...     for epsilon, score in ((float("inf"), 0.81), (1.0, 0.74))
    ...     for split in range(5)
    ... ]
    >>> names = ["epsilon", "split", "metric", "value", "n_train", "n_test"]
    >>> compare_to_baseline(pd.DataFrame(rows, columns=names)).round(3)
         metric  epsilon  difference  std_error  lower  upper  n_pairs
    0  accuracy      1.0       -0.05      0.011 -0.079 -0.021        5
    """
    curve = check_curve(curve)
    is_baseline = np.isinf(curve["epsilon"])
    if baseline is not None:
        check_table(curve, "curve", ["method"])
        is_baseline = curve["method"] == baseline
    if not is_baseline.any():
        raise ValueError(
            "`curve` must have a baseline: rows with an infinite epsilon, or rows of "
            "the method `baseline`, got none."
        )
    check_splits(curve[is_baseline], ["metric"])
    # Each score is paired with the score of the baseline on the same split.
    pairs = curve[~is_baseline].merge(
        curve.loc[is_baseline, ["metric", "split", "value"]],
        on=["metric", "split"],
        how="left",
        suffixes=("", "_baseline"),
        validate="many_to_one",
    )
    pairs["value"] -= pairs["value_baseline"]
    return summarize_splits(pairs).rename(columns={"mean": "difference"})


def summarize_splits(curve: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over the splits of each method, metric and epsilon, with a 95 % interval.

    The columns are "mean", "std_error", "lower", "upper" and "n_pairs", the number of finite values.
    """
    # An undefined score, such as a nan, is excluded from all statistics.
    value = curve["value"].where(np.isfinite(curve["value"]))
    # The standard error of Nadeau and Bengio (2003).
    ratio = curve["n_test"] / curve["n_train"]
    # The encoder of a baseline is missing in a study that was read from a file.
    grouped = curve.assign(value=value, ratio=ratio).groupby(
        list_keys(curve), sort=False, dropna=False
    )
    table = grouped["value"].agg(["mean", "var", "count"])
    n = table["count"]
    variance = (1 / n.where(n > 1) + grouped["ratio"].mean()) * table["var"]
    table["std_error"] = np.sqrt(variance)
    distribution = ErrorDistribution((n - 1).clip(lower=1).to_numpy())
    table["lower"], table["upper"] = distribution.confidence_interval(
        table["mean"], table["std_error"], 0.95
    )
    columns = ["mean", "std_error", "lower", "upper", "n_pairs"]
    if "guess" in curve:
        table["guess"] = grouped["guess"].max()
        columns.append("guess")
    return table.rename(columns={"count": "n_pairs"})[columns].reset_index()


def list_keys(curve: pd.DataFrame) -> list[str]:
    """Return the columns that identify a point of a curve, which has a score for each split."""
    return [*(name for name in ("method", "encoder") if name in curve), *POINT]


def check_curve(curve: pd.DataFrame) -> pd.DataFrame:
    """Return a result of `privacy_curve` or `fairness_study` without repeated rows; raise an error for others."""
    numbers = ("epsilon", "value", "n_train", "n_test")
    check_table(curve, "curve", COLUMNS, numbers=numbers)
    if not np.isfinite(curve["epsilon"]).any():
        raise ValueError("`curve` must have rows with a finite epsilon, got none.")
    # Concatenated studies repeat the scores of their baselines.
    attrs, curve = curve.attrs, curve.drop_duplicates().reset_index(drop=True)
    curve.attrs = attrs
    check_splits(curve, list_keys(curve))
    return curve


def check_splits(curve: pd.DataFrame, keys: Iterable[str]) -> None:
    """Raise an error if a split is repeated in the rows of a curve that have equal keys."""
    if curve.duplicated([*keys, "split"]).any():
        raise ValueError(
            "`curve` must have each split once for each epsilon and metric, got a "
            "repeated split. Use a single baseline: compute the other curves to "
            "concatenate with `baseline=None`. A column method distinguishes curves."
        )


def check_epsilons(epsilons: Iterable[float]) -> list[float]:
    """Return the values of epsilon to compare; raise an error unless they are valid and distinct."""
    check_type("epsilons", epsilons, Iterable, "a list of numbers", excluded=str)
    values = list(epsilons)
    for epsilon in values:
        check_epsilon(epsilon, name="epsilons[i]")
    if not values:
        raise ValueError("`epsilons` must have at least one number, got none.")
    values = list(map(float, values))
    if len(set(values)) < len(values):
        raise ValueError("`epsilons` must be distinct, got a repeated number.")
    return values


def check_table(
    table: object, name: str, columns: Iterable[str], *, numbers: Iterable[str] = ()
) -> None:
    """Raise an error unless an argument is a DataFrame with some columns, of which `numbers` are numeric."""
    required = list(columns)
    if not isinstance(table, pd.DataFrame) or not {*required} <= {*table.columns}:
        raise TypeError(
            f"`{name}` must be a DataFrame with the columns {', '.join(required)}, got "
            f"{type(table).__name__} without all of them."
        )
    for column in numbers:
        dtype = table[column].dtype
        if not pd.api.types.is_numeric_dtype(dtype):
            raise TypeError(
                f"`{name}` must have numbers in the column {column}, got dtype {dtype}."
            )
