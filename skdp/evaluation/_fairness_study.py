"""A study of fairness: many tables, encoders and epsilons, with the baselines that belong to it."""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy import stats
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_memory

from skdp.base import (
    PathType,
    check_choice,
    check_confidence_level,
    draw_seed,
)
from skdp.evaluation._common import check_count, read_epsilons, shown_progress
from skdp.evaluation._curve_cells import seed_of
from skdp.evaluation._privacy_curve import corrected_error
from skdp.evaluation._study_methods import (
    BY_CURATOR,
    FROM_REPORTS,
    WITHOUT_REPORTS,
    Predictions,
    Reporting,
    Split,
    promise_of,
    reported,
    weight_parameter,
)
from skdp.evaluation._study_page import write_study
from skdp.evaluation._study_tables import StudyTable, other_features
from skdp.local import OracleEncoder
from skdp.metrics import fairness_report, import_optional
from skdp.synthesis import MAX_COMBINATIONS

BASELINES = ("without privacy", "left out", "post-processed", "reweighed")

_VERSIONS = tuple(version(name) for name in ("skdp", "scikit-learn", "numpy"))

_COLUMNS = ["table", "method", "epsilon", "split", "metric", "value"]
_SIZES = ["n_train", "n_test", "seconds"]
_KEYS = ["table", "metric", "method", "epsilon"]


def _scores(
    predictions: Predictions, labels: Any, groups: Any, table: StudyTable
) -> dict[str, float]:
    """Return the accuracy and the fairness of predictions, for true labels and groups."""
    predicted = predictions.labels
    scores = {
        "accuracy": accuracy_score(labels, predicted),
        "f1": f1_score(labels, predicted, zero_division=0),
        "roc_auc": math.nan,
    }
    if predictions.scores is not None:
        scores["roc_auc"] = roc_auc_score(labels, predictions.scores)
    scores |= _fairness(labels, predicted, groups, table)
    return {name: float(value) for name, value in scores.items()}


_FAIRNESS = (
    "statistical_parity_difference",
    "disparate_impact",
    "equal_opportunity_difference",
    "average_odds_difference",
)


def _fairness(
    labels: Any, predicted: Any, groups: Any, table: StudyTable
) -> dict[str, float]:
    """Return the differences between the groups; nan if the rows have one of them only."""
    names = [*_FAIRNESS, "accuracy_difference"]
    is_privileged = np.asarray(groups.isin(np.atleast_1d(table.privileged)))
    if is_privileged.all() or not is_privileged.any():
        return dict.fromkeys(names, math.nan)
    with warnings.catch_warnings():
        # The table of a study says it: the value is nan or infinite.
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        report = fairness_report(
            labels, predicted, groups, privileged=table.privileged, positive_label=1
        )
    values = report.set_index("metric")["value"]
    scores = {name: values[name] for name in _FAIRNESS}
    # As in aif360: of all who are not privileged, less of those who are.
    is_right = predicted == labels
    difference = is_right[~is_privileged].mean() - is_right[is_privileged].mean()
    return scores | {"accuracy_difference": difference}


@dataclass(frozen=True)
class _Fit:
    """A fit of a study: a method on a split of a table, at an epsilon."""

    table: int
    method: str
    kind: str
    epsilon: float
    split: int
    seed: int | None
    # Scores of another version may be others, and are not read from memory.
    versions: tuple[str, ...] = _VERSIONS


def _run(
    fit: _Fit,
    table: StudyTable,
    encoder: Any,
    estimator: Any,
    test_size: float,
    reported_test: bool,
) -> tuple[dict[str, float], int, int, float]:
    """Learn and predict; return the scores, the numbers of rows, and the seconds."""
    start = time.perf_counter()
    # The number of the split is its seed, so that all methods have the same rows.
    train, test = train_test_split(
        np.arange(len(table.X)),
        test_size=test_size,
        stratify=table.labels,
        random_state=fit.split,
    )
    split = Split(table, other_features(table), train, test, reported_test)
    methods = {**WITHOUT_REPORTS, **FROM_REPORTS, **BY_CURATOR, "reported": reported}
    method = methods[fit.kind]
    reporting = Reporting(encoder, fit.epsilon, fit.seed)
    predictions = method(clone(estimator), split, reporting)
    scores = _scores(predictions, table.labels[test], split.groups(test), table)
    return scores, len(train), len(test), time.perf_counter() - start


def fairness_study(
    tables: StudyTable | Sequence[StudyTable],
    encoders: Any,
    *,
    epsilons: Iterable[float],
    estimator: BaseEstimator,
    shares: Sequence[str] | None = None,
    n_splits: int = 20,
    test_size: float = 0.2,
    test_rows: Literal["true", "reported"] = "true",
    baselines: Sequence[str] = BASELINES,
    n_jobs: int | None = None,
    random_state: int | None = None,
    memory: Any = None,
    progress: bool = False,
) -> FairnessStudy:
    """Study what reports of protected columns do to accuracy and fairness, beside the baselines.

    Every table, encoder and epsilon is fitted on the same random splits, and so are the baselines: without them it
    cannot be told whether a model is fairer because of the reports, or would be without these columns, too.

    Parameters
    ----------
    tables : StudyTable or list of them
        The tables, each with a name of its own.
    encoders : encoder of categories, or mapping of name to encoder
        What each person reports the protected columns by, not fitted, such as
        ``RandomizedResponseEncoder(strategy="joint")``; epsilon, categories and seed are set by the study.
    epsilons : iterable of float
        The privacy losses of a person's report of all protected columns: finite, > 0, all different.
    estimator : classifier
        A classifier of scikit-learn for a table of numbers. It is cloned.
    shares : sequence of {"uniform", "proportional", "joint"}, optional
        Ways to divide epsilon among the protected columns, with each of which each encoder is used: the same share for
        each column, shares in proportion to the numbers of values, or one report of all columns together. By default
        as the encoders say.
    n_splits : int, default=20
        Number of random splits into training and test rows, stratified by label.
    test_size : float, default=0.2
        The share of test rows, between 0 and 1.
    test_rows : {"true", "reported"}, default="true"
        Whether the model is told the true protected columns of a row to predict, or a report. Scores are for true
        groups in both cases.
    baselines : sequence of str, default=("without privacy", "left out", "post-processed", "reweighed")
        What to compare with:

        - ``"without privacy"``: the true columns;
        - ``"left out"``: none of the protected columns;
        - ``"post-processed"``: the true columns, with a threshold for each true group (fairlearn's
          ``ThresholdOptimizer``, demographic parity [2]_);
        - ``"reweighed"``: the true columns, and weights of rows that make groups and labels independent ([3]_);
        - ``"posterior features"``, for each encoder and epsilon: probabilities of the true values, given the reports;
        - ``"private parity"``, for each encoder and epsilon: without the protected columns, under demographic parity
          that is estimated from reports of the groups (`skdp.metrics.private_parity`);
        - ``"curator's model"``, for each epsilon: a `DPLogisticRegression` of whole true records, whatever the
          estimator is. A curator is trusted with them, and epsilon is that of a record with its label;
        - ``"synthetic rows"``, for each epsilon: the estimator, trained on as many rows that a `DPMarginalSynthesizer`
          makes of whole true records. All columns must be declared;
        - ``"resampled columns"``, for each epsilon: the estimator, trained on the true rows, of which a
          `DPColumnSynthesizer` resamples the protected columns. All columns must be declared, the
          protected ones with at most 4,096 combinations of values. Epsilon is that of these values, as it is of a
          report, but a curator is trusted with them;
        - ``"private target"``, for each epsilon: a `DPLogisticRegression` with ``protect="target"``, whatever the
          estimator is. Epsilon is that of a label; all features are public.
    n_jobs : int, optional
        Number of processes, as in scikit-learn.
    random_state : int, optional
        None for secure randomness. An int makes the study reproducible, with another seed for each fit.
    memory : str or joblib.Memory, optional
        A folder for the scores of finished fits: a second call with the same arguments reads them, an interrupted one
        goes on, and epsilons, encoders or splits may be added. With ``random_state=None`` it repeats the noise of the
        first call. The code of an estimator of your own is not compared: give another folder after you change it.
    progress : bool, default=False
        Whether to show a progress bar on standard error.

    Returns
    -------
    FairnessStudy
        The scores of all fits, with means and comparisons.

    Raises
    ------
    ImportError
        If a baseline needs fairlearn and it is not installed.
    TypeError, ValueError
        If a parameter is out of range or of another type. Then nothing is fitted.

    See Also
    --------
    privacy_curve : One table and one model, with any metric.
    skdp.datasets.load_acs_public_coverage : A table on which reports change much.

    Notes
    -----
    **Privacy.** None: scores are computed from true rows and groups. Tables must not be sensitive.

    Columns of categories are 0 and 1 for each declared value; a report is 1 for each value that it supports, as in
    [1]_. Differences are unprivileged less privileged, of the group in the column `sensitive`. The accuracy difference
    is that of the shares of rows that are predicted right. A score that is undefined, such as a ratio to a rate of 0,
    is nan or infinite, and not in means; their ``n_splits`` says so.

    References
    ----------
    .. [1] H. H. Arcolezi, K. Makhlouf, C. Palamidessi (2023). (Local) differential privacy has NO disparate impact on
       fairness. DBSec 2023. arXiv:2304.12845
    .. [2] M. Hardt, E. Price, N. Srebro (2016). Equality of opportunity in supervised learning. NeurIPS.
    .. [3] F. Kamiran, T. Calders (2012). Data preprocessing techniques for classification without discrimination.
       Knowledge and Information Systems 33.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdp import Domain, RandomizedResponseEncoder
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"sex": rng.choice(["f", "m"], 2000), "hours": rng.integers(10, 60, 2000)})
    >>> hired = people["hours"] + 20 * (people["sex"] == "m") + rng.normal(0, 5, 2000) > 50
    >>> table = StudyTable(people, hired, sensitive="sex", privileged="m", positive_label=True,
    ...                    domain=Domain({"sex": ["f", "m"]}), name="hired")
    >>> study = fairness_study(table, RandomizedResponseEncoder(), epsilons=[1.0], estimator=LogisticRegression(),
    ...                        n_splits=3, baselines=["without privacy", "left out"], random_state=0)
    >>> study.intervals("statistical_parity_difference")[["method", "epsilon", "mean"]].round(2)
                          method  epsilon  mean
    0            without privacy      inf -0.43
    1                   left out      inf  0.02
    2  RandomizedResponseEncoder      1.0 -0.19
    """
    losses = read_epsilons(epsilons)
    random_state = draw_seed(random_state)
    check_count(n_splits, "n_splits", least=2)
    check_choice("test_rows", test_rows, ("true", "reported"))
    _check_share(test_size)
    table_list = _read_tables(tables)
    prototypes = _with_shares(_read_encoders(encoders), shares)
    if not hasattr(estimator, "fit") or isinstance(estimator, type):
        raise TypeError(
            f"estimator must be a classifier, got {type(estimator).__name__}"
        )
    _check_names(prototypes)
    _check_baselines(baselines, table_list, estimator)
    fits = list(
        _fits(table_list, prototypes, losses, n_splits, baselines, random_state)
    )
    run = check_memory(memory).cache(_run)
    calls = []
    for fit, encoder in fits:
        table = table_list[fit.table]
        call = delayed(run)(
            fit, table, encoder, estimator, test_size, test_rows == "reported"
        )
        calls.append(call)
    rows = []
    # The bar first: without tqdm, nothing is fitted.
    with shown_progress(len(fits), progress, "fit") as advance:
        results = Parallel(n_jobs=n_jobs, return_as="generator")(calls)
        for (fit, _), (scores, *sizes) in zip(fits, results, strict=True):
            key = table_list[fit.table].name, fit.method, fit.epsilon, fit.split
            for metric, value in scores.items():
                rows.append((*key, metric, value, *sizes))
            advance(1)
    return FairnessStudy(pd.DataFrame(rows, columns=[*_COLUMNS, *_SIZES]))


def _fits(
    tables: Sequence[StudyTable],
    encoders: Mapping[str, Any],
    epsilons: Sequence[float],
    n_splits: int,
    baselines: Sequence[str],
    random_state: int | None,
) -> Iterator[tuple[_Fit, Any]]:
    """List all fits with their encoders, those without privacy first."""
    settings: list[tuple[str, str, float, Any]] = []
    for name in WITHOUT_REPORTS:
        if name in baselines:
            settings.append((name, name, math.inf, None))
    for (name, encoder), epsilon in itertools.product(encoders.items(), epsilons):
        settings.append((name, "reported", epsilon, encoder))
    for name, epsilon in itertools.product(BY_CURATOR, epsilons):
        if name in baselines:
            settings.append((name, name, epsilon, None))
    for kind in FROM_REPORTS:
        if kind not in baselines:
            continue
        for (name, encoder), epsilon in itertools.product(encoders.items(), epsilons):
            label = f"{kind}, {name}"
            settings.append((label, kind, epsilon, encoder))
    for place, table in enumerate(tables):
        for method, kind, epsilon, encoder in settings:
            for split in range(n_splits):
                # Of what the fit is, so that fits can be added without another seed.
                seed = seed_of(random_state, (table.name, method, epsilon, split))
                yield _Fit(place, method, kind, epsilon, split, seed), encoder


def _read_tables(tables: Any) -> list[StudyTable]:
    table_list = [tables] if isinstance(tables, StudyTable) else list(tables)
    if not table_list or not all(isinstance(each, StudyTable) for each in table_list):
        raise TypeError("tables must be a StudyTable, or a list of at least one")
    names = [table.name for table in table_list]
    if len(set(names)) < len(names):
        raise ValueError(f"tables must have names of their own, got {names}")
    for table in table_list:
        is_privileged = table.groups.isin(np.atleast_1d(table.privileged))
        if is_privileged.all() or not is_privileged.any():
            raise ValueError(
                f"table {table.name!r}: column {table.sensitive!r} needs rows of "
                "privileged values and of others"
            )
        target = np.asarray(table.y)
        for name in table.X.columns:
            if np.array_equal(table.X[name].to_numpy(), target):
                raise ValueError(
                    f"table {table.name!r}: column {name!r} of X is the target: leave "
                    "it out"
                )
    return table_list


def _read_encoders(encoders: Any) -> dict[str, Any]:
    if not isinstance(encoders, Mapping):
        encoders = {type(encoders).__name__: encoders}
    if not encoders:
        raise ValueError("encoders must hold at least one encoder")
    for name, encoder in encoders.items():
        if not isinstance(encoder, OracleEncoder):
            raise TypeError(
                f"encoders[{name!r}] must be an encoder of categories, such as "
                f"RandomizedResponseEncoder(), got {type(encoder).__name__}"
            )
    return dict(encoders)


def _with_shares(encoders: dict[str, Any], shares: Any) -> dict[str, Any]:
    """Set each way to divide epsilon in each encoder; None leaves them as they are."""
    if shares is None:
        return encoders
    if isinstance(shares, str) or not len(shares):
        raise TypeError(f"shares must be a list of names, got {shares!r}")
    named = {}
    for name, encoder in encoders.items():
        for share in shares:
            check_choice("each of shares", share, ("uniform", "proportional", "joint"))
            settings = {"strategy": "split", "shares": share}
            if share == "joint":
                settings = {"strategy": "joint", "shares": "uniform"}
            named[f"{name}, {share}"] = clone(encoder).set_params(**settings)
    return named


def _check_names(encoders: Mapping[str, Any]) -> None:
    """Refuse names of encoders that results would take for those of baselines."""
    methods = [*BASELINES, *WITHOUT_REPORTS, *FROM_REPORTS, *BY_CURATOR]
    for kind, name in itertools.product(FROM_REPORTS, encoders):
        methods.append(f"{kind}, {name}")
    taken = [name for name in encoders if name in methods]
    if taken:
        raise ValueError(f"encoders must not have the names of baselines, got {taken}")


def _check_baselines(
    baselines: Any, tables: Sequence[StudyTable], estimator: Any
) -> None:
    """Refuse baselines that fail only after others were fitted."""
    known = [*WITHOUT_REPORTS, *FROM_REPORTS, *BY_CURATOR]
    if isinstance(baselines, str):
        raise TypeError("baselines must be a list of names, got a str")
    for name in baselines:
        check_choice("each of baselines", name, known)
    if "post-processed" in baselines:
        import_optional("fairlearn.postprocessing")
    if "private parity" in baselines:
        import_optional("fairlearn.reductions")
        for table in tables:
            if table.sensitive not in table.domain.columns:
                raise ValueError(
                    f"the baseline 'private parity' needs declared values of "
                    f"{table.sensitive!r}, which the domain of table {table.name!r} "
                    "lacks"
                )
    if "reweighed" in baselines or "private parity" in baselines:
        weight_parameter(estimator)
    for baseline in ("synthetic rows", "resampled columns"):
        for table in tables if baseline in baselines else ():
            undeclared = [name for name in table.X if name not in table.domain.columns]
            if undeclared:
                raise ValueError(
                    f"the baseline {baseline!r} needs a domain of all columns; that of "
                    f"table {table.name!r} lacks {undeclared}"
                )
    for table in tables if "resampled columns" in baselines else ():
        n_values = math.prod(table.protected_domain.sizes)
        if n_values > MAX_COMBINATIONS:
            raise ValueError(
                f"the baseline 'resampled columns' needs at most {MAX_COMBINATIONS:,} "
                f"combinations of protected values; table {table.name!r} has {n_values:,}"
            )


def _check_share(test_size: Any) -> None:
    """Refuse a share that is not between 0 and 1."""
    if not isinstance(test_size, float) or not 0 < test_size < 1:
        raise ValueError(f"test_size must be between 0 and 1, got {test_size!r}")


@dataclass(frozen=True, eq=False, repr=False)
class FairnessStudy:
    """The scores of a study of fairness, as `fairness_study` returns them.

    Parameters
    ----------
    table : pandas.DataFrame
        ``table, method, epsilon, split, metric, value, n_train, n_test, seconds``, a row for each score; epsilon is
        infinite for baselines without reports.

    See Also
    --------
    fairness_study : Makes it.

    Notes
    -----
    **Privacy.** None: scores are computed from true rows and groups.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [("people", method, epsilon, split, "accuracy", value + split / 100, 800, 200, 0.1)
    ...         for method, epsilon, value in (("left out", float("inf"), 0.8), ("reports", 1.0, 0.79))
    ...         for split in range(5)]
    >>> names = ["table", "method", "epsilon", "split", "metric", "value", "n_train", "n_test", "seconds"]
    >>> study = FairnessStudy(pd.DataFrame(rows, columns=names))
    >>> study.compare("reports", "left out")[["metric", "epsilon", "difference"]].round(3)
         metric  epsilon  difference
    0  accuracy      1.0       -0.01
    """

    table: pd.DataFrame

    def __repr__(self) -> str:
        counts = self.table.nunique()
        n_fits = len(self.table.drop_duplicates([*_COLUMNS[:4]]))
        return (
            f"FairnessStudy({counts['table']} tables, {counts['method']} methods, "
            f"{n_fits:,} fits)"
        )

    def intervals(
        self, metric: str | None = None, *, confidence_level: float = 0.95
    ) -> pd.DataFrame:
        """Return the mean over splits of each score, with its interval.

        Parameters
        ----------
        metric : str, optional
            One metric; by default all.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``table, metric, method, epsilon, mean, std_error, lower, upper, n_splits, promise``, with the variance of
            `compare_to_baseline`, as splits share rows. Intervals of accuracy, F1 and AUC are cut at 0 and 1. The last
            column says what epsilon is for: values of the protected columns, the label, or whole records.
        """
        level = check_confidence_level(confidence_level)
        rows = []
        for key, scores in self._of(metric).groupby(_KEYS, sort=False):
            rows.append((*key, *_mean_with_interval(scores, level)))
        columns = [*_KEYS, "mean", "std_error", "lower", "upper", "n_splits"]
        table = pd.DataFrame(rows, columns=columns)
        is_share = table["metric"].isin(["accuracy", "f1", "roc_auc"])
        ends = table.loc[is_share, ["lower", "upper"]]
        table.loc[is_share, ["lower", "upper"]] = ends.clip(0, 1)
        promises = table["method"].map(promise_of)
        table["promise"] = promises.where(np.isfinite(table["epsilon"]), "")
        # Tables and methods stay in their order, baselines first.
        return table.sort_values(
            ["table", "metric", "method", "epsilon"],
            key=_places_in_order,
            ignore_index=True,
        )

    def compare(
        self,
        first: str | Sequence[str] | None = None,
        second: str = "left out",
        *,
        metric: str | Sequence[str] | None = None,
        confidence_level: float = 0.95,
    ) -> pd.DataFrame:
        """Compare methods with another one, in pairs of splits.

        Parameters
        ----------
        first : str or sequence of str, optional
            The name of a method, or of several; by default all others.
        second : str, default="left out"
            The name of the method to compare with. If both have epsilons, those of one epsilon are compared, which must
            be for the same promise.
        metric : str or sequence of str, optional
            One metric, or several; by default all.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``table, metric, method, epsilon, difference, std_error, lower, upper, p_value, adjusted_p_value,
            n_splits``. A difference is the mean of the method less that of `second`. P-values are those of no
            difference, by Student's t with the corrected variance of [1]_; adjusted ones hold for all rows of the
            result together (Holm [2]_).

        Raises
        ------
        ValueError
            If a method is unknown, or two methods have epsilons for different promises.

        References
        ----------
        .. [1] C. Nadeau, Y. Bengio (2003). Inference for the generalization error. Machine Learning 52.
        .. [2] S. Holm (1979). A simple sequentially rejective multiple test procedure. Scand. J. Statistics 6.
        """
        level = check_confidence_level(confidence_level)
        scores = self._of(metric)
        known = list(scores["method"].unique())
        if first is None:
            first = [name for name in known if name != second]
        names = [first] if isinstance(first, str) else list(first)
        for name in [*names, second]:
            if name not in known:
                raise ValueError(f"no scores of method {name!r}; there are {known}")
        rows = []
        for name in names:
            pairs = _pairs(scores, name, second)
            for key, part in pairs.groupby(_KEYS, sort=False):
                mean, error, lower, upper, n = _mean_with_interval(part, level)
                p_value = math.nan
                if error > 0:
                    p_value = 2 * float(stats.t.sf(abs(mean) / error, n - 1))
                rows.append((*key, mean, error, lower, upper, p_value, n))
        columns = [*_KEYS, "difference", "std_error"]
        columns += ["lower", "upper", "p_value", "n_splits"]
        table = pd.DataFrame(rows, columns=columns)
        table.insert(9, "adjusted_p_value", _adjust(table["p_value"]))
        return table.sort_values(_KEYS, key=_places_in_order, ignore_index=True)

    def save(self, folder: PathType, *, title: str = "A study of fairness") -> Path:
        """Write the scores and a page about them.

        Parameters
        ----------
        folder : str or path-like
            Where to write, created if missing: ``scores.csv`` (the `table`), ``means.csv`` (`intervals`),
            ``less_left_out.csv`` (every method compared with the columns left out) and ``index.html``, a page of both
            as tables. Files of these names are replaced.
        title : str, default="A study of fairness"
            The heading of the page.

        Returns
        -------
        pathlib.Path
            The page.
        """
        return write_study(self, folder, title)

    def to_latex(
        self, metrics: Sequence[str] = ("accuracy", "statistical_parity_difference")
    ) -> str:
        """Write means ± standard errors as a LaTeX table: a row for each method and epsilon.

        The standard errors are those of `intervals`, of the mean over all splits; many papers print the standard
        deviation of single splits.

        Parameters
        ----------
        metrics : sequence of str, default=("accuracy", "statistical_parity_difference")
            The columns.

        Returns
        -------
        str
            A ``tabular`` (it needs jinja2, as `pandas.DataFrame.to_latex`).
        """
        cells = {}
        for metric in metrics:
            table = self.intervals(metric).set_index(["table", "method", "epsilon"])
            texts = []
            for mean, error in zip(table["mean"], table["std_error"], strict=True):
                texts.append(f"${mean:.3f} \\pm {error:.3f}$")
            cells[metric.replace("_", " ")] = pd.Series(texts, index=table.index)
        rows = pd.DataFrame(cells).reset_index()
        epsilons = []
        for epsilon in rows["epsilon"]:
            epsilons.append(f"{epsilon:g}" if math.isfinite(epsilon) else "--")
        rows["epsilon"] = epsilons
        return str(rows.to_latex(index=False))

    def _of(self, metric: str | Sequence[str] | None) -> pd.DataFrame:
        """Return the scores of some metrics, or of all."""
        if metric is None:
            return self.table
        known = list(self.table["metric"].unique())
        metrics = [metric] if isinstance(metric, str) else list(metric)
        for name in metrics:
            check_choice("metric", name, known)
        return self.table[self.table["metric"].isin(metrics)]


def _pairs(scores: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """Return the differences of the scores of two methods on the same splits."""
    of_first = scores[scores["method"] == first]
    of_second = scores[scores["method"] == second]
    keys = ["table", "metric", "split"]
    both_have_epsilons = True
    for part in (of_first, of_second):
        both_have_epsilons &= bool(np.isfinite(part["epsilon"]).all())
    if both_have_epsilons:
        keys.append("epsilon")
        promises = [promise_of(first), promise_of(second)]
        if promises[0] != promises[1]:
            raise ValueError(
                f"an epsilon of {first!r} is for {promises[0]}, and one of {second!r} "
                f"for {promises[1]}: compare each with a method without an epsilon"
            )
    pairs = of_first.merge(of_second, on=keys, suffixes=("", "_second"))
    pairs["value"] -= pairs["value_second"]
    if not both_have_epsilons:
        # That of the one of the two that has any.
        pairs["epsilon"] = pairs[["epsilon", "epsilon_second"]].min(axis=1)
    return pairs


def _places_in_order(column: pd.Series) -> pd.Series:
    """Return what a column is sorted by: epsilons themselves, and of names their first places."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column
    places: pd.Series = pd.Series(pd.factorize(column)[0], index=column.index)
    return places


def _mean_with_interval(
    scores: pd.DataFrame, level: float
) -> tuple[float, float, float, float, int]:
    """Return mean, standard error, the ends of the interval, and the number of splits."""
    finite = scores[np.isfinite(scores["value"])]
    mean = float(finite["value"].mean()) if len(finite) else math.nan
    error = corrected_error(finite)
    reach = math.nan
    if len(finite) > 1:
        reach = float(stats.t.ppf((1 + level) / 2, len(finite) - 1)) * error
    return mean, error, mean - reach, mean + reach, len(finite)


def _adjust(p_values: pd.Series) -> pd.Series:
    """Return p-values that hold together: the k-th smallest of n is multiplied by n - k + 1 (Holm)."""
    known = p_values.dropna().sort_values()
    factors = np.arange(len(known), 0, -1)
    adjusted = (known * factors).cummax().clip(upper=1)
    return adjusted.reindex(p_values.index)
