"""An attacker: what it sees, its classifier, how well its scores tell values, and bounds on guesses from reports."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.inspection import permutation_importance
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from skdp.domain import Domain
from skdp.evaluation._common import counted
from skdp.local import SAMPLED, ReportProtocol
from skdp.metrics import proportion
from skdp.oracles import FrequencyOracle
from skdp.randomness import SecureSource, SeededSource
from skdp.tables import is_frame, read_table

Truth = NDArray[np.intp]
Folds = list[tuple[NDArray[np.intp], NDArray[np.intp]]]


def name_of_kind(value: Any) -> str:
    """Name the type of an object, or the class itself, in an error."""
    if isinstance(value, type):
        return f"the class {value.__name__}, not an instance"
    return type(value).__name__


def read_columns(data: Any, name: str) -> pd.DataFrame:
    """Read a table or a column of any library as a pandas frame with a fresh index."""
    if is_frame(data):
        table = read_table(data)
        names, columns = table.names, table.columns
    elif isinstance(
        nw.from_native(data, pass_through=True, allow_series=True), nw.Series
    ):
        label = getattr(data, "name", None)
        names = (name if label in (None, "") else label,)
        columns = (data,)
    else:
        names, columns = _read_array(data, name)
    if not columns:
        raise ValueError(f"{name} has no columns")
    frame = pd.DataFrame(dict(enumerate(map(_as_series, columns))))
    if len(frame) == 0:
        raise ValueError(f"{name} has no rows")
    frame.columns = pd.Index(names, tupleize_cols=False)
    return frame


def _read_array(data: Any, name: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Read an array or a list as columns, with their names."""
    # A list of objects stays one: NumPy would turn [1, "a"] into two strings.
    array = data if isinstance(data, np.ndarray) else np.array(data, dtype=object)
    if array.ndim == 1:
        return (name,), (array,)
    if array.ndim != 2:
        raise ValueError(
            f"{name} must be a table or a column, got {array.ndim} dimensions"
        )
    table = read_table(array)
    return table.names, table.columns


def _as_series(column: Any) -> pd.Series:
    """Read a column of any library as one of pandas."""
    if isinstance(column, pd.Series):
        return column.reset_index(drop=True).infer_objects()
    if not isinstance(column, np.ndarray):
        column = nw.from_native(column, series_only=True).to_numpy()
    return pd.Series(column).infer_objects()


def code_column(column: pd.Series) -> pd.Series:
    """Convert a column to numbers or categories, with nan for missing."""
    if column.isna().all():
        return pd.Series(np.zeros(len(column)))
    is_categorical = isinstance(column.dtype, pd.CategoricalDtype)
    if not is_categorical and getattr(column.dtype, "kind", "O") in "biuf":
        return pd.Series(column.to_numpy(float, na_value=np.nan))
    codes, distinct = factorize(column)
    numbers = pd.Series(np.where(codes < 0, np.nan, codes))
    # The limit of scikit-learn's histogram trees; codes of more are read as numbers.
    return numbers.astype("category") if len(distinct) <= 255 else numbers


def factorize(
    column: pd.Series, *, missing: bool = False
) -> tuple[NDArray[np.intp], Any]:
    """Assign a number to each distinct value of a column."""
    try:
        codes, distinct = pd.factorize(column, use_na_sentinel=not missing)
        return codes.astype(np.intp), distinct
    except Exception:
        # Its message may contain a value, so it must not be the context of the error
        # below.
        pass
    raise TypeError(f"column {column.name!r} holds something else than single values")


@dataclass(frozen=True)
class Outcome:
    """What an attack says of each row, by models that have not seen the row."""

    guesses: Truth
    # The probability of each value, (n_rows, n_values); None if the model states none.
    scores: NDArray[np.float64] | None
    # The models, each with the rows that it guessed.
    models: list[tuple[Any, NDArray[np.intp]]]


class Attacker:
    """A classifier that learns the true values from a release, and guesses those of other rows."""

    def __init__(
        self, estimator: Any, cv: int, seed: int | None, *, progress: bool = False
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.seed = seed
        self.progress = progress

    def run(self, release: pd.DataFrame, truth: Truth) -> Outcome:
        """Guess the true value of each row from all columns."""
        release = self._read(release)
        n_rows = len(truth)
        guesses = np.empty(n_rows, truth.dtype)
        # A value that a fold lacks has the score 0.
        scores = np.zeros((n_rows, truth.max() + 1))
        has_scores = True
        models = []
        folds = self.folds(truth)
        # With few rows, several threads are slower than one.
        n_threads = 1 if n_rows < 10_000 else None
        for train, test in counted(folds, len(folds), self.progress):
            rows = release.iloc[test]
            with threadpool_limits(n_threads, user_api="openmp"):
                model = self._fit(release.iloc[train], truth[train])
                guesses[test] = model.predict(rows)
                if hasattr(model, "predict_proba"):
                    probabilities = model.predict_proba(rows)
                    scores[np.ix_(test, model.classes_)] = probabilities
                else:
                    has_scores = False
            models.append((model, test))
        return Outcome(guesses, scores if has_scores else None, models)

    def folds(self, truth: Truth) -> Folds:
        """Split the rows into those that models learn from, and those that they guess."""
        if self.cv > len(truth):
            raise ValueError(
                f"cv must be at most the number of rows, {len(truth)}, got {self.cv}"
            )
        # Folds cannot be stratified if a value has fewer rows.
        is_frequent = np.bincount(truth).min() >= self.cv
        splitter = StratifiedKFold if is_frequent else KFold
        folds = splitter(self.cv, shuffle=True, random_state=self.seed)
        return list(folds.split(truth, truth))

    def _read(self, release: pd.DataFrame) -> pd.DataFrame:
        """Return the columns as the classifier takes them; one of an own choice gets them unchanged."""
        if self.estimator is not None:
            return release
        return _coded(release).rename(columns=str)

    def _fit(self, rows: pd.DataFrame, truth: Truth) -> Any:
        """Fit the classifier; one without columns, or of one value, says the shares."""
        if rows.shape[1] == 0 or len(np.unique(truth)) == 1:
            return DummyClassifier().fit(np.zeros((len(rows), 1)), truth)
        if self.estimator is not None:
            return clone(self.estimator).fit(rows, truth)
        # Early stopping would set rows aside, which fails for rare values. More or
        # larger trees take longer, and are worse at rare values.
        trees = HistGradientBoostingClassifier(
            max_iter=60,
            max_leaf_nodes=15,
            categorical_features="from_dtype",
            early_stopping=False,
            random_state=self.seed,
        )
        return trees.fit(rows, truth)

    def losses_of_columns(
        self, release: pd.DataFrame, truth: Truth, outcome: Outcome
    ) -> NDArray[np.float64]:
        """Return the loss of accuracy of an attack if each column is shuffled."""
        release = self._read(release)
        losses = np.zeros(release.shape[1])
        if not losses.size:
            return losses
        rng = np.random.default_rng(self.seed)
        n_shuffled = 0
        # Two thousand rows of a fold tell a loss of accuracy within a percentage point.
        most_shuffled = 2_000
        for model, test in outcome.models:
            n_rows = min(len(test), most_shuffled)
            chosen = rng.choice(test, n_rows, replace=False)
            with threadpool_limits(1, user_api="openmp"):
                importance = permutation_importance(
                    model,
                    release.iloc[chosen],
                    truth[chosen],
                    scoring="accuracy",
                    n_repeats=1,
                    random_state=self.seed,
                )
            losses += n_rows * importance.importances_mean
            n_shuffled += n_rows
        return losses / n_shuffled

    def accuracies_of_columns(self, release: pd.DataFrame, truth: Truth) -> list[float]:
        """Return the accuracy of guesses from each column by itself, by a tree."""
        folds = self.folds(truth)
        # The values of a column, or the bins of its numbers, that guesses by itself
        # tells apart.
        most_cells = 64
        tree = DecisionTreeClassifier(max_leaf_nodes=most_cells, random_state=0)
        accuracies = []
        coded = _coded(release)
        for place in coded:
            # By rank, as trees take neither infinite numbers nor those beyond float32.
            numbers = coded[place].to_numpy(float, na_value=np.nan)
            _, ranks = np.unique(numbers, return_inverse=True)
            guesses = cross_val_predict(tree, ranks[:, np.newaxis], truth, cv=folds)
            accuracies.append(float((guesses == truth).mean()))
        return accuracies


def _coded(release: pd.DataFrame) -> pd.DataFrame:
    """Convert all columns to numbers or categories, named by their places."""
    places = range(release.shape[1])
    columns = {place: code_column(release.iloc[:, place]) for place in places}
    return pd.DataFrame(columns, index=release.index)


def guessing_bound(prior: ArrayLike, epsilon: float) -> float:
    """Return the largest expected accuracy of guesses from reports of a given epsilon."""
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
    shares = _check_prior(prior)
    if isinstance(epsilon, bool | np.bool_) or not isinstance(epsilon, Real):
        raise TypeError(
            f"epsilon must be a number, at least 0, got {type(epsilon).__name__}"
        )
    if not epsilon >= 0:
        raise ValueError(f"epsilon must be at least 0, got {epsilon!r}")
    sums = np.cumsum(np.sort(shares)[::-1])
    # E P_m / (E + m - 1), divided by E, which may be infinite.
    terms = sums / (1 + np.arange(shares.size) * np.exp(-float(epsilon)))
    return min(1.0, float(terms.max()))


def bayes_accuracy(
    oracle: FrequencyOracle, prior: ArrayLike, *, groups: ArrayLike | None = None
) -> float | None:
    """Return the exact probability that the best guess from a report of an oracle is right.

    Parameters
    ----------
    oracle : FrequencyOracle
        The protocol.
    prior : array-like of shape (k,)
        The probability of each value; at least 0, with a sum of 1.
    groups : array-like of shape (k,), optional
        Groups of values to guess instead of values: those with the same entry are one, such as all ages of a sex if age
        and sex are reported together.

    Returns
    -------
    float or None
        ``sum_r max_v P(v) P(r | v)`` over all reports of the channel, in closed form if there is one; None for
        protocols that hash; with `groups`, for all channels of many reports
        except that of randomised response.

    Raises
    ------
    ValueError
        If the prior is no distribution of k values, or there is not a group for each.

    Examples
    --------
    >>> from skdp.oracles import RandomizedResponse
    >>> round(bayes_accuracy(RandomizedResponse(2, np.log(3)), [0.5, 0.5]), 6)
    0.75
    """
    shares = _check_prior(prior)
    if shares.size != oracle.k:
        raise ValueError(f"prior must have {oracle.k} entries, got {shares.size}")
    if groups is None:
        return oracle.guess_accuracy(shares)
    codes = np.unique(np.asarray(groups), return_inverse=True)[1]
    if codes.shape != shares.shape:
        raise ValueError(f"groups must have {shares.size} entries, got {codes.size}")
    return oracle.guess_accuracy(shares, codes)


def _check_prior(prior: Any) -> NDArray[np.float64]:
    """Return probabilities as an array."""
    shares = np.asarray(prior, float)
    is_list = shares.ndim == 1 and shares.size > 0
    if not is_list or not (shares >= 0).all() or abs(shares.sum() - 1) > 1e-9:
        raise ValueError("prior must be probabilities, at least 0, that add up to 1")
    return shares


EXACT = "the exact value of the protocol"


class Protected:
    """The true values of the protected columns, as codes of what the encoder declares of them."""

    def __init__(
        self, columns: pd.DataFrame, truth: NDArray[np.intp], encoder: Any
    ) -> None:
        self.encoder = encoder
        self.protocol: ReportProtocol = encoder.protocol_
        names = _names_of(columns, self.protocol)
        self.columns = columns.set_axis(names, axis=1)
        # The rows where each true value is first.
        _, self.first_rows = np.unique(truth, return_index=True)
        self.place: int | None = None
        for place, field in enumerate(self.protocol.fields):
            if set(field.columns) == set(names):
                self.place = place
        if self.place is not None:
            field = self.protocol.fields[self.place]
            self.oracle: FrequencyOracle = self.protocol.oracles[self.place]
            self.cells = self._cells_of(field.domain)
            n_cells = field.domain.size
            self.prior = np.bincount(self.cells, minlength=n_cells) / len(columns)

    def _cells_of(self, domain: Domain) -> NDArray[np.intp]:
        """Return the combination of values of each row; undeclared values are refused."""
        codes = domain.encode([self.columns[name] for name in domain.columns])
        for name, size, column in zip(domain.columns, domain.sizes, codes, strict=True):
            if column.max(initial=0) == size:
                raise ValueError(
                    f"column {name!r} of sensitive holds a value outside the declared "
                    "categories"
                )
        return domain.join(codes).astype(np.intp)

    def bound(
        self, shares: NDArray[np.float64], reports: list[Any]
    ) -> tuple[float, str]:
        """Return the bound on guesses from the visible reports alone, and its kind."""
        n_attributes = len(self.protocol.oracles)
        if self.place is None or not self._is_alone(reports):
            # Columns may be correlated, so every report of a record may reveal the
            # protected ones.
            epsilon = self.encoder.guarantee_.epsilon
            kind = f"the best protocol of epsilon = {epsilon:g}"
            if n_attributes > 1:
                kind += ", for all reports of a record together"
            return guessing_bound(shares, epsilon), kind
        exact = bayes_accuracy(self.oracle, self.prior)
        if exact is None:
            epsilon = self.oracle.epsilon
            kind = f"the best protocol of epsilon = {epsilon:g}"
            return guessing_bound(shares, epsilon), kind
        if self.protocol.strategy == "sample":
            # One attribute of each record is reported; of the others, the guess is the
            # most frequent value.
            blind = (n_attributes - 1) * self.prior.max()
            exact = float((exact + blind) / n_attributes)
        return exact, EXACT

    def _is_alone(self, reports: list[Any]) -> bool:
        """Whether no report of another attribute is visible; a renamed report may be one."""
        if len(self.protocol.oracles) == 1:
            return True
        assert self.place is not None
        names = {*self.protocol.fields[self.place].names(), SAMPLED}
        return set(reports) <= names

    def best_guess(self, seed: int | None) -> tuple[float | None, Any]:
        """Return the accuracy of the best guess from the report alone, and the `auc` of each true value."""
        if self.place is None:
            return None, np.full(len(self.first_rows), np.nan)
        rate = 1.0
        if self.protocol.strategy == "sample":
            rate = 1 / len(self.protocol.oracles)
        accuracy, areas = best_of_report(self.oracle, self.prior, rate, seed)
        return accuracy, areas[self.cells[self.first_rows]]

    def labels(self) -> list[Any]:
        """Return the declared labels of the true values."""
        assert self.protocol.domain is not None
        domain = self.protocol.domain.select(list(self.columns))
        return list(domain.cells()[self._cells_of(domain)[self.first_rows]])


def _names_of(protected: pd.DataFrame, protocol: ReportProtocol) -> list[Any]:
    """Find the protected columns among those of the encoder; a single one needs no name."""
    assert protocol.domain is not None
    names = list(protected.columns)
    declared = list(protocol.domain.columns)
    if len(names) == len(declared) == 1:
        return declared
    absent = [name for name in names if name not in declared]
    if absent:
        raise ValueError(
            f"sensitive must be columns of the encoder, by their names {declared}; "
            f"{absent} are not"
        )
    return names


Numbers = NDArray[np.float64]


def value_table(
    truth: Truth, outcome: Outcome, *, confidence_level: float = 0.95
) -> pd.DataFrame:
    """Measure the guesses and the scores of an attack, value by value, with intervals over the draw of the rows."""
    n_rows = np.bincount(truth)
    n_guessed = np.bincount(outcome.guesses, minlength=n_rows.size)
    n_hits = np.bincount(truth[truth == outcome.guesses], minlength=n_rows.size)
    table = pd.DataFrame({"share": n_rows / len(truth)})
    precision = proportion(n_hits, n_guessed, confidence_level)
    table["precision"] = precision.value
    table["precision_lower"] = precision.lower
    table["precision_upper"] = precision.upper
    # (n_values, 6): the columns below.
    measures = np.full((n_rows.size, 6), np.nan)
    if outcome.scores is not None:
        # Models round, so scores that differ in the last digits are equal.
        for code, scores in enumerate(np.round(outcome.scores, 12).T):
            is_value = truth == code
            areas = area(scores[is_value], scores[~is_value], confidence_level)
            lifts = _lift(scores, is_value, confidence_level)
            measures[code] = *areas, *lifts
    ends = ("", "_lower", "_upper")
    names = [name + end for name in ("auc", "lift") for end in ends]
    table[names] = measures
    return table


def _lift(
    scores: Numbers, is_value: NDArray[np.bool_], level: float
) -> tuple[float, float, float]:
    """Return how many times more frequent a value is among the rows of the highest scores, with Wilson's interval."""
    # The share of the rows among which `lift` counts.
    top = 0.01
    n_first = top * len(scores)
    # Within equal scores the order is random: each row of them counts as their mean.
    _, rank = np.unique(-scores, return_inverse=True)
    n_rows = np.bincount(rank).cumsum()
    n_with_value = np.bincount(rank, is_value).cumsum()
    n_found = np.interp(n_first, [0, *n_rows], [0, *n_with_value])
    share = proportion(n_found, n_first, level)
    ends = np.array([share.value, share.lower, share.upper]) / is_value.mean()
    return tuple(ends.tolist())


def best_of_report(
    oracle: FrequencyOracle, prior: Numbers, rate: float, seed: int | None
) -> tuple[float, Numbers]:
    """Return the accuracy of the best guess from a report, which is made at a rate, and each value's `auc`."""
    # A larger channel takes more time than drawing reports.
    if oracle.shows_hash or oracle.k * oracle.n_reports > 1 << 16:
        joint = _drawn_joint(oracle, prior, seed)
    else:
        channel = [list(map(float, row)) for row in oracle.channel()]
        joint = np.array(channel).T * prior  # (n_reports, k)
    # (n_reports + 1, k): without a report, the prior is all that is known.
    joint = np.concatenate([rate * joint, (1 - rate) * prior[np.newaxis]])
    total = joint.sum(axis=1)
    posterior = joint / np.where(total > 0, total, 1)[:, np.newaxis]
    areas = np.full(oracle.k, np.nan)
    # Of a value that does not occur, there is nothing to rank.
    for code in np.flatnonzero((prior > 0) & (prior < 1)):
        scores = np.round(posterior[:, code], 12)
        mass = joint[:, code]
        areas[code] = roc_auc_score(
            np.repeat([True, False], len(joint)),
            np.tile(scores, 2),
            sample_weight=np.concatenate([mass, total - mass]),
        )
    exact = oracle.guess_accuracy(prior)
    accuracy = float(joint.max(axis=1).sum())
    if exact is not None:
        accuracy = float(rate * exact + (1 - rate) * prior.max())
    return accuracy, areas


def _drawn_joint(oracle: FrequencyOracle, prior: Numbers, seed: int | None) -> Numbers:
    """Draw reports of values that are as frequent as the prior says, and return their joint probabilities."""
    # Ten thousand, for an error of .005; fewer of so many values that memory is short.
    n_draws = max(100, min(10_000, (1 << 24) // oracle.k))
    ends = np.rint(np.cumsum(prior) * n_draws).astype(int)
    # Stratified: as many draws of each value as the prior says.
    codes = np.repeat(np.arange(oracle.k), np.diff(ends, prepend=0)).astype(np.uint32)
    source = SecureSource() if seed is None else SeededSource(seed)
    reports = oracle.report(codes, source)
    ratio = float(oracle.support_ratio)
    likelihoods = np.where(oracle.supports(reports), ratio, 1.0)
    joint = likelihoods * prior
    # Each draw has the same weight, whatever its likelihoods are multiples of.
    weights = np.full(len(codes), 1 / len(codes))
    joint *= (weights / joint.sum(axis=1))[:, np.newaxis]
    return joint


def area(
    inside: ArrayLike, outside: ArrayLike, level: float
) -> tuple[float, float, float]:
    """Return the area under the ROC curve, with Wilson's interval for the rows that DeLong's error implies."""
    # E. DeLong, D. DeLong, D. Clarke-Pearson (1988). Comparing the areas under two or
    # more correlated receiver operating characteristic curves: a nonparametric
    # approach. Biometrics 44(3).
    # Of few rows DeLong's variance is too small, and 0 if they are ranked alike: three
    # more are added to each group, of the variance of one that is above all others, or
    # below. In 48 simulations with 5 to 200 rows inside, 500 or 800 outside, and areas
    # from .5 to .995, .90 to 1 of the intervals held the truth, .96 on average; of
    # value ± 1.96 standard errors, .43 to .98. Newcombe's score interval (2006), which
    # takes both groups as exponential, holds .23 of an area of .99 of five skewed rows.
    parts = _shares_below(inside, outside)
    auc = parts[0].mean()
    n_few = min(part.size for part in parts)
    centre = (n_few * auc + 1) / (n_few + 2)
    largest = centre * (1 - centre)
    variance = 0.0
    delong = 0.0
    for part in parts:
        squares = ((part - part.mean()) ** 2).sum()
        variance += (squares + 3 * largest) / (part.size + 2) / part.size
        delong += squares / max(part.size - 1, 1) / part.size
    n = largest / variance
    if delong > 0:
        n = min(n, auc * (1 - auc) / delong)
    interval = proportion(auc * n, n, level)
    return float(auc), float(interval.lower), float(interval.upper)


def _shares_below(inside: ArrayLike, outside: ArrayLike) -> tuple[Numbers, Numbers]:
    """Return the share of the others below each score of the inside, and of the inside above each of the others."""
    members, outsiders = np.asarray(inside, float), np.asarray(outside, float)
    ranks = rankdata(np.concatenate([members, outsiders]))
    # Of the ranks among all, those among the own are taken off; ties count half.
    n_below = ranks[: members.size] - rankdata(members)
    n_not_above = ranks[members.size :] - rankdata(outsiders)
    return n_below / outsiders.size, 1 - n_not_above / members.size
