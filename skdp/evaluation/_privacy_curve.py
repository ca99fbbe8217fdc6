"""The cost of privacy by epsilon: a curve, its table, and what privacy costs in pairs of fits on the same split."""

from __future__ import annotations

import itertools
import json
import math
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, get_args

import joblib
import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import stats
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.model_selection import check_cv
from sklearn.utils import check_consistent_length

from skdp.base import (
    ColumnLike,
    ColumnName,
    Label,
    PathType,
    Privileged,
    TableLike,
    check_confidence_level,
    check_row_order,
    check_same_order,
    draw_seed,
)
from skdp.evaluation._common import check_count, check_table, counted, read_epsilons
from skdp.evaluation._curve_cells import (
    ALL,
    Cell,
    Row,
    Step,
    Study,
    cells_of,
    read_groups,
    read_scoring,
)
from skdp.privacy import WeakGuaranteeWarning
from skdp.tables import is_frame

Privatize = Literal["always", "fit"]


def privacy_curve(
    estimator: BaseEstimator,
    X: TableLike,
    y: ColumnLike,
    *,
    param_name: str,
    epsilons: Iterable[float],
    sensitive_features: ColumnName | TableLike | ColumnLike | None = None,
    privileged: Privileged | None = None,
    positive_label: Label | None = None,
    scoring: Any = None,
    cv: Any = None,
    groups: ColumnLike | None = None,
    sample_weight: ColumnLike | None = None,
    params: Mapping[str, Any] | None = None,
    n_repeats: int = 1,
    privatize: Privatize = "always",
    baseline: Any = "auto",
    n_jobs: int | None = None,
    random_state: int | None = None,
    path: PathType | None = None,
    progress: bool = False,
) -> pd.DataFrame:
    """Score an estimator by cross-validation at several epsilons, and without privacy.

    Like scikit-learn's `validation_curve`, with several metrics, metrics by group, repeats and a baseline. All epsilons
    and the baseline are fitted and scored on the same splits.

    Parameters
    ----------
    estimator : estimator
        A model with a privatising step: a local transformer in a Pipeline, also within a ColumnTransformer or a search,
        a private scaler, a `SyntheticResampler` in a pipeline of imbalanced-learn. It is cloned.
    X : dataframe or array of shape (n_samples, n_features)
        The true rows: a pandas, polars or pyarrow table, or an array.
    y : array-like or series of shape (n_samples,)
        The true targets.
    param_name : str
        The nested name of the step's epsilon, such as ``"columns__private__epsilon"``.
    epsilons : iterable of float
        The privacy losses to try: finite, > 0, all different.
    sensitive_features : str, int, list of them, array-like of shape (n_samples,) or (n_samples, k), optional
        Defines the group of a row, for scores only: a column name of X, or the values; or several, whose combinations
        are groups. A list as long as X is taken as values.
    privileged, positive_label : optional
        For aif360's metrics, as for `fairness_report`.
    scoring : str, callable, list, tuple or dict, optional
        One metric or several; a dict names them. Each is one of

        - a name of a scikit-learn scorer, such as ``"roc_auc"``;
        - a scorer ``scorer(estimator, X, y)``; it must pass X itself to the estimator, not a part of it;
        - a name of a method of aif360's ``ClassificationMetric``: ``"statistical_parity_difference"``,
          ``"disparate_impact"``, ``"equal_opportunity_difference"``, ``"average_odds_difference"``, as
          `fairness_report` computes them (they come last in the result);
        - a callable with a parameter ``sensitive_features``, as in fairlearn, which is called with this, ``y_true`` and
          ``y_pred`` by name. It returns a number, or a ``MetricFrame``, such as
          ``functools.partial(MetricFrame, metrics=accuracy_score)``: one row for all and one for each group. For a
          MetricFrame of several metrics, each is named ``<name>__<metric>``.

        A ``functools.partial`` and the result of ``make_scorer`` are named by their function, a partial ``MetricFrame``
        by its metric. By default, accuracy for a classifier and R² for a regressor.
    cv : int, splitter or iterable of (train, test), optional
        By default 5. An int is the number of folds, shuffled, stratified for a classifier, different in each repeat,
        but the same in each call for any `random_state`. Other splits are made once and used in every repeat.
    groups : array-like of shape (n_samples,), optional
        The groups whose rows are kept together, for a splitter that uses them: `cv` must be one, such as
        ``GroupKFold(5)``. Not the groups of `sensitive_features`.
    sample_weight : array-like of shape (n_samples,), optional
        The weights of rows in the scores, finite and at least 0. Each scorer must take a ``sample_weight``, or be
        fairlearn's ``MetricFrame``, or the name of a metric. To fit with weights, use `params`.
    params : mapping of str to object, optional
        What `fit` gets beside the rows, such as ``{"logisticregression__sample_weight": weights}``, as in
        scikit-learn's `cross_validate`: of an array-like with an entry a row, the entries of the training rows. The
        baseline gets it, too.
    n_repeats : int, default=1
        Number of repeats of the cross-validation, with independent randomness.
    privatize : {"always", "fit"}, default="always"
        The rows that a local transformer privatises: those to fit and those to predict, or only those to fit, as with
        `OnFitOnly`. If the estimator privatises no row that it predicts, both are the same.
    baseline : "auto", estimator or None, default="auto"
        The model to compare with: by default, the same estimator with an epsilon of 1e9 and no ledger, so that reports
        are the true values, and what the step does besides noise remains. Or an estimator, or None for no baseline.
        For fairness, compare with the model without the protected columns, too: a second curve with this model as
        `baseline` has intervals of the difference (`compare_to_baseline`).
    n_jobs : int, optional
        Number of processes, as in scikit-learn.
    random_state : int, optional
        None for secure randomness. An int makes the results reproducible, with a different seed in every cell, which
        does not change when epsilons or repeats are added. Either replaces the ``random_state`` of every step that has
        one beside an ``epsilon`` or a ``ledger``, and of no other.
    path : str or path, optional
        A file for the scores of finished fits, a line of JSON each, created if missing. A call with the same arguments
        reads them and makes the other fits, which resumes an interrupted run; epsilons and repeats may be added. One
        call at a time may write to it.
    progress : bool, default=False
        Whether to show a progress bar on standard error.

    Returns
    -------
    pandas.DataFrame
        Columns ``epsilon, repeat, fold, metric, group, value, n_train, n_test``, one row for each combination of the
        first five: the baseline first, where ``epsilon`` is infinite. ``group`` is ``"all"``, or a value of the
        sensitive feature; of several, a tuple. The last two are the rows of the split, of all groups.

    Raises
    ------
    BudgetExceeded
        If the ledger of the step does not cover a release.
    ImportError
        If an optional package is missing that the scoring or the progress bar needs.
    TypeError, ValueError
        If a parameter is out of range, two inputs have the same row labels in different orders, `groups` are given but
        `cv` does not use them, the estimator or a scorer refuses the rows, `path` is the file of another study, or,
        with `path`, an argument cannot be pickled.

    Warns
    -----
    UndefinedMetricWarning
        Once for each text, with the number of fits, if a score is undefined.

    See Also
    --------
    PrivacyCurveDisplay : Draws it.
    compare_to_baseline : What privacy costs, with intervals.
    OnFitOnly : What ``privatize="fit"`` puts around a local transformer.

    Notes
    -----
    **Privacy.** None: the result and the file at `path` are computed from true rows, targets and groups, and are not
    protected. They are for data that is not sensitive. The file has scores, the names of groups, and one hash of all
    arguments, by which a guess of the whole table can be checked; it has no rows. Who may read it is decided by the
    permissions of new files in its folder, as of any table that is written.

    A ledger of the step is shared by all clones and is charged once for each fit, and under ``privatize="always"`` once
    more for the test rows of each cell. The baseline is fitted first, so that errors in the data or the scoring are
    found before anything is charged. A ledger in memory refuses several processes.

    The test rows of a cell are released once for all scorers. The inner folds of a ``GridSearchCV`` use the same seed
    as the cell.

    What is read from the file at `path` is not drawn and charged again, also for ``random_state=None``: the result
    then repeats the noise of the first run. Name another file for new noise. A fit that was interrupted is charged
    again, as its release was drawn. Functions and classes are identified by their names, so name another file, too,
    when you change their code.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.datasets import load_adult
    >>> adult = load_adult()
    >>> X, y = adult.data.loc[:2000, ["marital-status"]], adult.target[:2001]
    >>> encoder = RandomizedResponseEncoder(categories=adult.domain.select(X.columns))
    >>> model = make_pipeline(encoder, OneHotEncoder(), LogisticRegression())
    >>> curve = privacy_curve(model, X, y, param_name="randomizedresponseencoder__epsilon", epsilons=[0.1, 5.0],
    ...                       scoring=["accuracy", "roc_auc"], random_state=0)
    >>> curve.head(3).round(3)
       epsilon  repeat  fold    metric group  value  n_train  n_test
    0      inf       0     0  accuracy   all  0.751     1600     401
    1      inf       0     0   roc_auc   all  0.742     1600     401
    2      inf       0     1  accuracy   all  0.752     1601     400
    >>> curve.query("metric == 'roc_auc'").groupby("epsilon")["value"].mean().round(2)
    epsilon
    0.1    0.52
    5.0    0.76
    inf    0.77
    Name: value, dtype: float64
    >>> from skdp.evaluation import compare_to_baseline
    >>> cost = compare_to_baseline(curve).query("metric == 'roc_auc'")
    >>> cost[["epsilon", "difference", "lower", "upper"]].round(2)
       epsilon  difference  lower  upper
    2      0.1       -0.25  -0.32  -0.19
    3      5.0       -0.02  -0.02  -0.01
    """
    # All parameters are checked before anything is fitted, and so charged.
    losses = read_epsilons(epsilons)
    random_state = draw_seed(random_state)
    check_count(n_repeats, "n_repeats", least=1)
    rows: Any = X if is_frame(X) or hasattr(X, "shape") else np.asarray(X)
    targets: Any = y if hasattr(y, "dtype") else np.asarray(y)
    check_consistent_length(rows, targets)
    fit_params = _read_params(params)
    check_row_order(
        X=X,
        y=y,
        sensitive_features=sensitive_features,
        groups=groups,
        sample_weight=sample_weight,
    )
    for name, values in fit_params.items():
        check_same_order(X, values, name)
    features = weights = None
    if sensitive_features is not None:
        features = read_groups(sensitive_features, rows, len(targets))
    _check_estimator(estimator)
    step = Step.find(estimator, param_name)
    _check_modes(step, privatize, baseline)
    if sample_weight is not None:
        weights = _read_weights(sample_weight, len(targets))
    scores = read_scoring(
        scoring,
        estimator,
        targets,
        privileged=privileged,
        positive_label=positive_label,
        grouped=features is not None,
        weighted=weights is not None,
    )
    study = Study(
        estimator,
        step,
        baseline,
        privatize == "fit",
        rows,
        targets,
        features,
        scores,
        weights,
        fit_params,
    )
    # The cells are all combinations of an epsilon, a repeat and a fold. Splits are the
    # same at each epsilon, so that scores can be compared in pairs.
    repeats = _splits(estimator, rows, np.asarray(targets), cv, groups, n_repeats)
    cells = list(cells_of(study, losses, repeats, random_state))
    results = None
    if path is not None:
        results = ResultsFile(path, _hash_of_study(study, repeats[0], random_state))
    undefined: Counter[str] = Counter()
    finished = _scores(study, cells, results, n_jobs, undefined)
    by_cell = dict(counted(finished, len(cells), progress))
    for text, count in undefined.items():
        warnings.warn(
            f"{text} (in {count} of {len(cells)} fits)",
            UndefinedMetricWarning,
            stacklevel=2,
        )
    # Cells are finished in any order, and are written in that of the epsilons.
    table = []
    for place, cell in enumerate(cells):
        key = cell.epsilon, cell.repeat, cell.fold
        sizes = len(cell.train), len(cell.test)
        table += [(*key, *row, *sizes) for row in by_cell[place]]
    return pd.DataFrame(table, columns=[*COLUMNS, *SIZES])


def _scores(
    study: Study,
    cells: list[Cell],
    results: ResultsFile | None,
    n_jobs: int | None,
    undefined: Counter[str],
) -> Iterator[tuple[int, list[Row]]]:
    """Read or compute the scores of each cell; the baseline is finished before anything private."""
    baseline = []
    private = []
    # A cell that is in the file is not fitted, and so not charged, again.
    for place, cell in enumerate(cells):
        scores = None if results is None else results.read(cell)
        if scores is not None:
            yield place, scores
        elif cell.epsilon == np.inf:
            baseline.append(place)
        else:
            private.append(place)
    # A mistake in the data or the scoring shows before anything is charged.
    for places in (baseline, private):
        calls = [delayed(_run)(study, cells[place]) for place in places]
        computed = Parallel(n_jobs=n_jobs, return_as="generator")(calls)
        for place, (rows, texts) in zip(places, computed, strict=True):
            undefined.update(texts)
            # At once: what is lost in an interruption has to be charged again.
            if results is not None:
                results.add(cells[place], rows)
            yield place, rows


def _run(study: Study, cell: Cell) -> tuple[list[Row], set[str]]:
    """Compute a cell, and return the warnings of undefined metrics, which all cells may have."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UndefinedMetricWarning)
        if study.is_without_noise(cell):
            # Its epsilon stands for no noise, and is nobody's choice.
            warnings.simplefilter("ignore", WeakGuaranteeWarning)
        rows = study.run(cell)
    # Warnings of worker processes would be lost, and those of each cell repeat the same
    # text: the texts are returned, and counted.
    texts = set()
    for warning in caught:
        if issubclass(warning.category, UndefinedMetricWarning):
            texts.add(str(warning.message))
        else:
            where = warning.filename, warning.lineno
            warnings.warn_explicit(warning.message, warning.category, *where)
    return rows, texts


# Checks of parameters, and the splits.


def _read_weights(sample_weight: Any, rows: int) -> NDArray[np.float64]:
    weights = np.asarray(sample_weight, dtype=float)
    if weights.shape != (rows,):
        raise ValueError(
            f"sample_weight must have {rows} entries, one a row, got the shape "
            f"{weights.shape}"
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise ValueError(
            "sample_weight must hold finite numbers of at least 0, and not 0 for all "
            "rows"
        )
    return weights


def _read_params(params: Any) -> dict[str, Any]:
    """Check what `fit` gets beside the rows."""
    if params is None:
        return {}
    is_named = isinstance(params, Mapping)
    if not is_named or not all(isinstance(name, str) for name in params):
        raise TypeError(
            "params must map names of parameters of fit to their values, got "
            f"{type(params).__name__}"
        )
    return dict(params)


def _check_estimator(estimator: Any) -> None:
    if isinstance(estimator, type):
        raise TypeError(
            f"estimator must be an estimator, got the class {estimator.__name__}, not "
            "an instance"
        )
    if not hasattr(estimator, "fit") or not hasattr(estimator, "get_params"):
        raise TypeError(
            f"estimator must be an estimator, got {type(estimator).__name__}"
        )


def _check_modes(step: Step, privatize: Any, baseline: Any) -> None:
    if privatize not in get_args(Privatize):
        raise ValueError(f"privatize must be 'always' or 'fit', got {privatize!r}")
    if privatize == "always" and step.fit_only:
        raise ValueError(
            "privatize='always' contradicts the OnFitOnly around the step; remove it, "
            "or use 'fit'"
        )
    if privatize == "fit" and step.releases and not step.encodes:
        raise ValueError(
            f"privatize='fit' needs an encoding without noise, which {step.kind} does "
            "not have"
        )
    message = "baseline must be 'auto', an estimator or None, got "
    if isinstance(baseline, str) and baseline != "auto":
        raise ValueError(message + repr(baseline))
    if baseline is None or isinstance(baseline, str):
        return
    if isinstance(baseline, type) or not hasattr(baseline, "fit"):
        raise TypeError(message + type(baseline).__name__)


def _splits(
    estimator: Any, X: Any, y: NDArray[Any], cv: Any, groups: Any, n_repeats: int
) -> Sequence[Sequence[tuple[Any, Any]]]:
    """Return the folds of each repeat."""
    folds = check_cv(5 if cv is None else cv, y, classifier=is_classifier(estimator))
    if groups is not None:
        if not hasattr(cv, "split"):
            raise ValueError(
                "groups must come with cv=, a splitter that uses them, such as "
                f"GroupKFold(5) or StratifiedGroupKFold(5); got cv={cv!r}"
            )
        return [list(cv.split(X, y, groups))] * n_repeats
    if cv is not None and not isinstance(cv, Integral):
        return [list(folds.split(X, y))] * n_repeats
    # In each repeat other splits, but the same in each call, so that epsilons can be
    # added.
    repeats = []
    for repeat in range(n_repeats):
        kind = type(folds)
        shuffled = kind(folds.n_splits, shuffle=True, random_state=repeat)
        repeats.append(list(shuffled.split(y, y)))
    return repeats


# Scores of finished cells in a file, to resume an interrupted study.


class ResultsFile:
    """A file with a line for the study, and a line for each finished cell."""

    def __init__(self, path: Any, study: str) -> None:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"path must be a path, got {type(path).__name__}")
        self.path = Path(path)
        if self.path.is_dir():
            raise ValueError("path must be a file, got a folder")
        self._scores: dict[tuple[float, int, int], list[Row]] = {}
        first_line = json.dumps({_KIND: study}).encode() + b"\n"
        # One line for each cell: only an append is needed when one is finished.
        text = self.path.read_bytes() if self.path.exists() else b""
        # An interruption may have left a part of the last line.
        lines = text[: text.rfind(b"\n") + 1]
        # An interrupted first line is begun again.
        if not lines and not first_line.startswith(text):
            raise ValueError(_OF_SOMETHING_ELSE)
        if lines:
            self._read(lines, study)
        with self.path.open("ab") as file:
            file.truncate(len(lines))
            if not lines:
                file.write(first_line)

    def _read(self, lines: bytes, study: str) -> None:
        """Read the scores, and check that they are of the study."""
        try:
            # A line of the study, then a line for each cell.
            first, *cells = map(json.loads, lines.splitlines())
            name = first[_KIND]
            for cell in cells:
                rows = []
                for metric, group, value in cell["scores"]:
                    # JSON has lists for tuples.
                    label = tuple(group) if isinstance(group, list) else group
                    rows.append((metric, label, float(value)))
                key = float(cell["epsilon"]), cell["repeat"], cell["fold"]
                self._scores[key] = rows
        except (ValueError, TypeError, KeyError):
            raise ValueError(_OF_SOMETHING_ELSE) from None
        # Scores of other data or settings must not be mixed with these.
        if name != study:
            raise ValueError(
                "path has the scores of another study: of another estimator, baseline, "
                "scoring, seed or version, or of other rows or splits; name another "
                "file"
            )

    def read(self, cell: Cell) -> list[Row] | None:
        """Return the scores of a cell, None if it is not finished."""
        return self._scores.get((cell.epsilon, cell.repeat, cell.fold))

    def add(self, cell: Cell, scores: list[Row]) -> None:
        """Write the scores of a finished cell."""
        key = {"epsilon": cell.epsilon, "repeat": cell.repeat, "fold": cell.fold}
        line = json.dumps(key | {"scores": scores})
        with self.path.open("ab") as file:
            file.write(line.encode() + b"\n")


_KIND = "skdp.privacy_curve"
_OF_SOMETHING_ELSE = (
    "path is a file of something else than privacy_curve; name another one"
)


def _hash_of_study(study: Study, folds: Any, random_state: int | None) -> str:
    """Hash all that scores depend on, but for what distinguishes the cells, and for the code of functions."""
    versions = [version(package) for package in ("skdp", "scikit-learn", "numpy")]
    models = _without_ledgers(study.estimator), _without_ledgers(study.baseline)
    # Another version may draw other bits from a seed, or score otherwise.
    settings = versions, models, study.step, study.fit_only, study.scoring, random_state
    data = study.X, study.y, study.groups, study.weights, study.params, folds
    try:
        return str(joblib.hash((settings, *data)))
    except Exception as error:
        # joblib's message shows all that was to be hashed, the data included, so it is
        # not repeated.
        raise TypeError(
            f"path needs picklable objects ({type(error).__name__}): functions and "
            "classes with a name in a module, no lambda, in the estimator, the "
            "baseline, the scoring and the data"
        ) from None


def _without_ledgers(model: Any) -> Any:
    """Return a copy whose charges do not count; "auto" and None as they are."""
    if not hasattr(model, "get_params"):
        return model
    # A ledger changes with each charge, and the hash must not.
    copy = clone(model)
    for name in copy.get_params(deep=True):
        if name.split("__")[-1] == "ledger":
            copy.set_params(**{name: None})
    return copy


COLUMNS = ["epsilon", "repeat", "fold", "metric", "group", "value"]
SIZES = ["n_train", "n_test"]
_SPLIT = ["repeat", "fold"]


def check_curve(curve: Any, *, sizes: bool = False) -> None:
    """Check the result of `privacy_curve`."""
    columns = COLUMNS + SIZES * sizes
    check_table(curve, "curve", columns, numbers=("epsilon", "value", *SIZES * sizes))
    if not np.isfinite(curve["epsilon"]).any():
        raise ValueError("curve must have rows of a finite epsilon")


def groups_of(curve: pd.DataFrame) -> list[Any]:
    """List the groups, that of all rows first."""
    return sorted(dict.fromkeys(curve["group"]), key=lambda group: group != ALL)


def rows_of_group(table: pd.DataFrame, group: Any) -> pd.DataFrame:
    """Select rows; pandas would treat a group of several columns as a list of groups."""
    is_group = [name == group for name in table["group"]]
    return table[np.array(is_group, dtype=bool)]


def compare_to_baseline(
    curve: pd.DataFrame, *, confidence_level: float = 0.95
) -> pd.DataFrame:
    """Estimate by how much the scores at each epsilon differ from those without privacy.

    Both models of a pair are fitted and scored on the same rows, so what the splits have in common falls out of the
    difference. Folds and repeats share most of their rows, though: the usual standard error of their mean is much too
    small, and some epsilon "beats" no privacy by luck. The one given here is corrected for it ([1]_, [2]_).

    Parameters
    ----------
    curve : pandas.DataFrame
        The result of `privacy_curve`, with a baseline.
    confidence_level : float, default=0.95
        The probability that an interval holds the expected difference, in (0, 1).

    Returns
    -------
    pandas.DataFrame
        One row for each metric, group and epsilon: ``metric, group, epsilon, difference, std_error, lower, upper,
        n_pairs``. The difference is the score with privacy less the one without, its mean over the pairs of which both
        scores are finite; ``n_pairs`` is their number. With less than two pairs, error and interval are nan.

    Raises
    ------
    TypeError, ValueError
        If the curve lacks a column or the baseline, has a split twice, or the level is out of range.

    See Also
    --------
    PrivacyCurveDisplay : Draws it, with ``kind="difference"``.

    Notes
    -----
    **Privacy.** Scores are computed from true rows and are not protected.

    With n pairs, whose differences have the variance s², on average m test rows for each training row, the standard
    error is ``sqrt((1 / n + m) s²)``, and the interval that of Student's t with n - 1 degrees of freedom ([1]_,
    equation 9, for random splits; [2]_ for folds, where m is one over the number of folds less 1). It is an
    approximation: no estimate of this variance from the splits alone is unbiased. It is for tables drawn from the same
    population, and for the noise: scores of models that are trained on as many rows as here. Where most of the variance
    is from noise, which is new in each split, it is on the safe side: of 95 % intervals for the cost of randomised
    response on 100 and 400 rows, .97 to .995 held the truth (uncorrected ones .73 to .95).

    References
    ----------
    .. [1] C. Nadeau, Y. Bengio (2003). Inference for the generalization error. Machine Learning 52.
    .. [2] R. R. Bouckaert, E. Frank (2004). Evaluating the replicability of significance tests for comparing learning
       algorithms. PAKDD.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.evaluation import compare_to_baseline
    >>> rows = [(epsilon, 0, fold, "accuracy", "all", score + 0.01 * fold * (epsilon < 2), 400, 100)
    ...         for epsilon, score in ((float("inf"), 0.81), (1.0, 0.74)) for fold in range(5)]
    >>> names = ["epsilon", "repeat", "fold", "metric", "group", "value", "n_train", "n_test"]
    >>> compare_to_baseline(pd.DataFrame(rows, columns=names)).round(3)
         metric group  epsilon  difference  std_error  lower  upper  n_pairs
    0  accuracy   all      1.0       -0.05      0.011 -0.079 -0.021        5
    """
    check_confidence_level(confidence_level)
    check_curve(curve, sizes=True)
    if not np.isinf(curve["epsilon"]).any():
        raise ValueError(
            "curve has no baseline, the rows of an infinite epsilon: compute it with "
            "baseline="
        )
    # Every metric and group has pairs of its own, in the order of the curve.
    rows = []
    metrics = dict.fromkeys(curve["metric"])
    for metric, group in itertools.product(metrics, groups_of(curve)):
        part = rows_of_group(curve[curve["metric"] == metric], group)
        baseline = part[np.isinf(part["epsilon"])]
        private = part[np.isfinite(part["epsilon"])]
        for epsilon, scores in private.groupby("epsilon"):
            row = {"metric": metric, "group": group, "epsilon": epsilon}
            rows.append(row | _difference(scores, baseline, confidence_level))
    columns = ["metric", "group", "epsilon", "difference"]
    columns += ["std_error", "lower", "upper", "n_pairs"]
    return pd.DataFrame(rows, columns=columns)


def _difference(
    scores: pd.DataFrame, baseline: pd.DataFrame, level: float
) -> dict[str, float]:
    """Estimate the mean difference of pairs, with its interval."""
    if scores.duplicated(_SPLIT).any() or baseline.duplicated(_SPLIT).any():
        raise ValueError(
            "curve must have each repeat and fold once for each epsilon, metric and "
            "group"
        )
    # Both models of a pair are of the same split.
    pairs = scores.merge(baseline, on=_SPLIT, suffixes=("", "_baseline"))
    pairs["value"] -= pairs["value_baseline"]
    pairs = pairs[np.isfinite(pairs["value"])]
    mean = float(pairs["value"].mean())
    std_error = corrected_error(pairs)
    n = len(pairs)
    # One pair says nothing of how much differences vary.
    reach = math.nan
    if n > 1:
        reach = float(stats.t.ppf((1 + level) / 2, n - 1)) * std_error
    return {
        "difference": mean,
        "std_error": std_error,
        "lower": mean - reach,
        "upper": mean + reach,
        "n_pairs": n,
    }


def corrected_error(scores: pd.DataFrame) -> float:
    """Return the standard error of the mean over splits that share rows; nan for less than two."""
    # The usual 1 / n becomes 1 / n + n_test / n_train (Nadeau and Bengio 2003, section
    # 3): folds that share training rows are correlated.
    if len(scores) < 2:
        return math.nan
    share = float((scores["n_test"] / scores["n_train"]).mean())
    return math.sqrt((1 / len(scores) + share) * float(scores["value"].var()))
